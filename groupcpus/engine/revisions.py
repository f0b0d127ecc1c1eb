# SPDX-License-Identifier: GPL-2.0-only
"""The versions of `group_cpus_evenly`, each as data and a few small functions.

All versions share one skeleton (`group_cpus`).  They differ in the sort, in whether they
look at clusters, and in what a call's *spread_offset* rotates:

* ``respread``: after groups were allotted to nodes or clusters in proportion to their CPUs, which
  of them keep the ones that rounding left over;
* ``deal``: which groups of a node or cluster get one CPU more, and at which CPU dealing starts;
* ``first_node``: where the round robin over whole nodes starts when nodes outnumber groups.

A revision that keeps a running total of groups instead of a number of calls has two more:

* ``continue_shares``: like ``respread``, and how many groups each node or cluster had before;
* ``deal_parts``: like ``deal``, for CPUs in the order of their clusters and cores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from groupcpus.errors import RequestError, brief, meant

__all__ = [
    "REVISIONS",
    "Deal",
    "Revision",
    "continue_shares",
    "deal_evenly",
    "deal_from_rotated_start",
    "deal_rotating",
    "deal_rotating_fixed",
    "deal_tiles",
    "get_revision",
    "respread_classes",
    "respread_over_proportional_floor",
    "respread_over_smallest",
]

_UINT_MAX = 0xFFFFFFFF


class Deal(NamedTuple):
    """How the CPUs of one node or cluster are dealt to its groups."""

    sizes: Sequence[int]
    """CPUs that each group gets, in group order."""
    first: int = 0
    """Position, in the ascending list of the CPUs, of the one that is dealt first."""


Dealer = Callable[[int, int, int], Deal]
Respreader = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]
Continuer = Callable[[Sequence[int], Sequence[int], int, int], tuple[Sequence[int], Sequence[int]]]
PartsDealer = Callable[[Sequence[int], Sequence[int], int, int], Deal | None]


def deal_evenly(ncpus: int, ngroups: int, spread_offset: int) -> Deal:
    """Give the first ``ncpus % ngroups`` groups one CPU more; the offset changes nothing.

    Source: ``assign_cpus_to_groups()``, lib/group_cpus.c, Linux 7.0; the same loop stands in
    ``__group_cpus_evenly()`` before.

    Examples
    --------
    >>> deal_evenly(8, 3, 0)
    Deal(sizes=[3, 3, 2], first=0)
    """
    share, extra = divmod(ncpus, ngroups)
    return Deal([share + 1] * extra + [share] * (ngroups - extra))


def deal_rotating(ncpus: int, ngroups: int, spread_offset: int) -> Deal:
    """Rotate which groups get one CPU more, in 32-bit arithmetic that may wrap.

    When ``v + spread_offset`` wraps inside a loop, the wrong number of groups may get one more.
    Source: "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking".

    Examples
    --------
    >>> deal_rotating(8, 3, 1).sizes
    [3, 2, 3]
    >>> deal_rotating(4, 3, 2**32 - 1).sizes  # 5 CPUs asked of 4
    [2, 2, 1]
    """
    share, extra = divmod(ncpus, ngroups)
    if not extra:
        return Deal([share] * ngroups)
    return Deal(
        [share + (((v + spread_offset) & _UINT_MAX) % ngroups < extra) for v in range(ngroups)]
    )


def deal_rotating_fixed(ncpus: int, ngroups: int, spread_offset: int) -> Deal:
    """Rotate which groups get one CPU more, the offset reduced first so that nothing wraps.

    Examples
    --------
    >>> deal_rotating_fixed(4, 3, 2**32 - 1).sizes
    [2, 1, 1]
    """
    return deal_rotating(ncpus, ngroups, spread_offset % ngroups)


def deal_from_rotated_start(ncpus: int, ngroups: int, spread_offset: int) -> Deal:
    """Rotate which groups get one CPU more and, when some do, the CPU that is dealt first.

    The first CPU moves by a little more than half the set a call, a step that meets every CPU
    before it repeats.

    Examples
    --------
    >>> deal_from_rotated_start(8, 3, 1)
    Deal(sizes=[3, 2, 3], first=5)
    >>> deal_from_rotated_start(8, 4, 1)
    Deal(sizes=[2, 2, 2, 2], first=0)
    """
    deal = deal_rotating_fixed(ncpus, ngroups, spread_offset)
    if ncpus % ngroups == 0:
        return deal
    stride = ncpus // 2 + 1
    if ncpus % 2 == 0 and stride % 2 == 0:
        stride += 1
    return Deal(deal.sizes, spread_offset % ncpus * stride % ncpus)


def respread_over_proportional_floor(
    ncpus: Sequence[int], ngroups: Sequence[int], spread_offset: int
) -> list[int]:
    """Take back what exceeds each cluster's proportional floor and place it from a rotated start.

    Parameters
    ----------
    ncpus, ngroups : sequence of int
        CPUs and allotted groups of each cluster, in the order of the sort.
    spread_offset : int
        The position where placing starts, modulo the number of clusters.

    Returns
    -------
    list of int
        The groups of each cluster, as many in all as before.

    Notes
    -----
    Source: "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking".

    Examples
    --------
    >>> [respread_over_proportional_floor([4] * 5, [1, 1, 1, 2, 2], n) for n in (0, 1)]
    [[2, 1, 2, 1, 1], [1, 2, 1, 2, 1]]
    """
    total_groups, total_cpus = sum(ngroups), sum(ncpus)
    floor = {cap: max(1, total_groups * cap // total_cpus) for cap in set(ncpus)}
    base = list(map(min, map(floor.__getitem__, ncpus), ngroups))
    return place_extras(ncpus, ngroups, base, spread_offset)


def respread_over_smallest(
    ncpus: Sequence[int], ngroups: Sequence[int], spread_offset: int
) -> list[int]:
    """Do the same over the smallest allotment of any cluster, as the first patch is said to.

    Source: rebuilt from the change log of "[PATCH v2] lib/group_cpus: rotate extra groups to avoid
    IRQ stacking".

    Examples
    --------
    Unequal clusters lose their proportions:

    >>> respread_over_smallest([2, 8], [1, 4], 0)
    [2, 3]
    """
    return place_extras(ncpus, ngroups, [min(ngroups)] * len(ngroups), spread_offset)


def place_extras(
    ncpus: Sequence[int],
    ngroups: Sequence[int],
    base: list[int],
    spread_offset: int,
    stride: int | None = None,
) -> list[int]:
    """Place the groups that `base` leaves over: first in strides, then wherever there is room."""
    count = len(base)
    placed = list(base)
    extras = sum(ngroups) - sum(base)
    if stride is None:
        stride = count // extras if 0 < extras < count else 1
    start = spread_offset % count
    for i in range(count):
        if not extras:
            break
        at = (start + i * stride) % count
        if placed[at] < ncpus[at]:
            placed[at] += 1
            extras -= 1
    while extras and any(map(int.__lt__, placed, ncpus)):
        for at in range(count):
            if extras and placed[at] < ncpus[at]:
                placed[at] += 1
                extras -= 1
    return placed


def respread_classes(ncpus: Sequence[int], ngroups: Sequence[int], spread_offset: int) -> list[int]:
    """Split what equally large nodes (or clusters) got evenly, the remainder from a rotated start.

    Examples
    --------
    >>> respread_classes([8] * 6, [5, 5, 5, 5, 6, 6], 1)
    [5, 6, 5, 5, 6, 5]
    """
    spread = list(ngroups)
    for _, same in groupby(range(len(ncpus)), key=lambda at: ncpus[at]):
        places = list(same)
        count = len(places)
        share, left = divmod(sum(ngroups[at] for at in places), count)
        for at in places:
            spread[at] = share
        for i in range(left):
            spread[places[(spread_offset % count + i * (count // left)) % count]] += 1
    return spread


def continue_shares(
    ncpus: Sequence[int], ngroups: Sequence[int], total: int, calls: int
) -> tuple[list[int], list[int]]:
    """Split what equally large nodes (or clusters) got evenly, from where the last call ended.

    Think of the groups that such nodes ever got as numbered, and dealt to them in turn.  A call
    takes the next numbers; so each node has had as many as the others, up to one, whatever sizes
    the calls had.

    Parameters
    ----------
    ncpus, ngroups : sequence of int
        CPUs and allotted groups of each node (or cluster), in the order of the sort.
    total : int
        How many groups they all were given before.
    calls : int
        How many calls that makes, if all were as large as this one.

    Returns
    -------
    ngroups, totals : list of int
        The groups of each now, and how many each was given before.

    Examples
    --------
    >>> continue_shares([8] * 3, [2, 2, 3], total=0, calls=0)
    ([3, 2, 2], [0, 0, 0])
    >>> continue_shares([8] * 3, [2, 2, 3], total=7, calls=1)
    ([2, 3, 2], [3, 2, 2])
    """
    spread, totals = list(ngroups), [0] * len(ngroups)
    numgrps = sum(ngroups)
    for _, same in groupby(range(len(ncpus)), key=lambda at: ncpus[at]):
        places = list(same)
        count = len(places)
        here = sum(ngroups[at] for at in places)
        # Nodes of other sizes had theirs: as many a call as now.
        before = total - calls * (numgrps - here)
        share, left = divmod(here, count)
        for i, at in enumerate(places):
            spread[at] = share + ((i - before) % count < left)
            totals[at] = (before - i + count - 1) // count
    return spread, totals


def deal_tiles(
    clusters: Sequence[int], cores: Sequence[int], ngroups: int, total: int
) -> Deal | None:
    """Lay the groups of successive calls around the CPUs like tiles.

    Where a group may fit into a cluster or core, the groups with one CPU more come first, and the
    first of them takes the cluster (or core, or CPU) after the last one of the call before.  So
    such groups meet every CPU equally often, and no more groups cross a border than must.

    Other groups are larger than any cluster and core.  The two sizes take turns as evenly as can
    be, and everything moves back by one CPU a call.  Then in any row of calls every CPU is the last
    one of a group equally often, and the first one.

    Parameters
    ----------
    clusters, cores : sequence of int
        CPUs of each cluster (nothing, if there is no need to look at them) and of each core.
    ngroups : int
        How many groups to deal them to.
    total : int
        How many groups these CPUs were given before.

    Returns
    -------
    Deal or None
        Positions count CPUs cluster by cluster, core by core; None: deal as `cluster` does,
        for clusters that are not equally large.

    Examples
    --------
    Five cores of two CPUs: three pairs, and in the next call the next three pairs.

    >>> deal_tiles([], [2] * 5, 7, total=0), deal_tiles([], [2] * 5, 7, total=7)
    (Deal(sizes=[2, 2, 2, 1, 1, 1, 1], first=0), Deal(sizes=[2, 2, 2, 1, 1, 1, 1], first=6))

    Larger groups:

    >>> deal_tiles([], [1] * 8, 3, total=0), deal_tiles([], [1] * 8, 3, total=3)
    (Deal(sizes=[3, 3, 2], first=0), Deal(sizes=[3, 2, 3], first=2))
    """
    ncpus = sum(cores)
    share, extra = divmod(ncpus, ngroups)
    if len(clusters) > 1 and share <= max(clusters):
        if len(set(clusters)) > 1:
            return None
        part = clusters[0]
    elif len(cores) > 1 and len(set(cores)) == 1 and share <= cores[0]:
        part = cores[0]
    elif share == 1:
        part = 1
    else:
        return _deal_between(ncpus, ngroups, total // ngroups % ncpus)
    # A call's larger groups cover extra * (share + 1) CPUs. Up to whole rounds of all CPUs, which
    # are ngroups * share + extra, that is ngroups * share * (share + 1) CPUs less.
    back = total * share * (share + 1) // part
    sizes = [share + 1] * extra + [share] * (ngroups - extra)
    return Deal(sizes, -back % (ncpus // part) * part if extra else 0)


def _deal_between(ncpus: int, ngroups: int, back: int) -> Deal:
    """Start group i at CPU ``ceil(i * ncpus / ngroups) - back``, counting in a circle."""
    first = (back - 1) * ngroups // ncpus + 1
    starts = [-(-i * ncpus // ngroups) - back for i in range(first, first + ngroups + 1)]
    return Deal(list(map(int.__sub__, starts[1:], starts)), starts[0])


def _never(numgrps: int) -> bool:
    return False


def _always(numgrps: int) -> bool:
    return True


def _unless_one(numgrps: int) -> bool:
    return numgrps != 1


def _by_groups(numgrps: int) -> int:
    """Count groups; a call for one is no reason to move anything."""
    return numgrps if numgrps > 1 else 0


def _rotated_if_equal(ncpus: Sequence[int], spread_offset: int) -> int:
    """Start the round robin at a rotated node when all nodes are equally large."""
    return spread_offset % len(ncpus) if len(set(ncpus)) == 1 else 0


@dataclass(frozen=True)
class Revision:
    """A version of `group_cpus_evenly`.

    Parameters
    ----------
    name : str
        As in `REVISIONS`.
    kernel : str
        Which kernels have it, or where it was proposed.
    summary : str
        What it does differently, in a line.
    sort : {"double-pop", "single-pop"}
        The kernel's sort that it runs on.
    cluster_aware : bool
        Whether a node's groups are kept within clusters when there are enough of them.
    respread_nodes, respread_clusters : callable, optional
        ``f(ncpus, ngroups, spread_offset) -> ngroups``: moves allotted groups between nodes, or
        between the clusters of a node; all in the order of the sort.
    deal : callable
        ``f(ncpus, ngroups, spread_offset) -> Deal``: how a node or cluster is dealt.
    first_node : callable, optional
        ``f(ncpus, spread_offset) -> position`` of the node where the round robin over whole nodes
        starts, given their CPU counts.
    ticks : callable
        ``f(numgrps) -> int``: how far a call advances the counter, whose value before it is the
        call's offset.  With 0 (or False) the counter stands still and the offset is 0.
    continue_shares : callable, optional
        ``f(ncpus, ngroups, total, calls) -> (ngroups, totals)``: instead of `respread_nodes` and
        `respread_clusters`, for a counter of groups; see the function of that name.
    deal_parts : callable, optional
        ``f(clusters, cores, ngroups, total) -> Deal``, or None to deal with `deal` after all:
        how CPUs in the order of their clusters and cores are dealt; see `deal_tiles`.

    Examples
    --------
    A revision of one's own is a few arguments:

    >>> from groupcpus import Topology, group_cpus_evenly
    >>> mine = Revision("mine", "nowhere", "the last groups get more", ticks=lambda numgrps: False,
    ...                 deal=lambda ncpus, ngroups, offset: deal_rotating_fixed(ncpus, ngroups, 2))
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=1, cluster=4)
    >>> [str(mask) for mask in group_cpus_evenly(machine, 3, revision=mine).masks]
    ['0', '1-2', '3']
    """

    name: str
    kernel: str
    summary: str
    sort: str = "double-pop"
    cluster_aware: bool = True
    respread_nodes: Respreader | None = None
    respread_clusters: Respreader | None = None
    deal: Dealer = deal_evenly
    first_node: Callable[[Sequence[int], int], int] | None = None
    ticks: Callable[[int], int] = _never
    continue_shares: Continuer | None = None
    deal_parts: PartsDealer | None = None

    def __post_init__(self) -> None:
        if self.sort not in ("double-pop", "single-pop", "stable"):
            raise RequestError(
                f"revision {brief(self.name)}: sort {brief(self.sort)}: expected 'double-pop', "
                f"'single-pop' or 'stable'"
            )

    def steps(self, numgrps: int) -> int:
        """Tell how far a call for `numgrps` groups advances the counter.

        Raises
        ------
        RequestError
            If `ticks` gives no number.
        """
        steps = self.ticks(numgrps)
        if not isinstance(steps, int) or steps < 0:
            raise RequestError(
                f"revision {brief(self.name)}: ticks gave {brief(steps)}; expected 0 or more"
            )
        return int(steps)

    def offset(self, numgrps: int, counter: int) -> int:
        """Give the offset that a call takes when the counter stands at `counter`."""
        return counter & _UINT_MAX if self.steps(numgrps) else 0


_V2 = "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking"

REVISIONS: dict[str, Revision] = {
    revision.name: revision
    for revision in (
        Revision(
            "numa",
            "6.3 to 6.19",
            "nodes deal their CPUs directly",
            cluster_aware=False,
        ),
        Revision(
            "numa-single-pop",
            "6.3 to 6.8 or so",
            "numa on the older sort",
            sort="single-pop",
            cluster_aware=False,
        ),
        Revision(
            "cluster",
            "7.0 on (commit 89802ca36c96)",
            "a node's groups stay within clusters when there are enough of them",
        ),
        Revision(
            "rotate-v1",
            "proposed in March 2026",
            "cluster, with extras over the smallest allotment rotated a call",
            respread_clusters=respread_over_smallest,
            deal=deal_rotating,
            ticks=_always,
        ),
        Revision(
            "rotate-v2",
            f"proposed as {_V2!r}",
            "cluster, with extras over the proportional floor rotated a call",
            respread_clusters=respread_over_proportional_floor,
            deal=deal_rotating,
            ticks=_always,
        ),
        Revision(
            "rotate-v2-fixed",
            f"remedy in a reply to {_V2!r}",
            "rotate-v2 with the offset reduced before the sum, so that nothing wraps",
            respread_clusters=respread_over_proportional_floor,
            deal=deal_rotating_fixed,
            ticks=_always,
        ),
        Revision(
            "rotate-v2-skip1",
            f"tweak in a reply to {_V2!r}",
            "rotate-v2 whose counter stands still for calls with one group",
            respread_clusters=respread_over_proportional_floor,
            deal=deal_rotating,
            ticks=_unless_one,
        ),
        Revision(
            "rotate-next",
            "a later tree of the patch's author",
            "rotates over equally large nodes too, and the CPU that dealing starts at",
            respread_nodes=respread_classes,
            respread_clusters=respread_classes,
            deal=deal_from_rotated_start,
            first_node=_rotated_if_equal,
            ticks=_unless_one,
        ),
        Revision(
            "rotate-tiled",
            "an idea of this project, in no kernel",
            "counts groups instead of calls, and deals each call's where the last one's ended",
            first_node=_rotated_if_equal,
            ticks=_by_groups,
            continue_shares=continue_shares,
            deal_parts=deal_tiles,
        ),
    )
}


def get_revision(revision: str | Revision) -> Revision:
    """Look a revision up by name; one that is a `Revision` already is returned as it is.

    Raises
    ------
    RequestError
        If there is no revision of that name.
    """
    if isinstance(revision, Revision):
        return revision
    if not isinstance(revision, str) or revision not in REVISIONS:
        raise RequestError(
            f"revision {brief(revision)}: expected one of {', '.join(REVISIONS)}"
            f"{meant(revision, REVISIONS)}"
        )
    return REVISIONS[revision]
