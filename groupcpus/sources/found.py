# SPDX-License-Identifier: GPL-2.0-only
"""The devices that a loaded machine shows: whose interrupts are whose, and which are queues'.

A capture says which interrupts a device has.  Without one, the names of interrupts and of their
chips tell: ``nvme0q5``, ``virtio1-req.0``, ``eth0-TxRx-3``, ``PCI-MSIX-0000:01:00.0``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from groupcpus.engine.cpuset import CpuSet
from groupcpus.sources.combine import Loaded
from groupcpus.sources.facts import X86, ShownInterrupt

__all__ = [
    "FoundDevice",
    "FoundVector",
    "bus_order",
    "find_devices",
    "find_mapped",
    "irqchip_of",
    "nvme_parameter",
    "release_version",
    "valid_name",
]

# Drivers that let the kernel spread their vectors: they pass PCI_IRQ_AFFINITY and queue maps are
# made of the masks (Linux 6.12).  Networks (class 02) don't.
SPREADING = re.compile(
    "aacraid|csiostor|hisi_sas_v3_hw|hpsa|lpfc|megaraid_sas|mpi3mr|mpt3sas|nvme|pm80xx|qla2xxx"
    "|smartpqi|virtio_blk|virtio_scsi"
)
_SPREADING_NAMES = (
    *("aacraid", "hisi_sas", "hpsa", "lpfc", "megasas", "mpi3mr", "mpt2sas", "mpt3sas", "nvme"),
    *("pm80xx", "qla2xxx", "smartpqi"),
)
_NETWORK = re.compile(
    r"(?:[a-z0-9]+-)?(?:eth|ib|en[opsP]|net\b)|mlx[45]|mana|virtio[0-9]+-(?:input|output)|vmxnet3"
)
_SLOT = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_NVME = re.compile(r"(nvme[0-9]{1,6})q([0-9]{1,6})")
_VIRTIO = re.compile(r"(virtio[0-9]{1,6})-([a-z_]{1,32})(?:\.([0-9]{1,6}))?")
_VIRTIO_REQUESTS = ("req", "request", "requests")
_QUEUE_WORD = (
    r"(?:TxRx|Tx-Rx|txrx|tx-rx|Tx|Rx|tx|rx|TX|RX|fp|q|ring|channel|comp|completion|msix|msi|cq"
    r"|queue|qpair|ntfy-blk)"
)
_NUMBERED = re.compile(rf"(.{{1,200}}?)(?:[-_.:]{_QUEUE_WORD}[-_.:]?|[-_:])([0-9]{{1,6}})")


@dataclass(frozen=True)
class FoundVector:
    """A vector of a device.

    Attributes
    ----------
    irq : int
        The interrupt's number.
    name : str
        What the driver calls it; empty if nobody has requested it.
    role : {"queue", "other"}
        Whether it is a queue's; others are NVMe's admin queue, virtio's configuration, and so on.
    queue : int or None
        The queue's number in its name.
    told : ShownInterrupt
        What the sources say of it.
    """

    irq: int
    name: str
    role: str
    queue: int | None
    told: ShownInterrupt


@dataclass(frozen=True)
class FoundDevice:
    """A device with the vectors that it was found to have, in the order of their allocation.

    Attributes
    ----------
    name : str
        Such as ``nvme0``, ``virtio1``, ``eth0``.
    kind : {"nvme", "virtio", "mana", "irqs"}
        As `Device` has it.
    spreads : bool or None
        Whether its driver is known to let the kernel spread its vectors; None: not known.
    vectors : tuple of FoundVector
        In the order of their allocation.
    slot, driver : str or None
        On the bus, and of the kernel, where known.
    node : int or None
        The device's NUMA node, where it has one and a source tells.
    queue_count : int or None
        NVMe: its queues, admin queue and poll queues included.
    maps : tuple of CpuSet
        The CPUs of each hardware queue of its first disk.
    map_kinds : tuple of str
        Of each, "default", "read" or "poll", where a source tells.
    from_maps : bool
        Whether its queue maps alone show it; they are made of the masks.
    """

    name: str
    kind: str
    spreads: bool | None
    vectors: tuple[FoundVector, ...]
    slot: str | None = None
    driver: str | None = None
    node: int | None = None
    queue_count: int | None = None
    maps: tuple[CpuSet, ...] = ()
    map_kinds: tuple[str, ...] = ()
    from_maps: bool = False

    @property
    def queues(self) -> tuple[FoundVector, ...]:
        """The vectors of queues."""
        return tuple(vector for vector in self.vectors if vector.role == "queue")


@dataclass
class _Heap:
    """The interrupts of one device, while they are being found."""

    told: list[ShownInterrupt] = field(default_factory=list)
    slot: str | None = None
    driver: str | None = None
    pci_class: str = ""
    name: str | None = None
    node: int | None = None
    queue_count: int | None = None


def find_devices(loaded: Loaded) -> tuple[tuple[FoundDevice, ...], tuple[ShownInterrupt, ...]]:
    r"""Put interrupts together by device.

    Returns
    -------
    devices : tuple of FoundDevice
        Those that have a queue's interrupt, or more than one interrupt, by slot or by name.
    others : tuple of ShownInterrupt
        The rest: timers, consoles, controllers with a single interrupt.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> text = "irq 30 affinity 0-3 effective 0 nvme0q0\nirq 31 affinity 0-3 effective 3 nvme0q1\n"
    >>> (disk,), others = find_devices(load(text))
    >>> disk.name, [vector.role for vector in disk.vectors], others
    ('nvme0', ['other', 'queue'], ())
    """
    heaps: dict[str, _Heap] = {}
    owner: dict[int, str] = {}
    for device in loaded.devices:
        slot = device["slot"]
        node = device["node"]
        heaps[slot] = _Heap(
            slot=slot,
            driver=device["driver"],
            pci_class=device["class"] or "",
            name=device["name"],
            node=None if node is None or node < 0 else node,
            queue_count=device["queue_count"],
        )
        owner.update(dict.fromkeys(device["irqs"], slot))
    for told in loaded.interrupts:
        key = owner.get(told.irq) or _key(told)
        heap = heaps.setdefault(key, _Heap(slot=key if _SLOT.fullmatch(key) else None))
        heap.told.append(told)
    devices, others = [], []
    for key, heap in heaps.items():
        found = _device(key, heap, loaded)
        # A name is enough for a disk; other devices show by having several interrupts.
        several = len(found.vectors) > 1 and (found.queues or heap.slot)
        if several or (found.queues and found.spreads):
            devices.append(found)
        else:
            others += heap.told
    devices.sort(key=lambda found: bus_order(found.slot or found.name))
    return _distinct(devices), tuple(sorted(others, key=lambda told: told.irq))


def _key(told: ShownInterrupt) -> str:
    """Guess whose an interrupt is by its name and its chip's."""
    for text in (*told.actions, told.chip):
        if found := _SLOT.search(text):
            return found[1]
    for name in told.actions:
        device, queue, _ = _parse(name)
        if device and (queue is not None or _VIRTIO.fullmatch(name)):
            return device
    if told.hwirq and any(name.startswith(_SPREADING_NAMES) for name in told.actions):
        # Where chips are not named by device, hwirqs are: pci_msi_domain_calc_hwirq().
        bus, number = divmod(told.hwirq >> 11 & 0xFFFF, 256)
        return f"{told.hwirq >> 27:04x}:{bus:02x}:{number >> 3:02x}.{number & 7}"
    return f"irq {told.irq}"


