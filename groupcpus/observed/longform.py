# SPDX-License-Identifier: GPL-2.0-only
"""The long form of a recording: a boot with a list entry a CPU, turned into the compact form.

Next to what a replay needs it may hold anything else: counts, messages, caches.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError
from groupcpus.observed.fields import Fields
from groupcpus.sources.qemu import translation_service

__all__ = ["compact_document", "deal_absent", "is_long_form"]

_ARCHES = {"aarch64": "arm64"}
_CHOICE = re.compile(r".*\bIRQ([0-9]{1,9}) -> [0-9,-]+ CPU([0-9]{1,5})")


def is_long_form(doc: Mapping[str, Any]) -> bool:
    """Return whether a document is in the long form."""
    return "topology" not in doc and "siblings" in doc


def compact_document(doc: Mapping[str, Any], where: str = "recording") -> dict[str, Any]:
    """Turn the long form of a recording into the compact form.

    Parameters
    ----------
    doc : mapping
        ``kernel``, ``arch``, ``cmdline``; ``possible``, ``present``, ``online``; ``nodes``,
        ``cpu_node``, ``siblings``, ``clusters``; ``devices`` with ``irqs`` and ``mq``;
        ``other_irqs``, ``nvme_params``, ``rebind``; ``dmesg_selected``, if the kernel logged the
        translation service's choices.
    where : str
        What errors call it.

    Returns
    -------
    dict
        What `recording_from_dict` reads.

    Raises
    ------
    FormatError
        If a field is missing or not what it should be; what the compact form can hold as well is
        checked there.
    """
    fields = Fields(doc, where)
    version = re.search(r"Debian \S+", fields.text("uname", ""))
    arch = fields.text("arch")
    devices = _devices(fields, "devices")
    return {
        "name": fields.text("run", "recording"),
        "kernel": fields.text("kernel"),
        "package": version[0] if version else "",
        "arch": _ARCHES.get(arch, arch),
        "irqchip": _irqchip(fields),
        **{key: fields.text(key, "") for key in ("machine", "qemu", "cmdline", "source")},
        "topology": _topology(fields, never_up=arch == "x86_64"),
        "nvme": _parameters(fields),
        "other_irqs": _other_irqs(fields) if arch == "x86_64" else "",
        "order": _order(fields, devices),  # notes the CPUs charged in the devices
        "devices": devices,
        "rebind": _devices(fields.table("rebind", {}), "devices", []),
    }


def deal_absent(nodes: dict[int, CpuSet], possible: CpuSet) -> dict[int, CpuSet]:
    """Place the possible CPUs that sysfs shows in no node, because they are not present.

    x86 gives them to the nodes round robin by their number: ``numa_init_array()`` in
    arch/x86/mm/numa.c, Linux 6.12.

    Examples
    --------
    >>> deal_absent({0: CpuSet("0-1"), 1: CpuSet("2-3")}, CpuSet("0-6"))
    {0: CpuSet('0-1,4,6'), 1: CpuSet('2-3,5')}
    """
    placed = CpuSet(cpu for cpus in nodes.values() for cpu in cpus)
    ids = sorted(nodes)
    absent = {
        node: [cpu for cpu in possible - placed if cpu % len(ids) == at]
        for at, node in enumerate(ids)
    }
    return {node: nodes[node] | CpuSet(absent[node]) for node in ids}


def _topology(fields: Fields, never_up: bool) -> dict[str, Any]:
    """Put the topology together; `never_up`: CPUs that are not online have no cluster."""
    sets = {key: fields.cpus(key, fields.doc.get(key)) for key in ("possible", "present", "online")}
    nodes = {
        fields.number("nodes", node): fields.cpus("nodes", cpus)
        for node, cpus in fields.get("nodes", Mapping, {}).items()
    }
    for cpu, node in fields.get("cpu_node", Mapping, {}).items():
        # Offline CPUs are in no node's list, but know theirs.
        home = fields.number("cpu_node", node)
        known = fields.cpus("cpu_node", [fields.number("cpu_node", cpu)])
        nodes[home] = nodes.get(home, CpuSet()) | known
    nodes = deal_absent(nodes or {0: CpuSet()}, sets["possible"])
    shared = {
        key: [fields.cpus(key, cpus) for cpus in fields.get(key, list, [])]
        for key in ("siblings", "clusters")
    }
    never = sets["possible"] - sets["online"] if never_up else CpuSet()
    return {
        "nodes": {str(node): str(cpus) for node, cpus in nodes.items()},
        **{key: [str(cpus) for cpus in each if len(cpus) > 1] for key, each in shared.items()},
        **{key: str(cpus) for key, cpus in sets.items()},
        "no_cluster": str(never),
    }


def _parameters(fields: Fields) -> dict[str, int]:
    parameters = fields.table("nvme_params", {})
    return {
        key: parameters.number(key, parameters.doc.get(key, "0"))
        for key in ("write_queues", "poll_queues")
    }


def _irqchip(fields: Fields) -> str:
    """Return the irqchip that the names of the interrupts' chips tell, if they do."""
    for device in fields.tables("devices"):
        for irq in device.tables("irqs"):
            if str(irq.doc.get("chip", "")).startswith("ITS-"):
                return translation_service(fields.text("kernel"))
            if str(irq.doc.get("chip", "")).startswith("GICv2m-"):
                return "gicv2m"
    return ""


