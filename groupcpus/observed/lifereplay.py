# SPDX-License-Identifier: GPL-2.0-only
"""Predicts what a recording of life after boot shows in each phase.

`groupcpus.machines.life.Life` begins with what the kernel showed after its boot, and lives through
the events that were recorded.  Taken from a recording are the events, the numbers of interrupts
that were allocated anew, and what the boot left; everything after it is predicted.
"""

from collections.abc import Iterator

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import Vector
from groupcpus.errors import FormatError, GroupCpusError
from groupcpus.machines.devices import Device
from groupcpus.machines.irqcore import LiveInterrupt
from groupcpus.machines.life import Life
from groupcpus.machines.machine import Machine
from groupcpus.observed.recorded import Phase, PhaseDevice, Recording

__all__ = ["Prediction", "boot_calls", "phase_predictions"]

# Kind, device, queue or number, predicted, recorded.
Prediction = tuple[str, str, int, str, str]


def phase_predictions(
    recording: Recording, isolated: CpuSet, unmapped: CpuSet
) -> Iterator[tuple[str, list[Prediction]]]:
    """Predict each phase after the boot.

    Parameters
    ----------
    recording : Recording
        One with phases.
    isolated, unmapped : CpuSet
        The CPUs that managed interrupts avoid, and that queue maps leave out.

    Yields
    ------
    str and list of tuple
        The phase, numbered and named by its event, and its predictions.

    Raises
    ------
    FormatError
        If an event cannot be read, or a device is bound that was not there at boot.
    """
    life = _begin(recording, isolated)
    before = recording.phases[0]
    for number, phase in enumerate(recording.phases[1:], start=1):
        where = f"{recording.name}: phase {number}, {phase.event}"
        calls = _live(life, before, phase, where)
        title = f"{number} {phase.event}"
        yield title, list(_compare(life, phase, calls, unmapped))
        before = phase


def boot_calls(recording: Recording) -> Iterator[Prediction]:
    """Predict the calls at boot: every admin queue's, then every disk's; offsets one by one.

    Which disk takes which offset depends on how their probes interleave.
    """
    logged = recording.phases[0].calls
    if logged is None:
        return
    revision = recording.revision
    possible = len(recording.topology.possible)
    sets = [
        Device("nvme0", "nvme", device.io_queues).queue_sets(possible)
        for device in recording.devices
    ]
    predicted = []
    counter = 0
    for first, last in ((0, 1), (1, None)):
        for queue_sets in sets:
            for queue_set in queue_sets[first:last]:
                predicted.append((queue_set.queues, revision.offset(queue_set.queues, counter)))
                counter += revision.advance(queue_set.queues)
    yield from _calls(sorted(predicted), sorted(logged))


def _calls(predicted: list[tuple[int, int]], logged: list[tuple[int, int]]) -> Iterator[Prediction]:
    for at in range(max(len(predicted), len(logged))):
        texts = (
            f"{calls[at][0]} groups, offset {calls[at][1]}" if at < len(calls) else "none"
            for calls in (predicted, logged)
        )
        yield ("call", "", at, *texts)  # type: ignore[misc]


def _begin(recording: Recording, isolated: CpuSet) -> Life:
    """Begin with what the kernel showed after its boot; devices are named by their PCI address."""
    devices = [
        Device(f"pci-{device.pci}", "nvme", device.io_queues) for device in recording.devices
    ]
    interrupts = []
    online = recording.topology.online
    for device, recorded in zip(devices, recording.devices, strict=True):
        vectors = zip(recorded.irqs, recorded.masks, recorded.effective, strict=True)
        for queue, (number, mask, cpu) in enumerate(vectors):
            started = queue == 0 or bool(mask & online)
            vector = Vector(queue, mask.mask, queue > 0, cpu if started else None)
            kind = "default" if queue else "admin"
            interrupts.append(LiveInterrupt(number, device.name, queue, kind, vector, cpu, started))
    if recording.irqchip == "x86":  # elsewhere, what is no message interrupt has its own chip
        for number, name, mask, cpu in recording.phases[0].others:
            vector = Vector(0, mask.mask, False, cpu)
            interrupts.append(LiveInterrupt(number, f"irq {name}", 0, "other", vector, cpu, True))
    machine = Machine(
        recording.name,
        recording.machine,
        recording.arch,
        recording.irqchip,
        recording.topology,
        tuple(devices),
    )
    maps = {
        device.name: [("default", cpus) for cpus in recorded.maps]
        for device, recorded in zip(devices, recording.devices, strict=True)
    }
    offsets = [offset for _, offset in recording.phases[0].calls or ()]
    rotates = any(recording.revision.advance(numgrps) for numgrps in (1, 2))
    counter = max(offsets, default=-1) + 1 if rotates else 0
    return Life.begun(machine, recording.revision, interrupts, maps, counter, isolated)


