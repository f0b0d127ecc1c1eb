# SPDX-License-Identifier: GPL-2.0-only
"""An order of requests that explains what devices got that probed in parallel.

Every device allocates its vectors in queue order, then requests them in queue order; the steps of
several devices interleave in a way that nobody wrote down.  `find_interleaving` searches for one
in which every request gets the CPU that was recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import Irqchip, Vector
from groupcpus.observed.patience import Patience
from groupcpus.observed.recorded import RecordedDevice, RecordedStep

__all__ = ["MAX_STATES", "TRIES_PER_STATE", "Interleaving", "find_interleaving"]

# The largest recordings, of six disks with 62 queues, take 807 states.
MAX_STATES = 20_000
TRIES_PER_STATE = 8


@dataclass(frozen=True)
class Interleaving:
    """An order of steps that explains the effective CPUs of devices probed at once, or none.

    Attributes
    ----------
    found : bool or None
        Whether there is one; None: the search gave up.
    steps : tuple of RecordedStep
        The order, if there is one.
    states : int
        How many states a search saw; 0 if the kernel logged the order.
    late : tuple of RecordedStep
        Allocations that chose a CPU before the one ahead of them was counted: the irqchip chooses
        without a lock, so two devices may both take the same least loaded CPU.
    """

    found: bool | None
    steps: tuple[RecordedStep, ...]
    states: int
    late: tuple[RecordedStep, ...] = ()

    def __str__(self) -> str:
        if self.found and not self.states:
            late = f", {len(self.late)} chosen early" if self.late else ""
            return f"the logged order of {len(self.steps)} steps{late}"
        verdict = {
            True: f"found an order of {len(self.steps)} steps after",
            False: "no order explains it after",
            None: "cannot be judged in",
        }[self.found]
        return f"{verdict} {self.states} states"


class _Budget:
    """How far a search may go, over all its parts."""

    def __init__(self, max_states: int, patience: Patience | None) -> None:
        self.max_states = max_states
        self.patience = patience
        self.states = 0
        self.tries = 0

    @property
    def spent(self) -> bool:
        if self.states >= self.max_states or self.tries >= TRIES_PER_STATE * self.max_states:
            return True
        return self.patience is not None and not self.patience.left("looking for an order")


class _Search:
    """A depth-first search for an order of steps that gives the recorded effective CPUs.

    It takes steps on one irqchip, and takes them back: an interrupt that was placed is freed, and
    its vector adopted as it was before.
    """

    def __init__(
        self,
        devices: Sequence[RecordedDevice],
        chip: Irqchip,
        queues: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Search through all queues, or through some of each device."""
        self.devices = devices
        self.queues = queues or [range(1, len(device.masks)) for device in devices]
        self.chip = chip.fork()
        self.vectors: list[list[Vector]] = [[] for _ in devices]
        if not chip.charges_when_allocated:
            # When they are allocated makes no difference then: no need to search through it.
            self.vectors = [
                self.chip.allocate([device.masks[queue] for queue in queues])
                for device, queues in zip(devices, self.queues, strict=True)
            ]
        self.charges: list[list[int | None]] = [[] for _ in devices]
        self.requested = [0] * len(devices)
        # The device of each step taken, and what the irqchip picked.
        self.taken: list[tuple[int, RecordedStep, int | None]] = []

    @property
    def key(self) -> tuple[Any, ...]:
        """All that decides what may follow, if every request so far got its recorded CPU."""
        if not self.chip.charges_when_allocated:
            return tuple(self.requested)
        waiting = (
            tuple(charges[done:])
            for charges, done in zip(self.charges, self.requested, strict=True)
        )
        return (*self.requested, *waiting)

    @property
    def complete(self) -> bool:
        return self.requested == list(map(len, self.queues))

    def preference(self) -> list[int]:
        """Order the devices: allocations by interrupt number, then the one that lags behind.

        Numbers are given out in ascending order as vectors are allocated, but for those that were
        freed in between.
        """

        def rank(at: int) -> tuple[int, float]:
            queues, allocated = self.queues[at], len(self.vectors[at])
            if allocated < len(queues):
                return 0, self.devices[at].irqs[queues[allocated]]
            return 1, self.requested[at] / len(queues)

        left = (at for at, queues in enumerate(self.queues) if self.requested[at] < len(queues))
        return sorted(left, key=rank)

    def take(self, at: int) -> bool:
        """Take a device's next step, unless its interrupt got another CPU than was recorded."""
        device, queues, vectors = self.devices[at], self.queues[at], self.vectors[at]
        cpu = None
        if len(vectors) < len(queues):
            queue = queues[len(vectors)]
            [vector] = self.chip.allocate([device.masks[queue]])
            vectors.append(vector)
            self.charges[at].append(vector.charged)
            step = RecordedStep(device.name, queue, "allocate")
        else:
            queue = queues[self.requested[at]]
            cpu = self.chip.request(vectors[self.requested[at]])
            self.requested[at] += 1
            step = RecordedStep(device.name, queue, "request")
        self.taken.append((at, step, cpu))
        if cpu in (None, device.effective[queue]):
            return True
        self.take_back()
        return False

    def take_back(self) -> None:
        """Undo the last step."""
        at, step, cpu = self.taken.pop()
        if step.action == "allocate":
            self.chip.free([self.vectors[at].pop()])
            self.charges[at].pop()
            return
        self.requested[at] -= 1
        vector = self.vectors[at][self.requested[at]]
        self.chip.free([vector._replace(charged=cpu)])
        self.chip.adopt([vector])

    def run(self, budget: _Budget) -> bool | None:
        """Return whether there is an order, which `taken` is then; None: gave up."""
        seen = {self.key}
        budget.states += 1
        todo = [iter(self.preference())]
        while todo:
            if self.complete:
                return True
            if budget.spent:
                return None
            for at in todo[-1]:
                budget.tries += 1
                if not self.take(at):
                    continue
                if (key := self.key) in seen:
                    # A state that was seen before led nowhere.
                    self.take_back()
                    continue
                seen.add(key)
                budget.states += 1
                todo.append(iter(self.preference()))
                break
            else:
                todo.pop()
                if self.taken:
                    self.take_back()
        return False


