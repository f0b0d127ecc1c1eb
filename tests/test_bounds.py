# SPDX-License-Identifier: GPL-2.0-only
"""The bounds: never beaten by any revision or valid grouping, and reached by some grouping."""

from collections import Counter
from functools import cache
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.topology import Topology
from groupcpus.machines.bounds import (
    best_maximum,
    crowding,
    forced_cpus,
    least_maximum,
    most_used,
    takes_first,
)
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.probe import simulate
from tests.strategies import made, offsets, revisions


@cache
def partitions(cpus):
    """Every partition of a tuple of CPUs into sets."""
    if not cpus:
        return ((),)
    found = []
    for rest in partitions(cpus[1:]):
        found.append((frozenset(cpus[:1]), *rest))
        found += [(*rest[:at], rest[at] | {cpus[0]}, *rest[at + 1 :]) for at, _ in enumerate(rest)]
    return tuple(found)


def valid_groupings(topology, numgrps):
    """Every partition of the CPUs into numgrps groups that respects nodes; see bounds."""
    nodes = [tuple(cpus) for cpus in topology.nodes.values() if cpus]
    wanted = min(numgrps, len(topology.possible))
    if numgrps <= len(nodes):
        for merged in partitions(tuple(range(len(nodes)))):
            if len(merged) == numgrps:
                yield [CpuSet(cpu for at in part for cpu in nodes[at]) for part in merged]
        return
    for parts in product(*map(partitions, nodes)):
        groups = [CpuSet(group) for part in parts for group in part]
        if len(groups) == wanted:
            yield groups


def tiny_machines():
    """Machines of up to 5 CPUs: every cut into nodes of neighbours, and two with CPUs offline."""
    for count in range(1, 6):
        for cuts in range(1 << (count - 1)):
            node, nodes = 0, dict[int, list[int]]()
            for cpu in range(count):
                node += cpu > 0 and cuts >> (cpu - 1) & 1
                nodes.setdefault(node, []).append(cpu)
            sets = {node: CpuSet(cpus) for node, cpus in nodes.items()}
            everything = CpuSet(range(count))
            yield Topology(everything, everything, everything, sets)
    for online in ("1,3-4", "4"):
        sets = {0: CpuSet("0-2"), 1: CpuSet("3-4")}
        yield Topology(CpuSet("0-4"), CpuSet("0-4"), CpuSet(online), sets)


def firsts(topology, groups):
    return frozenset(min(group & topology.online) for group in groups if group & topology.online)


@pytest.mark.parametrize("topology", list(tiny_machines()), ids=lambda t: str(dict(t.nodes)))
def test_no_valid_grouping_beats_the_bounds_and_some_reach_them(topology):
    """All partitions of all tiny machines, in one to three calls."""
    reachable = {
        numgrps: {firsts(topology, groups) for groups in valid_groupings(topology, numgrps)}
        for numgrps in range(1, len(topology.possible) + 2)
    }
    for numgrps, sets in reachable.items():
        always = CpuSet(frozenset.intersection(*sets))
        assert forced_cpus(topology, numgrps, "gicv3") <= always
        if numgrps < len(topology.possible):
            assert forced_cpus(topology, numgrps, "gicv3") == always
    for calls in (1, 2, 3):
        for asked in combinations_with_replacement(reachable, calls):
            runs = list(product(*(reachable[numgrps] for numgrps in asked)))
            used = max(len(frozenset.union(*run)) for run in runs)
            assert used == most_used(topology, asked, "gicv3"), (asked, used)
            greatest = {max(Counter(cpu for s in run for cpu in s).values()) for run in runs}
            irqs = max(sum(map(len, run)) for run in runs)
            assert greatest == {least_maximum(len(topology.online), irqs, calls, "gicv3")}


@st.composite
def probed(draw):
    """Draw a machine with devices and how they are probed, and probe them."""
    topology = draw(made(max_cpus=16)).topology
    assume(topology.online)
    devices = tuple(
        Device(
            f"{kind}{at}",
            kind,
            draw(st.integers(1, 20)),
            draw(st.integers(0, 4)) if kind == "nvme" else 0,
            draw(st.integers(0, 4)) if kind == "nvme" else 0,
        )
        for at, kind in enumerate(
            draw(st.lists(st.sampled_from(["nvme", "virtio", "loop", "irqs"]), max_size=5))
        )
    )
    irqchip = draw(st.sampled_from(list(IRQCHIPS)))
    machine = Machine("made", "made", "x86_64", irqchip, topology, devices)
    return simulate(
        machine,
        revision=draw(revisions),
        probe=draw(st.sampled_from(["admin-first", "interleaved"])),
        spread_start=draw(offsets),
    )


