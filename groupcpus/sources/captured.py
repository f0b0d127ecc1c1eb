# SPDX-License-Identifier: GPL-2.0-only
"""The JSON that capture.py writes, read back field by field: it may come from anywhere."""

import re
from collections.abc import Sequence
from typing import Any

import attrs

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.topology import MAX_NODES
from groupcpus.errors import FormatError, brief
from groupcpus.formats import anything, number, structured, table, text
from groupcpus.sources import limits
from groupcpus.sources.capture import FORMAT, VERSION
from groupcpus.sources.facts import (
    Facts,
    ShownInterrupt,
    read_cpu,
    read_cpulist,
    read_node,
)
from groupcpus.sources.irqfiles import read_queue_map

__all__ = ["read_capture"]


def _list() -> Any:
    return text("a cpulist", most=limits.FILE, form="[0-9,:/ -]*")


def _words(most: int = limits.NAME) -> Any:
    return text(f"a text of at most {most} printable ASCII characters", most=most, form=_PRINTABLE)


_PRINTABLE = "[ -~]*"


@attrs.frozen(kw_only=True)
class _Topology:
    possible: str | None = _list()
    present: str | None = _list()
    online: str | None = _list()
    isolated: str | None = _list()
    nohz_full: str | None = _list()
    nodes: dict[str, str] = table()
    possible_nodes: str | None = _list()
    online_nodes: str | None = _list()
    cpu_node: dict[str, int] = table()
    distances: dict[str, list[int]] = table()
    siblings: list[str] = anything()
    clusters: list[str] = anything()
    cluster_source: str = text(names=("cluster_cpus_list", "l2", "unknown"))
    no_cluster: str = _list()
    untold: str = _list()


@attrs.frozen(kw_only=True)
class _Interrupt:
    irq: int = number(0, limits.IRQ)
    chip: str = _words()
    hwirq: int | None = anything()
    actions: list[str] = anything()
    affinity: str | None = _list()
    effective: str | None = _list()
    node: int | None = number(-1, MAX_NODES - 1)
    managed: bool | None = anything()
    shutdown: bool | None = anything()


@attrs.frozen(kw_only=True)
class _Device:
    slot: str = _words()
    # "class" is no name that Python allows; see _renamed().
    class_: str | None = _words()
    driver: str | None = _words()
    node: int | None = number(-1, MAX_NODES - 1)
    irqs: list[int] = anything()
    name: str | None = _words()
    queue_count: int | None = number(-1, limits.QUEUES)


@attrs.frozen(kw_only=True)
class _Disk:
    name: str = _words()
    slot: str | None = _words()
    queues: dict[str, str] = table()


@attrs.frozen(kw_only=True)
class _Capture:
    format: str = _words()
    version: int = number(VERSION, VERSION)
    kernel: str | None = _words()
    arch: str | None = _words()
    topology: _Topology = table()
    cmdline: list[str] = anything()
    nvme: dict[str, str] = table()
    irqbalance: bool | None = anything()
    interrupts: list[_Interrupt] = anything()
    devices: list[_Device] = anything()
    disks: list[_Disk] = anything()


def read_capture(document: dict[str, Any], where: str) -> Facts:
    """Read a capture.

    Raises
    ------
    FormatError
        If a field is missing, unknown or not what it should be.
    """
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise FormatError(
            f"{where}: version",
            f"{brief(document.get('version'))}: expected {VERSION} of {FORMAT}",
        )
    capture: _Capture = structured(_renamed(document), _Capture, where)
    for name, entries in (("interrupts", capture.interrupts), ("devices", capture.devices)):
        if len(entries) > limits.INTERRUPTS:
            raise FormatError(f"{where}: {name}", f"more than {limits.INTERRUPTS} entries")
    facts = Facts(where, kernel=capture.kernel or None, arch=capture.arch or None)
    facts.irqbalance = capture.irqbalance
    facts.cmdline = tuple(_printable(f"{where}: cmdline", capture.cmdline, 4096)[:64])
    _read_topology(f"{where}: topology", capture.topology, facts)
    _printable(f"{where}: nvme", [*capture.nvme, *capture.nvme.values()])
    facts.nvme = capture.nvme
    for index, entry in enumerate(capture.interrupts):
        if entry.irq in facts.interrupts:
            raise FormatError(
                f"{where}: interrupts[{index}]", f"there are two interrupts {entry.irq}"
            )
        facts.interrupts[entry.irq] = _interrupt(f"{where}: interrupts[{index}]", entry)
    for index, device in enumerate(capture.devices):
        if any(not 0 <= irq <= limits.IRQ for irq in device.irqs):
            raise FormatError(f"{where}: devices[{index}]: irqs", f"expected 0 to {limits.IRQ}")
    facts.devices = tuple(
        {name.rstrip("_"): value for name, value in attrs.asdict(device).items()}
        for device in capture.devices
    )
    for index, disk in enumerate(capture.disks):
        _read_disk(f"{where}: disks[{index}]", disk, facts)
    return facts


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    devices = document.get("devices")
    if not isinstance(devices, list):
        return document
    return document | {
        "devices": [
            {("class_" if name == "class" else name): value for name, value in device.items()}
            if isinstance(device, dict)
            else device
            for device in devices
        ]
    }


