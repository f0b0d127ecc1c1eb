# SPDX-License-Identifier: GPL-2.0-only
"""The tables of lscpu: ``-p``, ``-e``, and ``--json`` with ``-e``.

All become rows of {column: text}; then one reader takes them.  Column names are never translated
(util-linux, sys-utils/lscpu.c), "yes" and "no" are.
"""

import json
import re
from collections.abc import Sequence

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.facts import Facts, few, grouped, read_cpu, read_node

__all__ = ["TableReader", "ValuesReader", "read_json_table"]


# util-linux' translations of "yes" and "no" (po/), and the letters of `lscpu -p`.
_YES = {"y", "yes", "true", "oui", "ja", "si", "sí", "sim", "da", "да", "так", "tak", "ano", "áno"}
_YES |= {"kyllä", "igen", "evet", "bai", "jah", "taip", "jā", "是", "はい", "예"}
_NO = {"n", "no", "false", "non", "nein", "nej", "nee", "não", "nu", "нет", "ні", "nie", "ne"}
_NO |= {"ei", "nem", "hayır", "ez", "nē", "否", "いいえ", "아니요"}
_NOTHING = {"", "-"}
_PLACE = ("drawer", "book", "socket")

Row = tuple[str, dict[str, str]]


class ValuesReader:
    r"""Takes the lines of ``lscpu -p``: comma-separated, with the columns named in a comment.

    Examples
    --------
    >>> reader = ValuesReader("lscpu -p")
    >>> for line in enumerate(["# CPU,Core,Socket,Node,,L1d,L1i,L2", "0,0,0,8,,0,0,0", "1,0,0,8"]):
    ...     assert reader.offer(*line)
    >>> reader.facts().nodes, reader.facts().siblings
    ({8: CpuSet('0-1')}, [CpuSet('0-1')])
    """

    kind = "lscpu"

    def __init__(self, where: str) -> None:
        self.where = where
        self.names: list[str] = []
        self.rows: list[Row] = []

    @staticmethod
    def starts(line: str) -> bool:
        """Return whether a line names the columns."""
        return bool(_values_header(line))

    def offer(self, number: int, line: str) -> bool:
        """Take a line, if it is one of this table."""
        if header := _values_header(line):
            if self.names and header != self.names:
                return False
            self.names = header
            return True
        if not _VALUES_ROW.match(line):
            return False
        at = f"{self.where}: line {number}"
        cells = line.split(",", len(self.names) + 1)
        if len(cells) > len(self.names):
            raise FormatError(at, f"{len(cells)} values for {len(self.names)} columns")
        # The empty name stands between the topology and the caches.
        row = {name: cell.strip() for name, cell in zip(self.names, cells, strict=False) if name}
        self.rows.append((at, row))
        _bound(at, self.rows)
        return True

    def facts(self) -> Facts:
        """Return what the rows say.

        Raises
        ------
        FormatError
            If a value is not what it should be.
        """
        return _facts(self.rows, self.where)


_VALUES_ROW = re.compile(r"\s*[0-9]{1,9},|\s*[^\s,:]{1,20},[^\s:]{0,200}$", re.ASCII)


def _values_header(line: str) -> list[str] | None:
    if not line.startswith("#"):
        return None
    names = [name.strip().lower() for name in line[1:].split(",", limits.COLUMNS)]
    return names if "cpu" in names and len(names) <= limits.COLUMNS else None


