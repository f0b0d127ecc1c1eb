# SPDX-License-Identifier: GPL-2.0-only
"""What the lesson notebooks need: a machine to deal by hand, an allotment to break, and checks.

`check` computes what is asked with the engine whenever it is called; no answer is written down
here.  `check_revision` and `rank` are for revisions of a reader's own.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from groupcpus.engine import group_cpus
from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.revisions import LEVELS, REVISIONS, Revision, get_revision
from groupcpus.engine.rotations import Deal, unless_one
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.steps import Allotted, ClusterAttempt
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError, brief
from groupcpus.machines.machine import machine_names, read_machine
from groupcpus.machines.probe import simulate

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "INVARIANTS",
    "Checked",
    "allot",
    "allotments",
    "broken_promises",
    "check",
    "check_revision",
    "odd_machines",
    "rank",
    "search",
    "small",
    "source_of",
    "with_absent",
]

_WRAP = 1 << 32


class Source(str):
    """The source of a function; a notebook shows it highlighted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return f"```python\n{self}\n```"


def source_of(name: str) -> Source:
    """Return the source of a function of the engine without its docstring.

    Parameters
    ----------
    name : str
        A function of `groupcpus.engine.group_cpus`; those named as in the kernel are
        ``grp_spread_init_one``, ``alloc_groups_to_nodes``, ``alloc_cluster_groups``,
        ``assign_cpus_to_groups`` and ``__group_cpus_evenly``.

    Raises
    ------
    RequestError
        If there is no such function.

    Examples
    --------
    >>> print(source_of("grp_spread_init_one").splitlines()[3])
        taken: list[int] = []
    """
    function: Any = vars(group_cpus).get(name) if isinstance(name, str) else None
    if not inspect.isfunction(inspect.unwrap(function)):
        raise RequestError(f"name {brief(name)}: expected a function of {group_cpus.__name__}")
    lines = inspect.getsource(function).splitlines()
    (definition,) = ast.parse("\n".join(lines)).body
    assert isinstance(definition, ast.FunctionDef)
    if ast.get_docstring(definition) is not None:
        docstring = definition.body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
    return Source("\n".join(lines))


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
    whole = all(isinstance(part, int) and 1 <= part <= MAX_CPUS for part in parts)
    if not parts or not whole:
        raise RequestError(f"ncpus {ncpus!r}: expected a list of numbers from 1 to {MAX_CPUS}")
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
            parts = dict(enumerate(map(CpuSet, step.clusters or ())))
        if isinstance(step, Allotted) and step.node == node:
            rows = [
                (share.id, str(parts[share.id]), share.groups_left, share.cpus_left, share.ngroups)
                for share in step.shares
            ]
            level = "node" if node is None else "cluster"
            frame = pd.DataFrame(rows, columns=[level, "CPUs", "groups left", "CPUs left", "gets"])
            return frame.set_index(level)
    where = "nodes" if node is None else f"the clusters of node {brief(node)}"
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


def odd_machines() -> dict[str, Topology]:
    """Make machines that are easily forgotten: lopsided, strided, with CPUs absent or alone.

    Examples
    --------
    >>> for name, machine in odd_machines().items():
    ...     print(f"{name}: {machine}")
    one CPU: <Topology: 1 CPU, 1 node, 1 cluster, 1 core>
    nodes of 2, 6 and 8: <Topology: 16 CPUs, 3 nodes, 8 clusters, 8 cores>
    clusters of 1, 2 and 5: <Topology: 8 CPUs, 1 node, 3 clusters, 8 cores>
    clusters of 4 and 1: <Topology: 10 CPUs, 2 nodes, 4 clusters, 10 cores>
    no clusters known: <Topology: 21 CPUs, 3 nodes, 0 clusters, 21 cores>
    strided siblings: <Topology: 16 CPUs, 2 nodes, 4 clusters, 8 cores>
    a core absent: <Topology: 8 CPUs (6 present), 2 nodes, 4 clusters, 4 cores>
    a node absent: <Topology: 8 CPUs (4 present), 2 nodes, 4 clusters, 4 cores>
    """

    def made(cpus: str, nodes: list[str], clusters: list[str], siblings: list[str]) -> Topology:
        named = {str(node): members for node, members in enumerate(nodes)}
        parts = {"nodes": named, "clusters": clusters, "siblings": siblings}
        return Topology.from_dict(parts | {"possible": cpus, "present": cpus})

    pairs = [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]
    strided = [f"{cpu},{cpu + 8}" for cpu in range(8)]
    slices = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    half = {"present": "0-3", "online": "0-3"}
    return {
        "one CPU": Topology.uniform(1, 1, 1, None),
        "nodes of 2, 6 and 8": made("0-15", ["0-1", "2-7", "8-15"], pairs, pairs),
        "clusters of 1, 2 and 5": made("0-7", ["0-7"], ["0", "1-2", "3-7"], []),
        "clusters of 4 and 1": Topology.uniform(2, 5, 1, 4),
        "no clusters known": Topology.uniform(3, 7, 1, 0),
        "strided siblings": made("0-15", ["0-3,8-11", "4-7,12-15"], slices, strided),
        "a core absent": with_absent(),
        "a node absent": Topology.from_dict(small().to_dict() | half),
    }


