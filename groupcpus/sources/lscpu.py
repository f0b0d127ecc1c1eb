# SPDX-License-Identifier: GPL-2.0-only
"""The output of lscpu: ``-p``, ``-e``, ``--json`` (with or without ``-e``), and its summary.

All tables become rows of {column: text}; then one reader takes them.  Column names are never
translated (util-linux, sys-utils/lscpu.c), "yes" and "no" are, and so is the summary.
"""

import json
import re
from typing import Any

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources.facts import (
    Facts,
    grouped,
    lines,
    read_cpu,
    read_cpulist,
    read_node,
)

__all__ = [
    "looks_like_summary",
    "looks_like_table",
    "looks_like_values",
    "read_json",
    "read_summary",
    "read_table",
    "read_values",
]

MAX_COLUMNS = 64

# util-linux' translations of "yes" and "no" (po/), and the letters of `lscpu -p`.
_YES = {"y", "yes", "true", "oui", "ja", "si", "sí", "sim", "da", "да", "так", "tak", "ano", "áno"}
_YES |= {"kyllä", "igen", "evet", "bai", "jah", "taip", "jā", "是", "はい", "예"}
_NO = {"n", "no", "false", "non", "nein", "nej", "nee", "não", "nu", "нет", "ні", "nie", "ne"}
_NO |= {"ei", "nem", "hayır", "ez", "nē", "否", "いいえ", "아니요"}
_NOTHING = {"", "-"}
_PLACE = ("drawer", "book", "socket")

Row = tuple[str, dict[str, str]]


def looks_like_values(text: str) -> bool:
    """Tell whether a text is of ``lscpu -p``."""
    return any(_values_header(line) for _, line in lines(text[:8192]))


def _values_header(line: str) -> list[str] | None:
    if not line.startswith("#"):
        return None
    names = [name.strip().lower() for name in line[1:].split(",", MAX_COLUMNS)]
    return names if "cpu" in names and len(names) <= MAX_COLUMNS else None


def read_values(text: str, where: str) -> Facts:
    r"""Read ``lscpu -p`` (comma-separated, with the columns named in a comment).

    Raises
    ------
    FormatError
        If a line is not what it should be.

    Examples
    --------
    >>> text = "# CPU,Core,Socket,Node,,L1d,L1i,L2\n0,0,0,8,,0,0,0\n1,0,0,8,,0,0,0"
    >>> facts = read_values(text, "lscpu -p")
    >>> facts.nodes, facts.siblings, facts.l2
    ({8: CpuSet('0-1')}, [CpuSet('0-1')], [CpuSet('0-1')])
    """
    rows: list[Row] = []
    names: list[str] | None = None
    for number, line in lines(text):
        at = f"{where}: line {number}"
        if header := _values_header(line):
            if names is not None and header != names:
                raise FormatError(at, "there are two headers, of different columns")
            names = header
        elif line.startswith("#") or not line.strip():
            continue
        elif names is None:
            raise FormatError(at, "expected a header such as '# CPU,Core,Socket,Node' before it")
        else:
            cells = line.split(",", len(names) + 1)
            if len(cells) > len(names):
                raise FormatError(at, f"{len(cells)} values for {len(names)} columns")
            # The empty name stands between the topology and the caches.
            row = {name: cell.strip() for name, cell in zip(names, cells, strict=False) if name}
            rows.append((at, row))
            _bound(at, rows)
    return _facts(rows, where)


def looks_like_table(text: str) -> bool:
    """Tell whether a text is of ``lscpu -e``."""
    first = next((line for _, line in lines(text[:8192]) if line.strip()), "")
    names = first.split()
    return (
        bool(names)
        and names[0] == "CPU"
        and all(name == name.upper() or ":" in name for name in names)
    )


def read_table(text: str, where: str) -> Facts:
    """Read ``lscpu -e`` (a table aligned with blanks, left or right).

    Raises
    ------
    FormatError
        If a line is not what it should be.
    """
    rows: list[Row] = []
    names: list[str] = []
    for number, line in lines(text):
        at = f"{where}: line {number}"
        if not line.strip():
            continue
        if not names:
            names = [name.lower() for name in line.split(maxsplit=MAX_COLUMNS)]
            if len(names) > MAX_COLUMNS or len(set(names)) != len(names) or "cpu" not in names:
                raise FormatError(at, "expected a header such as 'CPU NODE SOCKET CORE ONLINE'")
            continue
        rows.append((at, dict(zip(names, _cells(at, line, names), strict=False))))
        _bound(at, rows)
    return _facts(rows, where)