def _printable(where: str, words: list[str], most: int = limits.NAME) -> list[str]:
    for word in words:
        if len(word) > most or not re.fullmatch(_PRINTABLE, word):
            raise FormatError(
                where, f"{brief(word)} is no text of at most {most} printable ASCII characters"
            )
    return words


def _maybe(where: str, value: str | None) -> CpuSet | None:
    return None if value is None else read_cpulist(where, value)


def _read_topology(where: str, topology: _Topology, facts: Facts) -> None:
    for name in ("possible", "present", "online", "isolated"):
        setattr(facts, name, _maybe(f"{where}: {name}", getattr(topology, name)))
    facts.nodes = {
        read_node(f"{where}: nodes", node): read_cpulist(f"{where}: nodes: {brief(node)}", cpus)
        for node, cpus in topology.nodes.items()
    } or None
    ids = {}
    for name in ("possible_nodes", "online_nodes"):
        ids[name] = _maybe(f"{where}: {name}", getattr(topology, name)) or CpuSet()
        for node in ids[name]:
            read_node(f"{where}: {name}", str(node))
    facts.node_ids = frozenset(ids["possible_nodes"])
    for cpu, node in topology.cpu_node.items():
        facts.cpu_node[read_cpu(f"{where}: cpu_node", cpu)] = read_node(
            f"{where}: cpu_node: {brief(cpu)}", str(node)[:20]
        )
    _read_distances(where, topology, (ids["online_nodes"], ids["possible_nodes"]), facts)
    sets = {}
    for name in ("siblings", "clusters"):
        entries = getattr(topology, name)
        if len(entries) > MAX_CPUS:
            raise FormatError(f"{where}: {name}", f"more than {MAX_CPUS} entries")
        sets[name] = [
            read_cpulist(f"{where}: {name}[{index}]", cpus) for index, cpus in enumerate(entries)
        ]
    facts.siblings = sets["siblings"] or None
    clusters = [cpus for cpus in sets["clusters"] if cpus]
    if topology.cluster_source == "cluster_cpus_list":
        facts.clusters = clusters
        facts.no_cluster = read_cpulist(f"{where}: no_cluster", topology.no_cluster)
    elif topology.cluster_source == "l2":
        facts.l2 = clusters
    facts.untold = read_cpulist(f"{where}: untold", topology.untold)
    if facts.possible and facts.present:
        facts.untold |= facts.possible - facts.present


def _read_distances(where: str, topology: _Topology, ids: Sequence[CpuSet], facts: Facts) -> None:
    """Take rows of distances, which have a column for each node that was online."""
    rows = topology.distances
    candidates = [sorted(nodes) for nodes in (ids[0], facts.nodes or {}, ids[1])]
    for node, row in rows.items():
        at = f"{where}: distances: {brief(node)}"
        if len(row) > limits.DISTANCES or any(not 0 <= number <= 255 for number in row):
            raise FormatError(at, f"expected at most {limits.DISTANCES} numbers from 0 to 255")
        columns = next((nodes for nodes in candidates if len(nodes) == len(row)), None)
        if columns is None:
            facts.notes.append(f"{at}: {len(row)} distances, of which nodes is not told: left out")
            facts.distances = {}
            return
        facts.distances[read_node(at, node)] = dict(zip(columns, row, strict=True))


def _interrupt(where: str, entry: _Interrupt) -> ShownInterrupt:
    return ShownInterrupt(
        entry.irq,
        chip=entry.chip,
        hwirq=entry.hwirq,
        actions=tuple(_printable(f"{where}: actions", entry.actions)[:64]),
        affinity=_maybe(f"{where}: affinity", entry.affinity),
        effective=_maybe(f"{where}: effective", entry.effective),
        node=None if entry.node == -1 else entry.node,
        managed=entry.managed,
        shutdown=entry.shutdown,
    )


def _read_disk(where: str, disk: _Disk, facts: Facts) -> None:
    if disk.name in facts.queue_maps:
        raise FormatError(where, f"there are two disks {brief(disk.name)}")
    facts.queue_maps[disk.name] = {}
    for queue, cpus in disk.queues.items():
        read_queue_map(facts, f"{where}: queues: {brief(queue)}", disk.name, queue, cpus)
    facts.disk_slots[disk.name] = disk.slot or None
