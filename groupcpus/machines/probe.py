# SPDX-License-Identifier: GPL-2.0-only
"""A run: all devices of a machine probed, every interrupt on its effective CPU."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import Grouping, group_cpus_evenly
from groupcpus.engine.irq_setup import irq_setup
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.errors import RequestError, brief
from groupcpus.machines.bounds import best_maximum, least_maximum, most_used
from groupcpus.machines.devices import Device, ProbeCall, probe_calls
from groupcpus.machines.machine import Machine, read_machine

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Call", "Interrupt", "Run", "Summary", "simulate"]

_UINT_MAX = 0xFFFFFFFF


@dataclass(frozen=True)
class Call:
    """A call of `group_cpus_evenly` that a device made."""

    device: str
    kind: str
    numgrps: int
    ticked: bool
    spread_offset: int
    grouping: Grouping


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
    def label(self) -> str:
        """Its name, such as ``nvme0q5``."""
        return f"{self.device}q{self.queue}"


@dataclass(frozen=True)
class Summary:
    """A run in figures; ``str()`` is what one would paste into a mail.

    Attributes
    ----------
    irqs : int
        Interrupts that some CPU handles.
    cpus, used : int
        Online CPUs, and those that handle any.
    most_used : int
        The greatest possible `used` with this irqchip, whatever the grouping.
    least, greatest : int
        Interrupts on the least and on the most loaded online CPU.
    best : int
        The least possible `greatest` with this irqchip, whatever the grouping.
    best_with_masks : int
        The least possible `greatest` with these masks, whatever the irqchip.
    histogram : dict of int to int
        How many online CPUs handle each number of interrupts.
    hot : int
        CPUs that handle an interrupt whose mask is that CPU alone.
    single : int
        Such interrupts.
    per_node : dict of int to int
        Interrupts handled in each node.
    """

    title: str
    irqs: int
    cpus: int
    used: int
    most_used: int
    least: int
    greatest: int
    best: int
    best_with_masks: int
    histogram: dict[int, int]
    hot: int
    single: int
    per_node: dict[int, int]

    @property
    def excess(self) -> int:
        """How far the most loaded CPU is above the best possible."""
        return self.greatest - self.best

    def __str__(self) -> str:
        spread = ", ".join(f"{cpus} CPUs x {irqs}" for irqs, cpus in self.histogram.items())
        distance = f"{self.excess} above it" if self.excess else "reached"
        nodes = "/".join(map(str, self.per_node.values()))
        reach = f" ({self.most_used} possible)" if self.used < self.most_used else ""
        return (
            f"{self.title}: {self.irqs} IRQs on {self.used} of {self.cpus} CPUs{reach}, "
            f"max {self.greatest} (best possible {self.best}, {distance}; with these masks "
            f"{self.best_with_masks}); {spread}; "
            f"{self.single} single-CPU IRQs on {self.hot} CPUs; per node {nodes}"
        )


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
        single (interrupts whose mask is this CPU alone).
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
            },
            index=pd.Index(topology.possible, name="cpu"),
        )
        return frame.astype({"cluster": "Int64"})

    @cached_property
    def per_node(self) -> "pd.DataFrame":
        """One row a node (the index).

        Columns: cpus (online), used, irqs, least, greatest and mean interrupts a CPU, single.
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
        )

    @cached_property
    def _partitions(self) -> list[int]:
        """The numgrps of each call whose groups became masks of managed interrupts."""
        served = {
            (irq.device, irq.kind)
            for irq in self.interrupts
            if irq.managed and irq.effective is not None
        }
        return [call.numgrps for call in self.calls if (call.device, call.kind) in served]

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
    def summary(self) -> Summary:
        """The run in figures, and as a line of text."""
        topology = self.machine.topology
        counts = {cpu: self.counts[cpu] for cpu in topology.online}
        order = self.probe if isinstance(self.probe, str) else "explicit order"
        ticked = self.spread_end != self.spread_start
        rotation = f", {order} from {self.spread_start}" if ticked else ""
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
            per_node={
                node: sum(counts.get(cpu, 0) for cpu in cpus)
                for node, cpus in topology.nodes.items()
                if cpus & topology.online
            },
        )


