# SPDX-License-Identifier: GPL-2.0-only
"""Put the facts of several sources together into one machine, and say what was assumed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, brief
from groupcpus.machines.machine import Machine
from groupcpus.sources import limits
from groupcpus.sources.doubts import doubts_about
from groupcpus.sources.facts import X86, Facts, ShownInterrupt, few

__all__ = ["Loaded", "LoadedMachine", "combine"]

# The kernel's number for a node that cannot be reached; what is not told is as far.
UNREACHABLE = 255


@dataclass(frozen=True)
class Loaded:
    """What one or more sources say of a machine.

    Attributes
    ----------
    topology : Topology or None
        The machine; None if no source names its CPUs (`load_topology` never gives None).
    cluster_source : str
        Where the clusters come from: "cluster_cpus_list" (the kernel's own), "l2" (CPUs that
        share an L2, what x86 kernels take), "machine" (a machine file or a recording says), or
        "unknown" (then no CPU is in a cluster).
    notes : tuple of str
        What was assumed, left out or repaired, a sentence each.
    origins : mapping of str to str
        The source of each part: "possible", "nodes", "siblings", "clusters", ...
    arch, kernel : str or None
        Architecture (``uname -m``) and kernel release.
    isolated : CpuSet or None
        /sys/devices/system/cpu/isolated.
    interrupts : tuple of ShownInterrupt
        By number.
    queue_maps, queue_kinds : mapping
        For each disk, hardware queue to CPUs, and hardware queue to "default", "read" or "poll".
    devices : tuple of dict
        Those with message interrupts, as `capture.py` writes them.
    disk_slots : mapping of str to str or None
        The slot on the bus that each disk lies behind.
    cmdline : tuple of str
        The flags of the command line that matter.
    nvme : mapping of str to str
        The nvme module's parameters.
    irqbalance : bool or None
        Whether irqbalance runs.
    machine : Machine or None
        The whole machine, where a machine file or a recording tells it.
    nvme_queues : mapping of str to tuple of int
        Default, read and poll queues of NVMe drives, where their driver's log is a source.
    threads : int or None
        Threads per core, where no source says which CPUs these are.
    doubts : tuple of str
        Why masks that no revision gives may be no contradiction: what is missing, a sentence each.
    """

    topology: Topology | None
    cluster_source: str = "unknown"
    notes: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    arch: str | None = None
    kernel: str | None = None
    isolated: CpuSet | None = None
    interrupts: tuple[ShownInterrupt, ...] = ()
    queue_maps: Mapping[str, Mapping[int, CpuSet]] = field(default_factory=dict)
    queue_kinds: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    devices: tuple[Mapping[str, Any], ...] = ()
    disk_slots: Mapping[str, str | None] = field(default_factory=dict)
    cmdline: tuple[str, ...] = ()
    nvme: Mapping[str, str] = field(default_factory=dict)
    irqbalance: bool | None = None
    machine: Machine | None = None
    nvme_queues: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    threads: int | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedMachine(Loaded):
    """A `Loaded` that surely has a topology."""

    topology: Topology


class _Combined:
    """The sources in the order of how much they are trusted, and what was noted on the way."""

    def __init__(self, sources: Iterable[Facts]) -> None:
        self.sources = list(sources)
        self.origins: dict[str, str] = {}
        self.notes = [note for facts in self.sources for note in facts.notes]

    def first(self, name: str, part: str | None = None) -> Any:
        """Return the first source's word on something, and remember whose it was."""
        for facts in self.sources:
            value = getattr(facts, name)
            if value is not None and value != () and value != {} and value != frozenset():
                self.origins[part or name] = facts.source
                return value
        return None

    def look(self, name: str) -> Any:
        """Return the first source's word on a detail of something else."""
        known = dict(self.origins)
        value = self.first(name)
        self.origins = known
        return value

    def note(self, text: str) -> None:
        self.notes.append(text)


