# SPDX-License-Identifier: GPL-2.0-only
"""``group_cpus_evenly()``: the CPUs of a machine dealt to the queues of one device.

The skeleton of lib/group_cpus.c (Linux 7.3), in five steps:

1. present CPUs first, then those that are possible only (`_Call.run`);
2. fewer groups than nodes: whole nodes, round robin (`_Call.stage`);
3. otherwise nodes get groups in proportion to their CPUs (`_Call.allot`);
4. a node with enough groups hands them on to its clusters (`_Call.try_clusters`);
5. and a node or cluster deals its CPUs, cores together (`_Call.assign`).

What differs between versions of the function is in `groupcpus.engine.revisions`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, repeat
from operator import index, lshift, rshift, sub
from typing import NamedTuple

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet, cpus_of, wrap_all
from groupcpus.engine.revisions import REVISIONS, Deal, Revision, get_revision
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, counted

__all__ = [
    "MAX_GROUPS",
    "Allotted",
    "ClusterAttempt",
    "Dealt",
    "Grouping",
    "Respread",
    "RoundRobin",
    "Share",
    "StageStart",
    "explain",
    "group_cpus_evenly",
]

# More than any device has vectors (MSI-X: 2048), and a list of this length is still small.
MAX_GROUPS = 65536


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
    """

    def __init__(self, bits: Iterable[int], nummasks: int) -> None:
        self.bits = tuple(bits)
        self.nummasks = nummasks

    @cached_property
    def masks(self) -> tuple[CpuSet, ...]:
        """One mask a group."""
        return wrap_all(self.bits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grouping):
            return NotImplemented
        return (self.bits, self.nummasks) == (other.bits, other.nummasks)

    def __hash__(self) -> int:
        return hash((self.bits, self.nummasks))

    def __repr__(self) -> str:
        shown = " ".join(str(mask) or "-" for mask in self.masks[:8])
        more = f" ... {len(self.bits)} groups" if len(self.bits) > 8 else ""
        return f"<Grouping: {shown}{more}; {self.nummasks} filled>"


@dataclass(frozen=True)
class StageStart:
    """A stage begins: which CPUs it deals, and to which group first."""

    stage: str
    cpus: CpuSet
    nodes: tuple[int, ...]
    numgrps: int
    first_group: int

    def __str__(self) -> str:
        return (
            f"{self.stage}: deal {_named('CPU', list(self.cpus), str(self.cpus))} of "
            f"{_named('node', self.nodes)} to {counted(self.numgrps, 'group')}, "
            f"from group {self.first_group} on"
        )


@dataclass(frozen=True)
class RoundRobin:
    """No more groups than nodes: whole nodes go to groups in turn."""

    nodes: tuple[int, ...]
    numgrps: int

    def __str__(self) -> str:
        return (
            f"{counted(self.numgrps, 'group')} for {counted(len(self.nodes), 'node')}: "
            f"whole nodes in turn, "
            f"{', '.join(map(str, self.nodes))}"
        )


@dataclass(frozen=True)
class Share:
    """One step of an allotment: ``max(1, groups_left * ncpus / cpus_left)`` groups."""

    id: int
    ncpus: int
    groups_left: int
    cpus_left: int
    ngroups: int


@dataclass(frozen=True)
class Allotted:
    """Groups were allotted to the nodes of a stage, or to the clusters of a node."""

    level: str
    node: int | None
    shares: tuple[Share, ...]

    def __str__(self) -> str:
        where = "nodes" if self.node is None else f"clusters of node {self.node}"
        steps = ", ".join(
            f"{share.id}: {share.groups_left}*{share.ncpus}/{share.cpus_left} = {share.ngroups}"
            for share in self.shares
        )
        return f"{where}, in the order of the sort: {steps}"


@dataclass(frozen=True)
class Respread:
    """A revision moved allotted groups between nodes or clusters."""

    level: str
    node: int | None
    ids: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def __str__(self) -> str:
        where = "nodes" if self.node is None else f"clusters of node {self.node}"
        return f"{where} {list(self.ids)}: {list(self.before)} became {list(self.after)}"