def _parse(name: str) -> tuple[str, int | None, bool]:
    """Split a name into the device's and the queue's number; tell whether it is a queue's."""
    name = name.partition("@")[0]
    if found := _NVME.fullmatch(name):
        return found[1], int(found[2]), int(found[2]) > 0
    if found := _VIRTIO.fullmatch(name):
        queue = int(found[3]) if found[3] else None
        # "input" without a number is the random number generator's.
        of_pair = found[2] in ("input", "output") and queue is not None
        return found[1], queue, found[2] in _VIRTIO_REQUESTS or of_pair
    if found := _NUMBERED.fullmatch(name):
        return found[1], int(found[2]), True
    return name, None, False


def _device(key: str, heap: _Heap, loaded: Loaded) -> FoundDevice:
    names = [name for told in heap.told for name in told.actions]
    parsed = [_parse(name) for name in names]
    own = [device for device, queue, is_queue in parsed if is_queue or queue is not None]
    name = heap.name or next(iter(own), None) or (parsed[0][0] if parsed else key)
    driver = heap.driver
    name = name.removeprefix(f"{driver}-")
    is_virtio = any(found and found[2].startswith("req") for found in map(_VIRTIO.fullmatch, names))
    if driver == "nvme" or _NVME.match(f"{name}q0"):
        kind = "nvme"
    elif is_virtio:
        kind = "virtio"
    elif driver == "mana" or name.startswith("mana"):
        kind = "mana"
    else:
        kind = "irqs"
    spreads: bool | None = None
    if (
        kind in ("nvme", "virtio")
        or SPREADING.fullmatch(driver or "")
        or name.startswith(_SPREADING_NAMES)
    ):
        spreads = True
    elif heap.pci_class.startswith("0x02") or any(map(_NETWORK.match, names)):
        spreads = False
    elif driver == "virtio-pci":
        spreads = False  # a balloon, a console, a socket, ...
    maps = _maps(name, heap.slot, loaded)
    return FoundDevice(
        name,
        kind,
        spreads,
        tuple(_vectors(heap.told)),
        heap.slot,
        driver,
        heap.node,
        heap.queue_count,
        tuple(cpus for _, cpus, _ in maps),
        tuple(kind for _, _, kind in maps if kind),
    )


