# SPDX-License-Identifier: GPL-2.0-only
"""The report on a patch: what it breaks, and which machines it changes, for better or worse.

This module has over 450 lines since a report is what is found, how it is worded, and as JSON.
"""

import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, counted
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.studies.review.compiled import CompiledRevision
from groupcpus.studies.review.predicates import as_topology
from groupcpus.studies.review.running import Answer, CrashError, Request
from groupcpus.studies.review.search import Found, can_it_happen, counters_of
from groupcpus.studies.review.shapes import count_machines, machines_of, shapes
from groupcpus.studies.review.zoo import zoo

__all__ = ["Figures", "Finding", "MachineChange", "Review", "review"]

INVARIANTS = {
    "lost-cpu": True,
    "empty": True,
    "crosses-nodes": False,
    "crosses-clusters": False,
}
"""What must not happen, and whether that holds with absent CPUs too."""

# All machines of so many CPUs are asked for memory errors, with every allocation failing once.
_FAULT_CPUS = 3


@dataclass(frozen=True)
class Finding:
    """Something that a revision does and should not.

    Attributes
    ----------
    what : str
        In a few words.
    where : str
        The smallest machine and call that show it.
    base : bool
        Whether the base does it as well.
    """

    what: str
    where: str
    base: bool = False


@dataclass(frozen=True)
class Figures:
    """How good a run is; smaller is better but for `used`."""

    greatest: int
    submitters: int
    used: int
    split_cores: int
    crossed_caches: int | None

    @classmethod
    def of(cls, run: Run) -> "Figures":
        """Return the figures of a run."""
        topology = run.machine.topology
        masks = [irq.affinity for irq in run.interrupts if irq.managed]
        split = sum(
            any(0 < len(mask & core) < len(core) for core in topology.siblings) for mask in masks
        )
        caches = sum(sum(bool(mask & llc) for llc in topology.llcs) > 1 for mask in masks)
        return cls(
            max(run.counts.values()),
            max(run.submitters.values(), default=0),
            sum(count > 0 for count in run.counts.values()),
            split,
            caches if topology.llcs else None,
        )

    @property
    def badness(self) -> tuple[int, ...]:
        """What they are compared by, the first first."""
        return (
            self.greatest,
            self.submitters,
            -self.used,
            self.split_cores,
            self.crossed_caches or 0,
        )


@dataclass(frozen=True)
class MachineChange:
    """A machine whose masks change."""

    machine: str
    title: str
    masks: int
    of: int
    before: Figures | None
    after: Figures | None
    error: str = ""

    @property
    def verdict(self) -> str:
        """``worse``, ``equal`` or ``better``; ``fails`` if the revision has no answer."""
        if self.before is None or self.after is None:
            return "fails"
        before, after = self.before.badness, self.after.badness
        return "equal" if before == after else "worse" if after > before else "better"


@dataclass(frozen=True)
class Review:
    """What a review came to; ``str()`` is a text to paste under a patch."""

    name: str
    base: str
    findings: tuple[Finding, ...]
    clean: tuple[str, ...]
    changes: tuple[MachineChange, ...]
    same: tuple[str, ...]
    seconds: float
    runs: dict[str, tuple[Run, Run]] = field(default_factory=dict, repr=False)

    def document(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "name": self.name,
            "base": self.base,
            "findings": [asdict(finding) for finding in self.findings],
            "clean": list(self.clean),
            "changes": [asdict(change) | {"verdict": change.verdict} for change in self.changes],
            "unchanged": list(self.same),
        }

    def __str__(self) -> str:
        return "\n".join(_report(self))

    def __repr__(self) -> str:
        return str(self)


_ORDER = ("fails", "worse", "equal", "better")


_COLUMNS = {
    "greatest": "max IRQs",
    "submitters": "submitters",
    "used": "CPUs used",
    "split_cores": "cores split",
    "crossed_caches": "LLCs crossed",
}
_WIDTH = 76


def _report(made: Review) -> Iterator[str]:
    yield from _wrapped(f"groupcpus review: {made.name}")
    yield from _wrapped(f"against: {made.base}")
    yield ""
    new = [finding for finding in made.findings if not finding.base]
    old = [finding for finding in made.findings if finding.base]
    yield f"{counted(len(new), 'finding')}:" if new else "No finding that the base has not."
    for finding in new:
        yield from _lines(finding)
    if old:
        yield ""
        yield "As in the base:"
        for finding in old:
            yield from _lines(finding)
    if made.clean:
        yield ""
        yield "Tried without a finding:"
        for text in made.clean:
            yield from _wrapped(text, "- ")
    if made.changes or made.same:
        yield ""
        yield from _machines(made)


