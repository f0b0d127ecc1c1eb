# SPDX-License-Identifier: GPL-2.0-only
"""Irqchips: the code that picks one CPU of an interrupt's mask, its *effective* CPU.

A managed interrupt keeps the mask that `group_cpus_evenly` gave it; if none of the mask's CPUs is
online it is shut down, and its effective CPU is None.  An interrupt that is not managed falls back
to any online CPU.

An irqchip is a state machine that serves a boot and the life after it:

* a device allocates all its vectors (`Irqchip.allocate`), then requests them one by one
  (`Irqchip.request`); `Irqchip.assign` does both.  The steps of several devices may interleave;
* a CPU goes offline (`Irqchip.cpu_down`): each interrupt that it handled is requested again, with
  `Vector.charged` saying where it was;
* a CPU comes online (`Irqchip.cpu_up`): interrupts that were shut down are requested again;
* a device that is reset or unbound frees its vectors (`Irqchip.free`).

Which interrupts each of these events concerns is the business of `groupcpus.machines.life`.

This module has over 450 lines since the irqchips are variations of one class, to be read side by
side.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple, Protocol, Self

from groupcpus.engine.cpuset import CpuSet, cpulist, cpus_of
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, VectorSpaceError, brief

__all__ = [
    "IRQCHIPS",
    "VECTORS_PER_CPU",
    "FirstCpu",
    "InterruptTranslationService",
    "Irqchip",
    "Vector",
    "VectorMatrix",
    "make_irqchip",
]

# Of 256 vectors, exceptions and system vectors leave about this many to devices.
VECTORS_PER_CPU = 200


class Vector(NamedTuple):
    """A vector that a device has allocated."""

    queue: int
    """Its number within its device's allocation."""
    mask: int
    """Its affinity mask, bit n for CPU n."""
    managed: bool
    charged: int | None = None
    """The CPU in whose counts it is: the one that handles it, or holds its place until then."""


@lru_cache(maxsize=1 << 14)
def _members(mask: int) -> tuple[int, ...]:
    """Return the CPUs of a mask; the same masks are asked for over and over."""
    return tuple(cpus_of(mask))


class Irqchip(Protocol):
    """What all irqchips do."""

    charges_when_allocated: bool
    """Whether an allocation alone changes where later managed interrupts go."""
    online: int
    """The CPUs that are online, bit n for CPU n."""

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

    def allocate(
        self,
        masks: Iterable[CpuSet],
        managed: bool | Sequence[bool] = True,
        *,
        seen: Self | None = None,
    ) -> list[Vector]:
        """Allocate vectors, the first step of `assign`, which has the same parameters.

        An irqchip that charges when it allocates may choose without a lock: `seen` is then a
        `fork` in the state that the choice is made on, this one's when left out.
        """

    def request(self, vector: Vector) -> int | None:
        """Pick the effective CPU of an allocated vector, the second step; None: shut down.

        What `Vector.charged` says is given up for it, so the same step moves an interrupt whose
        CPU went offline.
        """

    def adopt(self, vectors: Iterable[Vector]) -> None:
        """Count vectors that were placed before, each on the CPU that `Vector.charged` names."""

    def free(self, vectors: Iterable[Vector]) -> None:
        """Give vectors back; `Vector.charged` says which CPU handled each of them."""

    def cpu_down(self, cpu: int) -> None:
        """Take an online CPU out of all later choices."""

    def cpu_up(self, cpu: int) -> None:
        """Put an offline CPU into all later choices."""

    def shown_when_shut_down(self, last: int | None) -> int | None:
        """Return the CPU that /proc shows for a managed interrupt that is shut down.

        Parameters
        ----------
        last : int or None
            The CPU that handled it before; None: none did since it was allocated.
        """

    def fork(self) -> Self:
        """Return a copy in the same state that goes its own way from here."""