def _effective(fields: Fields) -> str:
    cpus = fields.cpus("effective", fields.doc.get("effective"))
    if len(cpus) != 1:
        raise FormatError(fields.path("effective"), f"{cpus or 'none'}; expected a CPU")
    return str(cpus)


def _other_irqs(fields: Fields) -> str:
    irqs = fields.tables("other_irqs", [])
    return " ".join(_effective(irq) for irq in irqs if irq.doc.get("effective"))


def _devices(fields: Fields, key: str, default: Any = None) -> list[dict[str, Any]]:
    devices = []
    for device in fields.tables(key, default):
        irqs = device.tables("irqs")
        maps = {
            device.number("mq", hctx): device.cpus("mq", cpus)
            for hctx, cpus in device.get("mq", Mapping).items()
        }
        masks = [irq.cpus("affinity", irq.doc.get("affinity")) for irq in irqs]
        devices.append(
            {
                "name": device.text("name"),
                "pci": device.text("pci", ""),
                # As many as are used: the driver asked for no more than it could use.
                "io_queues": max(1, len(maps)),
                "irqs": " ".join(str(irq.number("irq", irq.doc.get("irq"))) for irq in irqs),
                "masks": " ".join(str(mask) or "-" for mask in masks),
                "effective": " ".join(map(_effective, irqs)),
                "maps": " ".join(str(maps[hctx]) or "-" for hctx in sorted(maps)),
            }
        )
    return devices


def _order(fields: Fields, devices: Sequence[dict[str, Any]]) -> list[str]:
    """Read the order of steps at boot from the kernel's log, and note the CPUs charged.

    Each managed vector has two lines, one when it is allocated and one when it is requested;
    numbers that an admin queue had before are told apart by being earlier.  The rebind has
    written as many lines again.
    """
    lines = [str(line) for line in fields.get("dmesg_selected", list, [])]
    choices = [match for line in lines if (match := _CHOICE.match(line))]
    boot = [(int(match[1]), match[2]) for match in choices[: len(choices) // 2]]
    owners = [
        (int(irq), (at, queue))
        for at, device in enumerate(devices)
        for queue, irq in enumerate(device["irqs"].split())
        if queue
    ]
    vectors = dict(owners)
    steps: list[tuple[int, int]] = []
    seen: Counter[tuple[int, int]] = Counter()
    charged: dict[tuple[int, int], str] = {}
    for irq, cpu in reversed(boot):
        vector = vectors.get(irq)
        if vector and seen[vector] < 2:
            seen[vector] += 1
            steps.append(vector)
            charged[vector] = cpu
    if not steps or any(seen[vector] < 2 for _, vector in owners):
        return []  # not logged, or not all of it
    for at, device in enumerate(devices):
        queues = range(1, len(device["irqs"].split()))
        device["charged"] = " ".join(charged[at, queue] for queue in queues)
    return [f"{devices[at]['name']} {queue}" for at, queue in reversed(steps)]
