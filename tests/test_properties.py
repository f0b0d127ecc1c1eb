# SPDX-License-Identifier: GPL-2.0-only
"""What holds on every machine, whatever the kernel's answer is in detail.

Where a revision breaks one of these, it is stated here, with the smallest example.

A note on the counter's wrap. The revisions in `SUMMING` choose the groups with an extra CPU by
``(v + spread_offset) % g < n % g`` with a 32-bit sum, v counting the g groups of one deal of n
CPUs. When ``spread_offset + g - 1`` stays below 2^32 that holds for exactly n % g groups. When the
sum wraps on the way and g doesn't divide 2^32, it holds for at least as many, and may hold for
more: then the CPUs run out early. So no CPU is ever lost, but sizes may differ by more than one
and the last groups of the deal may be empty. g is at most numgrps, hence `wraps()`.
"""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.studies.batch import COMPILED, Machines, group_many
from tests.documents import cpumask_first
from tests.strategies import ALL, ROTATING, STEADY, SUMMING, WRAP, made, numgrps_for, offsets
from tests.strategies import revisions as revision_names


def wraps(revision, numgrps, offset):
    """Tell whether a 32-bit sum might wrap: only then do the SUMMING revisions misbehave."""
    return revision in SUMMING and offset + numgrps > WRAP


def masks_of(machine, numgrps, revision, offset=0):
    topology = getattr(machine, "topology", machine)
    answer = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset)
    return [cpus.mask for cpus in answer.masks]


def bits(text):
    return CpuSet(text).mask


@st.composite
def calls(draw, revisions=revision_names, **options):
    machine = draw(made(**options))
    return machine, draw(numgrps_for(machine)), draw(revisions), draw(offsets)


def test_the_revisions_are_those_of_the_twin():
    # The project's own are in no kernel: test_better.py and test_kept.py look at them.
    assert set(REVISIONS) == {*ALL, "rotate-tiled", "rotate-kept"} == set(COMPILED)


@given(made(), st.data())
def test_engine_and_compiled_twin_agree(machine, data):
    numgrps = data.draw(numgrps_for(machine))
    offset = data.draw(offsets)
    twin = group_many(
        Machines.of([machine.topology]), numgrps, revisions=COMPILED, spread_offsets=offset
    )
    for at, revision in enumerate(COMPILED):
        answer = group_cpus_evenly(
            machine.topology, numgrps, revision=revision, spread_offset=offset
        )
        assert [cpus.mask for cpus in answer.masks] == twin.masks(at, numgrps), revision
        assert answer.nummasks == twin.nummasks[at], revision


@given(calls())
def test_every_possible_cpu_is_in_exactly_one_group(call):
    # Even where a sum wraps: see the note above.
    machine, *asked = call
    masks = masks_of(machine, *asked)
    union = 0
    for mask in masks:
        assert not union & mask
        union |= mask
    assert union == machine.plain.cpu_possible_mask


@given(calls())
def test_only_groups_beyond_the_cpus_are_empty(call):
    # Stage one fills min(numgrps, present) groups; stage two goes on behind them.
    machine, numgrps, revision, offset = call
    assume(not wraps(revision, numgrps, offset))
    filled = min(numgrps, len(machine.topology.possible))
    masks = masks_of(machine, numgrps, revision, offset)
    assert len(masks) == numgrps
    assert all(masks[:filled])
    assert not any(masks[filled:])


@given(calls())
def test_nummasks_counts_the_groups_up_to_the_cpus(call):
    machine, numgrps, revision, offset = call
    answer = group_cpus_evenly(machine.topology, numgrps, revision=revision, spread_offset=offset)
    if revision.startswith("numa"):
        assert answer.nummasks == numgrps  # these had no such result
    else:
        assert answer.nummasks == min(numgrps, len(machine.topology.possible))