@dataclass(frozen=True)
class ClusterAttempt:
    """A node tried to keep its groups within clusters."""

    node: int
    ngroups: int
    clusters: tuple[CpuSet, ...]
    taken: bool
    reason: str

    def __str__(self) -> str:
        return f"node {self.node}: {'by cluster' if self.taken else 'as a whole'}, {self.reason}"


@dataclass(frozen=True)
class Dealt:
    """A group got CPUs; `cpus` are in the order in which they were taken."""

    group: int
    node: int
    cluster: CpuSet | None
    cpus: tuple[int, ...]

    def __str__(self) -> str:
        where = f"node {self.node}" if self.cluster is None else f"cluster {self.cluster}"
        taken = _named("CPU", self.cpus) if self.cpus else "no CPU left"
        return f"group {self.group}: {taken} of {where}"


def _named(noun: str, numbers: Sequence[int], text: str = "") -> str:
    """Put a noun before numbers, in the plural if they are several."""
    return f"{noun}{'s' * (len(numbers) != 1)} {text or ', '.join(map(str, numbers))}"


Step = StageStart | RoundRobin | Allotted | Respread | ClusterAttempt | Dealt


def group_cpus_evenly(
    topology: Topology,
    numgrps: int,
    *,
    revision: str | Revision = "rotate-v2",
    spread_offset: int = 0,
) -> Grouping:
    """Group all possible CPUs evenly, near CPUs together: one group a queue.

    Parameters
    ----------
    topology : Topology
        The machine.
    numgrps : int
        How many groups are wanted, 1 to 65536.
    revision : str or Revision
        Which version of the function; a name in `REVISIONS` or one of your own.
    spread_offset : int
        The value that this call took from the global call counter; the counter has 32 bits, so
        greater ones wrap.  Revisions that don't rotate ignore it.

    Returns
    -------
    Grouping
        `numgrps` masks in queue order, and how many were filled.

    Raises
    ------
    RequestError
        If `numgrps`, `revision` or `spread_offset` is none.

    See Also
    --------
    explain : the same, with every decision on the way.

    Notes
    -----
    Source: ``group_cpus_evenly()`` in lib/group_cpus.c: Linux 6.12 (``numa``), Linux 7.3
    (``cluster``), and the patches that `REVISIONS` names.  Before Linux 6.17 the function did not
    report `nummasks`; here it is then `numgrps`.

    Examples
    --------
    Even, uneven, fewer groups than nodes, more groups than CPUs:

    >>> machine = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)
    >>> for numgrps in (4, 3, 1, 9):
    ...     print(group_cpus_evenly(machine, numgrps, revision="cluster"))
    <Grouping: 6-7 4-5 2-3 0-1; 4 filled>
    <Grouping: 4-7 2-3 0-1; 3 filled>
    <Grouping: 0-7; 1 filled>
    <Grouping: 6 7 4 5 2 3 0 1 ... 9 groups; 8 filled>
    """
    return _Call(topology, numgrps, revision, spread_offset).run()


def explain(
    topology: Topology,
    numgrps: int,
    *,
    revision: str | Revision = "rotate-v2",
    spread_offset: int = 0,
) -> tuple[Grouping, tuple[Step, ...]]:
    """Group all possible CPUs as `group_cpus_evenly` does, and record every decision.

    Returns
    -------
    grouping : Grouping
        What `group_cpus_evenly` returns for the same arguments.
    steps : tuple of Step
        The decisions in order: `StageStart`, `RoundRobin`, `Allotted`, `Respread`,
        `ClusterAttempt` and `Dealt` records, each with a sentence as its ``str()``.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4)
    >>> for step in explain(machine, 2, revision="cluster")[1]:
    ...     print(step)
    present: deal CPUs 0-5 of node 0 to 2 groups, from group 0 on
    nodes, in the order of the sort: 0: 2*6/6 = 2
    node 0: by cluster, 2 clusters for 2 groups
    clusters of node 0, in the order of the sort: 1: 2*2/6 = 1, 0: 1*4/4 = 1
    group 0: CPUs 4, 5 of cluster 4-5
    group 1: CPUs 0, 1, 2, 3 of cluster 0-3
    """
    trace: list[Step] = []
    grouping = _Call(topology, numgrps, revision, spread_offset, trace).run()
    return grouping, tuple(trace)


