# SPDX-License-Identifier: GPL-2.0-only
"""How good it can get: the least possible greatest number of interrupts on any CPU."""

from collections import Counter
from collections.abc import Iterable

from groupcpus.cpuset import CpuSet, cpus_of
from groupcpus.topology import Topology

__all__ = ["best_maximum", "crowding", "least_maximum"]


def least_maximum(cpus: int, irqs: int, partitions: int, irqchip: str) -> int:
    """Give the greatest number of interrupts a CPU that no grouping can go below.

    Parameters
    ----------
    cpus : int
        Online CPUs.
    irqs : int
        Interrupts that these CPUs handle.
    partitions : int
        Calls of `group_cpus_evenly` whose groups became masks of managed interrupts.
    irqchip : str
        A name in `IRQCHIPS`.

    Returns
    -------
    int
        ``ceil(irqs / cpus)`` if the irqchip picks among the CPUs of a mask.  One that takes the
        first CPU puts at least one interrupt of each call on the lowest online CPU: whichever
        group that CPU is in, it is the first one there.

    Examples
    --------
    Six disks with 14 queues each on 96 CPUs:

    >>> least_maximum(96, 6 * 14, 6, "x86"), least_maximum(96, 6 * 14, 6, "gicv3")
    (1, 6)
    """
    even = -(-irqs // cpus) if cpus else 0
    return max(even, partitions) if irqchip in ("gicv3", "its-first") and irqs else even


def crowding(masks: Counter[int], sets: Iterable[int]) -> int:
    """Find the most crowded of some CPU sets: interrupts that cannot leave it, a CPU.

    Parameters
    ----------
    masks : Counter of int
        How many interrupts have each mask (as integers).
    sets : iterable of int
        The CPU sets to look at.

    Returns
    -------
    int
        The greatest ``ceil(interrupts within the set / CPUs in the set)``; no irqchip can keep
        every CPU below that.
    """
    worst = 0
    for cpus in sets:
        inside = sum(count for mask, count in masks.items() if not mask & ~cpus)
        worst = max(worst, -(-inside // cpus.bit_count()))
    return worst


def best_maximum(topology: Topology, masks: Iterable[CpuSet], reached: int | None = None) -> int:
    """Give the least possible greatest number of interrupts a CPU, if the irqchip chose perfectly.

    Parameters
    ----------
    topology : Topology
        The machine; only online CPUs count.
    masks : iterable of CpuSet
        The masks of all interrupts of all devices.  One without an online CPU counts for nothing.
    reached : int, optional
        A maximum that is known to be possible, which shortens the search.

    Returns
    -------
    int
        The bound; 0 without interrupts.

    Notes
    -----
    The most crowded mask gives a lower bound.  Whether a maximum is possible is a flow: from every
    mask to its CPUs, with the maximum as each CPU's capacity.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=4)
    >>> best_maximum(machine, [CpuSet("0-1")] * 3 + [CpuSet("0-3")])
    2
    """
    online = topology.online.mask
    counts = Counter(mask.mask & online for mask in masks)
    del counts[0]
    total = sum(counts.values())
    if not total:
        return 0
    least = crowding(counts, {*counts, online})
    if reached == least:
        return least
    most = total if reached is None else reached
    while least < most:
        middle = (least + most) // 2
        if _possible(counts, middle):
            most = middle
        else:
            least = middle + 1
    return least


def _possible(masks: Counter[int], maximum: int) -> bool:
    """Tell whether every interrupt finds a CPU when each CPU takes at most `maximum`."""
    import networkx as nx

    graph = nx.DiGraph()
    for mask, count in masks.items():
        graph.add_edge("interrupts", ("mask", mask), capacity=count)
        for cpu in cpus_of(mask):
            graph.add_edge(("mask", mask), cpu)
            graph.add_edge(cpu, "all placed", capacity=maximum)
    return nx.maximum_flow_value(graph, "interrupts", "all placed") == sum(masks.values())
