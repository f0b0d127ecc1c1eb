# SPDX-License-Identifier: GPL-2.0-only
"""The map of a machine: nodes, clusters, cores and CPUs in nested boxes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten, wrap
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.text import Text

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.machines.run import Run
from groupcpus.pictures.base import (
    COUNTS,
    DEVICES,
    HOT,
    PAIR,
    drawing,
    luminance,
    plain,
    span,
    write_numbers,
)
from groupcpus.pictures.layout import (
    HEADING,
    INCH,
    LEGEND,
    best_layout,
    holds_one_cluster,
    joints,
    topology_graph,
)
from groupcpus.pictures.stories import headline

__all__ = ["MapWords", "compare_maps", "topology_legend", "topology_map"]

# What a map of its own may measure, in inches.
WIDTH, HEIGHT = 11, 5.6
NODE, CLUSTER, EDGE = "#F4F4F1", "#DFDFD7", "0.6"
RIM = "0.35"


@dataclass(frozen=True)
class MapWords:
    """What a map says besides its numbers.

    Attributes
    ----------
    heading : str or None
        The line on top, instead of the run's figures.
    captions : mapping of int to str
        What to add to the label of each node.
    above : float
        Inches to leave free above, in a Figure of its own.
    legend : bool or None
        Whether there is a legend below; None: where there is no Axes given.
    """

    heading: str | None = None
    captions: Mapping[int, str] = field(default_factory=dict)
    above: float = 0
    legend: bool | None = None


@drawing
def topology_map(
    what: Run | Topology,
    ax: Axes | None = None,
    *,
    top: int | None = None,
    groups: Sequence[CpuSet] | None = None,
    focus: CpuSet | None = None,
    words: MapWords | None = None,
) -> Axes:
    """Draw a machine: nodes and clusters as boxes, CPUs as circles with their interrupts inside.

    Threads of one core are joined by a bar.  A ring marks a CPU with an interrupt that can go
    nowhere else, a dashed outline one that is offline or absent.  Large machines fold neighbouring
    CPUs into one square that says which.

    Parameters
    ----------
    what : Run or Topology
        A run is coloured by interrupts a CPU; a bare machine has CPU numbers in its circles.
    ax : Axes, optional
        Where to draw, without a heading and a legend then.
    top : int, optional
        The count with the darkest colour, so that several pictures share the scale.
    groups : sequence of CpuSet, optional
        Colour by these groups and write their numbers inside instead.
    focus : CpuSet, optional
        CPUs to draw with a thick black rim.
    words : MapWords, optional
        What to say besides.

    Returns
    -------
    Axes
    """
    run = what if isinstance(what, Run) else None
    topology = what.machine.topology if isinstance(what, Run) else what
    drawn = _Map(topology, ax, words or MapWords(), bool(run and not ax))
    drawn.draw(run, groups, top or 0, focus)
    return drawn.ax


@drawing
def compare_maps(before: Run, after: Run) -> Figure:
    """Draw the maps of two runs of one machine, side by side on the same scale."""
    figure = Figure(figsize=PAIR)
    top = max(0, *before.counts.values(), *after.counts.values())
    for left, run, when in ((0.005, before, "before"), (0.51, after, "after")):
        ax = figure.add_axes((left, 0.01, 0.485, 0.96))
        words = MapWords(heading=plain(headline(run, when)), legend=True)
        topology_map(run, ax, top=top, words=words)
    return figure


class _Map:
    """A map while it is drawn: where things are, and how large a CPU is."""

    def __init__(self, topology: Topology, ax: Axes | None, words: MapWords, headed: bool) -> None:
        self.topology, self.words = topology, words
        self.headed = bool(words.heading) or headed
        self.legend = ax is None if words.legend is None else words.legend
        self.graph = topology_graph(topology)
        if ax is None:
            self.layout = best_layout(self.graph, WIDTH, HEIGHT)
            across, down = self._units()
            inch = min(WIDTH / across, HEIGHT / down, INCH)
            # Narrow machines keep room for the heading and the legend.
            figure = Figure(figsize=(max(inch * across, 6.4), inch * down + words.above))
            ax = figure.add_axes((0, 0, 1, inch * down / (inch * down + words.above)))
        else:
            root = ax.get_figure(root=True)
            assert root is not None
            box = ax.get_position()
            wide, tall = root.get_figwidth() * box.width, root.get_figheight() * box.height
            self.layout = best_layout(self.graph, wide, tall)
            across, down = self._units()
            inch = min(wide / across, tall / down)
        self.ax = ax
        self.point = 72 * inch
        self.leaves = list(self.layout.places)
        self.members = {leaf: self.graph.nodes[leaf]["cpus"] for leaf in self.leaves}
        self.down = [not cpus & topology.online for cpus in self.members.values()]
        ax.set(xlim=(-0.2, self.layout.width + 0.2), aspect="equal", anchor="NW")
        ax.set_ylim(-self.layout.height - self._foot, self._head)
        ax.set_axis_off()

    @property
    def _head(self) -> float:
        return HEADING if self.headed else 0.2

    @property
    def _foot(self) -> float:
        return LEGEND if self.legend else 0.2

    def _units(self) -> tuple[float, float]:
        return self.layout.width + 0.4, self.layout.height + self._head + self._foot

    def _text(self, x: float, y: float, text: str, size: float, **more: Any) -> Text:
        return self.ax.text(x, y, text, fontsize=size, linespacing=1.25, **more)

    def draw(
        self,
        run: Run | None,
        groups: Sequence[CpuSet] | None,
        top: int,
        focus: CpuSet | None,
    ) -> None:
        """Draw a run, groups, or neither on the map; see `topology_map`."""
        self._draw_boxes(run)
        self._draw_joints()
        marks = _marks(self.members, run, groups, top)
        rims = [_rim(cpus, run, groups, focus) for cpus in self.members.values()]
        circles = self._make_marks()
        circles.set_facecolor([mpl.colors.to_rgba(colour) for _, colour in marks.values()])
        circles.set_edgecolor(rims)
        thin = [rim == RIM for rim in rims]
        circles.set_linewidth(
            [
                self.point * (0.03 if plain_rim and not down else 0.06 if plain_rim else 0.085)
                for plain_rim, down in zip(thin, self.down, strict=True)
            ]
        )
        write_numbers(self.ax, self._inside(marks, counted=run is not None and groups is None))
        if run is not None or groups is not None:
            write_numbers(self.ax, self._below())
        heading = self.words.heading
        if heading is None:
            heading = headline(run) if run and self.headed else ""
        size = 9.5 if len(heading) <= self._characters(9.5) else 7.5
        short = shorten(plain(heading), self._characters(size), placeholder=" ...")
        self._text(0, 0.25, short, size, va="bottom", fontweight="bold")
        if self.legend:
            lines = wrap(self._legend(run, groups, focus), self._characters(8))
            below = -self.layout.height - 0.25
            self._text(0, below, "\n".join(lines), 8, va="top", color="0.2")

    def _characters(self, size: float) -> int:
        """Give how many characters of a size fit across."""
        root = self.ax.get_figure(root=True)
        assert root is not None
        across = root.get_figwidth() * self.ax.get_position(original=True).width * 72
        return max(20, int(across / (size * 0.62)))

    def _label(self, node: int, run: Run | None, box: tuple[float, float, float, float]) -> None:
        """Write the label of a node as large as its box allows, shorter if that is too small."""
        cpus = self.topology.nodes[node]
        irqs = "" if run is None or not cpus else f", {sum(run.counts[cpu] for cpu in cpus)} IRQs"
        text = f"{self._node_name(node)}{irqs}{self.words.captions.get(node, '')}"
        # What a node's interrupts add up to is the last thing to go.
        short = f"node {node}{irqs}" if irqs else text.split(",")[0]
        room = (box[2] - box[0] - 0.5) * self.point
        for shorter in (text, short, f"node {node}"):
            # Bold letters are about 0.7 times as wide as high.
            size = min(8.5, self.point * 0.6, room / (0.7 * len(shorter)))
            if size >= 6 or shorter == f"node {node}":
                at = box[0] + 0.3, box[3] - 0.45
                self._text(*at, shorter, round(max(size, 4), 1), va="center", fontweight="bold")
                return

    def _node_name(self, node: int) -> str:
        cpus = self.topology.nodes[node]
        return f"node {node}: {len(cpus) or 'no'} CPU{'' if len(cpus) == 1 else 's'}"

    def _legend(
        self, run: Run | None, groups: Sequence[CpuSet] | None, focus: CpuSet | None
    ) -> str:
        """Say what the marks mean and what the boxes cannot."""
        folded = Counter(len(cpus) for cpus in self.members.values()).most_common(1)[0][0]
        what = f"square: {folded} CPUs, from-to below" if folded > 1 else "circle: a CPU"
        if run is None and groups is None:
            inside = "its OS CPU number" if folded == 1 else "their OS CPU numbers"
        elif groups is None:
            inside = "its IRQs; orange ring: a mask of this CPU alone"
        else:
            inside = "the number of its group"
            if focus is not None:
                inside += "; black rim: what the last decision is about"
        parts = [f"{what}; inside: {inside}"]
        if groups is not None or run is not None:
            parts.append("OS CPU numbers below")
        parts += _shapes(self.topology, drawn=folded == 1)
        if any(self.down):
            parts.append("dashed: offline or absent")
        return "; ".join(parts)

    def _inside(
        self, marks: Mapping[tuple[str, int], tuple[str, Any]], counted: bool
    ) -> Iterable[tuple[float, float, str, str, float]]:
        for leaf, down in zip(self.leaves, self.down, strict=True):
            text, colour = marks[leaf]
            x, y = self.layout.places[leaf]
            ink = "white" if luminance(colour) < 0.5 else "black"
            if down and text == "0" and counted:
                text, ink = ("abs" if self._absent(leaf) else "off"), "0.3"
            yield x, y, text, ink, round(self.point * 0.4 / max(1, len(text) / 2.4), 1)

    def _absent(self, leaf: tuple[str, int]) -> bool:
        return not self.members[leaf] & self.topology.present

    def _below(self) -> Iterable[tuple[float, float, str, str, float]]:
        """Name the CPUs of each leaf, in two lines if there are two ranges."""
        names = {}
        for leaf, cpus in self.members.items():
            ranges = str(cpus).split(",")
            if len(ranges) > 2:
                # Interleaved numbering: the ends say enough.
                names[leaf] = [f"{ranges[0].split('-')[0]}...{ranges[-1].split('-')[-1]}"]
            else:
                names[leaf] = ranges if len(str(cpus)) > 9 else [str(cpus)]
        longest = max(len(line) for lines in names.values() for line in lines)
        size = round(min(0.27, 1.5 / longest) * self.point, 1)
        for leaf, lines in names.items():
            x, y = self.layout.places[leaf]
            for at, line in enumerate(lines):
                yield x, y - 0.63 - at * 0.25, line, "0.2", size

    def _draw_boxes(self, run: Run | None) -> None:
        for vertex, pieces in self.layout.boxes.items():
            is_node = self.graph.nodes[vertex]["level"] == "node"
            if not is_node and not holds_one_cluster(
                self.topology, self.graph.nodes[vertex]["cpus"]
            ):
                continue
            for left, bottom, right, upper in pieces:
                self.ax.add_patch(
                    FancyBboxPatch(
                        (left, bottom),
                        right - left,
                        upper - bottom,
                        boxstyle="round,pad=0,rounding_size=0.18",
                        facecolor=NODE if is_node else CLUSTER,
                        edgecolor=EDGE if is_node else "none",
                        linewidth=0.8,
                        zorder=-2 if is_node else -1,
                    )
                )
            if is_node:
                self._label(vertex[1], run, pieces[0])

    def _draw_joints(self) -> None:
        """Join the threads of each core that stand in one row."""
        cores = nx.Graph()
        cores.add_nodes_from(self.leaves)
        cores.add_edges_from(joints(self.topology, self.graph, self.layout))
        limits = self.ax.get_xlim(), self.ax.get_ylim()
        nx.draw_networkx_edges(
            cores, self.layout.places, width=self.point * 0.16, edge_color="0.55", ax=self.ax
        )
        self.ax.set(xlim=limits[0], ylim=limits[1])

    def _make_marks(self) -> EllipseCollection | PolyCollection:
        """Make a circle a CPU, or a square a fold."""
        places = np.array([self.layout.places[leaf] for leaf in self.leaves])
        sizes = [0.8] * len(places)
        marks: EllipseCollection | PolyCollection
        if any(len(cpus) > 1 for cpus in self.members.values()):
            square = np.array([(-0.42, -0.42), (0.42, -0.42), (0.42, 0.42), (-0.42, 0.42)])
            marks = PolyCollection(list(places[:, None, :] + square))
        else:
            marks = EllipseCollection(
                sizes,
                sizes,
                [0] * len(sizes),
                units="xy",
                offsets=places,
                offset_transform=self.ax.transData,
            )
        marks.set(zorder=2, linestyles=["--" if down else "-" for down in self.down])
        self.ax.add_collection(marks, autolim=False)
        return marks


def _shapes(topology: Topology, drawn: bool) -> list[str]:
    """Tell the sizes of clusters and cores, as far as the boxes don't."""
    told = []
    clusters = Counter(cpus for cpus in map(topology.cluster_of, topology.possible))
    unknown = clusters.pop(CpuSet(), 0)
    wide = [
        cpus
        for cpus in clusters
        if len({topology.node_of(cpu) for cpu in cpus & topology.possible}) > 1
    ]
    if wide:
        count = len(wide)
        told.append("one cluster spans nodes" if count == 1 else f"{count} clusters span nodes")
    elif clusters and max(clusters.values()) == 1:
        told.append("each CPU is its own cluster")
    elif drawn and set(clusters) == {cpus for cpus in topology.nodes.values() if cpus}:
        told.append("each node is one cluster")
    elif drawn and clusters:
        told.append("shaded: cluster")
    elif clusters:
        told.append(f"{len(clusters)} clusters of {span(*_ends(clusters.values()))} CPUs")
    if unknown:
        told.append("no cluster known" if not clusters else f"no cluster known for {unknown} CPUs")
    cores = Counter(topology.core_id(cpu) for cpu in topology.possible)
    if max(cores.values()) > 1:
        most = span(*_ends(cores.values()))
        told.append("joined: one core" if drawn else f"{len(cores)} cores of {most} CPUs")
    return told