@pytest.mark.parametrize("revision", SUMMING)
def test_a_wrapping_counter_empties_a_group(revision):
    """4 CPUs in 3 groups at 2^32 - 1: both v = 0 and v = 1 give a remainder of 0."""
    machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=1, cluster=0)
    masks = masks_of(machine, 3, revision, WRAP - 1)
    assert masks == [bits("0-1"), bits("2-3"), 0]
    # One call later all is well again, and the other revisions were never off.
    assert masks_of(machine, 3, revision, WRAP) == [bits("0-1"), bits("2"), bits("3")]
    assert all(masks_of(machine, 3, "rotate-v2-fixed", WRAP - 1))
    assert all(masks_of(machine, 3, "rotate-next", WRAP - 1))


@pytest.mark.parametrize("revision", SUMMING)
def test_a_wrapping_counter_is_harmless_for_powers_of_two(revision):
    machine = Topology.uniform(nodes=1, cpus_per_node=7, threads=1, cluster=0)
    for offset in range(WRAP - 8, WRAP):
        sizes = [mask.bit_count() for mask in masks_of(machine, 4, revision, offset)]
        assert sorted(sizes) == [1, 2, 2, 2]


# ---- how the groups lie in nodes and clusters ----------------------------------------------


def clusters_dealt_in(machine, node_mask, groups):
    """Apply the rule: give the clusters that a node is dealt by; None: it is dealt whole."""
    clusters = []
    left = node_mask
    while left:
        cluster = machine.plain.topology_cluster_cpumask[cpumask_first(left)]
        if not cluster:
            return None
        clusters.append(cluster & node_mask)
        left &= ~cluster
    return clusters if len(clusters) <= groups else None


def assert_even(parts):
    sizes = [part.bit_count() for part in parts]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


# Without absent CPUs there is one stage, whose groups can be looked at one by one.
@given(calls(absent=False))
def test_groups_are_even_within_their_node_or_cluster(call):
    machine, numgrps, revision, offset = call
    assume(not wraps(revision, numgrps, offset))
    nodes = [mask for mask in machine.plain.node_to_cpumask if mask]
    groups = [mask for mask in masks_of(machine, numgrps, revision, offset) if mask]
    if numgrps <= len(nodes):
        # Whole nodes, and as many of them in each group as can be.
        for node in nodes:
            assert sum(bool(mask & node) for mask in groups) == 1
        assert_even([sum(1 << at for at, n in enumerate(nodes) if n & mask) for mask in groups])
        return
    shares = {}
    for node in nodes:
        inside = [mask for mask in groups if mask & node]
        assert all(mask & ~node == 0 for mask in inside)
        assert 1 <= len(inside) <= node.bit_count()
        shares[node] = len(inside)
        clusters = (
            None if revision.startswith("numa") else clusters_dealt_in(machine, node, len(inside))
        )
        if clusters is None:
            assert_even(inside)
        else:
            for cluster in clusters:
                members = [mask for mask in inside if mask & cluster]
                assert all(mask & ~cluster == 0 for mask in members)
                assert 1 <= len(members) <= cluster.bit_count()
                assert_even(members)
    assert sum(shares.values()) == min(numgrps, len(machine.topology.possible))
    # A larger node never gets fewer groups than a smaller one.
    ordered = sorted(nodes, key=lambda node: (node.bit_count(), shares[node]))
    for smaller, larger in pairwise(ordered):
        assert shares[smaller] <= shares[larger]


@given(calls(st.sampled_from(["cluster", "rotate-next"]), absent=False))
def test_a_larger_cluster_never_gets_fewer_groups(call):
    machine, numgrps, revision, offset = call
    masks = masks_of(machine, numgrps, revision, offset)
    nodes = [mask for mask in machine.plain.node_to_cpumask if mask]
    for node in nodes if numgrps > len(nodes) else []:
        inside = [mask for mask in masks if mask & node]
        clusters = clusters_dealt_in(machine, node, len(inside)) or []
        shares = sorted(
            (cluster.bit_count(), sum(bool(mask & cluster) for mask in inside))
            for cluster in clusters
        )
        for (_, fewer), (_, more) in pairwise(shares):
            assert fewer <= more


