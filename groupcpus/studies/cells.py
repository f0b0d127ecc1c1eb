# SPDX-License-Identifier: GPL-2.0-only
"""The jobs of a sweep: what is run on a machine, and who runs it.

A *cell* is a machine with a number of queues.  In it a run with six devices goes on where the one
with five ended, if their calls begin alike and devices request one after the other: then both are
rows of one `Plan`.  Plans go to the compiled batch; to the engine, if that is not installed or does
not know the revision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from groupcpus.engine.group_cpus import Grouping
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.machines.devices import Device, ProbeCall, probe_calls
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import Callers
from groupcpus.machines.requests import Allocation, VectorWanted, place, request_order
from groupcpus.studies.batch import COMPILED, Counts, Machines, Plan, installed, place_many
from groupcpus.studies.rows import Configuration, Place, Row, add_interrupts, crossings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Axes", "Job", "frame_of", "is_compiled", "run_job", "with_devices"]

IN_TURN = "device-by-device"
_UINT_MAX = 0xFFFFFFFF


class Axes(NamedTuple):
    """What is tried on every cell."""

    revisions: tuple[Revision, ...]
    irqchips: tuple[str, ...] | None
    """None: each machine's own."""
    probes: tuple[str, ...]
    requests: tuple[str, ...]
    starts: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many rows they make of a number of devices."""
        irqchips = 1 if self.irqchips is None else len(self.irqchips)
        others = len(self.revisions) * len(self.probes) * len(self.requests) * len(self.starts)
        return irqchips * others


@dataclass(frozen=True)
class Job:
    """Some cells, and everything to be tried on them."""

    cells: tuple[tuple[Machine, tuple[int | None, ...], int | None], ...]
    """A machine, its numbers of devices, and of queues; None: its own."""
    axes: Axes

    @property
    def size(self) -> int:
        """How many rows it has."""
        return self.axes.size * sum(len(counts) for _, counts, _ in self.cells)


class DeviceCalls(NamedTuple):
    """A device as its interrupts are requested."""

    pre_vectors: int
    calls: tuple[tuple[int, int], ...]
    """Groups and offset of each call behind interrupts."""


class DeviceVectors(NamedTuple):
    """What the engine grouped for a device."""

    wanted: tuple[VectorWanted, ...]
    sizes: Sequence[int]
    """CPUs in each mask of a queue."""
    crossings: tuple[int, int]


class Planned(NamedTuple):
    """A configuration, and its devices in the order in which they allocate."""

    configuration: Configuration
    devices: tuple[DeviceCalls, ...]


def with_devices(machine: Machine, count: int | None, queues: int | None) -> tuple[Device, ...]:
    """Return a machine's devices, or so many with so many queues."""
    if count is None and queues is None:
        return machine.devices
    return machine.with_devices(count=count, io_queues=queues).devices


def is_compiled(revision: Revision) -> bool:
    """Return whether the batch has a revision, and not only its name."""
    known = installed() and revision.name in COMPILED
    return known and revision == REVISIONS.get(revision.name)


def run_job(job: Job) -> "pd.DataFrame":
    """Work out the rows of a job; this is what executors run."""
    cells = [Cell(*cell) for cell in job.cells]
    planned = [cell.planned(job.axes) for cell in cells]
    places = {id(cell.machine): Place(cell.machine) for cell in cells}
    order = {key: at for at, key in enumerate(places)}
    width = max(cell.topology.possible.mask.bit_length() for cell in cells)
    counts = Counts.zeros(job.size, width)
    compiled: list[Plan] = []
    first = 0
    for cell, runs in zip(cells, planned, strict=True):
        for plan in cell.plans(order[id(cell.machine)], runs, first):
            if plan.revision in cell.engines:
                cell.place(plan, counts)
            else:
                compiled.append(plan)
        first += len(runs)
    if compiled:
        place_many(Machines.of(place.topology for place in places.values()), compiled, counts)
    rows: list[Row] = []
    for cell, runs in zip(cells, planned, strict=True):
        part = counts.part(slice(len(rows), len(rows) + len(runs)))
        rows += places[id(cell.machine)].rows([run.configuration for run in runs], part)
    return frame_of(rows)


