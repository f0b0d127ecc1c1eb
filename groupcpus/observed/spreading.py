# SPDX-License-Identifier: GPL-2.0-only
"""Other functions of the kernel that spread interrupts, recognised by their results."""

import re
from collections.abc import Sequence

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup
from groupcpus.engine.topology import Topology
from groupcpus.sources.found import FoundDevice, Vector

__all__ = ["MOST_PRE_VECTORS", "other_function"]

# Vectors before those that are spread: configuration, admin queue, low-latency queues.
MOST_PRE_VECTORS = 8

_Masks = Sequence[CpuSet | None]


def other_function(topology: Topology, found: FoundDevice) -> str | None:
    """Name the function whose result a device's affinities are; None if none is known."""
    queues = sorted(found.queues, key=lambda one: (one.queue or 0, one.irq))
    masks = [one.told.affinity for one in queues]
    if not masks:
        return None
    return (
        _virtnet(topology, found, queues, masks)
        or _mana(topology, found, masks)
        or _local_spread(topology, found, masks)
    )


def _virtnet(
    topology: Topology, found: FoundDevice, queues: Sequence[Vector], masks: _Masks
) -> str | None:
    """Recognise ``virtnet_set_affinity()`` (drivers/net/virtio_net.c, Linux 6.12)."""
    by_direction: dict[str, dict[int, CpuSet | None]] = {}
    for vector, mask in zip(queues, masks, strict=True):
        named = re.fullmatch(r"virtio[0-9]+-(input|output)\.([0-9]{1,6})", vector.name)
        if not named:
            return None
        by_direction.setdefault(named[1], {})[int(named[2])] = mask
    if set(by_direction) != {"input", "output"}:
        return None
    pairs = max(map(len, by_direction.values()))
    online = list(topology.online)
    if pairs < 2:
        return None
    share, more = divmod(len(online), pairs) if len(online) >= pairs else (1, 0)
    at = 0
    for pair in range(pairs):
        size = share + (pair < more)
        mine = CpuSet(online[(at + i) % len(online)] for i in range(size))
        at += size
        if any(numbers.get(pair) != mine for numbers in by_direction.values()):
            return None
    return f"virtnet_set_affinity() deals the online CPUs in order to {pairs} pairs of queues"


def _mana(topology: Topology, found: FoundDevice, masks: _Masks) -> str | None:
    """Recognise MANA's ``irq_setup()``; the first vector may be the hardware channel's."""
    if found.kind != "mana":
        return None
    nodes = [found.node] if found.node in topology.nodes else list(topology.nodes)
    for node in nodes:
        for version in ("merged", "posted"):
            for first in (0, 1):
                told = masks[first:]
                if (
                    told
                    and node is not None
                    and list(told) == list(irq_setup(topology, len(told), node, version=version))
                ):
                    return f"irq_setup() of the MANA driver ({version}), outward from node {node}"
    return None


def _local_spread(topology: Topology, found: FoundDevice, masks: _Masks) -> str | None:
    """Recognise one CPU a queue, counted outward from a node; or from no node: 0, 1, 2, ..."""
    cpus = [mask.first for mask in masks if mask is not None and len(mask) == 1]
    if len(cpus) < len(masks) or not topology.online:
        return None
    online = list(topology.online)
    nodes = [found.node] if found.node in topology.nodes else list(topology.nodes)
    for node in nodes:
        order = [
            cpumask_local_spread(topology, at, node) if node is not None else at
            for at in range(len(online))
        ]
        for first in range(MOST_PRE_VECTORS + 1):
            if cpus == [order[(first + at) % len(order)] for at in range(len(cpus))]:
                start = f", from the {first}. CPU on" if first else ""
                return f"cpumask_local_spread() outward from node {node}, a CPU a queue{start}"
    if cpus == [online[at % len(online)] for at in range(len(cpus))]:
        return "a CPU a queue in the order of their numbers: cpumask_local_spread() without a node"
    return None
