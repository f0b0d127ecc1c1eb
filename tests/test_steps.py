# SPDX-License-Identifier: GPL-2.0-only
"""The decisions of a call: each assignment has a reason, and the kernel's warning is told."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from groupcpus import Topology, explain, group_cpus_evenly, heapsort_order
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup, numa_hops
from groupcpus.engine.steps import (
    Allotted,
    Assigned,
    ClusterAttempt,
    Divided,
    Rotated,
    RoundRobin,
    Stage,
    Unfilled,
)
from groupcpus.errors import GroupCpusError
from tests import vectors
from tests.test_properties import calls

EIGHT = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)


def steps_of(call):
    machine, numgrps, revision, offset = call
    return explain(machine.topology, numgrps, revision=revision, spread_offset=offset)[1]


@given(calls())
def test_the_assignments_follow_from_the_decisions_before_them(call):
    """Groups go on in turn; sizes, nodes and clusters are as was decided."""
    steps = steps_of(call)
    numgrps = call[1]
    assert isinstance(steps[0], Stage)
    filled = following = 0
    sizes: list[int] = []
    allotted: dict[int, int] = {}
    for step in steps:
        if isinstance(step, Stage):
            assert step.first_group == min(filled, numgrps) % numgrps
            following = step.first_group
        elif isinstance(step, RoundRobin):
            allotted = dict.fromkeys(step.nodes, 1)
        elif isinstance(step, Allotted) and step.node is None:
            allotted = {share.id: share.ngroups for share in step.shares}
        elif isinstance(step, Rotated) and step.node is None:
            allotted = dict(zip(step.ids, step.after, strict=True))
        elif isinstance(step, Divided):
            sizes = list(step.sizes)
        elif isinstance(step, Assigned):
            assert step.group == following % numgrps
            following += 1
            filled += 1
            allotted[step.node] -= 1
            assert not sizes or len(step.cpus) <= sizes.pop(0)
            assert step.cluster is None or set(step.cpus) <= set(step.cluster)
    assert not any(allotted.values())


@given(calls())
def test_an_allotment_does_its_arithmetic(call):
    for step in steps_of(call):
        if isinstance(step, Allotted):
            for share in step.shares:
                assert share.ngroups == max(1, share.groups_left * share.ncpus // share.cpus_left)
            for before, after in pairwise(step.shares):
                assert after.groups_left == before.groups_left - before.ngroups
                assert after.cpus_left == before.cpus_left - before.ncpus
                assert after.ncpus >= before.ncpus


@given(calls())
def test_every_decision_is_a_sentence_of_one_line(call):
    for step in steps_of(call):
        assert str(step)
        assert "\n" not in str(step)
        assert type(step).__name__ not in str(step)


def test_a_cluster_attempt_says_why():
    unknown = Topology.uniform(nodes=1, cpus_per_node=4, cluster=0)
    reasons = [
        str(step)
        for topology, numgrps in ((EIGHT, 3), (EIGHT, 5), (unknown, 3))
        for step in explain(topology, numgrps, revision="cluster")[1]
        if isinstance(step, ClusterAttempt)
    ]
    assert reasons == [
        "node 1: as a whole, 2 clusters for 1 group",
        "node 0: by cluster, 2 clusters for 2 groups",
        "node 1: by cluster, 2 clusters for 2 groups",
        "node 0: by cluster, 2 clusters for 3 groups",
        "node 0: as a whole, a CPU's cluster mask is empty",
    ]


# ---- WARN_ON(nr_present + nr_others < numgrps) ----------------------------------------------


def test_the_kernel_warns_where_groups_stay_empty():
    """Linux 6.12 (`numa`) does; the patch that brought nummasks took the warning out."""
    for revision, warns in (("numa", True), ("cluster", False), ("rotate-v2", False)):
        assert not group_cpus_evenly(EIGHT, 8, revision=revision).warns
        grouping, steps = explain(EIGHT, 9, revision=revision)
        assert grouping.warns is warns
        assert steps[-1] == Unfilled(8, 9, warns)
        assert ("the kernel warns: WARN_ON" in str(steps[-1])) is warns
        assert ("the kernel warns" in repr(grouping)) is warns


@pytest.mark.slow
def test_the_stored_cases_in_which_the_kernel_warns():
    warned = 0
    for document, cases in vectors.machines():
        topology = Topology.from_dict(document)
        for case in cases:
            if case.revision == "numa":
                grouping = group_cpus_evenly(topology, case.numgrps, revision="numa")
                assert grouping.warns == (not all(case.masks))
                warned += grouping.warns
    assert warned == 554


# ---- wrong types ----------------------------------------------------------------------------


CPUS = EIGHT.possible
WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (group_cpus_evenly, (5, 1), "topology"),
    (explain, ("L96as_v4", 1), "topology"),
    (irq_setup, (None, 1, 0), "topology"),
    (irq_setup, (EIGHT, "8", 0), "nirqs"),
    (irq_setup, (EIGHT, 8, None), "node"),
    (irq_setup, (EIGHT, 8, []), "node"),
    (numa_hops, ({}, 0), "topology"),
    (numa_hops, (EIGHT, "0"), "node"),
    (cpumask_local_spread, ("machine", 0, 0), "topology"),
    (cpumask_local_spread, (EIGHT, None, 0), "i None"),
    (heapsort_order, (5,), "keys"),
    (heapsort_order, (["a"],), "keys"),
    (heapsort_order, ([1.5, 2],), "keys"),
    (heapsort_order, ([1], []), "sort"),
    (Topology.from_dict, (5,), "topology"),
    (Topology.uniform, (None,), "nodes"),
    (Topology, (CPUS, CPUS, CPUS, []), "nodes"),
    (Topology, (None, CPUS, CPUS, EIGHT.nodes), "possible"),
    (Topology, (CPUS, CPUS, CPUS, {"0": CPUS}), "nodes"),
    (Topology, (CPUS, CPUS, CPUS, {0: "0-7"}), "node 0"),
    (Topology, (CPUS, CPUS, CPUS, EIGHT.nodes, 5), "clusters"),
    (EIGHT.node_of, ([],), "CPU"),
    (EIGHT.llc_of, ("0",), "CPU"),
]


@pytest.mark.parametrize(("function", "arguments", "named"), WRONG)
def test_a_wrong_type_is_refused_by_name(function, arguments, named):
    with pytest.raises(GroupCpusError, match=f"^{named}"):
        function(*arguments)
