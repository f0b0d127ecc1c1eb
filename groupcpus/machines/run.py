# SPDX-License-Identifier: GPL-2.0-only
"""A run: what came of a probe, every interrupt on its effective CPU.

This module has over 450 lines since a run is one class, all that is known of it is asked of it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import Grouping
from groupcpus.engine.irqchips import Irqchip, make_irqchip
from groupcpus.engine.revisions import Revision
from groupcpus.machines.bounds import (
    best_maximum,
    least_maximum,
    least_submitters,
    most_used,
    takes_first,
)
from groupcpus.machines.machine import Machine
from groupcpus.machines.requests import (
    ORDERS,
    Allocation,
    Parallel,
    VectorWanted,
    place,
    place_at_random,
    request_order,
)
from groupcpus.machines.summary import Summary

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PRE_KINDS", "Call", "Interrupt", "Run", "interrupts_of"]

# What the random orders of a run may take together: half a second.
_MAX_PLACEMENTS = 200_000
_INTERRUPT_KINDS = ("default", "read")
# Which interrupt comes before those of the queues; only these two kinds of devices have one.
PRE_KINDS = {"nvme": "admin", "virtio": "config"}


@dataclass(frozen=True)
class Call:
    """A call of `group_cpus_evenly` that a device made."""

    device: str
    kind: str
    numgrps: int
    ticked: bool
    spread_offset: int
    grouping: Grouping

    @property
    def filled(self) -> tuple[CpuSet, ...]:
        """The masks that the driver takes: those that were filled, see `Grouping.nummasks`."""
        return self.grouping.masks[: self.grouping.nummasks]


@dataclass(frozen=True)
class Interrupt:
    """An interrupt: whose it is, its mask, and the CPU that handles it (None: shut down)."""

    device: str
    queue: int
    kind: str
    affinity: CpuSet
    effective: int | None
    spread_offset: int
    managed: bool = True

    @property
    def submitters(self) -> int:
        """How many possible CPUs submit to its queue: a managed queue's map is its mask."""
        return len(self.affinity) if self.managed and self.queue > 0 else 0

    @property
    def label(self) -> str:
        """Its name, such as ``nvme0q5``."""
        return f"{self.device}q{self.queue}"


