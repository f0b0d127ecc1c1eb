# SPDX-License-Identifier: GPL-2.0-only
"""Life after boot: CPUs go offline and come back, disks are reset, unbound and bound again.

Masks, queue maps and effective CPUs are made at different times (`groupcpus.machines.inuse`), so a
CPU may come to submit to a queue whose mask does not contain it.  That costs locality.  If no CPU
of the mask is online, the queue has no interrupt, and I/O waits for the driver's time-out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import Vector, make_irqchip
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, counted
from groupcpus.machines.events import EVENTS, Event, cpus_in_order, parse_events
from groupcpus.machines.inuse import FIRST_NUMBER, InUse, has_map
from groupcpus.machines.irqcore import RULES, Change, IrqCore, LiveInterrupt
from groupcpus.machines.lifesteps import LifeFrames, QueueState, Step, life_frames, life_text
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run

__all__ = ["Life"]


class Life:
    """A machine in use, from its boot on.

    Parameters
    ----------
    machine : Machine, str, Path or InUse
        As `simulate` takes it; or a machine that is in use already, and all else is known by it.
    revision : str or Revision
        The version of `group_cpus_evenly`.
    irqchip : str, optional
        A name in `IRQCHIPS`; the machine's own when left out.
    keep_offsets : bool
        Whether each device keeps the offset that its calls took at first; no posted patch does so.
    **boot
        More that `simulate` takes, such as ``probe`` and ``spread_start``: how it booted.

    Attributes
    ----------
    steps : list of Step
        The boot, and a step for each event so far.

    Notes
    -----
    Interrupts have numbers as if they were the only ones, given at boot device by device; they
    decide the order in which the interrupts of a CPU move.  A suspend is one to RAM that firmware
    carries out: drivers free their vectors before the CPUs go, and allocate them anew after all
    came back, as at a reset (``nvme_suspend()``); no recording shows that.  A suspend to idle takes
    no CPU offline.

    Examples
    --------
    >>> life = Life("D16plds_v6", "cluster", "gicv2m")
    >>> print(life.offline("0").changes[1])
    nvme0q1 moved 0 -> 1: its CPU goes offline, another one of the mask is online \
