# SPDX-License-Identifier: GPL-2.0-only
"""The long form of a recording: a boot with a list entry a CPU, turned into the compact form.

Next to what a replay needs it may hold anything else: counts, messages, caches.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import CpuListError, FormatError, brief

__all__ = ["compact_document", "deal_absent", "is_long_form"]

_ARCHES = {"aarch64": "arm64"}
_CHOICE = re.compile(r".*\bIRQ([0-9]{1,9}) -> [0-9,-]+ CPU([0-9]{1,5})")


def is_long_form(doc: Mapping[str, Any]) -> bool:
    """Tell the long form from the compact one."""
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
    form = _LongForm(doc, where)
    version = re.search(r"Debian \S+", form.text("uname", ""))
    arch = form.text("arch")
    devices = form.devices("devices", form.field(doc, "devices", list))
    order = form.order(devices)
    rebind = form.field(doc, "rebind", Mapping, {})
    return {
        "name": form.text("run", "recording"),
        "kernel": form.text("kernel"),
        "package": version[0] if version else "",
        "arch": _ARCHES.get(arch, arch),
        "machine": form.text("machine", ""),
        "qemu": form.text("qemu", ""),
        "cmdline": form.text("cmdline", ""),
        "source": form.text("source", ""),
        "topology": form.topology(never_up=arch == "x86_64"),
        "nvme": form.parameters(),
        "other_irqs": form.other_irqs() if arch == "x86_64" else "",
        "devices": devices,
        "order": order,
        "rebind": form.devices("rebind.devices", form.field(rebind, "devices", list, [])),
    }


def deal_absent(nodes: dict[int, CpuSet], possible: CpuSet) -> dict[int, CpuSet]:
    """Place the possible CPUs that sysfs shows in no node, because they are not present.

    x86 deals them to the nodes round robin by their number: ``numa_init_array()`` in
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


