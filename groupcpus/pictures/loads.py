# SPDX-License-Identifier: GPL-2.0-only
"""How many interrupts CPUs handle: bars, heatmaps, distributions, before and after."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from groupcpus.engine.topology import Topology
from groupcpus.machines.mail_text import ORDER
from groupcpus.machines.run import Run
from groupcpus.pictures.base import (
    BOUND,
    COUNTS,
    HATCHES,
    HOT,
    MAX_BARS,
    NODE_COLOURS,
    PAIR,
    SERIES,
    axes_of,
    drawing,
    luminance,
    plain,
    write_numbers,
)
from groupcpus.pictures.stories import headline

__all__ = ["compare_distributions", "compare_runs", "distribution", "irqs_per_cpu"]

# CPUs in a row of a heatmap.
ROW = 64
# Where legends stand: above the right end.
_ABOVE: dict[str, Any] = {
    "loc": "lower right",
    "bbox_to_anchor": (1, 1),
    "borderaxespad": 0.1,
    "frameon": False,
    "fontsize": 8,
}
# Numbers below bars: three digits and some air each.
ROOM = 34


@drawing
def irqs_per_cpu(
    run: Run,
    ax: Axes | None = None,
    *,
    top: int | None = None,
    when: str = "",
    show: str = "IRQs",
) -> Axes:
    """Draw how many interrupts each CPU handles, node by node.

    Bars up to 128 CPUs, beyond that a heatmap with a band of rows a node.  A dashed line gives the
    best possible maximum.  The orange part of a bar are interrupts whose mask is that CPU alone; in
    a heatmap a frame marks CPUs that have any.  A cross marks CPUs that are offline or absent.

    Parameters
    ----------
    run : Run
        What to draw.
    ax : Axes, optional
        Where to; a Figure of its own when left out.
    top : int, optional
        The count at the top of the scale, so that several pictures share it.
    when : str
        What the title begins with, such as "before".
    show : {"IRQs", "submitters"}
        What is counted on each CPU.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from groupcpus import simulate
    >>> irqs_per_cpu(simulate("L96as_v4", revision="cluster")).get_title(loc="left")
    'cluster: 28 CPUs do double duty, 6 IRQs each; nobody needs more than 4'
    """
    topology = run.machine.topology
    counts = run.submitters if show == "submitters" else run.counts
    if len(topology.possible) <= MAX_BARS:
        ax = axes_of(ax, 11, 3)
        _bars(ax, run, counts, top or 0)
    else:
        ax = axes_of(ax, 11, 1.2 + max(0.16 * len(_node_rows(topology)), 1))
        _heat(ax, run, counts, top or 0)
    ax.set_title(
        plain(headline(run, when, show))[:150], fontsize=10, loc="left", y=1.01, parse_math=False
    )
    return ax


def _bars(ax: Axes, run: Run, counts: dict[int, int], top: int) -> None:
    """Draw a bar for each CPU, node by node."""
    topology = run.machine.topology
    nodes = [cpus for cpus in topology.nodes.values() if cpus]
    cpus = [cpu for members in nodes for cpu in members]
    heights = [counts[cpu] for cpu in cpus]
    places = range(len(cpus))
    irqs = counts is not run.submitters
    sns.barplot(x=places, y=heights, saturation=1, width=0.86, errorbar=None, ax=ax)
    # Neighbouring nodes differ; a colour says nothing else.
    parity = [at % 2 for at, members in enumerate(nodes) for _ in members]
    for bar, odd in zip(ax.patches, parity, strict=True):
        assert isinstance(bar, Rectangle)
        bar.set_facecolor(NODE_COLOURS[odd])
    handles: list[Artist] = []
    labels = []
    if irqs:
        single = [run.single[cpu] for cpu in cpus]
        ax.bar(places, single, width=0.43, color=HOT)
        handles.append(Patch(facecolor=HOT))
        labels.append("the mask is this CPU alone")
        ax.axhline(run.best, color=BOUND, linestyle="--", linewidth=1.2)
        beside = ax.get_yaxis_transform()
        ax.text(1.002, run.best, f"best {run.best}", transform=beside, va="center", fontsize=8)
    down = [at for at, cpu in enumerate(cpus) if cpu not in topology.online]
    if down:
        foot = ax.get_xaxis_transform()
        handles += ax.plot(down, [0.03] * len(down), "x", color="0.35", ms=5, transform=foot)
        labels.append("offline or absent")
    ax.legend(handles, labels, ncols=2, **_ABOVE)
    ax.set(xlabel="CPU", ylabel="IRQs" if irqs else "submitters", xlim=(-0.8, len(cpus) - 0.2))
    ax.set_ylim(0, max(top, *heights, run.best if irqs else 0, 1) * 1.2)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    greatest = max(heights, default=0)
    _name_nodes(ax, topology)
    chosen = ticks(topology, [irqs and run.best < count == greatest for count in heights])
    ax.set_xticks(chosen, [str(cpus[at]) for at in chosen], fontsize=8)
    sns.despine(ax=ax)


def _name_nodes(ax: Axes, topology: Topology) -> None:
    """Mark where one node's CPUs end, and name every node."""
    nodes = {node: cpus for node, cpus in topology.nodes.items() if cpus}
    at = 0
    for node, cpus in nodes.items():
        if at:
            ax.axvline(at - 0.5, color="0.6", linewidth=0.8)
        if len(nodes) <= 32:
            name = f"node {node}" if len(nodes) <= 16 else str(node)
            middle, above = at + len(cpus) / 2 - 0.5, ax.get_xaxis_transform()
            ax.text(middle, 0.94, name, transform=above, ha="center", fontsize=8)
        at += len(cpus)