def _machines(made: Review) -> Iterator[str]:
    counts = [(word, sum(c.verdict == word for c in made.changes)) for word in _ORDER]
    words = ", ".join(f"{count} {word}" for word, count in counts if count)
    yield (
        f"Masks change on {len(made.changes)} of {len(made.changes) + len(made.same)} machines"
        f"{': ' * bool(words)}{words}."
    )
    if made.changes:
        yield from _wrapped(
            "(before->after; all devices probed once, counter from 0; worst first, compared by "
            "the columns from the left: IRQs on a CPU, submitters it completes for, CPUs that "
            "handle any, masks that split a core, masks across last-level caches)"
        )
        yield ""
        yield from _table(sorted(made.changes, key=lambda c: (_ORDER.index(c.verdict), c.machine)))
    if made.same:
        yield from ("", *_wrapped(f"Unchanged: {', '.join(made.same)}."))


def _wrapped(text: str, head: str = "", width: int = _WIDTH) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()) + len(head))
    return textwrap.wrap(head + text, width, subsequent_indent=indent, break_on_hyphens=False) or [
        ""
    ]


def _lines(finding: Finding) -> Iterator[str]:
    yield from _wrapped(finding.what, "- ")
    for line in finding.where.splitlines():
        yield from _wrapped(f"    {line}")


