# SPDX-License-Identifier: GPL-2.0-only
"""An order of requests that explains what devices got that probed in parallel.

Every device allocates its vectors in queue order, then requests them in queue order; the steps of
several devices interleave in a way that nobody wrote down.  `find_interleaving` searches for one
in which every request gets the CPU that was recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from groupcpus.engine.irqchips import Irqchip, Vector
from groupcpus.observed.patience import Patience
from groupcpus.observed.recordings import RecordedDevice, Step

__all__ = ["MAX_STATES", "Interleaving", "find_interleaving"]

MAX_STATES = 200_000


@dataclass(frozen=True)
class Interleaving:
    """An order of steps that explains the effective CPUs of devices probed at once, or none.

    Attributes
    ----------
    found : bool or None
        Whether there is one; None: the search gave up.
    steps : tuple of Step
        The order, if there is one.
    states : int
        How many states a search saw; 0 if the kernel logged the order.
    late : tuple of Step
        Allocations that chose a CPU before the one ahead of them was counted: the irqchip chooses
        without a lock, so two devices may both take the same least loaded CPU.
    """

    found: bool | None
    steps: tuple[Step, ...]
    states: int
    late: tuple[Step, ...] = ()

    def __str__(self) -> str:
        if self.found and not self.states:
            late = f", {len(self.late)} chosen early" if self.late else ""
            return f"the logged order of {len(self.steps)} steps{late}"
        verdict = {
            True: f"found an order of {len(self.steps)} steps",
            False: "no order explains it",
            None: "gave up",
        }[self.found]
        return f"{verdict} after {self.states} states"


class _State:
    """How far parallel probes have come: each device's next step, and the irqchip."""

    def __init__(self, search: "_Search", chip: Irqchip, vectors: list[list[Vector]]) -> None:
        self.search = search
        self.chip = chip
        self.vectors = vectors  # allocated so far, of each device
        self.requested = [0] * len(vectors)

    @property
    def key(self) -> tuple[Any, ...]:
        """All that decides what may follow, if every request so far got its recorded CPU."""
        if not self.chip.charges_when_allocated:
            return tuple(self.requested)
        waiting = (
            tuple(vector.charged for vector in vectors[done:])
            for vectors, done in zip(self.vectors, self.requested, strict=True)
        )
        return (*self.requested, *waiting)

    @property
    def complete(self) -> bool:
        return self.requested == list(map(len, self.search.queues))

    def children(self) -> Iterator[tuple[Step, "_State"]]:
        """Try the next step of every device."""
        for at in self.search.preference(self):
            device, queues = self.search.devices[at], self.search.queues[at]
            child = _State(self.search, self.chip.fork(), list(self.vectors))
            child.requested = list(self.requested)
            if (allocated := len(self.vectors[at])) < len(queues):
                queue = queues[allocated]
                child.vectors[at] = self.vectors[at] + child.chip.allocate([device.masks[queue]])
                yield Step(device.name, queue, "allocate"), child
            elif self.requested[at] < len(queues):
                queue = queues[self.requested[at]]
                cpu = child.chip.request(self.vectors[at][self.requested[at]])
                child.requested[at] += 1
                if cpu is None or cpu == device.effective[queue]:
                    yield Step(device.name, queue, "request"), child


class _Search:
    """A depth-first search for an order of steps that gives the recorded effective CPUs."""

    def __init__(
        self,
        devices: Sequence[RecordedDevice],
        chip: Irqchip,
        queues: list[list[int]] | None = None,
    ) -> None:
        """Search through all queues, or some of each device."""
        self.devices = devices
        self.queues = queues or [list(range(1, len(device.masks))) for device in devices]
        chip = chip.fork()
        allocated: list[list[Vector]] = [[] for _ in devices]
        if not chip.charges_when_allocated:
            # When they are allocated makes no difference then: no need to search through it.
            allocated = [
                chip.allocate([device.masks[queue] for queue in queues])
                for device, queues in zip(devices, self.queues, strict=True)
            ]
        self.start = _State(self, chip, allocated)

    def preference(self, state: _State) -> list[int]:
        """Order the devices: allocations by interrupt number, then the one that lags behind.

        Numbers are given out in ascending order as vectors are allocated, but for those that were
        freed in between.
        """

        def rank(at: int) -> tuple[int, float]:
            queues, allocated = self.queues[at], len(state.vectors[at])
            if allocated < len(queues):
                return 0, self.devices[at].irqs[queues[allocated]]
            return 1, state.requested[at] / (len(queues) or 1)

        return sorted(range(len(self.devices)), key=rank)

    def run(self, max_states: int, patience: Patience | None = None) -> Interleaving:
        seen = {self.start.key}
        steps: list[Step] = []
        stack = [(self.start, self.start.children())]
        while stack:
            state, todo = stack[-1]
            if state.complete:
                return Interleaving(True, tuple(steps), len(seen))
            impatient = patience is not None and not patience.left("looking for an order")
            if len(seen) >= max_states or impatient:
                return Interleaving(None, (), len(seen))
            for step, child in todo:
                # A state that was seen before led nowhere: no step can be undone.
                if child.key not in seen:
                    seen.add(child.key)
                    steps.append(step)
                    stack.append((child, child.children()))
                    break
            else:
                stack.pop()
                del steps[-1:]
        return Interleaving(False, (), len(seen))


def _separate(devices: Sequence[RecordedDevice]) -> list[list[list[int]]]:
    """Split the queues so that no CPU is in masks of two parts; each part has them by device."""
    above: dict[int, int] = {}

    def top(cpu: int) -> int:
        while (higher := above.setdefault(cpu, cpu)) != cpu:
            above[cpu] = above[higher]
            cpu = higher
        return cpu

    for mask in dict.fromkeys(mask for device in devices for mask in device.masks[1:]):
        first, *others = mask or (-1,)
        for cpu in others:
            above[top(cpu)] = top(first)
    parts: dict[int, list[list[int]]] = {}
    for number, device in enumerate(devices):
        for queue, mask in enumerate(device.masks[1:], start=1):
            part = top(-1 if mask.first is None else mask.first)
            parts.setdefault(part, [[] for _ in devices])[number].append(queue)
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
        After so many states the search gives up.
    patience : Patience, optional
        How long it may take; as long as it takes when left out.

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
    states = 0
    if len(devices) > 1 and not chip.charges_when_allocated:
        # Where masks have no CPU in common, requests can't disturb each other.  If the few requests
        # of one part have no order, all together have none either, and that is soon known.
        for queues in _separate(devices):
            if patience is not None and not patience.left("looking for an order"):
                return Interleaving(None, (), states)
            part = _Search(devices, chip, queues).run(max_states, patience)
            states += part.states
            if part.found is False:
                return Interleaving(False, (), states)
    whole = _Search(devices, chip).run(max_states, patience)
    return Interleaving(whole.found, whole.steps, states + whole.states)
