# SPDX-License-Identifier: GPL-2.0-only
"""Recordings of real boots, and what the engine predicts for them, queue by queue.

A recording (``data/recordings/NAME.json``) holds what a stock kernel showed after it had booted:
its topology, every NVMe interrupt with its mask and effective CPU, and every queue map.  `replay`
computes the same from the topology and the devices alone, and compares.

At boot, devices probe in parallel and the order of their requests is not recorded; there
`find_interleaving` looks for one that explains the effective CPUs.  A recording then repeats the
probes one at a time (``rebind``), and so everything is determined.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from groupcpus.cpuset import CpuSet, _brief
from groupcpus.devices import Device
from groupcpus.errors import CpuListError, FormatError, GroupCpusError, RequestError
from groupcpus.grouping import group_cpus_evenly
from groupcpus.irqchip import Irqchip, Vector, make_irqchip
from groupcpus.machines import data_dir
from groupcpus.revisions import REVISIONS, Revision
from groupcpus.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KINDS",
    "MAX_STATES",
    "Interleaving",
    "RecordedDevice",
    "Recording",
    "Replay",
    "Row",
    "Step",
    "find_interleaving",
    "isolated_cpus",
    "load_recording",
    "recording_from_dict",
    "recording_names",
    "replay",
    "revision_of_release",
]

KINDS = ("mask", "map", "effective", "admin")
MAX_STATES = 200_000

_MAX_BYTES = 4 << 20
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
            f"recording {_brief(str(name_or_path))}: neither a file nor one of "
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
        raise FormatError(where, f"{_brief(doc)} is no table of fields")
    if unknown := sorted(map(str, set(doc) - _FIELDS)):
        raise FormatError(where, f"unknown field {_brief(unknown[0])}")
    texts = {key: _text(where, doc, key) for key in _TEXTS}
    if texts["arch"] not in _IRQCHIP_OF_ARCH:
        expected = " or ".join(_IRQCHIP_OF_ARCH)
        raise FormatError(f"{where}: arch", f"{_brief(texts['arch'])}; expected {expected}")
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
        rebind=_devices(f"{where}: rebind", doc.get("rebind"), topology),
    )
    for key, value in nvme.items():
        fields[key] = _natural(f"{where}: nvme.{key}", value)
    return Recording(**fields)


def _text(where: str, doc: Mapping[str, Any], key: str) -> str:
    if not isinstance(doc.get(key), str):
        found = _brief(doc[key]) if key in doc else "missing"
        raise FormatError(f"{where}: {key}", f"{found}; expected a text")
    return doc[key]


def _natural(where: str, value: object, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_QUEUES:
        raise FormatError(
            where, f"{_brief(value)} is no whole number from {least} to {_MAX_QUEUES}"
        )
    return value


def _devices(where: str, entries: object, topology: Topology) -> tuple[RecordedDevice, ...]:
    if not isinstance(entries, list) or len(entries) > _MAX_DEVICES:
        raise FormatError(where, f"expected a list of at most {_MAX_DEVICES} devices")
    devices = tuple(_device(f"{where}[{at}]", entry, topology) for at, entry in enumerate(entries))
    names = Counter(device.name for device in devices)
    if twice := [name for name, count in names.items() if count > 1]:
        raise FormatError(where, f"more than one device is called {_brief(twice[0])}")
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
        raise FormatError(where, f"{_brief(text)}; expected at most {_MAX_QUEUES} words")
    return words


def _numbers(where: str, text: object) -> tuple[int, ...]:
    words = _words(where, text)
    for word in words:
        if not re.fullmatch("[0-9]{1,9}", word):
            raise FormatError(where, f"{_brief(word)} is no whole number")
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
            raise FormatError(where, f"{_brief(run)}; expected a text such as 'nvme0 1-6'")
        for queue in range(int(match[2]), int(match[3] or match[2]) + 1):
            vector = match[1], queue
            seen[vector] += 1
            if vector not in known or seen[vector] > 2:
                raise FormatError(where, f"{_brief(run)}: no such queue, or named a third time")
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
        If the release is older than 5.5, which allotted vectors to nodes in another way, or is no
        release at all.

    Examples
    --------
    >>> [revision_of_release(release).name for release in ("6.1.0-57-amd64", "6.12.117", "7.3.4")]
    ['numa-single-pop', 'numa', 'cluster']
    """
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", release)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < (5, 5):
        raise RequestError(f"kernel {_brief(release)}: expected a release from 5.5 on")
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


