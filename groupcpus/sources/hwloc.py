# SPDX-License-Identifier: GPL-2.0-only
"""hwloc's XML (``lstopo machine.xml``), of versions 1, 2 and 3.

Entities and document types with declarations of their own are refused; the external document
type that lstopo names is not fetched.
"""

import re
from xml.parsers import expat

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.topology import MAX_NODES
from groupcpus.errors import FormatError, brief
from groupcpus.sources.facts import MAX_DISTANCES, MAX_NAME, Facts, read_node, read_number

__all__ = ["read_hwloc"]

MAX_DEPTH = 64
MAX_OBJECTS = 150_000
MAX_BITMAP = 8192

_BITMAP = re.compile(r"(?:0x)?[0-9a-fA-F]{0,8}(?:,(?:0x)?[0-9a-fA-F]{0,8}){0,1023}", re.ASCII)


def read_bitmap(where: str, text: str) -> CpuSet:
    """Read hwloc's bitmap: words of 32 bits, an empty one being 0.

    Examples
    --------
    >>> read_bitmap("cpuset", "0x0000000f,,0x1")
    CpuSet('0,64-67')
    """
    if len(text) > MAX_BITMAP or not _BITMAP.fullmatch(text):
        raise FormatError(where, f"{brief(text)} is no bitmap such as 0x0000ffff,0xffffffff")
    mask = int("".join([word.zfill(8) for word in text.replace("0x", "").split(",")]), 16)
    if mask.bit_length() > MAX_CPUS:
        raise FormatError(where, f"{brief(text)} names CPUs above the highest, {MAX_CPUS - 1}")
    return CpuSet.from_mask(mask)


def _cpus(where: str, attributes: dict[str, str], name: str) -> CpuSet:
    """Read an object's CPUs; those that are online if it tells no others."""
    name = name if name in attributes else "cpuset"
    return read_bitmap(f"{where}: {name}", attributes.get(name, ""))


