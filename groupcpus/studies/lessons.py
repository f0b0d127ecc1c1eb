# SPDX-License-Identifier: GPL-2.0-only
"""What the lesson on grouping needs: a machine to group by hand, and an allotment to break."""

import ast
import inspect
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from groupcpus.engine import group_cpus
from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.group_cpus import explain
from groupcpus.engine.revisions import Revision
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.steps import Allotted, ClusterAttempt
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "allot",
    "allotments",
    "broken_promises",
    "search",
    "small",
    "source_of",
    "with_absent",
]


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
    """Return the lesson's machine: 2 nodes of 2 cores with 2 threads each, each core a cluster.

    Examples
    --------
    >>> [str(core) for core in small().siblings]
    ['0-1', '2-3', '4-5', '6-7']
    """
    return Topology.uniform(nodes=2, cpus_per_node=4, threads=2)


def with_absent() -> Topology:
    """Return the same machine with its last core not plugged in.

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
    """Return how a call allots its groups to nodes, or to the clusters of one node.

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
    """Return which promises of the allotment are broken.

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
