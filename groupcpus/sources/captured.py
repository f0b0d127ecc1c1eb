# SPDX-License-Identifier: GPL-2.0-only
"""The JSON that capture.py writes, read back field by field: it may come from anywhere."""

from typing import Any

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.topology import MAX_NODES
from groupcpus.errors import FormatError, brief
from groupcpus.sources.capture import FORMAT, VERSION
from groupcpus.sources.facts import (
    MAX_DISTANCES,
    MAX_INTERRUPTS,
    MAX_NAME,
    MAX_QUEUES,
    Facts,
    Interrupt,
    read_cpu,
    read_cpulist,
    read_node,
)
from groupcpus.sources.irqfiles import MAX_IRQ, read_queue_map

__all__ = ["read_capture"]

_FIELDS = {
    "format": str,
    "version": int,
    "kernel": str | None,
    "arch": str | None,
    "topology": dict,
    "cmdline": list,
    "nvme": dict,
    "irqbalance": bool | None,
    "interrupts": list,
    "devices": list,
    "disks": list,
}
_TOPOLOGY = {
    "possible": str | None,
    "present": str | None,
    "online": str | None,
    "isolated": str | None,
    "nohz_full": str | None,
    "nodes": dict,
    "possible_nodes": str | None,
    "online_nodes": str | None,
    "cpu_node": dict,
    "distances": dict,
    "siblings": list,
    "clusters": list,
    "cluster_source": str,
    "no_cluster": str,
    "untold": str,
}
_INTERRUPT = {
    "irq": int,
    "chip": str,
    "hwirq": int | None,
    "actions": list,
    "affinity": str | None,
    "effective": str | None,
    "node": int | None,
    "managed": bool | None,
    "shutdown": bool | None,
}
_DEVICE = {
    "slot": str,
    "class": str | None,
    "driver": str | None,
    "node": int | None,
    "irqs": list,
    "name": str | None,
    "queue_count": int | None,
}
_DISK = {"name": str, "slot": str | None, "queues": dict}


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
    _check(where, document, _FIELDS)
    topology = document["topology"]
    _check(f"{where}: topology", topology, _TOPOLOGY)
    facts = Facts(
        where,
        kernel=_text(f"{where}: kernel", document["kernel"] or "") or None,
        arch=_text(f"{where}: arch", document["arch"] or "") or None,
        irqbalance=document["irqbalance"],
    )
    _read_topology(f"{where}: topology", topology, facts)
    facts.cmdline = tuple(_texts(f"{where}: cmdline", document["cmdline"], 64, 4096))
    for name, value in _items(f"{where}: nvme", document["nvme"], 64):
        facts.nvme[_text(f"{where}: nvme", name)] = _text(f"{where}: nvme: {name}", value)
    for index, entry in _entries(f"{where}: interrupts", document["interrupts"], MAX_INTERRUPTS):
        interrupt = _interrupt(f"{where}: interrupts[{index}]", entry)
        if interrupt.irq in facts.interrupts:
            raise FormatError(
                f"{where}: interrupts[{index}]", f"there are two interrupts {interrupt.irq}"
            )
        facts.interrupts[interrupt.irq] = interrupt
    facts.devices = tuple(
        _device(f"{where}: devices[{index}]", entry)
        for index, entry in _entries(f"{where}: devices", document["devices"], MAX_INTERRUPTS)
    )
    for index, entry in _entries(f"{where}: disks", document["disks"], MAX_INTERRUPTS):
        _read_disk(f"{where}: disks[{index}]", entry, facts)
    return facts


def _check(where: str, entry: object, fields: dict[str, Any]) -> None:
    """Check that an object has these fields, of these types, and no others."""
    if not isinstance(entry, dict):
        raise FormatError(where, f"{brief(entry)} is no object")
    for name in entry:
        if name not in fields:
            raise FormatError(f"{where}: {brief(name)}", "unknown field")
    for name, kind in fields.items():
        if name not in entry:
            raise FormatError(f"{where}: {name}", "missing")
        value = entry[name]
        if not isinstance(value, kind) or (kind in (int, int | None) and isinstance(value, bool)):
            expected = kind.__name__ if isinstance(kind, type) else str(kind)
            raise FormatError(f"{where}: {name}", f"{brief(value)} is no {expected}")


def _text(where: str, value: object, most: int = MAX_NAME) -> str:
    if not isinstance(value, str) or len(value) > most or not value.isascii():
        raise FormatError(where, f"{brief(value)} is no text of at most {most} ASCII characters")
    if not value.isprintable():
        raise FormatError(where, f"{brief(value)} has characters that cannot be printed")
    return value


def _texts(where: str, values: list[object], count: int, most: int = MAX_NAME) -> list[str]:
    return [
        _text(f"{where}[{index}]", value, most) for index, value in _entries(where, values, count)
    ]


def _entries(where: str, values: list[Any], most: int) -> list[tuple[int, Any]]:
    if len(values) > most:
        raise FormatError(where, f"{len(values)} entries: at most {most} are read")
    return list(enumerate(values))


def _items(where: str, values: dict[str, Any], most: int) -> list[tuple[str, Any]]:
    if len(values) > most:
        raise FormatError(where, f"{len(values)} entries: at most {most} are read")
    return list(values.items())