def combine(sources: Iterable[Facts]) -> Loaded:
    """Combine sources; where two tell of the same, the first one counts.

    Raises
    ------
    FormatError
        If two sources contradict each other.
    TopologyError
        If no machine can be like what they say together.
    """
    parts = _Combined(sources)
    arch = parts.first("arch")
    topology, cluster_source = None, "unknown"
    machine: Machine | None = parts.first("machine")
    if machine is not None:
        topology, cluster_source = machine.topology, "machine"
    elif any(facts.tells_cpus() for facts in parts.sources):
        topology, cluster_source = _topology(parts, arch)
    else:
        parts.note("no source names the CPUs of the machine")
    interrupts = _interrupts(parts, topology)
    doubts: tuple[str, ...] = ()
    if topology is not None and machine is None:
        found = doubts_about(parts.sources, topology, parts.origins, interrupts)
        doubts = tuple(dict.fromkeys(found))
    return Loaded(
        topology,
        cluster_source,
        arch=arch,
        kernel=parts.first("kernel"),
        isolated=parts.first("isolated"),
        interrupts=interrupts,
        queue_maps=parts.first("queue_maps") or {},
        queue_kinds=parts.look("queue_kinds") or {},
        devices=parts.first("devices") or (),
        disk_slots=parts.look("disk_slots") or {},
        cmdline=parts.first("cmdline") or (),
        nvme=parts.first("nvme") or {},
        irqbalance=parts.first("irqbalance"),
        machine=machine,
        nvme_queues=parts.first("nvme_queues") or {},
        threads=parts.look("threads"),
        doubts=doubts,
        notes=tuple(dict.fromkeys((*parts.notes, *doubts))),
        origins=dict(sorted(parts.origins.items())),
    )


def _topology(parts: _Combined, arch: str | None) -> tuple[Topology, str]:
    possible, present, online = _cpus(parts)
    siblings = parts.first("siblings")
    if siblings is None:
        threads = parts.look("threads")
        many = f", though a core has {threads} threads" if threads else ""
        parts.note(f"no source has the siblings: each CPU is taken as a core of its own{many}")
    untold = (parts.look("untold") or CpuSet()) & possible
    if siblings is not None and untold & present:
        parts.note(f"CPUs {few(untold & present)} have no topology files: alone in their cores")
    source, clusters, no_cluster = _clusters(parts, arch, siblings or [], possible, untold)
    x86 = arch in X86 or (arch is None and source == "l2")
    nodes = _nodes(parts, possible, present, x86)
    topology = Topology(
        possible,
        present,
        online,
        nodes,
        clusters,
        siblings or (),
        no_cluster=no_cluster,
        distances=_distances(parts, max(nodes) + 1),
        llcs=parts.first("llcs") or (),
    )
    return topology, source


def _cpus(parts: _Combined) -> tuple[CpuSet, CpuSet, CpuSet]:
    """Find out which CPUs are possible, present and online."""
    possible, present, online = (parts.first(name) for name in ("possible", "present", "online"))
    listed = CpuSet()
    for facts in parts.sources:
        for cpus in (facts.nodes or {}).values():
            listed |= cpus
    if present is None:
        # Nodes may list CPUs beyond the possible ones; that is no reason to believe in them.
        present = possible if possible is not None else listed | (online or CpuSet())
        parts.note(f"no source has the present CPUs: {few(present)} are taken as present")
    if possible is None:
        possible = present
        parts.note(
            f"no source has the possible CPUs: taken to be the present ones, {few(possible)}"
        )
    if online is None:
        online = present
        parts.note("no source has the online CPUs: all present ones are taken as online")
    for name, cpus, of, others in (
        ("present", present, "possible", possible),
        ("online", online, "present", present),
    ):
        if odd := cpus - others:
            where = parts.origins.get(name, "the sources")
            raise FormatError(
                f"{where}: {name}", f"CPUs {few(odd)} are not {of} ({of}: {few(others)})"
            )
    return possible, present, online


