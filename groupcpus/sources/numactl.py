# SPDX-License-Identifier: GPL-2.0-only
"""The output of ``numactl -H`` (``numactl --hardware``)."""

import re

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import FormatError
from groupcpus.sources.facts import MAX_DISTANCES, Facts, lines, read_cpu, read_distances, read_node

__all__ = ["looks_like_numactl", "read_numactl"]

_AVAILABLE = re.compile(r"available: [0-9]+ nodes? \(", re.ASCII)
_CPUS = re.compile(r"node ([0-9]{1,5}) cpus:([ 0-9]*)", re.ASCII)
_ROW = re.compile(r" *([0-9]{1,5}): +([ 0-9]+)", re.ASCII)


def looks_like_numactl(text: str) -> bool:
    """Tell whether a text is of this form."""
    return any(_AVAILABLE.match(line) for _, line in lines(text[:4096]))


def read_numactl(text: str, where: str) -> Facts:
    """Read nodes and distances.

    Raises
    ------
    FormatError
        If a line is not what it should be.

    Examples
    --------
    >>> text = '''available: 2 nodes (0-1)
    ... node 0 cpus: 0 1
    ... node 1 cpus:
    ... node distances:
    ... node   0   1
    ...   0:  10  21
    ...   1:  21  10
    ... '''
    >>> facts = read_numactl(text, "numactl")
    >>> facts.nodes, facts.distances[0]
    ({0: CpuSet('0-1'), 1: CpuSet('')}, {0: 10, 1: 21})
    """
    facts = Facts(where, nodes={})
    assert facts.nodes is not None
    columns: list[int] | None = None
    for number, line in lines(text):
        at = f"{where}: line {number}"
        if found := _CPUS.fullmatch(line.rstrip()):
            node = read_node(at, found[1])
            if node in facts.nodes:
                raise FormatError(at, f"the CPUs of node {node} are listed twice")
            facts.nodes[node] = CpuSet(
                read_cpu(at, cpu) for cpu in found[2].split(maxsplit=MAX_CPUS)
            )
        elif line.startswith("node ") and " cpus:" in line:
            raise FormatError(at, "expected a node's number and CPU numbers after 'cpus:'")
        elif line.startswith("node ") and not line.endswith(("MB", ":")) and columns is None:
            columns = [read_node(at, node) for node in line.split(maxsplit=MAX_DISTANCES + 1)[1:]]
        elif columns is not None and (found := _ROW.fullmatch(line.rstrip())):
            row = read_distances(at, found[2].split(maxsplit=MAX_DISTANCES))
            if len(row) != len(columns):
                raise FormatError(at, f"{len(row)} distances for {len(columns)} nodes")
            facts.distances[read_node(at, found[1])] = dict(zip(columns, row, strict=True))
    if not any(facts.nodes.values()):
        raise FormatError(where, "expected lines such as 'node 0 cpus: 0 1 2 3'")
    return facts
