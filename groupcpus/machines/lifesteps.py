# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a life after boot: what each event did, as objects, DataFrames, text and JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import counted
from groupcpus.machines.events import Event
from groupcpus.machines.irqcore import RULES, Change, LiveInterrupt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupCall", "LifeFrames", "QueueState", "Step", "life_frames", "life_text", "step_text"]

_WIDTH = 72
_SHOWN = 6
_MOVES = ("freed", "placed", "not started", "moved", "shut down", "started")


class GroupCall(NamedTuple):
    """A call of `group_cpus_evenly` after boot."""

    device: str
    kind: str
    numgrps: int
    spread_offset: int


@dataclass(frozen=True)
class QueueState:
    """A queue after a step: who submits to it, and who answers.

    Attributes
    ----------
    device, queue, kind : str, int, str
        Such as ``nvme0``, 5 and ``default``.
    map : CpuSet
        The CPUs that submit to it when they are online (its hctx); for a device without a queue
        map, its mask.
    interrupt : LiveInterrupt or None
        Its interrupt; None for a poll queue.
    outside : CpuSet
        Online CPUs that submit to it and are not in its mask.
    stranded : CpuSet
        Online CPUs that submit to it while its interrupt is shut down.
    """

    device: str
    queue: int
    kind: str
    map: CpuSet
    interrupt: LiveInterrupt | None
    outside: CpuSet
    stranded: CpuSet

    @property
    def label(self) -> str:
        """The queue's name, such as ``nvme0q5``."""
        return f"{self.device}q{self.queue}"

    @property
    def handler(self) -> int | None:
        """The CPU that handles its interrupt; None: no CPU does."""
        return None if self.interrupt is None else self.interrupt.handler

    def row(self) -> tuple[str, int, str, str, str, int | None, str, str]:
        """Return what a table shows: with map, mask, handler, outside and stranded as texts."""
        mask = "" if self.interrupt is None else str(self.interrupt.mask)
        sets = str(self.map), mask, self.handler, str(self.outside), str(self.stranded)
        return (self.device, self.queue, self.kind, *sets)


@dataclass(frozen=True)
class Step:
    """An event, what it did, and how things stand after it.

    Attributes
    ----------
    number : int
        From 0, the boot.
    event : Event or None
        What happened; None: the boot.
    online : CpuSet
        The CPUs that are online after it.
    changes : tuple of Change
        What it did to interrupts, in the kernel's order, then to masks and maps.
    queues : tuple of QueueState
        Every queue of every bound device.
    calls : tuple of GroupCall
        The calls of `group_cpus_evenly` that it made.
    counter : int
        The call counter after it.
    """

    number: int
    event: Event | None
    online: CpuSet
    changes: tuple[Change, ...]
    queues: tuple[QueueState, ...]
    calls: tuple[GroupCall, ...]
    counter: int

    @property
    def title(self) -> str:
        """The event in words."""
        return "boot" if self.event is None else str(self.event)

    @cached_property
    def counts(self) -> dict[int, int]:
        """How many queue interrupts each online CPU handles."""
        handled = Counter(queue.handler for queue in self.queues)
        return {cpu: handled[cpu] for cpu in self.online}

    @cached_property
    def submitters(self) -> dict[int, int]:
        """For how many submitters each online CPU handles interrupts: a CPU and a queue are one."""
        handled: Counter[int | None] = Counter()
        for queue in self.queues:
            handled[queue.handler] += len(queue.map & self.online)
        return {cpu: handled[cpu] for cpu in self.online}

    @property
    def outside(self) -> tuple[QueueState, ...]:
        """The queues that have an online submitter outside their mask."""
        return tuple(queue for queue in self.queues if queue.outside)

    @property
    def stranded(self) -> tuple[QueueState, ...]:
        """The queues that have an online submitter and no interrupt: I/O there times out."""
        return tuple(queue for queue in self.queues if queue.stranded)

    def of(self, what: str) -> list[Change]:
        """Return the changes of one kind, see `Change.what`."""
        return [change for change in self.changes if change.what == what]

    @property
    def summary(self) -> str:
        """How interrupts lie on the online CPUs, in a sentence."""
        histogram = Counter(self.counts.values())
        spread = ", ".join(
            f"{counted(cpus, 'CPU')} x {irqs}" for irqs, cpus in sorted(histogram.items())
        )
        online = counted(len(self.online), "online CPU")
        return f"{sum(self.counts.values())} IRQs on {online}: {spread}"

    def document(self) -> dict[str, Any]:
        """Return the step as JSON knows it."""
        return {
            "event": self.title,
            "online": str(self.online),
            "irqs_per_cpu": self.counts,
            "submitters_per_cpu": self.submitters,
            "calls": [call._asdict() for call in self.calls],
            "changes": [
                {
                    "what": change.what,
                    "queue": change.label,
                    "before": change.before,
                    "after": change.after,
                    "why": change.why,
                    "functions": change.functions,
                }
                for change in self.changes
            ],
            "outside": {queue.label: str(queue.outside) for queue in self.outside},
            "stranded": {queue.label: str(queue.stranded) for queue in self.stranded},
        }


