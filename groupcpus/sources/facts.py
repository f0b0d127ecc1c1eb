# SPDX-License-Identifier: GPL-2.0-only
"""What one source says of a machine, and the small readers that every format shares.

A parser fills a `Facts` with what its text says and nothing else; `combine` puts the facts of
several sources together and fills what none of them says, with a note for each such step.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from groupcpus.engine.cpuset import MAX_CPUS, CpuSet
from groupcpus.engine.topology import MAX_NODES
from groupcpus.errors import CpuListError, FormatError, brief
from groupcpus.machines.machine import Machine
from groupcpus.sources import limits

__all__ = ["Facts", "ShownInterrupt"]


Line = tuple[int, str]
"""The number of a line, and its text."""

X86 = frozenset({"x86_64", "i386", "i486", "i586", "i686", "x86"})


@dataclass(frozen=True)
class ShownInterrupt:
    """One line of /proc/interrupts and what /proc/irq says of it; None is "not told"."""

    irq: int
    chip: str = ""
    hwirq: int | None = None
    actions: tuple[str, ...] = ()
    affinity: CpuSet | None = None
    effective: CpuSet | None = None
    node: int | None = None
    managed: bool | None = None
    shutdown: bool | None = None
    counts: Mapping[int, int] | None = None
    """How often each CPU has handled it; CPUs that never did are left out."""


@dataclass
class Facts:
    """What one source says; None and empty containers are "not told"."""

    source: str
    possible: CpuSet | None = None
    present: CpuSet | None = None
    online: CpuSet | None = None
    isolated: CpuSet | None = None
    nodes: dict[int, CpuSet] | None = None
    """The CPUs of each node that exists, as listed."""
    node_ids: frozenset[int] = frozenset()
    """The possible nodes; some may not exist now."""
    cpu_node: dict[int, int] = field(default_factory=dict)
    """Nodes of single CPUs, for those that no node lists."""
    distances: dict[int, dict[int, int]] = field(default_factory=dict)
    siblings: list[CpuSet] | None = None
    clusters: list[CpuSet] | None = None
    """What the kernel itself calls clusters."""
    l2: list[CpuSet] | None = None
    """CPUs that share an L2: what x86 kernels take as clusters."""
    no_cluster: CpuSet | None = None
    llcs: list[CpuSet] | None = None
    """CPUs that share a last-level cache."""
    threads: int | None = None
    """Threads per core, where the source does not say which CPUs these are."""
    untold: CpuSet | None = None
    """CPUs that have no topology files, so neither siblings nor a cluster."""
    arch: str | None = None
    kernel: str | None = None
    cmdline: tuple[str, ...] = ()
    nvme: dict[str, str] = field(default_factory=dict)
    interrupts: dict[int, ShownInterrupt] = field(default_factory=dict)
    columns: dict[int, dict[int, int]] = field(default_factory=dict)
    """Counts of interrupts by the place of their column, where no header names its CPU."""
    column_count: int = 0
    queue_maps: dict[str, dict[int, CpuSet]] = field(default_factory=dict)
    queue_kinds: dict[str, dict[int, str]] = field(default_factory=dict)
    mapped_queues: int = 0
    nvme_queues: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Default, read and poll queues of NVMe drives, as their driver logs them."""
    devices: tuple[dict[str, Any], ...] = ()
    disk_slots: dict[str, str | None] = field(default_factory=dict)
    """The slot on the bus that each disk lies behind."""
    irqbalance: bool | None = None
    machine: Machine | None = None
    """The whole machine, where the source is a machine file or a recording."""
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Why masks that no revision gives may be no contradiction: what is missing."""

    def tells_cpus(self) -> bool:
        """Return whether the source names the CPUs of the machine."""
        cpus = (self.possible, self.present, self.online)
        return any(one is not None for one in cpus) or bool(self.listed())

    def has_counts(self) -> bool:
        """Return whether the source says how often interrupts came."""
        return bool(self.columns) or any(told.counts for told in self.interrupts.values())

    def listed(self) -> CpuSet:
        """Return the CPUs that nodes list."""
        listed = CpuSet()
        for cpus in (self.nodes or {}).values():
            listed |= cpus
        return listed


def numbered(text: str) -> Iterator[Line]:
    """Yield the lines of a file of the kernel with their numbers."""
    return enumerate(text.split("\n"), start=1)


def read_cpulist(where: str, text: str) -> CpuSet:
    r"""Read a cpulist as files have it: with blanks after commas, or padded with NULs by tar.

    Examples
    --------
    >>> read_cpulist("mq/0/cpu_list", "0, 20\n")
    CpuSet('0,20')
    """
    try:
        return CpuSet(text.strip("\0 \t\r\n").replace(", ", ","))
    except CpuListError as error:
        raise FormatError(where, str(error)) from None


_MASK = re.compile(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{8}){0,1023}|[0-9a-fA-F]{9,4096}", re.ASCII)


def read_mask(where: str, text: str) -> CpuSet:
    r"""Read a cpumask in hexadecimal, in words of 32 bits as the kernel prints it.

    Examples
    --------
    >>> read_mask("smp_affinity", "00,00100001\n")
    CpuSet('0,20')
    """
    text = text.strip("\0 \t\r\n").removeprefix("0x")
    if not _MASK.fullmatch(text):
        raise FormatError(where, f"{brief(text)} is no cpumask such as 00,00100001")
    mask = int(text.replace(",", ""), 16)
    if mask.bit_length() > MAX_CPUS:
        raise FormatError(where, f"{brief(text)} names CPUs above the highest, {MAX_CPUS - 1}")
    return CpuSet.from_mask(mask)


_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def read_number(where: str, text: str, most: int) -> int:
    """Read a whole number from 0 to `most`."""
    text = text.strip("\0 \t\r\n")
    if not _NUMBER.fullmatch(text) or int(text) > most:
        raise FormatError(where, f"{brief(text)} is no whole number from 0 to {most}")
    return int(text)


def read_cpu(where: str, text: str) -> int:
    """Read the number of a CPU."""
    return read_number(where, text, MAX_CPUS - 1)


def read_node(where: str, text: str) -> int:
    """Read the id of a NUMA node."""
    return read_number(where, text, MAX_NODES - 1)


def read_distances(where: str, words: list[str]) -> list[int]:
    """Read a row of NUMA distances."""
    if len(words) > limits.DISTANCES:
        raise FormatError(where, f"{len(words)} distances: at most {limits.DISTANCES} are read")
    return [read_number(where, word, 255) for word in words]


def distinct_sets(where: str, by_cpu: dict[int, CpuSet]) -> list[CpuSet]:
    """Make the sets that CPUs are in (cores, clusters) out of what each CPU says of its own.

    Raises
    ------
    FormatError
        If a CPU is not in its own set, or two sets overlap without being the same.
    """
    owner: dict[int, CpuSet] = {}
    found: dict[CpuSet, None] = {}
    for cpu, cpus in sorted(by_cpu.items(), key=lambda pair: pair[0]):
        if cpu not in cpus:
            raise FormatError(
                f"{where} of CPU {cpu}", f"'{few(cpus)}' does not name CPU {cpu} itself"
            )
        if cpus in found:
            continue
        found[cpus] = None
        for member in cpus:
            if member in owner:
                raise FormatError(
                    f"{where} of CPU {cpu}",
                    f"CPU {member} is in {brief(str(cpus))} here, "
                    f"in {brief(str(owner[member]))} elsewhere",
                )
            owner[member] = cpus
    return sorted(found, key=lambda cpus: cpus.mask & -cpus.mask)


def grouped(keys: dict[int, object]) -> list[CpuSet]:
    """Put CPUs with the same key together; a key of None says that the CPU is in no group."""
    members: dict[object, list[int]] = {}
    for cpu, key in keys.items():
        if key is not None:
            members.setdefault(key, []).append(cpu)
    return sorted(map(CpuSet, members.values()), key=lambda cpus: cpus.mask & -cpus.mask)


def few(cpus: CpuSet) -> str:
    """Return a cpulist as a sentence shows it: its beginning, if it is long.

    Examples
    --------
    >>> few(CpuSet("0-3,8")), few(CpuSet("0-99:2"))[-8:]
    ('0-3,8', '38,40...')
    """
    return brief(str(cpus))[1:-1]
