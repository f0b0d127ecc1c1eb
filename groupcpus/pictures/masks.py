# SPDX-License-Identifier: GPL-2.0-only
"""Masks and devices: the affinity matrix, and who shares a CPU."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, StepPatch
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from groupcpus.engine.topology import Topology
from groupcpus.machines.run import Interrupt, Run
from groupcpus.pictures.base import BOUND, HATCHES, HOT, SERIES, Numbers, Picture, axes_of
from groupcpus.pictures.loads import PAIR
from groupcpus.pictures.maps import Map

# Two shades, so that neighbouring devices can be told apart in a stack, and what they hit.
MASKS = ("#9FC9E8", "#CFE3B4")
EFFECTIVE = "#08306B"
# Devices with a colour and a hatch of their own; more share a grey.
MAX_SERIES = 8
# CPUs in a picture of sharing.
MAX_SHARED = 48


def affinity_matrix(run: Run, ax: Axes | None = None, *, device: str | None = None) -> Axes:
    """Draw every queue's mask as a band over the CPUs, with the effective CPU in it.

    CPUs stand node by node; solid lines part nodes, dotted ones clusters.  A mask of one CPU is
    orange and a diamond where there is room.

    Parameters
    ----------
    run : Run
        What to draw.
    ax : Axes, optional
        Where to draw.
    device : str, optional
        The name of one device; all devices are stacked when left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from groupcpus import simulate
    >>> ax = affinity_matrix(simulate("L96as_v4", revision="cluster"), device="nvme0")
    >>> ax.get_title()
    'cluster, nvme0: masks of 62 queues'
    """
    matrix = _Matrix(axes_of(ax, 11, 5), run.machine.topology)
    matrix.show(run, device)
    return matrix.ax


class _Matrix:
    """A matrix of masks; `show` puts a run of the machine into the same artists."""

    def __init__(self, ax: Axes, topology: Topology) -> None:
        self.ax = ax
        self.rows: tuple[str, ...] = ()
        self.cpus = [cpu for cpus in topology.nodes.values() for cpu in cpus]
        self.column = {cpu: at for at, cpu in enumerate(self.cpus)}
        count = len(self.cpus)
        self.bands = PolyCollection([], linewidths=0)
        self.marks = Line2D([], [], linestyle="none", marker="o", color=EFFECTIVE)
        self.single = Line2D([], [], linestyle="none", marker="D", color=HOT, markeredgecolor="k")
        self.single.set_markeredgewidth(0.3)
        self.borders = LineCollection([], colors="0.25", linewidths=0.8, zorder=0.5)
        self._draw_edges(topology)
        # The borders stay as pixels, and bands are drawn on them.
        ax.add_collection(self.bands, autolim=False)
        ax.add_line(self.marks)
        ax.add_line(self.single)
        ax.add_collection(self.borders, autolim=False)
        self.title = ax.set_title(" ", fontsize=10, y=1.01)
        # The legend needs the right.
        self.title.set(x=0, ha="left")
        ax.set(xlabel="CPU", ylabel="queue", xlim=(-0.5, count - 0.5), ylim=(1, 0))
        figure = ax.get_figure(root=True)
        assert figure is not None
        # Three digits at 8 points need a third of an inch, with some air.
        room = figure.get_figwidth() * ax.get_position().width * 2.6
        step = max(1, -(-count // int(max(room, 4))))
        ticks = range(0, count, step)
        ax.set_xticks(list(ticks), [str(self.cpus[at]) for at in ticks], fontsize=8)
        ax.legend(
            [Patch(facecolor=MASKS[0]), self.marks, self.single],
            ["mask", "effective CPU", "the only CPU of its mask"],
            loc="lower right",
            # Above the title.
            bbox_to_anchor=(1, 1.045),
            borderaxespad=0.1,
            frameon=False,
            fontsize=8,
            ncols=3,
        )
        self.legend_sizes()

    def legend_sizes(self) -> None:
        """Keep the samples of the legend large while the marks may be dots."""
        legend = self.ax.get_legend()
        assert legend is not None
        for handle in legend.legend_handles:
            if isinstance(handle, Line2D):
                handle.set_markersize(5)

    def _draw_edges(self, topology: Topology) -> None:
        """Draw node borders, and those of clusters if they are far enough apart to be seen."""
        edges: list[LineCollection] = []
        count = len(self.cpus)
        clusters = [at for at, _ in _starts([topology.cluster_id(cpu) for cpu in self.cpus])]
        if len(clusters) <= 64:
            lines = [[(at - 0.5, 0), (at - 0.5, 1)] for at in clusters[1:]]
            edges.append(LineCollection(lines, colors="0.6", linewidths=0.5, linestyles=":"))
        nodes = _starts([topology.node_of(cpu) for cpu in self.cpus])
        lines = [[(at - 0.5, 0), (at - 0.5, 1)] for at, _ in nodes[1:]]
        edges.append(LineCollection(lines, colors="0.25", linewidths=1))
        transform = self.ax.get_xaxis_transform()
        for edge in edges:
            edge.set(transform=transform, zorder=0.5)
            self.ax.add_artist(edge)
        ends = [at for at, _ in nodes[1:]] + [count]
        if len(nodes) <= 16:
            for (at, node), end in zip(nodes, ends, strict=True):
                middle = (at + end - 1) / 2
                box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8}
                label = self.ax.text(middle, 0.985, f"node {node}", transform=transform, bbox=box)
                label.set(ha="center", va="top", fontsize=8, zorder=0.6)

    @property
    def moving(self) -> list[Artist]:
        """What `show` changes as long as `rows` stay the same."""
        return [self.bands, self.marks, self.single]

    def show(self, run: Run, device: str | None = None, when: str = "") -> None:
        """Show a run of a machine with the same CPUs."""
        irqs = [irq for irq in run.interrupts if device in (None, irq.device)]
        names = list(dict.fromkeys(irq.device for irq in irqs))
        rows = max(len(irqs), 1)
        bands: dict[int, list[tuple[int, int]]] = {}
        corners: list[list[tuple[float, float]]] = []
        shades: list[str] = []
        for row, irq in enumerate(irqs):
            mask = irq.affinity.mask
            if mask not in bands:
                columns = sorted(self.column[cpu] for cpu in irq.affinity if cpu in self.column)
                bands[mask] = _bands(columns)
            for left, right in bands[mask]:
                low, high = left - 0.5, right + 0.5
                corners.append([(low, row), (high, row), (high, row + 1), (low, row + 1)])
                shades.append(MASKS[names.index(irq.device) % 2])
        self.bands.set_verts(corners)
        self.bands.set_facecolor(shades)
        self._place(self.marks, irqs, False)
        self._place(self.single, irqs, True)
        figure = self.ax.get_figure(root=True)
        assert figure is not None
        box = self.ax.get_position()
        wide = figure.get_figwidth() * box.width / len(self.cpus)
        tall = figure.get_figheight() * box.height / rows
        # Thousands of masks or CPUs are averaged, not picked from; fewer need no such care.
        self.bands.set_antialiased(100 * min(wide, tall) < 1)
        size = min(6.0, max(1.5, 72 * min(wide, tall) * 0.75))
        self.marks.set_markersize(size)
        self.single.set(markersize=size, markeredgewidth=0.3 if size > 3 else 0)
        starts = _starts([irq.device for irq in irqs])
        self.borders.set_segments(
            [[(-0.5, at), (len(self.cpus) - 0.5, at)] for at, _ in starts[1:]]
        )
        self.ax.set_ylim(rows, 0)
        if len(starts) == 1:
            every = max(1, -(-rows // 16))
            ticks = [(at + 0.5, str(irqs[at].queue)) for at in range(0, rows, every)]
            self.ax.set_ylabel("queue")
        else:
            ends = [at for at, _ in starts[1:]] + [rows] * bool(starts)
            ticks = [
                ((at + end) / 2, str(name)) for (at, name), end in zip(starts, ends, strict=True)
            ]
            ticks = ticks[:: max(1, -(-len(ticks) // 16))]
            self.ax.set_ylabel("")
        self.ax.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
        which = device or (names[0] if len(names) == 1 else f"{len(names)} devices")
        self.title.set_text(f"{when}{run.revision.name}, {which}: masks of {len(irqs)} queues")
        self.rows = tuple(irq.device for irq in irqs)

    def _place(self, line: Line2D, irqs: Sequence[Interrupt], single: bool) -> None:
        found = [
            (self.column[irq.effective], row + 0.5)
            for row, irq in enumerate(irqs)
            if irq.effective is not None and (len(irq.affinity) == 1) == single
        ]
        line.set_data(*zip(*found, strict=True) if found else ([], []))


def _bands(columns: Sequence[int]) -> list[tuple[int, int]]:
    """Join columns that follow each other: the first and last of each band."""
    bands: list[tuple[int, int]] = []
    for at in columns:
        if bands and bands[-1][1] == at - 1:
            bands[-1] = bands[-1][0], at
        else:
            bands.append((at, at))
    return bands


def _starts(values: Sequence[object]) -> list[tuple[int, object]]:
    """Find where each run of equal values begins."""
    starts = []
    at = 0
    for value, same in groupby(values):
        starts.append((at, value))
        at += len(list(same))
    return starts


def sharing(
    run: Run, ax: Axes | None = None, *, cpus: Sequence[int] | None = None, top: int | None = None
) -> Axes:
    """Draw which devices share the most loaded CPUs: a stack a CPU, a layer a device.

    Parameters
    ----------
    run : Run
        What to draw.
    ax : Axes, optional
        Where to draw.
    cpus : sequence of int, optional
        Which CPUs; when left out those with most interrupts, at most 48.
    top : int, optional
        The count at the top of the scale.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from groupcpus import simulate
    >>> ax = sharing(simulate("L96as_v4", revision="cluster"))
    >>> ax.get_title()
    'cluster: the 28 CPUs with 6 IRQs, by device'
    """
    stacks = _Sharing(axes_of(ax, 11, 3.2))
    stacks.show(run, cpus, top or 0)
    return stacks.ax


class _Sharing:
    """Stacks of devices; `show` puts a run into the same artists."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax
        self.devices: list[str] | None = None
        self.layers: list[StepPatch] = []
        self.line = ax.axhline(0, color=BOUND, linestyle="--", linewidth=1.2)
        self.label = ax.text(1.0, 0, "", transform=ax.get_yaxis_transform(), fontsize=8)
        self.title = ax.set_title(" ", fontsize=10, y=1.01)
        # Not ticks: other CPUs in every picture, and ticks take long to draw.
        figure = ax.get_figure(root=True)
        assert figure is not None
        below = ScaledTranslation(0, -9 / 72, figure.dpi_scale_trans)
        self.numbers = Numbers(ax, transform=ax.get_xaxis_transform() + below)
        ax.set(xticks=[], ylabel="IRQs")
        ax.set_xlabel("CPU", labelpad=17)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        sns.despine(ax=ax)

    @property
    def moving(self) -> list[Artist]:
        """What `show` changes as long as `devices` stay the same."""
        return [*self.layers, self.line, *self.numbers.lines]

    @property
    def words(self) -> list[Text | Axis]:
        """The same, of letters."""
        return [self.ax.yaxis, self.label, self.title]

    def show(
        self, run: Run, cpus: Sequence[int] | None = None, top: int = 0, when: str = ""
    ) -> None:
        """Show some CPUs of a run, or those with most interrupts."""
        greatest = max(run.counts.values(), default=0)
        if cpus is None:
            hottest = [cpu for cpu, count in run.counts.items() if count == greatest and count]
            cpus = hottest[:MAX_SHARED]
            first = f"the first {MAX_SHARED} of " if len(hottest) > MAX_SHARED else "the "
            plural = "" if len(hottest) == 1 else "s"
            irqs = "1 IRQ" if greatest == 1 else f"{greatest} IRQs"
            title = f"{first}{len(hottest)} CPU{plural} with {irqs}, by device"
        else:
            title = f"{len(cpus)} CPUs, by device"
        self.title.set_text(f"{when}{run.revision.name}: {title}")
        by_cpu: dict[int, dict[str, int]] = {cpu: {} for cpu in cpus}
        for irq in run.interrupts:
            if irq.effective in by_cpu:
                counts = by_cpu[irq.effective]
                counts[irq.device] = counts.get(irq.device, 0) + 1
        devices = [device.name for device in run.machine.devices]
        devices = [name for name in devices if any(name in counts for counts in by_cpu.values())]
        own = devices if len(devices) <= MAX_SERIES else devices[: MAX_SERIES - 1]
        rest = devices[len(own) :]
        names = [[name] for name in own] + ([rest] if rest else [])
        self._name([*own, f"{len(rest)} more"] if rest else own)
        places = np.arange(len(cpus))
        edges = np.stack([places - 0.43, places + 0.43], 1).ravel()
        bottom = np.zeros(len(cpus))
        for layer, of in zip(self.layers, names, strict=True):
            heights = np.array([sum(by_cpu[cpu].get(name, 0) for name in of) for cpu in cpus])
            values = np.stack([bottom + heights, bottom], 1).ravel()[:-1]
            # matplotlib's types know single numbers only.
            baseline: Any = np.repeat(bottom, 2)[:-1]
            layer.set_data(values, edges, baseline)
            bottom += heights
        self.line.set_ydata([run.best, run.best])
        self.label.set(y=run.best, text=f" best {run.best}")
        every = max(1, -(-len(cpus) // 32))
        self.numbers.write(
            (at, 0, str(cpus[at]), "black", 8.0) for at in range(0, len(cpus), every)
        )
        self.ax.set_ylim(0, max(top, greatest, run.best, 1) * 1.12)
        self.ax.set_xlim(-0.7, max(len(cpus), 8) - 0.3)

    def _name(self, devices: list[str]) -> None:
        """Have a layer a name, and a legend."""
        if devices == self.devices:
            return
        self.devices = devices
        for layer in self.layers:
            layer.remove()
        # One outline a layer, gaps included: a hatch a bar would take a second.
        self.layers = [
            self.ax.stairs(
                [0],
                [0, 1],
                fill=True,
                facecolor=SERIES[(at + 1) % len(SERIES)],
                hatch=HATCHES[at % len(HATCHES)],
                edgecolor="white",
                linewidth=0.6,
                label=device,
                gid=device,
            )
            for at, device in enumerate(devices)
        ]
        self.ax.legend(
            handles=self.layers,
            loc="upper left",
            bbox_to_anchor=(1.05, 1),
            frameon=False,
            fontsize=8,
            handleheight=1,
        )


class MatrixComparison(Picture):
    """The affinity matrices of two runs of one machine, side by side, to be redrawn quickly."""

    def __init__(self, before: Run, after: Run) -> None:
        super().__init__(*PAIR)
        self.topology: Topology | None = None
        self.matrices: list[_Matrix] = []
        self.draw(before, after)

    def draw(self, before: Run, after: Run) -> None:
        """Draw two runs of a machine in place of those shown."""
        if before.machine.topology != self.topology:
            self.topology = before.machine.topology
            self.figure.clear()
            self.settle()
            axes = self.figure.subplots(1, 2)
            self.figure.subplots_adjust(0.055, 0.085, 0.99, 0.9, wspace=0.14)
            self.matrices = [_Matrix(ax, self.topology) for ax in axes]
        rows = [matrix.rows for matrix in self.matrices]
        self.matrices[0].show(before, None, "before, ")
        self.matrices[1].show(after, None, "after, ")
        if rows != [matrix.rows for matrix in self.matrices]:
            self.settle()
        self.moving = [artist for matrix in self.matrices for artist in matrix.moving]
        self.words = [matrix.title for matrix in self.matrices]


class SharingComparison(Picture):
    """Who shares the most loaded CPUs, before and after, to be redrawn quickly."""

    def __init__(self, before: Run, after: Run) -> None:
        super().__init__(*PAIR)
        axes = self.figure.subplots(2, 1)
        self.figure.subplots_adjust(0.045, 0.085, 0.86, 0.945, hspace=0.32)
        self.stacks = [_Sharing(ax) for ax in axes]
        axes[0].set_xlabel("")
        self.draw(before, after)

    def draw(self, before: Run, after: Run) -> None:
        """Draw two runs of a machine in place of those shown."""
        devices = [stacks.devices for stacks in self.stacks]
        top = max(0, *before.counts.values(), *after.counts.values())
        self.stacks[0].show(before, None, top, "before, ")
        self.stacks[1].show(after, None, top, "after, ")
        if devices != [stacks.devices for stacks in self.stacks]:
            self.settle()
        self.moving = [artist for stacks in self.stacks for artist in stacks.moving]
        self.words = [word for stacks in self.stacks for word in stacks.words]


class MapComparison(Picture):
    """The maps of two runs of one machine, to be redrawn quickly."""

    def __init__(self, before: Run, after: Run) -> None:
        super().__init__(*PAIR)
        self.topology: Topology | None = None
        self.maps: list[Map] = []
        self.draw(before, after)

    def draw(self, before: Run, after: Run) -> None:
        """Draw two runs of a machine in place of those shown."""
        if before.machine.topology != self.topology:
            self.topology = before.machine.topology
            self.figure.clear()
            self.settle()
            axes = [self.figure.add_axes((at, 0.01, 0.485, 0.96)) for at in (0.005, 0.51)]
            self.maps = [Map(self.topology, ax) for ax in axes]
        top = max(0, *before.counts.values(), *after.counts.values())
        for drawn, run, when in zip(self.maps, (before, after), ("before", "after"), strict=True):
            most = max(run.counts.values(), default=0)
            drawn.show(
                run,
                top=top,
                heading=f"{when}, {run.revision.name}: max {most} (best possible {run.best})",
            )
        self.moving = [artist for drawn in self.maps for artist in drawn.moving]
        self.words = [word for drawn in self.maps for word in drawn.words]


def compare_masks(before: Run, after: Run) -> Figure:
    """Draw the affinity matrices of two runs of one machine, side by side."""
    return MatrixComparison(before, after).figure


def compare_sharing(before: Run, after: Run) -> Figure:
    """Draw who shares the most loaded CPUs in two runs of one machine, one above the other."""
    return SharingComparison(before, after).figure


def compare_maps(before: Run, after: Run) -> Figure:
    """Draw the maps of two runs of one machine, side by side on the same scale."""
    return MapComparison(before, after).figure
