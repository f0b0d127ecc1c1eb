# SPDX-License-Identifier: GPL-2.0-only
"""What the engine predicts for a recording, beside what the kernel did, queue by queue.

`replay` computes every mask, queue map and effective CPU of a `Recording` from
its topology, its devices and its kernel's release and arguments alone.  Where devices probed in
parallel, an order of their requests that explains the effective CPUs is looked for
(`groupcpus.observed.interleaving`).  What happened after a boot is predicted event by event
(`groupcpus.observed.lifereplay`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irqchips import Irqchip, Vector, make_irqchip
from groupcpus.engine.revisions import Revision
from groupcpus.machines.devices import Device
from groupcpus.observed.interleaving import MAX_STATES, Interleaving, find_interleaving
from groupcpus.observed.kernels import isolated_cpus
from groupcpus.observed.lifereplay import boot_calls, phase_predictions
from groupcpus.observed.patience import Patience
from groupcpus.observed.recorded import RecordedDevice, RecordedStep, Recording
from groupcpus.observed.recordings import load_recording, recording_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KINDS",
    "LIFE_KINDS",
    "Replay",
    "ReplayedRow",
    "load_recording",
    "recording_names",
    "replay",
]

KINDS = ("mask", "map", "effective", "admin")
# What is predicted besides of a life after boot.
LIFE_KINDS = ("call", "other", "device", "online")


@dataclass(frozen=True)
class ReplayedRow:
    """Something predicted, beside what was recorded.

    Attributes
    ----------
    phase : str
        When: ``boot``, ``rebind``, or an event after boot with its number.
    device : str
        Whose.
    queue : int
        The interrupt's vector, which is the I/O queue's number too (0: admin; maps: the hardware
        queue, from 0; other interrupts: their number).
    kind : str
        ``mask``, ``map``, ``effective``, ``admin``: the affinity of a managed interrupt, the CPUs
        of a hardware queue, the effective CPU of a managed interrupt, that of the admin queue's
        (after an event, with its mask).  In `LIFE_KINDS`: a call of ``group_cpus_evenly()`` that
        the kernel logged, mask and effective CPU of another interrupt, the devices that are bound,
        the CPUs that are online.
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
    rows : tuple of ReplayedRow
        Every prediction.
    """

    recording: Recording
    revision: Revision
    interleaving: Interleaving
    rows: tuple[ReplayedRow, ...]

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a prediction; columns as in `ReplayedRow`, and match."""
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
        """Return the result as JSON knows it: counts, the search's end, and what did not match."""
        life: dict[str, Any] = {}
        if self.recording.phases:
            life["phases"] = len(self.recording.phases)
            life["also_matched"] = {kind: list(self.count(kind)) for kind in LIFE_KINDS}
        return {
            "name": self.recording.name,
            "kernel": self.recording.kernel,
            "revision": self.revision.name,
            "irqchip": self.recording.irqchip,
            "matched": {kind: list(self.count(kind)) for kind in KINDS},
            **life,
            "boot": str(self.interleaving),
            "mismatches": [str(row) for row in self.rows if not row.match],
        }

    def __str__(self) -> str:
        kinds = [*KINDS, *(kind for kind in LIFE_KINDS[:2] if self.count(kind)[1])]
        counts = ", ".join(f"{kind} {'/'.join(map(str, self.count(kind)))}" for kind in kinds)
        life = f"; {len(self.recording.phases)} phases" if self.recording.phases else ""
        return f"{self.recording.name}: {counts}{life}; boot: {self.interleaving}"


