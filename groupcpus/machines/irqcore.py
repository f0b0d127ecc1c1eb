# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's interrupt core after boot: what CPUs that come and go do to interrupts.

It holds interrupts by their number and an irqchip, and does as kernel/irq/cpuhotplug.c does, read
in Linux 7.3.4:

* when a CPU goes offline, only the started interrupts that it handles move, in the order of their
  numbers (``irq_needs_fixup()``); a managed one whose mask has no other online CPU is shut down
  and keeps its mask, any other one goes to any online CPU;
* when a CPU comes online, the managed interrupts that were shut down and have it in their masks
  are started.  Nothing else moves: the irqchips here give an interrupt to a single CPU
  (``irqd_is_single_target()``), and that one is still in the mask.

Masks are not made here: see `groupcpus.machines.life`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import Irqchip, Vector

__all__ = ["RULES", "Change", "IrqCore", "LiveInterrupt", "Rule"]


class Rule(NamedTuple):
    """Why something happens after boot: in a sentence, and in the kernel's functions."""

    sentence: str
    functions: str


# In Linux 7.3.4; what picks a CPU among several is a matter of the irqchip, see `IrqCore.picks`.
RULES = {
    "masks": Rule(
        "vectors are allocated anew, so their masks are made anew",
        "irq_create_affinity_masks(), group_cpus_evenly()",
    ),
    "map": Rule("a new tag set has a new queue map", "blk_mq_alloc_tag_set()"),
    "map remade": Rule(
        "with several kinds of queues the map is made anew", "blk_mq_update_nr_hw_queues()"
    ),
    "map kept": Rule(
        "one kind of queues, and as many as before: the map stays",
        "__blk_mq_update_nr_hw_queues()",
    ),
    "request": Rule("requested by its driver", "request_threaded_irq(), irq_startup()"),
    "free": Rule("freed by its driver", "pci_free_irq_vectors()"),
    "move": Rule("its CPU goes offline, another one of the mask is online", "migrate_one_irq()"),
    "break": Rule("not managed, and no CPU of its affinity is online", "migrate_one_irq()"),
    "shut down": Rule(
        "the last online CPU of the mask goes offline",
        "migrate_one_irq(), irq_shutdown_and_deactivate()",
    ),
    "not started": Rule("no CPU of the mask is online", "irq_startup_managed()"),
    "start": Rule(
        "a CPU of the mask comes online", "irq_affinity_online_cpu(), irq_startup_managed()"
    ),
    "isolation": Rule(
        "a housekeeping CPU of the mask comes online, its own is isolated", "hk_should_isolate()"
    ),
}


@dataclass(frozen=True)
class Change:
    """Something that an event did.

    Attributes
    ----------
    what : {"moved", "shut down", "started", "placed", "not started", "freed", "mask", "map"}
        What happened to the interrupt; ``mask`` and ``map``: which set was made anew.
    device, queue : str and int
        Whose; queue 0 is the admin queue.
    before, after : str
        CPU or cpulist; empty if there is none.
    rule : str
        A name in `RULES`.
    functions : str
        The kernel's functions that do it.
    """

    what: str
    device: str
    queue: int
    before: str
    after: str
    rule: str
    functions: str

    @property
    def label(self) -> str:
        """The queue's name, such as ``nvme0q5``."""
        return f"{self.device}q{self.queue}"

    @property
    def why(self) -> str:
        """The rule in words."""
        return RULES[self.rule].sentence

    def row(self) -> tuple[str, ...]:
        """Return what a table shows: queue, what, before, after, why and functions."""
        return self.label, self.what, self.before, self.after, self.why, self.functions

    def __str__(self) -> str:
        cpus = f"{self.before or 'none'} -> {self.after or 'none'}"
        return f"{self.label} {self.what} {cpus}: {self.why} ({self.functions})"


@dataclass(frozen=True)
class LiveInterrupt:
    """An interrupt, and what has become of it.

    Attributes
    ----------
    number : int
        The kernel's number; it decides who moves first.
    device, queue, kind : str, int, str
        As in `groupcpus.machines.run.Interrupt`.
    vector : Vector
        Its mask, and the CPU in whose counts it is.
    effective : int or None
        What /proc shows; None: nothing.
    started : bool
        Whether it is not shut down.
    """

    number: int
    device: str
    queue: int
    kind: str
    vector: Vector
    effective: int | None
    started: bool

    @property
    def mask(self) -> CpuSet:
        """Its affinity mask."""
        return CpuSet.from_mask(self.vector.mask)

    @property
    def handler(self) -> int | None:
        """The CPU that handles it; None: none, it is shut down."""
        return self.effective if self.started else None


