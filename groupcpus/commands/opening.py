# SPDX-License-Identifier: GPL-2.0-only
"""Whatever a command is given for a machine: a name, a file, a line, or what people paste."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from groupcpus.machines.machine import Machine, machine_names
from groupcpus.observed.judging import expected_revision
from groupcpus.observed.what_if import machine_from_capture
from groupcpus.sources import Loaded, load
from groupcpus.sources.assembled import machine_of
from groupcpus.sources.found import irqchip_of, valid_name

__all__ = ["NEWEST", "OpenedMachine", "load_sources", "open_machine"]

NEWEST = "cluster"
"""The revision of the newest kernel, where a source does not say which it has."""


@dataclass(frozen=True)
class OpenedMachine:
    """A machine, the revision that its kernel has, and what had to be assumed of it.

    Doubts are about what the sources do say: it may not be all of the machine.
    """

    machine: Machine
    revision: str = NEWEST
    assumed: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def load_sources(words: Sequence[str], arch: str | None = None) -> Loaded:
    """Load files that people have; ``-`` is what comes on stdin."""
    return load(*(sys.stdin.read() + "\n" if word == "-" else word for word in words), arch=arch)


def open_machine(
    words: Sequence[str],
    *,
    arch: str | None = None,
    irqchip: str | None = None,
    devices: int | None = None,
    queues: int | None = None,
) -> OpenedMachine:
    """Open a machine by its name, by a line that describes it, or from files."""
    loaded = load_sources(words, arch)
    name = "loaded" if words[0] == "-" or ":" in words[0] else valid_name(Path(words[0]).stem)
    known = loaded.machine is not None or irqchip_of(loaded) is not None
    if irqchip is None and not known and loaded.arch is None:
        irqchip = "x86"
    machine = machine_of(loaded, name=name, devices=devices, queues=queues, irqchip=irqchip)
    if words[0] in machine_names():
        return OpenedMachine(machine)
    assumed = [] if loaded.machine else list(filter(None, machine.notes.split("; ")))
    expected = expected_revision(loaded.kernel)
    if expected is None:
        kernel = f"kernel {loaded.kernel}" if loaded.kernel else "a kernel that is not named"
        assumed.append(f"{kernel}: {NEWEST} as in the newest; --before names another")
    if not known:
        assumed.append(f"irqchip {machine.irqchip}; --irqchip names another")
    if loaded.machine is None and loaded.interrupts:
        # Masks show more of a device than its number of vectors: sets of queues, for example.
        shown = machine_from_capture(loaded, name=name, irqchip=machine.irqchip)
        if any(device.kind != "loop" for device in shown.devices):
            if devices is not None or queues is not None:
                shown = shown.with_devices(count=devices, io_queues=queues)
            machine = replace(machine, devices=shown.devices)
    assumed = [one for one in dict.fromkeys(assumed) if one not in loaded.doubts]
    return OpenedMachine(machine, expected or NEWEST, tuple(assumed), loaded.doubts)
