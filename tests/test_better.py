# SPDX-License-Identifier: GPL-2.0-only
"""What rotate-tiled promises: each call alone, rows of calls, and what no revision can do."""

from collections import Counter
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.irqchips import FirstCpu, VectorMatrix
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.steps import Assigned
from groupcpus.engine.topology import Topology
from groupcpus.machines.bounds import reachable_cpus, reachable_maximum
from groupcpus.studies.rotation import continue_shares, deal_tiles
from tests.strategies import WRAP, made, numgrps_for, offsets

TILED = REVISIONS["rotate-tiled"]
NEAR_THE_WRAP = range(WRAP - 20, WRAP)


def masks_of(topology, numgrps, total, revision=TILED):
    answer = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=total)
    return [mask.mask for mask in answer.masks]


def calls_of(topology, sizes, start=0, revision=TILED):
    """Make calls one after another; the masks of each."""
    counter, masks = start, []
    for numgrps in sizes:
        masks.append(masks_of(topology, numgrps, counter, revision))
        counter = (counter + revision.advance(numgrps)) % WRAP
    return masks


def loads(topology, calls, chip):
    """How many interrupts each CPU handles."""
    chip = chip(topology)
    handled = Counter(dict.fromkeys(topology.possible, 0))
    for masks in calls:
        handled.update(chip.assign([CpuSet.from_mask(mask) for mask in masks if mask]))
    return handled


def node_masks(topology):
    return [cpus.mask for cpus in topology.nodes.values() if cpus]


def crossing(masks, parts):
    """How many masks have CPUs of several parts."""
    return sum(sum(bool(mask & part) for part in parts) > 1 for mask in masks)


def inside(masks, part):
    return sum(bool(mask & part) for mask in masks)


# ---- each call alone -----------------------------------------------------------------------


@given(made(), st.data())
def test_a_call_is_valid_on_any_machine_at_any_counter(machine, data):
    numgrps = data.draw(numgrps_for(machine))
    total = data.draw(offsets)
    masks = masks_of(machine.topology, numgrps, total)
    possible = machine.topology.possible
    assert sum(mask.bit_count() for mask in masks) == len(possible)
    union = 0
    for mask in masks:
        union |= mask
    assert union == possible.mask
    filled = min(numgrps, len(possible))
    assert all(masks[:filled])
    assert not any(masks[filled:])
    assert masks == masks_of(machine.topology, numgrps, total + WRAP)


@given(made(absent=False), st.data())
def test_nodes_and_clusters_get_what_cluster_gives_them(machine, data):
    """Which of the equally large ones has one more differs, and nothing else."""
    topology = machine.topology
    numgrps = data.draw(numgrps_for(machine))
    masks = [mask for mask in masks_of(topology, numgrps, data.draw(offsets)) if mask]
    before = [mask for mask in masks_of(topology, numgrps, 0, "cluster") if mask]
    nodes = node_masks(topology)

    def shares(groups, parts):
        return sorted((part.bit_count(), inside(groups, part)) for part in parts)

    assert shares(masks, nodes) == shares(before, nodes)
    if numgrps <= len(nodes):
        return
    assert crossing(masks, nodes) == 0
    for node in nodes:
        groups = [mask for mask in masks if mask & node]
        # The same node alone, with as many groups.
        alone = machine_of(topology, node)
        expected = [mask for mask in masks_of(alone, len(groups), 0, "cluster") if mask]
        parts = [CpuSet(cluster).mask for cluster in alone.clusters_in(alone.possible) or []]
        if parts and len(parts) <= len(groups):
            assert shares(groups, parts) == shares(expected, parts)
            assert crossing(groups, parts) == 0
        else:
            parts = [node]
        for part in parts:
            sizes = [mask.bit_count() for mask in groups if mask & part]
            assert max(sizes) - min(sizes) <= 1


def machine_of(topology, node):
    """Make a machine of one node's CPUs."""
    cpus = CpuSet.from_mask(node)
    return Topology(
        cpus,
        cpus,
        cpus,
        {0: cpus},
        [cluster & cpus for cluster in topology.clusters if cluster & cpus],
        [core & cpus for core in topology.siblings if core & cpus],
        no_cluster=topology.no_cluster & cpus,
    )


