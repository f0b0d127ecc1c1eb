# SPDX-License-Identifier: GPL-2.0-only
"""Explain effective CPUs by counts of managed interrupts, and by orders of requests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.topology import Topology
from groupcpus.errors import VectorSpaceError
from groupcpus.observed.interleaving import Interleaving, find_interleaving
from groupcpus.observed.patience import Patience
from groupcpus.observed.recorded import RecordedDevice
from groupcpus.observed.verdicts import Judged, JudgedRow

__all__ = ["EffectiveCpus", "find_order", "managed_loads"]

MAX_STATES = 5_000


def managed_loads(judged: Iterable[Judged], topology: Topology) -> dict[int, int]:
    """Count the managed interrupts that each online CPU handles."""
    handled = Counter(
        row.effective.first
        for one in judged
        for row in one.rows
        if row.managed and row.effective and row.mask and row.mask & topology.online
        if not row.shutdown
    )
    return {cpu: handled[cpu] for cpu in topology.online}


class EffectiveCpus:
    """Explains effective CPUs by counts of managed interrupts."""

    def __init__(
        self,
        topology: Topology,
        chip: str | None,
        isolated: CpuSet,
        loads: dict[int, int],
        judged: Iterable[Judged],
    ) -> None:
        self.topology = topology
        self.chip = chip
        self.isolated = isolated
        self.loads = loads
        self.masks: dict[CpuSet, _Mask] = {}
        managed = [row for one in judged for row in one.rows if row.managed]
        self.too_many = self._unexplained(managed) if chip == "x86" else {}

    def allowed(self, mask: CpuSet) -> CpuSet:
        """Narrow a managed mask to the CPUs that an irqchip may pick."""
        online = mask & self.topology.online
        return online - self.isolated or online

    def explain(self, row: JudgedRow) -> JudgedRow:
        """Put a row's effective CPU into words."""
        if row.effective is None or row.mask is None:
            known = "the only CPU that has handled it" if row.by_counts else ""
            return replace(row, effective_why=known)
        if not row.mask <= self.topology.possible:
            return replace(row, effective_why="the topology lacks CPUs of its mask")
        if not row.managed:
            return replace(row, effective_why="not managed: whatever had most room then")
        mask = self._mask(row.mask)
        if not mask.allowed:
            why = f"shut down, all of CPUs {row.mask} are offline: {row.effective} is no error"
            return replace(row, effective_why=why)
        if row.shutdown:
            return replace(row, effective_why="shut down, says the kernel, since its CPUs went")
        if not row.effective:
            return replace(row, effective_why="none: nobody has requested it, or it is shut down")
        if not row.effective <= mask.allowed or len(row.effective) != 1:
            why = f"not one of CPUs {mask.words}, the choice it had"
            if row.by_counts:
                why = f"CPU {row.effective} has handled it, {why}"
            return replace(row, effective_why=why, odd=not row.by_counts)
        cpu = row.effective.first
        assert cpu is not None
        avoided = row.mask & self.topology.online & self.isolated - mask.allowed
        kept = f"off the isolated CPUs {avoided}; " if avoided else ""
        why, odd = self._load(cpu, mask)
        by_counts = "by counts; " if row.by_counts else ""
        return replace(row, effective_why=by_counts + kept + why, odd=odd)

    def _mask(self, mask: CpuSet) -> "_Mask":
        """Return a managed mask as an irqchip may pick of it, and the loads there."""
        if mask not in self.masks:
            self.masks[mask] = _Mask(self.allowed(mask), self.loads)
        return self.masks[mask]

    def _load(self, cpu: int, mask: "_Mask") -> tuple[str, bool]:
        """Say how loaded the CPU and the others of the mask are now."""
        here = self.loads[cpu]
        if len(mask.allowed) == 1:
            return f"the only choice ({_managed(here)} there)", False
        least, most = mask.others(here)
        span = str(least) if least == most else f"{least} to {most}"
        text = f"{_managed(here)} on CPU {cpu}, {span} on the others of {mask.words}"
        if self.chip in ("gicv3", "its-first"):
            odd = cpu != mask.allowed.first
            return f"{'not ' if odd else ''}the first CPU of {mask.words}", odd
        if (limit := self.too_many.get(cpu)) is not None and here > limit:
            return f"{text}: more than any order of requests gives", True
        return text, False

    def _unexplained(self, rows: Iterable[JudgedRow]) -> dict[int, int]:
        """Give the CPUs with more managed interrupts than any order can put there, and the limit.

        When a CPU gets its k-th one, each other CPU of the mask has k - 1 or more already (one
        with a higher number: k, as the last of equals is taken).  What a CPU has now it had then
        at most.  So the k-th one's mask has no CPU with fewer now.
        """
        limits: dict[int, list[int]] = {}
        for row in rows:
            if not row.mask or not row.effective or len(row.effective) != 1:
                continue
            cpu, mask = row.effective.first, self._mask(row.mask)
            if cpu is not None and cpu in mask.allowed:
                limits.setdefault(cpu, []).append(mask.room(cpu))
        unexplained = {}
        for cpu, rooms in limits.items():
            placed = 0
            for least in sorted(rooms):
                placed += least > placed
            if placed < len(rooms):
                unexplained[cpu] = placed
        return unexplained


