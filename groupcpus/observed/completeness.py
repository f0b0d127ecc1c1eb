# SPDX-License-Identifier: GPL-2.0-only
"""What sources leave out that decides about masks, and what is usual where they do."""

from collections.abc import Iterator

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import TopologyError
from groupcpus.sources import Loaded

__all__ = ["missing_topology", "with_usual_siblings"]


def missing_topology(loaded: Loaded, expected: str | None) -> str:
    r"""Return what must be known before masks that no revision gives are a contradiction.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> missing_topology(load("NUMA node0 CPU(s): 0-3\n"), "numa")
    'which CPUs are siblings is not known, and decides about masks: add lscpu -e or -p'
    """
    if loaded.machine is not None:
        return ""
    if loaded.doubts:
        return loaded.doubts[0]
    if "siblings" not in loaded.origins:
        return "which CPUs are siblings is not known, and decides about masks: add lscpu -e or -p"
    if loaded.cluster_source == "unknown" and expected in ("cluster", None):
        return (
            "the clusters are not known, and from Linux 7.0 on they decide about masks: add "
            "topology/cluster_cpus_list of each CPU"
        )
    return ""


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