def _cells(where: str, line: str, names: list[str]) -> list[str]:
    cells = line.split(maxsplit=4 * MAX_COLUMNS)
    more = len(cells) - len(names)
    if more > 0 and "modelname" in names:
        # The one column whose values have blanks in them.
        at = names.index("modelname")
        cells[at : at + more + 1] = [" ".join(cells[at : at + more + 1])]
    if len(cells) > len(names):
        raise FormatError(where, f"{len(cells)} values for {len(names)} columns")
    return cells


def read_json(document: dict[str, Any], where: str) -> Facts:
    """Read the object that ``lscpu --json`` or ``lscpu -e --json`` prints.

    Raises
    ------
    FormatError
        If a field is not what it should be.
    """
    if "cpus" in document:
        return _read_json_table(document["cpus"], where)
    if not isinstance(document.get("lscpu"), list):
        raise FormatError(f"{where}: lscpu", "expected a list of fields")
    pairs: list[tuple[str, str, str]] = []
    # Newer versions nest the fields of a topic under it.
    waiting = [(f"{where}: lscpu", entry) for entry in reversed(document["lscpu"])]
    while waiting:
        at, entry = waiting.pop()
        if not isinstance(entry, dict) or not isinstance(entry.get("field"), str):
            raise FormatError(at, f"{brief(entry)} is no object with a field and its data")
        data, children = entry.get("data"), entry.get("children") or []
        if not isinstance(children, list) or not isinstance(data, str | None):
            raise FormatError(f"{at}: {brief(entry['field'])}", "data is no text")
        pairs.append((f"{at}: {brief(entry['field'])}", entry["field"], data or ""))
        waiting += [(at, child) for child in reversed(children)]
    return _summary(pairs, where)


def _read_json_table(cpus: object, where: str) -> Facts:
    if not isinstance(cpus, list):
        raise FormatError(f"{where}: cpus", "expected a list of objects, one a CPU")
    rows: list[Row] = []
    for index, entry in enumerate(cpus):
        at = f"{where}: cpus[{index}]"
        if not isinstance(entry, dict) or len(entry) > MAX_COLUMNS:
            raise FormatError(at, f"{brief(entry)} is no object")
        row = {}
        for name, value in entry.items():
            if isinstance(value, list | dict):
                raise FormatError(f"{at}: {brief(name)}", f"{brief(value)} is no single value")
            row[name.lower()] = "" if value is None else json.dumps(value).strip('"')
        rows.append((at, row))
        _bound(at, rows)
    return _facts(rows, where)


def _bound(where: str, rows: list[Row]) -> None:
    if len(rows) > MAX_CPUS:
        raise FormatError(where, f"more than {MAX_CPUS} CPUs")


def _facts(rows: list[Row], where: str) -> Facts:
    """Take what rows of {column: text} say."""
    if not rows:
        raise FormatError(where, "no CPU is listed")
    facts = Facts(where)
    table: dict[int, dict[str, str]] = {}
    for at, row in rows:
        cpu = read_cpu(f"{at}, column CPU", row.get("cpu", ""))
        if cpu in table:
            raise FormatError(at, f"CPU {cpu} is listed twice")
        table[cpu] = row
    _read_online(rows, facts)
    if facts.online != CpuSet(table):
        # Without offline ones in it, the list is of online CPUs: there may be more.
        facts.present = CpuSet(table)
    _read_nodes(rows, facts)
    if any("core" in row for row in table.values()):
        facts.siblings = grouped({cpu: _core(row) for cpu, row in table.items()})
        facts.untold = CpuSet(cpu for cpu, row in table.items() if _core(row) is None)
    _read_l2(table, facts)
    return facts


def _core(row: dict[str, str]) -> object:
    core = row.get("core", "")
    return None if core in _NOTHING else (*(row.get(name, "") for name in _PLACE), core)


def _read_online(rows: list[Row], facts: Facts) -> None:
    words = {row["online"].lower() for _, row in rows if row.get("online", "-") != "-"}
    unknown = words - _YES - _NO
    if not words:
        facts.online = CpuSet(int(row["cpu"]) for _, row in rows)
        return
    # `lscpu -e` lists online CPUs alone unless it is asked for more.
    if unknown and (len(words) > 1 or any(_core(row) is None for _, row in rows if "core" in row)):
        at = next(at for at, row in rows if row.get("online", "").lower() in unknown)
        raise FormatError(f"{at}, column ONLINE", f"{brief(min(unknown))} is neither yes nor no")
    if unknown:
        facts.notes.append(f"{facts.source}: {brief(min(unknown))} is taken as yes")
    up = _YES | unknown
    facts.online = CpuSet(int(row["cpu"]) for _, row in rows if row.get("online", "").lower() in up)


