# SPDX-License-Identifier: GPL-2.0-only
"""The probe: all devices of a machine call the function, and their interrupts are placed."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap
from pathlib import Path

from groupcpus.engine.group_cpus import Grouping, group_cpus_evenly
from groupcpus.engine.irq_setup import irq_setup
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.errors import RequestError, brief
from groupcpus.machines.devices import Device, ProbeCall, probe_calls
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.requests import Allocation, VectorWanted, place, request_order
from groupcpus.machines.run import PRE_KINDS, Call, Interrupt, Run, interrupts_of

__all__ = ["Callers", "simulate"]

_UINT_MAX = 0xFFFFFFFF

# Interrupts, and CPUs over all calls: a run of as many takes about a second.
_MAX_VECTORS = 1 << 15
_MAX_MASKED = 1 << 18


def simulate(
    machine: Machine | str | Path,
    *,
    revision: str | Revision,
    irqchip: str | None = None,
    probe: str | Sequence[str] = "admin-first",
    requests: str | Sequence[str] = "device-by-device",
    spread_start: int = 0,
) -> Run:
    """Probe all devices of a machine and place every interrupt.

    Parameters
    ----------
    machine : Machine, str or Path
        What to probe; a name or a file as `read_machine` takes.
    revision : str or Revision
        The version of `group_cpus_evenly`.
    irqchip : str, optional
        A name in `IRQCHIPS`; the machine's own when left out.
    probe : {"admin-first", "interleaved"} or sequence of str
        The order of the calls, see `probe_calls`.
    requests : {"device-by-device", "lockstep", "random-SEED"} or sequence of str
        The order in which the interrupts are requested and placed, see `request_order`.
    spread_start : int
        The call counter before the first call; it has 32 bits, so greater values wrap.

    Returns
    -------
    Run
        The calls, the interrupts and what can be counted about them.

    Raises
    ------
    RequestError
        If a name or number is none that can be, or no CPU is online.
    VectorSpaceError
        If a CPU has no vector left for a managed interrupt.

    Notes
    -----
    A device allocates all its vectors at the last of its calls that makes interrupts, and requests
    them, vector 0 first.  Its admin (or configuration) interrupt is not managed and limited to the
    CPUs of one node, the first one here.

    No interrupt is made with an empty mask (``alloc_descs()``, kernel/irq/irqdesc.c): a device that
    is given one tries again with as many vectors as came before it, which is one more call
    (``__pci_enable_msix_range()``, drivers/pci/msi/msi.c, Linux 6.12).

    Examples
    --------
    >>> run = simulate("L96as_v4", revision="cluster")
    >>> print(run.summary)
    L96as_v4, cluster, x86: 372 IRQs on 96 of 96 CPUs, max 6 (best possible 4, 2 above it; \
with these masks 6); 68 CPUs x 3, 28 CPUs x 6; 168 single-CPU IRQs on 28 CPUs; per node 186/186; \
max 6 submitters (best possible 6); in parallel, 31 random orders of requests: max 6 IRQs, \
6 submitters
    """
    if not isinstance(machine, Machine):
        machine = read_machine(machine)
    if isinstance(spread_start, bool) or not isinstance(spread_start, int) or spread_start < 0:
        raise RequestError(f"spread_start {brief(spread_start)}: expected 0 or more")
    if not machine.topology.online:
        raise RequestError(f"machine {machine.name}: no CPU is online")
    revision = get_revision(revision)
    irqchip = irqchip or machine.irqchip
    chip = make_irqchip(irqchip, machine.topology)
    probing = probe_calls(machine.devices, len(machine.topology.possible), probe)
    _refuse_too_much(machine, probing)
    callers = Callers(machine, revision, spread_start & _UINT_MAX)
    for request in probing:
        callers.call(request)
    allocations = callers.allocations()
    order = request_order(requests, {one.device: len(one.vectors) for one in allocations})
    pre_interrupts: list[Interrupt] = []
    interrupts: list[Interrupt] = []
    for allocation, effective in zip(allocations, place(chip, allocations, order), strict=True):
        own = interrupts_of(allocation, effective)
        pre_interrupts += [irq for irq in own if irq.queue < 1]
        interrupts += [irq for irq in own if irq.queue >= 1]
    return Run(
        machine,
        revision,
        irqchip,
        probe if isinstance(probe, str) else tuple(probe),
        spread_start & _UINT_MAX,
        callers.counter,
        tuple(callers.calls),
        tuple(interrupts),
        tuple(pre_interrupts),
        requests if isinstance(requests, str) else tuple(order),
    )


def _refuse_too_much(machine: Machine, probing: Sequence[ProbeCall]) -> None:
    """Refuse what would take long: a machine file of 300 bytes may ask for millions of vectors."""
    possible = len(machine.topology.possible)
    vectors = sum(
        min(call.queue_set.queues, possible) for call in probing if call.queue_set.interrupts
    )
    vectors += sum(device.io_queues for device in machine.devices if device.kind == "mana")
    if vectors > _MAX_VECTORS:
        raise RequestError(
            f"machine {machine.name}: {vectors} interrupts; at most {_MAX_VECTORS} are computed"
        )
    if len(probing) * possible > _MAX_MASKED:
        raise RequestError(
            f"machine {machine.name}: {len(probing)} calls that group {possible} CPUs; calls times "
            f"CPUs may be {_MAX_MASKED}"
        )


class Callers:
    """The devices of a machine as they call `group_cpus_evenly`, and the masks that they get.

    Parameters
    ----------
    machine : Machine
        The machine.
    revision : Revision
        The version of the function.
    counter : int
        The counter before the first call.
    groupings : dict, optional
        What calls answered by numgrps and offset, to be shared with other runs of the two.
    """

    def __init__(
        self,
        machine: Machine,
        revision: Revision,
        counter: int,
        groupings: dict[tuple[int, int], Grouping] | None = None,
    ) -> None:
        self.machine = machine
        self.revision = revision
        self.counter = counter
        self.calls: list[Call] = []
        # The counter as it stood when a device first took an offset, if it keeps that.
        self.kept: dict[str, int] = {}
        self.groupings = {} if groupings is None else groupings
        self.possible = len(machine.topology.possible)
        # The calls behind the interrupts of each device, in the order of the devices' last ones.
        self.made: dict[Device, list[Call]] = {}

    def call(self, request: ProbeCall) -> None:
        """Make a call; where it was a device's last one for interrupts, it has all its masks."""
        call = self._group(request.device.name, request.queue_set.kind, request.queue_set.queues)
        if request.queue_set.interrupts:
            own = [*self.made.pop(request.device, []), call]
            wanted = [one for one in request.device.queue_sets(self.possible) if one.interrupts]
            self.made[request.device] = (
                self._without_empty_masks(request.device, own) if len(own) == len(wanted) else own
            )

    def _group(self, device: str, kind: str, numgrps: int) -> Call:
        counter, steps = self.counter, self.revision.advance(numgrps)
        if self.revision.per_device and steps:
            if device in self.kept:
                steps = 0
            counter = self.kept.setdefault(device, counter)
        offset = self.revision.offset(numgrps, counter)
        # The devices of a machine mostly make the same calls.
        if (numgrps, offset) not in self.groupings:
            self.groupings[numgrps, offset] = group_cpus_evenly(
                self.machine.topology, numgrps, revision=self.revision, spread_offset=offset
            )
        self.counter = (self.counter + steps) & _UINT_MAX
        call = Call(device, kind, numgrps, bool(steps), offset, self.groupings[numgrps, offset])
        self.calls.append(call)
        return call

    def _without_empty_masks(self, device: Device, calls: list[Call]) -> list[Call]:
        """Ask again for as many vectors as came before the first one that has no CPU."""
        while True:
            masks = [mask for call in calls for mask in call.filled]
            kept = next((at for at, mask in enumerate(masks) if not mask), len(masks))
            if kept == len(masks) or not kept:
                return calls if kept else []
            fewer = replace(device, io_queues=kept + device.poll_queues)
            calls = [
                self._group(device.name, one.kind, one.queues)
                for one in fewer.queue_sets(self.possible)
                if one.interrupts
            ]

    def allocations(self) -> list[Allocation]:
        """Return the vectors of all devices, in the order in which they allocate them."""
        allocations = [_allocation(self.machine, *made) for made in self.made.items()]
        mana = (device for device in self.machine.devices if device.kind == "mana")
        return allocations + [_mana(self.machine, device) for device in mana]


def _allocation(machine: Machine, device: Device, calls: Sequence[Call]) -> Allocation:
    """Return the vectors of a device whose masks are known."""
    home = next(cpus for cpus in machine.topology.nodes.values() if cpus & machine.topology.online)
    vectors = [(PRE_KINDS.get(device.kind, ""), home & machine.topology.online, 0, False)]
    vectors *= device.pre_vectors
    for call in calls:
        vectors += [(call.kind, mask, call.spread_offset, True) for mask in call.filled]
    return Allocation(device.name, tuple(starmap(VectorWanted, vectors)))


def _mana(machine: Machine, device: Device) -> Allocation:
    masks = irq_setup(machine.topology, device.io_queues, min(machine.topology.nodes))
    return Allocation(device.name, tuple(VectorWanted("default", mask, 0, False) for mask in masks))