def ticks(topology: Topology, marked: Sequence[bool], room: int = ROOM) -> list[int]:
    """Choose which CPUs are numbered: ends of what stands out, ends of nodes, then even steps.

    Parameters
    ----------
    topology : Topology
        The machine.
    marked : sequence of bool
        Which CPUs stand out, node by node.
    room : int
        For how many numbers there is room.

    Returns
    -------
    list of int
        Positions among the CPUs, node by node.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=2, cpus_per_node=48)
    >>> ticks(machine, [34 <= cpu < 48 for cpu in range(96)], room=8)
    [0, 16, 34, 47, 64, 80, 95]
    """
    count = len(marked)
    runs = [
        (at, next(end for end in range(at, count) if end == count - 1 or not marked[end + 1]))
        for at in range(count)
        if marked[at] and not (at and marked[at - 1])
    ]
    wanted = [at for ends in runs for at in ends] if len(runs) <= 8 else []
    first = 0
    for members in topology.nodes.values():
        if members:
            wanted += [first, first + len(members) - 1]
        first += len(members)
    step = 1
    while count > step * room:
        step *= 2
    wanted += range(0, count, step)
    taken: list[int] = []
    for at in wanted:
        if all(abs(at - other) >= count / room for other in taken):
            taken.append(at)
    return sorted(taken)