def frame_of(rows: Sequence[Row]) -> "pd.DataFrame":
    """Return rows as a frame."""
    import pandas as pd

    kinds = {"int": "int64", "float": "float64", "str": "str"}
    frame = pd.DataFrame(rows, columns=list(Row._fields))
    return frame.astype({name: kinds[kind.__name__] for name, kind in Row.__annotations__.items()})


class Cell:
    """A machine with a number of queues, and what its configurations share."""

    def __init__(self, machine: Machine, counts: Sequence[int | None], queues: int | None) -> None:
        self.machine = machine
        self.topology = machine.topology
        self.possible = len(machine.topology.possible)
        self.devices = [with_devices(machine, count, queues) for count in counts]
        self.engines: dict[str, tuple[Revision, dict[tuple[int, int], Grouping]]] = {}
        """By name: the revisions that are left to the engine, and what their calls answered."""
        self.known: dict[tuple[str, int, tuple[tuple[int, int], ...]], DeviceVectors] = {}

    def planned(self, axes: Axes) -> list[Planned]:
        """List what is to be run, in the order of the rows."""
        probing = {
            probe: [probe_calls(made, self.possible, probe) for made in self.devices]
            for probe in axes.probes
        }
        most = [max((one.io_queues for one in made), default=0) for made in self.devices]
        calls: dict[tuple[str, str, int], list[tuple[DeviceCalls, ...]]] = {}
        for revision in axes.revisions:
            if not is_compiled(revision):
                self.engines[revision.name] = (revision, {})
            for probe, start in product(axes.probes, axes.starts):
                calls[revision.name, probe, start] = [
                    self.calls(revision, probed, start & _UINT_MAX) for probed in probing[probe]
                ]
        irqchips = axes.irqchips or (self.machine.irqchip,)
        return [
            Planned(
                Configuration(
                    len(made),
                    queues,
                    revision.name,
                    irqchip,
                    probe,
                    requests,
                    start,
                    tuple([numgrps for device in devices for numgrps, _ in device.calls]),
                ),
                devices,
            )
            for revision, irqchip, probe, requests, start in product(
                axes.revisions, irqchips, axes.probes, axes.requests, axes.starts
            )
            for made, queues, devices in zip(
                self.devices, most, calls[revision.name, probe, start], strict=True
            )
        ]

    def calls(
        self, revision: Revision, probing: Iterable[ProbeCall], start: int
    ) -> tuple[DeviceCalls, ...]:
        """Follow the counter through all calls; return the devices in the order of allocation.

        A mask may only be empty, and then its device calls again (see `simulate`), where there are
        fewer CPUs than groups or the counter wraps, or where a revision is a reader's own.
        """
        if revision.name in self.engines:
            return self.calls_again(revision, probing, start)
        counter = start
        made: dict[str, DeviceCalls] = {}
        advances: dict[int, int] = {}
        # The counter as it stood when a device first took an offset, if it keeps that.
        kept: dict[str, int] = {}
        for call in probing:
            device, asked = call.device, call.queue_set
            advance = advances.get(asked.queues)
            if advance is None:
                advance = advances[asked.queues] = revision.advance(asked.queues)
            offset = counter if advance else 0
            if revision.per_device and advance:
                if device.name in kept:
                    advance = 0
                offset = kept.setdefault(device.name, counter)
            counter = (counter + advance) & _UINT_MAX
            if asked.interrupts:
                if asked.queues > self.possible or offset + asked.queues > _UINT_MAX:
                    return self.calls_again(revision, probing, start)
                # A device is where its last call is.
                before = made.pop(device.name, None)
                calls = before.calls if before else ()
                made[device.name] = DeviceCalls(
                    device.pre_vectors, (*calls, (asked.queues, offset))
                )
        return tuple(made.values())

    def calls_again(
        self, revision: Revision, probing: Iterable[ProbeCall], start: int
    ) -> tuple[DeviceCalls, ...]:
        """Do the same and look at the masks."""
        groupings = self.engines.get(revision.name, (revision, {}))[1]
        callers = Callers(self.machine, revision, start, groupings)
        for call in probing:
            callers.call(call)
        return tuple(
            DeviceCalls(
                device.pre_vectors, tuple((call.numgrps, call.spread_offset) for call in calls)
            )
            for device, calls in callers.made.items()
        )

    def plans(self, machine: int, runs: Sequence[Planned], first: int) -> list[Plan]:
        """Put runs that begin like a longer one into it; rows are counted from `first` on."""
        plans: list[Plan] = []
        longest: dict[tuple[Any, ...], tuple[Plan, dict[int, int]]] = {}
        ordered = sorted(enumerate(runs, first), key=lambda run: -len(run[1].devices))
        for row, (configuration, devices) in ordered:
            if not devices:
                continue
            calls = tuple([device.calls for device in devices])
            pre_vectors = tuple([device.pre_vectors for device in devices])
            key = configuration[2:7]
            plan, rows = longest.get(key, (None, {}))
            begins = plan is not None and plan.devices[: len(calls)] == calls
            if not begins or len(calls) in rows or configuration.requests != IN_TURN:
                rows = {}
                order = self.order(configuration.requests, devices)
                plan = Plan(machine, *configuration[2:4], calls, rows, order, pre_vectors)
                longest[key] = (plan, rows)
                plans.append(plan)
            rows[len(calls)] = row
        return plans

    def order(self, requests: str, devices: Sequence[DeviceCalls]) -> tuple[int, ...]:
        """Return whose next vector is requested; nothing where devices take turns as a whole."""
        if requests == IN_TURN:
            return ()
        counts = [
            device.pre_vectors + sum(min(numgrps, self.possible) for numgrps, _ in device.calls)
            for device in devices
        ]
        return _order(requests, tuple(counts))

    def place(self, plan: Plan, counts: Counts) -> None:
        """Do with the engine what `place_many` does."""
        chip = make_irqchip(plan.irqchip, self.topology)
        devices = [
            self.vectors(plan.revision, *device)
            for device in zip(plan.pre_vectors, plan.devices, strict=True)
        ]
        allocations = [Allocation(str(at), own.wanted) for at, own in enumerate(devices)]
        total = Counts.zeros(1, counts.loads.shape[1])
        whole = [allocations] if plan.requests else [[one] for one in allocations]
        order = iter(map(str, plan.requests))
        done = 0
        for part in whole:
            turns = order if plan.requests else [one.device for one in part for _ in one.vectors]
            for effective in place(chip, part, turns):
                own = devices[done]
                add_interrupts(own.sizes, effective[plan.pre_vectors[done] :], total, 0)
                total.crossing[0] += own.crossings
                done += 1
                if done in plan.rows:
                    counts.set(plan.rows[done], total)

    def vectors(
        self, revision: str, pre_vectors: int, calls: Sequence[tuple[int, int]]
    ) -> DeviceVectors:
        """Return the vectors of a device; those with the same calls have the same ones."""
        key = revision, pre_vectors, tuple(calls)
        if key not in self.known:
            before = VectorWanted("admin", self.topology.online, 0, managed=False)
            wanted = [before] * pre_vectors
            for call in calls:
                grouping = self.engines[revision][1][call]
                wanted += [
                    VectorWanted("default", mask, call[1], managed=True)
                    for mask in grouping.masks[: grouping.nummasks]
                ]
            masks = [one.mask for one in wanted[pre_vectors:]]
            self.known[key] = DeviceVectors(
                tuple(wanted), [*map(len, masks)], crossings(self.topology, masks)
            )
        return self.known[key]


@lru_cache(maxsize=4096)
def _order(requests: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    names = {str(at): count for at, count in enumerate(counts)}
    return tuple(map(int, request_order(requests, names)))
