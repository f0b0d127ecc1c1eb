# SPDX-License-Identifier: GPL-2.0-only
"""Whether a machine that was compared has a problem, and whether another revision would mend it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import GroupCpusError, counted
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.observed.compare import Comparison
from groupcpus.observed.completeness import stray_cpus
from groupcpus.observed.judging import expected_revision
from groupcpus.observed.patience import Patience
from groupcpus.observed.what_if import as_found, machine_from_capture

__all__ = ["Loads", "Problem", "find_problem"]

# CPUs and queues that a text names.
MOST_CPUS = 3
MOST_NAMES = 8
WORK = 1_000_000


@dataclass(frozen=True)
class Loads:
    """How the managed interrupts lie on the CPUs.

    Attributes
    ----------
    irqs : int
        Interrupts whose CPU is known.
    used : int
        CPUs that handle any.
    greatest : int
        Interrupts on the most loaded CPU.
    single : int
        Interrupts whose mask is one CPU.
    single_cpus : int
        The CPUs of these.
    single_greatest : int
        The most of them on one CPU.
    """

    irqs: int
    used: int
    greatest: int
    single: int
    single_cpus: int
    single_greatest: int

    @classmethod
    def of(cls, run: Run) -> "Loads":
        """Count the interrupts of a run."""
        counts, single = run.counts.values(), run.single.values()
        return cls(
            irqs=sum(counts),
            used=sum(count > 0 for count in counts),
            greatest=max(counts, default=0),
            single=sum(single),
            single_cpus=sum(count > 0 for count in single),
            single_greatest=max(single, default=0),
        )


@dataclass(frozen=True)
class Problem:
    """What there is to say of a machine's load, and of what other revisions would make of it.

    Attributes
    ----------
    found : Loads
        As it was found.
    best : int
        No grouping gets the most loaded CPU below this.
    crowded : tuple of (int, tuple of str)
        The most loaded CPUs, and the names of the interrupts there.
    own : str
        The revision that the kernel has.
    what_if : dict of str to Loads
        By revision: the same machine, its devices probed one after the other.
    silent : int
        Managed interrupts whose CPU is not known.
    left_out : tuple of str
        Revisions that were not computed, since that would take too much work.
    """

    found: Loads
    best: int
    crowded: tuple[tuple[int, tuple[str, ...]], ...]
    own: str
    what_if: dict[str, Loads]
    silent: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def better(self) -> tuple[str, ...]:
        """The revisions with the least on the most loaded CPU, if it is less than was found."""
        least = min((loads.greatest for loads in self.what_if.values()), default=0)
        if not self.what_if or least >= self.found.greatest:
            return ()
        return tuple(name for name, loads in self.what_if.items() if loads.greatest == least)

    @property
    def verdict(self) -> str:
        """Whether there is something to gain, in a sentence."""
        greatest, better = self.found.greatest, self.better
        if not self.found.irqs:
            return "Not known: no source has the effective CPUs of managed interrupts."
        if greatest <= self.best:
            return (
                "Nothing to gain for the most loaded CPU: it has "
                f"{counted(greatest, 'managed interrupt')}, and no grouping gets below {self.best}."
            )
        if not better:
            return (
                "Nothing to gain for the most loaded CPU by another revision: it has "
                f"{greatest} managed interrupts, {self.best} would be best, and none that is known "
                "here gets there."
            )
        least = self.what_if[better[0]].greatest
        text = (
            f"Something to gain for the most loaded CPU: it has {greatest} managed interrupts, and "
            f"would have {least} with {', '.join(better)}; {self.best} is the best possible."
        )
        if self.own in better:
            text += (
                " The kernel's own revision is among them: the order of the requests makes the "
                "difference."
            )
        return text

    def lines(self) -> Iterator[str]:
        """Return what there is to say, a line each."""
        yield self.verdict
        if self.silent and self.found.irqs:
            yield f"  The CPUs of {counted(self.silent, 'more interrupt')} are not known."
        if self.found.greatest > 1:
            same = len(self.crowded)
            for cpu, names in self.crowded[:MOST_CPUS]:
                more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
                yield f"  CPU {cpu} has {', '.join(names[:MOST_NAMES])}{more}"
            if same > MOST_CPUS:
                yield f"  and {counted(same - MOST_CPUS, 'more CPU')} as many"
        if self.found.single:
            yield (
                f"  {counted(self.found.single, 'interrupt')} with one CPU in the mask, on "
                f"{counted(self.found.single_cpus, 'CPU')}, up to {self.found.single_greatest} on "
                "one: no other CPU can take these"
            )
        if self.what_if:
            yield "  If all were probed anew, device by device:"
        for revisions, loads in self._alike():
            yield (
                f"    {', '.join(revisions)}: at most {loads.greatest} on a CPU, "
                f"{counted(loads.used, 'CPU')} used, {loads.single} with one CPU in the mask"
            )

        if self.left_out:
            yield f"    not computed, since it would take long: {', '.join(self.left_out)}"

    def _alike(self) -> Iterator[tuple[Sequence[str], Loads]]:
        """Put revisions with the same result together."""
        names: dict[Loads, list[str]] = {}
        for name, loads in self.what_if.items():
            names.setdefault(loads, []).append(name + " (its own)" * (name == self.own))
        for loads, alike in names.items():
            yield alike, loads


def find_problem(comparison: Comparison, patience: Patience | None = None) -> Problem | None:
    """Look how even the load of a machine is, and how even it could be.

    Parameters
    ----------
    comparison : Comparison
        The machine.
    patience : Patience, optional
        How much work the what-ifs may take; a second's when left out.

    Returns
    -------
    Problem or None
        None: it has no managed interrupts, its irqchip is not known, or its topology not whole.

    Examples
    --------
    >>> from groupcpus.observed.compare import compare
    >>> from groupcpus.sources import load
    >>> problem = find_problem(compare(load("x86-16cpu-1node-2x6-7.3")))
    >>> problem.found.greatest, problem.best, problem.better
    (1, 1, ())
    """
    managed = [row for row in comparison.rows if row.managed]
    strays = stray_cpus(comparison.loaded, comparison.topology)
    if comparison.irqchip is None or not managed or strays:
        return None
    patience = patience or Patience(WORK, seconds=1.0)
    machine = machine_from_capture(comparison)
    run = as_found(comparison)
    greatest = max(comparison.loads.values(), default=0)
    names: dict[int, list[str]] = {}
    for row in managed:
        cpu = row.effective.first if row.effective else None
        if cpu is not None and greatest and comparison.loads.get(cpu) == greatest:
            names.setdefault(cpu, []).append(row.name or f"irq {row.irq}")
    what: dict[str, Loads] = {}
    left_out: list[str] = []
    unsure = any(one.verdict == "cannot be judged" for one in comparison.devices)
    if any(device.kind != "loop" for device in machine.devices) and not unsure:
        work = len(machine.devices) * len(machine.topology.possible) + len(run.interrupts)
        for name in REVISIONS:
            if not patience.left("computing other revisions", work):
                left_out.append(name)
                continue
            try:
                what[name] = Loads.of(simulate(machine, revision=name))
            except GroupCpusError:
                break  # no vectors for all: no kernel gets there
    return Problem(
        Loads.of(run),
        run.best,
        tuple((cpu, tuple(names[cpu])) for cpu in sorted(names)),
        expected_revision(comparison.loaded.kernel) or "",
        what,
        sum(row.effective is None for row in managed),
        tuple(left_out),
    )