@dataclass(frozen=True)
class Run:
    """All devices of a machine probed once.

    Attributes
    ----------
    machine : Machine
        What was probed.
    revision : Revision
        The version of `group_cpus_evenly`.
    irqchip : str
        The irqchip's name in `IRQCHIPS`.
    probe : str or tuple of str
        The order of the calls.
    spread_start, spread_end : int
        The counter before the first call and after the last one.
    calls : tuple of Call
        Every call of `group_cpus_evenly`, in order.
    interrupts : tuple of Interrupt
        Those of the queues, device by device in the order of their requests.
    pre_interrupts : tuple of Interrupt
        Those before the queues' (NVMe's admin queue, virtio's configuration); not managed.
    requests : str or tuple of str
        The order in which the interrupts were requested, see `request_order`.
    """

    machine: Machine
    revision: Revision
    irqchip: str
    probe: str | tuple[str, ...]
    spread_start: int
    spread_end: int
    calls: tuple[Call, ...]
    interrupts: tuple[Interrupt, ...]
    pre_interrupts: tuple[Interrupt, ...]
    requests: str | tuple[str, ...] = "device-by-device"

    @cached_property
    def counts(self) -> dict[int, int]:
        """How many queue interrupts each possible CPU handles."""
        handled = Counter(irq.effective for irq in self.interrupts)
        return {cpu: handled[cpu] for cpu in self.machine.topology.possible}

    @cached_property
    def single(self) -> dict[int, int]:
        """How many of each possible CPU's interrupts have a mask of that CPU alone."""
        handled = Counter(irq.effective for irq in self.interrupts if len(irq.affinity) == 1)
        return {cpu: handled[cpu] for cpu in self.machine.topology.possible}

    @cached_property
    def submitters(self) -> dict[int, int]:
        """How many submitters each possible CPU completes for.

        Every possible CPU submits to each queue that it is mapped to; a queue's map is the mask of
        its interrupt.  A CPU that submits to four disks counts as four.
        """
        handled = dict.fromkeys(self.machine.topology.possible, 0)
        for irq in self.interrupts:
            if irq.effective is not None:
                handled[irq.effective] += irq.submitters
        return handled

    @cached_property
    def lost(self) -> dict[str, int]:
        """How many queues each device went without, because a mask for one of them was empty."""
        wanted: dict[tuple[str, str], int] = {}
        for call in self.calls:
            if call.kind in _INTERRUPT_KINDS:
                wanted.setdefault((call.device, call.kind), call.numgrps)
        asked: Counter[str] = Counter()
        for (device, _), numgrps in wanted.items():
            asked[device] += numgrps
        # Groups beyond nummasks never had a vector of their own.
        got = Counter(irq.device for irq in self.interrupts)
        refused = {
            call.device
            for call in self.calls
            if call.kind in _INTERRUPT_KINDS and not all(call.filled)
        }
        return {device: asked[device] - got[device] for device in asked if device in refused}

    @cached_property
    def queue_map(self) -> "pd.DataFrame":
        """One row a hardware queue: who submits to it, and who is interrupted for it.

        Columns: device, queue, kind (``default``, ``read`` or ``poll``), cpus (the cpulist of those
        that submit to it), effective (the CPU that its interrupt goes to, <NA> without one).
        """
        import pandas as pd

        rows = [
            (irq.device, irq.queue, irq.kind, str(irq.affinity), irq.effective)
            for irq in self.interrupts
            if irq.managed
        ]
        last = Counter(row[0] for row in rows)
        for call in self.calls:
            if call.kind == "poll":
                polled = enumerate(call.filled, start=last[call.device] + 1)
                rows += [(call.device, queue, "poll", str(mask), None) for queue, mask in polled]
        columns = ["device", "queue", "kind", "cpus", "effective"]
        return pd.DataFrame(rows, columns=columns).astype({"effective": "Int64"})

    @cached_property
    def allocations(self) -> tuple[Allocation, ...]:
        """The vectors of each device, in the order of their requests."""
        own: dict[str, list[Interrupt]] = {}
        for irq in sorted((*self.pre_interrupts, *self.interrupts), key=lambda irq: irq.queue < 1):
            own.setdefault(irq.device, []).append(irq)
        return tuple(
            Allocation(
                device,
                tuple(
                    VectorWanted(irq.kind, irq.affinity, irq.spread_offset, irq.managed)
                    for irq in sorted(irqs, key=lambda irq: irq.queue)
                ),
            )
            for device, irqs in own.items()
        )

    def requested(self, requests: str | Sequence[str]) -> "Run":
        """Return the same run, its interrupts requested and placed in another order.

        Examples
        --------
        >>> from groupcpus import simulate
        >>> run = simulate("L96as_v4", revision="rotate-v2")
        >>> run.summary.greatest, run.requested("lockstep").summary.greatest
        (4, 5)
        """
        order = request_order(requests, {one.device: len(one.vectors) for one in self.allocations})
        chip = make_irqchip(self.irqchip, self.machine.topology)
        placed = place(chip, self.allocations, order)
        found = [
            irq
            for allocation, effective in zip(self.allocations, placed, strict=True)
            for irq in interrupts_of(allocation, effective)
        ]
        return replace(
            self,
            interrupts=tuple(irq for irq in found if irq.queue >= 1),
            pre_interrupts=tuple(irq for irq in found if irq.queue < 1),
            requests=requests if isinstance(requests, str) else tuple(order),
        )

    def in_parallel(self, orders: int = ORDERS) -> Parallel:
        """Return what comes of as many random orders of requests, of seeds 0, 1, 2 and so on.

        Examples
        --------
        >>> from groupcpus import simulate
        >>> print(simulate("L96as_v4", revision="rotate-v2").in_parallel(15))
        15 random orders of requests: max 5 IRQs, 8 submitters
        """
        fresh = make_irqchip(self.irqchip, self.machine.topology)
        vectors = [one for own in self.allocations for one in own.vectors]
        queues = [one.kind not in PRE_KINDS.values() for one in vectors]
        sizes = [len(one.mask) * one.managed for one in compress(vectors, queues)]
        irqs, submitters = [], []
        for placed in self._placed_at_random(fresh, orders):
            cpus = list(compress(chain.from_iterable(placed), queues))
            handled = Counter(cpus)
            load = dict.fromkeys(handled, 0)
            for cpu, size in zip(cpus, sizes, strict=True):
                load[cpu] += size
            # Those that are shut down.
            del handled[None]
            load.pop(None, None)
            irqs.append(max(handled.values(), default=0))
            submitters.append(max(load.values(), default=0))
        return Parallel(tuple(sorted(irqs)), tuple(sorted(submitters)))

    def _placed_at_random(self, chip: Irqchip, orders: int) -> Iterator[list[list[int | None]]]:
        if all(irq.managed for irq in self.interrupts):
            yield from place_at_random(chip, self.allocations, orders)
            return
        vectors = {one.device: len(one.vectors) for one in self.allocations}
        for seed in range(orders):
            order = request_order(f"random-{seed}", vectors)
            yield place(chip.fork(), self.allocations, order)

    @cached_property
    def parallel(self) -> Parallel:
        """The same masks with requests in parallel, as disks probe: `ORDERS` random orders.

        Of more than some thousand interrupts there are fewer orders, and one where none matters:
        for an irqchip that takes the first CPU, or a single device.
        """
        if takes_first(self.irqchip) or len(self.allocations) < 2:
            return self.in_parallel(1)
        cost = sum(len(one.vectors) for one in self.allocations)
        if make_irqchip(self.irqchip, self.machine.topology).charges_when_allocated:
            # It looks at all CPUs for each vector.
            cost *= 1 + len(self.machine.topology.online) // 32
        return self.in_parallel(max(1, min(ORDERS, _MAX_PLACEMENTS // cost)))

    @cached_property
    def irqs(self) -> "pd.DataFrame":
        """One row an interrupt of a queue.

        Columns: device, queue (1 is the first I/O queue), kind (``default``, ``read``), affinity
        (cpulist), effective (CPU, <NA> when shut down), node, cluster and core of that CPU (the
        last two named by their lowest CPU), single (the mask has one CPU), spread_offset.
        """
        return self._frame(self.interrupts)

    @cached_property
    def admin(self) -> "pd.DataFrame":
        """One row an interrupt before the queues' own (vector 0), in the columns of `irqs`."""
        return self._frame(self.pre_interrupts)

    def _frame(self, interrupts: Sequence[Interrupt]) -> "pd.DataFrame":
        import pandas as pd

        topology = self.machine.topology
        rows: list[tuple[Any, ...]] = []
        for irq in interrupts:
            cpu = irq.effective
            place: tuple[Any, ...] = (pd.NA, pd.NA, pd.NA)
            if cpu is not None:
                cluster = topology.cluster_id(cpu)
                place = (
                    topology.node_of(cpu),
                    pd.NA if cluster is None else cluster,
                    topology.core_id(cpu),
                )
            rows.append(
                (
                    irq.device,
                    irq.queue,
                    irq.kind,
                    str(irq.affinity),
                    pd.NA if cpu is None else cpu,
                    *place,
                    len(irq.affinity) == 1,
                    irq.spread_offset,
                )
            )
        columns = ["device", "queue", "kind", "affinity", "effective", "node", "cluster", "core"]
        frame = pd.DataFrame(rows, columns=[*columns, "single", "spread_offset"])
        types = dict.fromkeys(["device", "kind", "affinity"], "str")
        types |= dict.fromkeys(["effective", "node", "cluster", "core"], "Int64")
        types |= {"queue": "int64", "single": "bool", "spread_offset": "int64"}
        return frame.astype(types)

    @cached_property
    def per_cpu(self) -> "pd.DataFrame":
        """One row a possible CPU (the index).

        Columns: node, cluster, core, online, irqs (handled), devices (with an interrupt here),
        single (interrupts whose mask is this CPU alone), submitters (that it completes for).
        """
        import pandas as pd

        topology = self.machine.topology
        devices: dict[int | None, set[str]] = {}
        for irq in self.interrupts:
            devices.setdefault(irq.effective, set()).add(irq.device)
        frame = pd.DataFrame(
            {
                "node": [topology.node_of(cpu) for cpu in topology.possible],
                "cluster": [topology.cluster_id(cpu) for cpu in topology.possible],
                "core": [topology.core_id(cpu) for cpu in topology.possible],
                "online": [cpu in topology.online for cpu in topology.possible],
                "irqs": list(self.counts.values()),
                "devices": [len(devices.get(cpu, ())) for cpu in topology.possible],
                "single": list(self.single.values()),
                "submitters": list(self.submitters.values()),
            },
            index=pd.Index(topology.possible, name="cpu"),
        )
        return frame.astype({"cluster": "Int64"})

    @cached_property
    def per_node(self) -> "pd.DataFrame":
        """One row a node (the index).

        Columns: cpus (online), used, irqs, least, greatest and mean interrupts a CPU, single,
        submitters (that its CPUs complete for).
        """
        online = self.per_cpu[self.per_cpu["online"]]
        by_node = online.groupby("node")
        return by_node.agg(
            cpus=("irqs", "size"),
            used=("irqs", lambda irqs: int((irqs > 0).sum())),
            irqs=("irqs", "sum"),
            least=("irqs", "min"),
            greatest=("irqs", "max"),
            mean=("irqs", "mean"),
            single=("single", "sum"),
            submitters=("submitters", "sum"),
        )

    @cached_property
    def _partitions(self) -> list[int]:
        """The numgrps of each call whose groups became masks of managed interrupts."""
        served = {
            (irq.device, irq.kind)
            for irq in self.interrupts
            if irq.managed and irq.effective is not None
        }
        # A device whose masks were refused asked again: its last calls count.
        last = {(call.device, call.kind): call.numgrps for call in self.calls}
        return [numgrps for caller, numgrps in last.items() if caller in served]

    @cached_property
    def best(self) -> int:
        """The least possible maximum a CPU with this irqchip, whatever the grouping."""
        handled = sum(self.counts.values())
        online = len(self.machine.topology.online)
        return least_maximum(online, handled, len(self._partitions), self.irqchip)

    @cached_property
    def most_used(self) -> int:
        """The greatest possible number of used CPUs with this irqchip, whatever the grouping."""
        topology = self.machine.topology
        unmanaged = sum(not irq.managed for irq in self.interrupts)
        reached = most_used(topology, self._partitions, self.irqchip)
        return min(len(topology.online), reached + unmanaged)

    @cached_property
    def best_with_masks(self) -> int:
        """The least possible maximum a CPU with these masks, whatever the irqchip."""
        greatest = max(self.counts.values(), default=0)
        masks = (irq.affinity for irq in self.interrupts)
        return best_maximum(self.machine.topology, masks, reached=greatest)

    @cached_property
    def best_submitters(self) -> int:
        """The least possible maximum of submitters a CPU, whatever the grouping and the irqchip."""
        return least_submitters(len(self.machine.topology.online), self._partitions)

    @cached_property
    def summary(self) -> Summary:
        """The run in figures, and as a line of text."""
        topology = self.machine.topology
        counts = {cpu: self.counts[cpu] for cpu in topology.online}
        order = self.probe if isinstance(self.probe, str) else "explicit order"
        ticked = self.spread_end != self.spread_start
        rotation = f", {order} from {self.spread_start}" if ticked else ""
        if self.requests != "device-by-device":
            explicit = not isinstance(self.requests, str)
            rotation += f", requests {'in explicit order' if explicit else self.requests}"
        return Summary(
            title=f"{self.machine.name}, {self.revision.name}, {self.irqchip}{rotation}",
            irqs=sum(counts.values()),
            cpus=len(counts),
            used=sum(irqs > 0 for irqs in counts.values()),
            most_used=self.most_used,
            least=min(counts.values(), default=0),
            greatest=max(counts.values(), default=0),
            best=self.best,
            best_with_masks=self.best_with_masks,
            histogram=dict(sorted(Counter(counts.values()).items())),
            hot=sum(count > 0 for count in self.single.values()),
            single=sum(self.single.values()),
            submitters=max(self.submitters.values(), default=0),
            best_submitters=self.best_submitters,
            parallel=self.parallel,
            per_node={
                node: sum(counts.get(cpu, 0) for cpu in cpus)
                for node, cpus in topology.nodes.items()
                if cpus & topology.online
            },
        )


def interrupts_of(allocation: Allocation, effective: Sequence[int | None]) -> list[Interrupt]:
    """Return a device's interrupts, placed; queue 0 is the one before the queues' own."""
    pre = sum(vector.kind in PRE_KINDS.values() for vector in allocation.vectors)
    return [
        Interrupt(allocation.device, queue, one.kind, one.mask, cpu, one.spread_offset, one.managed)
        for queue, (one, cpu) in enumerate(
            zip(allocation.vectors, effective, strict=True), start=1 - pre
        )
    ]