def _separate(devices: Sequence[RecordedDevice]) -> list[list[list[int]]]:
    """Split the queues into parts whose masks have no CPU in common: per part, for each device."""
    # Each CPU leads to another one of its part, or to itself.
    leads: dict[int, int] = {}

    def root(cpu: int) -> int:
        while leads[cpu] != cpu:
            leads[cpu] = cpu = leads[leads[cpu]]
        return cpu

    masks = dict.fromkeys(mask for device in devices for mask in device.masks[1:])
    for mask in masks:
        first, *others = mask or CpuSet([0])
        leads.setdefault(first, first)
        for cpu in others:
            leads.setdefault(cpu, cpu)
            leads[root(cpu)] = root(first)
    parts: dict[int, list[list[int]]] = {}
    for at, device in enumerate(devices):
        for queue, mask in enumerate(device.masks[1:], start=1):
            part = root(mask.first or 0) if mask else -1
            parts.setdefault(part, [[] for _ in devices])[at].append(queue)
    return list(parts.values())


def find_interleaving(
    devices: Sequence[RecordedDevice],
    chip: Irqchip,
    max_states: int = MAX_STATES,
    patience: Patience | None = None,
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
        After so many states in all, or `TRIES_PER_STATE` times as many steps, the search gives up.
    patience : Patience, optional
        A guard in time, and who is waiting; as long as the states take when left out.

    Returns
    -------
    Interleaving
        An order, or that there is none, or that the search gave up.

    Examples
    --------
    >>> from groupcpus.engine.irqchips import make_irqchip
    >>> from groupcpus.observed.recordings import load_recording
    >>> two = load_recording("x86-16cpu-1node-2x6-7.3")
    >>> print(find_interleaving(two.devices, make_irqchip("x86", two.topology)))
    found an order of 12 steps after 31 states
    """
    budget = _Budget(max_states, patience)
    if len(devices) > 1 and not chip.charges_when_allocated:
        # Where masks have no CPU in common, requests can't disturb each other.  If the few requests
        # of one part have no order, all together have none either, and that is soon known.
        for queues in _separate(devices):
            if budget.spent:
                break
            if _Search(devices, chip, queues).run(budget) is False:
                return Interleaving(False, (), budget.states)
    whole = _Search(devices, chip)
    found = whole.run(budget)
    steps = tuple(step for _, step, _ in whole.taken) if found else ()
    return Interleaving(found, steps, budget.states)
