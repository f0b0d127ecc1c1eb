# SPDX-License-Identifier: GPL-2.0-only
"""How many queues to ask for, so that none lacks a CPU and the load is even."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import Revision
from groupcpus.errors import RequestError, VectorSpaceError, brief, counted
from groupcpus.machines.bounds import least_maximum
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Interrupt, Run
from groupcpus.observed.folding import folded
from groupcpus.observed.patience import Patience

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["QueueCount", "QueueCounts", "count_queues", "usual_counts"]

# Rows of a table.
MOST_COUNTS = 64
WORK = 3_000_000


@dataclass(frozen=True)
class QueueCount:
    """What a number of queues a device makes of a machine.

    Attributes
    ----------
    queues : int
        I/O queues of each device.
    offline : int
        Queues, over all devices, without an online CPU: their interrupts stay shut down.
    isolated : int
        Queues whose online CPUs are all isolated: no housekeeping CPU handles their interrupts.
    remote : int
        CPUs with a queue whose interrupt is handled on another node.
    single : int
        Queues with one CPU in the mask.
    least, greatest : int
        Interrupts on the least and the most loaded CPU that may handle any.
    best : int
        No grouping gets `greatest` below this.
    smallest, largest : int
        CPUs in the smallest and the largest mask.
    """

    queues: int
    offline: int
    isolated: int
    remote: int
    single: int
    least: int
    greatest: int
    best: int
    smallest: int
    largest: int

    @property
    def lacks_nothing(self) -> bool:
        """Whether each queue has an online, a housekeeping and a local CPU."""
        return not (self.offline or self.isolated or self.remote)

    @property
    def even(self) -> bool:
        """Whether the most loaded CPU has no more than it must."""
        return self.greatest <= self.best


@dataclass(frozen=True)
class QueueCounts:
    """The numbers of queues that were tried, ascending, and which of them are good."""

    machine: Machine
    revision: str
    isolated: CpuSet
    rows: tuple[QueueCount, ...]
    complete: bool = True

    @property
    def good(self) -> tuple[int, ...]:
        """Numbers of queues with which none lacks a CPU, and the load is even."""
        return tuple(row.queues for row in self.rows if row.lacks_nothing and row.even)

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a number of queues: the fields of `QueueCount`, and ``good``."""
        import pandas as pd

        frame = pd.DataFrame(map(asdict, self.rows), columns=list(QueueCount.__dataclass_fields__))
        return frame.assign(good=frame["queues"].isin(self.good))

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        good = self.good
        if good:
            return (
                f"Ask for {good[-1]} queues (or {', '.join(map(str, good[-4:-1])) or 'no other'}): "
                "none lacks an online, a housekeeping or a local CPU, and the load is even."
            )
        fine = [row for row in self.rows if row.lacks_nothing]
        if fine:
            best = min(fine, key=lambda row: (row.greatest - row.best, -row.queues))
            return (
                f"No number is even; with {best.queues} none lacks a CPU, and the most loaded CPU "
                f"has {best.greatest}, where {best.best} would be best."
            )
        if not self.rows:
            return "No number was tried."
        least = min(self.rows, key=lambda row: (row.offline + row.isolated, row.remote))
        return (
            f"Each number lacks something; least {least.queues}: {least.offline} queues without an "
            f"online CPU, {least.isolated} without a housekeeping CPU, "
            f"{counted(least.remote, 'CPU')} served from another node."
        )

    def __str__(self) -> str:
        return folded(self.lines())

    def lines(self) -> Iterator[str]:
        """Return a line a number: what is lacking, and the load."""
        yield self.verdict
        yield ""
        yield (
            "queues  CPUs in a mask  no online CPU  no housekeeping CPU  CPUs served remotely  "
            "on a CPU  best"
        )
        for row in self.rows:
            masks = f"{row.smallest}-{row.largest}"
            if row.smallest == row.largest:
                masks = str(row.largest)
            mark = "  <-" if row.queues in self.good else ""
            yield (
                f"{row.queues:>6}  {masks:>14}  {row.offline:>13}  {row.isolated:>19}  "
                f"{row.remote:>20}  {f'{row.least}-{row.greatest}':>8}  {row.best:>4}{mark}"
            )
        if not self.complete:
            yield "and more that were not tried: it took too long"


