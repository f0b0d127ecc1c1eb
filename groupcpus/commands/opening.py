# SPDX-License-Identifier: GPL-2.0-only
"""Whatever a command is given for a machine: a name, a file, a line, or what people paste."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from groupcpus.errors import FormatError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, machine_names, read_machine
from groupcpus.observed.judging import expected_revision
from groupcpus.observed.recordings import Recording, load_recording, recording_names
from groupcpus.observed.what_if import machine_from_capture
from groupcpus.sources import Loaded, load
from groupcpus.sources.synthetic import parse_synthetic

__all__ = ["NEWEST", "OpenedMachine", "load_sources", "open_machine"]

NEWEST = "cluster"
"""The revision of the newest kernel, where a source does not say which it has."""


@dataclass(frozen=True)
class OpenedMachine:
    """A machine, the revision that its kernel has, and what had to be assumed of it."""

    machine: Machine
    revision: str = NEWEST
    assumed: tuple[str, ...] = ()


def load_sources(words: Sequence[str], arch: str | None = None) -> Loaded:
    """Load files that people have; ``-`` is what comes on stdin."""
    return load(*(sys.stdin.read() + "\n" if word == "-" else word for word in words), arch=arch)


def open_machine(
    words: Sequence[str], *, arch: str | None = None, irqchip: str | None = None
) -> OpenedMachine:
    """Open a machine by its name, by a line that describes it, or from files."""
    word = words[0]
    if len(words) == 1 and word != "-":
        if word in machine_names() or word.endswith(".toml"):
            return OpenedMachine(read_machine(word))
        if word in recording_names():
            return _of_recording(load_recording(word))
        if not Path(word).exists():
            if " " in word or ":" in word:
                return _of_line(word)
            read_machine(word)  # says what there is
    return _of_sources(load_sources(words, arch), irqchip)


def _of_line(line: str) -> OpenedMachine:
    try:
        topology = parse_synthetic(line)
    except FormatError as error:
        if "\n" in line or ":" not in line:
            read_machine(line)
        raise error from None
    drive, said = _assumed_drive(len(topology.possible))
    machine = Machine("synthetic", line, "x86_64", "x86", topology, (drive,), "a synthetic line")
    return OpenedMachine(machine, assumed=(said, "irqchip x86; --irqchip names another"))


def _of_recording(recording: Recording) -> OpenedMachine:
    devices = tuple(
        Device(
            device.name,
            "nvme",
            device.io_queues,
            recording.write_queues,
            recording.poll_queues,
        )
        for device in recording.devices
    )
    machine = Machine(
        recording.name,
        recording.machine,
        recording.arch,
        recording.irqchip,
        recording.topology,
        devices,
        recording.source,
    )
    return OpenedMachine(machine, recording.revision.name)


def _of_sources(loaded: Loaded, irqchip: str | None) -> OpenedMachine:
    assumed = list(loaded.notes)
    expected = expected_revision(loaded.kernel)
    if expected is None:
        kernel = f"kernel {loaded.kernel}" if loaded.kernel else "a kernel that is not named"
        assumed.append(f"{kernel}: {NEWEST} as in the newest; --before names another")
    if irqchip is None and loaded.arch is None and loaded.topology is not None:
        irqchip = "x86"
        assumed.append("irqchip x86, as no architecture is named; --irqchip names another")
    machine = machine_from_capture(loaded, irqchip=irqchip)
    if all(device.kind == "loop" for device in machine.devices):
        drive, said = _assumed_drive(len(machine.topology.possible))
        machine = replace(machine, devices=(*machine.devices, drive))
        assumed.append(said)
    return OpenedMachine(machine, expected or NEWEST, tuple(assumed))


def _assumed_drive(cpus: int) -> tuple[Device, str]:
    return Device("nvme0", "nvme", cpus), (
        f"one NVMe drive with {cpus} queues, one a CPU as its driver asks for; "
        "--devices and --queues say what you have"
    )