def _vectors(told: list[ShownInterrupt]) -> Iterator[FoundVector]:
    # A device's vectors are allocated in the order of their hwirqs.
    for interrupt in sorted(told, key=lambda one: (one.hwirq or 0, one.irq)):
        name = ", ".join(interrupt.actions)
        queue, is_queue = None, False
        for action in interrupt.actions:
            _, queue, is_queue = _parse(action)
            if is_queue:
                break
        role = "queue" if is_queue else "other"
        yield FoundVector(interrupt.irq, name, role, queue, interrupt)


def _maps(name: str, slot: str | None, loaded: Loaded) -> list[tuple[int, CpuSet, str | None]]:
    """Return the queue maps of a device's first disk: number, CPUs, kind."""
    for disk, queues in loaded.queue_maps.items():
        behind = slot is not None and loaded.disk_slots.get(disk) == slot
        if behind or re.fullmatch(rf"{re.escape(name)}(?:c[0-9]+)?n[0-9]+", disk):
            kinds = loaded.queue_kinds.get(disk, {})
            return [(queue, queues[queue], kinds.get(queue)) for queue in sorted(queues)]
    return []


def find_mapped(loaded: Loaded, devices: Iterable[FoundDevice]) -> list[FoundDevice]:
    r"""Find the devices that show by their queue maps alone, a disk of each.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> maps = "/sys/block/sdb/mq/0/cpu_list:0-1\n/sys/block/sdb/mq/1/cpu_list:2-3\n"
    >>> (disk,) = find_mapped(load(maps), ())
    >>> disk.name, [str(vector.told.affinity) for vector in disk.vectors]
    ('sdb', ['0-1', '2-3'])
    """
    shown = {device.name for device in devices}
    slots = {device.slot for device in devices} - {None}
    mapped: list[FoundDevice] = []
    for disk in sorted(loaded.queue_maps, key=bus_order):
        nvme = re.fullmatch("(nvme[0-9]{1,6})(?:c[0-9]+)?n[0-9]+", disk, re.ASCII)
        name = nvme[1] if nvme else disk
        slot = loaded.disk_slots.get(disk)
        if name in shown or slot in slots or re.fullmatch("(?:loop|ram|zram|dm-)[0-9]+", disk):
            continue
        kinds = loaded.queue_kinds.get(disk, {})
        queues = [queue for queue in sorted(loaded.queue_maps[disk]) if kinds.get(queue) != "poll"]
        vectors = tuple(
            FoundVector(
                queue,
                f"{disk} queue {queue}",
                "queue",
                queue + bool(nvme),
                ShownInterrupt(queue, affinity=loaded.queue_maps[disk][queue]),
            )
            for queue in queues
        )
        shown.add(name)
        slots |= {slot} - {None}
        map_kinds = tuple(kinds[queue] for queue in queues if queue in kinds)
        kind = "nvme" if nvme else "irqs"
        maps = tuple(loaded.queue_maps[disk][queue] for queue in queues)
        mapped.append(
            FoundDevice(
                valid_name(name), kind, True, vectors, slot, None, None, None, maps, map_kinds, True
            )
        )
    return mapped


