# SPDX-License-Identifier: GPL-2.0-only
"""The form of recordings of life after boot: a phase for the boot, and one for each event.

Its fields are described in ``data/recordings/life/README.md``.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, brief
from groupcpus.observed.fields import Fields
from groupcpus.observed.recorded import Phase, PhaseDevice, RecordedDevice, RecordedStep, Recording
from groupcpus.sources.qemu import irqchip_of_qemu

__all__ = ["check_apart", "life_recording", "read_irqchip", "read_topology"]

_ARCHES = ("x86_64", "arm64")
_MAX_PHASES = 1000
_MAX_DEVICES = 256
_MAX_LOG = 100_000


class _Entry(NamedTuple):
    """A line of a phase's log."""

    kind: str
    details: Fields

    def number(self, key: str) -> int:
        return self.details.number(key, self.details.doc.get(key))


def life_recording(fields: Fields) -> Recording:
    """Read a recording of life after boot.

    Raises
    ------
    FormatError
        If a field is missing or not what it should be.
    """
    topology = read_topology(fields)
    name = fields.text("lib_group_cpus")
    if name not in REVISIONS:
        raise fields.wrong("lib_group_cpus", name, f"one of {', '.join(REVISIONS)}")
    tables = [
        table
        for table in fields.tables("phases", most=_MAX_PHASES)
        if table.doc.get("online") is not None  # else the machine had stopped
    ]
    if not tables:
        raise FormatError(fields.path("phases"), "expected at least one, the boot")
    # A kernel that rotates is none of a release, whether the file says so or not.
    patched = bool(fields.doc.get("patched_build", REVISIONS[name].advance(2)))
    logs = [_log(table) for table in tables]
    phases = tuple(
        _phase(table, topology.possible, log if patched else None)
        for table, log in zip(tables, logs, strict=True)
    )
    rotates = any(REVISIONS[name].advance(numgrps) for numgrps in (1, 2))
    devices, order = _boot(tables[0], phases[0], logs[0], rotates)
    return Recording(
        **{key: fields.text(key) for key in ("name", "kernel", "arch", "machine")},
        **{key: fields.text(key, "") for key in ("package", "qemu", "cmdline", "source")},
        notes="" if fields.doc.get("complete", True) else "its script did not come to its end",
        irqchip=read_irqchip(fields),
        topology=topology,
        write_queues=0,
        poll_queues=0,
        other_irqs=tuple(cpu for _, _, _, cpu in phases[0].others),
        devices=devices,
        order=order,
        rebind=(),
        revision=REVISIONS[name],
        phases=phases,
    )


def read_topology(fields: Fields) -> Topology:
    """Read a recording's topology, of which a CPU at least is online."""
    try:
        topology = Topology.from_dict(fields.doc.get("topology", "missing"))
    except GroupCpusError as error:
        raise FormatError(fields.path("topology"), str(error)) from None
    if not topology.online:
        raise FormatError(f"{fields.where}: topology.online", "expected at least one CPU")
    return topology


def read_irqchip(fields: Fields) -> str:
    """Read which irqchip a recorded machine has: it says so, or QEMU's arguments do."""
    arch = fields.text("arch")
    if arch not in _ARCHES:
        raise fields.wrong("arch", arch, " or ".join(_ARCHES))
    chip = fields.text("irqchip", "")
    if not chip:
        chip = irqchip_of_qemu(arch, fields.text("kernel"), fields.text("qemu", "")) or ""
    if chip not in IRQCHIPS:
        raise FormatError(
            fields.path("irqchip"),
            f"{brief(chip) if chip else 'missing, and qemu does not tell it'}; expected one of "
            f"{', '.join(IRQCHIPS)}",
        )
    return chip


def check_apart(where: str, devices: Sequence[tuple[str, Sequence[int]]]) -> None:
    """Refuse two devices of one name, and two interrupts of one number."""
    names = Counter(name for name, _ in devices)
    numbers = Counter(str(number) for _, irqs in devices for number in irqs)
    for counts, what in ((names, "device is called"), (numbers, "vector has the number")):
        if counts and max(counts.values()) > 1:
            twice = counts.most_common(1)[0][0]
            raise FormatError(where, f"more than one {what} {brief(twice)}")