class _LongForm:
    """Reads fields, and says which one is not what it should be."""

    def __init__(self, doc: Mapping[str, Any], where: str) -> None:
        self.doc = doc
        self.where = where

    def field(self, table: Mapping[str, Any], key: str, kind: Any, default: Any = None) -> Any:
        value = table.get(key, default)
        if not isinstance(value, kind):
            found = brief(value) if key in table else "missing"
            expected = {Mapping: "a table", list: "a list", str: "a text"}[kind]
            raise FormatError(f"{self.where}: {key}", f"{found}; expected {expected}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return self.field(self.doc, key, str, default)

    def cpus(self, key: str, value: object) -> CpuSet:
        if not isinstance(value, list):
            raise FormatError(f"{self.where}: {key}", f"{brief(value)}; expected a list of CPUs")
        try:
            return CpuSet(value)
        except CpuListError as error:
            raise FormatError(f"{self.where}: {key}", str(error)) from None

    def number(self, key: str, value: object) -> int:
        if not re.fullmatch("[0-9]{1,9}", str(value)):
            raise FormatError(f"{self.where}: {key}", f"{brief(value)}; expected a number")
        return int(str(value))

    def entries(self, key: str, entries: list[Any]) -> list[Mapping[str, Any]]:
        for entry in entries:
            if not isinstance(entry, Mapping):
                raise FormatError(f"{self.where}: {key}", f"{brief(entry)}; expected a table")
        return entries

    def topology(self, never_up: bool) -> dict[str, Any]:
        """Put the topology together; `never_up`: CPUs that are not online have no cluster."""
        sets = {key: self.cpus(key, self.doc.get(key)) for key in ("possible", "present", "online")}
        nodes = {
            self.number("nodes", node): self.cpus("nodes", cpus)
            for node, cpus in self.field(self.doc, "nodes", Mapping, {}).items()
        }
        for cpu, node in self.field(self.doc, "cpu_node", Mapping, {}).items():
            # Offline CPUs are in no node's list, but know theirs.
            home = self.number("cpu_node", node)
            nodes[home] = nodes.get(home, CpuSet()) | self.cpus(
                "cpu_node", [self.number("cpu_node", cpu)]
            )
        nodes = deal_absent(nodes or {0: CpuSet()}, sets["possible"])
        shared = {
            key: [self.cpus(key, cpus) for cpus in self.field(self.doc, key, list, [])]
            for key in ("siblings", "clusters")
        }
        never = sets["possible"] - sets["online"] if never_up else CpuSet()
        return {
            "nodes": {str(node): str(cpus) for node, cpus in nodes.items()},
            **{key: [str(cpus) for cpus in each if len(cpus) > 1] for key, each in shared.items()},
            **{key: str(cpus) for key, cpus in sets.items()},
            "no_cluster": str(never),
        }

    def parameters(self) -> dict[str, int]:
        parameters = self.field(self.doc, "nvme_params", Mapping, {})
        return {
            key: self.number(f"nvme_params.{key}", parameters.get(key, "0"))
            for key in ("write_queues", "poll_queues")
        }

    def effective(self, key: str, irq: Mapping[str, Any]) -> str:
        cpus = self.cpus(f"{key}.effective", irq.get("effective"))
        if len(cpus) != 1:
            raise FormatError(f"{self.where}: {key}.effective", f"{cpus or 'none'}; expected a CPU")
        return str(cpus)

    def other_irqs(self) -> str:
        irqs = self.entries("other_irqs", self.field(self.doc, "other_irqs", list, []))
        return " ".join(self.effective("other_irqs", irq) for irq in irqs if irq.get("effective"))

    def devices(self, key: str, entries: list[Any]) -> list[dict[str, Any]]:
        devices = []
        for at, entry in enumerate(self.entries(key, entries)):
            name = f"{key}[{at}]"
            irqs = self.entries(f"{name}.irqs", self.field(entry, "irqs", list))
            maps = {
                self.number(f"{name}.mq", hctx): self.cpus(f"{name}.mq", cpus)
                for hctx, cpus in self.field(entry, "mq", Mapping).items()
            }
            masks = [self.cpus(f"{name}.affinity", irq.get("affinity")) for irq in irqs]
            devices.append(
                {
                    "name": self.field(entry, "name", str),
                    "pci": self.field(entry, "pci", str, ""),
                    # As many as are used: the driver asked for no more than it could use.
                    "io_queues": max(1, len(maps)),
                    "irqs": " ".join(
                        str(self.number(f"{name}.irq", irq.get("irq"))) for irq in irqs
                    ),
                    "masks": " ".join(str(mask) or "-" for mask in masks),
                    "effective": " ".join(self.effective(name, irq) for irq in irqs),
                    "maps": " ".join(str(maps[hctx]) or "-" for hctx in sorted(maps)),
                }
            )
        return devices

    def order(self, devices: Sequence[dict[str, Any]]) -> list[str]:
        """Read the order of steps at boot from the kernel's log, and note the CPUs charged.

        Each managed vector has two lines, one when it is allocated and one when it is requested;
        numbers that an admin queue had before are told apart by being earlier.  The rebind has
        written as many lines again.
        """
        lines = [str(line) for line in self.field(self.doc, "dmesg_selected", list, [])]
        choices = [match for line in lines if (match := _CHOICE.match(line))]
        boot = [(int(match[1]), match[2]) for match in choices[: len(choices) // 2]]
        vectors = {
            int(irq): (at, queue)
            for at, device in enumerate(devices)
            for queue, irq in enumerate(device["irqs"].split())
            if queue
        }
        steps: list[tuple[int, int]] = []
        seen: Counter[tuple[int, int]] = Counter()
        charged: dict[tuple[int, int], str] = {}
        for irq, cpu in reversed(boot):
            vector = vectors.get(irq)
            if vector and seen[vector] < 2:
                seen[vector] += 1
                steps.append(vector)
                charged[vector] = cpu
        if not steps or any(seen[vector] < 2 for vector in vectors.values()):
            return []  # not logged, or not all of it
        for at, device in enumerate(devices):
            queues = range(1, len(device["irqs"].split()))
            device["charged"] = " ".join(charged[at, queue] for queue in queues)
        return [f"{devices[at]['name']} {queue}" for at, queue in reversed(steps)]
