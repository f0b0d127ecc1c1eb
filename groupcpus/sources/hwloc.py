# SPDX-License-Identifier: GPL-2.0-only
"""hwloc's XML (``lstopo machine.xml``), of versions 1, 2 and 3.

Entities and document types with declarations of their own are refused; the external document
type that lstopo names is not fetched.
"""

import re
from collections.abc import Mapping
from typing import Any

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.facts import Facts, few, read_node, read_number
from groupcpus.sources.summary import ARCHITECTURES

__all__ = ["read_hwloc"]

_BITMAP = re.compile(r"(?:0x)?[0-9a-fA-F]{0,8}(?:,(?:0x)?[0-9a-fA-F]{0,8}){0,1023}", re.ASCII)
_CACHE = re.compile(r"L([2-5])Cache", re.ASCII)


def read_bitmap(where: str, text: str) -> CpuSet:
    """Read hwloc's bitmap: words of 32 bits, an empty one being 0.

    Examples
    --------
    >>> read_bitmap("cpuset", "0x0000000f,,0x1")
    CpuSet('0,64-67')
    """
    if not _BITMAP.fullmatch(text):
        raise FormatError(where, f"{brief(text)} is no bitmap such as 0x0000ffff,0xffffffff")
    mask = int("".join([word.zfill(8) for word in text.replace("0x", "").split(",")]), 16)
    if mask.bit_length() > MAX_CPUS:
        raise FormatError(where, f"{brief(text)} names CPUs above the highest, {MAX_CPUS - 1}")
    return CpuSet.from_mask(mask)


def read_hwloc(text: str, where: str) -> Facts:
    """Read hwloc's XML.

    Raises
    ------
    FormatError
        If it is no XML, has entities, or is not what lstopo writes.
    """
    root = _parsed(text, where)
    if root.tag != "topology":
        raise FormatError(where, f"<{brief(root.tag)[1:-1]}>: expected <topology>, by lstopo")
    reader = _Reader(where)
    for element in root.iter():
        if element.tag == "object":
            reader.take_object(element.attrib)
        elif element.tag == "info":
            reader.take_info(element.attrib)
        elif element.tag == "distances2":
            reader.take_distances(element)
    return reader.facts()


def _parsed(text: str, where: str) -> Any:
    # Not at the top: the lab in the browser has no such package, and needs it for this alone.
    try:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring
    except ImportError:
        raise FormatError(where, "XML is read by the package defusedxml: install it") from None
    if len(text) > limits.DOCUMENT:
        raise FormatError(
            where, f"{len(text)} characters of XML: at most {limits.DOCUMENT} are read"
        )
    if re.search(r"<!DOCTYPE[^>\[]{0,200}\[", text[:4096]):
        raise FormatError(where, "declarations inside the document are refused")
    try:
        # The declaration names the encoding of the file, which is a text by now.
        return fromstring(re.sub(r"^\s*<\?xml[^>]{0,200}\?>", "", text, count=1))
    except ParseError as error:
        raise FormatError(f"{where}: line {error.position[0]}", f"no XML: {error}") from None
    except DefusedXmlException as error:
        raise FormatError(where, f"entities are refused: {brief(str(error))}") from None
    except ValueError as error:
        raise FormatError(where, f"no XML: {error}") from None


