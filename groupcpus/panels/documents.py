# SPDX-License-Identifier: GPL-2.0-only
"""What the live view is fed with: machines, runs and calls as small documents for JSON."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import explain
from groupcpus.engine.steps import Assigned, Step
from groupcpus.engine.topology import Topology
from groupcpus.machines.run import Interrupt, Run
from groupcpus.pictures.layout import best_layout, holds_one_cluster, joints, topology_graph

__all__ = ["by_device", "live_deal", "live_machine", "live_run", "why"]

# The width and height that a map is laid out for, in any unit.
_PAGE = (5.6, 5.6)
_RULES = {
    "x86": "x86 takes the online CPU of the mask with the fewest managed interrupts, "
    "the last one on a tie",
    "its": "the ITS takes the CPU of the mask with the fewest managed interrupts, "
    "the first one on a tie",
    "its-first": "the ITS before Linux 5.8 takes the first CPU of the mask",
    "gicv3": "GICv3 without ITS takes the first online CPU of the mask",
    "gicv2m": "GICv2m takes the first online CPU of the mask",
}


@lru_cache(maxsize=16)
def live_machine(topology: Topology) -> dict[str, Any]:
    """Return a machine's CPUs, node by node, and where its map has them.

    Examples
    --------
    >>> document = live_machine(Topology.uniform(nodes=2, cpus_per_node=2, threads=2))
    >>> document["cpus"], document["nodes"], document["cores"], document["map"]["joints"]
    ([0, 1, 2, 3], [[0, 2], [1, 2]], [0, 0, 2, 2], [[0, 1], [2, 3]])
    """
    cpus = [cpu for members in topology.nodes.values() for cpu in members]
    clusters = [topology.cluster_id(cpu) for cpu in cpus]
    return {
        "cpus": cpus,
        "nodes": [[node, len(members)] for node, members in topology.nodes.items() if members],
        "clusters": [-1 if cluster is None else cluster for cluster in clusters],
        "cores": [topology.core_id(cpu) for cpu in cpus],
        "online": [int(cpu in topology.online) for cpu in cpus],
        "map": _map(topology, {cpu: at for at, cpu in enumerate(cpus)}),
    }


def _map(topology: Topology, position: Mapping[int, int]) -> dict[str, Any]:
    graph = topology_graph(topology)
    layout = best_layout(graph, *_PAGE)
    number = {leaf: at for at, leaf in enumerate(layout.places)}
    boxes = []
    for vertex, pieces in layout.boxes.items():
        cpus = graph.nodes[vertex]["cpus"]
        is_node = graph.nodes[vertex]["level"] == "node"
        if is_node or holds_one_cluster(topology, cpus):
            for at, piece in enumerate(pieces):
                name = vertex[1] if is_node and not at else None
                boxes.append(["node" if is_node else "cluster", *map(_short, piece), name])
    boxes.sort(key=lambda box: box[0] != "node")
    return {
        "width": _short(layout.width),
        "height": _short(layout.height),
        "leaves": [
            [_short(x), _short(y), [position[cpu] for cpu in graph.nodes[leaf]["cpus"]]]
            for leaf, (x, y) in layout.places.items()
        ],
        "boxes": boxes,
        "joints": [[number[a], number[b]] for a, b in joints(topology, graph, layout)],
    }


def _short(number: float) -> float:
    return round(number, 3)


def by_device(run: Run) -> list[tuple[str, list[Interrupt]]]:
    """Return the interrupts of each device, in the order of its queues."""
    found: dict[str, list[Interrupt]] = {}
    for irq in run.interrupts:
        found.setdefault(irq.device, []).append(irq)
    return list(found.items())


def live_run(run: Run, when: str = "") -> dict[str, Any]:
    """Return a run as the live view draws it; positions are those in `live_machine`.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> document = live_run(simulate("D16plds_v6", revision="cluster"), "before")
    >>> document["devices"], document["cpu"], document["masks"][document["mask"][0]]
    ([['nvme0', 6], ['nvme1', 6]], [0, 3, 6, 9, 12, 14, 0, 3, 6, 9, 12, 14], '0-2')
    """
    position = {cpu: at for at, cpu in enumerate(live_machine(run.machine.topology)["cpus"])}
    position_of = {None: -1, **position}
    masks: dict[CpuSet, int] = {}
    devices, cpu, mask = [], [], []
    for name, irqs in by_device(run):
        devices.append([name, len(irqs)])
        for irq in irqs:
            cpu.append(position_of[irq.effective])
            mask.append(masks.setdefault(irq.affinity, len(masks)))
    document = {
        "when": when,
        "revision": run.revision.name,
        "irqchip": run.irqchip,
        "best": run.best,
        "mostUsed": run.most_used,
        "devices": devices,
        "cpu": cpu,
        "mask": mask,
        "masks": [str(cpus) for cpus in masks],
        "submitters": [run.submitters[at] for at in position],
    }
    if run.lost:
        document["lost"] = dict(run.lost)
    return document


def why(run: Run, number: int) -> list[str]:
    """Return sentences that say why an interrupt is where it is.

    Parameters
    ----------
    run : Run
        What happened.
    number : int
        The interrupt's place in the documents of `live_run`.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> why(simulate("L96as_v4", revision="cluster"), 4)[1]
    'group 4: CPUs 60, 61 of cluster 60-61'
    """
    irqs = [irq for _, members in by_device(run) for irq in members]
    if not 0 <= number < len(irqs):
        return []
    irq = irqs[number]
    calls = [call for call in run.calls if (call.device, call.kind) == (irq.device, irq.kind)]
    rule = _RULES.get(run.irqchip, f"{run.irqchip} picked the CPU")
    if not irq.managed or not calls:
        return [f"not managed: {irq.label}'s mask is {irq.affinity or 'empty'}"]
    call = calls[0]
    same = [other for other in irqs if (other.device, other.kind) == (irq.device, irq.kind)]
    group = next(at for at, other in enumerate(same) if other is irq)
    _, steps = explain(
        run.machine.topology, call.numgrps, revision=run.revision, spread_offset=call.spread_offset
    )
    offset = f", offset {call.spread_offset}" if call.ticked or call.spread_offset else ""
    sentences = [f"{irq.device} asked for {call.numgrps} groups{offset}"]
    sentences += _of_group(steps, group)
    if irq.effective is None:
        return [*sentences, "no CPU of the mask is online, so it stays shut down"]
    return [*sentences, rule] if len(irq.affinity) > 1 else [*sentences, "there is no other choice"]


def _of_group(steps: Sequence[Any], group: int) -> list[str]:
    found = [str(step) for step in steps if isinstance(step, Assigned) and step.group == group]
    # Fewer groups than nodes: whole nodes are put together.
    return found or [str(step) for step in steps[-1:]]


def live_deal(topology: Topology, steps: Sequence[Step]) -> dict[str, Any]:
    """Return the decisions of a call, and what each added to which group.

    Examples
    --------
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4)
    >>> _, steps = explain(machine, 2, revision="cluster")
    >>> live_deal(machine, steps)["steps"][4]["given"]
    [[0, '4-5']]
    """
    from groupcpus.engine.progress import progress_of

    found: list[dict[str, Any]] = []
    before: list[CpuSet] = []
    for upto in range(1, len(steps) + 1):
        state = progress_of(topology, steps[:upto])
        held = before + [CpuSet()] * (len(state.groups) - len(before))
        given = [
            [group, str(cpus - held[group])]
            for group, cpus in enumerate(state.groups)
            if cpus != held[group]
        ]
        before = list(state.groups)
        found.append(
            {
                "sentence": state.sentence,
                "given": given,
                "focus": str(state.focus),
                "nodes": dict(state.node_groups),
            }
        )
    return {"steps": found}
