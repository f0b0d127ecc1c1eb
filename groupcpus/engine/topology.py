# SPDX-License-Identifier: GPL-2.0-only
"""The parts of a machine that decide where interrupts go: CPUs, nodes, clusters, siblings."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet, cpus_of
from groupcpus.errors import CpuListError, RequestError, TopologyError, brief, counted

__all__ = ["MAX_NODES", "Topology"]

# CONFIG_NODES_SHIFT is at most 10.
MAX_NODES = 1024

_KEYS = {"nodes", "siblings", "clusters", "no_cluster", "possible", "present", "online"} | {
    "distances"
}


class Topology:
    """An immutable machine.

    Parameters
    ----------
    possible, present, online : CpuSet
        As in /sys/devices/system/cpu.
    nodes : mapping of int to CpuSet
        The possible CPUs of each NUMA node.  A node may be empty and ids may have gaps: every id
        up to the highest counts as existing, as in the kernel (``nr_node_ids``).
    clusters : iterable of CpuSet
        ``topology_cluster_cpumask()``.  A CPU in none of them is alone in its cluster.
    siblings : iterable of CpuSet
        ``topology_sibling_cpumask()``: the threads of each core.  A CPU in none of them is alone.
    no_cluster : CpuSet, optional
        CPUs whose cluster mask is *empty*, as the kernel leaves it for a CPU never brought up.
    distances : sequence of sequence of int, optional
        NUMA distances, a row a node id; without it every other node is equally far.

    Raises
    ------
    TopologyError
        If no machine can be like this.

    Notes
    -----
    Clusters and siblings may name CPUs that are not possible (firmware tables do), and clusters
    may cross nodes; cores may not.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)
    >>> machine
    <Topology: 8 CPUs, 2 nodes, 4 clusters, 4 cores>
    >>> machine.node_of(5), machine.cluster_of(5), machine.siblings_of(5)
    (1, CpuSet('4-5'), CpuSet('4-5'))
    """

    possible: CpuSet
    present: CpuSet
    online: CpuSet
    nodes: Mapping[int, CpuSet]
    clusters: tuple[CpuSet, ...]
    siblings: tuple[CpuSet, ...]
    no_cluster: CpuSet
    distances: tuple[tuple[int, ...], ...] | None

    def __init__(
        self,
        possible: CpuSet,
        present: CpuSet,
        online: CpuSet,
        nodes: Mapping[int, CpuSet],
        clusters: Iterable[CpuSet] = (),
        siblings: Iterable[CpuSet] = (),
        *,
        no_cluster: CpuSet | None = None,
        distances: Sequence[Sequence[int]] | None = None,
    ) -> None:
        fields = vars(self)
        fields["possible"] = possible
        fields["present"] = present
        fields["online"] = online
        fields["nodes"] = MappingProxyType({node: nodes[node] for node in sorted(nodes)})
        fields["clusters"] = tuple(clusters)
        fields["siblings"] = tuple(siblings)
        fields["no_cluster"] = CpuSet() if no_cluster is None else no_cluster
        fields["distances"] = None if distances is None else tuple(map(tuple, distances))
        self._check()
        self._index()

    def _check(self) -> None:
        """Refuse a machine that cannot be."""
        sets = {"possible": self.possible, "present": self.present, "online": self.online}
        sets |= {f"node {brief(node)}": cpus for node, cpus in self.nodes.items()}
        sets |= {"no_cluster": self.no_cluster}
        for field, parts in (("clusters", self.clusters), ("siblings", self.siblings)):
            sets |= {f"{field}[{at}]": cpus for at, cpus in enumerate(parts)}
        for field, cpus in sets.items():
            if not isinstance(cpus, CpuSet):
                raise TopologyError(f"{field}: {brief(cpus)} is no CpuSet")
        if not self.present:
            raise TopologyError("present: expected at least one CPU")
        if odd := self.present - self.possible:
            raise TopologyError(f"present: CPUs {odd} are not possible (possible: {self.possible})")
        if odd := self.online - self.present:
            raise TopologyError(f"online: CPUs {odd} are not present (present: {self.present})")
        for node, cpus in self.nodes.items():
            if isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < MAX_NODES:
                raise TopologyError(f"nodes: {brief(node)} is no node id from 0 to {MAX_NODES - 1}")
            if odd := cpus - self.possible:
                raise TopologyError(f"nodes: node {node} names CPUs {odd}, which are not possible")
        placed = _disjoint("nodes", [(f"node {n}", cpus) for n, cpus in self.nodes.items()])
        if lost := self.possible - placed:
            raise TopologyError(f"nodes: possible CPUs {lost} are in no node")
        clustered = _disjoint("clusters", [(f"cluster {cpus}", cpus) for cpus in self.clusters])
        if both := clustered & self.no_cluster:
            raise TopologyError(f"no_cluster: CPUs {both} are in a cluster as well")
        _disjoint("siblings", [(f"core {cpus}", cpus) for cpus in self.siblings])
        node_of = {cpu: node for node, cpus in self.nodes.items() for cpu in cpus}
        for core in self.siblings:
            homes = {node_of[cpu] for cpu in core & self.possible}
            if len(homes) > 1:
                raise TopologyError(f"siblings: core {core} lies in nodes {sorted(homes)} at once")
        if self.distances is not None:
            _check_distances(self.distances, max(self.nodes) + 1)

    def _index(self) -> None:
        """Lay out what `group_cpus_evenly` looks up for every CPU, node and cluster."""
        fields = vars(self)
        cpus = cpus_of(self.possible.mask)
        fields["_node"] = {cpu: node for node, members in self.nodes.items() for cpu in members}
        own = {cpu: 1 << cpu for cpu in cpus}
        fields["_sibling_masks"] = own | _by_cpu(self.siblings)
        fields["_cluster_masks"] = own | _by_cpu(self.clusters) | dict.fromkeys(self.no_cluster, 0)
        cores = {mask: cpus_of(mask) for mask in set(self._sibling_masks.values())}
        fields["_siblings"] = {cpu: cores[self._sibling_masks[cpu]] for cpu in cpus}
        fields["_core"] = {cpu: _lowest(self._sibling_masks[cpu]) for cpu in cpus}
        fields["_cluster"] = {cpu: _lowest(self._cluster_masks[cpu]) for cpu in cpus}
        every = range(max(self.nodes) + 1)
        fields["_node_masks"] = tuple(self.nodes.get(node, CpuSet()).mask for node in every)
        fields["_node_cpus"] = tuple(map(cpus_of, self._node_masks))
        shapes = map(self._shape, self._node_cpus)
        ids: dict[tuple[int, ...], int] = {}
        fields["_node_shapes"] = tuple(ids.setdefault(shape, len(ids)) for shape in shapes)
        fields["_node_clusters"] = tuple(map(self._clusters_in, self._node_masks))
        fields["_cluster_lows"] = tuple(map(_lows, self._node_clusters))
        fields["_cores_contiguous"] = _contiguous([self._core[cpu] for cpu in cpus])
        fields["_layouts"] = {}

    # What _index() sets; `grouping` reads them, and keeps in _layouts what it works out once.
    _node: dict[int, int]
    _sibling_masks: dict[int, int]
    _cluster_masks: dict[int, int]
    _siblings: dict[int, list[int]]
    _core: dict[int, int]
    _cluster: dict[int, int]
    _node_masks: tuple[int, ...]
    _node_cpus: tuple[list[int], ...]
    _node_shapes: tuple[int, ...]
    _node_clusters: tuple[list[tuple[int, ...]] | None, ...]
    _cluster_lows: tuple[list[int] | None, ...]
    _cores_contiguous: bool
    _layouts: dict[tuple[tuple[int, ...], bool], Any]

    def _shape(self, cpus: list[int]) -> tuple[int, ...]:
        """Describe CPUs, cores and clusters of a node regardless of where its numbers begin."""
        low = cpus[0] if cpus else 0
        shape = [cpu - low for cpu in cpus]
        shape += [self._core[cpu] - low for cpu in cpus]
        # -MAX_CPUS stands for an unknown cluster: no known one can be as far down.
        shape += [
            self._cluster[cpu] - low if self._cluster[cpu] >= 0 else -MAX_CPUS for cpu in cpus
        ]
        return tuple(shape)

    def _clusters_in(self, mask: int) -> list[tuple[int, ...]] | None:
        """Cut a mask into clusters in the order of their lowest CPUs; None if one is unknown."""
        members: dict[int, list[int]] = {}
        for cpu in cpus_of(mask):
            members.setdefault(self._cluster[cpu], []).append(cpu)
        return None if -1 in members else list(map(tuple, members.values()))

    @classmethod
    def uniform(
        cls,
        nodes: int = 2,
        cpus_per_node: int = 48,
        threads: int = 2,
        cluster: int | None = 2,
    ) -> "Topology":
        """Make a machine of equal nodes whose CPUs are numbered node by node, core by core.

        Parameters
        ----------
        nodes, cpus_per_node : int
            How many nodes, and CPUs in each.
        threads : int
            CPUs in a core; the last core of a node may have fewer.
        cluster : int or None
            CPUs in a cluster, which may be more than a node has; None: each CPU alone;
            0: none known (every cluster mask empty).

        Raises
        ------
        TopologyError
            If a number is out of range.

        Examples
        --------
        >>> Topology.uniform(nodes=1, cpus_per_node=40, threads=1, cluster=4).clusters[0]
        CpuSet('0-3')
        """
        _natural("nodes", nodes, 1, MAX_NODES)
        _natural("cpus_per_node", cpus_per_node, 1, MAX_CPUS // nodes)
        _natural("threads", threads, 1, MAX_CPUS)
        total = nodes * cpus_per_node
        every = CpuSet(range(total))
        clusters: list[CpuSet] = []
        if cluster is not None and _natural("cluster", cluster, 0, MAX_CPUS):
            if cluster > cpus_per_node:
                clusters = _slices(range(total), cluster)
            else:
                clusters = _by_node(nodes, cpus_per_node, cluster)
        return cls(
            every,
            every,
            every,
            dict(enumerate(_slices(range(total), cpus_per_node))),
            clusters,
            _by_node(nodes, cpus_per_node, threads),
            no_cluster=every if cluster == 0 else None,
        )

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> "Topology":
        """Read a topology document, as found in JSON and TOML files.

        Parameters
        ----------
        doc : mapping
            ``nodes`` {"0": cpulist, ...}, ``possible`` and ``present`` (cpulists), and optionally
            ``siblings`` [cpulist, ...], ``clusters`` [cpulist, ...], ``no_cluster`` (cpulist),
            ``online`` (cpulist; as present when left out), ``distances`` [[int, ...], ...].

        Raises
        ------
        TopologyError
            If a field is missing, unknown or not what it should be.

        Examples
        --------
        >>> Topology.from_dict({"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-1"})
        <Topology: 4 CPUs (2 present), 1 node, 4 clusters, 4 cores>
        """
        if not isinstance(doc, Mapping):
            raise TopologyError(f"topology {brief(doc)}: expected a table of fields")
        if unknown := sorted(map(str, set(doc) - _KEYS)):
            raise TopologyError(
                f"topology: unknown field {brief(unknown[0])}; expected {', '.join(sorted(_KEYS))}"
            )
        for key in ("nodes", "possible", "present"):
            if key not in doc:
                raise TopologyError(f"{key}: missing")
        if not isinstance(doc["nodes"], Mapping) or not doc["nodes"]:
            raise TopologyError(f"nodes: {brief(doc['nodes'])} is no table of node ids to cpulists")
        present = _read_cpulist("present", doc["present"])
        return cls(
            _read_cpulist("possible", doc["possible"]),
            present,
            _read_cpulist("online", doc["online"]) if "online" in doc else present,
            {
                _read_node(node): _read_cpulist(f"nodes: node {node}", cpus)
                for node, cpus in doc["nodes"].items()
            },
            _read_cpulists("clusters", doc.get("clusters", [])),
            _read_cpulists("siblings", doc.get("siblings", [])),
            no_cluster=_read_cpulist("no_cluster", doc.get("no_cluster", "")),
            distances=_read_distances(doc.get("distances")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Write the topology document that `from_dict` reads.

        Examples
        --------
        >>> machine = Topology.uniform(nodes=1, cpus_per_node=2)
        >>> Topology.from_dict(machine.to_dict()) == machine
        True
        """
        doc: dict[str, Any] = {
            "nodes": {str(node): str(cpus) for node, cpus in self.nodes.items()},
            "siblings": [str(cpus) for cpus in self.siblings],
            "clusters": [str(cpus) for cpus in self.clusters],
            "possible": str(self.possible),
            "present": str(self.present),
            "online": str(self.online),
        }
        if self.no_cluster:
            doc["no_cluster"] = str(self.no_cluster)
        if self.distances is not None:
            doc["distances"] = [list(row) for row in self.distances]
        return doc

    def node_of(self, cpu: int) -> int:
        """Give the node id of a possible CPU (``cpu_to_node()``)."""
        return self._node[self._known(cpu)]

    def cluster_of(self, cpu: int) -> CpuSet:
        """Give the cluster of a possible CPU (``topology_cluster_cpumask()``), maybe empty."""
        return CpuSet.from_mask(self._cluster_masks[self._known(cpu)])

    def siblings_of(self, cpu: int) -> CpuSet:
        """Give the threads of a possible CPU's core (``topology_sibling_cpumask()``)."""
        return CpuSet.from_mask(self._sibling_masks[self._known(cpu)])

    def core_id(self, cpu: int) -> int:
        """Name a possible CPU's core by the lowest CPU in it."""
        return self._core[self._known(cpu)]

    def cluster_id(self, cpu: int) -> int | None:
        """Name a possible CPU's cluster by the lowest CPU in it; None when its mask is empty."""
        cluster = self._cluster[self._known(cpu)]
        return None if cluster < 0 else cluster

    def _known(self, cpu: int) -> int:
        if cpu not in self._node:
            raise RequestError(f"CPU {brief(cpu)} is not possible (possible: {self.possible})")
        return cpu

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Topology is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Topology is immutable: {name} cannot be deleted")

    def _key(self) -> tuple[object, ...]:
        return (
            self.possible,
            self.present,
            self.online,
            tuple(self.nodes.items()),
            frozenset(self.clusters),
            frozenset(self.siblings),
            self.no_cluster,
            self.distances,
        )

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Topology) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        return Topology.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        absent = "" if self.present == self.possible else f" ({len(self.present)} present)"
        # A CPU whose cluster mask is empty is in none.
        clusters = {mask & self.possible.mask for mask in self._cluster_masks.values()} - {0}
        cores = {mask & self.possible.mask for mask in set(self._sibling_masks.values())} - {0}
        return (
            f"<Topology: {counted(len(self.possible), 'CPU')}{absent}, "
            f"{counted(len(self.nodes), 'node')}, {counted(len(clusters), 'cluster')}, "
            f"{counted(len(cores), 'core')}>"
        )


