# SPDX-License-Identifier: GPL-2.0-only
"""``rotate-tiled`` and ``rotate-kept``, this project's own rotations; they are in no kernel.

``rotate-tiled`` counts groups instead of calls: each call's groups begin where the last one's
ended, node by node and cluster by cluster.  ``rotate-kept`` counts devices, each of which keeps its
number, and cuts no more cores in two than `cluster`.  Notebook 12 compares them with the other
revisions.

This module has over 450 lines since the second rotation is a variation of the first.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import decisions
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.engine.rotations import Deal, deal_evenly, unless_one
from groupcpus.engine.steps import Step
from groupcpus.engine.topology import Topology

__all__ = [
    "ROTATE_KEPT",
    "ROTATE_TILED",
    "KeptRevision",
    "TiledRevision",
    "Turn",
    "continue_shares",
    "deal_from_unit",
    "deal_tiles",
    "split_parts",
]


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
            # Written so that unsigned numbers would do.
            spread[at] = share + ((i + count - before % count) % count < left)
            totals[at] = (before + count - 1 - i) // count
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


class Turn(NamedTuple):
    """What a call, or a node or cluster in it, starts from."""

    total: int
    """How many groups it was given before."""
    calls: int
    """How many calls that makes, if all were as large as this one."""


def by_groups(numgrps: int) -> int:
    """Count groups; a call for one is no reason to move anything."""
    return numgrps if numgrps > 1 else 0


@dataclass(frozen=True)
class TiledRevision(Revision):
    """A revision whose counter counts groups."""

    def turn(self, numgrps: int, offset: int) -> Turn:
        """Return the groups, and calls of this size, that the counter stands for."""
        return Turn(offset, offset // numgrps)

    def first_node(self, ncpus: Sequence[int], turn: Turn) -> int:
        """Return the node after the last call's last one, if all are equally large."""
        return turn.total % len(ncpus) if len(set(ncpus)) == 1 else 0

    def share(
        self, level: str, ncpus: Sequence[int], ngroups: Sequence[int], turn: Turn
    ) -> tuple[Sequence[int], Sequence[Turn]]:
        """Return what `continue_shares` does."""
        if len(ncpus) == 1:
            return ngroups, [turn]
        spread, totals = continue_shares(ncpus, ngroups, *turn)
        return spread, [Turn(total, turn.calls) for total in totals]

    def order(
        self, topology: Topology, cpus: Sequence[int], ngroups: int
    ) -> tuple[Sequence[int], Mapping[int, Sequence[int]], Hashable]:
        """Return the CPUs cluster by cluster and core by core, if `deal_tiles` divides them."""
        if 1 < ngroups < len(cpus):
            clusters, cores, in_order = layout(topology, cpus)
            if deal_tiles(clusters, cores, ngroups, 0):
                # Each group takes the next CPUs of the order, whether they are siblings or not.
                return in_order, dict.fromkeys(cpus, ()), (clusters, cores)
        return super().order(topology, cpus, ngroups)

    def divide(self, shape: Any, ngroups: int, turn: Turn) -> Deal:
        """Return what `deal_tiles` does, or what `deal` does for CPUs that it cannot divide."""
        if isinstance(shape, int):
            return self.deal(shape, ngroups, turn.total)
        clusters, cores = shape
        return deal_tiles(clusters, cores, ngroups, turn.total) or Deal([])


class Borders(NamedTuple):
    """Some CPUs in the order of their clusters and cores."""

    clusters: tuple[int, ...]
    """The CPUs of each cluster; nothing where clusters need not be looked at."""
    cores: tuple[int, ...]
    """The CPUs of each core."""
    in_order: list[int]


def layout(topology: Topology, cpus: Sequence[int]) -> Borders:
    """Put CPUs in order, each cluster and core from its lowest CPU on.

    Examples
    --------
    >>> layout(Topology.uniform(nodes=1, cpus_per_node=8, threads=2, cluster=4), range(3, 8))
    Borders(clusters=(1, 4), cores=(1, 2, 2), in_order=[3, 4, 5, 6, 7])
    """
    core_of = topology.core_ids.__getitem__
    clusters = topology.clusters_in(cpus) or ()
    widest = max(map(len, split(cpus, core_of)))
    if max(map(len, clusters), default=0) < widest:
        clusters = ()
    whole = clusters or (tuple(cpus),)
    cores = [core for members in whole for core in split(members, core_of)]
    return Borders(
        tuple(map(len, clusters)), tuple(map(len, cores)), [cpu for core in cores for cpu in core]
    )


