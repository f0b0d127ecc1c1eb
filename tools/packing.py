# SPDX-License-Identifier: GPL-2.0-only
"""The states behind an explorer's controls, computed by the engine and packed for a page.

A page holds runs for every number of devices and queues and every revision.  Masks are stored once
for each different list of them, as the group of each CPU.  The CPUs that handle the interrupts are
stored as what a simple guess gets wrong: the page guesses the CPU of the mask with the fewest
interrupts so far (or the first one), and `Packer` writes down each interrupt for which the engine
says otherwise.  So the page shows what the engine computed, and knows no rule that could be wrong.
"""

import base64
import json
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import explain
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.steps import Assigned
from groupcpus.machines.machine import Machine
from groupcpus.machines.mail_text import ORDER
from groupcpus.machines.probe import Run, simulate
from groupcpus.panels.controls import main_devices, most_queues, revision_options
from groupcpus.panels.documents import by_device, live_machine, live_run
from groupcpus.panels.explore import Explorer

__all__ = ["MAX_BYTES", "Packer", "guess", "pack"]

MAX_BYTES = 300_000
"""What a page may spend on one explorer, as text."""
_NO_GROUP = 255
_KINDS = ("default", "read")
_MAX_DEVICES = 12


def guess(
    masks: Iterable[Sequence[int]], online: Sequence[int], last: bool | None
) -> Iterator[int]:
    """Guess the CPU of each mask: the one with the fewest interrupts so far, or the first.

    Parameters
    ----------
    masks : iterable of sequence of int
        Positions of CPUs, ascending by CPU.
    online : sequence of int
        Whether the CPU at each position is online.
    last : bool or None
        Which one on a tie: the last or the first; None: the first CPU, whatever it has.

    Examples
    --------
    >>> masks = [[0, 1], [0, 1], [1], [0, 1]]
    >>> [list(guess(masks, [1, 1], last)) for last in (True, False, None)]
    [[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0]]
    """
    counts = [0] * len(online)
    for mask in masks:
        reachable = [at for at in mask if online[at]]
        if not reachable:
            yield -1
            continue
        best = reachable[0]
        if last is not None:
            for at in reachable[1:]:
                if counts[at] < counts[best] or (last and counts[at] == counts[best]):
                    best = at
        counts[best] += 1
        yield best


