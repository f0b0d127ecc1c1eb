# SPDX-License-Identifier: GPL-2.0-only
"""The decisions of a call of ``group_cpus_evenly()``, and its result.

``str()`` of a decision is a sentence.

CPUs are numbers here, and a set of them is an ascending tuple.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import counted

__all__ = [
    "Allotted",
    "Assigned",
    "ClusterAttempt",
    "Divided",
    "Grouping",
    "Rotated",
    "RoundRobin",
    "Share",
    "Stage",
    "Step",
    "Unfilled",
]


class Stage(NamedTuple):
    """A stage begins: which CPUs it assigns, and to which group first."""

    name: str
    """``present``, or ``absent``: those that are possible only."""
    cpus: CpuSet
    nodes: tuple[int, ...]
    """The nodes that have any of them."""
    numgrps: int
    first_group: int
    offset: int
    """The value of the call counter, 0 where it is not looked at."""

    def __str__(self) -> str:
        offset = f", at offset {self.offset}" if self.offset else ""
        return (
            f"{self.name}: assign {_named('CPU', list(self.cpus), str(self.cpus))} of "
            f"{_named('node', self.nodes)} to {counted(self.numgrps, 'group')}, "
            f"from group {self.first_group} on{offset}"
        )


class RoundRobin(NamedTuple):
    """There are no more groups than nodes: whole nodes go to groups in turn."""

    nodes: tuple[int, ...]
    """In the order of their turns."""
    numgrps: int

    def __str__(self) -> str:
        return (
            f"{counted(self.numgrps, 'group')} for {counted(len(self.nodes), 'node')}: "
            f"whole nodes in turn, {', '.join(map(str, self.nodes))}"
        )


class Share(NamedTuple):
    """What one part was allotted: ``max(1, groups_left * ncpus / cpus_left)`` groups."""

    id: int
    """The number of the node; of a cluster, its position in `ClusterAttempt.clusters`."""
    ncpus: int
    groups_left: int
    cpus_left: int
    ngroups: int

    def __str__(self) -> str:
        return f"{self.id}: {self.groups_left}*{self.ncpus}/{self.cpus_left} = {self.ngroups}"


class Allotted(NamedTuple):
    """The nodes of a stage, or the clusters of a node, got groups in proportion to their CPUs."""

    node: int | None
    """Whose clusters; None: nodes."""
    shares: tuple[Share, ...]
    """In the order in which they are served."""

    def __str__(self) -> str:
        return f"{_parts(self.node)}, in the order of the sort: {', '.join(map(str, self.shares))}"


class Rotated(NamedTuple):
    """The revision moved groups between nodes, or between the clusters of a node."""

    node: int | None
    """Whose clusters; None: nodes."""
    ids: tuple[int, ...]
    """As in `Share`, in the same order."""
    before: tuple[int, ...]
    after: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{_parts(self.node)} {list(self.ids)}: {list(self.before)} became {list(self.after)}"
        )


class ClusterAttempt(NamedTuple):
    """A node tried to keep its groups within clusters."""

    node: int
    ngroups: int
    clusters: tuple[tuple[int, ...], ...] | None
    """The CPUs of each, in the order of their lowest ones; None: a cluster mask is empty."""
    taken: bool
    """Whether there are groups for all of them."""

    def __str__(self) -> str:
        if self.clusters is None:
            reason = "a CPU's cluster mask is empty"
        else:
            groups = counted(self.ngroups, "group")
            reason = f"{counted(len(self.clusters), 'cluster')} for {groups}"
        return f"node {self.node}: {'by cluster' if self.taken else 'as a whole'}, {reason}"


class Divided(NamedTuple):
    """The CPUs of a node or cluster were divided among its groups."""

    node: int
    cluster: tuple[int, ...] | None
    """The CPUs of the cluster; None: the whole node."""
    ncpus: int
    sizes: tuple[int, ...]
    """How many CPUs each group is to get."""
    first: int
    """The CPU that is assigned first."""

    def __str__(self) -> str:
        groups = counted(len(self.sizes), "group")
        return (
            f"{_place(self.node, self.cluster)}: {counted(self.ncpus, 'CPU')} for {groups}, "
            f"{' + '.join(map(str, self.sizes))} from CPU {self.first} on"
        )


class Assigned(NamedTuple):
    """A group got these CPUs, in the order in which they were taken."""

    group: int
    node: int
    cluster: tuple[int, ...] | None
    """The CPUs of the cluster; None: the node was not divided by cluster."""
    cpus: tuple[int, ...]

    def __str__(self) -> str:
        taken = _named("CPU", self.cpus) if self.cpus else "no CPU left"
        return f"group {self.group}: {taken} of {_place(self.node, self.cluster)}"


class Unfilled(NamedTuple):
    """The call ends with fewer groups filled than were asked for."""

    filled: int
    numgrps: int
    warns: bool
    """Whether the kernel warns; see `groupcpus.Grouping.warns`."""

    def __str__(self) -> str:
        warning = ", and the kernel warns: WARN_ON(nr_present + nr_others < numgrps)"
        return (
            f"{self.filled} of {counted(self.numgrps, 'group')} filled, the others stay empty"
            f"{warning * self.warns}"
        )


Step = Stage | RoundRobin | Allotted | Rotated | ClusterAttempt | Divided | Assigned | Unfilled


class Grouping:
    """What one call returns: a CPU mask for every group.

    Attributes
    ----------
    masks : tuple of CpuSet
        One mask a group, in queue order; the later ones may be empty.
    nummasks : int
        How many groups were filled.
    bits : tuple of int
        The same masks as integers.
    warns : bool
        Whether the kernel prints a warning: up to the patch that made it return `nummasks`
        (Linux 6.17), it did when fewer groups were filled than asked for.
    """

    def __init__(self, bits: Iterable[int], nummasks: int, warns: bool = False) -> None:
        self.bits = tuple(bits)
        self.nummasks = nummasks
        self.warns = warns

    @cached_property
    def masks(self) -> tuple[CpuSet, ...]:
        """One mask a group."""
        return tuple(map(CpuSet.from_mask, self.bits))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grouping):
            return NotImplemented
        return (self.bits, self.nummasks) == (other.bits, other.nummasks)

    def __hash__(self) -> int:
        return hash((self.bits, self.nummasks))

    def __repr__(self) -> str:
        shown = " ".join(str(mask) or "-" for mask in self.masks[:8])
        more = f" ... {len(self.bits)} groups" if len(self.bits) > 8 else ""
        warning = ", the kernel warns" if self.warns else ""
        return f"<Grouping: {shown}{more}; {self.nummasks} filled{warning}>"


def _named(noun: str, numbers: Sequence[int], text: str = "") -> str:
    """Return a noun before numbers, in the plural if they are several."""
    return f"{noun}{'s' * (len(numbers) != 1)} {text or ', '.join(map(str, numbers))}"


def _parts(node: int | None) -> str:
    return "nodes" if node is None else f"clusters of node {node}"


def _place(node: int, cluster: Sequence[int] | None) -> str:
    return f"node {node}" if cluster is None else f"cluster {CpuSet(cluster)}"
