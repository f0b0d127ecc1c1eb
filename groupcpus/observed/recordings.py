# SPDX-License-Identifier: GPL-2.0-only
"""Recordings of real boots: what a stock kernel showed, and what its release and arguments imply.

A recording (``data/recordings/NAME.json``, one line a field) has two phases.  At boot, devices
probe in parallel and the order of their requests is not recorded, unless the kernel logged it.
Then the probes are repeated one at a time (``rebind``).  The long form of a recording, with a list
entry a CPU, is read too (`groupcpus.observed.longform`).
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import CpuListError, FormatError, GroupCpusError, RequestError, brief
from groupcpus.machines.machine import data_dir
from groupcpus.observed.longform import compact_document, is_long_form

__all__ = [
    "RecordedDevice",
    "Recording",
    "Step",
    "isolated_cpus",
    "load_recording",
    "recording_from_dict",
    "recording_names",
    "revision_of_release",
]

_MAX_BYTES = 16 << 20
_MAX_DEVICES = 256
_MAX_QUEUES = 4096
_IRQCHIP_OF_ARCH = {"x86_64": "x86", "arm64": "its"}
_TEXTS = ("name", "kernel", "package", "arch", "machine", "qemu", "cmdline", "source")
_FIELDS = {*_TEXTS, "notes", "topology", "nvme", "other_irqs", "devices", "order", "rebind"}
_DEVICE_FIELDS = {"name", "pci", "io_queues", "irqs", "masks", "effective", "maps"}


@dataclass(frozen=True)
class RecordedDevice:
    """An NVMe device as a kernel showed it.

    Attributes
    ----------
    name, pci : str
        Such as ``nvme0`` and ``0000:00:01.0``.
    io_queues : int
        I/O queues that the device offers.
    irqs, effective : tuple of int
        Number and effective CPU of each vector; vector 0 is the admin queue's.
    masks : tuple of CpuSet
        Affinity of each vector.
    maps : tuple of CpuSet
        The CPUs of each hardware queue (hctx) that blk-mq shows.
    charged : tuple of int
        The CPU that each managed vector, from vector 1 on, was charged to when it was allocated;
        empty unless the kernel logged it.
    """

    name: str
    pci: str
    io_queues: int
    irqs: tuple[int, ...]
    masks: tuple[CpuSet, ...]
    effective: tuple[int, ...]
    maps: tuple[CpuSet, ...]
    charged: tuple[int, ...] = ()


class Step(NamedTuple):
    """One step of a device's probing: a managed vector is allocated, or requested."""

    device: str
    queue: int
    action: str
    """``allocate`` or ``request``."""


@dataclass(frozen=True)
class Recording:
    """One boot of a kernel.

    Attributes
    ----------
    name : str
        The name of its file.
    kernel, package : str
        The kernel's release, and the distribution's version of its package.
    arch : {"x86_64", "arm64"}
        The architecture.
    machine, qemu, cmdline, source, notes : str
        The machine in words, QEMU's arguments, the kernel's, how it was recorded, and what more
        there is to say.
    topology : Topology
        Its CPUs.
    write_queues, poll_queues : int
        The NVMe driver's parameters.
    other_irqs : tuple of int
        Effective CPUs of the interrupts that are no NVMe's.
    devices : tuple of RecordedDevice
        After the boot, when all probed in parallel.
    order : tuple of Step
        The order of their steps, where the kernel logged it; else empty.
    rebind : tuple of RecordedDevice
        After all were unbound and bound again one at a time, in this order.
    """

    name: str
    kernel: str
    package: str
    arch: str
    machine: str
    qemu: str
    cmdline: str
    source: str
    notes: str
    topology: Topology
    write_queues: int
    poll_queues: int
    other_irqs: tuple[int, ...]
    devices: tuple[RecordedDevice, ...]
    order: tuple[Step, ...]
    rebind: tuple[RecordedDevice, ...]

    @property
    def irqchip(self) -> str:
        """The name of its irqchip in `IRQCHIPS`."""
        return _IRQCHIP_OF_ARCH[self.arch]

    @property
    def revision(self) -> Revision:
        """The version of `group_cpus_evenly` that its kernel has."""
        return revision_of_release(self.kernel)


