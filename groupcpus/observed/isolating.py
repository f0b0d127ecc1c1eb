# SPDX-License-Identifier: GPL-2.0-only
"""Whether interrupts can be kept off isolated CPUs: ``isolcpus=managed_irq`` as a what-if."""

from collections.abc import Iterator
from dataclasses import dataclass

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.errors import RequestError, counted
from groupcpus.observed.compare import Comparison, compare
from groupcpus.observed.folding import folded
from groupcpus.observed.kernels import isolated_cpus
from groupcpus.observed.verdicts import Judged, JudgedRow
from groupcpus.sources import Loaded
from groupcpus.sources.found import release_version

__all__ = ["IsolatedInterrupt", "Isolation", "can_isolate"]

MOST_NAMES = 12
MOST_LINES = 4


@dataclass(frozen=True)
class IsolatedInterrupt:
    """A managed interrupt, and where it goes if CPUs are isolated.

    Attributes
    ----------
    name, device : str
        What the driver calls it, and whose it is.
    affinity : CpuSet
        Its mask; isolation does not change it.
    effective : int or None
        The CPU that handles it now, where that is known.
    housekeeping : CpuSet
        The online CPUs of its mask that are not isolated.
    effective_then : int or None
        The CPU that handles it with the isolation, if the devices are probed one by one; None: no
        CPU of its mask is online.
    submitters : CpuSet
        The isolated CPUs that submit to its queue.
    """

    name: str
    device: str
    affinity: CpuSet
    effective: int | None
    housekeeping: CpuSet
    effective_then: int | None
    submitters: CpuSet


@dataclass(frozen=True)
class Isolation:
    """Which interrupts an isolation keeps off the isolated CPUs.

    Attributes
    ----------
    isolated : CpuSet
        The CPUs.
    flags : tuple of str
        Those of ``isolcpus=``: ``managed_irq``, ``domain``.
    rows : tuple of IsolatedInterrupt
        The managed interrupts.
    movable : tuple of str
        Interrupts that are not managed and may go to an isolated CPU: their affinity can be set.
    note : str
        What this kernel cannot do; empty if there is nothing to say.
    """

    isolated: CpuSet
    flags: tuple[str, ...]
    rows: tuple[IsolatedInterrupt, ...]
    movable: tuple[str, ...]
    note: str = ""

    @property
    def kept_off(self) -> tuple[IsolatedInterrupt, ...]:
        """Those with isolated CPUs in their masks that the isolation keeps off these."""
        return tuple(row for row in self.rows if row.submitters and row.housekeeping)

    @property
    def stay(self) -> tuple[IsolatedInterrupt, ...]:
        """Those that no flag keeps off: each online CPU of their masks is isolated."""
        return tuple(
            row for row in self.rows if not row.housekeeping and row.effective_then is not None
        )

    def __str__(self) -> str:
        return folded(self.lines())

    def lines(self) -> Iterator[str]:
        """Return the answer as text."""
        yield (
            f"Isolated CPUs {self.isolated}, isolcpus={','.join(self.flags)},{self.isolated}: "
            f"{len(self.kept_off)} of {counted(len(self.rows), 'managed interrupt')} have isolated "
            f"CPUs beside others in their masks, {len(self.stay)} have isolated CPUs alone."
        )
        if self.note:
            yield self.note
        if "managed_irq" not in self.flags:
            yield (
                "Without managed_irq, managed interrupts go to isolated CPUs as to any other: "
                "domain takes these out of the scheduler's domains alone."
            )
        elif self.kept_off:
            yield f"  kept off: {_names(self.kept_off)}"
        if self.stay:
            one = sum(len(row.affinity) == 1 for row in self.stay)
            yield (
                f"  not kept off: {_names(self.stay)}; {one} of them have one CPU in the mask. "
                "managed_irq only chooses within a mask, so it has nothing to choose here. They "
                "fire for I/O that an isolated CPU submits, and for no other: keep I/O off these "
                "CPUs, or ask for fewer queues, so that each mask has a housekeeping CPU."
            )
        if "managed_irq" in self.flags:
            for row in self.kept_off[:MOST_LINES]:
                yield (
                    f"  {row.name}: mask {row.affinity}, handled by CPU {row.effective_then}, also "
                    f"for I/O of the isolated {row.submitters}"
                )
        if self.movable:
            yield (
                f"  not managed: {counted(len(self.movable), 'interrupt')} can be moved by hand, "
                "or with irqaffinity= from the start"
            )
        if "domain" in self.flags and any(row.submitters for row in self.rows):
            yield (
                "mq/N/cpu_list leaves isolated CPUs out from Linux 6.10 on (domain); they map to "
                "their queue all the same and may submit to it."
            )


