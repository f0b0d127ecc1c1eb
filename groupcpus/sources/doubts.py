# SPDX-License-Identifier: GPL-2.0-only
"""What sources leave open, so that masks that no revision gives may be no contradiction."""

from collections.abc import Iterable, Iterator, Mapping

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError
from groupcpus.sources.facts import Facts, ShownInterrupt, few

__all__ = ["doubts_about"]


def doubts_about(
    sources: Iterable[Facts],
    topology: Topology,
    origins: Mapping[str, str],
    interrupts: Iterable[ShownInterrupt],
) -> Iterator[str]:
    """Yield a sentence for each reason to doubt that the machine is whole.

    Parameters
    ----------
    sources : iterable of Facts
        What was read.
    topology : Topology
        The machine as it is taken to be.
    origins : mapping of str to str
        Which source each part is from.
    interrupts : iterable of ShownInterrupt
        What is known of them.

    Raises
    ------
    FormatError
        If a source has CPUs online that the list of CPUs lacks, or /proc/interrupts has no columns
        for CPUs that are online.
    """
    sources = list(sources)
    _missing_columns(sources, topology.online, origins)
    for facts in sources:
        yield from facts.doubts
    if "possible" not in origins:
        yield from _missing_cpus(sources, topology.possible, origins, interrupts)
    for told in interrupts:
        if not told.affinity or not told.counts:
            continue
        counted = CpuSet(told.counts)
        if counted.isdisjoint(told.affinity):
            yield (
                f"interrupt {told.irq} has affinity {few(told.affinity)}, but all its counts are "
                f"of CPUs {few(counted)}: it was moved, or the line is cut off"
            )
            return


def _missing_columns(sources: Iterable[Facts], online: CpuSet, origins: Mapping[str, str]) -> None:
    """Refuse /proc/interrupts of other CPUs: it has a column for each that is online."""
    for facts in sources:
        columns = facts.online if facts.source.startswith("interrupts (") else None
        if columns and (lost := online - columns):
            raise FormatError(
                facts.source,
                f"columns of CPUs {few(columns)}, but {few(lost)} are online by "
                f"{origins.get('online')}: columns are cut off, or it is another machine's",
            )


def _missing_cpus(
    sources: Iterable[Facts],
    cpus: CpuSet,
    origins: Mapping[str, str],
    interrupts: Iterable[ShownInterrupt],
) -> Iterator[str]:
    """Find CPUs that something names, but no list of the CPUs."""
    if holes := CpuSet(range(max(cpus, default=0))) - cpus:
        yield (
            f"CPU numbers {few(holes)} are missing between those that are listed: offline or "
            "absent CPUs, or lines that were lost"
        )
    for facts in sources:
        if lost := (facts.online or CpuSet()) - cpus:
            # A contradiction: CPUs that are online are in every list.
            raise FormatError(
                facts.source,
                f"CPUs {few(lost)} are online, but not listed by {origins.get('online')}: "
                "lines are missing there",
            )
    named = CpuSet()
    for told in interrupts:
        named |= (told.affinity or CpuSet()) | (told.effective or CpuSet())
    if lost := named - cpus - holes:
        yield (
            f"affinities name CPUs {few(lost)}, which no source lists: possible CPUs that are "
            "absent decide about masks too"
        )