@dataclass(frozen=True)
class Interleaving:
    """An order of steps that explains the effective CPUs of devices probed at once, or none.

    Attributes
    ----------
    found : bool or None
        Whether there is one; None: the search gave up.
    steps : tuple of Step
        The order, if there is one.
    states : int
        How many states a search saw; 0 if the kernel logged the order.
    late : tuple of Step
        Allocations that chose a CPU before the one ahead of them was counted: the irqchip chooses
        without a lock, so two devices may both take the same least loaded CPU.
    """

    found: bool | None
    steps: tuple[Step, ...]
    states: int
    late: tuple[Step, ...] = ()

    def __str__(self) -> str:
        if self.found and not self.states:
            late = f", {len(self.late)} chosen early" if self.late else ""
            return f"the logged order of {len(self.steps)} steps{late}"
        verdict = {
            True: f"found an order of {len(self.steps)} steps",
            False: "no order explains it",
            None: "gave up",
        }[self.found]
        return f"{verdict} after {self.states} states"


class _State:
    """How far parallel probes have come: each device's next step, and the irqchip."""

    def __init__(self, search: "_Search", chip: Irqchip, vectors: list[list[Vector]]) -> None:
        self.search = search
        self.chip = chip
        self.vectors = vectors  # allocated so far, of each device
        self.requested = [0] * len(vectors)

    @property
    def key(self) -> tuple[Any, ...]:
        """All that decides what may follow, if every request so far got its recorded CPU."""
        waiting = (
            tuple(vector.charged for vector in vectors[done:])
            for vectors, done in zip(self.vectors, self.requested, strict=True)
        )
        return (*self.requested, *waiting)

    @property
    def complete(self) -> bool:
        return self.requested == list(map(len, self.search.queues))

    def children(self) -> Iterator[tuple[Step, "_State"]]:
        """Try the next step of every device."""
        for at in self.search.preference(self):
            device, queues = self.search.devices[at], self.search.queues[at]
            child = _State(self.search, self.chip.fork(), list(self.vectors))
            child.requested = list(self.requested)
            if (allocated := len(self.vectors[at])) < len(queues):
                queue = queues[allocated]
                child.vectors[at] = self.vectors[at] + child.chip.allocate([device.masks[queue]])
                yield Step(device.name, queue, "allocate"), child
            elif self.requested[at] < len(queues):
                queue = queues[self.requested[at]]
                cpu = child.chip.request(self.vectors[at][self.requested[at]])
                child.requested[at] += 1
                if cpu is None or cpu == device.effective[queue]:
                    yield Step(device.name, queue, "request"), child


class _Search:
    """A depth-first search for an order of steps that gives the recorded effective CPUs."""

    def __init__(
        self, devices: Sequence[RecordedDevice], chip: Irqchip, cpus: CpuSet | None = None
    ) -> None:
        """Search through all queues, or those alone whose masks lie in `cpus`."""
        self.devices = devices
        self.queues = [
            [
                queue
                for queue in range(1, len(device.masks))
                if cpus is None or device.masks[queue] <= cpus
            ]
            for device in devices
        ]
        chip = chip.fork()
        allocated: list[list[Vector]] = [[] for _ in devices]
        if not chip.charges_when_allocated:
            # When they are allocated makes no difference then: no need to search through it.
            allocated = [
                chip.allocate([device.masks[queue] for queue in queues])
                for device, queues in zip(devices, self.queues, strict=True)
            ]
        self.start = _State(self, chip, allocated)

    def preference(self, state: _State) -> list[int]:
        """Order the devices: allocations by interrupt number, then the one that lags behind.

        Numbers are given out in ascending order as vectors are allocated, but for those that were
        freed in between.
        """

        def rank(at: int) -> tuple[int, float]:
            queues, allocated = self.queues[at], len(state.vectors[at])
            if allocated < len(queues):
                return 0, self.devices[at].irqs[queues[allocated]]
            return 1, state.requested[at] / (len(queues) or 1)

        return sorted(range(len(self.devices)), key=rank)

    def run(self, max_states: int) -> Interleaving:
        seen = {self.start.key}
        steps: list[Step] = []
        stack = [(self.start, self.start.children())]
        while stack:
            state, todo = stack[-1]
            if state.complete:
                return Interleaving(True, tuple(steps), len(seen))
            if len(seen) >= max_states:
                return Interleaving(None, (), len(seen))
            for step, child in todo:
                # A state that was seen before led nowhere: no step can be undone.
                if child.key not in seen:
                    seen.add(child.key)
                    steps.append(step)
                    stack.append((child, child.children()))
                    break
            else:
                stack.pop()
                del steps[-1:]
        return Interleaving(False, (), len(seen))


