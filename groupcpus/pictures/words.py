# SPDX-License-Identifier: GPL-2.0-only
"""The words of these notebooks, one picture each."""

from collections.abc import Callable
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.pictures.maps import topology_map

# With three the numbers below the circles could not be read.
_COLUMNS = 2


def glossary() -> Figure:
    """Draw the words that the notebooks use, one picture and one sentence each.

    Returns
    -------
    Figure

    Examples
    --------
    >>> [ax.get_title(loc="left") for ax in glossary().axes][:4]
    ['CPU', 'core, siblings', 'cluster', 'node']
    """
    rows = -(-len(_TERMS) // _COLUMNS)
    figure = Figure(figsize=(11, 1.75 * rows))
    axes = figure.subplots(
        rows,
        _COLUMNS,
        gridspec_kw={
            "left": 0.01,
            "right": 0.99,
            "top": 1 - 0.2 / rows,
            "bottom": 0.32 / rows,
            "hspace": 0.55,
            "wspace": 0.06,
        },
    )
    for ax, (term, (meaning, draw)) in zip(axes.flat, _TERMS.items(), strict=False):
        draw(ax)
        ax.set_title(term, loc="left", fontsize=10, fontweight="bold")
        ax.text(0, -0.03, fill(meaning, 88), transform=ax.transAxes, va="top", fontsize=8)
    for ax in list(axes.flat)[len(_TERMS) :]:
        ax.set_axis_off()
    return figure


def _machine(disks: int = 1) -> Machine:
    """Give two nodes of 6 CPUs, threads in pairs, a cluster of 4 and one of 2; and disks."""
    topology = Topology.uniform(nodes=2, cpus_per_node=6, threads=2, cluster=4)
    devices = tuple(Device(f"nvme{at}", "nvme", io_queues=8) for at in range(disks))
    return Machine("glossary", "", "x86_64", "x86", topology, devices)


def _focus(cpus: str) -> Callable[[Axes], Axes]:
    return lambda ax: topology_map(_machine().topology, ax, focus=CpuSet(cpus))


def _absent(cpus: str) -> Callable[[Axes], Axes]:
    topology = _machine().topology
    rest = str(topology.possible - CpuSet(cpus))
    without = Topology.from_dict(topology.to_dict() | {"present": rest, "online": rest})
    return lambda ax: topology_map(without, ax)


def _groups(numgrps: int, revision: str, spread_offset: int = 0) -> Callable[[Axes], Axes]:
    def draw(ax: Axes) -> Axes:
        topology = _machine().topology
        grouping = group_cpus_evenly(
            topology, numgrps, revision=revision, spread_offset=spread_offset
        )
        return topology_map(topology, ax, groups=grouping.masks)

    return draw


def _run(disks: int, revision: str, irqchip: str) -> Callable[[Axes], Axes]:
    def draw(ax: Axes) -> Axes:
        return topology_map(simulate(_machine(disks), revision=revision, irqchip=irqchip), ax)

    return draw


_TERMS: dict[str, tuple[str, Callable[[Axes], Axes]]] = {
    "CPU": (
        "What the operating system calls one: a core, or a thread of a core. Numbers are its own.",
        _focus("5"),
    ),
    "core, siblings": (
        "Threads that share one core; a bar joins them. A group takes them together.",
        _focus("4-5"),
    ),
    "cluster": (
        "CPUs that share a cache below the node's, as the kernel's topology tells.",
        _focus("0-3"),
    ),
    "node": (
        "CPUs with memory of their own (NUMA). With enough groups, no group crosses nodes.",
        _focus("6-11"),
    ),
    "possible, not present": (
        "A CPU that could be plugged in later (dashed: 10-11). It is dealt too, after all others.",
        _absent("10-11"),
    ),
    "group, mask": (
        "The CPUs of one queue. Here 5 groups; the number in a circle is the group's.",
        _groups(5, "cluster"),
    ),
    "effective CPU": (
        "The CPU of its mask that the irqchip picked for an interrupt: the circles with a 1.",
        _run(1, "cluster", "gicv3"),
    ),
    "hot CPU": (
        "A CPU that is the only one in some mask: that interrupt can't go elsewhere (ring).",
        _run(1, "cluster", "x86"),
    ),
    "stacking": (
        "Interrupts of many devices on the same CPUs: six disks with the same masks.",
        _run(6, "cluster", "x86"),
    ),
    "spread offset 0": (
        "What the kernel's call counter said when a call began. Here 8 groups at offset 0,",
        _groups(8, "rotate-v2"),
    ),
    "spread offset 1": (
        "and the same call at offset 1: as many CPUs and groups, other singles.",
        _groups(8, "rotate-v2", 1),
    ),
    "rotation": (
        "Every call takes another offset, so six disks share the burden.",
        _run(6, "rotate-v2", "x86"),
    ),
}
