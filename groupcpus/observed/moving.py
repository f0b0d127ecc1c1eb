# SPDX-License-Identifier: GPL-2.0-only
"""Whether someone moves interrupts: two looks at one machine, compared."""

from collections.abc import Iterator
from dataclasses import dataclass

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import RequestError, counted
from groupcpus.observed.folding import folded
from groupcpus.observed.managing import which_managed
from groupcpus.sources import Loaded, ShownInterrupt

__all__ = ["Move", "Moves", "find_moves"]

MOST_LINES = 40


@dataclass(frozen=True)
class Move:
    """An interrupt that changed between two looks.

    Attributes
    ----------
    irq : int
        Its number.
    name : str
        What its driver calls it.
    managed : bool or None
        Whether the kernel owns its affinity.
    what : str
        ``affinity``, ``effective`` or ``counts``: what shows the move, the strongest sign first.
    before, after : CpuSet
        The affinity, the effective CPU, or the CPUs that counted: before, and since then.
    """

    irq: int
    name: str
    managed: bool | None
    what: str
    before: CpuSet
    after: CpuSet

    @property
    def who(self) -> str:
        """Who can have done it."""
        if self.managed:
            return (
                "managed, so no user and no irqbalance: a CPU went offline, or the device was reset"
            )
        if self.what == "affinity":
            return "irqbalance, a user or its driver set another affinity"
        return "its affinity is as before or not known: a CPU went offline, or somebody moved it"


@dataclass(frozen=True)
class Moves:
    """What changed, and what cannot be compared.

    Attributes
    ----------
    rows : tuple of Move
        By number of the interrupt.
    compared : int
        Interrupts that both looks have.
    gone, new : tuple of int
        Numbers that only the first or only the second look has.
    rebooted : bool
        Whether counts went down: the machine was booted in between, or it is another one.
    irqbalance : bool or None
        Whether irqbalance runs.
    """

    rows: tuple[Move, ...]
    compared: int
    gone: tuple[int, ...]
    new: tuple[int, ...]
    rebooted: bool
    irqbalance: bool | None

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self.rebooted:
            return "Not comparable: counts went down, so it was booted in between, or is another."
        if not self.rows:
            return f"Nobody moved any of {counted(self.compared, 'interrupt')} in between."
        by_hand = sum(row.what == "affinity" and not row.managed for row in self.rows)
        managed = sum(row.managed is True for row in self.rows)
        text = (
            f"{len(self.rows)} of {counted(self.compared, 'interrupt')} moved: {by_hand} were "
            f"given another affinity, {managed} are managed"
        )
        if self.irqbalance is not None:
            text += f"; irqbalance {'runs' if self.irqbalance else 'does not run'}"
        return f"{text}."

    def __str__(self) -> str:
        return folded(self.lines())

    def lines(self) -> Iterator[str]:
        """Return the answer as text."""
        yield self.verdict
        if self.rebooted:
            return
        for row in self.rows[:MOST_LINES]:
            yield (
                f"  {row.irq} {row.name}: {row.what} {row.before} before, {row.after} now; "
                f"{row.who}"
            )
        if len(self.rows) > MOST_LINES:
            yield f"  and {len(self.rows) - MOST_LINES} more"
        if self.gone or self.new:
            yield (
                f"  {len(self.gone)} interrupts are gone and {len(self.new)} new: devices were "
                "removed, added or reset"
            )


def find_moves(before: Loaded, after: Loaded) -> Moves:
    r"""Compare two looks at one machine: two captures, or /proc/interrupts read twice.

    Parameters
    ----------
    before, after : Loaded
        The earlier one first.

    Raises
    ------
    RequestError
        If one of them has no interrupts, or they have none in common.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> head = "           CPU0       CPU1\n"
    >>> first = load(head + " 24:  9  0  PCI-MSI 1-edge  eth0-TxRx-0\n")
    >>> second = load(head + " 24:  9  7  PCI-MSI 1-edge  eth0-TxRx-0\n")
    >>> print("\n".join(find_moves(first, second).lines()))  # doctest: +ELLIPSIS
    1 of 1 interrupt moved: 0 were given another affinity, 0 are managed.
      24 eth0-TxRx-0: counts 0 before, 1 now; its affinity is as before or not known: ...
    """
    old = {one.irq: one for one in before.interrupts}
    new = {one.irq: one for one in after.interrupts}
    # Numbers are given anew after a removal: the name has to be the same.
    common = [irq for irq in old if irq in new and old[irq].actions == new[irq].actions]
    if not common:
        raise RequestError("moved: the two have no interrupt of the same number and name in common")
    managed = {row.irq: row.managed for row in which_managed(after).rows}
    rows = [move for irq in common if (move := _move(old[irq], new[irq], managed.get(irq)))]
    rebooted = any(_fell(old[irq], new[irq]) for irq in common)
    return Moves(
        tuple(rows),
        len(common),
        tuple(irq for irq in old if irq not in common),
        tuple(irq for irq in new if irq not in common),
        rebooted,
        after.irqbalance,
    )


def _fell(old: ShownInterrupt, new: ShownInterrupt) -> bool:
    counts = new.counts
    if old.counts is None or counts is None:
        return False
    # The kernel's counters have 32 bits and wrap.
    return any(counts.get(cpu, 0) < count < 0xF0000000 for cpu, count in old.counts.items())


def _move(old: ShownInterrupt, new: ShownInterrupt, managed: bool | None) -> Move | None:
    name = ", ".join(new.actions)
    for what in ("affinity", "effective"):
        was, now = getattr(old, what), getattr(new, what)
        if was is not None and now is not None and was != now:
            return Move(new.irq, name, managed, what, was, now)
    if old.counts and new.counts:
        counted_before = CpuSet(old.counts)
        grew = CpuSet(cpu for cpu, count in new.counts.items() if count > old.counts.get(cpu, 0))
        if grew - counted_before:
            return Move(new.irq, name, managed, "counts", counted_before, grew)
    return None