def _separate(devices: Sequence[RecordedDevice]) -> list[CpuSet]:
    """Split the CPUs so that no mask of a managed interrupt has CPUs of two parts."""
    parts: list[CpuSet] = []
    # Not a set: its order would change from run to run, and the number of states seen with it.
    for mask in dict.fromkeys(mask for device in devices for mask in device.masks[1:]):
        touched = [part for part in parts if part & mask]
        parts = [part for part in parts if not part & mask]
        parts.append(mask | CpuSet(cpu for part in touched for cpu in part))
    return parts


def find_interleaving(
    devices: Sequence[RecordedDevice], chip: Irqchip, max_states: int = MAX_STATES
) -> Interleaving:
    """Look for an order of requests that explains the effective CPUs of devices probed at once.

    Each device allocates its managed vectors in queue order, then requests them in queue order;
    the steps of several devices may interleave in any way.

    Parameters
    ----------
    devices : sequence of RecordedDevice
        What was recorded; vector 0 of each is left out.
    chip : Irqchip
        The irqchip before the first step; it is left as it is.
    max_states : int
        After so many states the search gives up.

    Returns
    -------
    Interleaving
        An order, or that there is none, or that the search gave up.

    Examples
    --------
    >>> two = load_recording("x86-16cpu-1node-2x6-7.3")
    >>> print(find_interleaving(two.devices, make_irqchip("x86", two.topology)))
    found an order of 12 steps after 31 states
    """
    states = 0
    if len(devices) > 1 and not chip.charges_when_allocated:
        # Where masks have no CPU in common, requests can't disturb each other.  If the few requests
        # of one part have no order, all together have none either, and that is soon known.
        for cpus in _separate(devices):
            part = _Search(devices, chip, cpus).run(max_states)
            states += part.states
            if part.found is False:
                return Interleaving(False, (), states)
    whole = _Search(devices, chip).run(max_states)
    return Interleaving(whole.found, whole.steps, states + whole.states)


@dataclass(frozen=True)
class Row:
    """Something predicted, beside what was recorded.

    Attributes
    ----------
    phase : {"boot", "rebind"}
        When.
    device : str
        Whose.
    queue : int
        The interrupt's vector, which is the I/O queue's number too (0: admin; maps: the hardware
        queue, from 0).
    kind : {"mask", "map", "effective", "admin"}
        The affinity of a managed interrupt, the CPUs of a hardware queue, the effective CPU of a
        managed interrupt, that of the admin queue's.
    predicted, recorded : str
        A cpulist or a CPU; ``?`` for what cannot be predicted.
    basis : str
        What the prediction rests on: ``topology``, or the order of requests that was used.
    """

    phase: str
    device: str
    queue: int
    kind: str
    predicted: str
    recorded: str
    basis: str

    @property
    def match(self) -> bool:
        """Whether the prediction came true."""
        return self.predicted == self.recorded

    def __str__(self) -> str:
        return (
            f"{self.phase} {self.device} {self.kind} {self.queue}: predicted {self.predicted} "
            f"({self.basis}), recorded {self.recorded}"
        )