class _Call:
    """One call of the function: its arguments, and the trace if one is wanted."""

    def __init__(
        self,
        topology: Topology,
        numgrps: int,
        revision: str | Revision,
        spread_offset: int,
        trace: list[Step] | None = None,
    ) -> None:
        if not isinstance(topology, Topology):
            raise RequestError(f"topology {brief(topology)}: expected a Topology")
        if isinstance(numgrps, bool) or not isinstance(numgrps, int):
            raise RequestError(f"numgrps {brief(numgrps)}: expected a whole number")
        if not 1 <= numgrps <= MAX_GROUPS:
            raise RequestError(f"numgrps {brief(numgrps)}: expected 1 to {MAX_GROUPS}")
        if isinstance(spread_offset, bool) or not isinstance(spread_offset, int):
            raise RequestError(f"spread_offset {brief(spread_offset)}: expected a whole number")
        if spread_offset < 0:
            raise RequestError(f"spread_offset {brief(spread_offset)}: expected 0 or more")
        self.topology = topology
        self.numgrps = numgrps
        self.revision = get_revision(revision)
        # What a reader's own revision gives is checked; the tests check those of REVISIONS.
        self.own = REVISIONS.get(self.revision.name) is not self.revision
        self.spread_offset = self.revision.offset(numgrps, spread_offset)
        # For a counter of groups: how many calls of this size it stands for.
        self.calls = self.spread_offset // numgrps
        self.trace = trace
        self.first_group = 0
        # Groups of the stage that nodes dealt before got; for the trace.
        self.before = 0
        # In one call, equal counts are allotted alike, and equal nodes and sets of as many CPUs and
        # groups dealt alike, so a machine of many equal parts needs each of these once.
        self.nodes: dict[tuple[int, int, int], tuple[list[int], int]] = {}
        self.allotments: dict[tuple[str | int, ...], _Allotment] = {}
        self.patterns = _Patterns(self)

    def run(self) -> Grouping:
        """Deal present CPUs, then possible ones that are absent: ``group_cpus_evenly()``."""
        present = self.topology.present.mask
        absent = self.topology.possible.mask & ~present
        groups = self.stage("present", present)
        masks = groups + [0] * (self.numgrps - len(groups))
        filled = len(groups)
        if absent:
            self.first_group = filled % self.numgrps
            groups = self.stage("absent", absent)
            for at, group in enumerate(groups, self.first_group):
                masks[at % self.numgrps] |= group
            filled += len(groups)
        nummasks = min(filled, self.numgrps) if self.revision.cluster_aware else self.numgrps
        return Grouping(masks, nummasks)

    def stage(self, name: str, cpus: int) -> list[int]:
        """Give the groups that a set of CPUs makes: ``__group_cpus_evenly()``."""
        node_masks = [mask & cpus for mask in self.topology._node_masks]
        nodes = [node for node, mask in enumerate(node_masks) if mask]
        if self.trace is not None:
            self.trace.append(
                StageStart(
                    name, CpuSet.from_mask(cpus), tuple(nodes), self.numgrps, self.first_group
                )
            )
        if self.numgrps <= len(nodes):
            return self.round_robin(nodes, [node_masks[node] for node in nodes])

        ncpus = [mask.bit_count() for mask in node_masks]
        allotment = self.allot("node", ncpus, min(sum(ncpus), self.numgrps), self.spread_offset)
        groups: list[int] = []
        for node, count, total in allotment:
            mask = node_masks[node]
            if self.trace is not None or mask != self.topology._node_masks[node]:
                self.before = len(groups)
                groups += self.deal_node(node, mask, count, total)
                continue
            # A node with the same cores and clusters as another one is that one, moved.
            key = self.topology._node_shapes[node], count, total
            if key not in self.nodes:
                self.nodes[key] = self.deal_node(node, mask, count, total), mask
                groups += self.nodes[key][0]
            else:
                alike, other = self.nodes[key]
                distance = mask.bit_length() - other.bit_length()
                shift = lshift if distance > 0 else rshift
                groups += map(shift, alike, repeat(abs(distance)))
        return groups

    def deal_node(self, node: int, mask: int, count: int, total: int) -> list[int]:
        """Give the groups of a node."""
        groups: list[int] = []
        if not self.revision.cluster_aware or not self.try_clusters(
            groups, node, mask, count, total
        ):
            whole = mask == self.topology._node_masks[node]
            members = self.topology._node_cpus[node] if whole else cpus_of(mask)
            self.assign(groups, members, count, node, None, total)
        return groups

    def round_robin(self, nodes: list[int], node_masks: list[int]) -> list[int]:
        """Deal whole nodes."""
        first = 0
        if self.revision.first_node:
            counts = [mask.bit_count() for mask in node_masks]
            given = self.revision.first_node(counts, self.spread_offset)
            (first,) = _whole_numbers(self.revision, "first_node", [given], 1)
            if first >= len(counts):
                raise RequestError(
                    f"revision {brief(self.revision.name)}: first_node gave {first}; "
                    f"expected a position below {len(counts)}"
                )
        if self.trace is not None:
            self.trace.append(RoundRobin((*nodes[first:], *nodes[:first]), self.numgrps))
        groups = [0] * self.numgrps
        for at, mask in enumerate(node_masks[first:] + node_masks[:first]):
            groups[at % self.numgrps] |= mask
        return groups

    def allot(
        self, level: str, ncpus: Sequence[int], numgrps: int, total: int, node: int | None = None
    ) -> "_Allotment":
        """Allot groups to nodes, or to the clusters of a node: ``alloc_groups_to_nodes()``."""
        key: tuple[str | int, ...] = (level, numgrps, total, *ncpus)
        allotment = self.allotments.get(key)
        if not allotment:
            allotment = self.allotments[key] = _Allotment(self, level, ncpus, numgrps, total)
        if self.trace is not None:
            self.trace += allotment.steps(level, ncpus, numgrps, node)
        return allotment

    def try_clusters(self, groups: list[int], node: int, mask: int, count: int, total: int) -> bool:
        """Keep a node's groups within clusters if it can be: ``__try_group_cluster_cpus()``."""
        topology = self.topology
        whole = mask == topology._node_masks[node]
        clusters = topology._node_clusters[node] if whole else topology._clusters_in(mask)
        taken = clusters is not None and len(clusters) <= count
        if self.trace is not None:
            self.trace.append(_attempt(node, count, clusters, taken))
        if clusters is None or not taken:
            return False
        sizes = list(map(len, clusters))
        allotment = self.allot("cluster", sizes, count, total, node)
        if whole and self.trace is None and not self.revision.deal_parts:
            keys = zip([sizes[id] for id in allotment.ids], allotment.ngroups, strict=True)
            patterns = list(map(self.patterns.__getitem__, keys))
            lows = topology._cluster_lows[node]
            if lows and all(pattern.runs for pattern in patterns):
                groups += [
                    run << lows[id]
                    for id, pattern in zip(allotment.ids, patterns, strict=True)
                    for run in pattern.runs
                ]
                return True
        for cluster, ngroups, cluster_total in allotment:
            self.assign(groups, clusters[cluster], ngroups, node, cluster, cluster_total)
        return True

    def assign(
        self,
        groups: list[int],
        cpus: Sequence[int],
        ngroups: int,
        node: int,
        cluster: int | None,
        total: int,
    ) -> None:
        """Deal the CPUs of a node or cluster to its groups: ``assign_cpus_to_groups()``."""
        parts = self.revision.deal_parts and 1 < ngroups < len(cpus)
        if parts and self.assign_parts(groups, cpus, ngroups, node, cluster, total):
            return
        ncpus = len(cpus)
        pattern = self.patterns[ncpus, ngroups]
        if self.trace is None and pattern.runs and cpus[-1] - cpus[0] == ncpus - 1:
            if ngroups == 1:
                groups.append(pattern.runs[0] << cpus[0])
            elif cpus[0] == 0:
                groups += pattern.runs
            else:
                groups += map(lshift, pattern.runs, repeat(cpus[0]))
        elif self.trace is None and pattern.whole:
            groups.append(_mask(cpus))
        elif self.trace is None and pattern.singles:
            groups += map(lshift, repeat(1), cpus)
        else:
            spread = grp_spread(cpus, *pattern.deal, self.topology._siblings)
            if self.trace is not None:
                within = None if cluster is None else CpuSet(cpus)
                for at, taken in enumerate(spread, self.first_group + self.before + len(groups)):
                    self.trace.append(Dealt(at % self.numgrps, node, within, tuple(taken)))
            groups += [1 << taken[0] if len(taken) == 1 else _mask(taken) for taken in spread]

    def assign_parts(
        self,
        groups: list[int],
        cpus: Sequence[int],
        ngroups: int,
        node: int,
        cluster: int | None,
        total: int,
    ) -> bool:
        """Deal CPUs in the order of their clusters and cores, if the revision wants to."""
        assert self.revision.deal_parts
        layout = _layout(self.topology, cpus, across=cluster is None)
        deal = self.revision.deal_parts(layout.clusters, layout.cores, ngroups, total)
        if deal is None:
            return False
        deal = _checked_deal(self.revision, "deal_parts", deal, len(cpus), ngroups)
        within = None if cluster is None else CpuSet(cpus)
        for start, end in pairwise(accumulate(deal.sizes, initial=deal.first)):
            if self.trace is not None:
                at = (self.first_group + self.before + len(groups)) % self.numgrps
                taken = (layout.order * 2)[start:end]
                self.trace.append(Dealt(at, node, within, taken))
            groups.append(layout.below[end] - layout.below[start])
        return True