class _Base:
    """What the irqchips share: the CPUs a vector may go to, and the two steps."""

    charges_when_allocated = False

    def __init__(self, topology: Topology, isolated: CpuSet | None = None) -> None:
        if not isinstance(topology, Topology):
            raise RequestError(f"topology {brief(topology)}: expected a Topology")
        if isolated is not None and not isinstance(isolated, CpuSet):
            raise RequestError(f"isolated {brief(isolated)}: expected a CpuSet")
        self.possible = topology.possible
        self.present = topology.present.mask
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

    def assign(
        self, masks: Iterable[CpuSet], managed: bool | Sequence[bool] = True
    ) -> list[int | None]:
        """Pick the effective CPUs of one device's vectors; see `Irqchip.assign`."""
        return [self.request(vector) for vector in self.allocate(masks, managed)]

    def allocate(
        self,
        masks: Iterable[CpuSet],
        managed: bool | Sequence[bool] = True,
        *,
        seen: Self | None = None,
    ) -> list[Vector]:
        """Allocate vectors; see `Irqchip.allocate`."""
        sets = list(masks)
        for at, mask in enumerate(sets):
            if not isinstance(mask, CpuSet) or not mask <= self.possible:
                raise RequestError(
                    f"masks[{at}] {brief(mask)}: expected a CpuSet within {self.possible}"
                )
        flags = [managed] * len(sets) if isinstance(managed, bool) else list(managed)
        if len(flags) != len(sets) or not all(isinstance(flag, bool) for flag in flags):
            raise RequestError(
                f"managed {brief(flags)}: expected a bool, or one for each of {len(sets)} masks"
            )
        return list(map(Vector, range(len(sets)), [mask.mask for mask in sets], flags))

    def request(self, vector: Vector) -> int | None:
        """Pick the effective CPU of an allocated vector; see `Irqchip.request`."""
        raise NotImplementedError

    def adopt(self, vectors: Iterable[Vector]) -> None:
        """Count vectors that were placed before; see `Irqchip.adopt`."""

    def free(self, vectors: Iterable[Vector]) -> None:
        """Give vectors back; see `Irqchip.free`."""

    def cpu_down(self, cpu: int) -> None:
        """Take an online CPU out of all later choices."""
        if not self.online >> self._present(cpu) & 1:
            raise RequestError(f"CPU {cpu} is offline already")
        self.online &= ~(1 << cpu)

    def cpu_up(self, cpu: int) -> None:
        """Put an offline CPU into all later choices."""
        if self.online >> self._present(cpu) & 1:
            raise RequestError(f"CPU {cpu} is online already")
        self.online |= 1 << cpu

    def _present(self, cpu: int) -> int:
        if isinstance(cpu, bool) or not isinstance(cpu, int) or cpu < 0:
            raise RequestError(f"CPU {brief(cpu)}: expected a CPU number")
        if not self.present >> cpu & 1:
            raise RequestError(f"CPU {brief(cpu)} is not present ({cpulist(self.present)} are)")
        return cpu

    def shown_when_shut_down(self, last: int | None) -> int | None:
        """Return what /proc shows; see `Irqchip.shown_when_shut_down`."""
        return last

    def fork(self) -> Self:
        """Return a copy in the same state; see `Irqchip.fork`."""
        return copy(self)


