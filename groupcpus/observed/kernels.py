# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel's release, command line and machine imply for a recording."""

import re

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.errors import CpuListError, RequestError, brief

__all__ = ["irqchip_of_qemu", "is_before", "isolated_cpus", "revision_of_release"]


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
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", release)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
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


def irqchip_of_qemu(arch: str, release: str, qemu: str) -> str | None:
    """Return the irqchip, a name in `IRQCHIPS`, that a machine in QEMU has.

    Parameters
    ----------
    arch : {"x86_64", "arm64"}
        The architecture; for arm64 the machine's arguments decide.
    release : str
        The kernel's release: before 5.8 the translation service took the first CPU of a mask.
    qemu : str
        QEMU's arguments.

    Returns
    -------
    str or None
        None if they do not tell it.

    Examples
    --------
    >>> irqchip_of_qemu("arm64", "7.3.4", "qemu-system-aarch64 -machine virt,gic-version=2")
    'gicv2m'
    >>> irqchip_of_qemu("arm64", "7.3.4", "qemu-system-aarch64 -machine virt,gic-version=3")
    'its'
    """
    if arch == "x86_64":
        return "x86"
    version = re.search(r"\bgic-version=([0-9])\b", qemu)
    if not version:
        return None
    if version[1] == "2":
        return "gicv2m"
    if re.search(r"\bits=off\b", qemu):
        return "gicv3"
    return "its-first" if is_before(release, (5, 8)) else "its"


def is_before(release: str, version: tuple[int, int]) -> bool:
    """Return whether a kernel's release is known to be before a version.

    Examples
    --------
    >>> is_before("5.4.0-rc1", (5, 8)), is_before("6.12.117", (5, 8)), is_before("mine", (5, 8))
    (True, False, False)
    """
    found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", release)
    return found is not None and (int(found[1]), int(found[2])) < version