@dataclass(frozen=True)
class Replay:
    """A recording beside what was predicted for it.

    Attributes
    ----------
    recording : Recording
        What was recorded.
    revision : Revision
        The version of `group_cpus_evenly` that was used.
    interleaving : Interleaving
        How the parallel probes at boot are explained.
    rows : tuple of Row
        Every prediction.
    """

    recording: Recording
    revision: Revision
    interleaving: Interleaving
    rows: tuple[Row, ...]

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a prediction; columns as in `Row`, and match."""
        import pandas as pd

        columns = ["phase", "device", "queue", "kind", "predicted", "recorded", "basis", "match"]
        rows = [[getattr(row, column) for column in columns] for row in self.rows]
        return pd.DataFrame(rows, columns=columns)

    def count(self, kind: str, phase: str | None = None) -> tuple[int, int]:
        """Count predictions of a kind that came true, and all of them."""
        rows = [row for row in self.rows if row.kind == kind and phase in (None, row.phase)]
        return sum(row.match for row in rows), len(rows)

    @property
    def matches(self) -> bool:
        """Whether every prediction came true."""
        return all(row.match for row in self.rows)

    def document(self) -> dict[str, Any]:
        """Give the result as JSON knows it: counts, the search's end, and what did not match."""
        return {
            "name": self.recording.name,
            "kernel": self.recording.kernel,
            "revision": self.revision.name,
            "irqchip": self.recording.irqchip,
            "matched": {kind: list(self.count(kind)) for kind in KINDS},
            "boot": str(self.interleaving),
            "mismatches": [str(row) for row in self.rows if not row.match],
        }

    def __str__(self) -> str:
        counts = (f"{kind} {'/'.join(map(str, self.count(kind)))}" for kind in KINDS)
        return f"{self.recording.name}: {', '.join(counts)}; boot: {self.interleaving}"


def replay(
    recording: Recording | str | Path,
    *,
    revision: Revision | None = None,
    max_states: int = MAX_STATES,
) -> Replay:
    """Predict all that a recording shows, and compare.

    Every mask follows from the topology, every queue map from the masks.  Effective CPUs follow
    from the order of requests: known for one device, for ``rebind``, and where the kernel logged
    it; else `find_interleaving` looks for one.  The admin queue's interrupt is predicted where the
    order is known; on x86 it goes to the CPU with most vectors left, so that `other_irqs` count.

    Parameters
    ----------
    recording : Recording or str or Path
        What to replay; a name or path as `load_recording` takes.
    revision : Revision, optional
        The version of `group_cpus_evenly`; the kernel's own when left out.
    max_states : int
        When the search for an order gives up.

    Examples
    --------
    >>> print(replay("x86-8cpu-4nodes-1x3-poll1-7.3"))
    x86-8cpu-4nodes-1x3-poll1-7.3: mask 4/4, map 6/6, effective 4/4, admin 2/2; \
boot: found an order of 2 steps after 3 states
    """
    if not isinstance(recording, Recording):
        recording = load_recording(recording)
    prediction = _Prediction(recording, revision or recording.revision)
    rows: list[Row] = []
    for phase, devices in (("boot", recording.devices), ("rebind", recording.rebind)):
        for device in devices:
            rows += prediction.masks_and_maps(phase, device)
    interleaving = prediction.interleaving(max_states)
    rows += prediction.effective_at_boot(interleaving)
    rows += prediction.effective_in_turn("rebind", recording.rebind, "one at a time")
    return Replay(recording, prediction.revision, interleaving, tuple(rows))


