# SPDX-License-Identifier: GPL-2.0-only
"""How one call assigns the CPUs of a machine to groups, decision by decision."""

from collections.abc import Sequence
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groupcpus.engine.progress import progress_of
from groupcpus.engine.steps import Step
from groupcpus.engine.topology import Topology
from groupcpus.pictures.maps import MapWords, topology_map

# Frames of a strip.
MAX_FRAMES = 24


def decision_frame(
    topology: Topology, steps: Sequence[Step], upto: int, ax: Axes | None = None
) -> Axes:
    """Draw what is decided after the first `upto` records of `groupcpus.explain`.

    Each CPU has the number and colour of its group; those that the last decision was about have
    a black rim; the title is the decision.

    Parameters
    ----------
    topology : Topology
        The machine that was explained.
    steps : sequence of Step
        All records.
    upto : int
        How many of them have happened, 0 to all.
    ax : Axes, optional
        Where to draw; what was there is cleared.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from groupcpus.engine.group_cpus import explain
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4)
    >>> _, steps = explain(machine, 2, revision="cluster")
    >>> print(decision_frame(machine, steps, 5).get_title(loc="left"))
    5 of 6 - group 0: CPUs 4, 5 of cluster 4-5
    """
    made = progress_of(topology, steps[:upto])
    captions = {node: f", {count} of the groups" for node, count in made.node_groups.items()}
    if ax is not None:
        ax.clear()
    words = MapWords(captions=captions, above=0.65)
    ax = topology_map(topology, ax, groups=made.groups, focus=made.focus, words=words)
    title = f"{upto} of {len(steps)} - {made.sentence}"
    # Letters of 9 points are about a twelfth of an inch wide.
    figure = ax.get_figure(root=True)
    assert figure is not None
    room = figure.get_figwidth() * ax.get_position(original=True).width * 12
    wrapped = fill(title, min(90, int(room)), max_lines=3, placeholder=" ...")
    ax.set_title(wrapped, fontsize=9, loc="left", x=0.01)
    return ax


def decision_strip(topology: Topology, steps: Sequence[Step], *, columns: int = 3) -> Figure:
    """Draw a call as a filmstrip, for pages without a slider: one frame a decision.

    Parameters
    ----------
    topology : Topology
        The machine that was explained.
    steps : sequence of Step
        All records.
    columns : int
        Frames in a row.

    Returns
    -------
    Figure
        At most 24 frames: of longer calls the first 23 decisions and the last; the numbers in
        the titles say which.

    Examples
    --------
    >>> from groupcpus.engine.group_cpus import explain
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4)
    >>> _, steps = explain(machine, 2, revision="cluster")
    >>> [ax.get_title(loc="left")[:6] for ax in decision_strip(machine, steps).axes]
    ['1 of 6', '2 of 6', '3 of 6', '4 of 6', '5 of 6', '6 of 6']
    """
    frames = list(range(1, len(steps) + 1))
    if len(frames) > MAX_FRAMES:
        frames = [*frames[: MAX_FRAMES - 1], len(steps)]
    rows = -(-len(frames) // columns)
    # Wide and low machines need less height.
    shape = topology_map(topology, words=MapWords(legend=False)).get_figure(root=True)
    assert shape is not None
    width = 11 / columns
    height = min(width * shape.get_figheight() / shape.get_figwidth(), 3) + 0.6
    figure = Figure(figsize=(11, rows * height))
    for at, upto in enumerate(frames):
        row, column = divmod(at, columns)
        left, bottom = column / columns, 1 - (row + 1) / rows
        box = (left + 0.004, bottom, 1 / columns - 0.008, (1 - 0.55 / height) / rows)
        decision_frame(topology, steps, upto, figure.add_axes(box))
    return figure