SMALL = [
    Topology.uniform(nodes, cpus, threads, cluster)
    for nodes in (1, 2, 3)
    for cpus in (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 16)
    for threads in (1, 2, 4)
    for cluster in (0, None, 2, 4, 8)
    if cpus % max(threads, cluster or 1) == 0
]


@pytest.mark.slow
def test_no_more_groups_cross_a_border_than_with_cluster():
    """Every small machine of equal parts, every number of groups, counters up to the wrap."""
    for topology in SMALL:
        nodes = node_masks(topology)
        clusters = [cpus.mask for cpus in topology.clusters]
        cores = [cpus.mask for cpus in topology.siblings]
        ncpus = len(topology.possible)
        for numgrps in range(1, ncpus + 1):
            before = masks_of(topology, numgrps, 0, "cluster")
            allowed = [crossing(before, parts) for parts in (nodes, clusters, cores)]
            for total in (*range(0, 2 * ncpus, 7), *NEAR_THE_WRAP[::7]):
                masks = masks_of(topology, numgrps, total)
                assert sum(masks) == topology.possible.mask
                found = [crossing(masks, parts) for parts in (nodes, clusters, cores)]
                assert all(map(int.__le__, found, allowed)), (topology, numgrps, total)
                assert found[:2] == allowed[:2], "fewer would be welcome, but it can't be"


@given(made(absent=False), st.data())
def test_the_explained_answer_is_the_answer(machine, data):
    numgrps = data.draw(numgrps_for(machine))
    total = data.draw(offsets)
    answer, trace = explain(machine.topology, numgrps, revision=TILED, spread_offset=total)
    assert [mask.mask for mask in answer.masks] == masks_of(machine.topology, numgrps, total)
    assigned = Counter(cpu for step in trace if isinstance(step, Assigned) for cpu in step.cpus)
    assert assigned == Counter(machine.topology.possible)
    assert all(map(str, trace))


def test_a_call_for_one_group_moves_nothing():
    assert [TILED.advance(numgrps) for numgrps in (1, 2, 62)] == [0, 2, 62]
    assert TILED.offset(1, 77) == 0
    assert TILED.offset(2, WRAP + 77) == 77


# ---- rows of calls -------------------------------------------------------------------------