class Packer:
    """Packs runs of one machine.

    Parameters
    ----------
    machine : Machine
        What is explored.
    settings : dict
        What stays: ``irqchip``, ``probe``, ``requests`` and ``spread_start``.
    revisions : sequence of str
        Which revisions.
    devices : int
        Up to how many devices.
    """

    def __init__(
        self, machine: Machine, settings: dict[str, Any], revisions: Sequence[str], devices: int
    ) -> None:
        self.machine, self.settings = machine, settings
        self.revisions, self.devices = list(revisions), devices
        self.queues = most_queues(machine)
        self.document = live_machine(machine.topology)
        self.position = {cpu: at for at, cpu in enumerate(self.document["cpus"])}
        self.last = {"x86": True, "its": False}.get(settings["irqchip"])
        self.lists: dict[tuple[int, ...], int] = {}
        self.raw: dict[int, list[str]] = {}
        self.split: list[int] = []
        self.names: dict[str, int] = {}
        self.ids, self.bounds = array("H"), array("H")
        self.wrong: list[int] = []
        self.mapped = True
        self.lost: dict[int, dict[str, int]] = {}
        self.added = 0

    def run(self, revision: str, devices: int, queues: int) -> Run:
        """Return what is packed for some settings."""
        machine = self.with_devices(devices, queues)
        return simulate(machine, revision=revision, **self.settings)

    def with_devices(self, devices: int, queues: int) -> Machine:
        """Return the machine as an explorer with these settings has it."""
        if (devices, queues) == main_devices(self.machine):
            return self.machine
        asked = None if queues == main_devices(self.machine)[1] else queues
        return self.machine.with_devices(devices, asked)

    def runs(self, revision: str, queues: int) -> list[Run]:
        """Return the runs of one device, two, and so on.

        Where the runs of one device, and of one fewer than most, are how the longest run begins,
        so are those between: offsets that do not depend on how many devices there are.
        """
        most = self.devices
        longest = self.run(revision, most, queues)
        found = [self.shortened(longest, devices, queues) for devices in range(1, most)]
        for devices in {1, most - 1} - {0}:
            run = self.run(revision, devices, queues)
            if live_run(run) != live_run(found[devices - 1]):
                found = [self.run(revision, devices, queues) for devices in range(1, most)]
                break
        return [*found, longest]

    def shortened(self, run: Run, devices: int, queues: int) -> Run:
        """Return what a run would be if its last devices were not there."""
        machine = self.with_devices(devices, queues)
        names = {device.name for device in machine.devices}
        return replace(
            run,
            machine=machine,
            calls=tuple(call for call in run.calls if call.device in names),
            interrupts=tuple(irq for irq in run.interrupts if irq.device in names),
        )

    def pack(self) -> bytes:
        """Return all states, compressed."""
        for revision in self.revisions:
            for queues in range(1, self.queues + 1):
                for run in self.runs(revision, queues):
                    self._add(run)
        header = {
            "machine": {**self.document, "name": self.machine.name, "epoch": 0},
            "revisions": self.revisions,
            "devices": self.devices,
            "queues": self.queues,
            "last": self.last,
            "names": list(self.names),
            "lists": len(self.lists),
            "raw": self.raw,
            "split": self.split,
            "wrong": len(self.wrong),
            "irqchip": self.settings["irqchip"],
            "mapped": self.mapped,
            "lost": self.lost,
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        wrong = array("I", self.wrong)
        parts = [struct.pack("<I", len(text)), text, self._partitions()]
        parts += [_little(self.bounds), _little(self.ids), _little(wrong)]
        return zlib.compress(b"".join(parts), 9)

    def _add(self, run: Run) -> None:
        """Add a run: its bounds, its devices' lists of masks, and what the guess gets wrong."""
        self.bounds.extend((run.best, run.most_used))
        found = by_device(run)
        self.ids.append(len(found))
        masks, cpus = [], []
        for name, irqs in found:
            self.ids.append(self.names.setdefault(name, len(self.names)))
            self.ids.append(self._list([irq.affinity for irq in irqs]))
            if len(self.split) < len(self.lists):
                self.split.append(self._by_cluster(run, name))
            masks += [[self.position[cpu] for cpu in irq.affinity] for irq in irqs]
            cpus += [-1 if irq.effective is None else self.position[irq.effective] for irq in irqs]
        self.mapped = self.mapped and all(
            irq.submitters == len(irq.affinity) for irq in run.interrupts
        )
        guessed = guess(masks, self.document["online"], self.last)
        wrong = [
            (at, cpu)
            for at, (cpu, mine) in enumerate(zip(cpus, guessed, strict=True))
            if cpu != mine
        ]
        if run.lost:
            self.lost[self.added] = dict(run.lost)
        self.added += 1
        self.ids.append(len(wrong))
        for at, cpu in wrong:
            self.wrong += (at, cpu + 1)

    def _list(self, masks: Sequence[CpuSet]) -> int:
        """Return the number of a list of masks: the group of each CPU, and how many there are."""
        groups = [_NO_GROUP] * len(self.position)
        apart = len(masks) < _NO_GROUP
        for group, mask in enumerate(masks):
            for cpu in mask:
                apart = apart and groups[self.position[cpu]] == _NO_GROUP
                groups[self.position[cpu]] = group % _NO_GROUP
        key = (len(masks), *groups) if apart else (-1, *(mask.mask for mask in masks))
        if key not in self.lists:
            self.lists[key] = len(self.lists)
            if not apart:
                self.raw[self.lists[key]] = [str(mask) for mask in masks]
        return self.lists[key]

    def _by_cluster(self, run: Run, device: str) -> int:
        """Return which nodes' groups a call kept within clusters, a bit each; -1: not known."""
        calls = [call for call in run.calls if call.device == device and call.kind in _KINDS]
        if len(calls) != 1:
            return -1
        (call,) = calls
        _, steps = explain(
            run.machine.topology,
            call.numgrps,
            revision=run.revision,
            spread_offset=call.spread_offset,
        )
        by_cluster = {
            step.node for step in steps if isinstance(step, Assigned) and step.cluster is not None
        }
        nodes = [node for node, _ in self.document["nodes"]]
        return sum(1 << at for at, node in enumerate(nodes) if node in by_cluster)

    def _partitions(self) -> bytes:
        """Return the lists, each as the difference to the one before: mostly zeros."""
        width = len(self.position) + 2
        before = bytes(width)
        parts = []
        for key in self.lists:
            size, groups = (0, bytes(width - 2)) if key[0] < 0 else (key[0], bytes(key[1:]))
            now = struct.pack("<H", size) + groups
            parts.append(bytes((a - b) & 255 for a, b in zip(now, before, strict=True)))
            before = now
        return b"".join(parts)


def _little(numbers: "array[int]") -> bytes:
    """Return numbers as bytes, the lowest first on every machine."""
    return struct.pack(f"<{len(numbers)}{numbers.typecode}", *numbers)


def pack(explorer: Explorer, most: int = _MAX_DEVICES) -> dict[str, Any] | None:
    """Pack the states behind an explorer's devices, queues and revisions for a page.

    Parameters
    ----------
    explorer : Explorer
        As it is set first.
    most : int
        Up to how many devices, or twice as many as the machine has if that is less.

    Returns
    -------
    dict or None
        What the page's script reads; None for machines that are too large for it.
    """
    value = {name: control.value for name, control in explorer.controls.items()}
    machine = explorer.machine
    count, _ = main_devices(machine)
    if not count or len(machine.topology.possible) >= _NO_GROUP or most_queues(machine) > 128:
        return None
    settings = {name: value[name] for name in ("irqchip", "probe", "requests", "spread_start")}
    names = [name for name in REVISIONS if REVISIONS[name].kernel]
    for devices in (max(count, min(most, 2 * count)), count):
        for leave in range(3):
            # The project's own come last: they are left out first where there is no room.
            kept = [name for name in names if name not in names[len(names) - leave :]]
            if not {value["before"], value["after"], *value["more"]} <= set(kept):
                break
            packed = Packer(machine, settings, kept, devices).pack()
            text = base64.b64encode(packed).decode("ascii")
            if len(text) <= MAX_BYTES:
                labels = {name: label for label, name in revision_options()}
                return {
                    "labels": [labels[name] for name in kept],
                    "whys": [REVISIONS[name].summary for name in kept],
                    "set": {name: value[name] for name in _SETTINGS}
                    | {"more": ",".join(value["more"])},
                    "fixed": settings,
                    "when": ORDER,
                    "packed": text,
                }
    return None


_SETTINGS = ("devices", "queues", "before", "after", "picture", "show")
