# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps, rows of calls, and what stacking costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.machines.run import Run
from groupcpus.pictures.base import BOUND, COUNTS, HOT, NODE_COLOURS, SERIES, axes_of
from groupcpus.studies.latency import worst_disk_loss

MARKERS = "osD^vPX*"
_QUEUES = (0, 0.25, 0.5, 0.75, 1)
_CPUS = (0, 16, 32, 64, 128, 256)


def shortfall(frame: pd.DataFrame, revision: str, ax: Axes | None = None) -> Axes:
    """Draw where a revision falls short: by queues for each CPU, and by CPUs.

    A cell holds the share of configurations whose most loaded CPU handles more interrupts than the
    least that fair groupings reach, and how many configurations there are.

    Parameters
    ----------
    frame : DataFrame
        What `sweep` gave.
    revision : str
        Which of its revisions.
    ax : Axes, optional
        Where to; a Figure of its own when left out.

    Returns
    -------
    Axes
    """
    rows = frame[frame["revision"] == revision]
    across = pd.cut(rows["queues"] / rows["cpus"], [*_QUEUES, float("inf")])
    down = pd.cut(rows["cpus"], [*_CPUS, float("inf")])
    short = (rows["greatest"] > rows["fair_bound"]).groupby([down, across], observed=True)
    share, count = short.mean().unstack(), short.size().unstack().fillna(0)
    texts = share.map(lambda value: f"{value:.0%}" if value == value else "")
    texts = texts + "\nof " + count.astype(int).astype(str)
    ax = axes_of(ax, 6.2, 1.3 + 0.5 * len(share))
    sns.heatmap(
        share.set_axis([_range(at) for at in share.index]).set_axis(
            [_range(at) for at in share.columns], axis=1
        ),
        annot=texts.where(share.notna(), ""),
        fmt="",
        annot_kws={"fontsize": 8},
        cmap=COUNTS,
        vmin=0,
        vmax=1,
        linewidths=0.5,
        cbar_kws={"label": "share above the bound", "pad": 0.02},
        ax=ax,
    )
    ax.tick_params(axis="y", rotation=0)
    ax.set(xlabel="queues of a device for each CPU", ylabel="CPUs", title=revision)
    return ax


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

    Groups are framed, in two colours by turns; one of a single CPU is dark.  A dot marks the first
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
    firsts = dict.fromkeys(cpus, 0)
    for row, asked in enumerate(numgrps):
        offset = revision.offset(asked, start)
        start += revision.advance(asked)
        masks = group_cpus_evenly(topology, asked, revision=revision, spread_offset=offset).masks
        order = sorted((mask for mask in masks if mask), key=lambda mask: mask.first or 0)
        for at, mask in enumerate(order):
            colour = BOUND if len(mask) == 1 else NODE_COLOURS[at % 2]
            for run in mask.runs():
                ax.add_patch(
                    Rectangle(
                        (run[0] - 0.45, row - 0.4),
                        len(run) - 0.1,
                        0.8,
                        facecolor=colour,
                        edgecolor="black",
                        alpha=0.6,
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
        yticklabels=[f"call {at}: {asked}" for at, asked in enumerate(numgrps)],
        xlabel="CPU; below the rows: how often it is first in its group",
        title=revision.name,
    )
    return ax


def scores_by_family(
    table: pd.DataFrame, score: str, aim: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a score of each revision: a row a family, a mark a revision.

    Parameters
    ----------
    table : DataFrame
        With the columns family, revision and the score.
    score : str
        Which column, a share.
    aim : float, optional
        Where to draw a line.
    ax : Axes, optional
        Where to; a Figure of its own when left out.

    Returns
    -------
    Axes
    """
    families = list(dict.fromkeys(table["family"]))
    ax = axes_of(ax, 7.5, 1.4 + 0.34 * len(families))
    for at, (name, rows) in enumerate(table.groupby("revision", sort=False)):
        ax.plot(
            rows[score],
            [families.index(family) for family in rows["family"]],
            MARKERS[at],
            color=SERIES[at],
            label=name,
        )
    if aim is not None:
        ax.axvline(aim, color=BOUND, linestyle="--", linewidth=1)
        ax.text(aim, -0.75, f"aim {aim:g}", ha="center", fontsize=8)
    ax.set(
        yticks=range(len(families)),
        yticklabels=families,
        ylim=(len(families) - 0.5, -0.5),
        xlim=(None, 1.01),
        xlabel=score,
    )
    ax.grid(axis="x", alpha=0.3)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return ax


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
    times = np.linspace(0.01, most, 30)
    for at, (label, run) in enumerate(runs.items()):
        losses = [
            worst_disk_loss(run, depth=depth, service=time / depth, load=load) for time in times
        ]
        ax.plot(times, losses, marker=MARKERS[at], markevery=5, color=SERIES[at + 1], label=label)
    for label, loss in (measured or {}).items():
        ax.axhline(loss, color=HOT, linestyle=":", linewidth=1)
        ax.text(0, loss, f"{label}, measured elsewhere", fontsize=8, va="bottom")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set(
        xlim=(0, most),
        ylim=(0, None),
        xlabel=f"time to complete the {depth} requests of a {load}, over a disk's time for one",
        ylabel="slowest disk behind the average",
    )
    ax.legend(frameon=False)
    return ax