def _slices(cpus: Sequence[int], size: int) -> list[CpuSet]:
    """Cut a run of CPUs into sets of `size`, the last one smaller if need be."""
    return [CpuSet(cpus[at : at + size]) for at in range(0, len(cpus), size)]


def _by_node(nodes: int, cpus_per_node: int, size: int) -> list[CpuSet]:
    return [
        piece
        for node in range(nodes)
        for piece in _slices(range(node * cpus_per_node, (node + 1) * cpus_per_node), size)
    ]


def _by_cpu(sets: Iterable[CpuSet]) -> dict[int, int]:
    return {cpu: cpus.mask for cpus in sets for cpu in cpus}


def _lowest(mask: int) -> int:
    """Give the lowest CPU of a mask, -1 for an empty one."""
    return (mask & -mask).bit_length() - 1


def _lows(clusters: list[tuple[int, ...]] | None) -> list[int] | None:
    """Give the lowest CPUs of clusters without gaps; None if one has a gap, or is unknown."""
    if clusters is None or any(cpus[-1] - cpus[0] >= len(cpus) for cpus in clusters):
        return None
    return [cpus[0] for cpus in clusters]


def _contiguous(cores: list[int]) -> bool:
    """Tell whether every core's CPUs follow one another without a stranger between.

    If so, dealing a core's threads first is the same as dealing CPUs in ascending order.
    """
    changes = sum(before != after for before, after in pairwise(cores))
    return changes == len(set(cores)) - 1


