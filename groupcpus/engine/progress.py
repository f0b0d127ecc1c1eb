# SPDX-License-Identifier: GPL-2.0-only
"""What is decided so far: the decisions of a call added up one by one, for a stepper."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.steps import (
    Allotted,
    Assigned,
    ClusterAttempt,
    Divided,
    Rotated,
    Stage,
    Step,
)
from groupcpus.engine.topology import Topology

__all__ = ["Progress", "progress_of"]


@dataclass
class Progress:
    """What is decided after some decisions of `groupcpus.explain`."""

    sentence: str = "nothing is decided yet"
    """The last decision."""
    groups: list[CpuSet] = field(default_factory=list)
    """The CPUs each group has so far."""
    node_groups: dict[int, int] = field(default_factory=dict)
    """How many groups each node was allotted in this stage."""
    stage: CpuSet = field(default_factory=CpuSet)
    """The CPUs that this stage assigns."""
    focus: CpuSet = field(default_factory=CpuSet)
    """The CPUs that the last decision was about."""


def progress_of(topology: Topology, steps: Sequence[Step]) -> Progress:
    """Add up decisions of `groupcpus.explain`, from the first on.

    Parameters
    ----------
    topology : Topology
        The machine that was explained.
    steps : sequence of Step
        All decisions or the first few.

    Returns
    -------
    Progress

    Examples
    --------
    >>> from groupcpus.engine.group_cpus import explain
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4)
    >>> _, steps = explain(machine, 2, revision="cluster")
    >>> state = progress_of(machine, steps[:5])
    >>> state.sentence
    'group 0: CPUs 4, 5 of cluster 4-5'
    >>> [str(cpus) for cpus in state.groups], state.node_groups, str(state.focus)
    (['4-5', ''], {0: 2}, '4-5')
    """
    state = Progress()
    if steps:
        state.sentence = str(steps[-1])
    for step in steps:
        if isinstance(step, Stage):
            state.groups = state.groups or [CpuSet()] * step.numgrps
            state.stage = step.cpus
            state.node_groups = {}
        elif isinstance(step, Allotted) and step.node is None:
            state.node_groups |= {share.id: share.ngroups for share in step.shares}
        elif isinstance(step, Rotated) and step.node is None:
            state.node_groups |= dict(zip(step.ids, step.after, strict=True))
        elif isinstance(step, Assigned):
            state.groups[step.group] |= CpuSet(step.cpus)
        state.focus = _focus(topology, step) & state.stage
    return state


def _focus(topology: Topology, step: Step) -> CpuSet:
    """Return the CPUs that a decision is about, as far as they are of its stage."""
    if isinstance(step, Assigned):
        return CpuSet(step.cpus)
    if isinstance(step, Divided) and step.cluster is not None:
        return CpuSet(step.cluster)
    if isinstance(step, Allotted | Rotated | ClusterAttempt | Divided) and step.node is not None:
        return topology.nodes[step.node]
    return topology.possible
