# SPDX-License-Identifier: GPL-2.0-only
"""The engine beside the plain transliteration, cold: each round has a machine of its own.

Beside it stands the time on a machine that was asked before, as when a slider moves (its offset
is new each time, so no answer can be remembered). Nothing that is timed is asserted; the ratios
are printed before the table.
"""

import gc
import time
from statistics import median

import pytest

from benchmarks.conftest import forget, uniform
from groupcpus.grouping import group_cpus_evenly
from groupcpus.topology import Topology
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


def engine_call(document, numgrps, revision):
    """Make a fresh machine; what is timed is the call on it, and the making of its CPU sets."""
    forget()
    return call_on(Topology.from_dict(document), numgrps, revision, 7)


def call_on(topology, numgrps, revision, spread_offset):
    return lambda: (
        group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=spread_offset).masks
    )


def plain_call(document, numgrps, revision):
    topology = plain.PlainTopology(document)
    return lambda: plain.group_cpus_evenly(topology, numgrps, revision, 7)


def seconds(call):
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@pytest.fixture(autouse=True)
def _no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rounds_for(document):
    return 50 if len(document["siblings"]) < 100 else 8


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_against_plain(benchmark, note, machine, revision):
    document, numgrps = MACHINES[machine]
    ours = engine_call(document, numgrps, revision)()
    masks, _ = plain_call(document, numgrps, revision)()
    assert [cpus.mask for cpus in ours] == masks

    # In turn, so that a busy moment of the computer meets both.
    known = Topology.from_dict(document)
    ours_took, known_took, plain_took = [], [], []
    for offset in range(rounds_for(document)):
        ours_took.append(seconds(engine_call(document, numgrps, revision)))
        plain_took.append(seconds(plain_call(document, numgrps, revision)))
        known_took.append(seconds(call_on(known, numgrps, revision, offset)))
    ratio = median(plain_took) / median(ours_took)
    note(
        f"{machine:24} {revision:12} {numgrps:5} groups: engine {median(ours_took) * 1e6:8.0f} us, "
        f"plain {median(plain_took) * 1e6:8.0f} us, {ratio:5.1f} times "
        f"({median(plain_took) / median(known_took[1:]):.1f} on a known machine)"
    )
    benchmark.group = f"{machine}, {numgrps} groups"
    benchmark.extra_info.update(machine=machine, revision=revision, plain_over_engine=ratio)
    benchmark.pedantic(
        lambda call: call(),
        setup=lambda: ((engine_call(document, numgrps, revision),), {}),
        rounds=rounds_for(document),
    )


@pytest.mark.parametrize("revision", ["cluster", "rotate-next"])
@pytest.mark.parametrize("numbering", SIZES)
def test_growth(benchmark, note, numbering, revision):
    """8,192 CPUs in 4,096 groups against 512 in 256: 16 times as much of everything."""
    small, large = SIZES[numbering]
    small_took, large_took = [], []
    for _ in range(6):
        small_took.append(seconds(engine_call(small, 256, revision)))
        large_took.append(seconds(engine_call(large, 4096, revision)))
    growth = median(large_took) / median(small_took)
    note(
        f"{numbering:24} {revision:12} 512 CPUs in 256: {median(small_took) * 1e6:6.0f} us, "
        f"8,192 in 4,096: {median(large_took) * 1e6:8.0f} us, {growth:5.1f} times"
    )
    benchmark.group = "8,192 CPUs, 4,096 groups"
    benchmark.extra_info.update(numbering=numbering, revision=revision, growth=growth)
    benchmark.pedantic(
        lambda call: call(),
        setup=lambda: ((engine_call(large, 4096, revision),), {}),
        rounds=3,
    )
