# SPDX-License-Identifier: GPL-2.0-only
"""Irqchips: the code that picks one CPU of an interrupt's mask, its *effective* CPU.

A managed interrupt keeps the mask that `group_cpus_evenly` gave it; if none of the mask's CPUs is
online it stays shut down, and its effective CPU is None.  An interrupt that is not managed falls
back to any online CPU.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from groupcpus.cpuset import CpuSet, cpulist, cpus_of
from groupcpus.errors import RequestError, VectorSpaceError
from groupcpus.topology import Topology

__all__ = [
    "IRQCHIPS",
    "VECTORS_PER_CPU",
    "FirstCpu",
    "InterruptTranslationService",
    "Irqchip",
    "VectorMatrix",
    "make_irqchip",
]

# Of 256 vectors, exceptions and system vectors leave about this many to devices.
VECTORS_PER_CPU = 200


class Irqchip(Protocol):
    """What all irqchips do."""

    def assign(
        self, masks: Iterable[CpuSet], managed: bool | Sequence[bool] = True
    ) -> list[int | None]:
        """Pick the effective CPUs of one device's vectors.

        Parameters
        ----------
        masks : iterable of CpuSet
            The affinity masks of all the device's vectors, in the order they are requested.
        managed : bool or sequence of bool
            Whether the vectors are managed: all alike, or one by one.

        Returns
        -------
        list of int or None
            The effective CPU of each vector; None if it is shut down.

        Raises
        ------
        VectorSpaceError
            If a CPU has no vector left; nothing was assigned then.
        """


class _Base:
    """What the irqchips share: the CPUs a vector may go to."""

    def __init__(self, topology: Topology, isolated: CpuSet | None = None) -> None:
        self.online = topology.online.mask
        self.isolated = 0 if isolated is None else isolated.mask

    def candidates(self, mask: int, managed: bool) -> int:
        """Narrow a mask to the online CPUs that may be picked; 0 means: shut down.

        ``isolcpus=managed_irq`` takes CPUs out of the choice unless nothing would be left
        (``irq_do_set_affinity()``, kernel/irq/manage.c, Linux 6.12).
        """
        reachable = mask & self.online
        if managed:
            return reachable & ~self.isolated or reachable
        return reachable or self.online


class VectorMatrix(_Base):
    """x86: the CPU with the fewest managed vectors, the *last* one on a tie.

    A managed interrupt also reserves a vector on every CPU of its mask when the device allocates
    its vectors.  An interrupt that is not managed takes the CPU with most vectors available, the
    *first* one on a tie.

    Parameters
    ----------
    topology : Topology
        The machine; only its online CPUs are picked.
    isolated : CpuSet, optional
        CPUs that ``isolcpus=managed_irq`` names.
    vectors_per_cpu : int
        Vectors that a CPU has for devices.

    Notes
    -----
    Source: ``matrix_find_best_cpu_managed()`` and ``matrix_find_best_cpu()`` in
    kernel/irq/matrix.c, Linux 6.12.

    Examples
    --------
    >>> chip = VectorMatrix(Topology.uniform(nodes=1, cpus_per_node=4))
    >>> chip.assign([CpuSet("0-1"), CpuSet("2-3"), CpuSet("0-1"), CpuSet("0-3")])
    [1, 3, 0, 2]
    """

    def __init__(
        self,
        topology: Topology,
        isolated: CpuSet | None = None,
        vectors_per_cpu: int = VECTORS_PER_CPU,
    ) -> None:
        super().__init__(topology, isolated)
        self.vectors_per_cpu = vectors_per_cpu
        count = topology.possible.mask.bit_length()
        self.available = [vectors_per_cpu] * count
        self.managed_allocated = [0] * count

    def assign(
        self, masks: Iterable[CpuSet], managed: bool | Sequence[bool] = True
    ) -> list[int | None]:
        """Pick the effective CPUs of one device's vectors; see `Irqchip.assign`."""
        before = self.available[:], self.managed_allocated[:]
        vectors = _vectors(masks, managed)
        try:
            for queue, (mask, is_managed) in enumerate(vectors):
                if is_managed:
                    self._reserve(queue, mask)
            return [self._activate(queue, *vector) for queue, vector in enumerate(vectors)]
        except VectorSpaceError:
            self.available, self.managed_allocated = before
            raise

    def _reserve(self, queue: int, mask: int) -> None:
        """Set a vector aside on every CPU of a mask: ``irq_matrix_reserve_managed()``."""
        for cpu in cpus_of(mask):
            if self.available[cpu] < 1:
                raise VectorSpaceError(self._no_space(queue, mask, f"CPU {cpu}"))
            self.available[cpu] -= 1

    def _activate(self, queue: int, mask: int, managed: bool) -> int | None:
        candidates = cpus_of(self.candidates(mask, managed))
        if managed:
            if not candidates:
                return None
            # min() takes the first of equals; the kernel's "> allocated" keeps the last.
            cpu = min(reversed(candidates), key=self.managed_allocated.__getitem__)
            self.managed_allocated[cpu] += 1
            return cpu
        cpu = max(candidates, key=self.available.__getitem__)
        if self.available[cpu] < 1:
            raise VectorSpaceError(self._no_space(queue, mask, "every CPU"))
        self.available[cpu] -= 1
        return cpu

    def _no_space(self, queue: int, mask: int, where: str) -> str:
        return (
            f"vector {queue} with mask {cpulist(mask)}: all {self.vectors_per_cpu} interrupt "
            f"vectors of {where} are taken (-ENOSPC)"
        )