def _cpulist(where: str, value: object) -> CpuSet:
    if not isinstance(value, str):
        raise FormatError(where, f"{brief(value)} is no cpulist")
    return read_cpulist(where, value)


def _maybe(where: str, value: object) -> CpuSet | None:
    return None if value is None else _cpulist(where, value)


def _number(where: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FormatError(where, f"{brief(value)} is no whole number from {least} to {most}")
    return value


def _read_topology(where: str, topology: dict[str, Any], facts: Facts) -> None:
    for name in ("possible", "present", "online", "isolated"):
        setattr(facts, name, _maybe(f"{where}: {name}", topology[name]))
    nodes = {
        read_node(f"{where}: nodes", node): _cpulist(f"{where}: nodes: {node}", cpus)
        for node, cpus in _items(f"{where}: nodes", topology["nodes"], MAX_NODES)
    }
    facts.nodes = nodes or None
    ids = {}
    for name in ("possible_nodes", "online_nodes"):
        ids[name] = _maybe(f"{where}: {name}", topology[name]) or CpuSet()
        for node in ids[name]:
            read_node(f"{where}: {name}", str(node))
    facts.node_ids = frozenset(ids["possible_nodes"])
    facts.cpu_node = {
        read_cpu(f"{where}: cpu_node", cpu): _number(
            f"{where}: cpu_node: {cpu}", node, 0, MAX_NODES - 1
        )
        for cpu, node in _items(f"{where}: cpu_node", topology["cpu_node"], MAX_CPUS)
    }
    _read_distances(where, topology["distances"], sorted(ids["online_nodes"] or nodes), facts)
    sets = {}
    for name in ("siblings", "clusters"):
        sets[name] = [
            _cpulist(f"{where}: {name}[{index}]", cpus)
            for index, cpus in _entries(f"{where}: {name}", topology[name], MAX_CPUS)
        ]
    facts.siblings = sets["siblings"] or None
    source = topology["cluster_source"]
    if source not in ("cluster_cpus_list", "l2", "unknown"):
        raise FormatError(
            f"{where}: cluster_source",
            f"{brief(source)}: expected cluster_cpus_list, l2 or unknown",
        )
    clusters = [cpus for cpus in sets["clusters"] if cpus]
    if source == "cluster_cpus_list":
        facts.clusters = clusters
        facts.no_cluster = _cpulist(f"{where}: no_cluster", topology["no_cluster"])
    elif source == "l2":
        facts.l2 = clusters
    facts.untold = _cpulist(f"{where}: untold", topology["untold"])
    if facts.possible and facts.present:
        facts.untold |= facts.possible - facts.present


def _read_distances(where: str, rows: dict[str, Any], existing: list[int], facts: Facts) -> None:
    for node, row in _items(f"{where}: distances", rows, MAX_NODES):
        at = f"{where}: distances: {node}"
        if not isinstance(row, list):
            raise FormatError(at, f"{brief(row)} is no list of numbers")
        numbers = [_number(at, number, 0, 255) for _, number in _entries(at, row, MAX_DISTANCES)]
        if len(numbers) != len(existing):
            raise FormatError(at, f"{len(numbers)} distances for {len(existing)} nodes")
        facts.distances[read_node(at, node)] = dict(zip(existing, numbers, strict=True))


def _interrupt(where: str, entry: Any) -> Interrupt:
    _check(where, entry, _INTERRUPT)
    node = entry["node"]
    return Interrupt(
        _number(f"{where}: irq", entry["irq"], 0, MAX_IRQ),
        chip=_text(f"{where}: chip", entry["chip"]),
        hwirq=entry["hwirq"],
        actions=tuple(_texts(f"{where}: actions", entry["actions"], 64)),
        affinity=_maybe(f"{where}: affinity", entry["affinity"]),
        effective=_maybe(f"{where}: effective", entry["effective"]),
        node=None if node in (None, -1) else _number(f"{where}: node", node, 0, MAX_NODES - 1),
        managed=entry["managed"],
        shutdown=entry["shutdown"],
    )


def _device(where: str, entry: Any) -> dict[str, Any]:
    _check(where, entry, _DEVICE)
    for name in ("slot", "class", "driver", "name"):
        _text(f"{where}: {name}", entry[name] or "")
    for name in ("node", "queue_count"):
        if entry[name] is not None:
            _number(f"{where}: {name}", entry[name], -1, MAX_INTERRUPTS)
    irqs = _entries(f"{where}: irqs", entry["irqs"], MAX_INTERRUPTS)
    return {**entry, "irqs": [_number(f"{where}: irqs[{at}]", irq, 0, MAX_IRQ) for at, irq in irqs]}


def _read_disk(where: str, entry: Any, facts: Facts) -> None:
    _check(where, entry, _DISK)
    name = _text(f"{where}: name", entry["name"])
    if name in facts.queue_maps:
        raise FormatError(where, f"there are two disks {brief(name)}")
    facts.queue_maps[name] = {}
    for queue, cpus in _items(f"{where}: queues", entry["queues"], MAX_QUEUES):
        at = f"{where}: queues: {brief(queue)}"
        read_queue_map(facts, at, name, queue, _text(at, cpus, 65536))
    facts.disk_slots[name] = _text(f"{where}: slot", entry["slot"] or "") or None
