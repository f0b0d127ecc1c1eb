# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of machines and runs.

Every function draws on the Axes it is given, or on a Figure of its own, and returns the Axes; none
uses pyplot.  CPUs are OS CPU numbers everywhere.  Colours are safe for colour-blind readers and
never the only mark: counts are also numbers or heights, hot CPUs also hatched or ringed.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle
from matplotlib.ticker import MaxNLocator
from PIL import Image

from groupcpus.cpuset import CpuSet
from groupcpus.simulate import Run
from groupcpus.topology import Topology

__all__ = [
    "Comparison",
    "compare",
    "distribution",
    "irqs_per_cpu",
    "nested_layout",
    "to_png",
    "to_svg",
    "topology_graph",
    "topology_map",
]

# From the Okabe-Ito palette, which colour-blind readers tell apart.
NODE_COLOURS = ("#0072B2", "#56B4E9")
HOT = "#D55E00"
BOUND = "#000000"
SERIES = ("#999999", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")
# Light is few, dark is many, in print too.
COUNTS = "YlGnBu"

# Beyond these, bars get too thin to be read one by one, and circles too small for their numbers.
MAX_BARS = 128
MAX_CIRCLES = 192
# CPUs in a row of a heatmap or of a topology map.
ROW = 64
COLUMNS = 24


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Give the Axes to draw on: the caller's, or those of a Figure of our own."""
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").subplots()


def to_png(figure: Figure, dpi: int = 100) -> bytes:
    """Render a Figure as PNG; the same picture gives the same bytes."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    # Not savefig(): it draws everything twice when the figure ever had a layout engine.
    canvas.draw()
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").save(buffer, format="png")
    return buffer.getvalue()


def to_svg(figure: Figure) -> bytes:
    """Render a Figure as SVG; the same picture gives the same bytes."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "groupcpus", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


# IRQs per CPU


def irqs_per_cpu(run: Run, ax: Axes | None = None, *, top: int | None = None) -> Axes:
    """Draw how many interrupts each CPU handles, node by node.

    Bars up to 128 CPUs, beyond that a heatmap with a band of rows a node.  The dashed line and the
    title give the best possible maximum; the hatched part of a bar are interrupts whose mask is
    that CPU alone.

    Parameters
    ----------
    run : Run
        What to draw.
    ax : Axes, optional
        Where to; a Figure of its own when left out.
    top : int, optional
        The count at the top of the scale, so that several pictures share it.

    Returns
    -------
    Axes
    """
    if len(run.machine.topology.possible) > MAX_BARS:
        return _heatmap(run, ax, top)
    return _Bars(_axes(ax, 11, 3), run, top).ax


def _title(run: Run) -> str:
    reached = max(run.counts.values(), default=0)
    used = sum(count > 0 for count in run.counts.values())
    return f"{run.revision.name}: max {reached} (best possible {run.best}), {used} CPUs used"


class _Bars:
    """A bar a CPU; `show` puts another run of the same CPUs into the same artists."""

    def __init__(self, ax: Axes, run: Run, top: int | None = None, when: str = "") -> None:
        self.ax = ax
        self.when = when
        frame = run.per_cpu.reset_index()
        sns.barplot(
            frame,
            x="cpu",
            y="irqs",
            color=NODE_COLOURS[0],
            saturation=1,
            width=0.86,
            errorbar=None,
            ax=ax,
        )
        self.bars = [bar for bar in ax.patches if isinstance(bar, Rectangle)]
        nodes = list(dict.fromkeys(frame["node"]))
        for bar, node in zip(self.bars, frame["node"], strict=True):
            bar.set_facecolor(NODE_COLOURS[nodes.index(node) % 2])
        # One outline for all of them: a hatch a bar would take most of the drawing time.
        self.hot = ax.stairs(
            frame["single"],
            [at - 0.5 for at in range(len(frame) + 1)],
            fill=True,
            facecolor="none",
            edgecolor="white",
            hatch="//////",
            linewidth=0,
        )
        self.line = ax.axhline(run.best, color=BOUND, linestyle="--", linewidth=1.2)
        self.label = ax.text(
            1.002, run.best, "", transform=ax.get_yaxis_transform(), va="center", fontsize=8
        )
        ax.set(xlabel="CPU", ylabel="IRQs")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _node_borders(ax, frame)
        shown = range(0, len(frame), max(1, -(-len(frame) // 24)))
        ax.set_xticks(list(shown), [str(frame["cpu"][at]) for at in shown], fontsize=8)
        ax.margins(x=0.005)
        ax.legend(
            handles=[Patch(facecolor=NODE_COLOURS[0], edgecolor="white", hatch="//////")],
            labels=["masks of this CPU alone"],
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0.1,
            frameon=False,
            fontsize=8,
        )
        sns.despine(ax=ax)
        self.show(run, top)

    def show(self, run: Run, top: int | None = None) -> None:
        """Show a run of a machine with the same CPUs."""
        for bar, count in zip(self.bars, run.counts.values(), strict=True):
            bar.set_height(count)
        self.hot.set_data(list(run.single.values()))
        self.line.set_ydata([run.best, run.best])
        self.label.set(y=run.best, text=f"best {run.best}")
        self.ax.set_title(f"{self.when}{_title(run)}", fontsize=10)
        self.ax.set_ylim(0, max(top or 0, *run.counts.values(), run.best, 1) * 1.2)


def _node_borders(ax: Axes, frame: pd.DataFrame) -> None:
    """Mark where one node's CPUs end, and name every run of CPUs of one node."""
    runs = [(node, len(list(same))) for node, same in groupby(frame["node"])]
    at = 0
    for node, count in runs:
        if at:
            ax.axvline(at - 0.5, color="0.6", linewidth=0.8)
        # Interleaved numbering makes too many runs to be named one by one.
        if len(runs) <= 16:
            ax.text(
                at + count / 2 - 0.5,
                0.93,
                f"node {node}",
                transform=ax.get_xaxis_transform(),
                ha="center",
                fontsize=8,
            )
        at += count


def _heatmap(run: Run, ax: Axes | None, top: int | None) -> Axes:
    rows = _node_rows(run.machine.topology)
    ax = _axes(ax, 11, 1.2 + 0.22 * len(rows))
    table = pd.DataFrame([{at: run.counts[cpu] for at, cpu in enumerate(cpus)} for _, cpus in rows])
    highest = max(top or 0, *run.counts.values(), 1)
    sns.heatmap(
        table,
        cmap=COUNTS,
        vmin=0,
        vmax=highest,
        annot=len(rows) <= 16,
        fmt=".0f",
        annot_kws={"fontsize": 6},
        linewidths=0.3,
        cbar_kws={"label": "IRQs", "pad": 0.01},
        xticklabels=8,
        ax=ax,
    )
    labels = [f"node {node}: CPU {cpus[0]}" for node, cpus in rows]
    every = max(1, -(-len(rows) // 32))
    ax.set_yticks(
        [at + 0.5 for at in range(0, len(rows), every)], labels[::every], rotation=0, fontsize=7
    )
    for at, ((before, _), (after, _)) in enumerate(pairwise(rows), start=1):
        if before != after:
            ax.axhline(at, color="black", linewidth=1)
    ax.set(title=_title(run), xlabel="CPU, counted from the row's first", ylabel="")
    return ax


def _node_rows(topology: Topology) -> list[tuple[int, list[int]]]:
    """Cut each node's CPUs into rows of a heatmap."""
    rows = []
    for node, members in topology.nodes.items():
        cpus = list(members)
        rows += [(node, cpus[at : at + ROW]) for at in range(0, len(cpus), ROW)]
    return rows


class Comparison:
    """Two runs of one machine, one above the other on the same scale, to be redrawn quickly.

    Attributes
    ----------
    figure : Figure
        What is drawn on.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> before, after = (simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2"))
    >>> picture = Comparison(before, after)
    >>> [ax.get_title() for ax in picture.figure.axes]
    ['before, cluster: max 6 (best possible 4), 96 CPUs used',
     'after, rotate-v2: max 4 (best possible 4), 96 CPUs used']
    """

    def __init__(self, before: Run, after: Run) -> None:
        self.figure = Figure(layout="constrained")
        self.bars: list[_Bars] = []
        self.cpus: tuple[CpuSet, ...] = ()
        self.draw(before, after)

    def draw(self, before: Run, after: Run) -> None:
        """Draw two runs of a machine in place of those shown."""
        top = max(0, *before.counts.values(), *after.counts.values())
        # The same CPUs in the same nodes need other heights only.
        cpus = tuple(before.machine.topology.nodes.values())
        if self.bars and cpus == self.cpus:
            for bars, run in zip(self.bars, (before, after), strict=True):
                bars.show(run, top)
            return
        self.cpus = cpus
        self.bars = []
        self.figure.clear()
        self.figure.set_layout_engine("constrained")
        runs = {"before, ": before, "after, ": after}
        if len(before.machine.topology.possible) <= MAX_BARS:
            self.figure.set_size_inches(11, 5.2)
            for ax, (when, run) in zip(self.figure.subplots(2, 1), runs.items(), strict=True):
                self.bars.append(_Bars(ax, run, top, when))
            self.figure.axes[0].set_xlabel("")
        else:
            rows = len(_node_rows(before.machine.topology))
            self.figure.set_size_inches(11, 2 + 0.36 * rows)
            for ax, (when, run) in zip(self.figure.subplots(2, 1), runs.items(), strict=True):
                _heatmap(run, ax, top)
                ax.set_title(f"{when}{_title(run)}", fontsize=10)
        # Laid out once, so that nothing moves when the heights change.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")


def compare(before: Run, after: Run) -> Figure:
    """Draw two runs of a machine, one above the other on the same scale."""
    return Comparison(before, after).figure


def distribution(runs: Sequence[Run], ax: Axes | None = None) -> Axes:
    """Draw how many CPUs handle how many interrupts, for several runs together.

    Parameters
    ----------
    runs : sequence of Run
        Told apart by revision and, if they differ, irqchip.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    ax = _axes(ax, 8, 3.2)
    chips = {run.irqchip for run in runs}
    frames = []
    for run in runs:
        name = run.revision.name if len(chips) == 1 else f"{run.revision.name}, {run.irqchip}"
        online = run.per_cpu[run.per_cpu["online"]]
        frames.append(pd.DataFrame({"IRQs of a CPU": online["irqs"], "run": name}))
    sns.histplot(
        pd.concat(frames, ignore_index=True),
        x="IRQs of a CPU",
        hue="run",
        palette=list(SERIES[: len(frames)]),
        discrete=True,
        multiple="dodge",
        shrink=0.8,
        alpha=1,
        ax=ax,
    )
    legend = ax.get_legend()
    assert legend is not None
    legend.set_title("")
    # seaborn adds the bars of the last run first.
    for at, bars in enumerate(reversed(ax.containers)):
        for bar in (*bars, legend.legend_handles[at]):
            bar.set(hatch=HATCHES[at % len(HATCHES)], edgecolor="white", linewidth=0.5)
    for best in sorted({run.best for run in runs}):
        ax.axvline(best, color=BOUND, linestyle="--", linewidth=1.2)
        ax.text(
            best, 1.0, f" best possible max: {best}", transform=ax.get_xaxis_transform(), fontsize=8
        )
    ax.set_ylabel("CPUs")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    sns.despine(ax=ax)
    return ax


# Topology


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
        ax = _axes(None, inch * width, inch * height)
    ax.set(xlim=(-0.2, layout.width + 0.2), ylim=(-layout.height - 0.2, 0.2), aspect="equal")
    ax.set_axis_off()
    _draw_boxes(ax, graph, layout, run)

    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    inches = min(
        figure.get_figwidth() * box.width / width, figure.get_figheight() * box.height / height
    )
    point = 72 * inches
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
    nx.draw_networkx_nodes(
        siblings,
        layout.places,
        node_size=(point * 0.80) ** 2,
        node_color=[marks[leaf][1] for leaf in leaves],
        edgecolors=rings,
        linewidths=[point * 0.085 if ring == HOT else point * 0.02 for ring in rings],
        ax=ax,
    )
    for leaf, (x, y) in layout.places.items():
        text, colour = marks[leaf]
        ink = "white" if _luminance(colour) < 0.5 else "black"
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


def _draw_boxes(ax: Axes, graph: nx.DiGraph, layout: Layout, run: Run | None) -> None:
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
            left, _, _, upper = pieces[0]
            cpus = graph.nodes[vertex]["cpus"]
            label = f"node {vertex[1]}: {len(cpus)} CPUs"
            if run is not None:
                label += f", {sum(run.counts[cpu] for cpu in cpus)} IRQs"
            ax.text(left + 0.35, upper - 0.45, label, va="center", fontsize=9, fontweight="bold")


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
            text = _range(inside[0], inside[-1]) if inside else ""
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
            _range(min(counts), max(counts)),
            ramp(0.92 * sum(counts) / len(counts) / highest),
        )
    return marks


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}-{most}"


def _luminance(colour: Any) -> float:
    red, green, blue = mpl.colors.to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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