class _Reader:
    """What the objects have said so far."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.arch: str | None = None
        self.pus = CpuSet()
        self.complete = CpuSet()
        self.restricted = False
        self.nodes: dict[int, CpuSet] = {}
        self.cores: list[CpuSet] = []
        self.clusters: list[CpuSet] = []
        self.caches: dict[int, list[CpuSet]] = {}
        self.distances: dict[int, dict[int, int]] = {}

    def take_object(self, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("type", "")
        at = f"{self.where}: {kind[:20]} {brief(attributes.get('os_index', ''))[1:-1]}".rstrip()
        if kind in ("Machine", "System"):
            self.complete = _cpus(at, attributes, "complete_cpuset")
            nodes = attributes.get("complete_nodeset", "")
            self.restricted |= nodes != attributes.get("nodeset", nodes)
        elif kind in ("NUMANode", "Node"):
            node = read_node(f"{at}: os_index", attributes.get("os_index", ""))
            if node in self.nodes:
                raise FormatError(at, f"there are two nodes {node}")
            self.nodes[node] = _cpus(at, attributes, "complete_cpuset")
        elif kind == "PU":
            number = read_number(f"{at}: os_index", attributes.get("os_index", ""), MAX_CPUS - 1)
            if number in self.pus:
                raise FormatError(at, f"there are two PUs {number}")
            self.pus |= CpuSet([number])
        elif kind == "Core":
            self._add(at, self.cores, attributes)
        elif kind == "Group" and attributes.get("subtype") == "Cluster":
            self._add(at, self.clusters, attributes)
        elif level := self._level(kind, attributes):
            self._add(at, self.caches.setdefault(level, []), attributes)

    @staticmethod
    def _level(kind: str, attributes: Mapping[str, str]) -> int:
        if attributes.get("subtype") == "MemorySideCache":
            return 0
        if kind == "Cache" and attributes.get("depth", "") in ("2", "3", "4"):
            return int(attributes["depth"])
        found = _CACHE.fullmatch(kind)
        return int(found[1]) if found else 0

    def _add(self, where: str, sets: list[CpuSet], attributes: Mapping[str, str]) -> None:
        if len(sets) >= MAX_CPUS:
            raise FormatError(where, f"more than {MAX_CPUS} of them")
        if cpus := _cpus(where, attributes, "cpuset"):
            sets.append(cpus)

    def take_info(self, attributes: Mapping[str, str]) -> None:
        value = attributes.get("value", "")
        if attributes.get("name") == "Architecture" and ARCHITECTURES.fullmatch(value[:20]):
            self.arch = value
        # hwloc runs in a cpuset, and shows what it may use.
        self.restricted |= attributes.get("name") == "LinuxCgroup" and value != "/"

    def take_distances(self, element: Any) -> None:
        """Take the distances of nodes; others are of bandwidths, GPUs or CPUs."""
        attributes = element.attrib
        latency = attributes.get("name", "NUMALatency") == "NUMALatency"
        of_nodes = attributes.get("type") == "NUMANode" and attributes.get("indexing") == "os"
        if self.distances or not latency or not of_nodes:
            return
        at = f"{self.where}: distances2"
        words: dict[str, list[str]] = {"indexes": [], "u64values": []}
        for child in element:
            if child.tag in words:
                words[child.tag] += (child.text or "").split(maxsplit=limits.DISTANCES**2)
        if len(words["u64values"]) > limits.DISTANCES**2 or not words["indexes"]:
            return
        nodes = [read_node(at, word) for word in words["indexes"]]
        numbers = [read_number(at, word, 255) for word in words["u64values"]]
        if len(numbers) == len(nodes) ** 2:
            for row, node in enumerate(nodes):
                values = numbers[row * len(nodes) : (row + 1) * len(nodes)]
                self.distances[node] = dict(zip(nodes, values, strict=True))

    def facts(self) -> Facts:
        if not self.pus:
            raise FormatError(self.where, "expected objects of type PU (the CPUs), found none")
        facts = Facts(self.where, arch=self.arch)
        facts.present = self.complete | self.pus
        facts.online = self.pus
        if self.restricted and (hidden := facts.present - self.pus):
            facts.online = facts.present
            facts.doubts.append(
                f"{self.where}: lstopo ran where it may not use all CPUs, so the cores and nodes "
                f"of CPUs {few(hidden)} are not shown: run it outside of the cgroup"
            )
        facts.siblings = self.cores or None
        facts.l2 = self.caches.get(2)
        facts.llcs = self.caches[max(self.caches)] if self.caches else None
        facts.clusters = self.clusters or None
        facts.nodes = _with_cpus(self.nodes, facts) or None
        facts.distances = self.distances
        return facts


def _cpus(where: str, attributes: Mapping[str, str], name: str) -> CpuSet:
    """Read an object's CPUs; those that are online if it tells no others."""
    name = name if name in attributes else "cpuset"
    return read_bitmap(f"{where}: {name}", attributes.get(name, ""))


def _with_cpus(nodes: Mapping[int, CpuSet], facts: Facts) -> dict[int, CpuSet]:
    """Part the nodes that have CPUs from those that are only near them.

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
                f"its CPUs {few(both)} are in another node as well",
            )
        else:
            result[node] = cpus
            taken |= cpus
    if without:
        facts.notes.append(
            f"{facts.source}: nodes {few(CpuSet(without))} lie at CPUs that other nodes have; "
            "they are taken as memory without CPUs"
        )
    return dict(sorted(result.items()))
