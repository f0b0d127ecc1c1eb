# SPDX-License-Identifier: GPL-2.0-only
"""Predictions beside what real kernels did."""

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, withStroke

from groupcpus.engine.topology import Topology
from groupcpus.observed.replay import Replay, ReplayedRow
from groupcpus.pictures.base import COUNTS, NODE_COLOURS, axes_of, luminance


def agreement(replays: Sequence[Replay], kind: str = "mask", ax: Axes | None = None) -> Axes:
    """Draw how many predictions of a kind came true: a row a recording, a column a revision.

    A frame marks the revision that the recording's kernel has.

    Parameters
    ----------
    replays : sequence of Replay
        Recordings, each under any revisions.
    kind : {"mask", "map", "effective", "admin"}
        Which predictions; those of boot and rebind together.
    ax : Axes, optional
        Where to; a Figure of its own when left out.

    Returns
    -------
    Axes
    """
    counts = {(done.recording.name, done.revision.name): done.count(kind) for done in replays}
    names = list(dict.fromkeys(name for name, _ in counts))
    revisions = list(dict.fromkeys(revision for _, revision in counts))
    texts = pd.DataFrame("", index=names, columns=revisions)
    shares = pd.DataFrame(float("nan"), index=names, columns=revisions)
    for at, (right, predictions) in counts.items():
        texts.loc[at] = f"{right}/{predictions}"
        shares.loc[at] = right / max(predictions, 1)
    ax = axes_of(ax, 5 + 1.3 * len(revisions), 1.2 + 0.26 * len(names))
    sns.heatmap(
        shares,
        cmap=COUNTS,
        vmin=0,
        vmax=1,
        annot=texts,
        fmt="",
        annot_kws={"fontsize": 8},
        linewidths=0.5,
        cbar_kws={"label": f"share of {kind}s predicted", "pad": 0.02},
        ax=ax,
    )
    own = {(done.recording.name, done.recording.revision.name) for done in replays}
    for name, revision in sorted(own & counts.keys()):
        _frame(ax, revisions.index(revision), names.index(name))
    whole = {at for at, (right, predictions) in counts.items() if right == predictions}
    met = len(own & whole)
    failed = len({name for name, _ in counts.keys() - whole - own})
    ax.tick_params(axis="y", rotation=0, labelsize=8)
    ax.set_title(
        f"The kernel's own revision (framed) predicts every {kind} of {met} of {len(names)} "
        f"recordings;\nin {failed} another one fails",
        fontsize=10,
    )
    ax.set(xlabel="revision that predicts", ylabel="")
    return ax


def _frame(ax: Axes, column: int, row: int) -> None:
    """Frame a cell of a heatmap, so that it is seen on light and on dark."""
    frame = Rectangle((column + 0.02, row + 0.06), 0.96, 0.88, fill=False, linewidth=1.5, zorder=3)
    frame.set_path_effects([withStroke(linewidth=4, foreground="white"), Normal()])
    ax.add_patch(frame)


def effective_grid(replay: Replay, phase: str = "boot", ax: Axes | None = None) -> Axes:
    """Draw the effective CPU of every queue: a row a device, coloured by node.

    A cell holds the recorded CPU; a line marks where the node changes.  A frame and the prediction
    in brackets mark one that did not come true.

    Parameters
    ----------
    replay : Replay
        What to draw.
    phase : str
        When: ``boot``, ``rebind``, or an event with its number.
    ax : Axes, optional
        Where to; a Figure of its own when left out.

    Returns
    -------
    Axes
    """
    topology = replay.recording.topology
    rows: dict[tuple[str, int], ReplayedRow] = {
        (row.device, row.queue): row
        for row in replay.rows
        if row.phase == phase and row.kind == "effective"
    }
    devices = sorted({device for device, _ in rows})
    queues = sorted({queue for _, queue in rows})
    colours = {node: at % len(NODE_COLOURS) for at, node in enumerate(topology.nodes)}
    shown = pd.DataFrame(float("nan"), index=devices, columns=queues)
    texts = pd.DataFrame("", index=devices, columns=queues)
    ax = axes_of(ax, min(14, 1.6 + 0.34 * len(queues)), 1 + 0.42 * len(devices))
    for (device, queue), row in rows.items():
        at = device, queue
        if (node := _node(row, topology)) is not None:
            shown.loc[at] = colours[node]
        texts.loc[at] = row.recorded if row.match else f"{row.recorded}\n({row.predicted})"
        if not row.match:
            _frame(ax, queues.index(queue), devices.index(device))
    sns.heatmap(
        shown,
        cmap=ListedColormap(NODE_COLOURS),
        vmin=0,
        vmax=len(NODE_COLOURS) - 1,
        annot=texts,
        fmt="",
        annot_kws={"fontsize": 9 if len(queues) <= 32 else 6},
        linewidths=0.5,
        cbar=False,
        ax=ax,
    )
    # Texts come row by row; empty cells have none.
    filled = shown.stack(future_stack=True).dropna()
    for text, colour in zip(ax.texts, filled, strict=True):
        text.set_color("black" if luminance(NODE_COLOURS[int(colour)]) > 0.4 else "white")
    nodes = [_node(rows.get((devices[0], queue)), topology) for queue in queues]
    for column, (before, after) in enumerate(pairwise(nodes), start=1):
        if before != after:
            ax.axvline(column, color="black", linewidth=1.5)
    right, predictions = replay.count("effective", phase)
    ax.tick_params(axis="y", rotation=0)
    ax.set(
        title=f"{replay.recording.name}, {phase}: {right} of {predictions} effective CPUs predicted"
        + ("" if right == predictions else "\nframed: another was predicted, in brackets"),
        xlabel="queue; the number is the CPU, the colour alternates from node to node",
        ylabel="",
    )
    return ax


def _node(row: ReplayedRow | None, topology: Topology) -> int | None:
    """Return the node of the CPU that was recorded."""
    return topology.node_of(int(row.recorded)) if row and row.recorded.isdigit() else None