INVARIANTS = {
    "accepted": "the engine accepts what its functions give",
    "covered": "every possible CPU is in exactly one group",
    "filled": "no group is empty while there are CPUs enough",
    "nodes": "nodes have as many groups as under cluster, equal ones in any order",
    "clusters": "the clusters of a node likewise",
    "sizes": "groups of a node, or of a cluster, differ by one CPU at most",
}
"""What `check_revision` looks at, the last three only where all CPUs are present.

As many groups as under `cluster` is from 1 to as many as CPUs, and says also that none crosses a
border.  Clusters count where `cluster` would deal a node cluster by cluster: when it has as many
groups as clusters.
"""


def check_revision(
    revision: str | Revision, machines: dict[str, Topology] | None = None
) -> "pd.DataFrame":
    """Try a revision on many calls and say which invariants hold.

    Parameters
    ----------
    revision : str or Revision
        A name in `REVISIONS` or one of your own.
    machines : dict of str to Topology, optional
        Where to try it; all machines that ship with the project and `odd_machines` when left out.
        On each every number of groups up to one more than CPUs is tried, with counters from 0 on
        and near 2^32.

    Returns
    -------
    DataFrame
        A row for each of `INVARIANTS`.  Columns: invariant, machines and calls (that were looked
        at), first counter-example ("holds" if there is none): of the smallest machine, with the
        fewest groups.

    Raises
    ------
    RequestError
        If there is no such revision.  What the revision's functions raise is passed on, except
        that a `GroupCpusError` counts as not accepted.

    Notes
    -----
    "holds" says that these calls gave no counter-example; it is no proof.

    Examples
    --------
    >>> frame = check_revision("rotate-v2", {"four": Topology.uniform(1, 4, 1, 4)})
    >>> frame.loc["covered", "first counter-example"]
    'holds'
    >>> frame.loc["filled", "first counter-example"]
    'four, 3 groups, counter 4294967295: 0-1 2-3 -'
    """
    import pandas as pd

    revision = get_revision(revision)
    if machines is None:
        shipped = {name: read_machine(name).topology for name in machine_names()}
        machines = shipped | odd_machines()
    tried: dict[str, set[str]] = {name: set() for name in INVARIANTS}
    calls = dict.fromkeys(INVARIANTS, 0)
    broken: dict[str, str] = {}
    for name, topology in sorted(machines.items(), key=lambda item: len(item[1].possible)):
        for numgrps, counter in _calls(revision, topology):
            try:
                offset = revision.offset(numgrps, counter)
                masks = group_cpus_evenly(
                    topology, numgrps, revision=revision, spread_offset=offset
                ).bits
                found = {"accepted": True} | _judge(topology, masks)
                shown = " ".join(str(CpuSet.from_mask(mask)) or "-" for mask in masks)
            except GroupCpusError as error:
                found, shown = {"accepted": False}, str(error)
            for invariant, holds in found.items():
                tried[invariant].add(name)
                calls[invariant] += 1
                if not holds and invariant not in broken:
                    groups = f"{numgrps} group{'s' * (numgrps != 1)}"
                    broken[invariant] = f"{name}, {groups}, counter {counter}: {_short(shown)}"
    rows = [
        (meaning, len(tried[name]), calls[name], broken.get(name, "holds" if calls[name] else "-"))
        for name, meaning in INVARIANTS.items()
    ]
    columns = ["invariant", "machines", "calls", "first counter-example"]
    return pd.DataFrame(rows, columns=columns, index=list(INVARIANTS))


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200].rsplit(" ", 1)[0] + " ..."


def _calls(revision: Revision, topology: Topology) -> Iterator[tuple[int, int]]:
    """List numbers of groups and counters; one counter if the revision doesn't look at it."""
    for numgrps in range(1, len(topology.possible) + 2):
        steady = revision.counts(numgrps) in (0, False)
        counters = (0, 1, 2, 5, 1000, _WRAP - 13, _WRAP - 2, _WRAP - 1)
        yield from ((numgrps, counter) for counter in counters[: 1 if steady else None])


def _judge(topology: Topology, masks: Sequence[int]) -> dict[str, bool]:
    """Tell of one call which invariants hold."""
    possible = topology.possible.mask
    filled = [mask for mask in masks if mask]
    union = 0
    for mask in filled:
        union |= mask
    cpus = possible.bit_count()
    covered = union == possible and sum(map(int.bit_count, filled)) == cpus
    found = {"covered": covered, "filled": len(filled) == min(len(masks), cpus)}
    if topology.present != topology.possible:
        return found
    nodes = [(cpus.mask, cpus) for cpus in topology.nodes.values() if cpus]
    if len(masks) <= len(nodes):
        # Whole nodes: each one is in one group.
        return found | {"nodes": all(_inside(filled, node) == 1 for node, _ in nodes)}
    found["nodes"] = _fair(filled, [node for node, _ in nodes], min(len(masks), cpus))
    found["sizes"] = True
    for node, cpus_of_node in nodes:
        within = [mask for mask in filled if mask & node]
        clusters = [CpuSet(of).mask for of in topology.clusters_in(cpus_of_node) or []]
        parts = [node]
        if 0 < len(clusters) <= len(within):
            found["clusters"] = found.get("clusters", True) and _fair(within, clusters, len(within))
            parts = clusters
        for part in parts:
            sizes = [mask.bit_count() for mask in within if mask & part]
            found["sizes"] &= max(sizes, default=0) - min(sizes, default=0) <= 1
    return found


