# SPDX-License-Identifier: GPL-2.0-only
"""hwloc's synthetic machines in a line, such as ``node:2 core:24 pu:2``."""

import re

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.topology import MAX_NODES, Topology
from groupcpus.errors import FormatError, brief

__all__ = ["parse_synthetic"]

_MAX_TEXT = 1024
_LEVEL = re.compile(r"([A-Za-z][A-Za-z0-9]*):([0-9]{1,5})", re.ASCII)
# What decides the grouping, from the outside in; everything else only multiplies.
_RANKS = {"node": 0, "cluster": 1, "core": 2, "pu": 3}
_NAMES = {
    "node": "node",
    "numa": "node",
    "numanode": "node",
    "cluster": "cluster",
    # CPUs that share an L2 are a cluster to the kernel on x86.
    "l2": "cluster",
    "l2cache": "cluster",
    "core": "core",
    "pu": "pu",
}
# These only multiply what is in them.
_NAMES |= dict.fromkeys(("machine", "group", "pack", "package", "socket", "die", "l1", "l3"), "")
_NAMES |= dict.fromkeys(("l1cache", "l1d", "l1i", "l3cache", "l4", "l4cache", "l5cache"), "")


def parse_synthetic(text: str, *, strided: bool = False) -> Topology:
    """Make a machine of equal parts from hwloc's synthetic description.

    Parameters
    ----------
    text : str
        Levels ``type:count`` from the outside in, the last one ``pu``: ``node`` (or ``numa``),
        ``cluster`` (or ``l2``: what the kernel takes for a cluster on x86), ``core``, ``pu``.
        Packages, dies, groups and other caches are accepted and only multiply.
    strided : bool
        Number the first threads of all cores before the second ones, as firmware of x86 servers
        does, instead of the threads of each core one after the other.

    Returns
    -------
    Topology
        Without a ``cluster`` level each core is a cluster, as for private L2 caches.

    Raises
    ------
    FormatError
        If it is no such line, or the machine too big.

    Notes
    -----
    hwloc's own numbering options in parentheses are not read.

    Examples
    --------
    >>> parse_synthetic("node:2 core:24 pu:2")
    <Topology: 96 CPUs, 2 nodes, 48 clusters, 48 cores>
    >>> parse_synthetic("pack:1 numa:1 cluster:5 core:8 pu:1").clusters[1]
    CpuSet('8-15')
    >>> parse_synthetic("node:2 core:4 pu:2", strided=True).siblings[0]
    CpuSet('0,8')
    """
    counts = _counts(text)
    total = counts["pu"]
    nodes = counts.get("node", 1)
    cores = counts.get("core", total)
    clusters = counts.get("cluster", cores)
    threads = total // cores
    # OS numbers of the CPUs in the order of the description, core by core.
    order = [core + thread * cores for core in range(cores) for thread in range(threads)]
    if not strided:
        order = list(range(total))

    def parts(count: int) -> list[CpuSet]:
        size = total // count
        return [CpuSet(order[at : at + size]) for at in range(0, total, size)]

    every = CpuSet(range(total))
    return Topology(
        every, every, every, dict(enumerate(parts(nodes))), parts(clusters), parts(cores)
    )


def _counts(text: str) -> dict[str, int]:
    """Return how many of each level there are in the whole machine."""
    where = "synthetic machine"
    if len(text) > _MAX_TEXT:
        raise FormatError(where, f"{len(text)} characters, at most {_MAX_TEXT} are read")
    total = 1
    rank = -1
    last = ""
    counts: dict[str, int] = {}
    for word in text.split():
        found = _LEVEL.fullmatch(word)
        level = _NAMES.get(found[1].lower()) if found else None
        if found is None or level is None:
            raise FormatError(
                where, f"{brief(word)}; expected levels such as 'node:2 cluster:4 core:8 pu:2'"
            )
        count = int(found[2])
        if not 1 <= count <= MAX_CPUS or total * count > MAX_CPUS:
            raise FormatError(where, f"{brief(word)}; expected 1 to {MAX_CPUS} CPUs in all")
        total *= count
        last = level
        if level:
            if _RANKS[level] <= rank:
                raise FormatError(where, f"{brief(word)}; expected node, cluster, core, pu inwards")
            rank = _RANKS[level]
            counts[level] = total
    if last != "pu":
        raise FormatError(where, f"{brief(text)} does not end with the CPUs, such as pu:2")
    if (nodes := counts.get("node", 1)) > MAX_NODES:
        raise FormatError(where, f"{nodes} nodes; expected 1 to {MAX_NODES}")
    return counts
