# SPDX-License-Identifier: GPL-2.0-only
"""A machine in use: which vectors, masks and queue maps its drivers have, event by event.

Three things are made at different times (read in Linux 7.3.4, and held against recorded boots):

* a *mask* when vectors are allocated, at probe and at every controller reset
  (``irq_create_affinity_masks()``).  CPUs that are offline then still get masks, but sibling and
  cluster masks know online CPUs only: see `topology_now`;
* a *queue map* with the tag set, at probe.  A reset keeps it, unless the device has read or poll
  queues as well (``__blk_mq_update_nr_hw_queues()``);
* the *effective CPU* at request, and whenever that CPU goes offline: see
  `groupcpus.machines.irqcore`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irq_setup import irq_setup
from groupcpus.engine.irqchips import Vector
from groupcpus.engine.revisions import Revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief
from groupcpus.machines.devices import Device
from groupcpus.machines.irqcore import Change, IrqCore, LiveInterrupt
from groupcpus.machines.lifesteps import GroupCall
from groupcpus.machines.machine import Machine

__all__ = ["FIRST_NUMBER", "InUse", "has_map", "topology_now"]

# On x86 the numbers below belong to the I/O APIC; only their order counts.
FIRST_NUMBER = 24

_UINT_MAX = 0xFFFFFFFF


def topology_now(topology: Topology, online: CpuSet, arch: str) -> Topology:
    """Return the topology as the kernel sees it after some CPUs went offline, or came back.

    Sibling and cluster masks know online CPUs only: a CPU that goes offline leaves those of the
    others.  Its own become empty on x86, and the CPU alone on arm64.  Nodes stay.

    Parameters
    ----------
    topology : Topology
        As at boot.  CPUs that were offline then are left as they are described.
    online : CpuSet
        The CPUs that are online now.
    arch : str
        The architecture.

    Notes
    -----
    Source: ``remove_siblinginfo()`` in arch/x86/kernel/smpboot.c; ``remove_cpu_topology()`` and
    ``clear_cpu_topology()`` in drivers/base/arch_topology.c; Linux 7.3.4.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=2)
    >>> topology_now(machine, CpuSet("0-2"), "x86_64").cluster_of(3)
    CpuSet('')
    >>> topology_now(machine, CpuSet("0-2"), "arm64").cluster_of(3)
    CpuSet('3')
    """
    if online == topology.online:
        return topology
    gone = topology.online - online
    never = topology.no_cluster - online
    return Topology(
        topology.possible,
        topology.present,
        online,
        topology.nodes,
        [cpus - gone for cpus in topology.clusters if cpus - gone],
        [cpus - gone for cpus in topology.siblings if cpus - gone],
        no_cluster=never | gone if arch == "x86_64" else never,
        distances=topology.distances,
    )


def has_map(device: Device) -> bool:
    """Return whether a device's queues are blk-mq's, and CPUs submit to them by a queue map."""
    return device.kind in ("nvme", "virtio")


@dataclass
class InUse:
    """A machine in use; each event returns what it did, in the kernel's order.

    Attributes
    ----------
    machine : Machine
        As at boot.
    revision : Revision
        The version of `group_cpus_evenly`.
    core : IrqCore
        The interrupts there are.
    devices : dict of str to Device
        The devices that are bound.
    maps : dict of str to tuple
        For each of them the kind and the CPUs of each hardware queue.
    counter : int
        The call counter.
    isolated : CpuSet
        CPUs that ``isolcpus=managed_irq`` names.
    smt : bool
        Whether more than one thread of a core may be online.
    frozen, suspended : tuple of int, tuple of str
        The CPUs and devices that a suspend took.
    calls : list of GroupCall
        The calls of `group_cpus_evenly` since the last `copy`.
    kept : dict or None
        The offset that each call of a device took at first, by device and kind, for a kernel that
        would keep it; None: each call takes the next one, as the posted patches do.
    """

    machine: Machine
    revision: Revision
    core: IrqCore
    devices: dict[str, Device]
    maps: dict[str, tuple[tuple[str, CpuSet], ...]]
    counter: int = 0
    isolated: CpuSet = field(default_factory=CpuSet)
    smt: bool = True
    frozen: tuple[int, ...] = ()
    suspended: tuple[str, ...] = ()
    calls: list[GroupCall] = field(default_factory=list)
    kept: dict[tuple[str, str], int] | None = None

    def copy(self) -> "InUse":
        """Return a copy that goes its own way from here."""
        return replace(
            self, core=self.core.fork(), devices=dict(self.devices), maps=dict(self.maps), calls=[]
        )

    @property
    def topology(self) -> Topology:
        """The topology as the kernel sees it now."""
        return topology_now(self.machine.topology, self.core.online, self.machine.arch)

    def offline(self, cpus: Iterable[int]) -> list[Change]:
        """Take CPUs offline, one after another."""
        changes = []
        for cpu in cpus:
            if cpu == 0 and self.machine.arch == "x86_64":
                raise RequestError("CPU 0 cannot go offline on x86 (since Linux 6.5)")
            if self.core.online == CpuSet([cpu]):
                raise RequestError(f"CPU {cpu} cannot go offline: no other CPU is online")
            changes += self.core.cpu_down(cpu)
        return changes

    def online(self, cpus: Iterable[int]) -> list[Change]:
        """Bring CPUs online, one after another."""
        changes = []
        for cpu in cpus:
            if not self.smt and self._secondary(cpu):
                raise RequestError(f"CPU {cpu} cannot come online: SMT is off")
            changes += self.core.cpu_up(cpu, self.isolated)
        return changes

    def _secondary(self, cpu: int) -> bool:
        topology = self.machine.topology
        return cpu in topology.present and topology.core_id(cpu) != cpu

    def set_smt(self, on: bool) -> list[Change]:
        """Write to /sys/devices/system/cpu/smt/control.

        Source: ``cpuhp_smt_disable()`` and ``cpuhp_smt_enable()`` in kernel/cpu.c: off takes all
        but the first thread of each core offline, on brings every present CPU online, whoever
        took it offline; both in ascending order.
        """
        if all(len(core) < 2 for core in self.machine.topology.siblings):
            raise RequestError(f"smt: no core of {self.machine.name} has more than one thread")
        if self.smt == on:
            return []
        self.smt = on
        if on:
            return self.online(self.machine.topology.present - self.core.online)
        return self.offline(cpu for cpu in self.core.online if self._secondary(cpu))

    def reset(self, name: str, numbers: Sequence[int] | None = None) -> list[Change]:
        """Reset an NVMe controller: its vectors are allocated anew, its map mostly stays."""
        device = self._bound(name)
        if device.kind != "nvme":
            raise RequestError(
                f"reset {name}: of NVMe controllers alone it is known what a reset does; "
                "unbind and bind it"
            )
        return self.core.teardown(name) + self._allocate(device, numbers)

    def unbind(self, name: str) -> list[Change]:
        """Take the driver from a device: its vectors and its map go."""
        self._bound(name)
        del self.devices[name], self.maps[name]
        return self.core.teardown(name)

    def bind(self, name: str, numbers: Sequence[int] | None = None) -> list[Change]:
        """Give a device of the machine its driver again."""
        if name in self.devices:
            raise RequestError(f"bind {name}: it is bound already")
        known = {device.name: device for device in self.machine.devices}
        if name not in known:
            raise RequestError(f"device {brief(name)}: expected one of {', '.join(known)}")
        self.devices[name] = known[name]
        return self._allocate(known[name], numbers)

    def suspend(self) -> list[Change]:
        """Suspend to RAM: all vectors are freed, then all CPUs but the first go offline."""
        changes = []
        self.suspended = tuple(self.devices)
        for name in self.suspended:
            changes += self.core.teardown(name)
        _, *others = self.core.online
        self.frozen = tuple(others)
        return changes + self.offline(others)

    def resume(self) -> list[Change]:
        """Resume: the CPUs come back, then every device allocates its vectors anew."""
        if not self.suspended and not self.frozen:
            raise RequestError("resume: the machine is not suspended")
        frozen, suspended = self.frozen, self.suspended
        self.frozen = self.suspended = ()
        changes = [change for cpu in frozen for change in self.core.cpu_up(cpu, self.isolated)]
        for name in suspended:
            changes += self._allocate(self.devices[name], None)
        return changes

    def _bound(self, name: str) -> Device:
        if name not in self.devices:
            bound = f"bound: {', '.join(self.devices)}" if self.devices else "no device is bound"
            raise RequestError(f"device {brief(name)} is not bound ({bound})")
        return self.devices[name]

    def _allocate(self, device: Device, numbers: Sequence[int] | None) -> list[Change]:
        """Make a device's masks, its map if it must be, and place its interrupts."""
        topology = self.topology
        new = device.name not in self.maps
        masks: list[tuple[str, CpuSet]] = []
        queues: list[tuple[str, CpuSet]] = []
        for queue_set in device.queue_sets(len(topology.possible)):
            if queue_set.kind == "admin" and not new:
                continue  # its tag set is there already
            made = self._group(device, queue_set.kind, queue_set.queues, topology)
            if queue_set.interrupts:
                masks += made
            if has_map(device) and queue_set.kind != "admin":
                queues += made
        if new or len({kind for kind, _ in queues}) > 1:
            self.maps[device.name] = tuple(queues)
        if device.kind == "mana":
            spread = irq_setup(topology, device.io_queues, min(topology.nodes))
            masks = [("default", mask) for mask in spread]
        return self._place(device, masks, numbers)

    def _group(
        self, device: Device, kind: str, numgrps: int, topology: Topology
    ) -> list[tuple[str, CpuSet]]:
        """Make one call of `group_cpus_evenly`, which takes a value of the counter."""
        offset = None if self.kept is None else self.kept.get((device.name, kind))
        if offset is None:
            offset = self.revision.offset(numgrps, self.counter)
            steps = self.revision.advance(numgrps)
            self.counter = (self.counter + steps) & _UINT_MAX
            if self.kept is not None and self.revision.per_device and steps:
                # All calls of a device that had none take it from now on.
                kinds = ("default", "read", "poll")
                self.kept = self.kept | {(device.name, one): offset for one in kinds}
        self.calls.append(GroupCall(device.name, kind, numgrps, offset))
        grouping = group_cpus_evenly(
            topology, numgrps, revision=self.revision, spread_offset=offset
        )
        return [(kind, mask) for mask in grouping.masks[: grouping.nummasks]]

    def _place(
        self,
        device: Device,
        masks: Sequence[tuple[str, CpuSet]],
        numbers: Sequence[int] | None,
    ) -> list[Change]:
        """Allocate and request a device's vectors, those that are not managed first.

        Those may go to the online CPUs of their node, the first one here
        (``irq_setup_affinity()``, kernel/irq/manage.c).
        """
        pre = device.pre_vectors
        home = next(
            cpus
            for cpus in self.machine.topology.nodes.values()
            if cpus & self.machine.topology.online
        )
        kind = "admin" if device.kind == "nvme" else "config"
        every = [(kind, self.core.online & home or self.core.online)] * pre + list(masks)
        if numbers is None:
            numbers = self.core.free_numbers(len(every), FIRST_NUMBER)
        if len(numbers) != len(every):
            raise RequestError(f"{device.name}: {len(numbers)} numbers for {len(every)} vectors")
        if len(set(numbers)) < len(numbers) or not self.core.interrupts.keys().isdisjoint(numbers):
            raise RequestError(f"{device.name}: one of its numbers is another interrupt's")
        return self.core.setup(
            [
                LiveInterrupt(
                    number,
                    device.name,
                    at + 1 - pre,
                    kind,
                    Vector(at, mask.mask, at >= pre and device.kind != "mana"),
                    None,
                    False,
                )
                for at, (number, (kind, mask)) in enumerate(zip(numbers, every, strict=True))
            ]
        )