def _disjoint(field: str, sets: Iterable[tuple[str, CpuSet]]) -> CpuSet:
    """Give the union of named sets, and refuse two that overlap."""
    union = CpuSet()
    for name, cpus in sets:
        if both := union & cpus:
            raise TopologyError(f"{field}: CPUs {both} of {name} are in another one as well")
        union |= cpus
    return union


def _check_distances(distances: tuple[tuple[int, ...], ...], nodes: int) -> None:
    if len(distances) != nodes or any(len(row) != nodes for row in distances):
        raise TopologyError(f"distances: expected {nodes} rows of {nodes} numbers, one a node id")
    for row in distances:
        for distance in row:
            _natural("distances", distance, 0, 255)


def _natural(field: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise TopologyError(f"{field}: {brief(value)} is no whole number from {least} to {most}")
    return value


def _read_cpulist(field: str, text: object) -> CpuSet:
    if not isinstance(text, str):
        raise TopologyError(f"{field}: {brief(text)} is no cpulist such as '0-3,8'")
    try:
        return CpuSet(text)
    except CpuListError as error:
        raise TopologyError(f"{field}: {error}") from None


def _read_cpulists(field: str, texts: object) -> list[CpuSet]:
    if not isinstance(texts, list | tuple):
        raise TopologyError(f"{field}: {brief(texts)} is no list of cpulists")
    return [_read_cpulist(field, text) for text in texts]


def _read_node(node: object) -> int:
    if not (isinstance(node, str) and re.fullmatch("0|[1-9][0-9]{0,3}", node)):
        raise TopologyError(f"nodes: {brief(node)} is no node id from 0 to {MAX_NODES - 1}")
    return int(node)


def _read_distances(rows: object) -> list[list[int]] | None:
    if rows is None:
        return None
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
        raise TopologyError(f"distances: {brief(rows)} is no list of rows of numbers")
    return [list(row) for row in rows]
