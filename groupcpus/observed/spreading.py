# SPDX-License-Identifier: GPL-2.0-only
"""Who else sets affinities: defaults, and other functions of the kernel by their results."""

import re
from collections.abc import Sequence

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup
from groupcpus.engine.topology import Topology
from groupcpus.errors import CpuListError
from groupcpus.sources import Loaded
from groupcpus.sources.found import FoundDevice, FoundVector

__all__ = ["default_affinities", "other_function", "spread_at_once"]

# Vectors before those that are spread: configuration, admin queue, low-latency queues.
MOST_PRE_VECTORS = 8

_Masks = Sequence[CpuSet | None]


def default_affinities(loaded: Loaded, topology: Topology, node: int | None) -> dict[CpuSet, str]:
    """List the affinities that an interrupt has, of a node's device, if nobody sets another."""
    defaults = {topology.online: "all online CPUs", topology.possible: "all CPUs"}
    for one, cpus in topology.nodes.items():
        if (here := cpus & topology.online) and here not in defaults:
            whose = "the device's node" if one == node else "node"
            defaults[here] = f"the online CPUs of {whose} {one}"
            defaults.setdefault(cpus, f"the CPUs of {whose} {one}")
    for flag in loaded.cmdline:
        name, _, value = flag.partition("=")
        if name == "irqaffinity":
            try:
                defaults[CpuSet(value) & topology.online] = f"the default of {flag}"
            except CpuListError:
                continue  # the kernel ignores it too
    return defaults


def spread_at_once(loaded: Loaded, topology: Topology, found: FoundDevice) -> bool | None:
    """Return whether vectors were spread when they were allocated, by the nodes they are of.

    An interrupt that is spread is of the node of its mask's first CPU, any other one of its
    device's (``alloc_descs()``, kernel/irq/irqdesc.c, Linux 6.12).  None: nothing shows it.
    """
    shown = [one.told for one in found.queues]
    if not loaded.devices or any(one.affinity is None for one in shown):
        return None
    nodes = {one.node for one in shown}
    first = [one.affinity.first for one in shown if one.affinity]
    homes = [topology.node_of(cpu) for cpu in first if cpu is not None and cpu in topology.possible]
    if nodes != {found.node} and [one.node for one in shown] == homes:
        return True
    return False if nodes == {found.node} and set(homes) != nodes else None


def other_function(topology: Topology, found: FoundDevice) -> str | None:
    """Return the function whose result a device's affinities are; None if none is known."""
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
    topology: Topology, found: FoundDevice, queues: Sequence[FoundVector], masks: _Masks
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