class VectorMatrix(_Base):
    """x86: the CPU with the fewest managed vectors, the *last* one on a tie.

    A managed interrupt also reserves a vector on every CPU of its mask when the device allocates
    its vectors.  An interrupt that is not managed takes the CPU with most vectors available, the
    *first* one on a tie.

    Parameters
    ----------
    topology : Topology
        The machine; only its online CPUs are picked, the others were never online so far.
    isolated : CpuSet, optional
        CPUs that ``isolcpus=managed_irq`` names.
    vectors_per_cpu : int
        Vectors that a CPU has for devices.

    Notes
    -----
    Source: ``matrix_find_best_cpu_managed()`` and ``matrix_find_best_cpu()`` in
    kernel/irq/matrix.c, Linux 6.12.  When an interrupt moves, its new vector is allocated before
    the old one is given up (``chip_data_update()``, arch/x86/kernel/apic/vector.c).

    A vector that is reserved while its CPU is offline does not count as taken there, but as
    returned if it is freed while the CPU is online (``irq_matrix_reserve_managed()`` and
    ``irq_matrix_remove_managed()``): such a CPU seems to have one more available for good.

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
        if not isinstance(vectors_per_cpu, int) or vectors_per_cpu < 0:
            raise RequestError(f"vectors_per_cpu {brief(vectors_per_cpu)}: expected 0 or more")
        self.vectors_per_cpu = vectors_per_cpu
        count = topology.possible.mask.bit_length()
        self.available = [vectors_per_cpu] * count
        self.managed_allocated = [0] * count
        # Reserved or allocated: what is truly no longer free, unlike `available`.
        self.taken = [0] * count
        self.initialized = self.online

    def assign(
        self, masks: Iterable[CpuSet], managed: bool | Sequence[bool] = True
    ) -> list[int | None]:
        """Pick the effective CPUs of one device's vectors; see `Irqchip.assign`."""
        before = self._counts()
        try:
            return super().assign(masks, managed)
        except VectorSpaceError:
            self.available, self.managed_allocated, self.taken = before
            raise

    def allocate(
        self,
        masks: Iterable[CpuSet],
        managed: bool | Sequence[bool] = True,
        *,
        seen: Self | None = None,
    ) -> list[Vector]:
        """Allocate vectors, and reserve the managed ones; see `Irqchip.allocate`."""
        vectors = super().allocate(masks, managed)
        before = self._counts()
        try:
            for vector in vectors:
                if vector.managed:
                    self._reserve(vector)
        except VectorSpaceError:
            self.available, self.managed_allocated, self.taken = before
            raise
        return vectors

    def _counts(self) -> tuple[list[int], list[int], list[int]]:
        return self.available[:], self.managed_allocated[:], self.taken[:]

    def _reserve(self, vector: Vector) -> None:
        """Set a vector aside on every CPU of a mask: ``irq_matrix_reserve_managed()``."""
        for cpu in _members(vector.mask):
            if self.taken[cpu] >= self.vectors_per_cpu:
                raise VectorSpaceError(self._no_space(vector, f"CPU {cpu}"))
            self.taken[cpu] += 1
            self.available[cpu] -= self.online >> cpu & 1

    def request(self, vector: Vector) -> int | None:
        """Pick the effective CPU of an allocated vector; see `Irqchip.request`."""
        candidates = _members(self.candidates(vector.mask, vector.managed))
        cpu = None
        if candidates and vector.managed:
            # min() takes the first of equals; the kernel's "> allocated" keeps the last.
            cpu = min(reversed(candidates), key=self.managed_allocated.__getitem__)
            self.managed_allocated[cpu] += 1
        elif candidates:
            cpu = self._unmanaged(vector, candidates)
        self._give_up(vector)
        return cpu

    def _unmanaged(self, vector: Vector, candidates: Sequence[int]) -> int:
        """Allocate a vector that is not managed: ``irq_matrix_alloc()``."""
        if not any(self.available[cpu] > 0 for cpu in candidates):
            # Rather any online CPU than none: assign_irq_vector_any_locked(), apic/vector.c.
            candidates = _members(self.online)
        cpu = max(candidates, key=self.available.__getitem__)
        if self.available[cpu] < 1 or self.taken[cpu] >= self.vectors_per_cpu:
            raise VectorSpaceError(self._no_space(vector, "every CPU"))
        self.available[cpu] -= 1
        self.taken[cpu] += 1
        return cpu

    def adopt(self, vectors: Iterable[Vector]) -> None:
        """Count vectors that were placed before, and what they reserve; see `Irqchip.adopt`."""
        for vector in vectors:
            if vector.managed:
                self._reserve(vector)
            if vector.charged is not None:
                # Its mask then: the very CPU that was picked.
                self.request(vector._replace(mask=1 << vector.charged, charged=None))

    def _give_up(self, vector: Vector) -> None:
        """Free the vector on the CPU that handled it: ``irq_matrix_free()``."""
        cpu = vector.charged
        if cpu is None:
            return
        if vector.managed:
            self.managed_allocated[cpu] -= 1
        else:
            self.available[cpu] += 1
            self.taken[cpu] -= 1

    def free(self, vectors: Iterable[Vector]) -> None:
        """Give vectors back, and what they reserved; see `Irqchip.free`."""
        for vector in vectors:
            self._give_up(vector)
            for cpu in cpus_of(vector.mask) if vector.managed else ():
                self.taken[cpu] -= 1
                self.available[cpu] += self.online >> cpu & 1

    def cpu_up(self, cpu: int) -> None:
        """Put an offline CPU into all later choices: ``irq_matrix_online()``."""
        super().cpu_up(cpu)
        if not self.initialized >> cpu & 1:
            self.initialized |= 1 << cpu
            self.available[cpu] = self.vectors_per_cpu - self.taken[cpu]

    def shown_when_shut_down(self, last: int | None) -> int | None:
        """Return the first online CPU: ``vector_assign_managed_shutdown()``."""
        return (self.online & -self.online).bit_length() - 1 if self.online else None

    def fork(self) -> Self:
        """Return a copy in the same state; see `Irqchip.fork`."""
        twin = copy(self)
        twin.available, twin.managed_allocated, twin.taken = self._counts()
        return twin

    def _no_space(self, vector: Vector, where: str) -> str:
        return (
            f"vector {vector.queue} with mask {cpulist(vector.mask)}: all {self.vectors_per_cpu} "
            f"interrupt vectors of {where} are taken (-ENOSPC)"
        )


