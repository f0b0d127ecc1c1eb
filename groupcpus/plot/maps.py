# SPDX-License-Identifier: GPL-2.0-only
"""The map of a machine: nodes, clusters, cores and CPUs in nested boxes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import matplotlib as mpl
import networkx as nx
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Patch

from groupcpus.cpuset import CpuSet
from groupcpus.plot.base import COUNTS, HOT, axes_of, luminance, span
from groupcpus.simulate import Run
from groupcpus.topology import Topology

# Beyond this, circles get too small for their numbers.
MAX_CIRCLES = 192
# CPUs in a row of a map.
COLUMNS = 24


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
        How many leaves the tree may have at most, a few more for the last ones of each node.

    Returns
    -------
    networkx.DiGraph
        Vertices are ``(level, name)``; each has the attributes ``level`` and ``cpus`` (CpuSet).
    """
    graph = nx.DiGraph()
    root = ("machine", 0)
    graph.add_node(root, level="machine", cpus=topology.possible)
    fold = -(-len(topology.possible) // max_leaves)

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


def nested_layout(graph: nx.DiGraph, columns: int = COLUMNS) -> Layout:
    """Lay a topology graph out in nested boxes: nodes side by side, their leaves in rows.

    The same graph always gives the same layout.
    """
    places: dict[tuple[str, int], tuple[float, float]] = {}
    boxes: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    left = top = width = lowest = 0.0
    used = 0
    for node in graph.successors(("machine", 0)):
        leaves = [v for v in nx.dfs_preorder_nodes(graph, node) if graph.nodes[v]["level"] == "cpu"]
        if not leaves:
            continue
        if used and used + min(len(leaves), columns) > columns:
            left, top, used = 0.0, lowest - 0.5, 0
        right, bottom = _lay_node(graph, node, leaves, columns, (left, top), places, boxes)
        boxes[node] = [(left, bottom, right, top)]
        used += min(len(leaves), columns)
        left = right + 0.6
        width = max(width, right)
        lowest = min(lowest, bottom)
    return Layout(places, boxes, width, -lowest)


def _lay_node(
    graph: nx.DiGraph,
    node: tuple[str, int],
    leaves: list[tuple[str, int]],
    columns: int,
    corner: tuple[float, float],
    places: dict[tuple[str, int], tuple[float, float]],
    boxes: dict[tuple[str, int], list[tuple[float, float, float, float]]],
) -> tuple[float, float]:
    """Lay out the leaves of one node from its top left corner; give its bottom right one."""
    left, top = corner
    x, y = left + 0.35, top - 1.45
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
    return right + 0.35, y - 1.1


def _ancestor(graph: nx.DiGraph, leaf: tuple[str, int], level: str) -> tuple[str, int] | None:
    """Find the cluster (or core) a leaf is in; a core that is its cluster counts as one too."""
    vertex: tuple[str, int] | None = leaf
    while vertex is not None and graph.nodes[vertex]["level"] != level:
        vertex = next(graph.predecessors(vertex), None)
    return vertex


def topology_map(
    what: Run | Topology,
    ax: Axes | None = None,
    *,
    top: int | None = None,
    groups: Sequence[CpuSet] | None = None,
    focus: CpuSet | None = None,
    captions: Mapping[int, str] | None = None,
) -> Axes:
    """Draw a machine: nodes and clusters as boxes, CPUs as circles with their interrupts inside.

    Threads of one core are joined by a bar.  A ring marks a CPU with an interrupt that can go
    nowhere else.  Large machines fold neighbouring CPUs into one circle that says how many.

    Parameters
    ----------
    what : Run or Topology
        A run is coloured by interrupts a CPU; a bare machine has CPU numbers in its circles.
    ax : Axes, optional
        Where to draw.
    top : int, optional
        The count with the darkest colour, so that several pictures share the scale.
    groups : sequence of CpuSet, optional
        Colour by these groups and write their numbers inside instead.
    focus : CpuSet, optional
        CPUs to draw with a thick black rim.
    captions : mapping of int to str, optional
        What to add to the label of each node.

    Returns
    -------
    Axes
    """
    run = what if isinstance(what, Run) else None
    topology = what.machine.topology if isinstance(what, Run) else what
    graph = topology_graph(topology)
    layout = nested_layout(graph)
    width, height = layout.width + 0.4, layout.height + 0.4
    if ax is None:
        inch = min(11 / width, 0.6)
        ax = axes_of(None, inch * width, inch * height)
    ax.set(xlim=(-0.2, layout.width + 0.2), ylim=(-layout.height - 0.2, 0.2), aspect="equal")
    ax.set_axis_off()
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    inches = min(
        figure.get_figwidth() * box.width / width, figure.get_figheight() * box.height / height
    )
    point = 72 * inches
    _draw_boxes(ax, graph, layout, run, captions or {}, point)
    leaves = list(layout.places)
    members = {leaf: graph.nodes[leaf]["cpus"] for leaf in leaves}
    siblings = nx.Graph()
    siblings.add_nodes_from(leaves)
    for core in (v for v, level in graph.nodes(data="level") if level in ("core", "cluster")):
        threads = [v for v in graph.successors(core) if graph.nodes[v]["level"] == "cpu"]
        if _is_core(topology, graph.nodes[core]["cpus"]):
            nx.add_path(siblings, threads)
    near = [(a, b) for a, b in siblings.edges if layout.places[a][1] == layout.places[b][1]]
    nx.draw_networkx_edges(
        siblings, layout.places, edgelist=near, width=point * 0.16, edge_color="0.55", ax=ax
    )
    marks = _marks(members, run, groups, top)
    hot = run is not None and groups is None
    rings = [HOT if hot and _is_hot(run, members[leaf]) else "0.35" for leaf in leaves]
    if focus:
        rings = ["black" if members[leaf] & focus else "0.35" for leaf in leaves]
    nx.draw_networkx_nodes(
        siblings,
        layout.places,
        node_size=(point * 0.80) ** 2,
        node_color=[marks[leaf][1] for leaf in leaves],
        edgecolors=rings,
        linewidths=[point * 0.02 if ring == "0.35" else point * 0.085 for ring in rings],
        ax=ax,
    )
    for leaf, (x, y) in layout.places.items():
        text, colour = marks[leaf]
        ink = "white" if luminance(colour) < 0.5 else "black"
        ax.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            color=ink,
            fontsize=point * 0.38 / max(1, len(text) / 2.6),
        )
        if run is None and groups is None:
            continue  # the CPU number is inside already
        name = str(members[leaf])
        ax.text(
            x,
            y - 0.62,
            name,
            ha="center",
            va="center",
            color="0.25",
            fontsize=point * 0.24 / max(1, len(name) / 5),
        )
    return ax