(migrate_one_irq(), gic_set_affinity())
    >>> [step.title for step in life.then("online 0; reset nvme1")]
    ['online 0', 'reset nvme1']
    """

    machine: Machine
    steps: list[Step]
    _state: InUse
    # What each queue had last, also of a device that is not bound now.
    _interrupts: dict[tuple[str, int], LiveInterrupt]
    _maps: dict[str, tuple[tuple[str, CpuSet], ...]]

    def __init__(
        self,
        machine: Machine | str | Path | InUse,
        revision: str | Revision = "cluster",
        irqchip: str | None = None,
        *,
        keep_offsets: bool = False,
        **boot: Any,
    ) -> None:
        if isinstance(machine, InUse):
            self._state = machine
        else:
            run = simulate(machine, revision=revision, irqchip=irqchip, **boot)
            self._state = _in_use_after(run, keep_offsets)
        self.machine = self._state.machine
        self.steps = []
        self._interrupts = {}
        self._maps = {}
        self._note(None, [])

    @classmethod
    def after(cls, run: Run, *, keep_offsets: bool = False) -> Self:
        """Return the life that begins with a run.

        Parameters
        ----------
        run : Run
            How the machine booted.
        keep_offsets : bool
            Whether each device keeps the offset that its calls took at first; it does anyway if
            the revision says so (`Revision.per_device`).

        Raises
        ------
        RequestError
            If `run` is no Run.
        """
        if not isinstance(run, Run):
            raise RequestError(f"run {brief(run)}: expected a Run, as simulate() returns")
        return cls(_in_use_after(run, keep_offsets))

    @classmethod
    def begun(
        cls,
        machine: Machine,
        revision: str | Revision,
        interrupts: Iterable[LiveInterrupt],
        maps: Mapping[str, Sequence[tuple[str, CpuSet]]],
        counter: int = 0,
        isolated: CpuSet | None = None,
    ) -> Self:
        """Return the life of a machine whose state after boot is known, from a recording say.

        Parameters
        ----------
        machine : Machine
            Its devices are those that are bound.
        revision : str or Revision
            The version of `group_cpus_evenly`.
        interrupts : iterable of LiveInterrupt
            All that there are; those of no device of the machine are no device's.
        maps : mapping of str to sequence
            For each device the kind and the CPUs of each hardware queue.
        counter : int
            The call counter.
        isolated : CpuSet, optional
            CPUs that ``isolcpus=managed_irq`` names.
        """
        isolated = CpuSet() if isolated is None else isolated
        chip = make_irqchip(machine.irqchip, machine.topology, isolated)
        return cls(
            InUse(
                machine,
                get_revision(revision),
                IrqCore(chip, machine.irqchip, interrupts),
                {device.name: device for device in machine.devices},
                {device.name: tuple(maps.get(device.name, ())) for device in machine.devices},
                counter,
                isolated,
            )
        )

    @property
    def revision(self) -> Revision:
        """The version of `group_cpus_evenly`."""
        return self._state.revision

    @property
    def now(self) -> Step:
        """The last step: how things stand."""
        return self.steps[-1]

    @property
    def topology(self) -> Topology:
        """The topology as the kernel sees it now, see `topology_now`."""
        return self._state.topology

    @property
    def interrupts(self) -> tuple[LiveInterrupt, ...]:
        """Every interrupt as it is now, admin queues' too, in the order of their numbers."""
        held = self._state.core.interrupts
        return tuple(held[number] for number in sorted(held))

    @property
    def maps(self) -> dict[str, tuple[CpuSet, ...]]:
        """The CPUs of each hardware queue of each device that is bound and has a queue map."""
        return {
            name: tuple(cpus for _, cpus in queues) for name, queues in self._state.maps.items()
        }

    def then(self, events: str | Iterable[Event]) -> list[Step]:
        """Let events happen one after another, and return their steps.

        Parameters
        ----------
        events : str or iterable of Event
            A text as `parse_events` reads, or events.

        Raises
        ------
        RequestError
            If an event cannot happen; those before it have.
        VectorSpaceError
            If a CPU has no vector left; likewise.
        """
        steps = []
        if not isinstance(events, str | Iterable):
            raise RequestError(f"events {brief(events)}: expected a text or events")
        for event in parse_events(events) if isinstance(events, str) else events:
            if not isinstance(event, Event) or event.action not in EVENTS:
                raise RequestError(f"event {brief(event)}: expected one of {', '.join(EVENTS)}")
            happen = getattr(self, event.action)
            arguments = {"CPUS": [event.cpus], "": []}.get(EVENTS[event.action], [event.argument])
            steps.append(happen(*arguments))
        return steps

    def offline(self, cpus: int | str | Iterable[int]) -> Step:
        """Take CPUs offline, one after another in the order given."""
        order = cpus_in_order(cpus)
        return self._do(Event("offline", order), lambda state: state.offline(order))

    def online(self, cpus: int | str | Iterable[int]) -> Step:
        """Bring CPUs online, one after another in the order given."""
        order = cpus_in_order(cpus)
        return self._do(Event("online", order), lambda state: state.online(order))

    def smt(self, control: str) -> Step:
        """Write ``off`` or ``on`` to /sys/devices/system/cpu/smt/control."""
        if control not in ("off", "on"):
            raise RequestError(f"smt {brief(control)}: expected off or on")
        event = Event("smt", argument=control)
        return self._do(event, lambda state: state.set_smt(control == "on"))

    def reset(self, device: str, numbers: Sequence[int] | None = None) -> Step:
        """Reset an NVMe controller: its vectors are allocated anew, its queue map mostly stays.

        Parameters
        ----------
        device : str
            Such as ``nvme0``.
        numbers : sequence of int, optional
            The numbers that its interrupts get; the lowest free ones when left out.
        """
        return self._do(_about("reset", device), lambda state: state.reset(device, numbers))

    def unbind(self, device: str) -> Step:
        """Take the driver from a device: its vectors and its queue map go."""
        return self._do(_about("unbind", device), lambda state: state.unbind(device))

    def bind(self, device: str, numbers: Sequence[int] | None = None) -> Step:
        """Give a device its driver again: its vectors and its queue map are made anew.

        Parameters
        ----------
        device : str
            Such as ``nvme0``; it keeps its name.
        numbers : sequence of int, optional
            The numbers that its interrupts get; the lowest free ones when left out.
        """
        return self._do(_about("bind", device), lambda state: state.bind(device, numbers))

    def suspend(self) -> Step:
        """Suspend to RAM: all vectors are freed, then all CPUs but the first go offline."""
        return self._do(Event("suspend"), InUse.suspend)

    def resume(self) -> Step:
        """Resume from RAM: the CPUs come back, then each device allocates its vectors anew."""
        return self._do(Event("resume"), InUse.resume)

    def frames(self) -> LifeFrames:
        """Return the steps so far as DataFrames."""
        return life_frames(self.steps)

    def document(self) -> dict[str, Any]:
        """Return the steps so far as JSON knows them."""
        return {
            "machine": self.machine.name,
            "revision": self.revision.name,
            "irqchip": self.machine.irqchip,
            "steps": [step.document() for step in self.steps],
        }

    def __str__(self) -> str:
        devices = counted(len(self.machine.devices), "device")
        title = f"{self.machine.name}, {self.revision.name}, {self.machine.irqchip}, {devices}"
        return life_text(title, self.steps)

    def _do(self, event: Event, happen: Callable[[InUse], list[Change]]) -> Step:
        """Let an event happen to a copy of the state, and keep that if it could."""
        if self._state.suspended and event.action != "resume":
            raise RequestError(f"{event.action}: the machine is suspended; resume it first")
        state = self._state.copy()
        changes = happen(state)
        self._state = state
        return self._note(event, changes)

    def _note(self, event: Event | None, changes: list[Change]) -> Step:
        """Write down how things stand after an event."""
        state = self._state
        changes += self._other_masks(event)
        changes += self._other_maps(event)
        step = Step(
            len(self.steps),
            event,
            state.core.online,
            tuple(changes),
            tuple(self._queue_states()),
            tuple(state.calls),
            state.counter,
        )
        self.steps.append(step)
        return step

    def _other_masks(self, event: Event | None) -> Iterator[Change]:
        """Compare the masks with those that the same queues had last."""
        for one in self._state.core.interrupts.values():
            before = self._interrupts.get((one.device, one.queue), one)
            self._interrupts[one.device, one.queue] = one
            if before.vector.mask != one.vector.mask:
                allocated = event is not None and event.action in ("reset", "bind", "resume")
                rule = "request" if allocated else "break"
                rule = "masks" if one.vector.managed else rule
                yield _set_change("mask", one.device, one.queue, before.mask, one.mask, rule)

    def _other_maps(self, event: Event | None) -> Iterator[Change]:
        """Compare the maps with those that the same queues had last."""
        rule = "map" if event is not None and event.action == "bind" else "map remade"
        for name, queues in self._state.maps.items():
            before = self._maps.get(name, queues)
            self._maps[name] = queues
            pairs = zip(before, queues, strict=False) if before is not queues else ()
            for queue, ((_, was), (_, now)) in enumerate(pairs, start=1):
                if was != now:
                    yield _set_change("map", name, queue, was, now, rule)

    def _queue_states(self) -> Iterator[QueueState]:
        """Return how each queue stands; those that are as before are the same objects."""
        state = self._state
        online = state.core.online
        last = self.steps[-1] if self.steps else None
        known = {(queue.device, queue.queue): queue for queue in last.queues} if last else {}
        differ = online ^ last.online if last else online
        interrupts = state.core.by_device()
        for name in state.devices:
            mine = interrupts.get(name, {})
            maps = dict(enumerate(state.maps[name], start=1))
            for queue in sorted({*maps, *mine} - {0}):
                one, mapped, before = mine.get(queue), maps.get(queue), known.get((name, queue))
                same = before and before.interrupt is one and before.map.isdisjoint(differ)
                if before and same and mapped in (None, (before.kind, before.map)):
                    yield before
                    continue
                yield _queue_state(name, queue, mapped, one, online)


