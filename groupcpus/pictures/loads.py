# SPDX-License-Identifier: GPL-2.0-only
"""How many interrupts CPUs handle: bars, heatmaps, distributions, before and after."""

from collections.abc import Sequence
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from groupcpus.engine.topology import Topology
from groupcpus.machines.run import Run
from groupcpus.pictures.base import (
    BOUND,
    COUNTS,
    HATCHES,
    HOT,
    NODE_COLOURS,
    SERIES,
    Numbers,
    Picture,
    axes_of,
    luminance,
)

# Beyond this, bars get too thin to be read one by one.
MAX_BARS = 128
# CPUs in a row of a heatmap.
ROW = 64
# The size of two pictures, one above the other, in inches: always the same, so nothing jumps.
PAIR = (11, 5.6)


def irqs_per_cpu(run: Run, ax: Axes | None = None, *, top: int | None = None) -> Axes:
    """Draw how many interrupts each CPU handles, node by node.

    Bars up to 128 CPUs, beyond that a heatmap with a band of rows a node.  The title and, with
    bars, a dashed line give the best possible maximum.  The hatched part of a bar are interrupts
    whose mask is that CPU alone; in a heatmap a frame marks CPUs that have any.  A cross marks
    CPUs that are offline or absent.

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
    topology = run.machine.topology
    if len(topology.possible) <= MAX_BARS:
        loads: _Bars | _Heat = _Bars(axes_of(ax, 11, 3), topology)
    else:
        height = 1.2 + max(0.16 * len(_node_rows(topology)), 1)
        loads = _Heat(axes_of(ax, 11, height), topology)
    loads.show(run, top or 0)
    return loads.ax


def _title(run: Run) -> str:
    reached = max(run.counts.values(), default=0)
    used = sum(count > 0 for count in run.counts.values())
    return f"{run.revision.name}: max {reached} (best possible {run.best}), {used} CPUs used"


def _by_node(topology: Topology) -> list[int]:
    return [cpu for cpus in topology.nodes.values() for cpu in cpus]


class _Bars:
    """A bar a CPU; `show` puts a run of the machine into the same artists."""

    def __init__(self, ax: Axes, topology: Topology) -> None:
        self.ax = ax
        self.cpus = _by_node(topology)
        nodes = [cpus for cpus in topology.nodes.values() if cpus]
        parity = [at % 2 for at, cpus in enumerate(nodes) for _ in cpus]
        count = len(self.cpus)
        sns.barplot(x=range(count), y=[0] * count, saturation=1, width=0.86, errorbar=None, ax=ax)
        self.bars = [bar for bar in ax.patches if isinstance(bar, Rectangle)]
        for bar, odd in zip(self.bars, parity, strict=True):
            bar.set_facecolor(NODE_COLOURS[odd])
        # One outline for all of them: a hatch a bar would take most of the drawing time.
        self.hot = ax.stairs(
            np.zeros(len(self.cpus)),
            np.arange(len(self.cpus) + 1) - 0.5,
            fill=True,
            facecolor="none",
            edgecolor="white",
            hatch="//////",
            linewidth=0,
        )
        self.line = ax.axhline(0, color=BOUND, linestyle="--", linewidth=1.2)
        self.label = ax.text(
            1.002, 0, "", transform=ax.get_yaxis_transform(), va="center", fontsize=8
        )
        self.title = ax.set_title(" ", fontsize=10, y=1.01)
        ax.set(xlabel="CPU", ylabel="IRQs", xlim=(-0.8, len(self.cpus) - 0.2), ylim=(0, 1))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        self._name_nodes(topology)
        handles: list[Artist] = [
            Patch(facecolor=NODE_COLOURS[0], edgecolor="white", hatch="//////"),
        ]
        labels = ["masks of this CPU alone"]
        down = [at for at, cpu in enumerate(self.cpus) if cpu not in topology.online]
        if down:
            foot = ax.get_xaxis_transform()
            handles += ax.plot(down, [0.03] * len(down), "x", color="0.35", ms=5, transform=foot)
            labels.append("offline or absent")
        ax.legend(
            handles,
            labels,
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0.1,
            frameon=False,
            fontsize=8,
            ncols=2,
        )
        sns.despine(ax=ax)
        self.moving: list[Artist] = [*self.bars, self.hot, self.line]
        self.words: list[Text | Axis] = [ax.yaxis, self.label, self.title]

    def _name_nodes(self, topology: Topology) -> None:
        """Mark where one node's CPUs end, name every node, and number every few CPUs."""
        nodes = {node: cpus for node, cpus in topology.nodes.items() if cpus}
        step = max(1, -(-len(self.cpus) // 32))
        ticks: list[int] = []
        at = 0
        for node, cpus in nodes.items():
            if at:
                self.ax.axvline(at - 0.5, color="0.6", linewidth=0.8)
            if len(nodes) <= 32:
                self.ax.text(
                    at + len(cpus) / 2 - 0.5,
                    0.94,
                    f"node {node}" if len(nodes) <= 16 else str(node),
                    transform=self.ax.get_xaxis_transform(),
                    ha="center",
                    fontsize=8,
                )
            starts = range(at, at + len(cpus), step)
            # The next node's first number needs the room.
            ticks += [tick for tick in starts if tick == at or at + len(cpus) - tick >= step * 0.6]
            at += len(cpus)
        while len(ticks) > 48:
            ticks = ticks[::2]
        self.ax.set_xticks(ticks, [str(self.cpus[tick]) for tick in ticks], fontsize=8)

    def show(self, run: Run, top: int = 0, when: str = "") -> None:
        """Show a run of a machine with the same CPUs."""
        heights = [run.counts[cpu] for cpu in self.cpus]
        for bar, height in zip(self.bars, heights, strict=True):
            bar.set_height(height)
        self.hot.set_data([run.single[cpu] for cpu in self.cpus])
        self.line.set_ydata([run.best, run.best])
        self.label.set(y=run.best, text=f"best {run.best}")
        self.title.set_text(f"{when}{_title(run)}")
        self.ax.set_ylim(0, max(top, *heights, run.best, 1) * 1.2)


class _Heat:
    """A cell a CPU, in rows; `show` puts a run of the machine into the same artists."""

    def __init__(self, ax: Axes, topology: Topology) -> None:
        self.ax = ax
        rows = _node_rows(topology)
        columns = max(len(cpus) for _, cpus in rows)
        self.shape = (len(rows), columns)
        self.places = [
            (cpu, row, column)
            for row, (_, cpus) in enumerate(rows)
            for column, cpu in enumerate(cpus)
        ]
        self.down = {cpu for cpu in topology.possible if cpu not in topology.online}
        self.mesh = ax.pcolormesh(np.zeros(self.shape), cmap=COUNTS, edgecolors="white", lw=0.3)
        self.title = ax.set_title(" ", fontsize=10, y=1.01)
        ax.set(xlim=(0, columns), ylim=(len(rows), 0))
        ax.set_xlabel("CPU, counted from the row's first", fontsize=8)
        ticks = range(0, columns, 8)
        ax.set_xticks([tick + 0.5 for tick in ticks], [f"+{tick}" for tick in ticks], fontsize=7)
        labels = [f"node {node}: CPU {cpus[0]}" for node, cpus in rows]
        every = max(1, -(-len(rows) // 20))
        ax.set_yticks([at + 0.5 for at in range(0, len(rows), every)], labels[::every], fontsize=7)
        ax.tick_params(length=0)
        self.borders = [
            ax.axhline(at, color="black", linewidth=0.8, zorder=3)
            for at, ((before, _), (after, _)) in enumerate(pairwise(rows), start=1)
            if before != after
        ]
        self.hot = Line2D([], [], linestyle="none", marker="s", markerfacecolor="none")
        self.hot.set(markeredgecolor=HOT, markeredgewidth=0.9, zorder=3)
        ax.add_line(self.hot)
        ax.legend(
            [self.hot],
            [
                "has a mask of this CPU alone; x: offline or absent"
                if self.down
                else "has a mask of this CPU alone"
            ],
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0.1,
            frameon=False,
            fontsize=8,
        )
        # A ramp of our own, as its numbers alone move when the scale changes.
        self.ramp = ax.inset_axes((1.012, 0, 0.014, 1))
        self.ramp.imshow(
            np.linspace(1, 0, 64)[:, None],
            cmap=COUNTS,
            aspect="auto",
            extent=(0, 1, 0, 1),
            transform=self.ramp.transAxes,
        )
        self.ramp.set(xlim=(0, 1), xticks=[], ylabel="IRQs")
        self.ramp.yaxis.set_label_position("right")
        self.ramp.yaxis.tick_right()
        self.ramp.tick_params(labelsize=7)
        self.ramp.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        self.numbers = Numbers(ax)

    @property
    def moving(self) -> list[Artist]:
        """What `show` changes."""
        cells = [self.mesh, *self.borders, self.hot]
        return [*cells, *self.numbers.lines]

    @property
    def words(self) -> list[Text | Axis]:
        """The same, of letters."""
        return [self.title, self.ramp.yaxis]

    def show(self, run: Run, top: int = 0, when: str = "") -> None:
        """Show a run of a machine with the same CPUs."""
        table = np.full(self.shape, np.nan)
        for cpu, row, column in self.places:
            table[row, column] = np.nan if cpu in self.down else run.counts[cpu]
        highest = max(top, *run.counts.values(), 1)
        self.mesh.set_array(np.ma.masked_invalid(table))
        self.mesh.set_clim(0, highest)
        self.ramp.set_ylim(0, highest)
        self.title.set_text(f"{when}{_title(run)}")

        figure = self.ax.get_figure(root=True)
        assert figure is not None
        box = self.ax.get_position()
        tall = 72 * figure.get_figheight() * box.height / self.shape[0]
        wide = 72 * figure.get_figwidth() * box.width / self.shape[1]
        self.hot.set_markersize(max(1.0, min(tall, wide) - 1.5))
        hot = [(c + 0.5, r + 0.5) for cpu, r, c in self.places if run.single[cpu]]
        self.hot.set_data(*zip(*hot, strict=True) if hot else ([], []))
        points = round(min(7.0, tall * 0.75), 1)
        ramp = mpl.colormaps[COUNTS]
        inks = {
            count: "white" if luminance(ramp(count / highest)) < 0.5 else "black"
            for count in set(run.counts.values())
        }
        self.numbers.write(
            (
                column + 0.5,
                row + 0.5,
                "x" if cpu in self.down else str(run.counts[cpu]),
                "0.35" if cpu in self.down else inks[run.counts[cpu]],
                points,
            )
            for cpu, row, column in self.places
            if points >= 4
        )


def _node_rows(topology: Topology) -> list[tuple[int, list[int]]]:
    """Cut each node's CPUs into rows of a heatmap."""
    rows = []
    for node, members in topology.nodes.items():
        cpus = list(members)
        rows += [(node, cpus[at : at + ROW]) for at in range(0, len(cpus), ROW)]
    return rows


class Comparison(Picture):
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

    def __init__(
        self, before: Run, after: Run, labels: tuple[str, str] = ("before", "after")
    ) -> None:
        super().__init__(*PAIR)
        self.labels = labels
        self.topology: Topology | None = None
        self.loads: list[_Bars | _Heat] = []
        self.draw(before, after)

    def draw(self, before: Run, after: Run) -> None:
        """Draw two runs of a machine in place of those shown."""
        # The same machine needs other heights and colours only.
        if before.machine.topology != self.topology:
            self.topology = before.machine.topology
            self.figure.clear()
            self.settle()
            big = len(self.topology.possible) > MAX_BARS
            axes = self.figure.subplots(2, 1)
            if big:
                self.figure.subplots_adjust(0.105, 0.075, 0.94, 0.945, hspace=0.25)
            else:
                self.figure.subplots_adjust(0.045, 0.085, 0.95, 0.945, hspace=0.32)
            self.loads = [(_Heat if big else _Bars)(ax, self.topology) for ax in axes]
            axes[0].set_xlabel("")
        top = max(0, *before.counts.values(), *after.counts.values(), before.best, after.best)
        self.loads[0].show(before, top, f"{self.labels[0]}, ")
        self.loads[1].show(after, top, f"{self.labels[1]}, ")
        self.moving = [artist for loads in self.loads for artist in loads.moving]
        self.words = [word for loads in self.loads for word in loads.words]


def compare(before: Run, after: Run, labels: tuple[str, str] = ("before", "after")) -> Figure:
    """Draw two runs of a machine, one above the other on the same scale, each with its label.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> chips = ("gicv3", "its")
    >>> runs = [simulate("D16plds_v6", revision="cluster", irqchip=chip) for chip in chips]
    >>> [ax.get_title() for ax in compare(*runs, labels=("GICv3", "ITS")).axes]
    ['GICv3, cluster: max 2 (best possible 2), 6 CPUs used',
     'ITS, cluster: max 2 (best possible 1), 10 CPUs used']
    """
    return Comparison(before, after, labels).figure


def distribution(
    runs: Sequence[Run], ax: Axes | None = None, *, names: Sequence[str] | None = None
) -> Axes:
    """Draw how many CPUs handle how many interrupts, for several runs together.

    Parameters
    ----------
    runs : sequence of Run
        Told apart by revision and, if they differ, irqchip.
    ax : Axes, optional
        Where to draw.
    names : sequence of str, optional
        What to call the runs instead.

    Returns
    -------
    Axes
    """
    ax = axes_of(ax, 8, 3.2)
    if names is None:
        chips = {run.irqchip for run in runs}
        names = [
            run.revision.name if len(chips) == 1 else f"{run.revision.name}, {run.irqchip}"
            for run in runs
        ]
    frames = [
        pd.DataFrame({"IRQs of a CPU": run.per_cpu.query("online")["irqs"], "run": name})
        for run, name in zip(runs, names, strict=True)
    ]
    sns.histplot(
        pd.concat(frames, ignore_index=True),
        x="IRQs of a CPU",
        hue="run",
        palette=[SERIES[at % len(SERIES)] for at in range(len(runs))],
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
        for patch in filter(None, (*bars.get_children(), legend.legend_handles[at])):
            patch.set(hatch=HATCHES[at % len(HATCHES)], edgecolor="white", linewidth=0.5)
    for best in sorted({run.best for run in runs}):
        # Behind the count's bars, not through them.
        ax.axvline(best + 0.5, color=BOUND, linestyle="--", linewidth=1.2)
        text = f" best possible max: {best}"
        ax.text(best + 0.5, 1, text, transform=ax.get_xaxis_transform(), fontsize=8)
    ax.set(ylabel="CPUs", xlim=(-0.6, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    sns.despine(ax=ax)
    return ax


class _Distribution:
    """The same with artists that `show` moves, for redrawing quickly."""

    def __init__(self, ax: Axes, names: Sequence[str], bounds: int) -> None:
        self.ax = ax
        # One outline a run, gaps included: a hatch a bar would take most of the drawing time.
        self.bars = [
            ax.stairs(
                [0],
                [0, 1],
                fill=True,
                facecolor=SERIES[at % len(SERIES)],
                hatch=HATCHES[at % len(HATCHES)],
                edgecolor="white",
                linewidth=0.5,
                label=name,
            )
            for at, name in enumerate(names)
        ]
        self.lines = [ax.axvline(0, color=BOUND, ls="--", lw=1.2) for _ in range(bounds)]
        foot = ax.get_xaxis_transform()
        self.labels = [ax.text(0, 1.0, "", transform=foot, fontsize=8) for _ in range(bounds)]
        ax.set(xlabel="IRQs of a CPU", ylabel="CPUs")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.legend(loc="upper right")
        sns.despine(ax=ax)
        # The numbers of both axes meet in the corner: only one of them can be kept as pixels.
        self.moving: list[Artist] = [*self.bars, *self.lines, *self.labels, ax.xaxis]
        self.words: list[Text | Axis] = [ax.yaxis]

    def show(self, runs: Sequence[Run]) -> None:
        """Show runs, as many as there are names, with as many different bounds."""
        # From 0 on: a single count would have the whole width, and ticks between whole numbers.
        most = max(max(run.best, *run.counts.values()) for run in runs)
        heights = np.array(
            [
                np.bincount(
                    [run.counts[cpu] for cpu in run.machine.topology.online], minlength=most + 1
                )
                for run in runs
            ]
        )
        width = 0.8 / len(runs)
        there = heights > 0
        # Those that have a count stand side by side, their middle at its tick.
        left = np.arange(most + 1) + width * (np.cumsum(there, axis=0) - 1 - there.sum(axis=0) / 2)
        for bars, high, low in zip(self.bars, heights, left, strict=True):
            (at,) = np.nonzero(high)
            bars.set_data(
                np.stack([high[at], np.zeros(len(at))], 1).ravel()[:-1],
                np.stack([low[at], low[at] + width], 1).ravel(),
            )
        bounds = sorted({run.best for run in runs})
        for line, label, best in zip(self.lines, self.labels, bounds, strict=True):
            # Behind the count's bars, not through them.
            line.set_xdata([best + 0.5] * 2)
            label.set(x=best + 0.5, text=f" best possible max: {best}")
        self.ax.set(xlim=(-0.6, most + 0.6), ylim=(0, heights.max() * 1.05))


class DistributionComparison(Picture):
    """The distributions of two runs in one picture, to be redrawn quickly."""

    def __init__(self, before: Run, after: Run) -> None:
        super().__init__(*PAIR)
        self._fixed: object = None
        self.draw(before, after)

    def draw(self, before: Run, after: Run) -> None:
        """Draw two runs of a machine in place of those shown."""
        names = [f"before, {before.revision.name}", f"after, {after.revision.name}"]
        fixed = names, len({before.best, after.best})
        if fixed != self._fixed:
            self._fixed = fixed
            self.figure.clear()
            self.settle()
            self.bars = _Distribution(self.figure.add_axes((0.06, 0.09, 0.92, 0.84)), *fixed)
        self.bars.show([before, after])
        self.moving, self.words = self.bars.moving, self.bars.words


def compare_distributions(before: Run, after: Run) -> Figure:
    """Draw the distributions of two runs in one picture."""
    return DistributionComparison(before, after).figure