def _names(rows: tuple[IsolatedInterrupt, ...]) -> str:
    names = ", ".join(row.name for row in rows[:MOST_NAMES])
    more = len(rows) - MOST_NAMES
    return f"{names} and {more} more" if more > 0 else names


def can_isolate(
    source: Comparison | Loaded,
    isolated: CpuSet | None = None,
    flags: tuple[str, ...] = ("managed_irq", "domain"),
) -> Isolation:
    r"""Say which interrupts ``isolcpus=`` keeps off some CPUs, and which it cannot.

    Parameters
    ----------
    source : Comparison or Loaded
        The machine, with affinities.
    isolated : CpuSet, optional
        The CPUs; those of the machine's own command line when left out.
    flags : tuple of str
        ``managed_irq`` keeps managed interrupts off where there is a choice, ``domain`` does not.

    Raises
    ------
    RequestError
        If no CPU is named, a CPU is not the machine's, a flag is unknown, or no CPU is left.

    Notes
    -----
    ``irq_do_set_affinity()`` in kernel/irq/manage.c (from 5.6 on): of a managed interrupt's mask,
    the housekeeping CPUs that are online are taken, if there are any.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> answer = can_isolate(load("x86-24cpu-2nodes-8-16-smt2-cluster4-9+13-7.3"), CpuSet("4-7"))
    >>> [(row.name, str(row.affinity), row.effective_then) for row in answer.rows[:3]]
    [('nvme0q1', '4-7', 7), ('nvme0q2', '0-1', 1), ('nvme0q3', '2-3', 3)]
    >>> [row.name for row in answer.stay], answer.kept_off
    (['nvme0q1', 'nvme1q1', 'nvme1q2'], ())
    """
    comparison = source if isinstance(source, Comparison) else compare(source, search_offsets=0)
    loaded, topology = comparison.loaded, comparison.topology
    if isolated is None:
        isolated = _isolated(loaded, topology.possible)
    if not isinstance(isolated, CpuSet) or not isolated:
        raise RequestError("isolate: no CPU is named, expected a list such as 2-7 in --cpus")
    if not isolated <= topology.possible or not topology.online - isolated:
        raise RequestError(
            f"isolate: CPUs {isolated}; expected some of {topology.possible}, with one left online"
        )
    if unknown := set(flags) - {"managed_irq", "domain"}:
        raise RequestError(f"isolate: flag {min(unknown)!r}, expected managed_irq or domain")
    off = isolated if "managed_irq" in flags else CpuSet()
    chip = make_irqchip(comparison.irqchip or "x86", topology, off)
    rows: list[IsolatedInterrupt] = []
    for judged in comparison.devices:
        managed = [row for row in judged.rows if row.managed and _mask(row) is not None]
        effective = chip.assign([_mask(row) or CpuSet() for row in managed])
        for row, then in zip(managed, effective, strict=True):
            mask = _mask(row) or CpuSet()
            rows.append(
                IsolatedInterrupt(
                    row.name or f"irq {row.irq}",
                    judged.found.name,
                    mask,
                    row.effective.first if row.effective and mask & topology.online else None,
                    (mask & topology.online) - isolated,
                    then,
                    mask & isolated,
                )
            )
    return Isolation(
        isolated, flags, tuple(rows), tuple(_movable(comparison.devices, isolated)), _note(loaded)
    )


def _mask(row: JudgedRow) -> CpuSet | None:
    return row.affinity if row.affinity is not None else row.predicted  # a queue that never counted


def _isolated(loaded: Loaded, possible: CpuSet) -> CpuSet:
    managed, domain = isolated_cpus(" ".join(loaded.cmdline), possible)
    return managed or domain or loaded.isolated or CpuSet()


def _movable(devices: tuple[Judged, ...], isolated: CpuSet) -> Iterator[str]:
    for judged in devices:
        for row in judged.rows:
            reaches = row.affinity is not None and row.affinity & isolated
            if not row.managed and row.irq is not None and reaches:
                yield row.name or f"irq {row.irq}"


def _note(loaded: Loaded) -> str:
    version = release_version(loaded.kernel)
    if version is not None and version < (5, 6):
        return f"Kernel {loaded.kernel} does not know managed_irq: it came with Linux 5.6."
    return ""