def bus_order(name: str) -> list[tuple[int, str]]:
    """Sort nvme2 before nvme10, and slots in the order of the bus."""
    if _SLOT.fullmatch(name):
        return [(int(part, 16), "") for part in re.split("[:.]", name)]
    parts = re.split(r"([0-9]+)", name)
    # At odd places are the numbers.
    return [(int(part), "") if at % 2 else (1 << 30, part) for at, part in enumerate(parts)]


def valid_name(name: str) -> str:
    r"""Return a name as `Device` takes it, whatever a driver or a file made it of.

    Examples
    --------
    >>> valid_name("lpfc@0000:3b:00.0"), valid_name("\x1b[2J"), valid_name("")
    ('lpfc-0000:3b:00.0', 'device---2J', 'device')
    """
    name = re.sub(r"[^A-Za-z0-9._:-]", "-", name)[:56]
    return name if re.match("[A-Za-z0-9]", name) else f"device{'-' * bool(name)}{name}"


def _distinct(devices: Iterable[FoundDevice]) -> tuple[FoundDevice, ...]:
    """Make names valid, and unique: with the slot, and where there is none with a number."""
    devices = list(devices)
    names = Counter(device.name for device in devices)
    taken: set[str] = set()
    named = []
    for at, device in enumerate(devices):
        name = device.name
        if names[name] > 1 and device.slot:
            name = f"{name[:32]}-{device.slot}"
        name = valid_name(name)
        if name in taken:
            name = f"{name}.{at}"
        taken.add(name)
        named.append(replace(device, name=name))
    return tuple(named)


def release_version(release: str | None) -> tuple[int, int] | None:
    """Read the two numbers that a kernel release begins with.

    Examples
    --------
    >>> release_version("6.12.117+deb13-amd64"), release_version(None)
    ((6, 12), None)
    """
    found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", release or "")
    return (int(found[1]), int(found[2])) if found else None


def nvme_parameter(loaded: Loaded, name: str) -> int:
    """Return the NVMe driver's parameter ``write_queues`` or ``poll_queues``; 0 if not told."""
    values: Mapping[str, str] = loaded.nvme
    flags = dict(flag.partition("=")[::2] for flag in loaded.cmdline)
    text = values.get(name) or flags.get(f"nvme.{name}") or "0"
    # No driver has more queues; a source may say anything.
    return min(int(text), 65535) if re.fullmatch("[0-9]{1,9}", text) else 0


def irqchip_of(loaded: Loaded) -> str | None:
    """Name the irqchip in `IRQCHIPS` that the machine's message interrupts go through.

    x86 has the vector matrix; on arm64 the chip's name tells; None for other architectures.
    """
    if loaded.arch in X86 or (loaded.arch is None and loaded.cluster_source == "l2"):
        return "x86"
    chips = [told.chip for told in loaded.interrupts]
    if any(chip.startswith("ITS-") for chip in chips):
        version = release_version(loaded.kernel)
        return "its-first" if version and version < (5, 8) else "its"
    if any(chip.startswith("GICv2m-") for chip in chips):
        return "gicv2m"
    if loaded.arch in ("aarch64", "arm64"):
        return "gicv3"
    if loaded.arch is None and any("PCI-MSI" in chip for chip in chips):
        return "x86"
    return None