class LifeFrames(NamedTuple):
    """The steps of a life as DataFrames."""

    steps: "pd.DataFrame"
    """A row a step: the event, and how many of each thing it did; how things stand after it."""
    changes: "pd.DataFrame"
    """A row a change: what happened to which queue, before and after, and why."""
    queues: "pd.DataFrame"
    """A row a step and queue: map, mask, handler, and the submitters outside or stranded."""
    per_cpu: "pd.DataFrame"
    """A row a step and online CPU: interrupts and submitters that it handles."""


def life_frames(steps: Sequence[Step]) -> LifeFrames:
    """Return the steps of a life as DataFrames."""
    import pandas as pd

    summary = [
        {
            "step": step.number,
            "event": step.title,
            "online": len(step.online),
            **{what.replace(" ", "_"): len(step.of(what)) for what in (*_MOVES, "mask", "map")},
            "outside": len(step.outside),
            "stranded": len(step.stranded),
            "idle": sum(not irqs for irqs in step.counts.values()),
            "most_irqs": max(step.counts.values()),
            "most_submitters": max(step.submitters.values()),
        }
        for step in steps
    ]
    changes = [
        (step.number, step.title, *change.row()) for step in steps for change in step.changes
    ]
    queues = [(step.number, *queue.row()) for step in steps for queue in step.queues]
    per_cpu = [
        (step.number, cpu, irqs, step.submitters[cpu])
        for step in steps
        for cpu, irqs in step.counts.items()
    ]
    what = ["step", "event", "queue", "what", "before", "after", "why", "functions"]
    state = ["step", "device", "queue", "kind", "map", "mask", "handler", "outside", "stranded"]
    return LifeFrames(
        pd.DataFrame(summary).set_index("step"),
        pd.DataFrame(changes, columns=what),
        pd.DataFrame(queues, columns=state).astype({"queue": "Int64", "handler": "Int64"}),
        pd.DataFrame(per_cpu, columns=["step", "cpu", "irqs", "submitters"]),
    )


def life_text(title: str, steps: Sequence[Step]) -> str:
    """Return the steps of a life as the text one would paste into a mail, 72 columns wide."""
    return "\n\n".join(
        ["\n".join(_fold(title, "  ")), *(step_text(steps, at) for at in range(len(steps)))]
    )


def step_text(steps: Sequence[Step], number: int) -> str:
    """Return what a step did, and what is different since the one before it."""
    step, before = steps[number], steps[number - 1] if number else None
    lines = _fold(f"{step.number}. {step.title}", "   ")
    for line in (*_did(step), step.summary, *_stands(step, before)):
        lines += _fold(f"   {line}", "     ")
    return "\n".join(lines)


def _did(step: Step) -> Iterator[str]:
    """Say what a step did, line by line."""
    for what in _MOVES:
        for functions in dict.fromkeys(change.functions for change in step.of(what)):
            mine = [change for change in step.of(what) if change.functions == functions]
            if what in ("placed", "freed"):
                yield f"{what}: {counted(len(mine), 'interrupt')} ({functions})"
            elif what in ("not started", "shut down"):
                yield f"{what}: {_some([one.label for one in mine])} ({functions})"
            else:
                cpus = [f"{one.label} {one.before or 'off'}->{one.after}" for one in mine]
                yield f"{what}: {_some(cpus)} ({functions})"
    for call in step.calls:
        groups = f"{counted(call.numgrps, 'group')}, offset {call.spread_offset}"
        yield f"group_cpus_evenly() for {call.device} {call.kind}: {groups}"
    for what in ("mask", "map"):
        for functions in dict.fromkeys(change.functions for change in step.of(what)):
            mine = [change for change in step.of(what) if change.functions == functions]
            sets = [f"{one.label} {one.before}->{one.after}" for one in mine]
            yield f"{counted(len(mine), 'other ' + what)}: {_some(sets)} ({functions})"
    if step.event and step.event.action == "reset" and not step.of("map"):
        yield f"the queue map stays ({RULES['map kept'].functions})"


def _stands(step: Step, before: Step | None) -> Iterator[str]:
    """Say which CPUs are outside the masks of their queues, if that is new."""
    if step.outside and (before is None or step.outside != before.outside):
        pairs = sum(len(queue.outside) for queue in step.outside)
        cpus = [f"{queue.label} {queue.outside}" for queue in step.outside]
        yield (
            f"outside the mask of a queue that they submit to ({counted(pairs, 'pair')} of CPU "
            f"and queue): {_some(cpus)}"
        )
    elif not step.outside and before is not None and before.outside:
        yield "every CPU is in the masks of its queues again"
    if step.stranded:
        cpus = [f"{queue.label} {queue.stranded}" for queue in step.stranded]
        yield f"no interrupt, I/O waits for the time-out: {_some(cpus)}"


def _some(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more


def _fold(line: str, indent: str) -> list[str]:
    return wrap(line, _WIDTH, subsequent_indent=indent, break_long_words=False) or [""]
