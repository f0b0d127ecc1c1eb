# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps, rows of calls, and what stacking costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import counted
from groupcpus.machines.run import Run
from groupcpus.pictures.base import BOUND, COUNTS, HOT, axes_of, revision_styles, span
from groupcpus.studies.latency import worst_disk_loss

# Two neutral colours, for groups that lie side by side.
_GROUPS = ("#C9C9C9", "#E6E6E6")
_QUEUES = (0, 0.25, 0.5, 0.75, 1)
_CPUS = (0, 16, 32, 64, 128, 256)


def shortfall(frame: pd.DataFrame) -> Figure:
    """Draw where revisions fall short, a panel for each: by queues for each CPU, and by CPUs.

    A cell holds the share of configurations whose most loaded CPU handles more interrupts than the
    least that fair groupings reach, and how many configurations there are.

    Parameters
    ----------
    frame : DataFrame
        What `sweep` gave.

    Returns
    -------
    Figure
    """
    revisions = list(dict.fromkeys(frame["revision"]))
    across = pd.cut(frame["queues"] / frame["cpus"], [*_QUEUES, float("inf")])
    down = pd.cut(frame["cpus"], [*_CPUS, float("inf")])
    high = 1.0 + 0.42 * down.nunique()
    rows = -(-len(revisions) // 2)
    figure = Figure(figsize=(9, 0.3 + rows * high), layout="constrained")
    panels = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).flat
    for ax, revision in zip(panels, revisions, strict=False):
        own = frame["revision"] == revision
        short = frame["greatest"][own] > frame["fair_bound"][own]
        cells = short.groupby([down[own], across[own]], observed=True)
        share, count = cells.mean().unstack(), cells.size().unstack().fillna(0)
        texts = share.map("{:.0%}".format) + " of " + count.astype(int).astype(str)
        sns.heatmap(
            share.rename(index=_range, columns=_range),
            annot=texts.where(share.notna(), ""),
            fmt="",
            annot_kws={"fontsize": 8},
            cmap=COUNTS,
            vmin=0,
            vmax=1,
            linewidths=0.5,
            cbar=False,
            ax=ax,
        )
        ax.tick_params(axis="y", rotation=0)
        ax.set(xlabel="", ylabel="")
        ax.set_title(f"{revision}: {short.mean():.0%} above the bound", fontsize=10)
    for ax in list(panels):
        ax.set_visible(False)
    figure.supxlabel("queues of a device for each CPU", fontsize=10)
    figure.supylabel("CPUs", fontsize=10)
    return figure


def over_queues(frame: pd.DataFrame) -> Figure:
    """Draw the most interrupts on a CPU over the number of queues, a line a revision.

    Parameters
    ----------
    frame : DataFrame
        What `sweep` gave for one machine and one number of devices.

    Returns
    -------
    Figure
        One panel for requests device by device, one for those in random orders if there are any:
        the median over the orders, with the range shaded.  Dashed: no grouping gets below this.
    """
    random = frame["requests"].str.startswith("random")
    kinds = {"one disk after another": frame[~random], "disks in parallel": frame[random]}
    shown = {title: rows for title, rows in kinds.items() if len(rows)}
    figure = Figure(figsize=(9, 0.4 + 2.6 * len(shown)), layout="constrained")
    styles = revision_styles(dict.fromkeys(frame["revision"]))
    bound = frame.groupby("queues")["bound"].first()
    panels = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False).flat
    for ax, (title, rows) in zip(panels, shown.items(), strict=True):
        above = {}
        for at, (name, (colour, _)) in enumerate(styles.items()):
            counts = rows[rows["revision"] == name].groupby("queues")["greatest"]
            middle = counts.median()
            above[name] = int((middle > bound).sum())
            # Lines that coincide lie side by side.
            lift = 0.07 * (len(styles) / 2 - at)
            least, most = counts.min(), counts.max()
            ax.fill_between(
                middle.index, least, most, step="mid", color=colour, alpha=0.15, linewidth=0
            )
            ax.plot(middle.index, middle + lift, color=colour, label=name, drawstyle="steps-mid")
        ax.step(
            bound.index, bound, "--", where="mid", color=BOUND, linewidth=1, label="best possible"
        )
        listed = ", ".join(f"{name} {count}" for name, count in above.items())
        ax.set_title(
            f"{title}: above the best possible for so many of {len(bound)} queue counts: {listed}",
            loc="left",
            fontsize=9,
        )
        ax.set(ylabel="most IRQs on a CPU", ylim=(0, None))
        ax.yaxis.get_major_locator().set_params(integer=True)
        ax.grid(axis="y", alpha=0.3)
    figure.axes[-1].set_xlabel("queues of each disk")
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper left", ncols=3)
    return figure


def _range(interval: Any) -> str:
    if interval.right == float("inf"):
        return f"over {interval.left:g}"
    return f"{interval.left:g} to {interval.right:g}"


