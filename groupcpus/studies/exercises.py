# SPDX-License-Identifier: GPL-2.0-only
"""The exercises of the notebooks, checked.

`check` computes what is asked with the engine whenever it is called; no answer is written down
here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import LEVELS, Revision
from groupcpus.engine.rotations import Deal, unless_one
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError
from groupcpus.machines.probe import simulate
from groupcpus.studies.invariants import WRAP, check_revision
from groupcpus.studies.lessons import allot, broken_promises, small, with_absent

__all__ = ["Checked", "check"]


@dataclass(frozen=True)
class Checked:
    """What came of checking an answer; true when it is right."""

    exercise: str
    right: bool
    remark: str = ""

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        verdict = "right" if self.right else "not yet"
        return f"{self.exercise}: {verdict}{self.remark and f'. {self.remark}'}"


def check(exercise: str, answer: Any) -> Checked:
    """Check an answer to an exercise of the lesson, without giving the right one away.

    Parameters
    ----------
    exercise : str
        Its name, such as ``"ex1"``.
    answer : object
        As the exercise asks for; ``...`` for none yet.

    Returns
    -------
    Checked
        Right or not yet, with a remark when the answer is not of the kind asked for.

    Raises
    ------
    RequestError
        If there is no such exercise.

    Examples
    --------
    >>> check("ex1", ...)
    ex1: not yet. Put your answer in place of the dots
    >>> check("ex1", "0-3")
    ex1: not yet. Expected a list of 5 cpulists, such as ["0-3", "4"]
    >>> check("ex1", ["0-1", "2-3", "4-5", "6", "7"])
    ex1: not yet
    """
    if exercise not in _EXERCISES:
        raise RequestError(f"exercise {exercise!r}: expected one of {', '.join(_EXERCISES)}")
    if answer is ...:
        return Checked(exercise, False, "Put your answer in place of the dots")
    try:
        return Checked(exercise, _EXERCISES[exercise](answer))
    except (GroupCpusError, _WrongKindError) as error:
        return Checked(exercise, False, str(error))


class _WrongKindError(Exception):
    """An answer is not of the kind that was asked for."""


def _masks(answer: object, masks: Sequence[CpuSet]) -> bool:
    """Return whether these are the masks, in queue order."""
    if not isinstance(answer, list | tuple) or len(answer) != len(masks):
        raise _WrongKindError(f'Expected a list of {len(masks)} cpulists, such as ["0-3", "4"]')
    return [CpuSet(mask) for mask in answer] == list(masks)


def _numbers(answer: object, expected: Sequence[int], ordered: bool) -> bool:
    whole = isinstance(answer, list | tuple | set | range)
    given = list(answer) if whole else []  # type: ignore[call-overload]
    if not whole or not all(isinstance(number, int) for number in given):
        raise _WrongKindError("Expected a list of whole numbers, such as [1, 2]")
    return given == list(expected) if ordered else set(given) == set(expected)


def _five_queues(answer: object) -> bool:
    return _masks(answer, group_cpus_evenly(small(), 5, revision="numa").masks)


def _no_single(answer: object) -> bool:
    """Compare with the numbers of queues, up to 8, for which every mask has 2 CPUs or more."""
    masks = {n: group_cpus_evenly(small(), n, revision="cluster").masks for n in range(1, 9)}
    good = [n for n, of in masks.items() if min(map(len, of)) > 1]
    return _numbers(answer, good, ordered=False)


def _visits(answer: object) -> bool:
    """Compare with the order in which 7 nodes of equal size are visited."""
    return _numbers(answer, heapsort_order([8] * 7), ordered=True)


def _breaks(answer: object, **rule: Any) -> bool:
    """Return whether a rule breaks, where the answer says, a promise that the kernel's keeps."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        raise _WrongKindError("Expected the CPUs of each part and a number of groups: ([2, 4], 3)")
    ncpus, ngroups = answer
    broken = broken_promises(ncpus, allot(ncpus, ngroups, **rule), ngroups)
    return bool(broken) and not broken_promises(ncpus, allot(ncpus, ngroups), ngroups)


def _groups_of_absent(answer: object) -> bool:
    """Compare with the groups that get the absent CPUs when there are 7 groups."""
    machine = with_absent()
    masks = group_cpus_evenly(machine, 7, revision="cluster").masks
    absent = machine.possible - machine.present
    groups = [group for cpu in absent for group, mask in enumerate(masks) if cpu in mask]
    return _numbers(answer, groups, ordered=True)


def _rotated(answer: object) -> bool:
    """Compare with the counters, up to 5, that leave CPU 3 alone on 4 CPUs with 3 queues."""
    machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=1, cluster=4)
    alone = [
        counter
        for counter in range(6)
        if CpuSet([3])
        in group_cpus_evenly(machine, 3, revision="rotate-v2", spread_offset=counter).masks
    ]
    return _numbers(answer, alone, ordered=False)


def _empty_at_the_wrap(answer: object) -> bool:
    """Compare with the groups, up to 8, of which rotate-v2 leaves one empty at the last counter."""
    machine = Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=8)
    empty = [
        numgrps
        for numgrps in range(1, 9)
        if not all(
            group_cpus_evenly(machine, numgrps, revision="rotate-v2", spread_offset=WRAP - 1).bits
        )
    ]
    return _numbers(answer, empty, ordered=False)


def _rotates_and_never_wraps(answer: object) -> bool:
    """Return whether a `deal` is even, and over as many calls as groups gives each the same."""
    if not callable(answer):
        raise _WrongKindError("Expected a function of ncpus, ngroups and offset that gives a Deal")
    for ncpus in range(1, 13):
        for ngroups in range(1, ncpus + 1):
            share, extra = divmod(ncpus, ngroups)
            for start in (0, 5, WRAP - ngroups):
                deals = [answer(ncpus, ngroups, start + call) for call in range(ngroups)]
                if not all(isinstance(deal, Deal) for deal in deals):
                    raise _WrongKindError("Expected a function that gives a Deal")
                sizes = [list(deal.sizes) for deal in deals]
                even = sorted([share] * (ngroups - extra) + [share + 1] * extra)
                if any(sorted(of) != even for of in sizes):
                    return False
                if any(sum(of) != ncpus for of in zip(*sizes, strict=True)):
                    return False
    return True


def _meets_the_bound(answer: object) -> bool:
    """Return whether a rotation keeps the invariants and evens L96as_v4 out as far as can be."""
    from groupcpus.studies.sweeps import figures

    if not callable(answer):
        raise _WrongKindError("Expected a function of ncpus, ngroups and offset that gives ngroups")
    revision = Revision(
        "answer",
        "an exercise",
        "what was given as the answer",
        rotate=answer,
        levels=LEVELS,
        counts=unless_one,
    )
    row = figures(simulate("L96as_v4", revision=revision))
    verdicts = check_revision(revision)["first counter-example"]
    return row.greatest <= row.fair_bound and set(verdicts) == {"holds"}


_EXERCISES: dict[str, Callable[[object], bool]] = {
    "ex1": _five_queues,
    "ex2": _no_single,
    "ex3": partial(_breaks, order="descending"),
    "ex4": _groups_of_absent,
    "ex5": _visits,
    "ex6": _rotated,
    "own1": _empty_at_the_wrap,
    "own2": _rotates_and_never_wraps,
    "own3": _meets_the_bound,
}