def _ends(numbers: Iterable[int]) -> tuple[int, int]:
    found = sorted(numbers)
    return found[0], found[-1]


def _rim(
    cpus: CpuSet, run: Run | None, groups: Sequence[CpuSet] | None, focus: CpuSet | None
) -> str:
    if focus:
        return "black" if cpus & focus else RIM
    hot = groups is None and run is not None and any(run.single[cpu] for cpu in cpus)
    return HOT if hot else RIM


def _marks(
    members: Mapping[tuple[str, int], CpuSet],
    run: Run | None,
    groups: Sequence[CpuSet] | None,
    top: int | None,
) -> dict[tuple[str, int], tuple[str, Any]]:
    """Give the text inside each leaf and its colour."""
    marks: dict[tuple[str, int], tuple[str, Any]] = {}
    if groups is not None:
        where = {cpu: at for at, group in enumerate(groups) for cpu in group}
        for leaf, cpus in members.items():
            inside = sorted({where[cpu] for cpu in cpus if cpu in where})
            text = span(inside[0], inside[-1]) if inside else ""
            marks[leaf] = (text, DEVICES[inside[0] % len(DEVICES)] if inside else "white")
        return marks
    if run is None:
        return {leaf: (str(cpus), "white") for leaf, cpus in members.items()}
    highest = max(top or 0, *run.counts.values(), 1)
    ramp = mpl.colormaps[COUNTS]
    for leaf, cpus in members.items():
        counts = [run.counts[cpu] for cpu in cpus]
        marks[leaf] = (
            span(min(counts), max(counts)),
            ramp(0.92 * sum(counts) / len(counts) / highest),
        )
    return marks


def topology_legend(ax: Axes) -> None:
    """Say with samples what the boxes and rings of a `topology_map` mean, below it."""
    handles = [
        Patch(facecolor=NODE, edgecolor=EDGE, label="NUMA node"),
        Patch(facecolor=CLUSTER, label="cluster"),
        Patch(facecolor="white", edgecolor=HOT, linewidth=2, label="has a single-CPU mask"),
    ]
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 0),
        borderaxespad=0.2,
        ncols=3,
        frameon=False,
        fontsize=8,
    )
