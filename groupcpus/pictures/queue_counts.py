# SPDX-License-Identifier: GPL-2.0-only
"""Numbers of queues beside each other: the load, and what is lacking."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from groupcpus.engine.cpuset import CpuSet
from groupcpus.pictures.base import BOUND, OUTSIDE, SERIES

__all__ = ["queue_chart"]

_LOADS = {
    "greatest": ("most on a CPU", "#444444", "-", "o"),
    "least": ("fewest on a CPU", SERIES[0], "-", "v"),
    "best": ("best possible", BOUND, "--", ""),
}
_LACKS = {
    "isolated": ("queues without a housekeeping CPU", "#8A6A4A", "-", "s"),
    "offline": ("queues without an online CPU", OUTSIDE, "-", "D"),
    "remote": ("CPUs served from another node", "#8F7FC9", "-", "^"),
}


def queue_chart(frame: pd.DataFrame) -> Figure:
    """Draw the load and what is lacking over the number of queues.

    Parameters
    ----------
    frame : DataFrame
        As `QueueCounts.frame` has it: a row a number of queues.

    Returns
    -------
    Figure
        Above, interrupts on the most and the least loaded CPU; below, queues and CPUs that lack
        something.  Numbers with which nothing is lacking and the load is even are shaded.
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    for ax, lines in zip(axes, (_LOADS, _LACKS), strict=True):
        for column, (label, colour, style, marker) in lines.items():
            sns.lineplot(
                x=frame["queues"],
                y=frame[column],
                label=label,
                color=colour,
                linestyle=style,
                marker=marker or None,
                markersize=4,
                ax=ax,
            )
        for queues in frame.loc[frame["good"], "queues"]:
            ax.axvspan(queues - 0.5, queues + 0.5, color=SERIES[3], alpha=0.15, linewidth=0)
        ax.set_ylim(bottom=0)
        ax.yaxis.get_major_locator().set_params(integer=True)
        ax.legend(fontsize=8)
    good = CpuSet(frame.loc[frame["good"], "queues"])
    axes[0].set(
        ylabel="interrupts",
        title=f"With {good} queues (shaded) nothing is lacking, and the load is even"
        if good
        else "With any number of queues something is lacking, or the load is uneven",
    )
    axes[1].set(ylabel="queues, or CPUs", xlabel="queues of each device")
    return figure
