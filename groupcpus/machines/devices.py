# SPDX-License-Identifier: GPL-2.0-only
"""Devices: which calls of `group_cpus_evenly` they make, and which interrupts come of them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupcpus.errors import RequestError, brief

__all__ = [
    "DEVICE_KINDS",
    "MAX_QUEUES",
    "PROBE_ORDERS",
    "Device",
    "ProbeCall",
    "QueueSet",
    "probe_calls",
]

DEVICE_KINDS = ("nvme", "virtio", "loop", "mana", "irqs")
PROBE_ORDERS = ("admin-first", "interleaved")

MAX_QUEUES = 65535
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


@dataclass(frozen=True)
class QueueSet:
    """One call of `group_cpus_evenly` that a device makes.

    Attributes
    ----------
    kind : str
        The kernel's word: ``admin``, ``default``, ``read`` or ``poll``.
    queues : int
        How many groups are asked for.
    interrupts : bool
        Whether each group is the mask of a managed interrupt; else it is a queue map only.
    """

    kind: str
    queues: int
    interrupts: bool


@dataclass(frozen=True)
class Device:
    """A device and its queues.

    Parameters
    ----------
    name : str
        Such as ``nvme0``.
    kind : {"nvme", "virtio", "loop", "mana", "irqs"}
        Which driver's calls it makes; ``irqs`` is any device with one call for its interrupts.
    io_queues : int
        I/O queues that the device offers (MANA: interrupts).
    write_queues, poll_queues : int
        The NVMe driver's parameters of these names.

    Raises
    ------
    RequestError
        If a value is out of range.

    Examples
    --------
    >>> Device("nvme0", "nvme", io_queues=8, write_queues=2, poll_queues=1).queue_sets(96)[1:]
    (QueueSet(kind='default', queues=2, interrupts=True),
     QueueSet(kind='read', queues=5, interrupts=True),
     QueueSet(kind='poll', queues=1, interrupts=False))
    """

    name: str
    kind: str
    io_queues: int = 1
    write_queues: int = 0
    poll_queues: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise RequestError(f"device {brief(self.name)}: expected a name such as nvme0")
        if self.kind not in DEVICE_KINDS:
            raise RequestError(
                f"kind {brief(self.kind)}: expected one of {', '.join(DEVICE_KINDS)}"
            )
        for field, least in (("io_queues", 1), ("write_queues", 0), ("poll_queues", 0)):
            value = getattr(self, field)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= MAX_QUEUES:
                raise RequestError(
                    f"{field} {brief(value)}: expected a whole number from {least} to {MAX_QUEUES}"
                )
        if self.kind != "nvme" and (self.write_queues or self.poll_queues):
            raise RequestError(f"{self.name}: only nvme has write_queues and poll_queues")

    def queue_sets(self, possible_cpus: int) -> tuple[QueueSet, ...]:
        """List the calls that the driver makes, in its order.

        Parameters
        ----------
        possible_cpus : int
            The driver asks for no more queues than this many CPUs can use.

        Notes
        -----
        Source: ``nvme_setup_irqs()`` and ``nvme_calc_irq_sets()`` in drivers/nvme/host/pci.c;
        ``blk_mq_map_queues()`` in block/blk-mq-cpumap.c, which maps NVMe's admin queue, its poll
        queues and the loop device; Linux 6.12.
        """
        if self.kind == "nvme":
            return self._nvme_sets(possible_cpus)
        if self.kind == "loop":
            return (QueueSet("default", 1, interrupts=False),)
        if self.kind == "mana":
            return ()
        return (QueueSet("default", self.io_queues, interrupts=True),)

    def _nvme_sets(self, possible_cpus: int) -> tuple[QueueSet, ...]:
        queues = min(self.io_queues, possible_cpus + self.write_queues + self.poll_queues)
        poll = min(self.poll_queues, queues - 1)
        irqs = queues - poll
        if irqs == 1 or not self.write_queues:
            read = 0
        elif self.write_queues >= irqs:
            read = 1
        else:
            read = irqs - self.write_queues
        sets = [
            QueueSet("admin", 1, interrupts=False),
            QueueSet("default", irqs - read, interrupts=True),
        ]
        if read:
            sets.append(QueueSet("read", read, interrupts=True))
        if poll:
            sets.append(QueueSet("poll", poll, interrupts=False))
        return tuple(sets)

    @property
    def pre_vectors(self) -> int:
        """Interrupts before the queues' own that are not managed: NVMe's admin, virtio's config."""
        return 1 if self.kind in ("nvme", "virtio") else 0


@dataclass(frozen=True)
class ProbeCall:
    """A call in the order in which devices make them."""

    device: Device
    queue_set: QueueSet

    @property
    def label(self) -> str:
        """The name that an explicit probe order gives it, such as ``nvme0:admin``."""
        return f"{self.device.name}:{self.queue_set.kind}"


def probe_calls(
    devices: Sequence[Device], possible_cpus: int, probe: str | Sequence[str] = "admin-first"
) -> list[ProbeCall]:
    """Put the calls of all devices in the order in which they are made.

    Parameters
    ----------
    devices : sequence of Device
        In PCI order.
    possible_cpus : int
        How many CPUs the machine may have.
    probe : {"admin-first", "interleaved"} or sequence of str
        All admin calls before all others (as parallel probing gives), device by device, or every
        call by name in order: ``["nvme1:admin", "nvme0:admin", "nvme0:default", ...]``.

    Raises
    ------
    RequestError
        If there is no such order, or a sequence does not name each call once.

    Examples
    --------
    >>> disks = [Device("nvme0", "nvme", 4), Device("nvme1", "nvme", 4)]
    >>> [call.label for call in probe_calls(disks, 8)]
    ['nvme0:admin', 'nvme1:admin', 'nvme0:default', 'nvme1:default']
    >>> [call.label for call in probe_calls(disks, 8, "interleaved")]
    ['nvme0:admin', 'nvme0:default', 'nvme1:admin', 'nvme1:default']
    """
    names = [device.name for device in devices]
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"devices: there are several named {name}")
    calls = list(_device_by_device(devices, possible_cpus))
    if probe == "interleaved":
        return calls
    if probe == "admin-first":
        # sorted() is stable: within each half the devices keep their order.
        return sorted(calls, key=lambda call: call.queue_set.kind != "admin")
    if isinstance(probe, str):
        raise RequestError(
            f"probe {brief(probe)}: expected {' or '.join(PROBE_ORDERS)}, or a sequence of calls"
        )
    by_label = {call.label: call for call in calls}
    order = list(probe)
    for label in order:
        if label not in by_label:
            raise RequestError(
                f"probe: there is no call {brief(label)}; the calls are {brief(' '.join(by_label))}"
            )
    if len(set(order)) < len(order) or len(order) < len(by_label):
        raise RequestError(f"probe: expected each of the {len(by_label)} calls once")
    return [by_label[label] for label in order]


def _device_by_device(devices: Sequence[Device], possible_cpus: int) -> Iterator[ProbeCall]:
    for device in devices:
        for queue_set in device.queue_sets(possible_cpus):
            yield ProbeCall(device, queue_set)