def _live(life: Life, before: Phase, phase: Phase, where: str) -> list[tuple[int, int]]:
    """Let an event happen, and return the calls of `group_cpus_evenly` that it made."""
    action, *words = phase.event.split()
    shown = {device.pci: device.irqs for device in phase.devices}
    addresses = {device.name: device.pci for device in before.devices}
    first = len(life.steps)
    try:
        if action in ("off", "on"):
            _hotplug(life, action, [int(word) for word in words])
        elif action == "smt":
            life.smt(*words)
        elif action == "reset":
            for name in words:
                life.reset(f"pci-{addresses[name]}", shown[addresses[name]])
        elif action == "unbind":
            for pci in words:
                life.unbind(f"pci-{pci}")
        elif action == "bind":
            for pci in words:
                life.bind(f"pci-{pci}", shown[pci])
    except (GroupCpusError, ValueError, KeyError, TypeError) as error:
        raise FormatError(where, f"cannot happen: {error}") from None
    return [
        (call.numgrps, call.spread_offset) for step in life.steps[first:] for call in step.calls
    ]


def _hotplug(life: Life, action: str, cpus: list[int]) -> None:
    """Take CPUs offline or bring them online, but for what a kernel refuses or has done already."""
    for cpu in cpus:
        if action == "on":
            if cpu not in life.now.online:
                life.online(cpu)
        elif cpu in life.now.online and (cpu or life.machine.arch != "x86_64"):
            life.offline(cpu)


def _compare(
    life: Life, phase: Phase, calls: list[tuple[int, int]], unmapped: CpuSet
) -> Iterator[Prediction]:
    yield "online", "", 0, str(life.now.online), str(phase.online)
    interrupts = {one.number: one for one in life.interrupts}
    bound = sorted(name.removeprefix("pci-") for name in life.maps)
    yield "device", "", 0, " ".join(bound), " ".join(sorted(one.pci for one in phase.devices))
    for device in phase.devices:
        maps = life.maps.get(f"pci-{device.pci}", ())
        for at in range(max(len(maps), len(device.maps))):
            predicted = str(maps[at] - unmapped) if at < len(maps) else "?"
            recorded = str(device.maps[at]) if at < len(device.maps) else "?"
            yield "map", device.name, at, predicted, recorded
        for queue, number in enumerate(device.irqs):
            yield from _interrupt(device, queue, interrupts.get(number))
    if phase.calls is not None:
        yield from _calls(calls, list(phase.calls))
    for number, name, mask, cpu in phase.others:
        if (one := interrupts.get(number)) and one.device == f"irq {name}":
            yield "other", name, number, f"{one.mask} {one.effective}", f"{mask} {cpu}"


def _interrupt(device: PhaseDevice, queue: int, one: LiveInterrupt | None) -> Iterator[Prediction]:
    """Compare an interrupt's mask and effective CPU; the admin queue's both count as ``admin``."""
    mask, cpu = "?", "?"
    if one is not None and one.queue == queue:
        mask, cpu = str(one.mask), "-" if one.effective is None else str(one.effective)
    recorded = str(device.masks[queue]), device.effective[queue]
    if queue:
        yield "mask", device.name, queue, mask, recorded[0]
        yield "effective", device.name, queue, cpu, recorded[1]
    else:
        yield "admin", device.name, 0, f"{cpu} of {mask}", f"{recorded[1]} of {recorded[0]}"
