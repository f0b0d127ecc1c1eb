# SPDX-License-Identifier: GPL-2.0-only
"""The machines that a patch is tried on: those of the project, and shapes that are sold.

The shapes are made from public descriptions of CPU numbers, caches and nodes; six disks with two
thirds as many queues as CPUs each, up to 128, make groups of one CPU and of two.
"""

from collections.abc import Iterator

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, machine_names, read_machine

__all__ = ["zoo"]


def zoo() -> Iterator[Machine]:
    """Yield the machines.

    Examples
    --------
    >>> machines = list(zoo())
    >>> len(machines) > 15, max(len(machine.topology.possible) for machine in machines)
    (True, 384)
    """
    for name in machine_names():
        yield read_machine(name)
    for name, title, topology in _shapes():
        arm = name.startswith(("kunpeng", "ampere"))
        queues = max(2, min(128, len(topology.present) * 2 // 3))
        devices = tuple(Device(f"nvme{i}", "nvme", io_queues=queues) for i in range(6))
        yield Machine(
            name,
            title,
            "arm64" if arm else "x86_64",
            "its" if arm else "x86",
            topology,
            devices,
            "a shape of review's zoo",
        )


def _blocks(size: int, step: int) -> list[CpuSet]:
    return [CpuSet(range(begin, min(begin + step, size))) for begin in range(0, size, step)]


def _made(
    nodes: list[CpuSet], siblings: list[CpuSet], clusters: list[CpuSet], llcs: list[CpuSet]
) -> Topology:
    every = CpuSet(cpu for node in nodes for cpu in node)
    return Topology(every, every, every, dict(enumerate(nodes)), clusters, siblings, llcs=llcs)


def _split_threads(cores: int, nodes: int, ccx: int) -> Topology:
    """Make a machine whose second threads are numbered after all first ones, as on x86 servers."""
    siblings = [CpuSet([core, core + cores]) for core in range(cores)]

    def parts(step: int) -> list[CpuSet]:
        return [
            CpuSet([*range(begin, begin + step), *range(cores + begin, cores + begin + step)])
            for begin in range(0, cores, step)
        ]

    return _made(parts(cores // nodes), siblings, siblings, parts(ccx))


def _hybrid() -> Topology:
    """Make eight cores of two threads, then sixteen of one thread in clusters of four."""
    fast = [CpuSet([cpu, cpu + 1]) for cpu in range(0, 16, 2)]
    slow = [CpuSet(range(cpu, cpu + 4)) for cpu in range(16, 32, 4)]
    return _made([CpuSet(range(32))], fast, fast + slow, [CpuSet(range(32))])


def _plugged(possible: int, present: int, threads: int, nodes: int = 1) -> Topology:
    whole = Topology.uniform(nodes, possible // nodes, threads=threads, cluster=threads)
    doc = whole.to_dict()
    return Topology.from_dict(doc | {"present": f"0-{present - 1}", "online": f"0-{present - 1}"})


def _shapes() -> Iterator[tuple[str, str, Topology]]:
    yield "epyc_nps1", "EPYC, 2 x 96 cores, one node a socket", _split_threads(192, 2, 8)
    yield "epyc_nps4", "EPYC, 2 x 64 cores, four nodes a socket", _split_threads(128, 8, 8)
    yield "xeon_2s", "Xeon, 2 x 40 cores", _split_threads(80, 2, 40)
    yield "xeon_snc3", "Xeon, 2 x 48 cores, three nodes a socket", _split_threads(96, 6, 16)
    yield "hybrid", "8 cores of two threads and 16 of one in clusters of 4", _hybrid()
    kunpeng = Topology.uniform(4, 32, threads=1, cluster=4).to_dict()
    kunpeng["llcs"] = kunpeng["nodes"].values()
    yield (
        "kunpeng",
        "Kunpeng, 4 nodes x 32, clusters of 4",
        Topology.from_dict(kunpeng | {"llcs": list(kunpeng["llcs"])}),
    )
    yield "ampere", "one node x 80, each CPU its own cluster", Topology.uniform(1, 80, 1, None)
    yield "power", "POWER, 2 nodes x 10 cores x 8 threads", Topology.uniform(2, 80, 8, 4)
    yield "s390", "24 CPUs of 64 that may come, SMT 2, no nodes", _plugged(64, 24, 2)
    yield "vm_plugged", "VM, 12 of 16 CPUs present, 2 nodes", _plugged(16, 12, 2, 2)
    doc = {"possible": "0-15", "present": "0-15", "nodes": {"0": "0-1", "1": "2-5", "2": "6-15"}}
    yield "vm_uneven", "VM, nodes of 2, 4 and 10 CPUs", Topology.from_dict(doc)
    doc = {"possible": "0-7", "present": "0-7", "nodes": {"0": "0-7"}}
    yield (
        "vm_1_and_7",
        "clusters of 1 and 7 CPUs",
        Topology.from_dict(doc | {"clusters": ["0", "1-7"]}),
    )
    doc = {"possible": "0-31", "present": "0-31", "nodes": {"0": "", "2": "0-15", "5": "16-31"}}
    yield "vm_bare_node", "VM, a node without CPUs, ids with gaps", Topology.from_dict(doc)
    yield "vm_unknown", "VM, no cluster known", Topology.uniform(2, 16, threads=2, cluster=0)
    yield "vm_many_nodes", "VM, 16 nodes x 2", Topology.uniform(16, 2, threads=1)
