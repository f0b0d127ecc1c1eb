# SPDX-License-Identifier: GPL-2.0-only
"""What sources leave out that decides about masks, and what is usual where they do."""

from collections.abc import Iterator

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import TopologyError
from groupcpus.sources import Loaded

__all__ = ["missing_topology", "stray_cpus", "with_usual_siblings"]


def missing_topology(loaded: Loaded, expected: str | None, topology: Topology) -> str:
    r"""Return what must be known before masks that no revision gives are a contradiction.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> loaded = load("NUMA node0 CPU(s): 0-3\n")
    >>> missing_topology(loaded, "numa", loaded.topology)
    'the siblings are not known, and decide about masks: add lscpu -e or -p'
    """
    if loaded.machine is not None:
        return ""
    if loaded.doubts:
        return loaded.doubts[0]
    if strays := stray_cpus(loaded, topology):
        return f"masks name CPUs {strays}, which the topology lacks: it is not whole"
    parts = [f"the {part}" for part in ("siblings", "nodes") if part not in loaded.origins]
    matter = expected in ("cluster", None)
    if loaded.cluster_source == "unknown" and matter and not parts:
        return (
            "the clusters are not known, and from Linux 7.0 on they decide about masks: add "
            "topology/cluster_cpus_list of each CPU"
        )
    if not parts:
        return ""
    return f"{' and '.join(parts)} are not known, and decide about masks: add lscpu -e or -p"


def stray_cpus(loaded: Loaded, topology: Topology) -> CpuSet:
    """Return the CPUs of masks that the topology does not have."""
    named = CpuSet()
    for shown in loaded.interrupts:
        if shown.affinity is not None and not shown.affinity <= topology.possible:
            named |= shown.affinity - topology.possible
    return named


def with_usual_siblings(loaded: Loaded) -> Iterator[tuple[str, Topology]]:
    """Give the machine with siblings as firmware mostly numbers them, if they are not known."""
    topology = loaded.topology
    if topology is None or "siblings" in loaded.origins or loaded.machine is not None:
        return
    cpus = list(topology.possible)
    half, odd = divmod(len(cpus), 2)
    if odd or not half:
        return
    usual = {
        f"{cpus[0]},{cpus[half]} and so on": zip(cpus[:half], cpus[half:], strict=True),
        f"{cpus[0]},{cpus[1]} and so on": zip(cpus[::2], cpus[1::2], strict=True),
    }
    for words, pairs in usual.items():
        cores = [CpuSet(pair) for pair in pairs]
        # As on most x86 machines: each core is a cluster.
        clusters = cores if loaded.cluster_source == "unknown" else topology.clusters
        try:
            made = Topology(
                topology.possible,
                topology.present,
                topology.online,
                topology.nodes,
                clusters,
                cores,
            )
        except TopologyError:
            continue
        if all(len({topology.node_of(cpu) for cpu in core}) == 1 for core in cores):
            yield words, made