class _Mask:
    """The CPUs that an irqchip may pick of a mask, and how many interrupts each has now."""

    NO_LIMIT = 1 << 30

    def __init__(self, allowed: CpuSet, loads: dict[int, int]) -> None:
        self.allowed = allowed
        self.words = str(allowed)
        cpus = list(allowed)
        counts = [loads[cpu] for cpu in cpus]
        self.sorted = sorted(counts)
        # The least load in front of each CPU, and behind it.
        front = [*accumulate(counts, min, initial=self.NO_LIMIT)]
        behind = [*accumulate(reversed(counts), min, initial=self.NO_LIMIT)][::-1]
        self.rooms = {
            cpu: min(front[index] + 1, behind[index + 1]) for index, cpu in enumerate(cpus)
        }

    def others(self, count: int) -> tuple[int, int]:
        """Return the least and the greatest load of all but a CPU with so many."""
        least, most = self.sorted[0], self.sorted[-1]
        return (
            self.sorted[1] if count == least else least,
            self.sorted[-2] if count == most else most,
        )

    def room(self, cpu: int) -> int:
        """Return up to which number the CPU may be given interrupts, going by the others."""
        return self.rooms[cpu]


def _managed(count: int) -> str:
    return f"{count} managed"


def find_order(
    judged: Sequence[Judged],
    topology: Topology,
    chip: str | None,
    isolated: CpuSet,
    patience: Patience,
) -> Interleaving | None:
    """Look for an order of requests that gives the effective CPUs that were found.

    None: not all that it takes is known, or no machine has vectors for all.
    """
    devices = []
    for one in judged:
        never = CpuSet()
        managed = [
            row
            for row in one.rows
            if row.managed and not row.shutdown and row.effective != never and row.irq is not None
        ]
        rows = [row for row in managed if row.effective and row.mask]
        if len(rows) < len(managed):
            return None  # not all is known
        if any(not (row.mask or never) <= topology.possible for row in rows):
            return None  # nor are all CPUs
        if rows:
            # A recorded device has its admin queue's vector in front.
            devices.append(
                RecordedDevice(
                    one.found.name,
                    one.found.slot or "",
                    len(rows),
                    (0, *(row.irq or 0 for row in rows)),
                    (CpuSet(), *(row.mask or CpuSet() for row in rows)),
                    (0, *((row.effective or CpuSet()).first or 0 for row in rows)),
                    (),
                )
            )
    if not devices or chip is None:
        return None
    try:
        return find_interleaving(
            devices, make_irqchip(chip, topology, isolated), MAX_STATES, patience
        )
    except VectorSpaceError:
        return None