def _phase(fields: Fields, possible: CpuSet, log: Sequence[_Entry] | None) -> Phase:
    devices = []
    for table in fields.tables("devices", most=_MAX_DEVICES):
        irqs = table.numbers("irqs")
        masks = table.cpu_sets("masks", possible)
        effective = tuple(table.words("effective"))
        if not len(irqs) == len(masks) == len(effective) > 0:
            raise FormatError(
                table.where, f"{len(irqs)} irqs, {len(masks)} masks, {len(effective)} effective"
            )
        maps = table.cpu_sets("maps", possible)
        name, pci = table.text("name"), table.text("pci")
        devices.append(PhaseDevice(name, pci, irqs, masks, effective, maps))
    check_apart(fields.path("devices"), [(one.name, one.irqs) for one in devices])
    others = []
    for entry in fields.entries("other_irqs", []):
        if not isinstance(entry, list) or len(entry) != 4:
            raise fields.wrong("other_irqs", entry, "number, name, affinity and effective CPU")
        number, name, affinity, effective = entry
        if effective and affinity:  # else no single CPU handles it
            inner = Fields({"affinity": affinity, "effective": effective}, fields.where)
            [cpu, *_] = inner.cpu_numbers("effective", possible)
            [mask, *_] = inner.cpu_sets("affinity", possible)
            others.append((fields.number("other_irqs", number), str(name), mask, cpu))
    calls = None
    if log is not None:
        made = (entry for entry in log if entry.kind == "group")
        calls = tuple((entry.number("n"), entry.number("offset")) for entry in made)
    online = Fields({"online": fields.text("online") or "-"}, fields.where)
    [cpus, *_] = online.cpu_sets("online", possible)
    return Phase(fields.text("event"), cpus, tuple(devices), tuple(others), calls)


def _log(fields: Fields) -> list[_Entry]:
    entries = []
    for at, line in enumerate(fields.entries("log", [], _MAX_LOG)):
        if not isinstance(line, list) or len(line) != 3:
            raise fields.wrong(f"log[{at}]", line, "a time, a kind and details")
        entries.append(_Entry(str(line[1]), Fields(line[2], fields.path(f"log[{at}]"))))
    return entries


def _boot(
    fields: Fields, phase: Phase, log: Sequence[_Entry], rotates: bool
) -> tuple[tuple[RecordedDevice, ...], tuple[RecordedStep, ...]]:
    """Read the devices of the boot, and the order of their steps as far as it was logged."""
    owners = {
        number: (device.name, queue)
        for device in phase.devices
        for queue, number in enumerate(device.irqs)
        if queue
    }
    seen: dict[tuple[str, int], list[tuple[int, int]]] = {owner: [] for owner in owners.values()}
    for at, entry in enumerate(log):
        if entry.kind in ("place", "its") and (owner := owners.get(entry.number("irq"))):
            seen[owner].append((at, entry.number("cpu")))
    # The translation service chooses twice: when a vector is allocated, and when it is requested.
    # A number may have been another's admin queue's before, so the last ones count.
    twice = any(entry.kind == "its" for entry in log)
    actions = ("allocate", "request") if twice else ("request",)
    steps: list[tuple[int, RecordedStep]] = []
    charged: dict[tuple[str, int], int] = {}
    for owner, choices in seen.items():
        last = choices[-len(actions) :]
        for action, (at, cpu) in zip(actions, last, strict=False):
            steps.append((at, RecordedStep(*owner, action)))
            if action == "allocate":
                charged[owner] = cpu
    if len(steps) < len(actions) * len(owners):
        steps, charged = [], {}  # not logged, or not all of it
    devices = []
    for device in phase.devices:
        shown = Fields({"effective": " ".join(device.effective)}, f"{fields.where}: {device.name}")
        devices.append(
            RecordedDevice(
                device.name,
                device.pci,
                max(1, len(device.maps)),
                device.irqs,
                device.masks,
                shown.cpu_numbers("effective", phase.online),
                device.maps,
                tuple(
                    charged[device.name, queue]
                    for queue in range(1, len(device.irqs))
                    if (device.name, queue) in charged
                ),
                _offset(device.pci, log) if rotates else 0,
            )
        )
    return tuple(devices), tuple(step for _, step in sorted(steps, key=lambda pair: pair[0]))


def _offset(pci: str, log: Sequence[_Entry]) -> int | None:
    """Return the offset that the call for a device's interrupts took, by the thread it was in."""
    asked: tuple[Any, int] | None = None
    offset = None
    for entry in log:
        details = entry.details.doc
        if entry.kind == "io-vectors" and details.get("pci") == pci:
            asked = details.get("pid"), entry.number("n") - 1
        elif entry.kind == "group" and asked == (details.get("pid"), details.get("n")):
            offset, asked = entry.number("offset"), None
    return offset