def _table(changes: Sequence[MachineChange]) -> Iterator[str]:
    """Yield rows in columns as wide as they must be; the heads have two lines."""
    heads = [("", ""), ("", ""), ("", "masks"), *(head.split() for head in _COLUMNS.values())]
    heads = [(head[0], head[1]) if len(head) > 1 else ("", head[0]) for head in heads]
    whole = [change for change in changes if change.before and change.after]
    rows = [*zip(*heads, strict=True), *map(_cells, whole)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for change in changes:
        if change.verdict == "fails":
            yield from _wrapped(f"{change.machine}  fails  {change.error}")
    for row in rows if whole else ():
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _cells(change: MachineChange) -> tuple[str, ...]:
    def pair(which: str) -> str:
        before, after = getattr(change.before, which), getattr(change.after, which)
        return "-" if before is None else f"{before}->{after}" if before != after else f"{before}"

    masks = f"{change.masks}/{change.of}"
    return change.machine, change.verdict, masks, *map(pair, _COLUMNS)


def review(
    revision: str | Revision,
    base: str | Revision = "cluster",
    *,
    most_cpus: int = 5,
    seconds: float = 60,
    machines: Iterable[Machine] | None = None,
    workers: int | None = None,
) -> Review:
    """Review a revision beside the one it is to replace.

    Parameters
    ----------
    revision, base : str or Revision
        Names in `REVISIONS`, or revisions of `revision_from_c`.
    most_cpus : int
        Look for broken invariants on all machines of up to so many CPUs.
    seconds : float
        The longest that each of them may take.
    machines : iterable of Machine, optional
        On which to compare masks; those of `zoo` when left out.
    workers : int, optional
        Processes that search.

    Returns
    -------
    Review

    Examples
    --------
    >>> made = review("rotate-v2", most_cpus=4, machines=[], workers=1)
    >>> [finding.what for finding in made.findings if not finding.base]
    ['a mask is empty, though there are as many CPUs as groups']
    """
    began = time.monotonic()
    chosen, against = get_revision(revision), get_revision(base)
    findings: list[Finding] = []
    clean: list[str] = []
    changes: list[MachineChange] = []
    same: list[str] = []
    runs: dict[str, tuple[Run, Run]] = {}
    if isinstance(chosen, CompiledRevision):
        faults, text = _faults(chosen)
        findings += faults
        clean += text
    if not any(finding.what.startswith("a call does not come back:") for finding in findings):
        for name, absent in INVARIANTS.items():
            found, there = (
                can_it_happen(
                    name,
                    one,
                    most_cpus=most_cpus,
                    absent=absent,
                    seconds=seconds / 4,
                    workers=1 if isinstance(one, CompiledRevision) else workers,
                )
                for one in (chosen, against)
            )
            if found.case:
                is_old = bool(there.case) and _size(there) == _size(found)
                findings.append(Finding(found.predicate.sentence, found.case.text(), is_old))
            else:
                clean.append(_searched(found))
        changes, same, runs = _compare(chosen, against, zoo() if machines is None else machines)
    return Review(
        chosen.name,
        against.name,
        tuple(findings),
        tuple(clean),
        tuple(changes),
        tuple(same),
        time.monotonic() - began,
        runs,
    )


def _size(found: Found) -> tuple[int, int] | None:
    if found.case is None:
        return None
    return len(found.case.topology.possible), found.case.numgrps


def _searched(found: Found) -> str:
    which = "" if found.absent else ", all present"
    return (
        f"{found.predicate.sentence}: none on all {found.machines:,} machines of up to "
        f"{counted(found.all_up_to, 'CPU')}{which} ({found.calls:,} calls)"
    )


def _faults(revision: CompiledRevision) -> tuple[list[Finding], list[str]]:
    """Return the memory errors, loops, leaks and warnings, each on its smallest machine."""
    found: dict[str, Finding] = {}
    calls = 0
    for topology in _small_machines():
        for numgrps in range(1, len(topology.possible) + 2):
            (first,) = revision.ask(topology, [Request(numgrps)])
            if first.crash:
                _judge(found, topology, Request(numgrps), first)
                return list(found.values()), []
            asked = [Request(numgrps, counter) for counter in _counters(revision)]
            answers = revision.ask(topology, asked)
            calls += len(asked)
            for request, answer in zip(asked, answers, strict=True):
                _judge(found, topology, request, answer)
            if any(answer.crash for answer in answers):
                return list(found.values()), []
            failing = [Request(numgrps, 0, at + 1) for at in range(answers[0].allocations)]
            calls += len(failing)
            failed = revision.ask(topology, failing)
            for request, answer in zip(failing, failed, strict=True):
                _judge_failure(found, topology, request, answer, answers[0])
            if any(answer.crash for answer in failed):
                return list(found.values()), []
    sanitizers = "with the address and undefined-behaviour sanitizers"
    how = sanitizers if revision.build.sanitized else "without sanitizers: the compiler has none"
    told = (
        f"memory errors, loops, leaks, failing allocations: {calls:,} calls on all machines of up "
        f"to {_FAULT_CPUS} CPUs, {how}"
    )
    return list(found.values()), [told] if not found else []


def _counters(revision: Revision) -> list[int]:
    try:
        return counters_of(revision, 2)
    except CrashError:
        return [0]


def _small_machines() -> Iterator[Topology]:
    for ncpus in range(1, _FAULT_CPUS + 1):
        for shape in shapes(ncpus):
            machines = machines_of(shape, 0, count_machines(shape))
            for row in range(len(machines)):
                yield as_topology(machines, row)


def _judge(found: dict[str, Finding], topology: Topology, request: Request, answer: Answer) -> None:
    if answer.crash:
        _add(found, f"a call does not come back: {answer.crash}", topology, request)
        return
    if answer.masks is None:
        _add(found, "the function returns NULL though there is memory", topology, request)
    if answer.leaks:
        _add(found, f"{counted(answer.leaks, 'allocation')} not freed", topology, request)
    few = request.numgrps > len(topology.possible)
    for warning in answer.warnings:
        # Before Linux 6.17 it warned of more groups than CPUs, rightly.
        if not few:
            _add(found, f"the kernel would warn: {warning}", topology, request)


def _judge_failure(
    found: dict[str, Finding],
    topology: Topology,
    request: Request,
    answer: Answer,
    whole: Answer,
) -> None:
    which = f"when allocation {request.fail} of {whole.allocations} fails"
    if answer.crash:
        _add(found, f"a call does not come back {which}: {answer.crash}", topology, request)
    elif answer.leaks:
        _add(found, f"{counted(answer.leaks, 'allocation')} not freed {which}", topology, request)
    elif answer.masks is not None and sum(answer.masks) != topology.possible.mask:
        _add(found, f"CPUs are lost, without an error, {which}", topology, request)


def _add(found: dict[str, Finding], what: str, topology: Topology, request: Request) -> None:
    nodes = "; ".join(f"node {node}: {cpus or '-'}" for node, cpus in topology.nodes.items())
    absent = topology.possible - topology.present
    where = (
        f"{counted(len(topology.possible), 'CPU')}, {nodes}"
        + (f"; absent: {absent}" if absent else "")
        + f"; {counted(request.numgrps, 'group')} at counter {request.counter}"
    )
    kind = what.split(" when allocation ")[0].split(":")[0]
    found.setdefault(kind, Finding(what, where))


def _compare(
    chosen: Revision, against: Revision, machines: Iterable[Machine]
) -> tuple[list[MachineChange], list[str], dict[str, tuple[Run, Run]]]:
    changes, same, runs = [], [], {}
    for machine in machines:
        try:
            before = simulate(machine, revision=against)
        except GroupCpusError:
            # A machine that stands for an error has it with any masks.
            continue
        try:
            after = simulate(machine, revision=chosen)
        except GroupCpusError as error:
            count = len(before.interrupts)
            changes.append(
                MachineChange(machine.name, machine.title, 0, count, None, None, str(error))
            )
            continue
        moved = _moved(before, after)
        if not moved:
            same.append(machine.name)
            continue
        runs[machine.name] = before, after
        changes.append(
            MachineChange(
                machine.name,
                machine.title,
                moved,
                len(before.interrupts),
                Figures.of(before),
                Figures.of(after),
            )
        )
    return changes, same, runs


def _moved(before: Run, after: Run) -> int:
    """Return how many queues have another mask."""
    were = {(irq.device, irq.queue): irq.affinity for irq in before.interrupts}
    are = {(irq.device, irq.queue): irq.affinity for irq in after.interrupts}
    return sum(were.get(key) != are.get(key) for key in were.keys() | are.keys())


def changed_machines(steps: Sequence[tuple[str, Revision]]) -> list[tuple[str, list[str]]]:
    """Return for each revision after the first on which machines of the zoo its masks change."""
    machines = list(zoo())
    rows = []
    for (_, old), (name, new) in pairwise(steps):
        changes, _, _ = _compare(new, old, machines)
        rows.append((name, [f"{change.machine} ({change.verdict})" for change in changes]))
    return rows