def replay(
    recording: Recording | str | Path,
    *,
    revision: Revision | None = None,
    max_states: int = MAX_STATES,
    patience: Patience | None = None,
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
    patience : Patience, optional
        A guard of that search in time, and who is waiting.

    Examples
    --------
    >>> print(replay("x86-8cpu-4nodes-1x3-poll1-7.3"))
    x86-8cpu-4nodes-1x3-poll1-7.3: mask 4/4, map 6/6, effective 4/4, admin 2/2; \
boot: found an order of 2 steps after 3 states
    """
    if not isinstance(recording, Recording):
        recording = load_recording(recording)
    prediction = _Prediction(recording, revision or recording.revision)
    rows: list[ReplayedRow] = []
    for phase, devices in (("boot", recording.devices), ("rebind", recording.rebind)):
        for device in devices:
            rows += prediction.masks_and_maps(phase, device)
    interleaving = prediction.interleaving(max_states, patience)
    rows += prediction.effective_at_boot(interleaving)
    rows += prediction.effective_in_turn("rebind", recording.rebind, "one at a time")
    rows += prediction.life()
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
                recording.topology,
                queue_set.queues,
                revision=self.revision,
                spread_offset=device.spread_offset or 0,
            )
            yield queue_set.interrupts, grouping.masks[: grouping.nummasks]

    def masks(self, device: RecordedDevice) -> list[CpuSet]:
        """Predict the masks of a device's managed interrupts; as recorded if nothing tells them."""
        if device.spread_offset is None:
            return list(device.masks[1:])
        return [mask for interrupts, masks in self.sets(device) if interrupts for mask in masks]

    def masks_and_maps(self, phase: str, device: RecordedDevice) -> Iterator[ReplayedRow]:
        masks = self.masks(device)
        maps = [mask - self.unmapped for _, group in self.sets(device) for mask in group]
        if device.spread_offset is None:
            masks, maps = [], []
        for kind, first, predicted, recorded in (
            ("mask", 1, masks, device.masks[1:]),
            ("map", 0, maps, device.maps),
        ):
            for at in range(max(len(predicted), len(recorded))):
                mine, theirs = (
                    str(sets[at]) if at < len(sets) else "?" for sets in (predicted, recorded)
                )
                yield ReplayedRow(phase, device.name, first + at, kind, mine, theirs, "topology")

    def chip(self) -> Irqchip:
        """Return the irqchip as it is before the first NVMe device."""
        topology = self.recording.topology
        chip = make_irqchip(self.recording.irqchip, topology, self.isolated)
        chip.assign([CpuSet([cpu]) for cpu in self.recording.other_irqs], managed=False)
        return chip

    def interleaving(self, max_states: int, patience: Patience | None) -> Interleaving:
        """Explain the parallel probes by the order that was logged, or look for one."""
        recording = self.recording
        if not recording.order:
            return find_interleaving(recording.devices, self.chip(), max_states, patience)
        masks = {device.name: device.masks[1:] for device in recording.devices}
        placed, late = self.follow(recording.order, masks)
        effective = {device.name: device.effective for device in recording.devices}
        explained = all(
            cpu in (None, effective[device][queue]) for (device, queue), cpu in placed.items()
        )
        return Interleaving(explained, recording.order, 0, late)

    def follow(
        self, steps: Sequence[RecordedStep], masks: Mapping[str, Sequence[CpuSet]]
    ) -> tuple[dict[tuple[str, int], int | None], tuple[RecordedStep, ...]]:
        """Take the steps of an order, and say which allocations chose before the last counted.

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
        placed: dict[tuple[str, int], int | None] = {}
        late: list[RecordedStep] = []
        for step in steps:
            which = step.device, step.queue
            if step.queue > len(masks[step.device]):
                continue  # predicted to have fewer queues, which the rows of its masks say
            now = chip.fork()
            if step.action == "request":
                placed[which] = chip.request(vectors[which])
            elif chip.charges_when_allocated:
                mask = masks[step.device][step.queue - 1]
                vectors[which] = chip.allocate([mask])[0]
                if vectors[which].charged != charged.get(which, vectors[which].charged):
                    chip = now.fork()
                    vectors[which] = chip.allocate([mask], seen=earlier)[0]
                    late.append(step)
            earlier = now
        return placed, tuple(late)

    def effective_at_boot(self, interleaving: Interleaving) -> Iterator[ReplayedRow]:
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
                predicted = self.shown(self.chip(), placed[which]) if which in placed else "?"
                yield ReplayedRow(
                    "boot", device.name, queue, "effective", predicted, str(cpu), basis
                )

    def effective_in_turn(
        self, phase: str, devices: Sequence[RecordedDevice], basis: str
    ) -> Iterator[ReplayedRow]:
        """Predict the effective CPUs of devices that probe one after another."""
        topology = self.recording.topology
        home = next(cpus for cpus in topology.nodes.values() if cpus & topology.online)
        chip = self.chip()
        for device in devices:
            masks = [home & topology.online, *self.masks(device)]
            vectors = chip.allocate(masks, [False, *[True] * (len(masks) - 1)])
            for queue, vector in enumerate(vectors):
                predicted = self.shown(chip, chip.request(vector))
                recorded = str(device.effective[queue]) if queue < len(device.effective) else "?"
                kind = "effective" if queue else "admin"
                yield ReplayedRow(phase, device.name, queue, kind, predicted, recorded, basis)

    def life(self) -> Iterator[ReplayedRow]:
        """Predict the phases after the boot."""
        recording = replace(self.recording, revision=self.revision)
        if not recording.phases:
            return
        for kind, device, queue, predicted, recorded in boot_calls(recording):
            yield ReplayedRow("boot", device, queue, kind, predicted, recorded, "one after another")
        for phase, predictions in phase_predictions(recording, self.isolated, self.unmapped):
            for kind, device, queue, predicted, recorded in predictions:
                yield ReplayedRow(phase, device, queue, kind, predicted, recorded, "events so far")

    @staticmethod
    def shown(chip: Irqchip, cpu: int | None) -> str:
        """Return the effective CPU that /proc shows, also of an interrupt that is shut down."""
        cpu = chip.shown_when_shut_down(None) if cpu is None else cpu
        return "-" if cpu is None else str(cpu)