@given(probed())
def test_no_revision_beats_the_bounds(run):
    summary = run.summary
    assert summary.best <= summary.greatest
    assert summary.best_with_masks <= summary.greatest
    assert summary.used <= summary.most_used <= summary.cpus
    calls = sum(call.kind in ("default", "read") for call in run.calls)
    assert summary.greatest <= calls  # one mask a call holds the CPU
    if takes_first(run.irqchip) and summary.irqs:
        assert summary.best == summary.greatest  # the only possible one
    for device in {irq.device for irq in run.interrupts}:
        for kind in {irq.kind for irq in run.interrupts if irq.device == device}:
            own = [irq for irq in run.interrupts if (irq.device, irq.kind) == (device, kind)]
            asked = next(c.numgrps for c in run.calls if (c.device, c.kind) == (device, kind))
            served = CpuSet(irq.effective for irq in own if irq.effective is not None)
            assert forced_cpus(run.machine.topology, asked, run.irqchip) <= served


def placings(masks):
    """Every choice of a CPU for each mask."""
    return product(*map(tuple, masks))


@given(
    st.lists(st.sets(st.integers(0, 4), min_size=1).map(CpuSet), max_size=5),
    st.sampled_from(["0-4", "0-1,4", "3"]),
)
def test_the_flow_finds_what_trying_all_choices_finds(masks, online):
    everything = CpuSet("0-4")
    topology = Topology(everything, everything, CpuSet(online), {0: everything})
    reachable = [mask & topology.online for mask in masks if mask & topology.online]
    least = min(max(Counter(cpus).values(), default=0) for cpus in placings(reachable))
    assert best_maximum(topology, masks) == least
    assert best_maximum(topology, masks, reached=least) == least
    assert best_maximum(topology, masks, reached=len(masks)) == least
    counts = Counter(mask.mask for mask in reachable)
    every_set = [bits for bits in range(1, 32) if not bits & ~topology.online.mask]
    assert crowding(counts, every_set) == least  # Hall's condition: some set tells


@pytest.mark.parametrize(
    ("name", "irqchip", "best", "used"),
    [
        ("D16plds_v6", "gicv3", 2, 11),
        ("D16plds_v6", "its-first", 2, 11),
        ("D16plds_v6", "its", 1, 12),
        ("D96plds_v6", "gicv3", 6, 74),
        ("D96plds_v6", "x86", 1, 84),
        ("L48s_v2", "x86", 4, 48),
        ("L48s_v2", "gicv3", 6, 48),
        ("L96as_v4", "x86", 4, 96),
    ],
)
def test_the_bounds_of_the_machines(name, irqchip, best, used):
    run = simulate(name, revision="numa", irqchip=irqchip)
    assert (run.summary.best, run.summary.most_used) == (best, used)


def test_even_groups_reach_the_bound_on_d16plds():
    """11 CPUs, CPU 0 with 2: the bound holds with equality for groups of 2 and 3 neighbours."""
    topology = read_machine("D16plds_v6").topology
    used = {
        (a, b): len(
            firsts(topology, grouping(topology, a)) | firsts(topology, grouping(topology, b))
        )
        for a, b in product(range(6), repeat=2)
    }
    assert max(used.values()) == most_used(topology, [6, 6], "gicv3")
    assert {(a, b) for (a, b), cpus in used.items() if cpus == 11} == {(0, 4), (4, 0)}


def grouping(topology, offset):
    return group_cpus_evenly(topology, 6, revision="rotate-v2", spread_offset=offset).masks


def test_edges():
    everything, nobody = CpuSet("0-3"), CpuSet()
    offline = Topology(everything, everything, nobody, {0: everything})
    for irqchip in IRQCHIPS:
        assert most_used(offline, [4], irqchip) == 0
        assert forced_cpus(offline, 4, irqchip) == nobody
        assert most_used(Topology.uniform(1, 4), [], irqchip) == 0
    assert least_maximum(0, 0, 0, "x86") == least_maximum(4, 0, 0, "gicv3") == 0
    assert best_maximum(offline, [everything]) == best_maximum(offline, []) == 0