def recording_names() -> list[str]:
    """List the recordings that ship with the project.

    Examples
    --------
    >>> "x86-8cpu-4nodes-1x3-7.3" in recording_names()
    True
    """
    return sorted(path.stem for path in (data_dir() / "recordings").glob("*.json"))


def load_recording(name_or_path: str | Path) -> Recording:
    """Load a recording that ships with the project by its name, or any other from its file.

    Raises
    ------
    FormatError
        If the file is not a recording; the message names the field.
    RequestError
        If there is no such recording.

    Examples
    --------
    >>> recording = load_recording("x86-8cpu-4nodes-1x3-7.3")
    >>> recording.kernel, recording.revision.name, [str(mask) for mask in recording.devices[0].maps]
    ('7.3.4+deb13-cloud-amd64', 'cluster', ['0-1,6-7', '2-3', '4-5'])
    """
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in recording_names():
        path = data_dir() / "recordings" / f"{name_or_path}.json"
    elif not path.is_file():
        raise RequestError(
            f"recording {brief(str(name_or_path))}: neither a file nor one of "
            f"{', '.join(recording_names())}"
        )
    if path.stat().st_size > _MAX_BYTES:
        raise FormatError(path.name, f"{path.stat().st_size} bytes, at most {_MAX_BYTES} are read")
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(path.name, f"not a JSON file: {error}") from None
    return recording_from_dict(doc, path.name)


def recording_from_dict(doc: object, where: str = "recording") -> Recording:
    """Read a recording from the contents of its file.

    Raises
    ------
    FormatError
        If a field is missing, unknown or not what it should be; the message names it after `where`.
    """
    if not isinstance(doc, Mapping):
        raise FormatError(where, f"{brief(doc)} is no table of fields")
    if is_long_form(doc):
        doc = compact_document(doc, where)
    if unknown := sorted(map(str, set(doc) - _FIELDS)):
        raise FormatError(where, f"unknown field {brief(unknown[0])}")
    texts = {key: _text(where, doc, key) for key in _TEXTS}
    if texts["arch"] not in _IRQCHIP_OF_ARCH:
        expected = " or ".join(_IRQCHIP_OF_ARCH)
        raise FormatError(f"{where}: arch", f"{brief(texts['arch'])}; expected {expected}")
    try:
        topology = Topology.from_dict(doc.get("topology", "missing"))
        revision_of_release(texts["kernel"])
    except GroupCpusError as error:
        raise FormatError(f"{where}: topology or kernel", str(error)) from None
    if not topology.online:
        raise FormatError(f"{where}: topology.online", "expected at least one CPU")
    nvme = doc.get("nvme")
    if not isinstance(nvme, Mapping) or set(nvme) != {"write_queues", "poll_queues"}:
        raise FormatError(f"{where}: nvme", "expected write_queues and poll_queues")
    devices = _devices(f"{where}: devices", doc.get("devices"), topology)
    fields: dict[str, Any] = dict(
        texts,
        notes=_text(where, doc, "notes") if "notes" in doc else "",
        topology=topology,
        other_irqs=_cpus(f"{where}: other_irqs", doc.get("other_irqs", ""), topology),
        devices=devices,
        order=_order(f"{where}: order", doc.get("order", []), devices),
        rebind=_devices(f"{where}: rebind", doc.get("rebind", []), topology),
    )
    for key, value in nvme.items():
        fields[key] = _natural(f"{where}: nvme.{key}", value)
    return Recording(**fields)