def _in_use_after(run: Run, keep_offsets: bool) -> InUse:
    """Return the machine in use that a run left."""
    chip = make_irqchip(run.irqchip, run.machine.topology)
    placed: dict[str, list[LiveInterrupt]] = {device.name: [] for device in run.machine.devices}
    for one in (*run.pre_interrupts, *run.interrupts):
        cpu = one.effective
        vector = Vector(one.queue, one.affinity.mask, one.managed, cpu)
        placed[one.device].append(
            LiveInterrupt(0, one.device, one.queue, one.kind, vector, cpu, cpu is not None)
        )
    every = [one for own in placed.values() for one in own]
    numbered = [replace(one, number=number) for number, one in enumerate(every, FIRST_NUMBER)]
    maps: dict[str, list[tuple[str, CpuSet]]] = {}
    for call in run.calls:
        if call.kind != "admin":
            filled = call.grouping.masks[: call.grouping.nummasks]
            maps.setdefault(call.device, []).extend((call.kind, mask) for mask in filled)
    devices = {device.name: device for device in run.machine.devices}
    kept = None
    if keep_offsets or run.revision.per_device:
        kept = {(call.device, call.kind): call.spread_offset for call in run.calls}
    return InUse(
        replace(run.machine, irqchip=run.irqchip),
        run.revision,
        IrqCore(chip, run.irqchip, numbered),
        devices,
        {name: tuple(maps.get(name, ())) if has_map(d) else () for name, d in devices.items()},
        run.spread_end,
        kept=kept,
    )


def _set_change(what: str, device: str, queue: int, was: CpuSet, now: CpuSet, rule: str) -> Change:
    return Change(what, device, queue, str(was), str(now), rule, RULES[rule].functions)


def _about(action: str, device: str) -> Event:
    if not isinstance(device, str):
        raise RequestError(f"device {brief(device)}: expected a name such as nvme0")
    return Event(action, argument=device)


def _queue_state(
    name: str,
    queue: int,
    mapped: tuple[str, CpuSet] | None,
    one: LiveInterrupt | None,
    online: CpuSet,
) -> QueueState:
    mask = CpuSet() if one is None else one.mask
    kind, cpus = mapped or ("" if one is None else one.kind, mask)
    submitters = cpus & online
    return QueueState(
        name,
        queue,
        kind,
        cpus,
        one,
        CpuSet() if one is None else submitters - mask,
        CpuSet() if one is None or one.started else submitters,
    )
