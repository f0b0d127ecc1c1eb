# SPDX-License-Identifier: GPL-2.0-only
"""Which CPU submits to which queue, and who is interrupted for it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import RequestError, brief, counted
from groupcpus.observed.compare import Comparison, compare
from groupcpus.observed.folding import folded
from groupcpus.observed.verdicts import Judged
from groupcpus.sources import Loaded

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Submission", "Submissions", "submissions"]

MOST_QUEUES = 24


@dataclass(frozen=True)
class Submission:
    """A queue, who submits to it, and who is interrupted.

    Attributes
    ----------
    device : str
        Whose queue.
    kind : str
        What it is for: ``default`` (writes, and reads where there is no set for them), ``read``,
        ``poll``.
    queue : int
        Its number; for NVMe and maps alone the hardware queue's, from 1.
    name : str
        Its interrupt's name; empty for a queue that is polled.
    submitters : CpuSet
        CPUs that submit to it.
    hidden : CpuSet
        Those among them that its queue map leaves out, as they are isolated.
    interrupted : int or None
        The CPU that is interrupted; None: it is polled, not known, or shut down.
    """

    device: str
    kind: str
    queue: int
    name: str
    submitters: CpuSet
    hidden: CpuSet
    interrupted: int | None


@dataclass(frozen=True)
class Submissions:
    """Both directions of the map between CPUs and queues.

    Attributes
    ----------
    comparison : Comparison
        The machine.
    rows : tuple of Submission
        Queue by queue.
    """

    comparison: Comparison
    rows: tuple[Submission, ...]

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a queue, CPU sets as cpulists."""
        import pandas as pd

        names = list(Submission.__dataclass_fields__)
        frame = pd.DataFrame(map(asdict, self.rows), columns=names)
        for name in ("submitters", "hidden"):
            frame[name] = frame[name].map(str)
        return frame.astype({"interrupted": "Int64"})

    def of_cpu(self, cpu: int) -> tuple[Submission, ...]:
        """Return the queues that a CPU submits to: one a device and kind of I/O."""
        self._check(cpu)
        return tuple(row for row in self.rows if cpu in row.submitters)

    def interrupting(self, cpu: int) -> tuple[Submission, ...]:
        """Return the queues whose interrupts a CPU handles, for the I/O of their submitters."""
        self._check(cpu)
        return tuple(row for row in self.rows if row.interrupted == cpu)

    def about(self, cpu: int) -> str:
        """Return both directions of one CPU as text."""
        return folded(self.lines(cpu))

    def _check(self, cpu: int) -> None:
        possible = self.comparison.topology.possible
        if not isinstance(cpu, int) or isinstance(cpu, bool) or cpu not in possible:
            raise RequestError(f"cpu {brief(cpu)}: expected one of {possible}")

    def __str__(self) -> str:
        return folded(self.lines())

    def lines(self, cpu: int | None = None) -> Iterator[str]:
        """Return both directions as text; of one CPU alone if it is named."""
        if cpu is not None:
            yield from self._lines_of(cpu)
            return
        for device in dict.fromkeys(row.device for row in self.rows):
            rows = [row for row in self.rows if row.device == device]
            yield f"{device}: {counted(len(rows), 'queue')}"
            for row in rows[:MOST_QUEUES]:
                yield f"  {_text(row)}"
            if len(rows) > MOST_QUEUES:
                yield f"  and {len(rows) - MOST_QUEUES} more; --cpu N has one CPU's"
        others = {
            row.interrupted: row.submitters - CpuSet([row.interrupted])
            for row in self.rows
            if row.interrupted is not None
        }
        crossing = [cpu for cpu, from_others in others.items() if from_others]
        yield (
            f"{counted(len(others), 'CPU')} {'is' if len(others) == 1 else 'are'} interrupted, "
            f"{len(crossing)} of them for I/O that another CPU submitted."
        )

    def _lines_of(self, cpu: int) -> Iterator[str]:
        yield f"CPU {cpu} submits to:"
        for row in self.of_cpu(cpu):
            yield f"  {row.device} {_text(row)}"
        yield f"CPU {cpu} is interrupted for:"
        found = self.interrupting(cpu)
        for row in found:
            yield f"  {row.device} {_text(row)}"
        if not found:
            yield "  none"


def _text(row: Submission) -> str:
    whom = f"CPU {row.interrupted} is interrupted"
    if row.interrupted is None:
        whom = "polled, nobody is interrupted" if row.kind == "poll" else "who handles it: unknown"
    hidden = f" ({row.hidden} of them isolated, not in mq/N/cpu_list)" if row.hidden else ""
    return f"queue {row.queue} ({row.kind}): CPUs {row.submitters}{hidden} submit, {whom}"


def submissions(source: Comparison | Loaded) -> Submissions:
    r"""Say for each queue which CPUs submit to it, and who is interrupted when it completes.

    Queue maps are made of the masks (`blk_mq_map_hw_queues()`), so where no source has the maps,
    the masks of managed interrupts are taken; isolated CPUs submit although maps leave them out.

    Parameters
    ----------
    source : Comparison or Loaded
        The machine.

    Raises
    ------
    RequestError
        If no queue's CPUs are known.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> answer = submissions(load("x86-8cpu-4nodes-1x3-poll1-7.3"))
    >>> [(row.kind, str(row.submitters), row.interrupted) for row in answer.rows]
    [('default', '0-1,4-5', 5), ('default', '2-3,6-7', 7), ('poll', '0-7', None)]
    >>> [row.queue for row in answer.of_cpu(6)], [row.queue for row in answer.interrupting(5)]
    ([2, 3], [1])
    """
    comparison = source if isinstance(source, Comparison) else compare(source, search_offsets=0)
    rows = [row for judged in comparison.devices for row in _device(judged, comparison)]
    if not rows:
        raise RequestError("submitters: no queue map and no managed interrupt's mask is known")
    return Submissions(comparison, tuple(rows))


def _device(judged: Judged, comparison: Comparison) -> Iterator[Submission]:
    if not judged.calls_grouping:
        return
    found, online = judged.found, comparison.topology.online
    rows = [row for row in judged.rows if row.kind != "other" and row.queue is not None]
    if found.kind == "irqs" and not found.from_maps:
        rows = [row for row in judged.rows if row.predicted is not None]
    of_map = found.from_maps and judged.verdict == "follows"
    for place, row in enumerate(rows, start=1):
        mask = row.predicted if row.affinity is None or of_map else row.affinity
        if mask is None:
            continue
        number = place
        if row.queue is not None and found.kind != "irqs":
            number = row.queue + (found.kind != "nvme")
        shown = found.maps[number - 1] if 1 <= number <= len(found.maps) else None
        # An older kernel's or a stale map may be another than the mask.
        submitters = mask if shown is None else shown | (mask & comparison.unmapped)
        handled = row.effective.first if row.effective and mask & online else None
        yield Submission(
            found.name,
            row.kind,
            number,
            row.name,
            submitters,
            submitters - shown if shown is not None else CpuSet(),
            handled,
        )
    for number, cpus in enumerate(found.maps[len(rows) :], start=len(rows) + 1):
        yield Submission(found.name, "poll", number, "", cpus, CpuSet(), None)