class TableReader:
    """Takes the lines of ``lscpu -e``: a table aligned with blanks, whose lines may be broken."""

    kind = "lscpu"

    def __init__(self, where: str) -> None:
        self.where = where
        self.names: list[str] = []
        self.lines: list[tuple[int, list[str]]] = []

    @staticmethod
    def starts(line: str) -> bool:
        """Return whether a line is the table's header."""
        names = line.split(maxsplit=limits.COLUMNS + 1)
        return bool(names) and names[0] == "CPU" and _column_names(names)

    def offer(self, number: int, line: str) -> bool:
        """Take a line, if it is one of this table."""
        words = line.split(maxsplit=4 * limits.COLUMNS)
        if not words:
            return False
        if not self.lines and (not self.names or _column_names(words)):
            if self.names and words[0] == "CPU":
                return False
            self.names += [name.lower() for name in words]
            if len(self.names) > limits.COLUMNS or len(set(self.names)) != len(self.names):
                raise FormatError(
                    f"{self.where}: line {number}",
                    "expected a header such as 'CPU NODE SOCKET CORE ONLINE'",
                )
            return True
        width = len(self.names)
        last = self.lines[-1][1] if self.lines else None
        if last is not None and len(last) < width and len(last) + len(words) <= width:
            last += words
            return True
        if not _CPU_NUMBER.fullmatch(words[0]) or (len(words) < 2 < width):
            return False
        self.lines.append((number, words))
        _bound(f"{self.where}: line {number}", self.lines)
        return True

    def facts(self) -> Facts:
        """Return what the rows say.

        Raises
        ------
        FormatError
            If a line lacks values, has too many, or one is not what it should be.
        """
        for name in self.names:
            if not _COLUMN.fullmatch(name):
                raise FormatError(self.where, f"{brief(name.upper())} is no column: is it wrapped?")
        needed = [
            at for at, name in enumerate(self.names) if name in _NEEDED or "l2" in name.split(":")
        ]
        rows = []
        for number, words in self.lines:
            at = f"{self.where}: line {number}"
            cells = self._cells(at, words)
            if len(cells) <= max(needed):
                raise FormatError(
                    at,
                    f"{len(cells)} values for {len(self.names)} columns: "
                    "the line is cut off or wrapped",
                )
            rows.append((at, dict(zip(self.names, cells, strict=False))))
        return _facts(rows, self.where)

    def _cells(self, where: str, cells: list[str]) -> list[str]:
        more = len(cells) - len(self.names)
        if more > 0 and "modelname" in self.names:
            # The one column whose values have blanks in them.
            at = self.names.index("modelname")
            cells[at : at + more + 1] = [" ".join(cells[at : at + more + 1])]
        if len(cells) > len(self.names):
            raise FormatError(where, f"{len(cells)} values for {len(self.names)} columns")
        return cells


_NEEDED = {"cpu", "node", "core", "online", "drawer", "book", "socket"}
# Names are of letters; the combined one of caches may have been broken.
_COLUMN = re.compile(r"[a-z][a-z0-9%_-]*|l[0-9][a-z]?(?::l[0-9][a-z]?)+", re.ASCII)
_CPU_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


def _column_names(words: list[str]) -> bool:
    return all((word == word.upper() and word[:1].isalpha()) or ":" in word for word in words) and (
        any(word.isalpha() for word in words)
    )


def read_json_table(cpus: object, where: str) -> Facts:
    """Read the list that ``lscpu -e --json`` prints under ``cpus``.

    Raises
    ------
    FormatError
        If a field is not what it should be.
    """
    if not isinstance(cpus, list):
        raise FormatError(f"{where}: cpus", "expected a list of objects, one a CPU")
    rows: list[Row] = []
    for index, entry in enumerate(cpus):
        at = f"{where}: cpus[{index}]"
        if not isinstance(entry, dict) or len(entry) > limits.COLUMNS:
            raise FormatError(at, f"{brief(entry)} is no object")
        row = {}
        for name, value in entry.items():
            if isinstance(value, list | dict):
                raise FormatError(f"{at}: {brief(name)}", f"{brief(value)} is no single value")
            row[name.lower()] = "" if value is None else json.dumps(value).strip('"')
        rows.append((at, row))
        _bound(at, rows)
    return _facts(rows, where)


def _bound(where: str, rows: Sequence[object]) -> None:
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
    _read_last_level(table, facts)
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


def _read_last_level(table: dict[int, dict[str, str]], facts: Facts) -> None:
    """Find the CPUs that share a last-level cache: those with the same number in its column."""
    caches = {
        level: name
        for name in next(iter(table.values()))
        for level in name.split(":")
        if level in ("l2", "l3", "l4")
    }
    if caches:
        name = caches[max(caches)]
        last = {cpu: row.get(name, "").split(":")[-1] for cpu, row in table.items()}
        facts.llcs = grouped(
            {cpu: key if key not in _NOTHING else None for cpu, key in last.items()}
        )


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
            f"{facts.source}: CPUs {few(CpuSet(short))} lack a cache's number; "
            "theirs are read from the right"
        )
    l2 = grouped(keys)
    if l2:
        facts.l2 = l2