class FirstCpu(_Base):
    """arm64 GICv3 without its translation service: the first online CPU of the mask.

    The translation service before Linux 5.8 did the same.

    Notes
    -----
    Source: ``gic_set_affinity()`` in drivers/irqchip/irq-gic-v3.c, Linux 6.12.

    Examples
    --------
    >>> FirstCpu(Topology.uniform(nodes=1, cpus_per_node=4)).assign([CpuSet("1-3")] * 3)
    [1, 1, 1]
    """

    def assign(
        self, masks: Iterable[CpuSet], managed: bool | Sequence[bool] = True
    ) -> list[int | None]:
        """Pick the effective CPUs of one device's vectors; see `Irqchip.assign`."""
        picked = (self.candidates(*vector) for vector in _vectors(masks, managed))
        return [(mask & -mask).bit_length() - 1 if mask else None for mask in picked]


class InterruptTranslationService(_Base):
    """arm64 GICv3 ITS from Linux 5.8 on: the least loaded CPU, the *first* one on a tie.

    When a device allocates its vectors, each one is charged to the least loaded of *all* online
    CPUs.  When its interrupt is requested, it drops that charge and takes the least loaded CPU of
    its mask.  Managed interrupts and others are counted apart.

    Notes
    -----
    Source: ``its_select_cpu()``, ``its_irq_domain_activate()`` and ``its_set_affinity()`` in
    drivers/irqchip/irq-gic-v3-its.c, Linux 6.12.

    Examples
    --------
    >>> chip = InterruptTranslationService(Topology.uniform(nodes=1, cpus_per_node=4))
    >>> chip.assign([CpuSet("0-1"), CpuSet("2-3")]), chip.assign([CpuSet("0-1"), CpuSet("2-3")])
    ([0, 2], [1, 3])
    """

    def __init__(self, topology: Topology, isolated: CpuSet | None = None) -> None:
        super().__init__(topology, isolated)
        count = topology.possible.mask.bit_length()
        self.charges = {True: [0] * count, False: [0] * count}

    def assign(
        self, masks: Iterable[CpuSet], managed: bool | Sequence[bool] = True
    ) -> list[int | None]:
        """Pick the effective CPUs of one device's vectors; see `Irqchip.assign`."""
        vectors = _vectors(masks, managed)
        charged = [self._charge(self.online, is_managed) for _, is_managed in vectors]
        return [
            self._move(cpu, self.candidates(*vector), vector[1])
            for cpu, vector in zip(charged, vectors, strict=True)
        ]

    def _charge(self, candidates: int, managed: bool) -> int:
        counts = self.charges[managed]
        cpu = min(cpus_of(candidates), key=counts.__getitem__)
        counts[cpu] += 1
        return cpu

    def _move(self, charged: int, candidates: int, managed: bool) -> int | None:
        if not candidates:
            return None  # never started, so the charge of the allocation stays
        self.charges[managed][charged] -= 1
        return self._charge(candidates, managed)


IRQCHIPS: dict[str, Callable[..., Irqchip]] = {
    "x86": VectorMatrix,
    "gicv3": FirstCpu,
    "its": InterruptTranslationService,
    "its-first": FirstCpu,
}


def make_irqchip(name: str, topology: Topology, isolated: CpuSet | None = None) -> Irqchip:
    """Make an irqchip by its name in `IRQCHIPS`.

    Raises
    ------
    RequestError
        If there is no irqchip of that name.
    """
    if name not in IRQCHIPS:
        raise RequestError(f"irqchip {name!r}: expected one of {', '.join(IRQCHIPS)}")
    return IRQCHIPS[name](topology, isolated)


def _vectors(masks: Iterable[CpuSet], managed: bool | Sequence[bool]) -> list[tuple[int, bool]]:
    """Pair every mask with whether it is managed."""
    bits = [mask.mask for mask in masks]
    flags = [managed] * len(bits) if isinstance(managed, bool) else list(managed)
    if len(flags) != len(bits):
        raise RequestError(f"managed: {len(flags)} flags for {len(bits)} masks")
    return list(zip(bits, flags, strict=True))