def split(cpus: Iterable[int], part_of: Callable[[int], int]) -> list[list[int]]:
    """Return the CPUs of each part, in the order of the first of each."""
    parts: dict[int, list[int]] = {}
    for cpu in cpus:
        parts.setdefault(part_of(cpu), []).append(cpu)
    return list(parts.values())


ROTATE_TILED = TiledRevision(
    "rotate-tiled",
    "an idea of this project, in no kernel",
    "counts groups instead of calls, and each call's begin where the last one's ended",
    counts=by_groups,
)


# The kept number of a device is reduced to so many, that its product with the number of groups
# (at most 65536) still fits into 32 bits.
_DEVICES = 1 << 16


class Units(NamedTuple):
    """Some CPUs that may be taken from the start of any unit of them, and all cores stay alike."""

    ncpus: int
    units: int
    """How many units: cores, or clusters that groups are larger than; 1: nothing may move."""
    stride: int
    """From the first CPU of a unit to that of the next, in the order in which CPUs are taken."""


def deal_from_unit(units: Units, ngroups: int, total: int) -> Deal:
    """Divide CPUs as `cluster` does, but start behind the groups with one CPU more of those before.

    Parameters
    ----------
    units : Units
        The CPUs.
    ngroups : int
        How many groups to deal them to.
    total : int
        How many groups these CPUs were given before.

    Notes
    -----
    It starts with a whole unit, rounded down.  In C no number is greater than 2^32: before they
    are multiplied, both factors are reduced modulo the CPUs, of which there are at most 8192.

    Examples
    --------
    >>> cores = Units(ncpus=10, units=5, stride=2)
    >>> [deal_from_unit(cores, 7, total).first for total in (0, 7, 14)]
    [0, 6, 2]
    """
    ncpus, count, stride = units
    deal = deal_evenly(ncpus, ngroups, 0)
    share = ncpus // ngroups
    if ncpus % ngroups == 0:
        return deal
    # As in deal_tiles: the larger groups of all calls lie end to end.
    back = total % ncpus * (share * (share + 1) % ncpus) % ncpus
    return Deal(deal.sizes, (ncpus - back) % ncpus // (ncpus // count) * stride)


@dataclass(frozen=True)
class KeptRevision(TiledRevision):
    """A revision whose counter counts devices.

    A call whose groups divide the CPUs evenly gets the answer of `cluster`.  So does every call on
    a machine that is not the same from each core on: cores of several sizes, CPUs in no regular
    order, or equally large nodes with different clusters or last-level caches.  And CPUs whose
    groups may hold a whole last-level cache are taken from the lowest on.
    """

    def replaced(self, topology: Topology, numgrps: int, counter: int) -> Iterator[Step] | None:
        """Let `cluster` answer where nothing is to be rotated."""
        if len(topology.present) % min(numgrps, len(topology.present)) and is_regular(topology):
            return None
        return decisions(topology, numgrps, REVISIONS["cluster"], 0)

    def turn(self, numgrps: int, offset: int) -> Turn:
        """Return what as many devices with calls of this size were given before."""
        devices = offset % _DEVICES
        return Turn(devices * numgrps, devices)

    def order(
        self, topology: Topology, cpus: Sequence[int], ngroups: int
    ) -> tuple[Sequence[int], Mapping[int, Sequence[int]], Hashable]:
        """Return the order of `cluster`, and where in it one may start."""
        most = -(-len(cpus) // ngroups)
        fits = smallest_llc(topology, tuple(cpus)) > most
        units = units_of(topology, tuple(cpus)) if fits else Units(len(cpus), 1, len(cpus))
        return cpus, topology.core_cpus, units

    def divide(self, shape: Any, ngroups: int, turn: Turn) -> Deal:
        """Return what `deal_from_unit` does."""
        return deal_from_unit(shape, ngroups, turn.total)


@lru_cache(maxsize=4096)
def units_of(topology: Topology, cpus: tuple[int, ...]) -> Units:
    """Find the units of some CPUs of a regular machine: cores, or clusters if there are several.

    Examples
    --------
    >>> units_of(Topology.uniform(nodes=1, cpus_per_node=8, threads=2, cluster=4), tuple(range(8)))
    Units(ncpus=8, units=2, stride=4)
    """
    still = Units(len(cpus), 1, len(cpus))
    step = core_step(topology, cpus)
    firsts = cpus[:: step or 1][: len({topology.core_ids[cpu] for cpu in cpus})]
    clusters = topology.clusters_in(cpus) or ()
    size = len(cpus) // len(firsts)
    if not step:
        return still
    if len(clusters) < 2 or max(map(len, clusters)) <= size:
        return Units(len(cpus), len(firsts), step)
    # Groups may be larger than clusters: start with a whole one.
    runs = [len(list(run)) for _, run in groupby(firsts, topology.cluster_ids.__getitem__)]
    if len(runs) != len(clusters) or len(set(runs)) > 1:
        return still
    return Units(len(cpus), len(runs), step * runs[0])


def core_step(topology: Topology, cpus: Sequence[int]) -> int:
    """Return how far the first CPUs of equal cores are apart in an order; 0: it is not regular.

    They are neighbours where all first threads come first, as on many servers.
    """
    cores = [topology.core_ids[cpu] for cpu in cpus]
    unlike = list(dict.fromkeys(cores))
    threads = len(cores) // len(unlike)
    if cores == [core for core in unlike for _ in range(threads)]:
        return threads
    return int(threads == 2 and cores == unlike * 2)


@lru_cache(maxsize=4096)
def smallest_llc(topology: Topology, cpus: tuple[int, ...]) -> int:
    """Return how many of some CPUs the smallest last-level cache has; all: there is no border.

    No queue that has fewer CPUs holds all of such a cache.

    Examples
    --------
    >>> machine = {"nodes": {"0": "0-7"}, "possible": "0-7", "present": "0-7"}
    >>> halves = Topology.from_dict(machine | {"llcs": ["0-3", "4-7"]})
    >>> smallest_llc(halves, (2, 3, 4, 5, 6, 7)), smallest_llc(halves, (2, 3))
    (2, 3)
    """
    sizes = [len(cache & CpuSet(cpus)) for cache in topology.llcs]
    # As large as no group is, if these CPUs have one cache, or none is known.
    return min([size for size in sizes if 0 < size < len(cpus)], default=len(cpus) + 1)


def llc_pattern(topology: Topology, cpus: Sequence[int]) -> list[tuple[int, int]]:
    """Return each CPU's last-level cache: the position of the first CPU in it, and its size.

    Examples
    --------
    >>> machine = {"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-3"}
    >>> llc_pattern(Topology.from_dict(machine | {"llcs": ["0,2"]}), range(4))
    [(0, 2), (-1, 0), (0, 2), (-1, 0)]
    """
    caches = [topology.llc_of(cpu) for cpu in cpus]
    return [
        (-1, 0) if cache is None else (caches.index(cache), len(cache & topology.possible))
        for cache in caches
    ]


@lru_cache(maxsize=256)
def is_regular(topology: Topology) -> bool:
    """Tell whether a machine is the same from each core on, but for the sizes of its nodes."""
    steps: set[int | None] = set()
    threads: set[float] = set()
    shapes: dict[int, list[int]] = {}
    caches: dict[int, list[tuple[int, int]]] = {}
    for stage in (topology.present, topology.possible - topology.present):
        for node in topology.nodes.values():
            cpus = tuple(node & stage)
            if not cpus:
                continue
            clusters = topology.clusters_in(cpus) or ()
            sizes = sorted(map(len, clusters))
            if shapes.setdefault(len(cpus), sizes) != sizes:
                return False
            for part in (cpus, *clusters):
                pattern = llc_pattern(topology, part) if topology.llcs else []
                if caches.setdefault(len(part), pattern) != pattern:
                    return False
                cores = len({topology.core_ids[cpu] for cpu in part})
                threads.add(len(part) / cores)
                # A single core is in any order.
                steps.add(core_step(topology, part) if cores > 1 else None)
    return len(threads) == 1 and len(steps - {None}) <= 1 and 0 not in steps


def split_parts(masks: Iterable[CpuSet], parts: Iterable[CpuSet]) -> int:
    """Count the parts, such as cores or last-level caches, that are cut between queues.

    Parameters
    ----------
    masks : iterable of CpuSet
        The masks of a device's queues.
    parts : iterable of CpuSet
        Such as ``topology.siblings`` or ``topology.llcs``; CPUs in none of them count for nothing.

    Examples
    --------
    Two cores, and a queue that takes one and a half of them: one core is cut.

    >>> split_parts([CpuSet("0-2"), CpuSet("3")], [CpuSet("0-1"), CpuSet("2-3")])
    1
    """
    given = [mask.mask for mask in masks]
    return sum(sum(bool(mask & part.mask) for mask in given) > 1 for part in parts)


ROTATE_KEPT = KeptRevision(
    "rotate-kept",
    "a second idea of this project, in no kernel",
    "counts devices, each keeps its number; cuts no more cores than cluster",
    counts=unless_one,
    per_device=True,
)