class FirstCpu(_Base):
    """arm64 without a translation service: the first online CPU of the mask.

    So do GICv2 with its MSI frame (``gicv2m``), GICv3 (``gicv3``: message interrupts that a
    hypervisor's own controller brings), and the translation service before Linux 5.8
    (``its-first``).

    Notes
    -----
    Source: ``gic_set_affinity()`` in drivers/irqchip/irq-gic.c, where GICv2m's interrupts end
    (irq-gic-v2m.c), and in drivers/irqchip/irq-gic-v3.c, Linux 6.12.

    Examples
    --------
    >>> FirstCpu(Topology.uniform(nodes=1, cpus_per_node=4)).assign([CpuSet("1-3")] * 3)
    [1, 1, 1]
    """

    def request(self, vector: Vector) -> int | None:
        """Pick the effective CPU of an allocated vector; see `Irqchip.request`."""
        candidates = self.candidates(vector.mask, vector.managed)
        return (candidates & -candidates).bit_length() - 1 if candidates else None


class InterruptTranslationService(_Base):
    """arm64 GICv3 ITS from Linux 5.8 on: the least loaded CPU, the *first* one on a tie.

    When a device allocates its vectors, each one is charged to the least loaded of *all* online
    CPUs.  When its interrupt is requested, it drops that charge and takes the least loaded CPU of
    its mask.  A managed one without an online CPU in its mask is not charged.  Managed interrupts
    and others are counted apart.

    Notes
    -----
    Source: ``its_select_cpu()``, ``its_irq_domain_activate()`` and ``its_set_affinity()`` in
    drivers/irqchip/irq-gic-v3-its.c, ``msi_init_virq()`` in kernel/irq/msi.c, Linux 6.12.

    Examples
    --------
    >>> chip = InterruptTranslationService(Topology.uniform(nodes=1, cpus_per_node=4))
    >>> chip.assign([CpuSet("0-1"), CpuSet("2-3")]), chip.assign([CpuSet("0-1"), CpuSet("2-3")])
    ([0, 2], [1, 3])
    """

    charges_when_allocated = True

    def __init__(self, topology: Topology, isolated: CpuSet | None = None) -> None:
        super().__init__(topology, isolated)
        count = topology.possible.mask.bit_length()
        self.charges = {True: [0] * count, False: [0] * count}

    def allocate(
        self,
        masks: Iterable[CpuSet],
        managed: bool | Sequence[bool] = True,
        *,
        seen: Self | None = None,
    ) -> list[Vector]:
        """Allocate vectors, and charge each to a CPU; see `Irqchip.allocate`."""
        return [
            vector._replace(charged=self._charge(self.online, vector.managed, seen or self))
            if self.candidates(vector.mask, vector.managed)
            else vector
            for vector in super().allocate(masks, managed)
        ]

    def request(self, vector: Vector) -> int | None:
        """Pick the effective CPU of an allocated vector; see `Irqchip.request`."""
        self.free([vector])
        candidates = self.candidates(vector.mask, vector.managed)
        return self._charge(candidates, vector.managed, self) if candidates else None

    def adopt(self, vectors: Iterable[Vector]) -> None:
        """Charge vectors that were placed before; see `Irqchip.adopt`."""
        for vector in vectors:
            if vector.charged is not None:
                self.charges[vector.managed][vector.charged] += 1

    def free(self, vectors: Iterable[Vector]) -> None:
        """Give vectors back, and drop their charges; see `Irqchip.free`."""
        for vector in vectors:
            if vector.charged is not None:
                self.charges[vector.managed][vector.charged] -= 1

    def fork(self) -> Self:
        """Return a copy in the same state; see `Irqchip.fork`."""
        twin = copy(self)
        twin.charges = {managed: counts[:] for managed, counts in self.charges.items()}
        return twin

    def _charge(self, candidates: int, managed: bool, seen: Self) -> int:
        cpu = min(_members(candidates), key=seen.charges[managed].__getitem__)
        self.charges[managed][cpu] += 1
        return cpu


IRQCHIPS: dict[str, Callable[..., Irqchip]] = {
    "x86": VectorMatrix,
    "gicv2m": FirstCpu,
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
    if not isinstance(name, str) or name not in IRQCHIPS:
        raise RequestError(f"irqchip {brief(name)}: expected one of {', '.join(IRQCHIPS)}")
    return IRQCHIPS[name](topology, isolated)
