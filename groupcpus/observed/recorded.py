# SPDX-License-Identifier: GPL-2.0-only
"""What a recording holds: a boot's devices and the order of their steps, and phases after it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.revisions import Revision
from groupcpus.engine.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Phase", "PhaseDevice", "RecordedDevice", "RecordedStep", "Recording"]


@dataclass(frozen=True)
class RecordedDevice:
    """An NVMe device as a kernel showed it.

    Attributes
    ----------
    name, pci : str
        Such as ``nvme0`` and ``0000:00:01.0``.
    io_queues : int
        I/O queues that the device offers.
    irqs, effective : tuple of int
        Number and effective CPU of each vector; vector 0 is the admin queue's.
    masks : tuple of CpuSet
        Affinity of each vector.
    maps : tuple of CpuSet
        The CPUs of each hardware queue (hctx) that blk-mq shows.
    charged : tuple of int
        The CPU that each managed vector, from vector 1 on, was charged to when it was allocated;
        empty unless the kernel logged it.
    spread_offset : int or None
        The value of the call counter that its call took; None: a revision rotates, and nothing
        says which.
    """

    name: str
    pci: str
    io_queues: int
    irqs: tuple[int, ...]
    masks: tuple[CpuSet, ...]
    effective: tuple[int, ...]
    maps: tuple[CpuSet, ...]
    charged: tuple[int, ...] = ()
    spread_offset: int | None = 0

    @property
    def frame(self) -> "pd.DataFrame":
        """One row a managed interrupt: its affinity, its queue's map, its effective CPU."""
        import pandas as pd

        rows = {
            f"{self.name}q{queue}": (str(mask), str(cpus) or "none", cpu)
            for queue, (mask, cpus, cpu) in enumerate(
                zip(self.masks[1:], self.maps, self.effective[1:], strict=False), start=1
            )
        }
        columns = ["affinity", "queue map", "effective"]
        frame = pd.DataFrame(rows.values(), index=list(rows), columns=columns)
        return frame.rename_axis("interrupt")


class RecordedStep(NamedTuple):
    """One step of a device's probing: a managed vector is allocated, or requested."""

    device: str
    queue: int
    action: str
    """``allocate`` or ``request``."""


class PhaseDevice(NamedTuple):
    """An NVMe device as a kernel showed it after an event."""

    name: str
    pci: str
    irqs: tuple[int, ...]
    masks: tuple[CpuSet, ...]
    effective: tuple[str, ...]
    """A CPU each; ``-``: none."""
    maps: tuple[CpuSet, ...]


class Phase(NamedTuple):
    """What a kernel showed after an event."""

    event: str
    online: CpuSet
    devices: tuple[PhaseDevice, ...]
    others: tuple[tuple[int, str, CpuSet, int], ...]
    """The other interrupts that a CPU handles: number, name, affinity and effective CPU."""
    calls: tuple[tuple[int, int], ...] | None
    """The calls of ``group_cpus_evenly()`` since the last phase: numgrps and offset; None: not
    logged."""


@dataclass(frozen=True)
class Recording:
    """One boot of a kernel.

    Attributes
    ----------
    name : str
        The name of its file.
    kernel, package : str
        The kernel's release, and the distribution's version of its package.
    arch : {"x86_64", "arm64"}
        The architecture.
    machine, qemu, cmdline, source, notes : str
        The machine in words, QEMU's arguments, the kernel's, how it was recorded, and what more
        there is to say.
    irqchip : str
        The name of its irqchip in `IRQCHIPS`.
    topology : Topology
        Its CPUs.
    write_queues, poll_queues : int
        The NVMe driver's parameters.
    other_irqs : tuple of int
        Effective CPUs of the interrupts that are no NVMe's.
    devices : tuple of RecordedDevice
        After the boot, when all probed in parallel.
    order : tuple of RecordedStep
        The order of their steps, where the kernel logged it; else empty.
    rebind : tuple of RecordedDevice
        After all were unbound and bound again one at a time, in this order.
    revision : Revision
        The version of `group_cpus_evenly` that its kernel has.
    phases : tuple of Phase
        Of a recording of life after boot: the boot, and what followed.
    """

    name: str
    kernel: str
    package: str
    arch: str
    machine: str
    qemu: str
    cmdline: str
    source: str
    notes: str
    irqchip: str
    topology: Topology
    write_queues: int
    poll_queues: int
    other_irqs: tuple[int, ...]
    devices: tuple[RecordedDevice, ...]
    order: tuple[RecordedStep, ...]
    rebind: tuple[RecordedDevice, ...]
    revision: Revision
    phases: tuple[Phase, ...] = ()
