# SPDX-License-Identifier: GPL-2.0-only
"""Where a machine's nodes, clusters, cores and CPUs are drawn: a tree in nested boxes.

Nothing here draws, and no matplotlib is needed: the live view takes the same places.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import networkx as nx

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology

__all__ = [
    "MAX_CIRCLES",
    "Layout",
    "best_layout",
    "holds_one_cluster",
    "joints",
    "nested_layout",
    "topology_graph",
]

# Beyond this, circles get too small for their numbers; folded, so many remain.
MAX_CIRCLES = 192
FOLDED = 48
# CPUs in a row of a node.
COLUMNS = 24
# What a CPU may measure, in inches.
INCH = 0.6
# Rows for the heading and for the legend, in units of a CPU.
HEADING, LEGEND = 0.9, 1.3


def topology_graph(topology: Topology, max_leaves: int = MAX_CIRCLES) -> nx.DiGraph:
    """Make the tree machine → node → cluster → core → CPU of a machine's possible CPUs.

    A level with nothing to tell is left out: cores that are single CPUs, clusters that are cores.
    Beyond `max_leaves` CPUs, neighbouring CPUs of a cluster, and then neighbouring clusters of a
    node, fold into one leaf.

    Parameters
    ----------
    topology : Topology
        The machine.
    max_leaves : int
        Machines with more CPUs fold until about 48 leaves remain, a few more for the last ones of
        each node: fewer than need be, so that each has room for its numbers.

    Returns
    -------
    networkx.DiGraph
        Vertices are ``(level, name)``; each has the attributes ``level`` and ``cpus`` (CpuSet).
    """
    graph = nx.DiGraph()
    root = ("machine", 0)
    graph.add_node(root, level="machine", cpus=topology.possible)
    fold = _fold(len(topology.possible), max_leaves)

    def add(parent: tuple[str, int], level: str, cpus: CpuSet) -> tuple[str, int]:
        if graph.nodes[parent]["cpus"] == cpus and level in ("cluster", "core"):
            return parent
        vertex = (level, cpus.first if cpus.first is not None else -1)
        graph.add_node(vertex, level=level, cpus=cpus)
        graph.add_edge(parent, vertex)
        return vertex

    for node, members in topology.nodes.items():
        place = ("node", node)
        graph.add_node(place, level="node", cpus=members)
        graph.add_edge(root, place)
        for clusters in _folded(_parts(members, topology.cluster_of), fold):
            home = add(place, "cluster", _union(clusters))
            for cores in _folded(_parts(_union(clusters), topology.siblings_of), fold):
                core = add(home, "core", _union(cores))
                cpus = list(_union(cores))
                for at in range(0, len(cpus), fold):
                    add(core, "cpu", CpuSet(cpus[at : at + fold]))
    return graph


def _fold(cpus: int, max_leaves: int) -> int:
    """Choose how many CPUs a leaf stands for: a power of two, as machines are made."""
    fold = 1
    if cpus > max_leaves:
        while cpus / fold > min(FOLDED, max_leaves):
            fold *= 2
    return fold


def _parts(cpus: CpuSet, part_of: Any) -> list[CpuSet]:
    """Cut CPUs into the clusters or cores they belong to; unknown clusters are single CPUs."""
    parts: dict[CpuSet, None] = {}
    for cpu in cpus:
        parts[part_of(cpu) & cpus or CpuSet([cpu])] = None
    return list(parts)


def _folded(parts: list[CpuSet], fold: int) -> list[list[CpuSet]]:
    """Put neighbouring parts together until each bunch has at least `fold` CPUs."""
    bunches: list[list[CpuSet]] = [[]]
    for part in parts:
        if bunches[-1] and sum(map(len, bunches[-1])) + len(part) > fold:
            bunches.append([])
        bunches[-1].append(part)
    return [bunch for bunch in bunches if bunch]


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet([cpu for cpus in sets for cpu in cpus])


@dataclass(frozen=True)
class Layout:
    """Where a topology graph is drawn: leaves in rows, everything else a box around them."""

    places: Mapping[tuple[str, int], tuple[float, float]]
    """The centre of each leaf."""
    boxes: Mapping[tuple[str, int], Sequence[tuple[float, float, float, float]]]
    """Left, bottom, right and top of each node and cluster; a box a row if they span several."""
    width: float
    height: float


def nested_layout(graph: nx.DiGraph, columns: int = COLUMNS, across: int | None = None) -> Layout:
    """Lay a topology graph out in nested boxes: nodes side by side, their leaves in rows.

    Parameters
    ----------
    graph : networkx.DiGraph
        As `topology_graph` makes it.
    columns : int
        Leaves in a row of a node.
    across : int, optional
        Leaves in a row of nodes; as many as `columns` when left out.

    Returns
    -------
    Layout
        Always the same for the same graph.
    """
    places: dict[tuple[str, int], tuple[float, float]] = {}
    boxes: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    across = max(columns, across or columns)
    left = top = width = lowest = 0.0
    used = 0
    for node in graph.successors(("machine", 0)):
        leaves = [v for v in nx.dfs_preorder_nodes(graph, node) if graph.nodes[v]["level"] == "cpu"]
        # A node without CPUs still has a name to show.
        takes = min(len(leaves), columns) or 4
        if used and used + takes > across:
            left, top, used = 0.0, lowest - 0.4, 0
        right, bottom = left + 4.7, top - 1.0
        if leaves:
            right, bottom = _lay_node(graph, leaves, columns, (left, top), places, boxes)
        boxes[node] = [(left, bottom, right, top)]
        used += takes
        left = right + 0.5
        width = max(width, right)
        lowest = min(lowest, bottom)
    return Layout(places, boxes, width, -lowest)


def _lay_node(
    graph: nx.DiGraph,
    leaves: list[tuple[str, int]],
    columns: int,
    corner: tuple[float, float],
    places: dict[tuple[str, int], tuple[float, float]],
    boxes: dict[tuple[str, int], list[tuple[float, float, float, float]]],
) -> tuple[float, float]:
    """Lay out the leaves of one node from its top left corner; give its bottom right one."""
    left, top = corner
    x, y = left + 0.35, top - 1.4
    right = x
    in_row = 0
    last_cluster = None
    by_cluster = groupby(leaves, key=lambda leaf: _ancestor(graph, leaf, "cluster"))
    for cluster, members in by_cluster:
        these = list(members)
        if in_row and (in_row >= columns or in_row + min(len(these), columns) > columns):
            x, y, in_row = left + 0.35, y - 1.75, 0
        elif in_row and (cluster is not None or last_cluster is not None):
            x += 0.35
        start = x
        for leaf in these:
            if in_row >= columns:
                if cluster is not None:
                    boxes.setdefault(cluster, []).append((start, y - 0.85, x, y + 0.55))
                x, y, in_row = left + 0.35, y - 1.75, 0
                start = x
            places[leaf] = (x + 0.5, y)
            x += 1
            in_row += 1
            right = max(right, x)
        if cluster is not None:
            boxes.setdefault(cluster, []).append((start, y - 0.85, x, y + 0.55))
        last_cluster = cluster
    return right + 0.35, y - 1.05


def _ancestor(graph: nx.DiGraph, leaf: tuple[str, int], level: str) -> tuple[str, int] | None:
    """Find the cluster (or core) a leaf is in; a core that is its cluster counts as one too."""
    vertex: tuple[str, int] | None = leaf
    while vertex is not None and graph.nodes[vertex]["level"] != level:
        vertex = next(graph.predecessors(vertex), None)
    return vertex


def best_layout(graph: nx.DiGraph, width: float, height: float) -> Layout:
    """Find the layout whose CPUs are largest on a page of `width` times `height`."""
    nodes = len(list(graph.successors(("machine", 0))))
    best, largest = None, 0.0
    for columns in (2, 4, 6, 8, 12, 16, 24, 32):
        for beside in sorted({1, 2, 3, 4, 6, 8, 12, nodes}):
            if beside > nodes or columns * beside > 64:
                continue
            layout = nested_layout(graph, columns, columns * beside)
            across, down = layout.width + 0.4, layout.height + HEADING + LEGEND
            size = min(width / across, height / down, INCH)
            # The less height the better, of those as large.
            if (
                best is None
                or size > largest * 1.01
                or (size > largest * 0.99 and layout.height < best.height)
            ):
                best, largest = layout, max(size, largest)
    assert best is not None
    return best


def holds_one_cluster(topology: Topology, cpus: CpuSet) -> bool:
    """Return whether CPUs are one real cluster of several in its node, not some folded ones.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=8, threads=2, cluster=4)
    >>> holds_one_cluster(machine, CpuSet("0-3")), holds_one_cluster(machine, CpuSet("0-7"))
    (True, False)
    """
    first = cpus.first
    if first is None or len(cpus) < 2:
        return False
    return topology.cluster_of(first) & topology.nodes[topology.node_of(first)] == cpus


def joints(
    topology: Topology, graph: nx.DiGraph, layout: Layout
) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Return the pairs of neighbouring leaves that are threads of one core and stand in one row."""
    members = {leaf: graph.nodes[leaf]["cpus"] for leaf in layout.places}
    return [
        (here, there)
        for here, there in pairwise(layout.places)
        if layout.places[here][1] == layout.places[there][1]
        and len(members[here]) == 1
        and members[there] <= topology.siblings_of(members[here].first)
    ]
