# SPDX-License-Identifier: GPL-2.0-only
"""What may go wrong in a call, each as a question of many calls at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, meant
from groupcpus.studies.batch import Machines

__all__ = ["PREDICATES", "Calls", "Predicate", "as_topology", "find_predicate", "own_predicate"]

Flags = NDArray[np.bool_]


def _some_pair(pairs: Flags) -> Flags:
    """Return whether any two CPUs of each call are such a pair."""
    return np.asarray(pairs.any(axis=(1, 2)), bool)


@dataclass(frozen=True)
class Calls:
    """Calls for one number of groups, a row each, the machine of every row among them.

    Attributes
    ----------
    machines : Machines
        A row a call.
    numgrps : int
        How many groups each asks for.
    groups : array of int
        The group of each CPU; -1: none.
    later : sequence of array of int
        The same for the calls that follow, one a device.
    twice : array of bool
        Whether the masks are no partition: a CPU stands in two of them, or a foreign one in any.
    """

    machines: Machines
    numgrps: int
    groups: NDArray[np.int32]
    later: Sequence[NDArray[np.int32]] = ()
    twice: Flags | None = None

    @cached_property
    def together(self) -> Flags:
        """Whether two CPUs are in one mask: [call, CPU, CPU]."""
        groups = self.groups
        return (groups[:, :, None] == groups[:, None, :]) & (groups >= 0)[:, :, None]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many CPUs are in the mask of each CPU; 0: in none."""
        return self.together.sum(axis=2)

    @cached_property
    def possible(self) -> Flags:
        """Whether each CPU is possible."""
        return self.machines.node >= 0

    def apart(self, labels: NDArray[np.int32]) -> Flags:
        """Return whether a mask has CPUs with different labels."""
        unlike = labels[:, :, None] != labels[:, None, :]
        return _some_pair(self.together & unlike)

    def distinct(self, labels: NDArray[np.int32], among: Flags) -> NDArray[np.int64]:
        """Return how many different labels some of the CPUs have."""
        same = (labels[:, :, None] == labels[:, None, :]) & among[:, None, :] & among[:, :, None]
        earlier = np.tril(np.ones(same.shape[1:], bool), -1)
        return (among & ~(same & earlier).any(axis=2)).sum(axis=1)


@dataclass(frozen=True)
class Predicate:
    """A question of calls.

    Attributes
    ----------
    name, sentence : str
        Its name in `PREDICATES`, and what has happened where it holds.
    holds : callable
        ``f(calls) -> array of bool``.
    devices : int
        How many devices call one after the other; the calls after the first are `Calls.later`.
    exact : bool
        Whether the machines of `shapes` are enough: it does not look at clusters in nodes that have
        fewer groups than clusters, nor at the numbers of CPUs.
    """

    name: str
    sentence: str
    holds: Callable[[Calls], Flags]
    devices: int = 1
    exact: bool = True


def _lost(calls: Calls) -> Flags:
    wrong = (calls.possible & (calls.groups < 0)).any(axis=1)
    return np.asarray(wrong if calls.twice is None else wrong | calls.twice, bool)


def _empty(calls: Calls) -> Flags:
    enough = calls.possible.sum(axis=1) >= calls.numgrps
    return enough & (calls.distinct(calls.groups, calls.groups >= 0) < calls.numgrps)


def _crosses_nodes(calls: Calls, beyond: int = 0) -> Flags:
    nodes = calls.distinct(calls.machines.node, calls.possible)
    return (calls.numgrps >= nodes + beyond) & calls.apart(calls.machines.node)


def _crosses_clusters(calls: Calls) -> Flags:
    labels, node = calls.machines.cluster, calls.machines.node
    known = ((labels >= 0) | ~calls.possible).all(axis=1)
    # A node has as many groups as clusters if all have groups enough for it, whatever their sizes.
    most = calls.distinct(labels, calls.possible)
    pairs = calls.together & (node[:, :, None] == node[:, None, :])
    unlike = labels[:, :, None] != labels[:, None, :]
    return known & (calls.numgrps >= most) & _some_pair(pairs & unlike)


def _splits_core(calls: Calls) -> Flags:
    core, present = calls.machines.core, calls.machines.present
    one = (core[:, :, None] == core[:, None, :]) & (present[:, :, None] == present[:, None, :])
    one &= calls.possible[:, :, None] & calls.possible[:, None, :]
    cores = calls.distinct(core, calls.possible)
    return (calls.numgrps <= cores) & _some_pair(one & ~calls.together)


def _fewer_than(calls: Calls, least: int) -> Flags:
    count = calls.possible.sum(axis=1)
    few = (calls.sizes < least) & calls.possible
    return (calls.numgrps * least <= count) & few.any(axis=1)


def _offline(calls: Calls) -> Flags:
    served = (calls.together & (calls.machines.online > 0)[:, None, :]).any(axis=2)
    return np.asarray((calls.possible & (calls.groups >= 0) & ~served).any(axis=1), bool)


def _single(groups: NDArray[np.int32]) -> Flags:
    same = groups[:, :, None] == groups[:, None, :]
    return (same.sum(axis=2) == 1) & (groups >= 0)


def _same_singles(calls: Calls) -> Flags:
    """Devices stack where a CPU's only queue is so for all of them, though others have room."""
    first = _single(calls.groups)
    share = np.ones(len(first), bool)
    for groups in calls.later:
        share &= (_single(groups) == first).all(axis=1)
    return share & first.any(axis=1) & (first.sum(axis=1) < calls.possible.sum(axis=1))


