# SPDX-License-Identifier: GPL-2.0-only
"""What the lesson notebook needs: a machine to deal by hand, an allotment to break, and checks.

`check` computes what is asked with the engine whenever it is called; no answer is written down
here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from groupcpus.cpuset import CpuSet, _brief
from groupcpus.errors import GroupCpusError, RequestError
from groupcpus.grouping import Allotted, ClusterAttempt, explain, group_cpus_evenly
from groupcpus.heapsort import heapsort_order
from groupcpus.revisions import Revision
from groupcpus.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Checked",
    "allot",
    "allotments",
    "broken_promises",
    "check",
    "search",
    "small",
    "with_absent",
]

_MAX_PART = 64


def small() -> Topology:
    """Make the lesson's machine: 2 nodes of 2 cores with 2 threads each, each core a cluster.

    Examples
    --------
    >>> [str(core) for core in small().siblings]
    ['0-1', '2-3', '4-5', '6-7']
    """
    return Topology.uniform(nodes=2, cpus_per_node=4, threads=2)


def with_absent() -> Topology:
    """Make the same machine with its last core not plugged in.

    Examples
    --------
    >>> str(with_absent().possible), str(with_absent().present)
    ('0-7', '0-5')
    """
    return Topology.from_dict(small().to_dict() | {"present": "0-5", "online": "0-5"})


def allot(
    ncpus: Sequence[int],
    ngroups: int,
    *,
    order: str = "ascending",
    least: int = 1,
    round_up: bool = False,
) -> list[int]:
    """Allot groups to parts of a machine, as the kernel does or with one of its rules changed.

    Parameters
    ----------
    ncpus : sequence of int
        CPUs of each part (node or cluster).
    ngroups : int
        Groups to allot.
    order : {"ascending", "as they are", "descending"}
        In which order the parts are served; the kernel's is ascending.
    least : int
        What a part gets at least: 1 in the kernel.
    round_up : bool
        Whether shares are rounded up; the kernel rounds down.

    Returns
    -------
    list of int
        The groups of each part, in the order of `ncpus`.

    Raises
    ------
    RequestError
        If there are no parts, or counts that cannot be.

    Notes
    -----
    Source: ``alloc_groups_to_nodes()``, lib/group_cpus.c, Linux 7.0; before that
    ``alloc_nodes_groups()``.  The kernel's counts are unsigned; here what is left may get negative,
    so that a broken rule shows.

    Examples
    --------
    >>> allot([2, 6, 8], 5)
    [1, 1, 3]
    >>> allot([2, 6, 8], 5, order="descending")
    [1, 2, 2]
    """
    _check_parts(ncpus, ngroups)
    if order == "ascending":
        visits = heapsort_order(ncpus)
    elif order == "descending":
        visits = sorted(range(len(ncpus)), key=ncpus.__getitem__, reverse=True)
    elif order == "as they are":
        visits = list(range(len(ncpus)))
    else:
        raise RequestError(f"order {order!r}: expected 'ascending', 'as they are' or 'descending'")
    groups_left, cpus_left = ngroups, sum(ncpus)
    allotted = [0] * len(ncpus)
    for part in visits:
        share, rest = divmod(groups_left * ncpus[part], cpus_left)
        allotted[part] = max(least, share + (round_up and rest > 0))
        groups_left -= allotted[part]
        cpus_left -= ncpus[part]
    return allotted


def _check_parts(ncpus: object, ngroups: object) -> None:
    parts = list(ncpus) if isinstance(ncpus, list | tuple) else []
    whole = all(isinstance(part, int) and 1 <= part <= _MAX_PART for part in parts)
    if not parts or not whole:
        raise RequestError(f"ncpus {ncpus!r}: expected a list of numbers from 1 to {_MAX_PART}")
    if not isinstance(ngroups, int) or not len(parts) <= ngroups <= sum(parts):
        raise RequestError(
            f"ngroups {ngroups!r}: expected at least as many as parts ({len(parts)}) and at most "
            f"as many as CPUs ({sum(parts)})"
        )


def allotments(
    topology: Topology, numgrps: int, node: int | None = None, *, revision: str | Revision
) -> "pd.DataFrame":
    """List how a call allots its groups to nodes, or to the clusters of one node.

    Parameters
    ----------
    topology : Topology
        The machine.
    numgrps : int
        How many groups are asked for.
    node : int, optional
        Whose clusters; the nodes when left out.
    revision : str or Revision
        Which version of the function.

    Returns
    -------
    DataFrame
        A row a node or cluster, in the order in which they are served.  Columns: CPUs (cpulist),
        groups left, CPUs left (both before its turn), gets.

    Raises
    ------
    RequestError
        If nothing is allotted there.

    Examples
    --------
    >>> print(allotments(small(), 5, 0, revision="cluster").to_string())
             CPUs  groups left  CPUs left  gets
    cluster
    1         2-3            3          4     1
    0         0-1            2          2     2
    """
    import pandas as pd

    _, steps = explain(topology, numgrps, revision=revision)
    parts = dict(topology.nodes) if node is None else {}
    for step in steps:
        if isinstance(step, ClusterAttempt) and step.node == node:
            parts = dict(enumerate(step.clusters))
        if isinstance(step, Allotted) and step.node == node:
            rows = [
                (share.id, str(parts[share.id]), share.groups_left, share.cpus_left, share.ngroups)
                for share in step.shares
            ]
            level = "node" if node is None else "cluster"
            frame = pd.DataFrame(rows, columns=[level, "CPUs", "groups left", "CPUs left", "gets"])
            return frame.set_index(level)
    where = "nodes" if node is None else f"the clusters of node {_brief(node)}"
    raise RequestError(f"numgrps {numgrps}: no groups are allotted to {where}")


def broken_promises(ncpus: Sequence[int], allotted: Sequence[int], ngroups: int) -> list[str]:
    """Say which promises of the allotment are broken.

    Parameters
    ----------
    ncpus, allotted : sequence of int
        CPUs and groups of each part.
    ngroups : int
        The groups there were.

    Returns
    -------
    list of str
        Empty when every part has a group, none has more groups than CPUs, and all groups are
        allotted.

    Examples
    --------
    >>> broken_promises([1, 1, 6], [1, 1, 2], 4)
    []
    >>> broken_promises([1, 1, 6], [0, 2, 3], 4)
    ['part 0 has no group', 'part 1 has 2 groups for 1 CPU', '5 groups allotted, there are 4']
    """
    broken = []
    for part, (cpus, groups) in enumerate(zip(ncpus, allotted, strict=True)):
        if groups < 1:
            broken.append(f"part {part} has no group")
        if groups > cpus:
            broken.append(f"part {part} has {groups} groups for {cpus} CPU{'s' * (cpus != 1)}")
    if sum(allotted) != ngroups:
        broken.append(f"{sum(allotted)} groups allotted, there are {ngroups}")
    return broken


def search(most_cpus: int = 4, most_parts: int = 3, **rule: Any) -> Iterator[tuple[Any, ...]]:
    """Try a rule of `allot` on all small machines and yield those where it breaks a promise.

    Parameters
    ----------
    most_cpus, most_parts : int
        How large the parts get, and how many there are.
    **rule
        What `allot` is to do differently.

    Yields
    ------
    tuple
        ``(ncpus, ngroups, allotted, broken promises)``.

    Examples
    --------
    >>> list(search())
    []
    >>> next(search(least=0))
    ([1, 2], 2, [0, 2], ['part 0 has no group'])
    """
    for parts in range(1, most_parts + 1):
        for ncpus in product(range(1, most_cpus + 1), repeat=parts):
            for ngroups in range(parts, sum(ncpus) + 1):
                allotted = allot(ncpus, ngroups, **rule)
                if broken := broken_promises(ncpus, allotted, ngroups):
                    yield list(ncpus), ngroups, allotted, broken


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
    """Tell whether these are the masks, in queue order."""
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
    """Tell whether a rule breaks, where the answer says, a promise that the kernel's keeps."""
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


_EXERCISES: dict[str, Callable[[object], bool]] = {
    "ex1": _five_queues,
    "ex2": _no_single,
    "ex3": partial(_breaks, order="descending"),
    "ex4": _groups_of_absent,
    "ex5": _visits,
    "ex6": _rotated,
}