class _Reader:
    """Handlers for the parser, and what they have found."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.facts = Facts(where, online=CpuSet())
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._entity
        self.parser.buffer_text = True
        self.depth = 0
        self.objects = 0
        self.pus = CpuSet()
        self.machine: CpuSet | None = None
        self.nodes: dict[int, CpuSet] = {}
        self.cores: list[CpuSet] = []
        self.l2: list[CpuSet] = []
        self.clusters: list[CpuSet] = []
        self.text: list[str] | None = None
        self.indexes: list[int] = []
        self.distances: list[int] | None = None

    def _at(self, name: str) -> str:
        return f"{self.where}: line {self.parser.CurrentLineNumber}: {name[:MAX_NAME]}"

    def _doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        if internal:
            raise FormatError(self._at("DOCTYPE"), "declarations inside the document are refused")

    def _entity(self, name: str, *_: object) -> None:
        raise FormatError(self._at(f"entity {brief(name)}"), "entities are refused")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.objects += 1
        if self.depth > MAX_DEPTH or self.objects > MAX_OBJECTS:
            raise FormatError(
                self._at(name), f"more than {MAX_OBJECTS} elements, or {MAX_DEPTH} in each other"
            )
        if self.depth == 1 and name != "topology":
            raise FormatError(self._at(name), "expected <topology>, as lstopo writes it")
        if name == "object":
            self._object(attributes)
        elif name == "info" and attributes.get("name") == "Architecture":
            self.facts.arch = attributes.get("value", "")[:32] or None
        elif name == "distances2":
            latency = attributes.get("name", "NUMALatency") == "NUMALatency"
            wanted = latency and attributes.get("type") == "NUMANode"
            known = wanted and attributes.get("indexing") == "os" and not self.distances
            self.indexes, self.distances = ([], []) if known else (self.indexes, self.distances)
        elif name in ("indexes", "u64values"):
            self.text = []

    def _characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def _end(self, name: str) -> None:
        self.depth -= 1
        if self.text is None or name not in ("indexes", "u64values"):
            return
        numbers = "".join(self.text).split(maxsplit=MAX_DISTANCES**2)
        self.text = None
        if self.distances is None or len(numbers) + len(self.distances) > MAX_DISTANCES**2:
            return
        at = self._at(name)
        if name == "indexes":
            self.indexes += [read_node(at, number) for number in numbers]
        else:
            self.distances += [read_number(at, number, 255) for number in numbers]

    def _object(self, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "")
        at = self._at(f"object {kind}")
        if kind in ("Machine", "System"):
            self.machine = _cpus(at, attributes, "complete_cpuset")
        elif kind in ("NUMANode", "Node"):
            node = read_node(f"{at}: os_index", attributes.get("os_index", ""))
            if node in self.nodes:
                raise FormatError(at, f"there are two nodes {node}")
            if len(self.nodes) >= MAX_NODES:
                raise FormatError(at, f"more than {MAX_NODES} nodes")
            self.nodes[node] = _cpus(at, attributes, "complete_cpuset")
        elif kind == "PU":
            number = read_number(f"{at}: os_index", attributes.get("os_index", ""), MAX_CPUS - 1)
            if number in self.pus:
                raise FormatError(at, f"there are two PUs {number}")
            self.pus |= CpuSet([number])
        elif kind == "Core":
            self._add(at, self.cores, attributes)
        elif kind == "L2Cache" or (kind == "Cache" and attributes.get("depth") == "2"):
            self._add(at, self.l2, attributes)
        elif kind == "Group" and attributes.get("subtype") == "Cluster":
            self._add(at, self.clusters, attributes)

    def _add(self, where: str, sets: list[CpuSet], attributes: dict[str, str]) -> None:
        if len(sets) >= MAX_CPUS:
            raise FormatError(where, f"more than {MAX_CPUS} of them")
        if cpus := _cpus(where, attributes, "cpuset"):
            sets.append(cpus)


def read_hwloc(text: str, where: str) -> Facts:
    """Read hwloc's XML.

    Raises
    ------
    FormatError
        If it is no XML, has entities, or is not what lstopo writes.
    """
    reader = _Reader(where)
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise FormatError(f"{where}: line {error.lineno}", f"no XML: {error}") from None
    except RecursionError:  # pragma: no cover
        raise FormatError(where, "elements lie too deep in each other") from None
    if not reader.pus:
        raise FormatError(where, "expected objects of type PU (the CPUs), found none")
    facts = reader.facts
    facts.online = reader.pus
    facts.present = (reader.machine or CpuSet()) | reader.pus
    facts.siblings = reader.cores or None
    facts.l2 = reader.l2 or None
    facts.clusters = reader.clusters or None
    facts.nodes = _with_cpus(reader.nodes, facts) or None
    indexes, distances = reader.indexes, reader.distances or []
    if indexes and len(distances) == len(indexes) ** 2:
        for row, node in enumerate(indexes):
            numbers = distances[row * len(indexes) : (row + 1) * len(indexes)]
            facts.distances[node] = dict(zip(indexes, numbers, strict=True))
    return facts


def _with_cpus(nodes: dict[int, CpuSet], facts: Facts) -> dict[int, CpuSet]:
    """Tell the nodes that have CPUs from those that are only near them.

    hwloc gives a node of memory alone (HBM, CXL, a GPU's) the CPUs it is local to; in the kernel
    such a node has none.  Of nodes with the same CPUs the one with the lowest id is taken to have
    them, and one that spans others is taken to have none.
    """
    result: dict[int, CpuSet] = {}
    taken = CpuSet()
    without = []
    for node in sorted(nodes, key=lambda node: (len(nodes[node]), node)):
        cpus = nodes[node]
        if cpus <= taken:
            result[node] = CpuSet()
            if cpus:
                without.append(node)
        elif both := cpus & taken:
            raise FormatError(
                f"{facts.source}: node {node}",
                f"its CPUs {brief(str(both))} are in another node as well",
            )
        else:
            result[node] = cpus
            taken |= cpus
    if without:
        facts.notes.append(
            f"{facts.source}: nodes {CpuSet(without)} lie at CPUs that other nodes have; "
            "they are taken as memory without CPUs"
        )
    return dict(sorted(result.items()))
