# SPDX-License-Identifier: GPL-2.0-only
"""The parts of a machine that decide where interrupts go: CPUs, nodes, clusters, siblings.

It is one class, and one module of more than 450 lines: what a machine is made of, what is refused,
and what is looked up about it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.documents import MAX_NODES, read_document
from groupcpus.errors import RequestError, TopologyError, brief, counted

__all__ = ["MAX_NODES", "Topology"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
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
    llcs : iterable of CpuSet, optional
        The CPUs that share each last-level cache, as far as it is known; nothing is decided by it.

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
    clusters: Sequence[CpuSet] = ()
    siblings: Sequence[CpuSet] = ()
    no_cluster: CpuSet = field(default=CpuSet(), kw_only=True)
    distances: Sequence[Sequence[int]] | None = field(default=None, kw_only=True)
    llcs: Sequence[CpuSet] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Keep copies that nobody can change, and refuse a machine that cannot be."""
        if not isinstance(self.nodes, Mapping) or not self.nodes:
            raise TopologyError(f"nodes: {brief(self.nodes)} is no table of node ids to CpuSets")
        for node, cpus in self.nodes.items():
            if isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < MAX_NODES:
                raise TopologyError(f"nodes: {brief(node)} is no node id from 0 to {MAX_NODES - 1}")
            _cpu_set(f"node {node}", cpus)
        kept = vars(self)
        for name in ("possible", "present", "online", "no_cluster"):
            _cpu_set(name, kept[name])
        for name in ("clusters", "siblings", "llcs"):
            kept[name] = _cpu_sets(name, kept[name])
        kept["nodes"] = MappingProxyType({node: self.nodes[node] for node in sorted(self.nodes)})
        if self.distances is not None:
            kept["distances"] = _rows(self.distances, max(self.nodes) + 1)
        self._check()

    def _check(self) -> None:
        """Refuse a machine that cannot be."""
        if not self.present:
            raise TopologyError("present: expected at least one CPU")
        if wrong := self.present - self.possible:
            raise TopologyError(f"present: CPUs {_few(wrong)} are not possible")
        if wrong := self.online - self.present:
            raise TopologyError(f"online: CPUs {_few(wrong)} are not present")
        for node, cpus in self.nodes.items():
            if wrong := cpus - self.possible:
                raise TopologyError(f"nodes: node {node} has CPUs {_few(wrong)}, not possible ones")
        placed = _disjoint("nodes", self.nodes.values())
        if lost := self.possible - placed:
            raise TopologyError(f"nodes: possible CPUs {_few(lost)} are in no node")
        clustered = _disjoint("clusters", self.clusters)
        if both := clustered & self.no_cluster:
            raise TopologyError(f"no_cluster: CPUs {_few(both)} are in a cluster as well")
        _disjoint("llcs", self.llcs)
        _disjoint("siblings", self.siblings)
        possible = self.possible.mask
        nodes = {node: cpus.mask for node, cpus in self.nodes.items()}
        for core in self.siblings:
            inside = core.mask & possible
            lowest = (inside & -inside).bit_length() - 1
            if inside and inside & ~nodes[self.node_ids[lowest]]:
                homes = sorted({self.node_ids[cpu] for cpu in core & self.possible})
                raise TopologyError(
                    f"siblings: core {_few(core)} lies in nodes {brief(homes)} at once"
                )

    # What is derived is worked out when it is first asked for. Threads that ask at the same time
    # work out the same.

    @cached_property
    def node_ids(self) -> Mapping[int, int]:
        """The node of each possible CPU."""
        return MappingProxyType({cpu: node for node, cpus in self.nodes.items() for cpu in cpus})

    @cached_property
    def core_cpus(self) -> Mapping[int, tuple[int, ...]]:
        """The CPUs of each possible CPU's core, ascending."""
        cores = {cpu: core for core in map(tuple, self.siblings) for cpu in core}
        return MappingProxyType({cpu: cores.get(cpu, (cpu,)) for cpu in self.possible})

    @cached_property
    def core_ids(self) -> Mapping[int, int]:
        """The core of each possible CPU, named by the lowest CPU in it."""
        return MappingProxyType({cpu: core[0] for cpu, core in self.core_cpus.items()})

    @cached_property
    def cluster_ids(self) -> Mapping[int, int | None]:
        """The cluster of each possible CPU, named by the lowest CPU in it; None: it is empty."""
        clusters = {cpu: cpus[0] for cpus in map(tuple, self.clusters) for cpu in cpus}
        known = {cpu: clusters.get(cpu, cpu) for cpu in self.possible}
        return MappingProxyType(known | dict.fromkeys(self.no_cluster & self.possible))

    @cached_property
    def stages(self) -> tuple[tuple[str, CpuSet, Mapping[int, tuple[int, ...]]], ...]:
        """The CPUs that `group_cpus_evenly` groups one after the other, in all and by node.

        Examples
        --------
        >>> machine = {"nodes": {"0": "0-3", "1": "4-5"}, "possible": "0-5", "present": "0-1,4-5"}
        >>> for name, cpus, nodes in Topology.from_dict(machine).stages:
        ...     print(name, cpus, dict(nodes))
        present 0-1,4-5 {0: (0, 1), 1: (4, 5)}
        absent 2-3 {0: (2, 3)}
        """
        stages = []
        for name, stage in (("present", self.present), ("absent", self.possible - self.present)):
            by_node = {node: tuple(cpus & stage) for node, cpus in self.nodes.items()}
            nodes = {node: cpus for node, cpus in by_node.items() if cpus}
            if nodes:
                stages.append((name, stage, MappingProxyType(nodes)))
        return tuple(stages)

    @cached_property
    def node_clusters(self) -> Mapping[int, tuple[tuple[int, ...], ...] | None]:
        """The clusters of each node, see `clusters_in`."""
        return MappingProxyType({node: self.clusters_in(cpus) for node, cpus in self.nodes.items()})

    def clusters_in(self, cpus: Collection[int]) -> tuple[tuple[int, ...], ...] | None:
        """Divide some possible CPUs by cluster, in the order of the first of each.

        Returns
        -------
        tuple of tuple of int, or None
            None if the cluster mask of one of them is empty.

        Examples
        --------
        >>> Topology.uniform(nodes=1, cpus_per_node=6, threads=1, cluster=2).clusters_in([1, 2, 3])
        ((1,), (2, 3))
        """
        key = tuple(cpus)
        if key not in self._divided:
            members: dict[int | None, list[int]] = {}
            for cpu in key:
                members.setdefault(self.cluster_ids[cpu], []).append(cpu)
            parts = tuple(map(tuple, members.values()))
            self._divided[key] = None if None in members else parts
        return self._divided[key]

    @cached_property
    def _divided(self) -> dict[tuple[int, ...], tuple[tuple[int, ...], ...] | None]:
        """What `clusters_in` returned: calls on a machine ask for the same over and over."""
        return {}

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
        homes = _slices(0, total, cpus_per_node)
        clusters: list[CpuSet] = []
        if cluster is not None and _natural("cluster", cluster, 0, MAX_CPUS):
            if cluster > cpus_per_node:
                clusters = _slices(0, total, cluster)
            else:
                clusters = _slices_of_each(homes, cpus_per_node, cluster)
        return cls(
            every,
            every,
            every,
            dict(enumerate(homes)),
            tuple(clusters),
            tuple(_slices_of_each(homes, cpus_per_node, threads)),
            no_cluster=every if cluster == 0 else CpuSet(),
        )

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> "Topology":
        """Read a topology document, as found in JSON and TOML files.

        Parameters
        ----------
        doc : mapping
            ``nodes`` {"0": cpulist, ...}, ``possible`` and ``present`` (cpulists), and optionally
            ``siblings`` [cpulist, ...], ``clusters`` [cpulist, ...], ``no_cluster`` (cpulist),
            ``llcs`` [cpulist, ...], ``online`` (cpulist; as present when left out),
            ``distances`` [[int, ...], ...].

        Raises
        ------
        TopologyError
            If a field is missing, unknown or not what it should be.

        Examples
        --------
        >>> Topology.from_dict({"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-1"})
        <Topology: 4 CPUs (2 present), 1 node, 4 clusters, 4 cores>
        """
        return cls(**read_document(doc))

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
        if self.llcs:
            doc["llcs"] = [str(cpus) for cpus in self.llcs]
        return doc

    def node_of(self, cpu: int) -> int:
        """Return the node id of a possible CPU (``cpu_to_node()``)."""
        return _look_up(self.node_ids, cpu)

    def cluster_of(self, cpu: int) -> CpuSet:
        """Return the cluster of a possible CPU (``topology_cluster_cpumask()``), maybe empty."""
        return _look_up(self._cluster_sets, cpu)

    def siblings_of(self, cpu: int) -> CpuSet:
        """Return the threads of a possible CPU's core (``topology_sibling_cpumask()``)."""
        return _look_up(self._sibling_sets, cpu)

    def llc_of(self, cpu: int) -> CpuSet | None:
        """Return the CPUs that share a possible CPU's last-level cache; None: not known.

        Examples
        --------
        >>> machine = {"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-3", "llcs": ["0-1"]}
        >>> Topology.from_dict(machine).llc_of(1), Topology.from_dict(machine).llc_of(2)
        (CpuSet('0-1'), None)
        """
        return _look_up(self._llc_sets, cpu)

    def core_id(self, cpu: int) -> int:
        """Return the name of a possible CPU's core, the lowest CPU in it."""
        return _look_up(self.core_ids, cpu)

    def cluster_id(self, cpu: int) -> int | None:
        """Return the name of a possible CPU's cluster, the lowest CPU in it; None: it is empty."""
        return _look_up(self.cluster_ids, cpu)

    @cached_property
    def _sibling_sets(self) -> Mapping[int, CpuSet]:
        return self._sets_of(self.siblings)

    @cached_property
    def _cluster_sets(self) -> Mapping[int, CpuSet]:
        empty = dict.fromkeys(self.no_cluster & self.possible, CpuSet())
        return self._sets_of(self.clusters) | empty

    @cached_property
    def _llc_sets(self) -> Mapping[int, CpuSet | None]:
        known = {cpu: cpus for cpus in self.llcs for cpu in cpus}
        return {cpu: known.get(cpu) for cpu in self.possible}

    def _sets_of(self, sets: Iterable[CpuSet]) -> dict[int, CpuSet]:
        """Return for each possible CPU the set that it is in; one in none is alone."""
        known = {cpu: cpus for cpus in sets for cpu in cpus}
        return {cpu: known.get(cpu) or CpuSet.from_mask(1 << cpu) for cpu in self.possible}

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

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
            frozenset(self.llcs),
        )

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Topology) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Topology.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        absent = "" if self.present == self.possible else f" ({len(self.present)} present)"
        clusters = set(self.cluster_ids.values()) - {None}
        cores = set(self.core_ids.values())
        return (
            f"<Topology: {counted(len(self.possible), 'CPU')}{absent}, "
            f"{counted(len(self.nodes), 'node')}, {counted(len(clusters), 'cluster')}, "
            f"{counted(len(cores), 'core')}>"
        )


