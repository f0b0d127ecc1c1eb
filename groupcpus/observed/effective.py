# SPDX-License-Identifier: GPL-2.0-only
"""Explain effective CPUs by counts of managed interrupts, and by orders of requests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.topology import Topology
from groupcpus.machines.bounds import takes_first
from groupcpus.observed.interleaving import Interleaving, find_interleaving
from groupcpus.observed.judging import Judged, Row
from groupcpus.observed.recordings import RecordedDevice

__all__ = ["EffectiveCpus", "find_order", "managed_loads"]

MAX_STATES = 5_000


def managed_loads(judged: Iterable[Judged], topology: Topology) -> dict[int, int]:
    """Count the managed interrupts that each online CPU handles."""
    handled = Counter(
        row.effective.first
        for one in judged
        for row in one.rows
        if row.managed and row.effective and row.affinity and row.affinity & topology.online
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
        managed = [row for one in judged for row in one.rows if row.managed]
        self.too_many = self._unexplained(managed) if chip == "x86" else {}

    def allowed(self, mask: CpuSet) -> CpuSet:
        """Narrow a managed mask to the CPUs that an irqchip may pick."""
        online = mask & self.topology.online
        return online - self.isolated or online

    def explain(self, row: Row) -> Row:
        """Put a row's effective CPU into words."""
        if row.effective is None or row.affinity is None:
            return row
        if not row.managed:
            return replace(row, effective_why="not managed: whatever had most room then")
        allowed = self.allowed(row.affinity)
        if not allowed:
            why = f"shut down, all of CPUs {row.affinity} are offline: {row.effective} is no error"
            return replace(row, effective_why=why)
        if row.shutdown:
            return replace(row, effective_why="shut down, says the kernel, since its CPUs went")
        if not row.effective <= allowed or len(row.effective) != 1:
            why = f"not one of CPUs {allowed}, the choice it had"
            return replace(row, effective_why=why, odd=True)
        cpu = row.effective.first
        assert cpu is not None
        avoided = row.affinity & self.topology.online & self.isolated - allowed
        kept = f"off the isolated CPUs {avoided}; " if avoided else ""
        why, odd = self._load(cpu, row.affinity, allowed)
        return replace(row, effective_why=kept + why, odd=odd)

    def _load(self, cpu: int, mask: CpuSet, allowed: CpuSet) -> tuple[str, bool]:
        """Tell how loaded the CPU and the others of the mask are now."""
        mine = self.loads[cpu]
        if len(allowed) == 1:
            return f"the only choice ({_managed(mine)} there)", False
        others = [self.loads[other] for other in allowed if other != cpu]
        span = str(min(others)) if min(others) == max(others) else f"{min(others)} to {max(others)}"
        text = f"{_managed(mine)} on CPU {cpu}, {span} on the others of {allowed}"
        if self.chip is not None and takes_first(self.chip):
            odd = cpu != allowed.first
            return f"{'not ' if odd else ''}the first CPU of {allowed}", odd
        if (least := self.too_many.get(cpu)) is not None and mine > least:
            return f"{text}: more than any order of requests gives", True
        return text, False

    def _unexplained(self, rows: Iterable[Row]) -> dict[int, int]:
        """Give the CPUs with more managed interrupts than any order can put there, and the limit.

        When a CPU gets its k-th one, each other CPU of the mask has k - 1 or more already (one
        with a higher number: k, as the last of equals is taken).  What a CPU has now it had then
        at most.  So the k-th one's mask has no CPU with fewer now.
        """
        limits: dict[int, list[int]] = {}
        for row in rows:
            if not row.affinity or not row.effective or len(row.effective) != 1:
                continue
            cpu, allowed = row.effective.first, self.allowed(row.affinity)
            if cpu is None or cpu not in allowed:
                continue
            room = [self.loads[other] + (other < cpu) for other in allowed if other != cpu]
            limits.setdefault(cpu, []).append(min(room, default=len(self.loads) << 16))
        unexplained = {}
        for cpu, rooms in limits.items():
            placed = 0
            for least in sorted(rooms):
                placed += least > placed
            if placed < len(rooms):
                unexplained[cpu] = placed
        return unexplained


def _managed(count: int) -> str:
    return f"{count} managed"


def find_order(
    judged: Sequence[Judged], topology: Topology, chip: str | None, isolated: CpuSet
) -> Interleaving | None:
    """Look for an order of requests that gives the effective CPUs that were found."""
    devices = []
    for one in judged:
        managed = [row for row in one.rows if row.managed and not row.shutdown]
        rows = [row for row in managed if row.effective and row.affinity]
        if len(rows) < len(managed):
            return None  # not all is told
        if rows:
            # A recorded device has its admin queue's vector in front.
            devices.append(
                RecordedDevice(
                    one.found.name,
                    one.found.slot or "",
                    len(rows),
                    (0, *(row.irq for row in rows)),
                    (CpuSet(), *(row.affinity or CpuSet() for row in rows)),
                    (0, *((row.effective or CpuSet()).first or 0 for row in rows)),
                    (),
                )
            )
    if not devices or chip is None:
        return None
    return find_interleaving(devices, make_irqchip(chip, topology, isolated), MAX_STATES)