def _mask(cpus: Iterable[int]) -> int:
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


class _Allotment:
    """The groups of nodes or clusters with `ncpus` CPUs each: who has how many, in visit order.

    Iterating gives the id of each, its groups now, and the offset that it works with: the call's,
    or how many groups it was given before.
    """

    def __init__(
        self, call: _Call, level: str, ncpus: Sequence[int], numgrps: int, total: int
    ) -> None:
        # Ids without CPUs have UINT_MAX CPUs in the sort, and it compares signed differences.
        order = heapsort_order([count or -1 for count in ncpus], call.revision.sort)
        self.ids = [id for id in order if ncpus[id]]
        self.proportional: list[int] = []
        groups_left = numgrps
        cpus_left = sum(ncpus)
        for id in self.ids:
            count = ncpus[id]
            share = groups_left * count // cpus_left or 1
            self.proportional.append(share)
            groups_left -= share
            cpus_left -= count
        self.ngroups: Sequence[int] = self.proportional
        self.totals: Sequence[int] = [total] * len(self.ids)
        revision = call.revision
        respread = revision.respread_nodes if level == "node" else revision.respread_clusters
        if respread and len(self.ids) > 1:
            counts = [ncpus[id] for id in self.ids]
            moved = respread(counts, self.proportional, call.spread_offset)
            self.ngroups = _checked_groups(revision, f"respread_{level}s", moved, counts, numgrps)
        elif revision.continue_shares and len(self.ids) > 1:
            counts = [ncpus[id] for id in self.ids]
            moved, totals = revision.continue_shares(counts, self.proportional, total, call.calls)
            self.ngroups = _checked_groups(revision, "continue_shares", moved, counts, numgrps)
            self.totals = _whole_numbers(revision, "continue_shares", totals, len(counts))

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.ids, self.ngroups, self.totals, strict=True)

    def steps(
        self, level: str, ncpus: Sequence[int], numgrps: int, node: int | None
    ) -> Iterator[Step]:
        """Record how it came about."""
        shares = []
        groups_left, cpus_left = numgrps, sum(ncpus)
        for id, share in zip(self.ids, self.proportional, strict=True):
            shares.append(Share(id, ncpus[id], groups_left, cpus_left, share))
            groups_left -= share
            cpus_left -= ncpus[id]
        yield Allotted(level, node, tuple(shares))
        if self.ngroups is not self.proportional:
            yield Respread(
                level, node, tuple(self.ids), tuple(self.proportional), tuple(self.ngroups)
            )


