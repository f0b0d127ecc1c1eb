# SPDX-License-Identifier: GPL-2.0-only
"""How good it can get: the least greatest number of interrupts a CPU, and the most CPUs used.

Two kinds of bound.  `best_maximum` takes masks as they are and lets the irqchip choose perfectly.
The others take an irqchip as it is and let the grouping be any *valid* one: a partition of the
CPUs in which no group crosses nodes, or, with no more groups than nodes, in which none cuts a node.

Everything about an irqchip that takes the first CPU of a mask follows from this: **the lowest
online CPU of a node is the first CPU of whichever group it is in.**  A group of such a CPU has
only CPUs of the same node, and none lower; or it has whole nodes, and then their lowest CPUs are
the only ones that can come first.  So

* each call with at least as many groups as nodes puts one interrupt on the lowest CPU of every
  node, and each other call one on the lowest CPU of all (`forced_cpus`);
* the lowest CPU of all serves as many interrupts as there are calls.  No CPU can serve more, since
  it is in one group a call: the greatest count *is* the number of calls (`least_maximum`);
* a call with f groups on n nodes reaches at most f - n CPUs beyond the lowest ones (`most_used`).

This module has over 450 lines since half of it says why each bound holds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from groupcpus.engine.cpuset import CpuSet, cpus_of
from groupcpus.engine.irqchips import IRQCHIPS, FirstCpu
from groupcpus.engine.topology import Topology

__all__ = [
    "best_maximum",
    "crowding",
    "forced_cpus",
    "least_maximum",
    "least_submitters",
    "most_used",
]


def takes_first(irqchip: str) -> bool:
    """Tell whether an irqchip, by its name in `IRQCHIPS`, takes the first CPU of a mask.

    Examples
    --------
    >>> [name for name in IRQCHIPS if takes_first(name)]
    ['gicv2m', 'gicv3', 'its-first']
    """
    return IRQCHIPS.get(irqchip) is FirstCpu


def forced_cpus(topology: Topology, numgrps: int, irqchip: str) -> CpuSet:
    """List the CPUs that serve an interrupt of every call, however the CPUs are grouped.

    Parameters
    ----------
    topology : Topology
        The machine.
    numgrps : int
        How many groups a call asks for.
    irqchip : str
        A name in `IRQCHIPS`.

    Returns
    -------
    CpuSet
        Empty for an irqchip that chooses.  For one that takes the first CPU: the lowest online CPU
        of every node if there are as many groups as nodes or more, else the lowest one of all.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=2, cpus_per_node=48)
    >>> forced_cpus(machine, 14, "gicv3"), forced_cpus(machine, 1, "gicv3")
    (CpuSet('0,48'), CpuSet('0'))
    >>> forced_cpus(machine, 14, "x86")
    CpuSet('')
    """
    if not takes_first(irqchip) or not topology.online:
        return CpuSet()
    if numgrps >= _present_nodes(topology):
        return _lowest_of_nodes(topology)
    return CpuSet([min(topology.online)])


def most_used(topology: Topology, calls: Iterable[int], irqchip: str) -> int:
    """Give the number of CPUs that serve an interrupt, which no valid grouping can go above.

    Parameters
    ----------
    topology : Topology
        The machine; only online CPUs can serve.
    calls : iterable of int
        The numgrps of each call whose groups become masks of managed interrupts.
    irqchip : str
        A name in `IRQCHIPS`.

    Returns
    -------
    int
        All online CPUs, or as many as there are interrupts.  For an irqchip that takes the first
        CPU, the lowest CPUs count once, not once a call.

    Notes
    -----
    Let f be a call's groups with an online CPU, at most ``min(numgrps, online)``, and n the nodes
    that have one.  All calls share the lowest CPU of all, so at most ``1 + sum(f - 1)`` CPUs are
    used.  All calls with more groups than nodes share the n lowest CPUs, and the other calls reach
    none but those, so at most ``n + sum(f - n)`` are, summed over the former.  Neither can be
    improved: some valid groupings reach the smaller one, see the tests.

    Examples
    --------
    Two disks with 6 queues on one node of 16 CPUs: 12 CPUs with an interrupt each cannot be.

    >>> machine = Topology.uniform(nodes=1, cpus_per_node=16, threads=1, cluster=16)
    >>> most_used(machine, [6, 6], "gicv3"), most_used(machine, [6, 6], "x86")
    (11, 12)
    """
    online = len(topology.online)
    if not online:
        return 0
    asked = list(calls)
    groups = [min(numgrps, online) for numgrps in asked]
    if not takes_first(irqchip) or not groups:
        return min(online, sum(groups))
    lowest = len(_lowest_of_nodes(topology))
    nodes = _present_nodes(topology)
    beyond = sum(max(0, min(numgrps, online) - lowest) for numgrps in asked if numgrps > nodes)
    return min(online, 1 + sum(filled - 1 for filled in groups), lowest + beyond)


def _present_nodes(topology: Topology) -> int:
    return sum(bool(cpus & topology.present) for cpus in topology.nodes.values())


def _lowest_of_nodes(topology: Topology) -> CpuSet:
    reachable = [cpus & topology.online for cpus in topology.nodes.values()]
    return CpuSet(min(cpus) for cpus in reachable if cpus)


def least_maximum(cpus: int, irqs: int, partitions: int, irqchip: str) -> int:
    """Give the greatest number of interrupts a CPU that no grouping can go below.

    Parameters
    ----------
    cpus : int
        Online CPUs.
    irqs : int
        Interrupts that these CPUs handle.
    partitions : int
        Calls of `group_cpus_evenly` whose groups became masks of managed interrupts.
    irqchip : str
        A name in `IRQCHIPS`.

    Returns
    -------
    int
        ``ceil(irqs / cpus)`` if the irqchip picks among the CPUs of a mask.  One that takes the
        first CPU puts one interrupt of each call on the lowest online CPU: whichever group that
        CPU is in, it is the first one there.  As no CPU can have more, this is then not only the
        least but the only possible greatest number.

    Examples
    --------
    Six disks with 14 queues each on 96 CPUs:

    >>> least_maximum(96, 6 * 14, 6, "x86"), least_maximum(96, 6 * 14, 6, "gicv3")
    (1, 6)
    """
    even = -(-irqs // cpus) if cpus else 0
    return max(even, partitions) if takes_first(irqchip) and irqs else even


def least_submitters(online: int, calls: Iterable[int]) -> int:
    """Return the greatest number of submitters a CPU that no grouping can go below.

    Parameters
    ----------
    online : int
        CPUs that handle interrupts, and submit to one queue of every call.
    calls : iterable of int
        The numgrps of each call whose groups became masks of managed interrupts.

    Returns
    -------
    int
        All submitters spread over as many CPUs as there are, or as there are interrupts; but at
        least those of the largest queue, which one CPU handles.  An online CPU's queue is never
        shut down; offline ones are left out, since all of them may be in one that is.

    Examples
    --------
    Six disks with 62 queues each, or with 14, on 96 CPUs:

    >>> least_submitters(96, [62] * 6), least_submitters(96, [14] * 6)
    (6, 7)
    """
    groups = [min(numgrps, online) for numgrps in calls]
    handlers = min(online, sum(groups))
    if not handlers:
        return 0
    largest = max(-(-online // numgrps) for numgrps in groups)
    return max(largest, -(-online * len(groups) // handlers))


def crowding(masks: Counter[int], sets: Iterable[int]) -> int:
    """Find the most crowded of some CPU sets: interrupts that cannot leave it, a CPU.

    Parameters
    ----------
    masks : Counter of int
        How many interrupts have each mask (as integers).
    sets : iterable of int
        The CPU sets to look at.

    Returns
    -------
    int
        The greatest ``ceil(interrupts within the set / CPUs in the set)``; no irqchip can keep
        every CPU below that.
    """
    # A mask within a set begins with one of its CPUs: only those need a look.
    by_first: dict[int, list[tuple[int, int]]] = {}
    for mask, count in masks.items():
        by_first.setdefault((mask & -mask).bit_length() - 1, []).append((mask, count))
    worst = 0
    for cpus in sets:
        begun = (by_first.get(cpu, ()) for cpu in cpus_of(cpus))
        inside = sum(count for some in begun for mask, count in some if not mask & ~cpus)
        worst = max(worst, -(-inside // cpus.bit_count()))
    return worst


def best_maximum(topology: Topology, masks: Iterable[CpuSet], reached: int | None = None) -> int:
    """Give the least possible greatest number of interrupts a CPU, if the irqchip chose perfectly.

    Parameters
    ----------
    topology : Topology
        The machine; only online CPUs count.
    masks : iterable of CpuSet
        The masks of all interrupts of all devices.  One without an online CPU counts for nothing.
    reached : int, optional
        A maximum that is known to be possible, which shortens the search.

    Returns
    -------
    int
        The bound; 0 without interrupts.

    Notes
    -----
    The most crowded mask gives a lower bound.  Whether a maximum is possible is a flow: from every
    mask to its CPUs, with the maximum as each CPU's capacity.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=4)
    >>> best_maximum(machine, [CpuSet("0-1")] * 3 + [CpuSet("0-3")])
    2
    """
    online = topology.online.mask
    counts = Counter(mask.mask & online for mask in masks)
    del counts[0]
    total = sum(counts.values())
    if not total:
        return 0
    least = crowding(counts, {*counts, online})
    if reached == least:
        return least
    most = total if reached is None else reached
    while least < most:
        middle = (least + most) // 2
        if _possible(counts, middle):
            most = middle
        else:
            least = middle + 1
    return least


def _possible(masks: Counter[int], maximum: int) -> bool:
    """Tell whether every interrupt finds a CPU when each CPU takes at most `maximum`."""
    import networkx as nx

    graph = nx.DiGraph()
    for mask, count in masks.items():
        graph.add_edge("interrupts", ("mask", mask), capacity=count)
        for cpu in cpus_of(mask):
            graph.add_edge(("mask", mask), cpu)
            graph.add_edge(cpu, "all placed", capacity=maximum)
    return nx.maximum_flow_value(graph, "interrupts", "all placed") == sum(masks.values())


class _Part(NamedTuple):
    """A node or cluster in one call: the fewest and most groups that lie within it."""

    cpus: tuple[int, ...]
    least: int
    most: int


class _Split(NamedTuple):
    """A node in one call, and its clusters if each of them has groups of its own."""

    node: _Part
    clusters: tuple[_Part, ...]
    certain: bool
    """False: whether it is dealt cluster by cluster depends on the groups it gets."""
    shapes: "tuple[_Shape, ...]"
    """Of the clusters, or of the node."""


def _shares(parts: Sequence[tuple[int, ...]], numgrps: int) -> Iterator[_Part]:
    """Share groups out as fairly as `cluster`: as many to each size, split evenly within it."""
    groups_left, cpus_left = numgrps, sum(map(len, parts))
    together: Counter[int] = Counter()
    for size in sorted(map(len, parts)):
        share = groups_left * size // cpus_left or 1
        together[size] += share
        groups_left -= share
        cpus_left -= size
    count = Counter(map(len, parts))
    for part in parts:
        size = len(part)
        yield _Part(part, together[size] // count[size], -(-together[size] // count[size]))


def _nodes(topology: Topology) -> list[tuple[int, ...]]:
    """Return the CPUs of each node that has any; all are present here, so there is one stage."""
    return [*topology.stages[0][2].values()]


@lru_cache(maxsize=512)
def _splits(topology: Topology, numgrps: int) -> list[_Split]:
    """Cut a machine as a call does; sweeps ask for the same calls with many devices."""
    nodes = _nodes(topology)
    clusters = [topology.node_clusters[topology.node_of(cpus[0])] or () for cpus in nodes]
    splits = []
    for node, within in zip(_shares(nodes, numgrps), clusters, strict=True):
        parts: tuple[_Part, ...] = ()
        if 0 < len(within) <= node.least:
            parts = tuple(
                _Part(few.cpus, few.least, many.most)
                for few, many in zip(
                    _shares(within, node.least), _shares(within, node.most), strict=True
                )
            )
        shapes = tuple(_shape(topology, part.cpus) for part in parts or (node,))
        certain = bool(parts) or not 0 < len(within) <= node.most
        splits.append(_Split(node, parts, certain, shapes))
    return splits


def reachable_maximum(topology: Topology, calls: Iterable[int]) -> int:
    """Give a greatest number of interrupts a CPU that no fair revision goes below.

    Fair is a revision that gives all nodes (and in a node all clusters) of one size as many groups
    together as `cluster` does, and splits that evenly among them.

    Parameters
    ----------
    topology : Topology
        A machine whose CPUs are all online.
    calls : iterable of int
        The groups that each call asks for; each one filled becomes an interrupt.

    Returns
    -------
    int
        At least ``ceil(interrupts / CPUs)``, for the machine and for every node and cluster.

    Examples
    --------
    A cluster of four CPUs and one of a single CPU: with two groups a call, each has one.

    >>> machine = Topology.uniform(nodes=1, cpus_per_node=5, threads=1, cluster=4)
    >>> reachable_maximum(machine, [2, 2, 2])
    3
    """
    cpus = tuple(topology.possible)
    nodes = sum(map(bool, topology.nodes.values()))
    within: Counter[tuple[int, ...]] = Counter()
    for numgrps, times in Counter(calls).items():
        filled = min(numgrps, len(cpus))
        # A node may be the machine, and a cluster the node: by their CPUs they count once.
        parts = {cpus: filled}
        if numgrps > nodes:
            for split in _splits(topology, filled):
                for part in (*split.clusters, split.node):
                    parts.setdefault(part.cpus, part.least)
        within.update({part: times * count for part, count in parts.items()})
    return max((-(-count // len(part)) for part, count in within.items()), default=0)


def reachable_cpus(topology: Topology, calls: Iterable[int]) -> int:
    """Give a number of CPUs that no fair revision exceeds where the first CPU of a mask is picked.

    Besides being fair (see `reachable_maximum`) the revision must let no more groups cross a
    border of clusters or cores than `cluster` does.

    Parameters
    ----------
    topology : Topology
        A machine whose CPUs are all online, the CPUs of a core (and cluster) side by side.
    calls : iterable of int
        The groups that each call asks for.

    Notes
    -----
    Take n CPUs that are dealt to g groups, of ``n // g`` CPUs at least.

    * The lowest one is the first of its group in every call, so a call adds ``g - 1`` others.
    * The last ``n // g - 1`` are never first: a group has that many CPUs above its first one.
    * Where groups fit into cores (or clusters) of u CPUs, ``n // g <= u``, most have to: then only
      a group of more than u CPUs starts inside of one.  There are ``u * (n / u - g)`` of those.
      With cores of two and ``n // g == 1``, instead, each of the ``g - n / 2`` cores cut in two
      adds one.
    * Groups of whole nodes start with the lowest CPU of a node.

    Examples
    --------
    Three calls for two groups on eight CPUs: 0 in all of them, and one more in each.

    >>> machine = Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=0)
    >>> reachable_cpus(machine, [2, 2, 2]), reachable_cpus(machine, [2] * 20)
    (4, 5)
    """
    everything = len(topology.possible)
    nodes = _nodes(topology)
    lowest = {cpus[0] for cpus in nodes}
    others = 0
    # What is dealt in one go, and as how many groups, a call.
    dealt: dict[tuple[int, ...], list[tuple[_Part, int]]] = {}
    ways: dict[tuple[int, ...], set[tuple[tuple[int, ...], ...]]] = {node: set() for node in nodes}
    shapes: dict[tuple[int, ...], _Shape] = {}
    for numgrps, times in Counter(calls).items():
        if numgrps <= len(nodes):
            continue
        for split in _splits(topology, min(numgrps, everything)):
            parts = split.clusters or (split.node,)
            ways[split.node.cpus].add(tuple(part.cpus for part in parts if split.certain))
            if split.certain:
                shapes.update(zip((part.cpus for part in parts), split.shapes, strict=True))
                for part in parts:
                    dealt.setdefault(part.cpus, []).append((part, times))
            else:
                clusters = topology.node_clusters[topology.node_of(split.node.cpus[0])]
                lowest.update(cluster[0] for cluster in clusters or [])
            lowest.update(part.cpus[0] for part in parts)
            others -= times * len(parts)
        others += times * min(numgrps, everything)
    most = 0
    for node, known in ways.items():
        if not known:
            most += 1
        elif len(known) > 1 or () in known:
            most += len(node)
        else:
            for within in next(iter(known)):
                made = [(call.least, call.most, times) for call, times in dealt[within]]
                most += _most_first(shapes[within], tuple(made))
    return min(most, len(lowest) + others)


class _Shape(NamedTuple):
    """How many CPUs a node or cluster has, and the CPUs of its cores and clusters, if all equal."""

    ncpus: int
    sizes: tuple[int, ...]


def _shape(topology: Topology, cpus: tuple[int, ...]) -> _Shape:
    even = []
    # Cores, and the clusters of a node that is not dealt by cluster.
    for part_of in (topology.core_ids, topology.cluster_ids):
        sizes = Counter(part_of[cpu] for cpu in cpus)
        if len(sizes) > 1 and len(set(sizes.values())) == 1 and None not in sizes:
            even.append(sizes[part_of[cpus[0]]])
    return _Shape(len(cpus), tuple(even))


@lru_cache(maxsize=1024)
def _most_first(shape: _Shape, calls: tuple[tuple[int, int, int], ...]) -> int:
    """Count the CPUs of one node or cluster that may be the first of a group in some call.

    The calls are the least and most groups in it, and how often they are made.
    """
    ncpus = shape.ncpus
    most = [ncpus - ncpus // max(most for _, most, _ in calls) + 1]
    most.append(1 + sum(times * (most - 1) for _, most, times in calls))
    for size in shape.sizes:
        inside = sum(
            times * max(_starts_inside(ncpus, size, ngroups) for ngroups in (least, most))
            for least, most, times in calls
        )
        most.append(ncpus // size + inside)
    return min(most)


def _starts_inside(ncpus: int, size: int, ngroups: int) -> int:
    """Count how many groups may start inside of a part (core or cluster) of `size` CPUs."""
    parts, share = ncpus // size, ncpus // ngroups
    if share == size:
        return size * (parts - ngroups)
    return ngroups - parts if share == 1 and size == 2 else ncpus
