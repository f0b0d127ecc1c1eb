# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel's release and command line imply for a recording."""

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.errors import CpuListError, RequestError, brief
from groupcpus.sources.found import release_version

__all__ = ["isolated_cpus", "revision_of_release"]


def revision_of_release(release: str) -> Revision:
    """Return which version of `group_cpus_evenly` a kernel release has.

    Before 6.3 the function stood in kernel/irq/affinity.c as ``irq_build_affinity_masks()`` and
    spread CPUs in the same way, with the sort of that time.

    Raises
    ------
    RequestError
        If the release is older than 5.4, which allotted vectors to nodes in another way, or is no
        release at all.

    Examples
    --------
    >>> [revision_of_release(release).name for release in ("6.1.0-57-amd64", "6.12.117", "7.3.4")]
    ['numa-single-pop', 'numa', 'cluster']
    """
    version = release_version(release) or (0, 0)
    if version < (5, 4):
        raise RequestError(f"kernel {brief(release)}: expected a release from 5.4 on")
    if version >= (7, 0):
        return REVISIONS["cluster"]
    return REVISIONS["numa" if version >= (6, 9) else "numa-single-pop"]


def isolated_cpus(cmdline: str, possible: CpuSet) -> tuple[CpuSet, CpuSet]:
    """Return which CPUs a kernel command line isolates.

    Parameters
    ----------
    cmdline : str
        The kernel's command line.
    possible : CpuSet
        The machine's possible CPUs.

    Returns
    -------
    tuple of two CpuSet
        CPUs that managed interrupts avoid (``isolcpus=managed_irq,...``), and those that are left
        out of queue maps (isolated from scheduling domains or from the tick).

    Notes
    -----
    Source: ``housekeeping_isolcpus_setup()`` in kernel/sched/isolation.c, and ``cpu_is_isolated()``
    as ``blk_mq_map_swqueue()`` uses it, Linux 6.12.  Queue maps leave isolated CPUs out from 6.10
    on (commit a46c27026da1, "blk-mq: don't schedule block kworker on isolated CPUs") and in later
    stable releases of 6.1; before, they kept them.

    Examples
    --------
    >>> isolated_cpus("quiet isolcpus=managed_irq,domain,2-3", CpuSet("0-7"))
    (CpuSet('2-3'), CpuSet('2-3'))
    >>> isolated_cpus("isolcpus=managed_irq,2-3 nohz_full=6", CpuSet("0-7"))
    (CpuSet('2-3'), CpuSet('6'))
    """
    irqs = maps = CpuSet()
    for word in cmdline.split():
        key, _, value = word.partition("=")
        flags, cpus = [], value
        while (head := cpus.partition(","))[0] in ("managed_irq", "domain", "nohz"):
            flags.append(head[0])
            cpus = head[2]
        if key not in ("isolcpus", "nohz_full") or not cpus:
            continue
        try:
            named = CpuSet(cpus) & possible
        except CpuListError:
            continue  # the kernel ignores it too, with a warning
        if key == "nohz_full" or not flags or {"domain", "nohz"} & set(flags):
            maps |= named
        if key == "isolcpus" and "managed_irq" in flags:
            irqs |= named
    return irqs, maps