class IrqCore:
    """Interrupts by number, on an irqchip whose CPUs come and go.

    Parameters
    ----------
    chip : Irqchip
        Counts as they are without these interrupts.
    name : str
        The irqchip's name in `IRQCHIPS`.
    interrupts : iterable of LiveInterrupt
        Those there are; each is counted where it is.
    """

    def __init__(self, chip: Irqchip, name: str, interrupts: Iterable[LiveInterrupt] = ()) -> None:
        self.chip = chip
        self.name = name
        self.interrupts = {one.number: one for one in interrupts}
        chip.adopt(one.vector for one in self.interrupts.values())

    def fork(self) -> "IrqCore":
        """Return a copy in the same state that goes its own way from here."""
        twin = IrqCore(self.chip.fork(), self.name)
        twin.interrupts = dict(self.interrupts)
        return twin

    @property
    def online(self) -> CpuSet:
        """The CPUs that are online."""
        return CpuSet.from_mask(self.chip.online)

    def by_device(self) -> dict[str, dict[int, LiveInterrupt]]:
        """Return the interrupts of each device by queue, in queue order."""
        found: dict[str, dict[int, LiveInterrupt]] = {}
        for one in sorted(self.interrupts.values(), key=lambda one: one.queue):
            found.setdefault(one.device, {})[one.queue] = one
        return found

    def picks(self, managed: bool) -> str:
        """Return the kernel's function that picks a CPU of a mask."""
        if self.name == "x86":
            return "matrix_find_best_cpu_managed()" if managed else "matrix_find_best_cpu()"
        return "its_select_cpu()" if self.name == "its" else "gic_set_affinity()"

    def free_numbers(self, count: int, least: int) -> list[int]:
        """Return the lowest free numbers from `least` on, as ``irq_find_free_area()`` does."""
        numbers: list[int] = []
        number = least
        while len(numbers) < count:
            if number not in self.interrupts:
                numbers.append(number)
            number += 1
        return numbers

    def setup(self, made: Sequence[LiveInterrupt]) -> list[Change]:
        """Allocate all vectors of one device, then request its interrupts in turn.

        Parameters
        ----------
        made : sequence of LiveInterrupt
            The interrupts in queue order; of each vector, mask and ``managed`` count.
        """
        vectors = self.chip.allocate(
            [one.mask for one in made], [one.vector.managed for one in made]
        )
        return [
            self._request(replace(one, vector=vector, effective=None, started=False), "request")
            for one, vector in zip(made, vectors, strict=True)
        ]

    def teardown(self, device: str) -> list[Change]:
        """Free all vectors of a device."""
        gone = sorted(
            (one for one in self.interrupts.values() if one.device == device),
            key=lambda one: one.queue,
        )
        self.chip.free(one.vector for one in gone)
        for one in gone:
            del self.interrupts[one.number]
        return [self._change("freed", one, None, "free") for one in gone]

    def cpu_down(self, cpu: int) -> list[Change]:
        """Take a CPU offline: ``irq_migrate_all_off_this_cpu()``."""
        self.chip.cpu_down(cpu)
        changes = []
        for number in sorted(self.interrupts):
            one = self.interrupts[number]
            if one.handler != cpu:
                continue
            rule = "move"
            if not one.vector.managed and not one.vector.mask & self.chip.online:
                one = replace(one, vector=one.vector._replace(mask=self.chip.online))
                rule = "break"
            changes.append(self._request(one, rule))
        return changes

    def cpu_up(self, cpu: int, isolated: CpuSet | None = None) -> list[Change]:
        """Bring a CPU online: ``irq_affinity_online_cpu()``.

        Parameters
        ----------
        cpu : int
            The CPU.
        isolated : CpuSet, optional
            CPUs that ``isolcpus=managed_irq`` names: an interrupt leaves them for a CPU that is
            none of them.
        """
        self.chip.cpu_up(cpu)
        avoided = isolated or CpuSet()
        changes = []
        for number in sorted(self.interrupts):
            one = self.interrupts[number]
            if not one.vector.managed or not one.vector.mask >> cpu & 1:
                continue
            if not one.started:
                changes.append(self._request(one, "start"))
            elif one.effective in avoided and cpu not in avoided:
                changes.append(self._request(one, "isolation"))
        return changes

    def _request(self, one: LiveInterrupt, rule: str) -> Change:
        """Let the irqchip pick a CPU, and note what became of the interrupt."""
        cpu = self.chip.request(one.vector)
        after = replace(
            one,
            vector=one.vector._replace(charged=cpu),
            effective=self.chip.shown_when_shut_down(one.effective) if cpu is None else cpu,
            started=cpu is not None,
        )
        self.interrupts[one.number] = after
        if cpu is None:
            if one.started:
                return self._change("shut down", one, after, "shut down")
            return self._change("not started", one, after, "not started")
        what = {"request": "placed", "start": "started"}.get(rule, "moved")
        return self._change(what, one, after, rule)

    def _change(
        self, what: str, before: LiveInterrupt, after: LiveInterrupt | None, rule: str
    ) -> Change:
        was, now = (
            "" if one is None or one.handler is None else str(one.handler)
            for one in (before, after)
        )
        functions = RULES[rule].functions
        if after is not None and after.started:
            functions += f", {self.picks(before.vector.managed)}"
        return Change(what, before.device, before.queue, was, now, rule, functions)
