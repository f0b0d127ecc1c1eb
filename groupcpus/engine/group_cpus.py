# SPDX-License-Identifier: GPL-2.0-only
"""``group_cpus_evenly()``: lib/group_cpus.c function by function, under the kernel's names.

One generator yields the decisions of a call in order (`decisions`); `group_cpus_evenly` adds up
the CPUs that groups are assigned, `explain` keeps all of them.  What differs between versions of
the function is asked of a revision (`groupcpus.engine.revisions`).

CPUs are numbers here, and a set of them is an ascending tuple.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import cycle, islice
from typing import Any, NamedTuple

from groupcpus.engine.revisions import CheckedRevision, Revision, get_revision
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.steps import (
    Allotted,
    Assigned,
    ClusterAttempt,
    Divided,
    Grouping,
    Rotated,
    RoundRobin,
    Share,
    Stage,
    Step,
    Unfilled,
)
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief

__all__ = ["MAX_GROUPS", "Grouping", "explain", "group_cpus_evenly"]

# More than any device has vectors (MSI-X: 2048), and a list of this length is still small.
MAX_GROUPS = 65536


class Part(NamedTuple):
    """A node, or a cluster of it, with its CPUs of this stage and the groups it was allotted."""

    node: int
    cluster: tuple[int, ...] | None
    cpus: tuple[int, ...]
    ngroups: int
    turn: Any


def grp_spread_init_one(
    candidates: Iterator[int], free: set[int], size: int, siblings: Mapping[int, Sequence[int]]
) -> list[int]:
    """Fill one group: the next free CPU, then its free siblings, and so on while there is room.

    Examples
    --------
    A full group cuts a core in two, and the other half is next when its turn comes:

    >>> cores = {0: (0, 3), 1: (1, 4), 2: (2, 5), 3: (0, 3), 4: (1, 4), 5: (2, 5)}
    >>> free = set(range(6))
    >>> candidates = filter(free.__contains__, range(6))
    >>> [grp_spread_init_one(candidates, free, size, cores) for size in (3, 3)]
    [[0, 3, 1], [2, 5, 4]]
    """
    taken: list[int] = []
    while len(taken) < size and (cpu := next(candidates, None)) is not None:
        for thread in (cpu, *siblings[cpu]):
            if thread in free and len(taken) < size:
                free.remove(thread)
                taken.append(thread)
    return taken


@lru_cache(maxsize=128)
def alloc_groups_to_nodes(ncpus: tuple[int, ...], numgrps: int, sort: str) -> tuple[Share, ...]:
    """Allot groups to nodes, or to the clusters of one, in proportion to their CPUs.

    The smallest is served first.  One that has no CPUs in this stage has UINT_MAX in the kernel's
    sort, whose comparison is signed: -1.

    Examples
    --------
    >>> print(*alloc_groups_to_nodes((4, 0, 4, 2), 6, "double-pop"), sep=", ")
    3: 6*2/10 = 1, 2: 5*4/8 = 2, 0: 3*4/4 = 3
    """
    shares = []
    groups_left, cpus_left = numgrps, sum(ncpus)
    for id in heapsort_order([count or -1 for count in ncpus], sort):
        if ncpus[id]:
            ngroups = max(1, groups_left * ncpus[id] // cpus_left)
            shares.append(Share(id, ncpus[id], groups_left, cpus_left, ngroups))
            groups_left -= ngroups
            cpus_left -= ncpus[id]
    return tuple(shares)


def allot_and_rotate(
    revision: CheckedRevision, node: int | None, ncpus: Iterable[int], numgrps: int, turn: Any
) -> Generator[Step, None, list[tuple[int, int, Any]]]:
    """Allot groups to nodes, or to the clusters of one `node`, and let the revision move some.

    Returns
    -------
    list of (id, ngroups, turn)
        In the order in which they are served.
    """
    shares = alloc_groups_to_nodes(tuple(ncpus), numgrps, revision.sort)
    yield Allotted(node, shares)
    ids, sizes, _, _, allotted = zip(*shares, strict=True)
    level = "node" if node is None else "cluster"
    groups, turns = revision.share(level, sizes, allotted, turn)
    if groups != list(allotted):
        yield Rotated(node, ids, allotted, tuple(groups))
    return list(zip(ids, groups, turns, strict=True))


def alloc_cluster_groups(
    topology: Topology, revision: CheckedRevision, whole: Part
) -> Generator[Step, None, list[Part]]:
    """Divide a node into its clusters, if it has groups for all of them."""
    if not revision.cluster_aware:
        return [whole]
    clusters = topology.clusters_in(whole.cpus)
    taken = clusters is not None and len(clusters) <= whole.ngroups
    yield ClusterAttempt(whole.node, whole.ngroups, clusters, taken)
    if clusters is None or not taken:
        return [whole]
    allotted = yield from allot_and_rotate(
        revision, whole.node, map(len, clusters), whole.ngroups, whole.turn
    )
    return [
        Part(whole.node, clusters[id], clusters[id], ngroups, turn)
        for id, ngroups, turn in allotted
    ]


def assign_cpus_to_groups(
    topology: Topology, revision: CheckedRevision, part: Part, curgrp: Iterator[int]
) -> Iterator[Step]:
    """Divide the CPUs of a node or cluster among its groups, near CPUs together."""
    node, cluster, cpus, ngroups, turn = part
    sizes, first, order, siblings = revision.divide(topology, cpus, ngroups, turn)
    if ngroups > 1:
        yield Divided(node, cluster, len(cpus), sizes, order[first])
    # Lowest first, unless the revision starts elsewhere; some are taken before their turn comes.
    free = set(cpus)
    candidates = filter(free.__contains__, [*order[first:], *order[:first]])
    for size in sizes:
        taken = grp_spread_init_one(candidates, free, size, siblings)
        yield Assigned(next(curgrp), node, cluster, tuple(taken))


def __group_cpus_evenly(
    topology: Topology,
    revision: CheckedRevision,
    nodes: Mapping[int, tuple[int, ...]],
    numgrps: int,
    curgrp: Iterator[int],
    turn: Any,
) -> Iterator[Step]:
    """Assign the CPUs of one stage: to whole nodes in turn, or node by node in proportion."""
    if numgrps <= len(nodes):  # whole nodes, in turn
        first = revision.first_node(list(map(len, nodes.values())), turn)
        in_turn = (*nodes, *nodes)[first : first + len(nodes)]
        yield RoundRobin(in_turn, numgrps)
        for node in in_turn:
            yield Assigned(next(curgrp), node, None, nodes[node])
        return

    ncpus = [len(nodes.get(node, ())) for node in range(max(topology.nodes) + 1)]
    allotted = yield from allot_and_rotate(revision, None, ncpus, min(numgrps, sum(ncpus)), turn)
    for node, ngroups, node_turn in allotted:
        whole = Part(node, None, nodes[node], ngroups, node_turn)
        for part in (yield from alloc_cluster_groups(topology, revision, whole)):
            yield from assign_cpus_to_groups(topology, revision, part, curgrp)


def decisions(topology: Topology, numgrps: int, revision: Revision, counter: int) -> Iterator[Step]:
    """Yield every decision of a call: the present CPUs first, then those that could be plugged in.

    Arguments are as `group_cpus_evenly` checks them.
    """
    replaced = revision.replaced(topology, numgrps, counter)
    if replaced is not None:
        yield from replaced
        return
    offset = revision.offset(numgrps, counter)
    turn = revision.turn(numgrps, offset)
    checked = CheckedRevision(revision)
    filled = 0
    for name, cpus, nodes in topology.stages:
        yield Stage(name, cpus, tuple(nodes), numgrps, filled % numgrps, offset)
        curgrp = islice(cycle(range(numgrps)), filled % numgrps, None)
        for step in __group_cpus_evenly(topology, checked, nodes, numgrps, curgrp, turn):
            filled += isinstance(step, Assigned)
            yield step
        filled = min(filled, numgrps)
    if filled < numgrps:
        yield Unfilled(filled, numgrps, warns=not revision.cluster_aware)


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
        If an argument is none that can be, or a function of a revision of your own returns what
        cannot be.

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
    revision = _check(topology, numgrps, revision, spread_offset)
    steps = decisions(topology, numgrps, revision, spread_offset)
    return _add_up(steps, topology, numgrps, revision)


def explain(
    topology: Topology,
    numgrps: int,
    *,
    revision: str | Revision = "rotate-v2",
    spread_offset: int = 0,
) -> tuple[Grouping, tuple[Step, ...]]:
    """Group all possible CPUs as `group_cpus_evenly` does, and keep every decision.

    Returns
    -------
    grouping : Grouping
        What `group_cpus_evenly` returns for the same arguments.
    steps : tuple of Step
        The decisions in order (`groupcpus.engine.steps`), each with a sentence as its ``str()``.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4)
    >>> for step in explain(machine, 3, revision="cluster")[1]:
    ...     print(step)
    present: assign CPUs 0-5 of node 0 to 3 groups, from group 0 on
    nodes, in the order of the sort: 0: 3*6/6 = 3
    node 0: by cluster, 2 clusters for 3 groups
    clusters of node 0, in the order of the sort: 1: 3*2/6 = 1, 0: 2*4/4 = 2
    group 0: CPUs 4, 5 of cluster 4-5
    cluster 0-3: 4 CPUs for 2 groups, 2 + 2 from CPU 0 on
    group 1: CPUs 0, 1 of cluster 0-3
    group 2: CPUs 2, 3 of cluster 0-3
    """
    revision = _check(topology, numgrps, revision, spread_offset)
    steps = tuple(decisions(topology, numgrps, revision, spread_offset))
    return _add_up(steps, topology, numgrps, revision), steps


def _check(
    topology: object, numgrps: object, revision: str | Revision, spread_offset: object
) -> Revision:
    """Refuse arguments that can be none, and return the revision."""
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
    return get_revision(revision)


def _add_up(
    steps: Iterable[Step], topology: Topology, numgrps: int, revision: Revision
) -> Grouping:
    """Return the masks that the assignments make; before Linux 6.17 all of them counted."""
    masks = [0] * numgrps
    assigned = 0
    nummasks, warns = numgrps, False
    for step in steps:
        if isinstance(step, Assigned):
            assigned += len(step.cpus)
            for cpu in step.cpus:
                masks[step.group] |= 1 << cpu
        elif isinstance(step, Unfilled):
            nummasks = step.filled if revision.cluster_aware else numgrps
            warns = step.warns
    if assigned != len(topology.possible):
        raise RequestError(
            f"revision {brief(revision.name)}: {assigned} CPUs assigned, expected all "
            f"{len(topology.possible)}"
        )
    return Grouping(masks, nummasks, warns)
