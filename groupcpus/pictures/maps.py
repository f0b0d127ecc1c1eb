# SPDX-License-Identifier: GPL-2.0-only
"""The map of a machine: nodes, clusters, cores and CPUs in nested boxes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten, wrap
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.text import Text

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.machines.run import Run
from groupcpus.pictures.base import COUNTS, HOT, Numbers, luminance, span
from groupcpus.pictures.layout import (
    HEADING,
    INCH,
    LEGEND,
    best_layout,
    holds_one_cluster,
    joints,
    topology_graph,
)

# What a map of its own may measure, in inches.
WIDTH, HEIGHT = 11, 5.6
NODE, CLUSTER, EDGE = "#F4F4F1", "#DFDFD7", "0.6"
RIM = "0.35"


def topology_map(
    what: Run | Topology,
    ax: Axes | None = None,
    *,
    top: int | None = None,
    groups: Sequence[CpuSet] | None = None,
    focus: CpuSet | None = None,
    captions: Mapping[int, str] | None = None,
    heading: str | None = None,
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
    captions : mapping of int to str, optional
        What to add to the label of each node.
    heading : str, optional
        The line on top, instead of the run's figures.

    Returns
    -------
    Axes
    """
    run = what if isinstance(what, Run) else None
    topology = what.machine.topology if isinstance(what, Run) else what
    drawn = Map(topology, ax, told=ax is None, headed=bool(heading or (run and not ax)))
    drawn.show(
        run, groups=groups, top=top or 0, focus=focus, captions=captions or {}, heading=heading
    )
    return drawn.ax


class Map:
    """A map to be redrawn: `show` puts other interrupts or groups into the same artists.

    Parameters
    ----------
    topology : Topology
        The machine.
    ax : Axes, optional
        Where to draw; a Figure of its own when left out.
    headed, told : bool
        Whether there is a heading above and a legend below.
    above : float
        Inches to leave free above, in a Figure of its own.
    """

    def __init__(
        self,
        topology: Topology,
        ax: Axes | None = None,
        *,
        headed: bool = True,
        told: bool = True,
        above: float = 0,
    ) -> None:
        self.topology = topology
        self.headed, self.told = headed, told
        self.graph = topology_graph(topology)
        if ax is None:
            self.layout = best_layout(self.graph, WIDTH, HEIGHT)
            across, down = self._units()
            inch = min(WIDTH / across, HEIGHT / down, INCH)
            # Narrow machines keep room for the heading and the legend.
            figure = Figure(figsize=(max(inch * across, 6.4), inch * down + above))
            ax = figure.add_axes((0, 0, 1, inch * down / (inch * down + above)))
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
        self.heading = self._text(0, 0.25, "", 9.5, va="bottom", fontweight="bold")
        self.labels: dict[int, Text] = {}
        self.room: dict[int, float] = {}
        self.kind: tuple[bool, ...] | None = None
        self._draw_boxes()
        self._draw_joints()
        self.marks = self._make_marks()
        self.numbers = Numbers(ax)
        self.names = Numbers(ax)
        self.note = self._text(0, -self.layout.height - 0.25, "", 8, va="top", color="0.2")

    @property
    def _head(self) -> float:
        return HEADING if self.headed else 0.2

    @property
    def _foot(self) -> float:
        return LEGEND if self.told else 0.2

    def _units(self) -> tuple[float, float]:
        return self.layout.width + 0.4, self.layout.height + self._head + self._foot

    def _text(self, x: float, y: float, text: str, size: float, **more: Any) -> Text:
        return self.ax.text(x, y, text, fontsize=size, linespacing=1.25, **more)

    @property
    def moving(self) -> list[Artist]:
        """What `show` changes from one run to another."""
        return [self.marks, *self.numbers.lines]

    @property
    def words(self) -> list[Text]:
        """The same, of letters."""
        return [self.heading, *self.labels.values()]

    def show(
        self,
        run: Run | None = None,
        *,
        groups: Sequence[CpuSet] | None = None,
        top: int = 0,
        focus: CpuSet | None = None,
        captions: Mapping[int, str] = MappingProxyType({}),
        heading: str | None = None,
    ) -> None:
        """Show a run, groups, or neither on the map; see `topology_map`."""
        marks = _marks(self.members, run, groups, top)
        rims = [_rim(cpus, run, groups, focus) for cpus in self.members.values()]
        self.marks.set_facecolor([mpl.colors.to_rgba(colour) for _, colour in marks.values()])
        self.marks.set_edgecolor(rims)
        thin = [rim == RIM for rim in rims]
        self.marks.set_linewidth(
            [
                self.point * (0.03 if plain and not down else 0.06 if plain else 0.085)
                for plain, down in zip(thin, self.down, strict=True)
            ]
        )
        bare = run is None and groups is None
        self.numbers.write(self._inside(marks, counted=run is not None and groups is None))
        # Names stay while the circles have something else to say.
        if bare or not self.names.lines:
            self.names.write(() if bare else self._below())
        if heading is None:
            heading = self._figures(run) if run and self.headed else ""
        self.heading.set_text(shorten(heading, self._characters(9.5), placeholder=" ..."))
        for node, label in self.labels.items():
            cpus = self.topology.nodes[node]
            irqs = (
                "" if run is None or not cpus else f", {sum(run.counts[cpu] for cpu in cpus)} IRQs"
            )
            self._fit(node, label, f"{self._node_name(node)}{irqs}{captions.get(node, '')}")
        kind = (run is None, groups is None, focus is None)
        if self.told and kind != self.kind:
            legend = wrap(self._legend(run, groups, focus), self._characters(8))
            self.note.set_text("\n".join(legend))
        self.kind = kind

    def _characters(self, size: float) -> int:
        """Give how many characters of a size fit across."""
        root = self.ax.get_figure(root=True)
        assert root is not None
        across = root.get_figwidth() * self.ax.get_position(original=True).width * 72
        return max(20, int(across / (size * 0.62)))

    def _figures(self, run: Run) -> str:
        reached = max(run.counts.values(), default=0)
        name = run.machine.name
        return f"{name}, {run.revision.name}: max {reached} IRQs a CPU (best possible {run.best})"

    def _fit(self, node: int, label: Text, text: str) -> None:
        """Write the label of a node as large as its box allows, shorter if that is too small."""
        for shorter in (text, text.split(",")[0], text.split(":")[0]):
            # Bold letters are about 0.7 times as wide as high.
            size = min(8.5, self.point * 0.6, self.room[node] / (0.7 * len(shorter)))
            if size >= 6 or shorter == text.split(":")[0]:
                label.set(text=shorter, fontsize=round(max(size, 4), 1))
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
            inside = "IRQs; ring: a mask of this CPU alone"
        else:
            inside = "group"
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

    def _draw_boxes(self) -> None:
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
                left, _, right, upper = pieces[0]
                label = self._text(left + 0.3, upper - 0.45, "", 8.5, va="center")
                label.set_fontweight("bold")
                self.room[vertex[1]] = (right - left - 0.5) * self.point
                self.labels[vertex[1]] = label

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