def _clusters(
    parts: _Combined, arch: str | None, siblings: list[CpuSet], possible: CpuSet, untold: CpuSet
) -> tuple[str, list[CpuSet], CpuSet]:
    """Decide where the clusters come from; give that, them, and the CPUs whose mask is empty."""
    clusters = parts.first("clusters")
    source = "cluster_cpus_list"
    if clusters is None:
        source = "l2"
        clusters = _from_l2(parts, arch, siblings)
    if clusters is None:
        parts.origins.pop("clusters", None)
        parts.note("the clusters are unknown: no CPU is taken to be in one")
        return "unknown", [], possible
    empty = parts.look("no_cluster") or CpuSet()
    if arch is None or arch in X86:
        # x86 leaves or makes these masks empty (arch/x86/kernel/smpboot.c, remove_siblinginfo());
        # others put the CPU itself in (drivers/base/arch_topology.c, clear_cpu_topology()).
        empty |= untold
    for cpus in clusters:
        empty -= cpus
    return source, clusters, empty & possible


def _from_l2(parts: _Combined, arch: str | None, siblings: list[CpuSet]) -> list[CpuSet] | None:
    """Take the CPUs that share an L2 as clusters, where the kernel does: on x86."""
    l2: list[CpuSet] | None = parts.first("l2", "clusters")
    if l2 is None or (arch is not None and arch not in X86):
        return None
    if arch is None:
        # Cores of more than two threads with consecutive numbers are POWER's; those of Xeon Phi,
        # the one x86 with as many, are numbered with a stride.
        if any(len(core) > 2 and str(core).count(",") == 0 for core in siblings):
            parts.note("no source has the architecture, and it does not look like x86")
            return None
        parts.note("no source has the architecture: taken as x86, whose clusters share an L2")
    return l2


def _nodes(parts: _Combined, possible: CpuSet, present: CpuSet, x86: bool) -> dict[int, CpuSet]:
    """Put every possible CPU into a node."""
    told: dict[int, CpuSet] | None = parts.first("nodes")
    if told is None:
        parts.note("no source has the nodes: all CPUs are taken to be in node 0")
        return {0: possible}
    _agree(parts, told)
    # lscpu knows no node without CPUs and numactl no offline CPU: together they know more.
    joined: dict[int, CpuSet] = {}
    for facts in parts.sources:
        for node, cpus in (facts.nodes or {}).items():
            joined[node] = joined.get(node, CpuSet()) | cpus
    nodes: dict[int, CpuSet] = {}
    placed = CpuSet()
    for node, cpus in sorted(joined.items()):
        if odd := cpus - possible:
            parts.note(f"node {node} lists CPUs {few(odd)}, which are not possible: left out")
        cpus &= possible
        if both := cpus & placed:
            others = [str(other) for other, mine in nodes.items() if mine & both]
            raise FormatError(
                f"{parts.origins['nodes']}: node {node}",
                f"its CPUs {few(both)} are in node {', '.join(others[:3])} as well",
            )
        nodes[node] = cpus
        placed |= cpus
    _place_linked(parts, nodes, possible - placed)
    _place_rest(parts, nodes, possible, present, x86)
    ids = parts.look("node_ids") or frozenset()
    if ids and max(ids) > max(nodes):
        # The kernel counts node ids up to the highest possible one (nr_node_ids).
        nodes[max(ids)] = CpuSet()
    return dict(sorted(nodes.items()))


def _agree(parts: _Combined, told: dict[int, CpuSet]) -> None:
    """Refuse sources that put a CPU into different nodes."""
    home = {cpu: node for node, cpus in told.items() for cpu in cpus}
    for facts in parts.sources:
        if facts.nodes is told:
            continue
        for node, cpus in (facts.nodes or {}).items():
            for cpu in cpus:
                if home.get(cpu, node) != node:
                    raise FormatError(
                        f"{facts.source}: node {node}",
                        f"CPU {cpu} is in node {home[cpu]} according to {parts.origins['nodes']}",
                    )


def _place_linked(parts: _Combined, nodes: dict[int, CpuSet], missing: CpuSet) -> None:
    """Place CPUs that no node lists but that tell their node themselves: offline ones."""
    linked: dict[int, int] = parts.look("cpu_node") or {}
    used = CpuSet(cpu for cpu in linked if cpu in missing)
    for cpu in used:
        nodes[linked[cpu]] = nodes.get(linked[cpu], CpuSet()) | CpuSet([cpu])
    if used:
        parts.note(f"CPUs {few(used)} are in no node's list: placed by their links to nodes")