def successive_calls(
    topology: Topology,
    numgrps: Sequence[int],
    revision: str | Revision,
    ax: Axes | None = None,
    *,
    start: int = 0,
) -> Axes:
    """Draw the groups of calls made one after another: a row a call, a column a CPU.

    Groups are framed, in two greys by turns; one of a single CPU is orange.  A dot marks the first
    CPU of each group.  Below, how many dots a CPU has.

    Parameters
    ----------
    topology : Topology
        A machine small enough to be seen.
    numgrps : sequence of int
        How many groups each call asks for.
    revision : str or Revision
        The version of the function.
    ax : Axes, optional
        Where to; a Figure of its own when left out.
    start : int
        The counter before the first call.

    Returns
    -------
    Axes
    """
    revision = get_revision(revision)
    cpus = list(topology.possible)
    ax = axes_of(ax, 1.5 + 0.34 * len(cpus), 1.2 + 0.34 * len(numgrps))
    firsts, alone = dict.fromkeys(cpus, 0), dict.fromkeys(cpus, 0)
    for row, asked in enumerate(numgrps):
        offset = revision.offset(asked, start)
        start += revision.advance(asked)
        masks = group_cpus_evenly(topology, asked, revision=revision, spread_offset=offset).masks
        order = sorted((mask for mask in masks if mask), key=lambda mask: mask.first or 0)
        for at, mask in enumerate(order):
            single = len(mask) == 1
            alone[min(mask)] += single
            colour = HOT if single else _GROUPS[at % 2]
            for run in mask.runs():
                ax.add_patch(
                    Rectangle(
                        (run[0] - 0.45, row - 0.4),
                        len(run) - 0.1,
                        0.8,
                        facecolor=colour,
                        edgecolor="black",
                    )
                )
            first = min(mask)
            firsts[first] += 1
            ax.plot(first, row, "o", markersize=4, color="white", markeredgecolor="black")
    for cpu, count in firsts.items():
        ax.text(cpu, len(numgrps) - 0.1, str(count), ha="center", va="center", fontsize=8)
    ax.set(
        xlim=(cpus[0] - 0.7, cpus[-1] + 0.7),
        ylim=(len(numgrps) + 0.3, -0.7),
        xticks=cpus[:: max(1, len(cpus) // 24)],
        yticks=range(len(numgrps)),
        yticklabels=[f"call {at}: {counted(asked, 'group')}" for at, asked in enumerate(numgrps)],
        xlabel="CPU; below the rows: how often it is first in its group (dot)",
    )
    title = f"{revision.name}: a CPU is first {_times(firsts)}"
    if any(alone.values()):
        title = f"{revision.name}: a CPU is alone (orange) {_times(alone)}"
    ax.set_title(title, fontsize=10)
    return ax


def _times(counts: Mapping[int, int]) -> str:
    least, most = min(counts.values()), max(counts.values())
    return f"{span(least, most)} {'time' if least == most == 1 else 'times'}"


def scores_by_family(
    table: pd.DataFrame, panels: Mapping[str, str], aim: float | None = None
) -> Figure:
    """Draw scores of each revision: a row a family, a mark a revision, a panel a score.

    Parameters
    ----------
    table : DataFrame
        With the columns family, revision and the scores.
    panels : mapping of str to str
        Which columns, each a share, and what to write above each.
    aim : float, optional
        Where to draw a line.

    Returns
    -------
    Figure
    """
    families = list(dict.fromkeys(table["family"]))
    figure = Figure(
        figsize=(2.3 + 2.9 * len(panels), 1.5 + 0.34 * len(families)), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False).flat
    styles = revision_styles(dict.fromkeys(table["revision"]))
    for ax, (score, title) in zip(axes, panels.items(), strict=True):
        for name, (colour, mark) in styles.items():
            rows = table[table["revision"] == name]
            places = [families.index(family) for family in rows["family"]]
            ax.plot(rows[score], places, mark, color=colour, label=name)
        if aim is not None:
            ax.axvline(aim, color=BOUND, linestyle="--", linewidth=1, label=f"aim {aim:g}")
        ax.set(
            yticks=range(len(families)),
            yticklabels=families,
            ylim=(len(families) - 0.5, -0.5),
            xlim=(None, 1.01),
        )
        ax.set_title(title, fontsize=10)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        ax.grid(alpha=0.3)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def disk_losses(
    runs: Mapping[str, Run],
    depth: int,
    ax: Axes | None = None,
    *,
    load: str = "queue",
    measured: Mapping[str, float] | None = None,
    most: float = 0.3,
) -> Axes:
    """Draw the slowest disk's loss over the service time, a line a run.

    Parameters
    ----------
    runs : mapping of str to Run
        By label.
    depth : int
        Requests in flight of each queue, or of each submitter.
    ax : Axes, optional
        Where to; a Figure of its own when left out.
    load : {"queue", "submitter"}
        What has so many requests in flight, see `handlers`.
    measured : mapping of str to float, optional
        Losses measured elsewhere, drawn as dotted lines.
    most : float
        The greatest service time times depth, in device times.

    Returns
    -------
    Axes
    """
    ax = axes_of(ax, 7, 3.6)
    styles = revision_styles(run.revision.name for run in runs.values())
    times = np.linspace(0.01, most, 30)
    for label, run in runs.items():
        colour, mark = styles[run.revision.name]
        losses = [
            worst_disk_loss(run, depth=depth, service=time / depth, load=load) for time in times
        ]
        ax.plot(times, losses, marker=mark, markevery=5, color=colour, label=label)
    for label, loss in (measured or {}).items():
        ax.axhline(loss, color=BOUND, linestyle=":", linewidth=1)
        ax.text(0.002, loss, f"{label}, measured elsewhere", fontsize=8, va="bottom")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set(
        xlim=(0, most),
        ylim=(0, None),
        xlabel=f"CPU time for what a {load} has in flight ({depth}), over a disk's for a request",
        ylabel="slowest disk behind the average",
    )
    ax.legend(frameon=False)
    return ax