def cluster_shares(sizes, numgrps, revision, offset=0):
    """How many groups each cluster of a one-node machine gets."""
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    clusters = [CpuSet(range(at, at + size)) for at, size in zip(starts, sizes, strict=True)]
    every = CpuSet(range(sum(sizes)))
    machine = Topology(every, every, every, {0: every}, clusters)
    masks = masks_of(machine, numgrps, revision, offset)
    return [sum(bool(mask & cluster.mask) for mask in masks) for cluster in clusters]


@pytest.mark.parametrize("revision", ["rotate-v1", "rotate-v2", "rotate-v2-fixed"])
def test_the_patch_may_give_a_smaller_cluster_more_groups(revision):
    """Its extras go to any cluster that has room, in turn, however small."""
    assert cluster_shares([2, 3], 3, "cluster") == [1, 2]
    assert cluster_shares([2, 3], 3, "rotate-next") == [1, 2]
    assert cluster_shares([2, 3], 3, revision, 0) == [2, 1]
    assert cluster_shares([2, 3], 3, revision, 1) == [1, 2]


def test_v1_levels_uneven_clusters_and_v2_keeps_their_shares():
    for offset in range(4):
        assert cluster_shares([2, 6], 4, "rotate-v1", offset) == [2, 2]
        assert cluster_shares([2, 6], 4, "rotate-v2", offset) == [1, 3]


# ---- stages --------------------------------------------------------------------------------


@given(calls())
def test_absent_cpus_do_not_disturb_the_present_ones(call):
    """Stage one is the whole answer of a machine that has nothing but the present CPUs."""
    machine, numgrps, revision, offset = call
    document = machine.document
    present = CpuSet(document["present"])
    alone = Topology.from_dict(
        document
        | {
            "possible": document["present"],
            "nodes": {
                node: str(CpuSet(cpus) & present) for node, cpus in document["nodes"].items()
            },
        }
    )
    both = masks_of(machine, numgrps, revision, offset)
    assert [mask & present.mask for mask in both] == masks_of(alone, numgrps, revision, offset)


@given(calls())
def test_offline_cpus_count_like_online_ones(call):
    machine, *asked = call
    all_online = Topology.from_dict(machine.document | {"online": machine.document["present"]})
    assert masks_of(machine, *asked) == masks_of(all_online, *asked)


# ---- the offset ----------------------------------------------------------------------------


@given(calls(st.sampled_from(STEADY)))
def test_steady_revisions_ignore_the_offset(call):
    machine, numgrps, revision, offset = call
    assert masks_of(machine, numgrps, revision, offset) == masks_of(machine, numgrps, revision)


@given(calls(st.sampled_from(ROTATING)))
def test_the_offset_counts_modulo_two_to_the_32(call):
    machine, numgrps, revision, offset = call
    assert masks_of(machine, numgrps, revision, offset) == masks_of(
        machine, numgrps, revision, offset + WRAP
    )


@given(calls(st.sampled_from(["rotate-v2"])))
def test_the_remedy_changes_nothing_but_the_wrap(call):
    machine, numgrps, revision, offset = call
    assume(not wraps(revision, numgrps, offset))
    assert masks_of(machine, numgrps, "rotate-v2", offset) == masks_of(
        machine, numgrps, "rotate-v2-fixed", offset
    )


@given(calls(st.sampled_from(["rotate-v2-skip1"])))
def test_skipping_single_groups_changes_no_masks(call):
    """One group holds every CPU whatever the offset: only the counter's steps differ."""
    machine, numgrps, _, offset = call
    assert masks_of(machine, numgrps, "rotate-v2-skip1", offset) == masks_of(
        machine, numgrps, "rotate-v2", offset
    )
    assert [REVISIONS["rotate-v2"].advance(numgrps) for numgrps in (1, 2)] == [1, 1]
    assert [REVISIONS["rotate-v2-skip1"].advance(numgrps) for numgrps in (1, 2)] == [0, 1]