def usual_counts(cpus: int) -> list[int]:
    """Return numbers of queues worth trying: all on small machines, else those that divide well.

    Examples
    --------
    >>> usual_counts(4), usual_counts(128)[-6:]
    ([1, 2, 3, 4], [64, 85, 96, 126, 127, 128])
    """
    if cpus <= MOST_COUNTS:
        return list(range(1, cpus + 1))
    wanted = {1, 2, cpus - 1, cpus - 2, cpus}
    wanted |= {cpus * share // 12 for share in (3, 4, 6, 8, 9)}
    wanted |= {cpus // divisor for divisor in range(1, cpus + 1)}
    return sorted(count for count in wanted if count)[-MOST_COUNTS:]


def count_queues(
    machine: Machine,
    counts: Iterable[int] | None = None,
    *,
    revision: str | Revision = "cluster",
    isolated: CpuSet | None = None,
    patience: Patience | None = None,
) -> QueueCounts:
    """Try numbers of queues on a machine's main devices.

    Parameters
    ----------
    machine : Machine
        With the devices whose number of queues is to be chosen.
    counts : iterable of int, optional
        The numbers to try; `usual_counts` of its CPUs when left out.
    revision : str or Revision
        The version of `group_cpus_evenly`.
    isolated : CpuSet, optional
        CPUs that ``isolcpus=managed_irq`` names.
    patience : Patience, optional
        How much work it may take; some seconds' when left out.

    Raises
    ------
    RequestError
        If a number is none that can be, or there is no device with interrupts.

    Examples
    --------
    Four of eight CPUs are isolated, the upper ones of each node of four:

    >>> from groupcpus.sources import load_machine
    >>> machine = load_machine("node:2 core:2 pu:2", queues=2, irqchip="x86")
    >>> answer = count_queues(machine, isolated=CpuSet("2-3,6-7"))
    >>> [(row.queues, row.isolated, row.remote) for row in answer.rows][:5]
    [(1, 0, 4), (2, 0, 0), (3, 1, 0), (4, 2, 0), (5, 2, 0)]
    >>> answer.good
    (2,)
    """
    topology = machine.topology
    isolated = isolated or CpuSet()
    if not isinstance(isolated, CpuSet) or not topology.online - isolated:
        raise RequestError(f"isolated {brief(isolated)}: expected a CpuSet that leaves a CPU")
    patience = patience or Patience(WORK)
    rows: list[QueueCount] = []
    complete = True
    for queues in sorted(set(usual_counts(len(topology.possible)) if counts is None else counts)):
        work = len(machine.devices) * (len(topology.possible) + queues)
        if not patience.left("trying numbers of queues", work) and rows:
            complete = False
            break
        try:
            run = simulate(machine.with_devices(io_queues=queues), revision=revision)
            rows.append(_row(queues, run, isolated))
        except VectorSpaceError:
            continue  # no kernel gets there
    name = revision if isinstance(revision, str) else revision.name
    return QueueCounts(machine, name, isolated, tuple(rows), complete)


def _row(queues: int, run: Run, isolated: CpuSet) -> QueueCount:
    topology = run.machine.topology
    interrupts = [irq for irq in run.interrupts if irq.managed]
    effective = [irq.effective for irq in interrupts]
    if isolated:
        effective = _anew(run, interrupts, isolated)
    eligible = list(topology.online - isolated)
    counts = dict.fromkeys(eligible, 0)
    offline = lacking = 0
    remote = CpuSet()
    for irq, cpu in zip(interrupts, effective, strict=True):
        if cpu is None:
            offline += 1
            continue
        counts[cpu] = counts.get(cpu, 0) + 1
        lacking += cpu in isolated
        remote |= (irq.affinity & topology.online) - topology.nodes[topology.node_of(cpu)]
    sizes = [len(irq.affinity) for irq in interrupts] or [0]
    calls = {(irq.device, irq.kind) for irq in interrupts}
    handled = sum(counts.values())
    return QueueCount(
        queues,
        offline,
        lacking,
        len(remote),
        sizes.count(1),
        min(counts.values(), default=0),
        max(counts.values(), default=0),
        least_maximum(len(eligible), handled - lacking, len(calls), run.irqchip),
        min(sizes),
        max(sizes),
    )


def _anew(run: Run, interrupts: list[Interrupt], isolated: CpuSet) -> list[int | None]:
    """Place the same masks, device by device, by an irqchip that keeps off isolated CPUs."""
    chip = make_irqchip(run.irqchip, run.machine.topology, isolated)
    by_device: dict[str, list[CpuSet]] = {}
    for irq in interrupts:
        by_device.setdefault(irq.device, []).append(irq.affinity)
    placed = {name: iter(chip.assign(masks)) for name, masks in by_device.items()}
    return [next(placed[irq.device]) for irq in interrupts]