def _draw_boxes(
    ax: Axes,
    graph: nx.DiGraph,
    layout: Layout,
    run: Run | None,
    captions: Mapping[int, str],
    point: float,
) -> None:
    for vertex, pieces in layout.boxes.items():
        is_node = graph.nodes[vertex]["level"] == "node"
        for left, bottom, right, upper in pieces:
            ax.add_patch(
                FancyBboxPatch(
                    (left, bottom),
                    right - left,
                    upper - bottom,
                    boxstyle="round,pad=0,rounding_size=0.18",
                    facecolor="#F4F4F1" if is_node else "#E3E3DD",
                    edgecolor="0.6" if is_node else "none",
                    linewidth=0.8,
                    zorder=-2 if is_node else -1,
                )
            )
        if is_node:
            left, _, right, upper = pieces[0]
            cpus = graph.nodes[vertex]["cpus"]
            label = f"node {vertex[1]}: {len(cpus)} CPUs"
            if run is not None:
                label += f", {sum(run.counts[cpu] for cpu in cpus)} IRQs"
            label += captions.get(vertex[1], "")
            # As wide as the box at most, with letters about 0.7 times as wide as high.
            size = min(9, (right - left - 0.5) * point / (0.7 * len(label)))
            ax.text(left + 0.35, upper - 0.45, label, va="center", fontsize=size, weight="bold")


def _is_core(topology: Topology, cpus: CpuSet) -> bool:
    return cpus.first is not None and cpus <= topology.siblings_of(cpus.first)


def _is_hot(run: Run | None, cpus: CpuSet) -> bool:
    return run is not None and any(run.single[cpu] for cpu in cpus)


def _marks(
    members: Mapping[tuple[str, int], CpuSet],
    run: Run | None,
    groups: Sequence[CpuSet] | None,
    top: int | None,
) -> dict[tuple[str, int], tuple[str, Any]]:
    """Give the text inside each leaf and its colour."""
    if groups is not None:
        palette = sns.color_palette("colorblind", 10)
        where = {cpu: at for at, group in enumerate(groups) for cpu in group}
        marks = {}
        for leaf, cpus in members.items():
            inside = sorted({where[cpu] for cpu in cpus if cpu in where})
            text = span(inside[0], inside[-1]) if inside else ""
            marks[leaf] = (text, palette[inside[0] % 10] if inside else "white")
        return marks
    if run is None:
        return {leaf: (str(cpus), "white") for leaf, cpus in members.items()}
    highest = max(top or 0, *run.counts.values(), 1)
    ramp = mpl.colormaps[COUNTS]
    marks = {}
    for leaf, cpus in members.items():
        counts = [run.counts[cpu] for cpu in cpus]
        marks[leaf] = (
            span(min(counts), max(counts)),
            ramp(0.92 * sum(counts) / len(counts) / highest),
        )
    return marks


def topology_legend(ax: Axes) -> None:
    """Say what the marks of a `topology_map` mean, below it."""
    handles = [
        Patch(facecolor="#F4F4F1", edgecolor="0.6", label="NUMA node"),
        Patch(facecolor="#E3E3DD", label="cluster"),
        Patch(facecolor="white", edgecolor=HOT, linewidth=2, label="has a single-CPU mask"),
    ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=3,
        frameon=False,
        fontsize=8,
        title="in the circle: IRQs; below it: OS CPU number; joined: one core",
        title_fontsize=8,
    )
