# SPDX-License-Identifier: GPL-2.0-only
"""Plain lscpu, in any language, and its ``--json``: nodes, CPUs, architecture, threads per core.

It does not say which CPUs are siblings, only how many threads a core has.
"""

import re
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources.facts import Facts, few, read_cpulist, read_node

__all__ = ["ARCHITECTURES", "SummaryReader", "read_json_summary"]

ARCHITECTURES = re.compile(
    r"x86_64|i[3-6]86|aarch64|armv[5-8]\w{0,4}|ppc(?:64)?(?:le)?|s390x?|riscv(?:32|64)|loongarch64"
    r"|mips\w{0,4}|sparc\w{0,4}",
    re.ASCII,
)
_NODE_KEY = re.compile(r"\D*?NUMA\D*?([0-9]{1,5})\D*|\D*?([0-9]{1,5})\D*?NUMA\D*", re.ASCII)
_RANGES = re.compile(
    r"(?=[^-]*-)[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*", re.ASCII
)
_PART_OF_LIST = re.compile(r"\s*[0-9,-]+\s*", re.ASCII)
_NUMBER = re.compile("[0-9]{1,5}", re.ASCII)
_STARTS = {"cpu(s)", "on-line cpu(s) list", "thread(s) per core"}
# util-linux' translations (po/) of "Thread(s) per core".
_THREADS = {
    *("thread(s) per core", "thread per core", "thread(s) pro kern", "thread(s) par cœur"),
    *("hilo(s) de procesamiento por núcleo", "thread(s) per núcleo", "thread(s) por núcleo"),
    *(
        "每个核的线程数",
        "每核线程数",
        "每核心執行緒數",
        "コアあたりのスレッド数",
        "코어당 스레드 수",
    ),
    *(
        "wątków na rdzeń",
        "потоков на ядро",
        "потоків на ядро",
        "vláken na jádro",
        "tråd(ar) per kärna",
    ),
}
MAX_KEY = 80


def _pair(line: str) -> tuple[str, str] | None:
    """Split a line at its colon, which is a wide one in Chinese."""
    key, colon, value = line[: MAX_KEY + 65536].replace("：", ":", 1).partition(":")
    return (key.strip(), value.strip()) if colon and len(key) < MAX_KEY else None


class SummaryReader:
    r"""Takes lines of plain lscpu.

    Examples
    --------
    >>> reader = SummaryReader("lscpu")
    >>> text = "Architecture : x86_64\nNœud NUMA 0 de processeur(s) : 0-1,\n3\nNUMA 节点2 CPU：2"
    >>> all(reader.offer(number, line) for number, line in enumerate(text.split("\n")))
    True
    >>> reader.facts().arch, reader.facts().nodes
    ('x86_64', {0: CpuSet('0-1,3'), 2: CpuSet('2')})
    """

    kind = "lscpu"

    def __init__(self, where: str) -> None:
        self.where = where
        self.fields: list[tuple[str, str, str]] = []

    @staticmethod
    def starts(line: str) -> bool:
        """Return whether a line is surely one of lscpu's."""
        pair = _pair(line)
        return pair is not None and bool(
            ("NUMA" in pair[0] and len(pair[0]) < 40)
            or ARCHITECTURES.fullmatch(pair[1][:20])
            or pair[0].lower() in _STARTS
        )

    def offer(self, number: int, line: str) -> bool:
        """Take a line, if it may be one of lscpu's."""
        if pair := _pair(line):
            self.fields.append((f"{self.where}: line {number}", *pair))
            return True
        if not self.fields:
            return False
        at, key, value = self.fields[-1]
        if _PART_OF_LIST.fullmatch(line):
            piece = line.strip()
            if value.endswith((",", "-")) or piece.startswith((",", "-")):
                self.fields[-1] = (at, key, value + piece)
                return True
            return False
        # What is left of a long list of flags.
        return line.startswith(" " * 8)

    def facts(self) -> Facts:
        """Return what the fields say.

        Raises
        ------
        FormatError
            If a node's line has no cpulist, or the fields contradict each other.
        """
        return _facts(self.fields, self.where)


def read_json_summary(entries: object, where: str) -> Facts:
    """Read the list that ``lscpu --json`` prints under ``lscpu``.

    Raises
    ------
    FormatError
        If a field is not what it should be.
    """
    if not isinstance(entries, list):
        raise FormatError(f"{where}: lscpu", "expected a list of fields")
    pairs: list[tuple[str, str, str]] = []
    # Newer versions nest the fields of a topic under it.
    waiting: list[tuple[str, Any]] = [(f"{where}: lscpu", entry) for entry in reversed(entries)]
    while waiting:
        at, entry = waiting.pop()
        if not isinstance(entry, dict) or not isinstance(entry.get("field"), str):
            raise FormatError(at, f"{brief(entry)} is no object with a field and its data")
        data, children = entry.get("data"), entry.get("children") or []
        if not isinstance(children, list) or not isinstance(data, str | None):
            raise FormatError(f"{at}: {brief(entry['field'])}", "data is no text")
        field = f"{at}: {brief(entry['field'])}"
        pairs.append((field, entry["field"].replace("：", ":").rstrip(": \xa0"), data or ""))
        waiting += [(at, child) for child in reversed(children)]
    return _facts(pairs, where)


def _facts(fields: list[tuple[str, str, str]], where: str) -> Facts:
    facts = Facts(where)
    nodes: dict[int, CpuSet] = {}
    count = None
    for at, key, value in fields:
        name = key.lower()
        if found := _NODE_KEY.fullmatch(key[:MAX_KEY]):
            node = read_node(at, found[1] or found[2])
            if node in nodes:
                raise FormatError(at, f"the CPUs of node {node} are listed twice")
            nodes[node] = read_cpulist(at, "" if value == "-" else value)
        elif "NUMA" in key and _NUMBER.fullmatch(value):
            count = int(value)
        elif name in _THREADS and _NUMBER.fullmatch(value):
            facts.threads = int(value)
        elif ARCHITECTURES.fullmatch(value[:20]) and facts.arch is None:
            facts.arch = value
        else:
            _take_cpus(facts, at, name, value, may_be_online=not nodes)
    if nodes:
        _check_nodes(where, nodes, count, facts.online)
        facts.nodes = nodes
    if facts.arch is None and not facts.tells_cpus():
        raise FormatError(where, "expected lines such as 'NUMA node0 CPU(s):  0-3'")
    if facts.threads == 1 and (cpus := facts.online or facts.listed()):
        facts.siblings = [CpuSet([cpu]) for cpu in cpus]
    return facts


def _take_cpus(facts: Facts, at: str, name: str, value: str, *, may_be_online: bool) -> None:
    """Take the list of online or offline CPUs; of other languages the first one, of the online."""
    if name == "on-line cpu(s) list" or (
        may_be_online and facts.online is None and _RANGES.fullmatch(value)
    ):
        facts.online = read_cpulist(at, value)
    elif name == "off-line cpu(s) list":
        facts.present = read_cpulist(at, value) | (facts.online or CpuSet())


def _check_nodes(
    where: str, nodes: dict[int, CpuSet], count: int | None, online: CpuSet | None
) -> None:
    """Refuse a list of nodes that lost some of its lines, or ends of them."""
    if count is not None and count != len(nodes):
        raise FormatError(where, f"{count} NUMA nodes, of which {len(nodes)} are listed")
    listed = CpuSet()
    for cpus in nodes.values():
        listed |= cpus
    if online is not None and (lost := online - listed):
        raise FormatError(
            where, f"CPUs {few(lost)} are online and in no NUMA node: is a line cut off?"
        )
