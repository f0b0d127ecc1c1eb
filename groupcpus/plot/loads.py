# SPDX-License-Identifier: GPL-2.0-only
"""How many interrupts CPUs handle: bars, heatmaps, distributions, before and after."""

from collections.abc import Sequence
from itertools import groupby, pairwise

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from groupcpus.cpuset import CpuSet
from groupcpus.plot.base import BOUND, COUNTS, HATCHES, NODE_COLOURS, SERIES, axes_of
from groupcpus.simulate import Run
from groupcpus.topology import Topology

# Beyond this, bars get too thin to be read one by one.
MAX_BARS = 128
# CPUs in a row of a heatmap.
ROW = 64


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
    return _Bars(axes_of(ax, 11, 3), run, top).ax


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
    ax = axes_of(ax, 11, 1.2 + 0.22 * len(rows))
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
    ax = axes_of(ax, 8, 3.2)
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