class _Pattern:
    """How a call deals any set of `ncpus` CPUs to `ngroups` groups.

    Few sets need dealing CPU by CPU.  `whole`: all CPUs are one group.  `singles`: every group is
    one CPU, ascending.  `runs`: where threads of a core are neighbours, the groups of CPUs 0 to
    ``ncpus - 1``, to be shifted to any set without gaps.
    """

    def __init__(self, call: _Call, ncpus: int, ngroups: int) -> None:
        self.deal = call.revision.deal(ncpus, ngroups, call.spread_offset)
        if call.own:
            self.deal = _checked_deal(call.revision, "deal", self.deal, ncpus, ngroups)
        sizes, first = self.deal
        self.whole = ngroups == 1
        self.singles = first == 0 and len(sizes) == ncpus and max(sizes) == 1
        self.runs: list[int] = []
        if self.whole or self.singles or (first == 0 and call.topology._cores_contiguous):
            ends = list(accumulate(sizes))
            if ends[-1] > ncpus:
                ends = [min(end, ncpus) for end in ends]
            edges = list(map(lshift, repeat(1), ends))
            self.runs = list(map(sub, edges, [1, *edges]))


def _whole_numbers(revision: Revision, function: str, values: object, count: int) -> list[int]:
    """Take what a revision's function gave, which may be a reader's own, or refuse it."""
    try:
        numbers = list(map(index, values))  # type: ignore[call-overload]
    except TypeError:
        numbers = []
    if len(numbers) != count or min(numbers) < 0:
        raise RequestError(
            f"revision {brief(revision.name)}: {function} gave {brief(values)}; "
            f"expected {count} whole numbers"
        )
    return numbers


