# SPDX-License-Identifier: GPL-2.0-only
"""Life after boot: who handles how much, step by step."""

from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from groupcpus.errors import RequestError, brief, counted
from groupcpus.machines.lifesteps import Step
from groupcpus.pictures.base import COUNTS, OUTSIDE, axes_of

__all__ = ["cpus_over_steps"]

_WHAT = {"irqs": "IRQs on a CPU", "submitters": "submitters that a CPU handles interrupts for"}
# With more CPUs than this their counts are not written into the cells.
_MOST_NUMBERS = 48
_MOST_LETTERS = 40


def cpus_over_steps(
    steps: Sequence[Step], what: str = "irqs", current: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how much each CPU handles after each step: a row a step, a column a CPU.

    Hatched cells are CPUs that are offline; a ring marks a CPU that submits to a queue whose mask
    does not contain it.

    Parameters
    ----------
    steps : sequence of Step
        Those of a `Life`.
    what : {"irqs", "submitters"}
        What is counted.
    current : int, optional
        A step to frame.
    ax : Axes, optional
        Where to; a Figure of its own when left out.

    Returns
    -------
    Axes
    """
    if what not in _WHAT:
        raise RequestError(f"what {brief(what)}: expected {' or '.join(_WHAT)}")
    cpus = sorted({cpu for step in steps for cpu in step.online})
    places = {cpu: place for place, cpu in enumerate(cpus)}
    titles = [f"{step.number}. {step.title}" for step in steps]
    labels = [
        title if len(title) <= _MOST_LETTERS else f"{title[: _MOST_LETTERS - 3]}..."
        for title in titles
    ]
    counts = pd.DataFrame(
        [step.counts if what == "irqs" else step.submitters for step in steps],
        index=labels,
        columns=cpus,
        dtype="float",
    )
    few = len(cpus) <= _MOST_NUMBERS
    width = min(14.0, 3.2 + (0.3 if few else 0.11) * len(cpus))
    ax = axes_of(ax, width, 1.5 + 0.34 * len(steps))
    sns.heatmap(
        counts,
        cmap=COUNTS,
        vmin=0,
        annot=counts.map(lambda count: f"{count:.0f}" if count == count else "") if few else False,
        fmt="",
        annot_kws={"fontsize": 8},
        linewidths=0.4 if few else 0,
        cbar_kws={"label": _WHAT[what], "pad": 0.02, "ticks": MaxNLocator(integer=True)},
        ax=ax,
    )
    beside = [{cpu for queue in step.outside for cpu in queue.outside} for step in steps]
    for row, (step, outside) in enumerate(zip(steps, beside, strict=True)):
        for cpu in set(cpus) - set(step.online):
            cell = Rectangle((places[cpu], row), 1, 1, fill=False, hatch="////", linewidth=0)
            cell.set(edgecolor="#888888")
            ax.add_patch(cell)
        if outside:
            middles = [places[cpu] + 0.5 for cpu in sorted(outside)]
            rows = [row + 0.5] * len(middles)
            size = 70 if few else 9
            ax.scatter(middles, rows, s=size, facecolors="white", edgecolors=OUTSIDE, alpha=0.8)
        if row == current:
            ax.add_patch(Rectangle((0, row), len(cpus), 1, fill=False, linewidth=2.5))
    handles: list[Artist] = []
    if any(len(step.online) < len(cpus) for step in steps):
        handles.append(Patch(facecolor="none", edgecolor="#888888", hatch="////", label="offline"))
    if any(beside):
        ring = ax.scatter([], [], s=50, facecolors="white", edgecolors=OUTSIDE)
        ring.set_label("outside the mask of one of its queues")
        handles.append(ring)
    if handles:
        ax.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=2,
            frameon=False,
            fontsize=8,
        )
    title = f"at first {_loads(counts.iloc[0])}; at the end {_loads(counts.iloc[-1])}"
    if beside[-1]:
        title += f"; {counted(len(beside[-1]), 'CPU')} outside the mask of a queue"
    ax.set_title(title, loc="left", fontsize=9, pad=22 if handles else 6)
    ax.tick_params(axis="y", rotation=0)
    ax.set(xlabel="CPU", ylabel="")
    return ax


def _loads(counts: "pd.Series[float]") -> str:
    """Return how many CPUs of a row carry the most, and how many nothing."""
    online = counts.dropna().astype(int)
    most, idle = online.max(), int((online == 0).sum())
    text = f"at most {most} on a CPU"
    return f"{text}, {idle} of {len(online)} CPUs idle" if idle else text