def _slices(start: int, stop: int, size: int) -> list[CpuSet]:
    """Cut a run of CPUs into sets of `size`, the last one smaller if need be."""
    return [
        CpuSet.from_mask((1 << min(at + size, stop)) - (1 << at)) for at in range(start, stop, size)
    ]


def _slices_of_each(nodes: Sequence[CpuSet], cpus_per_node: int, size: int) -> list[CpuSet]:
    starts = range(0, len(nodes) * cpus_per_node, cpus_per_node)
    return [cut for start in starts for cut in _slices(start, start + cpus_per_node, size)]


def _look_up(by_cpu: Mapping[int, T], cpu: int) -> T:
    """Return what stands for a possible CPU, or refuse another one."""
    if not hasattr(cpu, "__index__") or cpu not in by_cpu:
        raise RequestError(f"CPU {brief(cpu)} is not possible")
    return by_cpu[cpu]


def _few(cpus: CpuSet) -> str:
    """Return a cpulist for an error's text, cut if it is long."""
    text = str(cpus)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _cpu_set(field: str, cpus: object) -> CpuSet:
    if not isinstance(cpus, CpuSet):
        raise TopologyError(f"{field}: {brief(cpus)} is no CpuSet")
    return cpus


def _cpu_sets(field: str, sets: Iterable[CpuSet]) -> tuple[CpuSet, ...]:
    if isinstance(sets, str) or not isinstance(sets, Iterable):
        raise TopologyError(f"{field}: {brief(sets)} is no collection of CpuSets")
    members = tuple(sets)
    for at, cpus in enumerate(members):
        if not isinstance(cpus, CpuSet):
            raise TopologyError(f"{field}[{at}]: {brief(cpus)} is no CpuSet")
    return members


def _disjoint(field: str, sets: Iterable[CpuSet]) -> CpuSet:
    """Return the union of sets, and refuse two that overlap."""
    union = 0
    for cpus in sets:
        mask = cpus.mask
        if both := union & mask:
            few = _few(CpuSet.from_mask(both))
            raise TopologyError(f"{field}: CPUs {few} of {_few(cpus)} are in another one as well")
        union |= mask
    return CpuSet.from_mask(union)


def _rows(distances: object, nodes: int) -> tuple[tuple[int, ...], ...]:
    """Return a matrix of distances, or refuse what is none."""
    listed = distances if isinstance(distances, list | tuple) else ()
    rows = tuple(tuple(row) for row in listed if isinstance(row, list | tuple))
    if len(listed) != nodes or any(len(row) != nodes for row in rows) or len(rows) != nodes:
        raise TopologyError(
            f"distances: {brief(distances)}: expected {nodes} rows of {nodes} numbers, as many as "
            "node ids"
        )
    for row in rows:
        for distance in row:
            _natural("distances", distance, 0, 255)
    return rows


def _natural(field: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise TopologyError(f"{field}: {brief(value)} is no whole number from {least} to {most}")
    return value