def _inside(masks: Sequence[int], part: int) -> int:
    return sum(bool(mask & part) for mask in masks)


def _fair(masks: Sequence[int], parts: Sequence[int], ngroups: int) -> bool:
    """Tell whether parts have as many groups as the kernel allots, equal ones in any order."""
    ncpus = [part.bit_count() for part in parts]
    groups = [_inside(masks, part) for part in parts]
    if not len(parts) <= ngroups <= sum(ncpus):
        return False
    expected = allot(ncpus, ngroups)
    return sorted(zip(ncpus, groups, strict=True)) == sorted(zip(ncpus, expected, strict=True))


def rank(
    revisions: Sequence[str | Revision] | None = None, machines: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Rank revisions by how evenly interrupts end up on the machines of the project.

    Parameters
    ----------
    revisions : sequence of str or Revision, optional
        Names in `REVISIONS` or your own; all of `REVISIONS` when left out.
    machines : sequence of str, optional
        Names as `read_machine` takes them; all that ship with the project when left out, but those
        with a network device that has no groups (``mana``).

    Returns
    -------
    DataFrame
        The best revision first.  Of x86: how often the greatest number of interrupts a CPU is the
        least that revisions as fair as `cluster` reach (`bound reached`), and how far above that it
        is in the mean (`above bound`, interrupts).  Of gicv3: which part of the CPUs that such
        revisions can use is used in the mean (`CPUs used`).  `runs` counts the configurations, half
        of them on each irqchip.

    Notes
    -----
    Every machine has 2 to 8 equal devices, with its own number of queues and some from 2 to one
    less than CPUs.  Both irqchips are tried on each, whatever the machine has.  The order is by
    `bound reached`, then `above bound`, then `CPUs used`.  A revision that breaks an invariant may
    do better than the bounds; ask `check_revision` first.

    Examples
    --------
    >>> rank(["cluster", "rotate-tiled"], ["D16plds_v6"]).round(2)
                  runs  bound reached  above bound  CPUs used
    rotate-tiled    98           1.00         0.00       0.99
    cluster         98           0.69         0.41       0.56
    """
    import pandas as pd

    from groupcpus.studies.families import scores
    from groupcpus.studies.sweeps import sweep

    wanted = list(REVISIONS if revisions is None else revisions)
    frames = []
    for name in machine_names() if machines is None else machines:
        machine = read_machine(name)
        if machines is None and any(device.kind == "mana" for device in machine.devices):
            continue
        cpus = len(machine.topology.possible)
        queues = {*range(2, cpus, max(1, cpus // 8)), machine.devices[0].io_queues}
        frames.append(
            sweep(
                [machine],
                devices=range(2, 9),
                queues=sorted(queues),
                revisions=wanted,
                irqchips=["x86", "gicv3"],
                workers=0,
                progress=False,
            )
        )
    frame = pd.concat(frames, ignore_index=True)
    score = scores(frame)
    table = pd.DataFrame(
        {
            "runs": frame.groupby("revision", sort=False).size(),
            "bound reached": score["x86", "reachable"],
            "above bound": score["x86", "above"],
            "CPUs used": score["gicv3", "of usable"],
        }
    )
    order = ["bound reached", "above bound", "CPUs used"]
    table.index.name = None
    return table.sort_values(order, ascending=[False, True, False], kind="stable")


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


def _empty_at_the_wrap(answer: object) -> bool:
    """Compare with the groups, up to 8, of which rotate-v2 leaves one empty at the last counter."""
    machine = Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=8)
    empty = [
        numgrps
        for numgrps in range(1, 9)
        if not all(
            group_cpus_evenly(machine, numgrps, revision="rotate-v2", spread_offset=_WRAP - 1).bits
        )
    ]
    return _numbers(answer, empty, ordered=False)


def _rotates_and_never_wraps(answer: object) -> bool:
    """Tell whether a deal is even, and over as many calls as groups gives each the same."""
    if not callable(answer):
        raise _WrongKindError("Expected a function of ncpus, ngroups and offset that gives a Deal")
    for ncpus in range(1, 13):
        for ngroups in range(1, ncpus + 1):
            share, extra = divmod(ncpus, ngroups)
            for start in (0, 5, _WRAP - ngroups):
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
    """Tell whether a rotation keeps the invariants and evens L96as_v4 out as far as can be."""
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
