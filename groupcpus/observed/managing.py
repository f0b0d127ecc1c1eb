# SPDX-License-Identifier: GPL-2.0-only
"""Which interrupts are managed, so that nobody may move them: "write error" is normal then."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from groupcpus.errors import RequestError, brief, counted
from groupcpus.observed.compare import compare
from groupcpus.observed.folding import folded
from groupcpus.observed.verdicts import JudgedRow
from groupcpus.sources import Loaded, ShownInterrupt
from groupcpus.sources.found import find_devices

__all__ = ["Managed", "ManagedAnswer", "Refusal", "read_refusals", "which_managed"]

MAX_LINES = 100_000
_NUMBER = re.compile(r"(?:\bIRQ[ _#]*|/proc/irq/)([0-9]{1,9})(?![0-9])", re.ASCII | re.IGNORECASE)
_REFUSED = re.compile(
    r"error|cannot|can't|could not|fail|denied|unmanaged|refuse|errno|not permitted", re.IGNORECASE
)
_EIO = re.compile(r"input/output error|errno 5\b|\bEIO\b|error 5\b", re.IGNORECASE)


@dataclass(frozen=True)
class Refusal:
    """A line of a log that says that an interrupt's affinity could not be set.

    Attributes
    ----------
    irq : int
        Its number.
    eio : bool
        Whether the error is "Input/output error", as for a managed one.
    line : str
        The line.
    """

    irq: int
    eio: bool
    line: str


@dataclass(frozen=True)
class Managed:
    """Whether an interrupt is managed.

    Attributes
    ----------
    irq : int
        Its number.
    name : str
        What the driver calls it.
    device : str
        Whose it is; empty if that is not known.
    managed : bool or None
        Whether the kernel owns its affinity; None: not known.
    why : str
        What shows it.
    refused : bool
        Whether a log says that its affinity could not be set.
    eio : bool
        Whether the error there was "Input/output error".
    """

    irq: int
    name: str
    device: str
    managed: bool | None
    why: str
    refused: bool = False
    eio: bool = False

    @property
    def normal(self) -> bool | None:
        """Whether a write to its affinity ends in an error, by design."""
        return self.managed


@dataclass(frozen=True)
class ManagedAnswer:
    """All interrupts that were asked for, and refusals of interrupts that no source has."""

    rows: tuple[Managed, ...]
    unknown: tuple[Refusal, ...] = ()

    def __str__(self) -> str:
        return folded(self.lines())

    def lines(self) -> Iterator[str]:
        """Return the answer as text: devices with what may be written, and why."""
        managed = [row for row in self.rows if row.managed]
        refused = [row for row in self.rows if row.refused]
        yield (
            f"{len(managed)} of {counted(len(self.rows), 'interrupt')} "
            f"{'is' if len(managed) == 1 else 'are'} managed: writing their affinity gives "
            "Input/output error (EIO), as it should."
        )
        if refused:
            normal = sum(row.managed is True for row in refused)
            yield f"Refused in the log: {len(refused)}, of which {normal} are managed: normal."
        for words, rows in self._alike():
            yield f"  {words}: {', '.join(_label(row) for row in rows)}"
        for refusal in self.unknown:
            yield f"  IRQ {refusal.irq} is in the log, and no source has it"

    def _alike(self) -> Iterator[tuple[str, list[Managed]]]:
        alike: dict[str, list[Managed]] = {}
        for row in self.rows:
            if row.refused and row.managed is False:
                words = "not managed, refused for another reason: no online CPU in the value, ..."
                if row.eio:
                    words = "not managed, yet EIO: it may not be balanced, or its chip cannot"
            elif row.managed is None:
                words = f"not known ({row.why})"
            else:
                words = f"{'managed' if row.managed else 'not managed'} ({row.why})"
            alike.setdefault(f"{row.device or 'others'}: {words}", []).append(row)
        yield from alike.items()


def _label(row: Managed) -> str:
    return f"{row.irq} {row.name}".rstrip() + ("!" if row.refused else "")


def read_refusals(text: str) -> list[Refusal]:
    r"""Read lines of logs that say that an affinity could not be set.

    Those of irqbalance, tuned, perftune and of shells are known: they name the interrupt as
    ``IRQ 45`` or ``/proc/irq/45/...``, and an error.

    Examples
    --------
    >>> read_refusals("Cannot change IRQ 45 affinity: Input/output error\nhello\n")[0].irq
    45
    >>> [one.eio for one in read_refusals(
    ...     "OSError: [Errno 5] Input/output error: '/proc/irq/46/smp_affinity'\n"
    ...     "IRQ 47 affinity is now unmanaged\n")]
    [True, False]
    """
    refusals: dict[int, Refusal] = {}
    for line in text.splitlines()[:MAX_LINES]:
        if not _REFUSED.search(line):
            continue
        for found in _NUMBER.finditer(line):
            irq, eio = int(found[1]), bool(_EIO.search(line))
            if irq not in refusals or (eio and not refusals[irq].eio):
                refusals[irq] = Refusal(irq, eio, line.strip()[:200])
    return list(refusals.values())


def which_managed(
    loaded: Loaded, irqs: Iterable[int] | None = None, refusals: Iterable[Refusal] = ()
) -> ManagedAnswer:
    r"""Say of each interrupt whether the kernel owns its affinity.

    Parameters
    ----------
    loaded : Loaded
        The machine; /proc/interrupts is enough.
    irqs : iterable of int, optional
        The interrupts to answer for; those that `refusals` name when left out, else all.
    refusals : iterable of Refusal
        What a log says; see `read_refusals`.

    Raises
    ------
    RequestError
        If no source has interrupts.

    Notes
    -----
    ``write_irq_affinity()`` in kernel/irq/proc.c gives -EIO where ``irq_can_set_affinity_usr()``
    is false: for managed interrupts, for those that may not be balanced, and for chips that cannot
    set an affinity (Linux 6.12).

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> answer = which_managed(load(
    ...     "/sys/devices/system/cpu/online:0-3\nirq 30 affinity 0-3 effective 0 nvme0q0\n"
    ...     "irq 31 affinity 0-1 effective 1 nvme0q1\nirq 32 affinity 2-3 effective 3 nvme0q2\n"))
    >>> [(row.irq, row.managed) for row in answer.rows]
    [(30, False), (31, True), (32, True)]
    """
    if not loaded.interrupts:
        raise RequestError("managed: no source has interrupts; add /proc/interrupts or a capture")
    said = {refusal.irq: refusal for refusal in refusals}
    wanted = set(irqs) if irqs is not None else set(said) or None
    if irqs is not None and (missing := (wanted or set()) - {one.irq for one in loaded.interrupts}):
        raise RequestError(f"managed: no source has interrupt {brief(min(missing))}")
    rows = _by_comparison(loaded) if loaded.topology is not None else _by_names(loaded)
    known = {row.irq for row in rows}
    answer = [
        replace(row, refused=row.irq in said, eio=row.irq in said and said[row.irq].eio)
        for row in sorted(rows, key=lambda row: row.irq)
        if wanted is None or row.irq in wanted
    ]
    unknown = tuple(refusal for irq, refusal in said.items() if irq not in known)
    return ManagedAnswer(tuple(answer), unknown)


def _by_comparison(loaded: Loaded) -> list[Managed]:
    comparison = compare(loaded, search_offsets=0)
    by_irq = {shown.irq: shown for shown in loaded.interrupts}
    rows = []
    for judged in comparison.devices:
        for row in judged.rows:
            if row.irq is None:
                continue
            managed, why = _why(row, judged.verdict, by_irq[row.irq])
            if managed is None and judged.found.spreads and row.kind != "other":
                managed, why = True, "its driver lets the kernel spread its queues"
            rows.append(Managed(row.irq, row.name, judged.found.name, managed, why))
    return rows + [_other(shown) for shown in comparison.others]


def _why(row: JudgedRow, verdict: str, shown: ShownInterrupt) -> tuple[bool | None, str]:
    if shown.managed is not None:
        return shown.managed, "the kernel says so (debugfs)"
    if row.kind == "other":
        return False, "no queue's: an admin or configuration interrupt"
    if row.managed:
        return True, "its driver lets the kernel spread its queues"
    if verdict == "not known":
        return None, "no affinity is known"
    return False, "its driver leaves its affinity to everybody"


def _by_names(loaded: Loaded) -> list[Managed]:
    found, others = find_devices(loaded)
    rows = []
    for device in found:
        for vector in device.vectors:
            managed = device.spreads
            why = f"by the name of its {'driver' if device.driver else 'interrupts'}"
            if vector.role != "queue" and device.kind in ("nvme", "virtio"):
                managed, why = False, "no queue's: an admin or configuration interrupt"
            if vector.told.managed is not None:
                managed, why = vector.told.managed, "the kernel says so (debugfs)"
            if managed is None:
                why = "its driver is not known"
            rows.append(Managed(vector.irq, vector.name, device.name, managed, why))
    return rows + [_other(shown) for shown in others]


def _other(shown: ShownInterrupt) -> Managed:
    name = ", ".join(shown.actions)
    if shown.managed is not None:
        return Managed(shown.irq, name, "", shown.managed, "the kernel says so (debugfs)")
    return Managed(shown.irq, name, "", False, "no device with queues")
