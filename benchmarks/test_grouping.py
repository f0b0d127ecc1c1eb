# SPDX-License-Identifier: GPL-2.0-only
"""The engine beside the plain transliteration, without a cache of results.

Each round has a machine of its own and asks it several times, as a run of several devices does,
each time with another offset, so that no answer can be remembered.  The plain one gives masks as
integers.  So does a call of the engine; it makes them into CPU sets when it is asked for them, and
both are measured.  Nothing that is timed is asserted; the ratios are printed before the table.
"""

import gc
import time
from statistics import median

import pytest

from benchmarks.conftest import forget, uniform
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.topology import Topology
from tests import plain

MACHINES = {
    "L96as_v4": (uniform(2, 48), 62),
    "L96as_v4, strided": (uniform(2, 48, strided=True), 62),
    "2,048 CPUs": (uniform(2, 1024), 2000),
    "2,048 CPUs, strided": (uniform(2, 1024, strided=True), 2000),
    # Without known clusters: nodes deal their CPUs themselves.
    "2,048 CPUs, no clusters": (
        uniform(2, 1024) | {"clusters": [], "no_cluster": "0-2047"},
        2000,
    ),
}
REVISIONS = ["numa", "cluster", "rotate-v2", "rotate-next"]
SIZES = {
    "pairs": (uniform(2, 256), uniform(2, 4096)),
    "strided": (uniform(2, 256, strided=True), uniform(2, 4096, strided=True)),
}


CALLS = 10


def engine_calls(document, numgrps, revision, sets=True):
    """Make a fresh machine; what is timed are the calls on it."""
    forget()
    topology = Topology.from_dict(document)

    def calls():
        for offset in range(7, 7 + CALLS):
            grouping = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset)
            if sets:
                _ = grouping.masks

    return calls


def plain_calls(document, numgrps, revision):
    topology = plain.PlainTopology(document)

    def calls():
        for offset in range(7, 7 + CALLS):
            plain.group_cpus_evenly(topology, numgrps, revision, offset)

    return calls


def seconds(calls):
    """Give the time of a call."""
    started = time.perf_counter()
    calls()
    return (time.perf_counter() - started) / CALLS


@pytest.fixture(autouse=True)
def _no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rounds_for(document):
    return 20 if len(document["siblings"]) < 100 else 3


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_against_plain(benchmark, note, machine, revision):
    document, numgrps = MACHINES[machine]
    ours = group_cpus_evenly(
        Topology.from_dict(document), numgrps, revision=revision, spread_offset=7
    )
    masks, _ = plain.group_cpus_evenly(plain.PlainTopology(document), numgrps, revision, 7)
    assert list(ours.bits) == masks

    # In turn, so that a busy moment of the computer meets all of them.
    call_took, sets_took, plain_took = [], [], []
    for _ in range(rounds_for(document)):
        call_took.append(seconds(engine_calls(document, numgrps, revision, sets=False)))
        plain_took.append(seconds(plain_calls(document, numgrps, revision)))
        sets_took.append(seconds(engine_calls(document, numgrps, revision)))
    ratio = median(plain_took) / median(call_took)
    with_sets = median(plain_took) / median(sets_took)
    note(
        f"{machine:24} {revision:12} {numgrps:5} groups: engine {median(call_took) * 1e6:8.0f} us, "
        f"plain {median(plain_took) * 1e6:8.0f} us, {ratio:5.1f} times "
        f"({with_sets:.1f} with the CPU sets)"
    )
    benchmark.group = f"{machine}, {numgrps} groups, {CALLS} calls"
    benchmark.extra_info.update(
        machine=machine, revision=revision, plain_over_engine=ratio, with_sets=with_sets
    )
    benchmark.pedantic(
        lambda calls: calls(),
        setup=lambda: ((engine_calls(document, numgrps, revision),), {}),
        rounds=rounds_for(document),
    )


@pytest.mark.parametrize("revision", ["cluster", "rotate-next"])
@pytest.mark.parametrize("numbering", SIZES)
def test_growth(benchmark, note, numbering, revision):
    """8,192 CPUs in 4,096 groups against 512 in 256: 16 times as much of everything."""
    small, large = SIZES[numbering]
    small_took, large_took = [], []
    for _ in range(6):
        small_took.append(seconds(engine_calls(small, 256, revision)))
        large_took.append(seconds(engine_calls(large, 4096, revision)))
    growth = median(large_took) / median(small_took)
    note(
        f"{numbering:24} {revision:12} 512 CPUs in 256: {median(small_took) * 1e6:6.0f} us, "
        f"8,192 in 4,096: {median(large_took) * 1e6:8.0f} us, {growth:5.1f} times"
    )
    benchmark.group = "8,192 CPUs, 4,096 groups"
    benchmark.extra_info.update(numbering=numbering, revision=revision, growth=growth)
    benchmark.pedantic(
        lambda calls: calls(),
        setup=lambda: ((engine_calls(large, 4096, revision),), {}),
        rounds=3,
    )