def _checked_groups(
    revision: Revision, function: str, ngroups: object, ncpus: Sequence[int], numgrps: int
) -> list[int]:
    """Refuse an allotment that leaves a node or cluster without groups, or groups without CPUs."""
    numbers = _whole_numbers(revision, function, ngroups, len(ncpus))
    if sum(numbers) != numgrps or not all(1 <= g <= n for g, n in zip(numbers, ncpus, strict=True)):
        raise RequestError(
            f"revision {brief(revision.name)}: {function} gave {brief(numbers)} groups; expected "
            f"{numgrps} in all, and from 1 to as many as CPUs each: {brief(list(ncpus))}"
        )
    return numbers


def _checked_deal(
    revision: Revision, function: str, deal: object, ncpus: int, ngroups: int
) -> Deal:
    """Refuse a deal that leaves CPUs out, or starts at none.

    It may ask for more CPUs than there are, as `deal_rotating` does when its sum wraps; only a
    deal that picks its CPUs by position (`deal_parts`) may not.
    """
    if not isinstance(deal, Deal):
        raise RequestError(
            f"revision {brief(revision.name)}: {function} gave {brief(deal)}; expected a Deal"
        )
    sizes = _whole_numbers(revision, function, deal.sizes, ngroups)
    (first,) = _whole_numbers(revision, function, [deal.first], 1)
    asked = sum(sizes)
    if asked < ncpus or first >= ncpus or (function == "deal_parts" and asked > ncpus):
        raise RequestError(
            f"revision {brief(revision.name)}: {function} gave {brief(deal)} for {ncpus} CPUs; "
            f"expected sizes that are {ncpus} in all and a first position below it"
        )
    return Deal(sizes, first)


class _Patterns(dict[tuple[int, int], _Pattern]):
    """The patterns of a call by CPUs and groups, each made when it is first asked for."""

    def __init__(self, call: _Call) -> None:
        super().__init__()
        self.call = call

    def __missing__(self, key: tuple[int, int]) -> _Pattern:
        pattern = self[key] = _Pattern(self.call, *key)
        return pattern