def _read_nodes(rows: list[Row], facts: Facts) -> None:
    nodes: dict[int, list[int]] = {}
    for at, row in rows:
        if row.get("node", "") not in _NOTHING:
            node = read_node(f"{at}, column NODE", row["node"])
            nodes.setdefault(node, []).append(int(row["cpu"]))
    if nodes:
        facts.nodes = {node: CpuSet(cpus) for node, cpus in sorted(nodes.items())}


def _read_l2(table: dict[int, dict[str, str]], facts: Facts) -> None:
    """Find the CPUs that share an L2 in a column L2, or in one such as L1d:L1i:L2:L3."""
    names = next((name for name in next(iter(table.values())) if "l2" in name.split(":")), None)
    if names is None:
        return
    caches = names.split(":")
    keys: dict[int, object] = {}
    full = set()
    short = {}
    for cpu, row in table.items():
        values = row.get(names, "").split(":")
        if len(values) == len(caches):
            keys[cpu] = values[caches.index("l2")] or None
            full.add(tuple(values[caches.index("l2") :]))
        elif values != ["-"]:
            short[cpu] = values
    # lscpu leaves out a cache that a CPU does not tell of, and so shifts the others.  What is
    # left is the L2 and so on if another CPU has the same.
    after = len(caches) - caches.index("l2")
    for cpu, values in short.items():
        keys[cpu] = values[-after] if tuple(values[-after:]) in full else None
    if short:
        facts.notes.append(
            f"{facts.source}: CPUs {CpuSet(short)} lack a cache's number; "
            "theirs are read from the right"
        )
    l2 = grouped(keys)
    if l2:
        facts.l2 = l2


_ARCHITECTURES = re.compile(
    r"x86_64|i[3-6]86|aarch64|armv[5-8]\w{0,4}|ppc(?:64)?(?:le)?|s390x?|riscv(?:32|64)|loongarch64"
    r"|mips\w{0,4}|sparc\w{0,4}",
    re.ASCII,
)
_NODE_KEY = re.compile(r"\D*?NUMA\D*?([0-9]{1,5})\D*|\D*?([0-9]{1,5})\D*?NUMA\D*", re.ASCII)


def looks_like_summary(text: str) -> bool:
    """Tell whether a text is of plain lscpu, in any language."""
    for _, line in lines(text[:65536]):
        key, colon, value = line.partition(":")
        if (
            colon
            and len(key) < 80
            and ("NUMA" in key or _ARCHITECTURES.fullmatch(value.strip()[:20]))
        ):
            return True
    return False


def read_summary(text: str, where: str) -> Facts:
    r"""Read plain lscpu, or lines of it: the nodes, the CPUs and the architecture.

    Raises
    ------
    FormatError
        If a node's line has no cpulist, or no line says anything of use.

    Examples
    --------
    >>> text = "Architecture : x86_64\nNœud NUMA 0 de processeur(s) : 0-3\nNUMA node2 CPU(s): 4"
    >>> facts = read_summary(text, "lscpu")
    >>> facts.arch, facts.nodes
    ('x86_64', {0: CpuSet('0-3'), 2: CpuSet('4')})
    """
    pairs = []
    for number, line in lines(text):
        key, colon, value = line.partition(":")
        if colon and len(key) < 80:
            pairs.append((f"{where}: line {number}", key.strip(), value.strip()))
    return _summary(pairs, where)


def _summary(pairs: list[tuple[str, str, str]], where: str) -> Facts:
    facts = Facts(where)
    nodes: dict[int, CpuSet] = {}
    for at, key, value in pairs:
        key = key.rstrip(": \u00a0")
        if found := _NODE_KEY.fullmatch(key[:80]):
            node = read_node(at, found[1] or found[2])
            if node in nodes:
                raise FormatError(at, f"the CPUs of node {node} are listed twice")
            nodes[node] = read_cpulist(at, "" if value == "-" else value)
        elif _ARCHITECTURES.fullmatch(value[:20]) and facts.arch is None:
            facts.arch = value
        elif key == "On-line CPU(s) list":
            facts.online = read_cpulist(at, value)
        elif key == "Off-line CPU(s) list":
            facts.present = read_cpulist(at, value) | (facts.online or CpuSet())
    if nodes:
        facts.nodes = nodes
    if facts.arch is None and not facts.tells_cpus():
        raise FormatError(where, "expected lines such as 'NUMA node0 CPU(s):  0-3'")
    return facts