def simulate(
    machine: Machine | str | Path,
    *,
    revision: str | Revision,
    irqchip: str | None = None,
    probe: str | Sequence[str] = "admin-first",
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
    them there, vector 0 first.  Its admin (or configuration) interrupt is not managed and limited
    to the CPUs of one node, the first one here.

    Examples
    --------
    >>> run = simulate("L96as_v4", revision="cluster")
    >>> print(run.summary)
    L96as_v4, cluster, x86: 372 IRQs on 96 of 96 CPUs, max 6 (best possible 4, 2 above it; \
with these masks 6); 68 CPUs x 3, 28 CPUs x 6; 168 single-CPU IRQs on 28 CPUs; per node 186/186
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
    possible = len(machine.topology.possible)
    probing = probe_calls(machine.devices, possible, probe)

    spread_start &= _UINT_MAX
    counter = spread_start
    calls = []
    groupings: dict[tuple[int, int], Grouping] = {}
    interrupts: list[Interrupt] = []
    pre_interrupts: list[Interrupt] = []
    waiting: dict[str, list[Call]] = {}
    last = {call.device: call for call in probing if call.queue_set.interrupts}
    for request in probing:
        numgrps = request.queue_set.queues
        offset = revision.offset(numgrps, counter)
        if (numgrps, offset) not in groupings:
            groupings[numgrps, offset] = group_cpus_evenly(
                machine.topology, numgrps, revision=revision, spread_offset=offset
            )
        steps = revision.advance(numgrps)
        call = Call(
            request.device.name,
            request.queue_set.kind,
            numgrps,
            bool(steps),
            offset,
            groupings[numgrps, offset],
        )
        counter = (counter + steps) & _UINT_MAX
        calls.append(call)
        if request.queue_set.interrupts:
            waiting.setdefault(request.device.name, []).append(call)
        if last.get(request.device) is request:
            pre, own = _request(machine, request, waiting[request.device.name], chip)
            pre_interrupts += pre
            interrupts += own
    for device in machine.devices:
        if device.kind == "mana":
            interrupts += _mana(machine, device, chip)
    return Run(
        machine,
        revision,
        irqchip,
        probe if isinstance(probe, str) else tuple(probe),
        spread_start,
        counter,
        tuple(calls),
        tuple(interrupts),
        tuple(pre_interrupts),
    )


def _request(
    machine: Machine, request: ProbeCall, calls: list[Call], chip: Any
) -> tuple[list[Interrupt], list[Interrupt]]:
    """Allocate and request all vectors of a device whose masks are known."""
    device = request.device
    home = next(cpus for cpus in machine.topology.nodes.values() if cpus & machine.topology.online)
    masks = [home & machine.topology.online] * device.pre_vectors
    kinds = ["admin" if device.kind == "nvme" else "config"] * device.pre_vectors
    offsets = [0] * device.pre_vectors
    for call in calls:
        # The driver takes the masks that were filled; see Grouping.nummasks.
        filled = call.grouping.masks[: call.grouping.nummasks]
        masks += filled
        kinds += [call.kind] * len(filled)
        offsets += [call.spread_offset] * len(filled)
    managed = [vector >= device.pre_vectors for vector in range(len(masks))]
    effective = chip.assign(masks, managed)
    vectors = [
        Interrupt(device.name, queue, *vector)
        for queue, vector in enumerate(
            zip(kinds, masks, effective, offsets, managed, strict=True),
            # Queue 0 is the admin queue; a device without one counts from 1 all the same.
            start=1 - device.pre_vectors,
        )
    ]
    return vectors[: device.pre_vectors], vectors[device.pre_vectors :]


def _mana(machine: Machine, device: Device, chip: Any) -> list[Interrupt]:
    masks = irq_setup(machine.topology, device.io_queues, min(machine.topology.nodes))
    effective = chip.assign(masks, False)
    return [
        Interrupt(device.name, queue, "default", mask, cpu, 0, managed=False)
        for queue, (mask, cpu) in enumerate(zip(masks, effective, strict=True), start=1)
    ]