def _heat(ax: Axes, run: Run, counts: dict[int, int], top: int) -> None:
    """Draw a cell for each CPU, in rows of its node."""
    topology = run.machine.topology
    rows = _node_rows(topology)
    columns = max(len(cpus) for _, cpus in rows)
    places = [
        (cpu, row, column) for row, (_, cpus) in enumerate(rows) for column, cpu in enumerate(cpus)
    ]
    down = {cpu for cpu in topology.possible if cpu not in topology.online}
    table = np.full((len(rows), columns), np.nan)
    for cpu, row, column in places:
        table[row, column] = np.nan if cpu in down else counts[cpu]
    highest = max(top, *counts.values(), 1)
    mesh = ax.pcolormesh(
        np.ma.masked_invalid(table), cmap=COUNTS, vmin=0, vmax=highest, edgecolors="white", lw=0.3
    )
    ax.set(xlim=(0, columns), ylim=(len(rows), 0))
    ax.set_xlabel("CPU, counted from the row's first", fontsize=8)
    beside = range(0, columns, 8)
    ax.set_xticks([at + 0.5 for at in beside], [f"+{at}" for at in beside], fontsize=7)
    every = max(1, -(-len(rows) // 20))
    labels = [f"node {node}: CPU {cpus[0]}" for node, cpus in rows]
    ax.set_yticks([at + 0.5 for at in range(0, len(rows), every)], labels[::every], fontsize=7)
    ax.tick_params(length=0)
    for at, ((before, _), (after, _)) in enumerate(pairwise(rows), start=1):
        if before != after:
            ax.axhline(at, color="black", linewidth=0.8, zorder=3)
    ramp = ax.inset_axes((1.012, 0, 0.014, 1))
    bar = ax.figure.colorbar(mesh, cax=ramp, label="IRQs", ticks=MaxNLocator(4, integer=True))
    bar.ax.tick_params(labelsize=7)
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    tall = 72 * figure.get_figheight() * box.height / len(rows)
    wide = 72 * figure.get_figwidth() * box.width / columns
    frames = [(c + 0.5, r + 0.5) for cpu, r, c in places if run.single[cpu]]
    ax.plot(
        *(zip(*frames, strict=True) if frames else ([], [])),
        linestyle="none",
        marker="s",
        markerfacecolor="none",
        markeredgecolor=HOT,
        markeredgewidth=0.9,
        markersize=max(1.0, min(tall, wide) - 1.5),
        zorder=3,
        label="has a mask of this CPU alone" + ("; x: offline or absent" if down else ""),
    )
    ax.legend(**_ABOVE)
    points = round(min(7.0, tall * 0.75), 1)
    colours = mpl.colormaps[COUNTS]
    write_numbers(
        ax,
        (
            (
                column + 0.5,
                row + 0.5,
                "x" if cpu in down else str(counts[cpu]),
                "0.35" if cpu in down else _ink(colours(counts[cpu] / highest)),
                points,
            )
            for cpu, row, column in places
            if points >= 4
        ),
    )


def _ink(colour: object) -> str:
    return "white" if luminance(colour) < 0.5 else "black"


def _node_rows(topology: Topology) -> list[tuple[int, list[int]]]:
    """Cut each node's CPUs into rows of a heatmap."""
    rows = []
    for node, members in topology.nodes.items():
        cpus = list(members)
        rows += [(node, cpus[at : at + ROW]) for at in range(0, len(cpus), ROW)]
    return rows


@drawing
def compare_runs(*runs: Run, labels: Sequence[str] = ORDER, show: str = "IRQs") -> Figure:
    """Draw runs of a machine, one above the other on the same scale, each with its label.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> chips = ("gicv3", "its")
    >>> runs = [simulate("D16plds_v6", revision="cluster", irqchip=chip) for chip in chips]
    >>> [ax.get_title(loc="left")[:35] for ax in compare_runs(*runs, labels=("GICv3", "ITS")).axes]
    ['GICv3, cluster: 2 IRQs at most, on ', 'ITS, cluster: 2 CPUs do double duty']
    """
    wide, tall = PAIR
    tall *= len(runs) / 2
    figure = Figure(figsize=(wide, tall))
    axes = np.atleast_1d(figure.subplots(len(runs), 1))
    left, below, right, above, between = 0.045, 0.476, 0.95, 0.308, 0.32
    if len(runs[0].machine.topology.possible) > MAX_BARS:
        left, below, right, above, between = 0.105, 0.42, 0.94, 0.308, 0.25
    figure.subplots_adjust(left, below / tall, right, 1 - above / tall, hspace=between)
    if show == "submitters":
        top = max(0, *(count for run in runs for count in run.submitters.values()))
    else:
        top = max(0, *(count for run in runs for count in (*run.counts.values(), run.best)))
    for ax, run, when in zip(axes, runs, labels[: len(runs)], strict=True):
        irqs_per_cpu(run, ax, top=top, when=when, show=show)
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return figure


@drawing
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
        pd.DataFrame(
            {"IRQs of a CPU": run.per_cpu.query("online")["irqs"], "run": plain(name)[:40]}
        )
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


@drawing
def compare_distributions(*runs: Run) -> Figure:
    """Draw the distributions of runs in one picture."""
    figure = Figure(figsize=PAIR, layout="constrained")
    names = [f"{when}, {run.revision.name}" for when, run in zip(ORDER, runs, strict=False)]
    distribution(runs, figure.subplots(), names=names)
    return figure
