# SPDX-License-Identifier: GPL-2.0-only
"""What a comparison says of a device and of each of its vectors."""

from dataclasses import dataclass

from groupcpus.engine.cpuset import CpuSet
from groupcpus.observed.explaining import Explanation
from groupcpus.sources.found import FoundDevice

__all__ = ["VERDICTS", "Judged", "JudgedRow"]

VERDICTS = {
    "follows": "its masks are those of group_cpus_evenly()",
    "not managed": "its interrupts have the default affinity, or one node's CPUs",
    "moved": "irqbalance, a user or the driver has set other affinities",
    "other function": "another function of the kernel has spread its interrupts",
    "older kernel": "a kernel before 6.3 has spread them in its own way",
    "differs": "the kernel has spread them, and no revision known here gives these masks",
    "cannot be judged": "the sources leave out what decides about its masks",
    "not known": "no source has the affinities",
}


@dataclass(frozen=True)
class JudgedRow:
    """A vector of a device.

    Attributes
    ----------
    device : str
        Whose.
    queue : int or None
        The queue's number, as its name has it; None for other vectors.
    name : str
        The interrupt's name.
    irq : int or None
        Its number; None where a queue map alone shows the queue.
    kind : str
        ``default``, ``read`` or ``other`` (no queue's).
    affinity : CpuSet or None
        As found; None: not known.
    predicted : CpuSet or None
        What `group_cpus_evenly` gives; None where there is nothing to predict.
    effective : CpuSet or None
        As found, or by counts.
    managed : bool
        Whether it is taken to be managed: the kernel owns its affinity.
    shutdown : bool
        Whether the kernel says that it is shut down (to root).
    why : str
        What there is to say of the mask; empty where it is as predicted.
    effective_why : str
        What there is to say of the effective CPU.
    odd : bool
        Whether the effective CPU contradicts what is known of the kernel.
    counted : CpuSet or None
        CPUs that have handled it since boot; None: not known.
    by_counts : bool
        Whether the effective CPU is the only one that has ever handled it, so probably the one.
    """

    device: str
    queue: int | None
    name: str
    irq: int | None
    kind: str
    affinity: CpuSet | None
    predicted: CpuSet | None
    effective: CpuSet | None
    managed: bool
    shutdown: bool = False
    why: str = ""
    effective_why: str = ""
    odd: bool = False
    counted: CpuSet | None = None
    by_counts: bool = False

    @property
    def mask(self) -> CpuSet | None:
        """The affinity; where counts alone are known and fit, what is predicted."""
        if self.affinity is None and self.by_counts and self.match:
            return self.predicted
        return self.affinity

    @property
    def match(self) -> bool | None:
        """Whether what is known of the mask is as predicted; None: there is nothing to compare."""
        if self.predicted is None:
            return None
        if self.affinity is None:
            return self.counted <= self.predicted if self.counted else None
        return self.predicted == self.affinity


@dataclass(frozen=True)
class Judged:
    """A device and what was found out about it.

    Attributes
    ----------
    found : FoundDevice
        The device.
    verdict : str
        A key of `VERDICTS`.
    why : str
        The evidence, in a sentence or two.
    revisions : tuple of str
        The revisions that explain all its masks.
    explanations : tuple of Explanation
        One a revision.
    numgrps : tuple of int
        The groups that its calls asked for, those with interrupts.
    rows : tuple of JudgedRow
        Vector by vector.
    """

    found: FoundDevice
    verdict: str
    why: str
    revisions: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    numgrps: tuple[int, ...]
    rows: tuple[JudgedRow, ...]

    @property
    def calls_grouping(self) -> bool:
        """Whether its masks come of `group_cpus_evenly`, or of what stood there before it."""
        return self.verdict in ("follows", "differs", "older kernel", "cannot be judged")
