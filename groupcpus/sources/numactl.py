# SPDX-License-Identifier: GPL-2.0-only
"""The output of ``numactl -H`` (``numactl --hardware``), whose lines may be broken."""

import re

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.facts import (
    Facts,
    read_cpu,
    read_cpulist,
    read_distances,
    read_node,
)

__all__ = ["NumactlReader"]

# What mail programs break is narrower than a terminal, and broken at blanks.
_TERMINAL = 80

_AVAILABLE = re.compile(r"available: [0-9]{1,5} nodes? \(([0-9,-]*)\)", re.ASCII)
_CPUS = re.compile(r"node ([0-9]{1,5}) cpus:([ 0-9]*)", re.ASCII)
_COLUMNS = re.compile(r"node((?: +[0-9]{1,5})+)", re.ASCII)
_ROW = re.compile(r" *([0-9]{1,5}): *([ 0-9]+)", re.ASCII)
_NUMBERS = re.compile(r"[ 0-9]+", re.ASCII)
_OTHER = re.compile(r"node [0-9]{1,5} (?:size|free): .*|node distances:", re.ASCII)


class NumactlReader:
    r"""Takes the lines of one output.

    Examples
    --------
    >>> text = '''available: 2 nodes (0-1)
    ... node 0 cpus: 0
    ... 1
    ... node 1 cpus:
    ... node distances:
    ... node   0   1
    ...   0:  10  21
    ...   1:  21  10'''
    >>> reader = NumactlReader("numactl")
    >>> all(reader.offer(number, line) for number, line in enumerate(text.split("\n")))
    True
    >>> reader.facts().nodes, reader.facts().distances[0]
    ({0: CpuSet('0-1'), 1: CpuSet('')}, {0: 10, 1: 21})
    """

    kind = "numactl"

    def __init__(self, where: str) -> None:
        self.where = where
        self.lines: list[tuple[int, list[str]]] = []
        self.joins = False

    @staticmethod
    def starts(line: str) -> bool:
        """Return whether a line is one that only numactl prints."""
        return bool(_AVAILABLE.match(line) or (line.startswith("node ") and " cpus:" in line[:20]))

    def offer(self, number: int, line: str) -> bool:
        """Take a line, if it is one of this output."""
        line = line.rstrip()
        if self.joins and _NUMBERS.fullmatch(line):
            self.lines[-1][1].append(line)
            return True
        self.joins = bool(line)
        if self.starts(line) or _ROW.fullmatch(line) or _COLUMNS.fullmatch(line):
            self.lines.append((number, [line]))
            return True
        self.joins = False
        return bool(_OTHER.fullmatch(line))

    def facts(self) -> Facts:
        """Return nodes and distances.

        Raises
        ------
        FormatError
            If a line is not what it should be, or a node has none.
        """
        facts = Facts(self.where, nodes={})
        assert facts.nodes is not None
        available = CpuSet()
        columns: list[int] = []
        for number, pieces in self.lines:
            at = f"{self.where}: line {number}"
            line = " ".join(pieces)
            if found := _AVAILABLE.match(line):
                available = read_cpulist(at, found[1])
            elif found := _CPUS.fullmatch(line):
                node = read_node(at, found[1])
                if node in facts.nodes:
                    raise FormatError(at, f"the CPUs of node {node} are listed twice")
                facts.nodes[node] = self._cpus(at, pieces)
            elif line.startswith("node ") and " cpus:" in line:
                raise FormatError(at, "expected a node's number and CPU numbers after 'cpus:'")
            elif found := _COLUMNS.fullmatch(line):
                columns = [
                    read_node(at, node) for node in found[1].split(maxsplit=limits.DISTANCES)
                ]
            elif found := _ROW.fullmatch(line):
                row = read_distances(at, found[2].split(maxsplit=limits.DISTANCES))
                if len(row) != len(columns):
                    raise FormatError(at, f"{len(row)} distances for {len(columns)} nodes")
                facts.distances[read_node(at, found[1])] = dict(zip(columns, row, strict=True))
        self._check(facts.nodes, available)
        return facts

    def _check(self, nodes: dict[int, CpuSet], available: CpuSet) -> None:
        if not any(nodes.values()):
            raise FormatError(self.where, "expected lines such as 'node 0 cpus: 0 1 2 3'")
        if lost := [node for node in available if node not in nodes]:
            raise FormatError(self.where, f"node {lost[0]} is available, its CPUs are not listed")

    def _cpus(self, where: str, pieces: list[str]) -> CpuSet:
        """Read the numbers, which numactl prints in order: so a number that was broken shows."""
        widths = {len(piece) for piece in pieces[:-1]}
        joints = ("", " ") if len(widths) == 1 and min(widths) >= _TERMINAL else (" ", "")
        for joint in joints:
            text = joint.join(pieces).partition("cpus:")[2]
            cpus = [read_cpu(where, cpu) for cpu in text.split(maxsplit=MAX_CPUS)]
            if cpus == sorted(set(cpus)):
                return CpuSet(cpus)
        raise FormatError(where, f"{brief(text.strip())}: expected CPU numbers that rise")