def _stacked(calls: Calls, most: int) -> Flags:
    singles = [_single(groups) for groups in (calls.groups, *calls.later)]
    loads = np.sum(singles, axis=0)
    avoidable = loads.sum(axis=1) <= most * calls.possible.sum(axis=1)
    return np.asarray(avoidable & (loads > most).any(axis=1), bool)


def _same_masks(calls: Calls) -> Flags:
    """Two devices stack all they have where some CPUs serve fewer queues than others."""

    def together(groups: NDArray[np.int32]) -> Flags:
        return (groups[:, :, None] == groups[:, None, :]) & (groups >= 0)[:, :, None]

    same = np.ones(len(calls.groups), bool)
    for groups in calls.later:
        same &= (together(groups) == calls.together).all(axis=(1, 2))
    return np.asarray(same & (calls.possible.sum(axis=1) % calls.numgrps != 0), bool)


PREDICATES: dict[str, Predicate] = {
    predicate.name: predicate
    for predicate in (
        Predicate("lost-cpu", "a possible CPU is in no mask, or in two", _lost),
        Predicate("empty", "a mask is empty, though there are as many CPUs as groups", _empty),
        Predicate(
            "crosses-nodes",
            "a mask crosses nodes, though there are as many groups as nodes",
            _crosses_nodes,
        ),
        Predicate(
            "crosses-nodes-of-more",
            "a mask crosses nodes, though there are more groups than nodes",
            partial(_crosses_nodes, beyond=1),
        ),
        Predicate(
            "crosses-clusters",
            "a mask crosses clusters of a node, though there are as many groups as clusters",
            _crosses_clusters,
        ),
        Predicate(
            "splits-core",
            "the threads of a core are in different masks, though there are cores for all groups",
            _splits_core,
        ),
        Predicate(
            "fewer-than-2",
            "a mask has one CPU, though there are two CPUs or more for each group",
            partial(_fewer_than, least=2),
        ),
        Predicate(
            "fewer-than-3",
            "a mask has fewer than three CPUs, though there are three or more for each group",
            partial(_fewer_than, least=3),
        ),
        Predicate("no-online-cpu", "a mask has CPUs and none of them is online", _offline),
        Predicate(
            "same-singles",
            "two devices have the same single-CPU masks, though other CPUs are free of them",
            _same_singles,
            devices=2,
        ),
        Predicate(
            "same-masks",
            "two devices have the same masks, though these cannot be equally large",
            _same_masks,
            devices=2,
        ),
        *(
            Predicate(
                f"more-than-{most}",
                f"a CPU is alone in a mask of each of {most + 1} devices, though there are enough "
                f"CPUs that none has to be alone in more than {most}",
                partial(_stacked, most=most),
                devices=most + 1,
            )
            for most in range(1, 6)
        ),
    )
}
"""By name."""


def as_topology(machines: Machines, row: int) -> Topology:
    """Return a machine of arrays as a `Topology`."""

    def sets(labels: Any) -> list[CpuSet]:
        groups: dict[int, list[int]] = {}
        for cpu, label in enumerate(labels[row].tolist()):
            if label >= 0 and machines.node[row, cpu] >= 0:
                groups.setdefault(label, []).append(cpu)
        return [CpuSet(cpus) for cpus in groups.values()]

    node = machines.node[row]
    nodes: dict[int, list[int]] = {id: [] for id in range(int(machines.node_ids[row]))}
    for cpu, id in enumerate(node.tolist()):
        if id >= 0:
            nodes[id].append(cpu)
    return Topology(
        CpuSet(np.flatnonzero(node >= 0).tolist()),
        CpuSet(np.flatnonzero(machines.present[row]).tolist()),
        CpuSet(np.flatnonzero(machines.online[row]).tolist()),
        {id: CpuSet(cpus) for id, cpus in nodes.items()},
        sets(machines.cluster),
        sets(machines.core),
        no_cluster=CpuSet(np.flatnonzero((machines.cluster[row] < 0) & (node >= 0)).tolist()),
    )


@dataclass(frozen=True)
class _Own:
    function: Callable[[Topology, Sequence[CpuSet]], bool]

    def __call__(self, calls: Calls) -> Flags:
        held = []
        for row, groups in enumerate(calls.groups.tolist()):
            masks: list[list[int]] = [[] for _ in range(calls.numgrps)]
            for cpu, group in enumerate(groups):
                if group >= 0:
                    masks[group].append(cpu)
            topology = as_topology(calls.machines, row)
            held.append(bool(self.function(topology, [CpuSet(mask) for mask in masks])))
        return np.array(held, bool)


def own_predicate(
    function: Callable[[Topology, Sequence[CpuSet]], bool], sentence: str = ""
) -> Predicate:
    """Make a predicate of a function ``f(topology, masks) -> bool``; it is asked call by call."""
    if not callable(function):
        raise RequestError(f"predicate {brief(function)}: expected a function")
    name = getattr(function, "__name__", "own")
    return Predicate(name, sentence or f"{name}() holds", _Own(function), exact=False)


def find_predicate(predicate: Any) -> Predicate:
    """Return the predicate of a name, of a function, or as it is."""
    if isinstance(predicate, Predicate):
        return predicate
    if isinstance(predicate, str):
        if predicate in PREDICATES:
            return PREDICATES[predicate]
        raise RequestError(
            f"predicate {brief(predicate)}: expected one of {', '.join(PREDICATES)}"
            f"{meant(predicate, PREDICATES)}"
        )
    return own_predicate(predicate)