class _Prediction:
    """What a recording's topology, kernel and command line imply."""

    def __init__(self, recording: Recording, revision: Revision) -> None:
        self.recording = recording
        self.revision = revision
        possible = recording.topology.possible
        self.isolated, self.unmapped = isolated_cpus(recording.cmdline, possible)

    def sets(self, device: RecordedDevice) -> Iterator[tuple[bool, tuple[CpuSet, ...]]]:
        """Group the CPUs for each of a device's calls after the admin queue's."""
        recording = self.recording
        nvme = Device(
            "nvme0", "nvme", device.io_queues, recording.write_queues, recording.poll_queues
        )
        for queue_set in nvme.queue_sets(len(recording.topology.possible))[1:]:
            grouping = group_cpus_evenly(
                recording.topology, queue_set.queues, revision=self.revision
            )
            yield queue_set.interrupts, grouping.masks[: grouping.nummasks]

    def masks(self, device: RecordedDevice) -> list[CpuSet]:
        """Predict the masks of a device's managed interrupts."""
        return [mask for interrupts, masks in self.sets(device) if interrupts for mask in masks]

    def masks_and_maps(self, phase: str, device: RecordedDevice) -> Iterator[Row]:
        masks = self.masks(device)
        maps = [mask - self.unmapped for _, group in self.sets(device) for mask in group]
        for kind, first, predicted, recorded in (
            ("mask", 1, masks, device.masks[1:]),
            ("map", 0, maps, device.maps),
        ):
            for at in range(max(len(predicted), len(recorded))):
                mine, theirs = (
                    str(sets[at]) if at < len(sets) else "?" for sets in (predicted, recorded)
                )
                yield Row(phase, device.name, first + at, kind, mine, theirs, "topology")

    def chip(self) -> Irqchip:
        """Make the irqchip as it is before the first NVMe device."""
        topology = self.recording.topology
        chip = make_irqchip(self.recording.irqchip, topology, self.isolated)
        chip.assign([CpuSet([cpu]) for cpu in self.recording.other_irqs], managed=False)
        return chip

    def interleaving(self, max_states: int) -> Interleaving:
        """Explain the parallel probes by the order that was logged, or look for one."""
        recording = self.recording
        if not recording.order:
            return find_interleaving(recording.devices, self.chip(), max_states)
        masks = {device.name: device.masks[1:] for device in recording.devices}
        placed, late = self.follow(recording.order, masks)
        effective = {device.name: device.effective for device in recording.devices}
        explained = all(
            cpu in (None, effective[device][queue]) for (device, queue), (_, cpu) in placed.items()
        )
        return Interleaving(explained, recording.order, 0, late)

    def follow(
        self, steps: Sequence[Step], masks: Mapping[str, Sequence[CpuSet]]
    ) -> tuple[dict[tuple[str, int], tuple[Vector, int | None]], tuple[Step, ...]]:
        """Take the steps of an order, and tell which allocations chose before the last counted.

        That is seen where a log has another CPU for an allocation than the next one in turn.
        """
        charged = {
            (device.name, queue): cpu
            for device in self.recording.devices
            for queue, cpu in enumerate(device.charged, start=1)
        }
        chip = earlier = self.chip()
        vectors: dict[tuple[str, int], Vector] = {}
        if not chip.charges_when_allocated:
            for name in masks:
                allocated = enumerate(chip.allocate(masks[name]), start=1)
                vectors |= {(name, queue): vector for queue, vector in allocated}
        placed: dict[tuple[str, int], tuple[Vector, int | None]] = {}
        late: list[Step] = []
        for step in steps:
            which = step.device, step.queue
            if step.queue > len(masks[step.device]):
                continue  # predicted to have fewer queues, which the rows of its masks say
            now = chip.fork()
            if step.action == "request":
                placed[which] = vectors[which], chip.request(vectors[which])
            elif chip.charges_when_allocated:
                mask = masks[step.device][step.queue - 1]
                vectors[which] = chip.allocate([mask])[0]
                if vectors[which].charged != charged.get(which, vectors[which].charged):
                    chip = now.fork()
                    vectors[which] = chip.allocate([mask], seen=earlier)[0]
                    late.append(step)
            earlier = now
        return placed, tuple(late)

    def effective_at_boot(self, interleaving: Interleaving) -> Iterator[Row]:
        recording = self.recording
        if len(recording.devices) == 1:
            yield from self.effective_in_turn("boot", recording.devices, "only device")
            return
        basis = "logged order" if recording.order else "found order"
        masks = {device.name: self.masks(device) for device in recording.devices}
        placed, _ = self.follow(interleaving.steps, masks)
        for device in recording.devices:
            for queue, cpu in enumerate(device.effective[1:], start=1):
                which = device.name, queue
                predicted = self.shown(*placed[which]) if which in placed else "?"
                yield Row("boot", device.name, queue, "effective", predicted, str(cpu), basis)

    def effective_in_turn(
        self, phase: str, devices: Sequence[RecordedDevice], basis: str
    ) -> Iterator[Row]:
        """Predict the effective CPUs of devices that probe one after another."""
        topology = self.recording.topology
        home = next(cpus for cpus in topology.nodes.values() if cpus & topology.online)
        chip = self.chip()
        for device in devices:
            masks = [home & topology.online, *self.masks(device)]
            vectors = chip.allocate(masks, [False, *[True] * (len(masks) - 1)])
            for queue, vector in enumerate(vectors):
                predicted = self.shown(vector, chip.request(vector))
                recorded = str(device.effective[queue]) if queue < len(device.effective) else "?"
                kind = "effective" if queue else "admin"
                yield Row(phase, device.name, queue, kind, predicted, recorded, basis)

    def shown(self, vector: Vector, cpu: int | None) -> str:
        """Give the effective CPU that /proc shows, also of an interrupt that is shut down."""
        if cpu is None:
            # Nothing handles it; x86 shows the first online CPU, an irqchip that charges when it
            # allocates the CPU that was charged.
            cpu = self.recording.topology.online.first if vector.charged is None else vector.charged
        return str(cpu)
