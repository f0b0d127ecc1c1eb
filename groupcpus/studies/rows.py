# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a run, one way for all: a run of `simulate`, the engine's sweeps, the batch's.

Whoever places interrupts counts them by CPU (`Counts`); what a row says follows from the counts
alone, in `Place.rows`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.machines.bounds import (
    least_maximum,
    least_submitters,
    reachable_cpus,
    reachable_maximum,
    takes_first,
)
from groupcpus.machines.machine import Machine
from groupcpus.machines.run import Run
from groupcpus.studies.batch import Counts

__all__ = ["Configuration", "Place", "Row", "add_interrupts", "crossings", "figures"]


class Row(NamedTuple):
    """One configuration and what came of it."""

    machine: str
    cpus: int
    """Online CPUs."""
    nodes: int
    devices: int
    queues: int
    """The greatest number of I/O queues of any device."""
    revision: str
    irqchip: str
    probe: str
    requests: str
    start: int
    """The counter before the first call."""
    irqs: int
    """Interrupts of queues that some CPU handles."""
    greatest: int
    """Interrupts of the CPU that handles most."""
    mean: float
    """Interrupts a CPU."""
    used: int
    """CPUs that handle any."""
    hot: int
    """CPUs that handle interrupts whose masks have no other CPU."""
    imbalance: float
    """Interrupts a CPU of the node that has most of them, less those of the one with fewest."""
    cross_node: int
    """Masks with CPUs of several nodes."""
    cross_cluster: int
    """Masks with CPUs of several clusters; 0 where none are known."""
    bound: int
    """The least possible `greatest` with this irqchip, whatever the grouping."""
    fair_bound: int
    """The same for groupings that are as fair as `cluster`; see `reachable_maximum`."""
    usable: int
    """The most CPUs that such a grouping can use; see `reachable_cpus`."""
    submitters: int
    """Submitters of the CPU that completes for most; see `Run.submitters`."""
    submitters_bound: int
    """The least possible of that, whatever the grouping and the irqchip."""


class Configuration(NamedTuple):
    """What was run on a machine."""

    devices: int
    queues: int
    revision: str
    irqchip: str
    probe: str
    requests: str
    start: int
    numgrps: tuple[int, ...]
    """Of each call behind interrupts."""


class Place:
    """A machine, and what the rows of all its configurations share."""

    def __init__(self, machine: Machine) -> None:
        self.name = machine.name
        self.topology = machine.topology
        online = machine.topology.online
        self.online = np.array([*online])
        nodes = [cpus & online for cpus in machine.topology.nodes.values()]
        self.nodes = [np.array([*cpus]) for cpus in nodes if cpus]
        self.bounds: dict[tuple[int, ...], tuple[int, int, int]] = {}

    def rows(self, configurations: Sequence[Configuration], counts: Counts) -> list[Row]:
        """Return the rows of some configurations, in the order of their counts."""
        loads = counts.loads[:, self.online]
        means = np.stack([counts.loads[:, node].sum(1) / len(node) for node in self.nodes])
        cpus = len(self.online)
        figures = zip(
            loads.sum(1).tolist(),
            loads.max(1).tolist(),
            (loads.sum(1) / cpus).tolist(),
            (loads > 0).sum(1).tolist(),
            counts.hot[:, self.online].sum(1).tolist(),
            (means.max(0) - means.min(0)).tolist(),
            *counts.crossing.T.tolist(),
            strict=True,
        )
        submitters = counts.submitters[:, self.online].max(1).tolist()
        place = (self.name, cpus, len(self.nodes))
        return [
            Row._make((*place, *run[:7], *counted, *self.bound(run, counted[0], load)))
            for run, counted, load in zip(configurations, figures, submitters, strict=True)
        ]

    def bound(self, configuration: Configuration, irqs: int, submitters: int) -> tuple[int, ...]:
        """Return the last five figures of a row."""
        cpus, irqchip = len(self.online), configuration.irqchip
        best = least_maximum(cpus, irqs, len(configuration.numgrps), irqchip)
        fair, usable, least = self.fair(configuration.numgrps)
        usable = min(usable if takes_first(irqchip) else cpus, cpus, irqs)
        return best, max(best, fair), usable, submitters, least

    def fair(self, numgrps: tuple[int, ...]) -> tuple[int, int, int]:
        """Bound what fair groupings reach, as far as all CPUs are online; and the submitters."""
        numgrps = tuple(sorted(numgrps))
        if numgrps not in self.bounds:
            cpus = len(self.online)
            reached = 0, cpus
            if self.topology.online == self.topology.possible:
                reached = (
                    reachable_maximum(self.topology, numgrps),
                    reachable_cpus(self.topology, numgrps),
                )
            self.bounds[numgrps] = *reached, least_submitters(cpus, numgrps)
        return self.bounds[numgrps]


def crossings(topology: Topology, masks: Iterable[CpuSet]) -> tuple[int, int]:
    """Return how many masks have CPUs of several nodes, and of several clusters."""
    across_nodes = across_clusters = 0
    for mask in filter(None, masks):
        last = mask.mask.bit_length() - 1
        cluster = topology.cluster_of(last)
        across_nodes += not mask <= topology.nodes[topology.node_of(last)]
        across_clusters += bool(cluster) and not mask <= cluster
    return across_nodes, across_clusters


def add_interrupts(
    sizes: Sequence[int], effective: Sequence[int | None], counts: Counts, row: int
) -> None:
    """Add interrupts, with the sizes of their masks and the CPUs that handle them, to a row."""
    handled = [(cpu, size) for cpu, size in zip(effective, sizes, strict=True) if cpu is not None]
    if handled:
        cpus, submitters = np.array(handled).T
        np.add.at(counts.loads[row], cpus, 1)
        np.add.at(counts.submitters[row], cpus, submitters)
        counts.hot[row, cpus[submitters == 1]] = 1


def figures(run: Run) -> Row:
    """Return the row of a run that `simulate` made, as `sweep` has it.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> row = figures(simulate("L96as_v4", revision="rotate-tiled", irqchip="gicv3"))
    >>> row.greatest, row.used, row.usable
    (6, 96, 96)
    """
    topology = run.machine.topology
    counts = Counts.zeros(1, topology.possible.mask.bit_length())
    masks = [irq.affinity for irq in run.interrupts]
    add_interrupts(list(map(len, masks)), [irq.effective for irq in run.interrupts], counts, 0)
    counts.crossing[0] = crossings(topology, masks)
    served = {(irq.device, irq.kind) for irq in run.interrupts}
    # A device whose masks were refused asked again: its last calls count.
    last = {
        (call.device, call.kind): call.numgrps
        for call in run.calls
        if (call.device, call.kind) in served
    }
    configuration = Configuration(
        len(run.machine.devices),
        max((device.io_queues for device in run.machine.devices), default=0),
        run.revision.name,
        run.irqchip,
        run.probe if isinstance(run.probe, str) else "explicit",
        run.requests if isinstance(run.requests, str) else "explicit",
        run.spread_start,
        tuple(last.values()),
    )
    return Place(run.machine).rows([configuration], counts)[0]
