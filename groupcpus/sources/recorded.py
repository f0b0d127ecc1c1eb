# SPDX-License-Identifier: GPL-2.0-only
"""A recording of a boot (``data/recordings``), read for its machine and what it showed at boot.

`groupcpus.observed.recordings` reads all of it: the order of the requests, the second phase.
"""

from collections.abc import Mapping
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, brief
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.sources import limits
from groupcpus.sources.facts import Facts, read_cpu, read_cpulist, read_number
from groupcpus.sources.irqfiles import note_interrupt
from groupcpus.sources.qemu import irqchip_of_qemu

__all__ = ["is_recording", "read_recording"]

_ARCHES = ("x86_64", "arm64")
# How /proc/interrupts names the chips of PCI interrupts.
_PREFIXES = {"its": "ITS-", "its-first": "ITS-", "gicv2m": "GICv2m-"}


def is_recording(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a recording, in its short form."""
    return "rebind" in document and isinstance(document.get("topology"), Mapping)


def read_recording(document: Mapping[str, Any], where: str) -> Facts:
    """Read a recording.

    Raises
    ------
    FormatError
        If a field that is needed is missing or not what it should be.
    """
    name, kernel, arch = (_text(where, document, key) for key in ("name", "kernel", "arch"))
    if arch not in _ARCHES:
        raise FormatError(f"{where}: arch", f"{brief(arch)}: expected x86_64 or arm64")
    chip = document.get("irqchip") or irqchip_of_qemu(arch, kernel, str(document.get("qemu", "")))
    if chip is None:
        chip = "gicv3"  # as for any arm64 machine whose interrupts tell no more
    if not isinstance(chip, str) or chip not in IRQCHIPS:
        raise FormatError(
            f"{where}: irqchip", f"{brief(chip)}: expected one of {', '.join(IRQCHIPS)}"
        )
    facts = Facts(where, kernel=kernel, arch="aarch64" if arch == "arm64" else arch)
    facts.cmdline = tuple(_text(where, document, "cmdline").split())
    nvme = document.get("nvme")
    if not isinstance(nvme, Mapping):
        raise FormatError(f"{where}: nvme", f"{brief(nvme)} is no table")
    queues = {
        key: read_number(f"{where}: nvme.{key}", str(nvme.get(key, 0)), 65535)
        for key in ("write_queues", "poll_queues")
    }
    facts.nvme = {key: str(value) for key, value in queues.items()}
    entries = document.get("devices")
    if not isinstance(entries, list) or len(entries) > limits.INTERRUPTS:
        raise FormatError(f"{where}: devices", f"{brief(entries)} is no list of devices")
    devices = []
    for at, entry in enumerate(entries):
        try:
            devices.append(_device(f"{where}: devices[{at}]", entry, queues, facts, chip))
        except FormatError:
            raise
        except GroupCpusError as error:
            raise FormatError(f"{where}: devices[{at}]", str(error)) from None
    try:
        topology = Topology.from_dict(document["topology"])
    except GroupCpusError as error:
        raise FormatError(f"{where}: topology", str(error)) from None
    facts.machine = Machine(
        name, f"recording {name}", arch, chip, topology, tuple(devices), "a recording"
    )
    return facts


def _device(
    where: str, entry: object, queues: Mapping[str, int], facts: Facts, chip: str
) -> Device:
    if not isinstance(entry, Mapping):
        raise FormatError(where, f"{brief(entry)} is no table")
    name, slot = _text(where, entry, "name"), _text(where, entry, "pci")
    irqs = _text(where, entry, "irqs").split()
    masks = _text(where, entry, "masks").split()
    effective = _text(where, entry, "effective").split()
    if not len(irqs) == len(masks) == len(effective):
        raise FormatError(
            where, f"{len(irqs)} irqs, {len(masks)} masks, {len(effective)} effective CPUs"
        )
    for vector, (irq, mask, cpu) in enumerate(zip(irqs, masks, effective, strict=True)):
        note_interrupt(
            facts,
            where,
            read_number(f"{where}: irqs", irq, limits.IRQ),
            chip=f"{_PREFIXES.get(chip, '')}PCI-MSIX-{slot}",
            hwirq=vector,
            actions=(f"{name}q{vector}",),
            affinity=read_cpulist(f"{where}: masks", "" if mask == "-" else mask),
            effective=CpuSet([read_cpu(f"{where}: effective", cpu)]),
        )
    maps = _text(where, entry, "maps").split()
    facts.queue_maps[f"{name}n1"] = {
        queue: read_cpulist(f"{where}: maps", "" if cpus == "-" else cpus)
        for queue, cpus in enumerate(maps)
    }
    io_queues = read_number(f"{where}: io_queues", str(entry.get("io_queues")), 65535)
    return Device(name, "nvme", io_queues, **queues)


def _text(where: str, document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value.isprintable():
        raise FormatError(f"{where}: {key}", f"{brief(value)}; expected a printable text")
    return value
