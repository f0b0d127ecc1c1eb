# SPDX-License-Identifier: GPL-2.0-only
"""Other spreading functions: MANA's ``irq_setup()`` and ``cpumask_local_spread()``.

Both walk outward from a NUMA node.  A *hop* is the CPUs of all nodes at one distance; without a
distance matrix, the node itself is the first hop and all other nodes are the second.
"""

from groupcpus.engine.cpuset import CpuSet, cpus_of
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief

__all__ = ["cpumask_local_spread", "irq_setup", "numa_hops"]

_VERSIONS = ("posted", "merged")
_MAX_IRQS = 65536


def numa_hops(topology: Topology, node: int) -> list[CpuSet]:
    """Return the online CPUs that each hop away from a node adds, nearest first.

    The kernel's hop masks grow (``sched_numa_hop_mask()``, kernel/sched/topology.c, Linux 6.12);
    these are the differences between one and the next.

    Raises
    ------
    RequestError
        If there is no such machine or node.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=3, cpus_per_node=2)
    >>> numa_hops(machine, 1)
    [CpuSet('2-3'), CpuSet('0-1,4-5')]
    """
    if not isinstance(topology, Topology):
        raise RequestError(f"topology {brief(topology)}: expected a Topology")
    if isinstance(node, bool) or not isinstance(node, int) or node not in topology.nodes:
        known = ", ".join(map(str, topology.nodes))
        raise RequestError(f"node {brief(node)}: expected one of {known[:200]}")
    hops: dict[int, CpuSet] = {}
    for other, cpus in topology.nodes.items():
        if topology.distances is not None:
            distance = topology.distances[node][other]
        else:
            distance = int(other != node)
        hops[distance] = hops.get(distance, CpuSet()) | cpus & topology.online
    return [hops[distance] for distance in sorted(hops) if hops[distance]]


def irq_setup(
    topology: Topology, nirqs: int, node: int, *, version: str = "merged"
) -> tuple[CpuSet, ...]:
    """Spread MANA's interrupts over cores, the nearest NUMA hop first.

    Parameters
    ----------
    topology : Topology
        The machine; only online CPUs are used.
    nirqs : int
        How many interrupts, 1 to 65536.
    node : int
        The NUMA node of the device.
    version : {"merged", "posted"}
        A pass over a hop gives one interrupt to each of its cores.  *posted* counts passes, and
        makes as many as the hop has CPUs; *merged* counts interrupts, and stops a hop when it has
        as many as CPUs.

    Returns
    -------
    tuple of CpuSet
        The affinity of each interrupt: all threads of a core.  Shorter than `nirqs` when the hops
        end first; the driver leaves the rest as they are.

    Raises
    ------
    RequestError
        If an argument is out of range.

    Notes
    -----
    Source: ``irq_setup()`` in drivers/net/ethernet/microsoft/mana/gdma_main.c: as posted in
    December 2023, and as in Linux 6.9 (commit 91bfe210e196).

    Examples
    --------
    >>> machine = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)
    >>> [str(mask) for mask in irq_setup(machine, 8, 0)]
    ['0-1', '2-3', '0-1', '2-3', '4-5', '6-7', '4-5', '6-7']
    >>> [str(mask) for mask in irq_setup(machine, 8, 0, version="posted")]
    ['0-1', '2-3', '0-1', '2-3', '0-1', '2-3', '0-1', '2-3']
    """
    if version not in _VERSIONS:
        raise RequestError(f"version {brief(version)}: expected {' or '.join(_VERSIONS)}")
    if isinstance(nirqs, bool) or not isinstance(nirqs, int) or not 1 <= nirqs <= _MAX_IRQS:
        raise RequestError(f"nirqs {brief(nirqs)}: expected 1 to {_MAX_IRQS}")
    affinities: list[CpuSet] = []
    for hop in numa_hops(topology, node):
        weight = len(hop)
        cores = _cores(topology, hop)
        while weight > 0:
            for core in cores:
                if len(affinities) == nirqs:
                    return tuple(affinities)
                affinities.append(core)
                weight -= version == "merged"
            weight -= version == "posted"
    return tuple(affinities)


def cpumask_local_spread(topology: Topology, i: int, node: int) -> int:
    """Pick the i-th online CPU, counted outward from a node and without regard to cores.

    Source: ``cpumask_local_spread()`` in lib/cpumask.c, Linux 6.12.

    Raises
    ------
    RequestError
        If `i` is negative, there is no such node, or no CPU is online.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)
    >>> [cpumask_local_spread(machine, i, 1) for i in range(9)]
    [4, 5, 6, 7, 0, 1, 2, 3, 4]
    """
    if isinstance(i, bool) or not isinstance(i, int) or i < 0:
        raise RequestError(f"i {brief(i)}: expected 0 or more")
    order = [cpu for hop in numa_hops(topology, node) for cpu in hop]
    if not order:
        raise RequestError("cpumask_local_spread: no CPU is online")
    return order[i % len(order)]


def _cores(topology: Topology, hop: CpuSet) -> list[CpuSet]:
    """List the online threads of a hop's cores, in the order of their lowest CPUs."""
    left = hop.mask
    cores = []
    for cpu in cpus_of(left):
        if left >> cpu & 1:
            core = topology.siblings_of(cpu).mask & topology.online.mask
            cores.append(CpuSet.from_mask(core))
            left &= ~core
    return cores