class _Layout(NamedTuple):
    """Some CPUs in the order of their clusters and cores."""

    clusters: tuple[int, ...]
    """The CPUs of each cluster; nothing where clusters need not be looked at."""
    cores: tuple[int, ...]
    """The CPUs of each core."""
    order: tuple[int, ...]
    below: list[int]
    """The sum of the bits before each place, going round twice: differences are masks."""


def _layout(topology: Topology, cpus: Sequence[int], across: bool) -> _Layout:
    """Put CPUs in order, each cluster and core from its lowest CPU; `across` clusters or in one."""
    key = (tuple(cpus), across)
    if layout := topology._layouts.get(key):
        return layout
    cores = _split(cpus, topology._core)
    clusters = _split(cpus, topology._cluster) if across else {}
    if -1 in clusters or max(map(len, clusters.values()), default=0) < max(
        map(len, cores.values())
    ):
        clusters = {}
    in_order = [
        core
        for members in clusters.values() or [cpus]
        for core in _split(members, topology._core).values()
    ]
    order = tuple(cpu for core in in_order for cpu in core)
    layout = topology._layouts[key] = _Layout(
        tuple(map(len, clusters.values())),
        tuple(map(len, in_order)),
        order,
        list(accumulate((1 << cpu for cpu in order * 2), initial=0)),
    )
    return layout


def _split(cpus: Iterable[int], part_of: Mapping[int, int]) -> dict[int, list[int]]:
    parts: dict[int, list[int]] = {}
    for cpu in cpus:
        parts.setdefault(part_of[cpu], []).append(cpu)
    return parts


def grp_spread(
    cpus: Sequence[int], sizes: Iterable[int], first: int, siblings_of: Mapping[int, Sequence[int]]
) -> list[list[int]]:
    """Deal CPUs to groups, a core at a time: ``grp_spread_init_one()`` for every group.

    Parameters
    ----------
    cpus : sequence of int
        The CPUs to deal, ascending.
    sizes : iterable of int
        How many CPUs each group is to get.
    first : int
        Position in `cpus` of the CPU dealt first.
    siblings_of : mapping of int to sequence of int
        All CPUs of a CPU's core, ascending.

    Returns
    -------
    list of list of int
        The CPUs of each group in the order they were taken: the next free CPU, then the free CPUs
        of its core in ascending order, and so on.  The last groups go short if CPUs run out.

    Examples
    --------
    A group that is full cuts a core in two, and the other half is next when it is the lowest:

    >>> siblings_of = {0: (0, 3), 1: (1, 4), 2: (2, 5), 3: (0, 3), 4: (1, 4), 5: (2, 5)}
    >>> grp_spread(range(6), [3, 3], 0, siblings_of)
    [[0, 3, 1], [2, 5, 4]]
    """
    # One byte a CPU, so that the next free one is found at the speed of memchr().
    free = bytearray(MAX_CPUS)
    for cpu in cpus:
        free[cpu] = 1
    left = len(cpus)
    cpu = cpus[first]
    groups = []
    for size in sizes:
        wanted = size if size < left else left
        left -= wanted
        taken: list[int] = []
        while wanted:
            cpu = free.find(1, cpu)
            if cpu < 0:
                cpu = free.find(1)
            free[cpu] = 0
            taken.append(cpu)
            wanted -= 1
            if wanted:
                for sibling in siblings_of[cpu]:
                    if wanted and free[sibling]:
                        free[sibling] = 0
                        taken.append(sibling)
                        wanted -= 1
        groups.append(taken)
    return groups


def _attempt(
    node: int, ngroups: int, clusters: list[tuple[int, ...]] | None, taken: bool
) -> ClusterAttempt:
    if clusters is None:
        return ClusterAttempt(node, ngroups, (), taken, "a CPU's cluster mask is empty")
    reason = f"{counted(len(clusters), 'cluster')} for {counted(ngroups, 'group')}"
    return ClusterAttempt(node, ngroups, tuple(map(CpuSet, clusters)), taken, reason)
