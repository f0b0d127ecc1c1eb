# SPDX-License-Identifier: GPL-2.0-only
"""Masks and devices: the affinity matrix, and who shares a CPU."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from groupcpus.engine.topology import Topology
from groupcpus.errors import counted
from groupcpus.machines.run import Interrupt, Run
from groupcpus.pictures.base import (
    BOUND,
    DEVICES,
    HATCHES,
    HOT,
    PAIR,
    axes_of,
    drawing,
    plain,
    write_numbers,
)

__all__ = ["affinity_matrix", "compare_masks", "compare_sharing", "sharing"]

EFFECTIVE = "#000000"
# Devices with a colour of their own in a stack; more share the last one.
MAX_SERIES = len(DEVICES)
# CPUs in a picture of sharing.
MAX_SHARED = 48
_ABOVE: dict[str, Any] = {"frameon": False, "fontsize": 8, "borderaxespad": 0.1}


@drawing
def affinity_matrix(
    run: Run, ax: Axes | None = None, *, device: str | None = None, when: str = ""
) -> Axes:
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
    when : str
        What the title begins with, such as "before".

    Returns
    -------
    Axes

    Examples
    --------
    >>> from groupcpus import simulate
    >>> ax = affinity_matrix(simulate("L96as_v4", revision="cluster"), device="nvme0")
    >>> ax.get_title(loc="left")
    'cluster, nvme0: masks of 62 queues'
    """
    ax = axes_of(ax, 11, 5)
    topology = run.machine.topology
    cpus = [cpu for members in topology.nodes.values() for cpu in members]
    column = {cpu: at for at, cpu in enumerate(cpus)}
    irqs = [irq for irq in run.interrupts if device in (None, irq.device)]
    names = list(dict.fromkeys(irq.device for irq in irqs))
    rows = max(len(irqs), 1)
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    wide = figure.get_figwidth() * box.width
    cell = min(wide / len(cpus), figure.get_figheight() * box.height / rows)

    corners: list[list[tuple[float, float]]] = []
    shades = []
    for row, irq in enumerate(irqs):
        columns = sorted(column[cpu] for cpu in irq.affinity if cpu in column)
        for left, right in _bands(columns):
            low, high = left - 0.5, right + 0.5
            corners.append([(low, row), (high, row), (high, row + 1), (low, row + 1)])
            shades.append(DEVICES[names.index(irq.device) % len(DEVICES)])
    # Thousands of masks or CPUs are averaged, not picked from; fewer need no such care.
    bands = PolyCollection(
        corners, facecolors=shades, linewidths=0, alpha=0.65, antialiaseds=100 * cell < 1
    )
    ax.add_collection(bands, autolim=False)
    size = min(6.0, max(1.5, 72 * cell * 0.75))
    line: dict[str, Any] = {"linestyle": "none", "markersize": size}
    ax.plot(*_places(irqs, column, single=False), "o", color=EFFECTIVE, **line)
    edge = 0.3 if size > 3 else 0
    diamond: dict[str, Any] = {"color": HOT, "markeredgecolor": "k", "markeredgewidth": edge}
    ax.plot(*_places(irqs, column, single=True), "D", **diamond, **line)
    _draw_edges(ax, topology, cpus)
    _name_rows(ax, irqs, names)
    ax.set(xlabel="CPU", xlim=(-0.5, len(cpus) - 0.5), ylim=(rows, 0))
    # Three digits at 8 points need a third of an inch, with some air.
    step = max(1, -(-len(cpus) // int(max(wide * 2.6, 4))))
    below = range(0, len(cpus), step)
    ax.set_xticks(list(below), [str(cpus[at]) for at in below], fontsize=8)
    which = device or (names[0] if len(names) == 1 else f"{len(names)} devices")
    begin = f"{when}, " if when else ""
    title = plain(f"{begin}{run.revision.name}, {which}: masks of {len(irqs)} queues")
    ax.set_title(title, fontsize=10, loc="left", y=1.01, parse_math=False)
    legend = ax.legend(
        [Patch(facecolor=DEVICES[0], alpha=0.65), *ax.lines[:2]],
        ["mask", "effective CPU", "the only CPU of its mask"],
        loc="lower right",
        bbox_to_anchor=(1, 1.045),  # above the title
        ncols=3,
        **_ABOVE,
    )
    for handle in legend.get_lines():
        handle.set(markersize=5)  # those of the picture may be dots
    return ax


def _places(
    irqs: Sequence[Interrupt], column: dict[int, int], single: bool
) -> tuple[list[int], list[float]]:
    found = [
        (column[irq.effective], row + 0.5)
        for row, irq in enumerate(irqs)
        if irq.effective is not None and (len(irq.affinity) == 1) == single
    ]
    return [x for x, _ in found], [y for _, y in found]


def _draw_edges(ax: Axes, topology: Topology, cpus: Sequence[int]) -> None:
    """Draw node borders, and those of clusters if they are far enough apart to be seen."""
    whole = ax.get_xaxis_transform()
    clusters = [at for at, _ in _starts([topology.cluster_id(cpu) for cpu in cpus])]
    nodes = _starts([topology.node_of(cpu) for cpu in cpus])
    kinds = [([at for at, _ in nodes[1:]], "0.25", 1.0, "-")]
    if len(clusters) <= 64:
        kinds.append((clusters[1:], "0.6", 0.5, ":"))
    for places, colour, width, style in kinds:
        lines = [[(at - 0.5, 0), (at - 0.5, 1)] for at in places]
        edges = LineCollection(lines, colors=colour, linewidths=width, linestyles=style)
        edges.set(transform=whole, zorder=0.5)
        ax.add_artist(edges)
    if len(nodes) > 16:
        return
    ends = [at for at, _ in nodes[1:]] + [len(cpus)]
    for (at, node), end in zip(nodes, ends, strict=True):
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8}
        middle = (at + end - 1) / 2
        label = ax.text(middle, 0.985, f"node {node}", transform=whole, bbox=behind)
        label.set(ha="center", va="top", fontsize=8, zorder=0.6)


def _name_rows(ax: Axes, irqs: Sequence[Interrupt], names: Sequence[str]) -> None:
    """Name the devices beside their rows and part them; the queues, if there is one device."""
    rows = max(len(irqs), 1)
    if len(names) <= 1:
        every = max(1, -(-rows // 16))
        numbered = range(0, len(irqs), every)
        labels = [str(irqs[at].queue) for at in numbered]
        ax.set_yticks([at + 0.5 for at in numbered], labels, fontsize=8)
        ax.set_ylabel("queue")
        return
    starts = [at for at, _ in _starts([irq.device for irq in irqs])]
    for at in starts[1:]:
        ax.axhline(at, color="0.25", linewidth=0.8, zorder=0.5)
    middles = [(at + end) / 2 for at, end in zip(starts, [*starts[1:], rows], strict=True)]
    every = max(1, -(-len(starts) // 16))
    ax.set_yticks(middles[::every], [irqs[at].device for at in starts[::every]], fontsize=8)


def _bands(columns: Iterable[int]) -> list[tuple[int, int]]:
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


@drawing
def sharing(
    run: Run,
    ax: Axes | None = None,
    *,
    cpus: Sequence[int] | None = None,
    top: int | None = None,
    when: str = "",
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
    when : str
        What the title begins with, such as "before".

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
    ax = axes_of(ax, 11, 3.2)
    greatest = max(run.counts.values(), default=0)
    if cpus is None:
        hottest = [cpu for cpu, count in run.counts.items() if count == greatest and count]
        cpus = hottest[:MAX_SHARED]
        first = f"the first {MAX_SHARED} of " if len(hottest) > MAX_SHARED else "the "
        title = f"{first}{counted(len(hottest), 'CPU')} with {counted(greatest, 'IRQ')}, by device"
    else:
        title = f"{counted(len(cpus), 'CPU')}, by device"
    _stack(ax, run, cpus)
    ax.axhline(run.best, color=BOUND, linestyle="--", linewidth=1.2)
    beside = ax.get_yaxis_transform()
    ax.text(1.0, run.best, f" best {run.best}", transform=beside, va="center", fontsize=8)
    figure = ax.get_figure(root=True)
    assert figure is not None
    below = ScaledTranslation(0, -9 / 72, figure.dpi_scale_trans)
    every = max(1, -(-len(cpus) // 32))
    numbers = [(at, 0, str(cpus[at]), "black", 8.0) for at in range(0, len(cpus), every)]
    write_numbers(ax, numbers, transform=ax.get_xaxis_transform() + below)
    ax.set(xticks=[], ylabel="IRQs", xlim=(-0.7, max(len(cpus), 8) - 0.3))
    ax.set_xlabel("CPU", labelpad=17)
    ax.set_ylim(0, max(top or 0, greatest, run.best, 1) * 1.12)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    begin = f"{when}, " if when else ""
    ax.set_title(
        plain(f"{begin}{run.revision.name}: {title}"), fontsize=10, y=1.01, parse_math=False
    )
    sns.despine(ax=ax)
    return ax


def _stack(ax: Axes, run: Run, cpus: Sequence[int]) -> None:
    """Draw a layer for each device that has interrupts on these CPUs; many share the last one."""
    by_cpu: dict[int, dict[str, int]] = {cpu: {} for cpu in cpus}
    for irq in run.interrupts:
        if irq.effective in by_cpu:
            counts = by_cpu[irq.effective]
            counts[irq.device] = counts.get(irq.device, 0) + 1
    devices = [device.name for device in run.machine.devices]
    devices = [name for name in devices if any(name in counts for counts in by_cpu.values())]
    own = devices if len(devices) <= MAX_SERIES else devices[: MAX_SERIES - 1]
    layers = {name: [name] for name in own}
    if rest := devices[len(own) :]:
        layers[f"{len(rest)} more"] = rest
    places = np.arange(len(cpus))
    edges = np.stack([places - 0.43, places + 0.43], 1).ravel()
    bottom = np.zeros(len(cpus))
    drawn = []
    for at, (label, names) in enumerate(layers.items()):
        heights = np.array([sum(by_cpu[cpu].get(name, 0) for name in names) for cpu in cpus])
        # One outline a layer, gaps included: a hatch a bar would take a second.
        drawn.append(
            ax.stairs(
                np.stack([bottom + heights, bottom], 1).ravel()[:-1],
                edges,
                baseline=np.repeat(bottom, 2)[:-1],
                fill=True,
                facecolor=DEVICES[at % len(DEVICES)],
                hatch=HATCHES[at % len(HATCHES)],
                edgecolor="white",
                linewidth=0.6,
                label=label,
                gid=label,
            )
        )
        bottom += heights
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.05, 1)}
    ax.legend(handles=drawn, frameon=False, fontsize=8, handleheight=1, **place)


@drawing
def compare_masks(before: Run, after: Run) -> Figure:
    """Draw the affinity matrices of two runs of one machine, side by side."""
    figure = Figure(figsize=PAIR)
    axes = figure.subplots(1, 2)
    figure.subplots_adjust(0.055, 0.085, 0.99, 0.9, wspace=0.14)
    for ax, run, when in zip(axes, (before, after), ("before", "after"), strict=True):
        affinity_matrix(run, ax, when=when)
    return figure


@drawing
def compare_sharing(before: Run, after: Run) -> Figure:
    """Draw who shares the most loaded CPUs in two runs of one machine, one above the other."""
    figure = Figure(figsize=PAIR)
    axes = figure.subplots(2, 1)
    figure.subplots_adjust(0.045, 0.085, 0.86, 0.945, hspace=0.32)
    top = max(0, *before.counts.values(), *after.counts.values())
    for ax, run, when in zip(axes, (before, after), ("before", "after"), strict=True):
        sharing(run, ax, top=top, when=when)
    axes[0].set_xlabel("")
    return figure