def _place_rest(
    parts: _Combined, nodes: dict[int, CpuSet], possible: CpuSet, present: CpuSet, x86: bool
) -> None:
    """Place the CPUs whose node nobody tells where the kernel would."""
    missing = possible
    for cpus in nodes.values():
        missing -= cpus
    here = missing & present
    if here:
        home = 0 if 0 in nodes or 0 in (parts.look("node_ids") or ()) else min(nodes)
        nodes[home] = nodes.get(home, CpuSet()) | here
        parts.note(f"CPUs {few(here)} are in no node's list: taken to be in node {home}")
    absent = missing - here
    if not absent:
        return
    if x86:
        # What firmware does not place is dealt to the nodes in turn, by CPU number
        # (arch/x86/mm/numa.c, numa_init_array()).
        existing = sorted(nodes)
        for turn, node in enumerate(existing):
            nodes[node] |= CpuSet(cpu for cpu in absent if cpu % len(existing) == turn)
        how = "dealt to the nodes in turn, as x86 kernels do"
    else:
        home = 0 if 0 in nodes else min(nodes)
        nodes[home] |= absent
        how = f"taken to be in node {home}"
    parts.note(f"CPUs {few(absent)} are possible, not present and in no node's list: {how}")


def _distances(parts: _Combined, count: int) -> list[list[int]] | None:
    told: dict[int, dict[int, int]] | None = parts.first("distances")
    if told is None:
        return None
    if count > limits.DISTANCES or max(told) >= count:
        parts.note(
            f"distances are left out: they are of other nodes, or {count} nodes are too many"
        )
        del parts.origins["distances"]
        return None
    local = {node: {node: 10} for node in range(count)}
    return [
        [told.get(row, local[row]).get(column, UNREACHABLE) for column in range(count)]
        for row in range(count)
    ]


def _interrupts(parts: _Combined, topology: Topology | None) -> tuple[ShownInterrupt, ...]:
    """Join what the sources say of each interrupt, the first one counting."""
    joined: dict[int, ShownInterrupt] = {}
    if sum(bool(facts.interrupts) and facts.has_counts() for facts in parts.sources) > 1:
        parts.note("interrupts are counted more than once: the first counts are taken")
    for facts in parts.sources:
        if facts.columns:
            _name_columns(parts, facts, topology)
    for facts in reversed(parts.sources):
        for irq, shown in facts.interrupts.items():
            values = {
                name: value for name, value in vars(shown).items() if value not in (None, "", ())
            }
            known = joined.get(irq, shown)
            for name in ("affinity", "actions"):
                before, here = getattr(known, name), getattr(shown, name)
                if before and here and before != here and not _abridged(before, here):
                    raise FormatError(
                        facts.source,
                        f"{name} of interrupt {irq} is {_words(here)} here, {_words(before)} in "
                        "another source: two machines, or two states of one, are loaded one by one",
                    )
            joined[irq] = replace(known, **values)
        if facts.interrupts:
            parts.origins["interrupts"] = facts.source
    return tuple(joined[irq] for irq in sorted(joined))


def _abridged(one: Any, other: Any) -> bool:
    """Return whether one of two lists of names may be a part of the other."""
    if isinstance(one, CpuSet):
        return False
    text, within = sorted((", ".join(one), ", ".join(other)), key=len)
    return text.partition("@")[0] in within


def _words(value: Any) -> str:
    return few(value) if isinstance(value, CpuSet) else brief(", ".join(value))


def _name_columns(parts: _Combined, facts: Facts, topology: Topology | None) -> None:
    """Assign counts without a header to the CPUs that are online, if there are as many."""
    online = list(topology.online) if topology is not None else []
    if len(online) != facts.column_count:
        parts.note(
            f"{facts.source}: counts for {facts.column_count} CPUs whose numbers no header tells "
            "are left out"
        )
        return
    parts.note(f"{facts.source}: its counts are taken as those of the CPUs online")
    for irq, counts in facts.columns.items():
        told = facts.interrupts[irq]
        facts.interrupts[irq] = replace(told, counts={online[at]: n for at, n in counts.items()})