@given(calls(st.sampled_from(["rotate-v1", "rotate-v2", "rotate-v2-fixed", "rotate-v2-skip1"])))
def test_v2_at_offset_0_is_cluster_unless_extras_are_placed(call):
    # The first n % g groups get the extra CPU again, and whole nodes go round as before; what
    # remains is the patch's own placement of the clusters' extra groups.
    machine, numgrps, revision, _ = call
    present = machine.plain.cpu_present_mask
    for stage in (present, machine.plain.cpu_possible_mask & ~present):
        for node in machine.plain.node_to_cpumask:
            clusters = clusters_dealt_in(machine, node & stage, numgrps) or []
            assume(len(clusters) < 2)
    assert masks_of(machine, numgrps, revision) == masks_of(machine, numgrps, "cluster")


def test_v2_at_offset_0_differs_from_cluster_where_extras_are_placed():
    """Two pairs, three groups: the pair allotted first has the extra group, not the last."""
    machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=2, cluster=2)
    assert masks_of(machine, 3, "cluster") == [bits("2-3"), bits("0"), bits("1")]
    for revision in ("rotate-v1", "rotate-v2", "rotate-v2-fixed", "rotate-v2-skip1", "rotate-next"):
        assert masks_of(machine, 3, revision) == [bits("2"), bits("3"), bits("0-1")]


@given(calls(st.just("rotate-next"), absent=False))
def test_next_at_offset_0_is_cluster_where_equals_have_equal_shares(call):
    # Dealing starts at the lowest CPU again and goes on with the lowest free one, so that only
    # the shares of equally large nodes and clusters can differ from the plain rule's.
    machine, numgrps, revision, _ = call
    before = masks_of(machine, numgrps, "cluster")
    nodes = [mask for mask in machine.plain.node_to_cpumask if mask]
    if numgrps > len(nodes):
        shares = {node: sum(bool(mask & node) for mask in before) for node in nodes}
        assume(equals_have_equal_shares(shares))
        for node in nodes:
            clusters = clusters_dealt_in(machine, node, shares[node]) or []
            assume(
                equals_have_equal_shares(
                    {cluster: sum(bool(mask & cluster) for mask in before) for cluster in clusters}
                )
            )
    assert masks_of(machine, numgrps, revision) == before


def equals_have_equal_shares(shares):
    by_size: dict[int, set[int]] = {}
    for mask, share in shares.items():
        by_size.setdefault(mask.bit_count(), set()).add(share)
    return all(len(seen) == 1 for seen in by_size.values())


@given(calls(clusters=False))
def test_cluster_is_numa_where_no_cluster_is_known(call):
    machine, numgrps, *_ = call
    assert masks_of(machine, numgrps, "cluster") == masks_of(machine, numgrps, "numa")


@pytest.mark.parametrize("offset", [*range(12), WRAP - 1])
def test_next_gives_every_pair_its_turn(offset):
    """Equal clusters get equal numbers of groups, up to one, at any offset."""
    machine = Topology.uniform(nodes=1, cpus_per_node=24, threads=2, cluster=2)
    masks = masks_of(machine, 17, "rotate-next", offset)
    shares = [
        sum(bool(mask & bits(f"{cpu}-{cpu + 1}")) for mask in masks) for cpu in range(0, 24, 2)
    ]
    assert sorted(shares) == [1] * 7 + [2] * 5


# ---- the trace -----------------------------------------------------------------------------


@given(calls())
def test_the_explained_answer_is_the_answer(call):
    machine, numgrps, revision, offset = call
    answer, trace = explain(machine.topology, numgrps, revision=revision, spread_offset=offset)
    assert answer == group_cpus_evenly(
        machine.topology, numgrps, revision=revision, spread_offset=offset
    )
    assert trace