def _text(where: str, doc: Mapping[str, Any], key: str) -> str:
    if not isinstance(doc.get(key), str):
        found = brief(doc[key]) if key in doc else "missing"
        raise FormatError(f"{where}: {key}", f"{found}; expected a text")
    return doc[key]


def _natural(where: str, value: object, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_QUEUES:
        raise FormatError(where, f"{brief(value)} is no whole number from {least} to {_MAX_QUEUES}")
    return value


def _devices(where: str, entries: object, topology: Topology) -> tuple[RecordedDevice, ...]:
    if not isinstance(entries, list) or len(entries) > _MAX_DEVICES:
        raise FormatError(where, f"expected a list of at most {_MAX_DEVICES} devices")
    devices = tuple(_device(f"{where}[{at}]", entry, topology) for at, entry in enumerate(entries))
    names = Counter(device.name for device in devices)
    if twice := [name for name, count in names.items() if count > 1]:
        raise FormatError(where, f"more than one device is called {brief(twice[0])}")
    return devices


def _device(where: str, entry: object, topology: Topology) -> RecordedDevice:
    if not isinstance(entry, Mapping) or set(entry) - {"charged"} != _DEVICE_FIELDS:
        raise FormatError(where, f"expected the fields {', '.join(sorted(_DEVICE_FIELDS))}")
    masks = _cpu_sets(f"{where}.masks", entry["masks"], topology)
    irqs = _numbers(f"{where}.irqs", entry["irqs"])
    effective = _cpus(f"{where}.effective", entry["effective"], topology)
    if not len(irqs) == len(masks) == len(effective) > 0:
        raise FormatError(
            where, f"{len(irqs)} irqs, {len(masks)} masks, {len(effective)} effective CPUs"
        )
    charged = _cpus(f"{where}.charged", entry.get("charged", ""), topology)
    if charged and len(charged) != len(masks) - 1:
        raise FormatError(f"{where}.charged", f"{len(charged)} CPUs for {len(masks) - 1} queues")
    return RecordedDevice(
        _text(where, entry, "name"),
        _text(where, entry, "pci"),
        _natural(f"{where}.io_queues", entry["io_queues"], least=1),
        irqs,
        masks,
        effective,
        _cpu_sets(f"{where}.maps", entry["maps"], topology),
        charged,
    )


def _words(where: str, text: object) -> list[str]:
    if not isinstance(text, str) or len(words := text.split()) > _MAX_QUEUES:
        raise FormatError(where, f"{brief(text)}; expected at most {_MAX_QUEUES} words")
    return words


def _numbers(where: str, text: object) -> tuple[int, ...]:
    words = _words(where, text)
    for word in words:
        if not re.fullmatch("[0-9]{1,9}", word):
            raise FormatError(where, f"{brief(word)} is no whole number")
    return tuple(map(int, words))


def _cpus(where: str, text: object, topology: Topology) -> tuple[int, ...]:
    cpus = _numbers(where, text)
    for cpu in cpus:
        if cpu not in topology.possible:
            raise FormatError(where, f"CPU {cpu} is not possible ({topology.possible} are)")
    return cpus


def _cpu_sets(where: str, text: object, topology: Topology) -> tuple[CpuSet, ...]:
    try:
        sets = tuple(CpuSet("" if word == "-" else word) for word in _words(where, text))
    except CpuListError as error:
        raise FormatError(where, str(error)) from None
    for cpus in sets:
        if odd := cpus - topology.possible:
            raise FormatError(where, f"CPUs {odd} are not possible ({topology.possible} are)")
    return sets


def _order(where: str, runs: object, devices: Sequence[RecordedDevice]) -> tuple[Step, ...]:
    """Read runs such as ``nvme0 1-6``: queues when first named are allocated, then requested."""
    if not isinstance(runs, list) or len(runs) > 2 * _MAX_QUEUES:
        raise FormatError(where, "expected a list of texts such as 'nvme0 1-6'")
    steps: list[Step] = []
    known = {(device.name, q) for device in devices for q in range(1, len(device.irqs))}
    seen: Counter[tuple[str, int]] = Counter()
    for run in runs:
        match = re.fullmatch("([a-z0-9]{1,32}) ([0-9]{1,4})(?:-([0-9]{1,4}))?", str(run))
        if not match:
            raise FormatError(where, f"{brief(run)}; expected a text such as 'nvme0 1-6'")
        for queue in range(int(match[2]), int(match[3] or match[2]) + 1):
            vector = match[1], queue
            seen[vector] += 1
            if vector not in known or seen[vector] > 2:
                raise FormatError(where, f"{brief(run)}: no such queue, or named a third time")
            steps.append(Step(*vector, "allocate" if seen[vector] == 1 else "request"))
    if steps and len(steps) < 2 * len(known):
        raise FormatError(where, f"{len(steps)} steps; expected two a queue, {2 * len(known)}")
    return tuple(steps)


def revision_of_release(release: str) -> Revision:
    """Tell which version of `group_cpus_evenly` a kernel release has.

    Before 6.3 the function stood in kernel/irq/affinity.c as ``irq_build_affinity_masks()`` and
    dealt in the same way, with the sort of that time.

    Raises
    ------
    RequestError
        If the release is older than 5.4, which allotted vectors to nodes in another way, or is no
        release at all.

    Examples
    --------
    >>> [revision_of_release(release).name for release in ("6.1.0-57-amd64", "6.12.117", "7.3.4")]
    ['numa-single-pop', 'numa', 'cluster']
    """
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", release)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < (5, 4):
        raise RequestError(f"kernel {brief(release)}: expected a release from 5.4 on")
    if version >= (7, 0):
        return REVISIONS["cluster"]
    return REVISIONS["numa" if version >= (6, 9) else "numa-single-pop"]


def isolated_cpus(cmdline: str, possible: CpuSet) -> tuple[CpuSet, CpuSet]:
    """Read which CPUs a kernel command line isolates.

    Parameters
    ----------
    cmdline : str
        The kernel's command line.
    possible : CpuSet
        The machine's possible CPUs.

    Returns
    -------
    tuple of two CpuSet
        CPUs that managed interrupts avoid (``isolcpus=managed_irq,...``), and those that are left
        out of queue maps (isolated from scheduling domains or from the tick).

    Notes
    -----
    Source: ``housekeeping_isolcpus_setup()`` in kernel/sched/isolation.c, and ``cpu_is_isolated()``
    as ``blk_mq_map_swqueue()`` uses it, Linux 6.12.  Queue maps leave isolated CPUs out from 6.10
    on (commit a46c27026da1, "blk-mq: don't schedule block kworker on isolated CPUs") and in later
    stable releases of 6.1; before, they kept them.

    Examples
    --------
    >>> isolated_cpus("quiet isolcpus=managed_irq,domain,2-3", CpuSet("0-7"))
    (CpuSet('2-3'), CpuSet('2-3'))
    >>> isolated_cpus("isolcpus=managed_irq,2-3 nohz_full=6", CpuSet("0-7"))
    (CpuSet('2-3'), CpuSet('6'))
    """
    irqs = maps = CpuSet()
    for word in cmdline.split():
        key, _, value = word.partition("=")
        flags, cpus = [], value
        while (head := cpus.partition(","))[0] in ("managed_irq", "domain", "nohz"):
            flags.append(head[0])
            cpus = head[2]
        if key not in ("isolcpus", "nohz_full") or not cpus:
            continue
        try:
            named = CpuSet(cpus) & possible
        except CpuListError:
            continue  # the kernel ignores it too, with a warning
        if key == "nohz_full" or not flags or {"domain", "nohz"} & set(flags):
            maps |= named
        if key == "isolcpus" and "managed_irq" in flags:
            irqs |= named
    return irqs, maps