def test_equal_nodes_ever_get_equally_many_groups():
    """Whatever the sizes of the calls, and where the counter stood."""
    for count, start in product(range(1, 7), (0, 5, 1000)):
        given = [0] * count
        total = start
        _, before = continue_shares([8] * count, [1] * count, total, 0)
        for numgrps in (count, 2 * count + 1, 3 * count - 1, count, 4 * count - 1) * 3:
            ngroups = [numgrps // count] * count
            ngroups[-1] += numgrps % count
            ngroups, totals = continue_shares([8] * count, ngroups, total, total // numgrps)
            assert sum(ngroups) == numgrps
            assert totals == [a + b for a, b in zip(before, given, strict=True)]
            given = [a + b for a, b in zip(given, ngroups, strict=True)]
            assert max(given) - min(given) <= 1
            total += numgrps


@pytest.mark.parametrize("ncpus", range(2, 25))
def test_in_any_row_of_calls_every_cpu_ends_equally_many_groups(ncpus):
    """The reason why x86 can balance: if the last CPU of each group were picked, it would."""
    for ngroups in range(1, ncpus // 2 + 1):
        ends = []
        for call in range(2 * ncpus):
            deal = deal_tiles([], [1] * ncpus, ngroups, call * ngroups)
            assert deal is not None
            assert sum(deal.sizes) == ncpus
            assert {*deal.sizes} <= {ncpus // ngroups, -(-ncpus // ngroups)}
            at = deal.first - 1
            ends.append([(at := at + size) % ncpus for size in deal.sizes])
        for first, last in combinations(range(0, 2 * ncpus + 1, 3), 2):
            counts = Counter(cpu for call in ends[first:last] for cpu in call)
            even = (last - first) * ngroups
            assert {counts[cpu] for cpu in range(ncpus)} <= {even // ncpus, -(-even // ncpus)}


@pytest.mark.parametrize("ncpus", range(2, 25))
def test_groups_with_one_cpu_more_meet_every_cpu_equally_often(ncpus):
    """Singles and pairs, in calls of all sizes: pairs are laid end to end."""
    paired: Counter[int] = Counter()
    total = 0
    for ngroups in [*range(ncpus // 2 + 1, ncpus), *range(ncpus - 1, ncpus // 2, -1)] * 2:
        deal = deal_tiles([], [1] * ncpus, ngroups, total)
        assert deal is not None
        for (start, end), size in zip(
            pairwise([sum(deal.sizes[:at]) for at in range(ngroups + 1)]), deal.sizes, strict=True
        ):
            if size == 2:
                paired.update((deal.first + at) % ncpus for at in range(start, end))
        counts = [paired[cpu] for cpu in range(ncpus)]
        assert max(counts) - min(counts) <= 1
        total += ngroups


@pytest.mark.parametrize("ncpus", range(2, 21))
def test_equal_devices_reach_both_bounds_without_parts(ncpus):
    """2 to 12 devices of any size on a machine without clusters and threads: nothing is better."""
    topology = Topology.uniform(1, ncpus, 1, 0)
    for numgrps in range(2, ncpus):
        calls = calls_of(topology, [numgrps] * 12)
        for devices in range(2, 13):
            sizes = [numgrps] * devices
            handled = loads(topology, calls[:devices], VectorMatrix)
            assert max(handled.values()) == reachable_maximum(topology, sizes)
            assert max(handled.values()) == -(-devices * numgrps // ncpus)
            if numgrps <= ncpus // 2:
                handled = loads(topology, calls[:devices], FirstCpu)
                assert sum(map(bool, handled.values())) == reachable_cpus(topology, sizes)


@given(made(absent=False), st.data())
def test_no_machine_beats_the_reachable_maximum(machine, data):
    every = machine.topology.possible
    topology = Topology.from_dict(machine.document | {"online": str(every)})
    sizes = data.draw(st.lists(numgrps_for(machine), min_size=1, max_size=5))
    revision = data.draw(st.sampled_from(["cluster", "rotate-next", "rotate-tiled"]))
    calls = calls_of(topology, sizes, data.draw(offsets), REVISIONS[revision])
    greatest = max(loads(topology, calls, VectorMatrix).values())
    assert greatest >= reachable_maximum(topology, sizes) >= 1


@given(st.data())
def test_no_machine_uses_more_than_the_reachable_cpus(data):
    topology = data.draw(st.sampled_from(SMALL))
    sizes = data.draw(st.lists(st.integers(2, len(topology.possible) + 2), min_size=1, max_size=6))
    revision = data.draw(st.sampled_from(["cluster", "rotate-tiled"]))
    calls = calls_of(topology, sizes, data.draw(offsets), REVISIONS[revision])
    used = sum(map(bool, loads(topology, calls, FirstCpu).values()))
    assert used <= reachable_cpus(topology, sizes)


# ---- what no revision can do ---------------------------------------------------------------


def test_no_order_of_masks_is_best_on_both_irqchips_from_every_start():
    """Four CPUs, two groups a call: all there is to choose from is how the CPUs are paired.

    To use three CPUs within two calls, GICv3 needs 0-1 2-3 next to another pairing. But x86, when
    the other pairing comes first, puts two interrupts on one CPU.
    """
    topology = Topology.uniform(1, 4, 1, 0)
    pairings = [[0b0011, 0b1100], [0b0101, 0b1010], [0b1001, 0b0110]]
    best = []
    for calls in product(pairings, repeat=2):
        used = sum(map(bool, loads(topology, calls, FirstCpu).values()))
        greatest = max(loads(topology, calls, VectorMatrix).values())
        assert used <= reachable_cpus(topology, [2, 2]) == 3
        if used == 3 and greatest == reachable_maximum(topology, [2, 2]) == 1:
            best.append(calls)
    # After such a pair of calls comes one that would have to start with its second pairing.
    assert best == [(pairings[0], pairings[2])]
    assert not any(second == first for (_, second), (first, _) in product(best, best))
    # rotate-tiled is best from an even start, and pays on x86 from an odd one.
    for start, greatest in ((0, 1), (2, 2), (4, 1)):
        calls = calls_of(topology, [2, 2], start)
        assert max(loads(topology, calls, VectorMatrix).values()) == greatest
        assert sum(map(bool, loads(topology, calls, FirstCpu).values())) == 3
