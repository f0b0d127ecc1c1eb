# SPDX-License-Identifier: GPL-2.0-only
"""Masks that people have published of their own machines come out of the engine."""

import tomllib
from pathlib import Path

import pytest

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.topology import Topology

OBSERVED = tomllib.loads(
    (Path(__file__).parent / "data" / "observed.toml").read_text(encoding="utf-8")
)["machines"]
each = pytest.mark.parametrize("seen", OBSERVED, ids=lambda seen: seen["name"])


def topology(seen):
    nodes = {int(node): CpuSet(cpus) for node, cpus in seen["nodes"].items()}
    cpus = CpuSet(cpu for node in nodes.values() for cpu in node)
    siblings = []
    if stride := seen.get("stride"):
        siblings = [CpuSet([cpu, cpu + stride]) for cpu in range(stride)]
    elif "pairs" in seen:
        paired = list(CpuSet(seen["pairs"]))
        siblings = [CpuSet(paired[at : at + 2]) for at in range(0, len(paired), 2)]
    size = seen.get("clusters", 1)
    clusters = [CpuSet(range(first, first + size)) for first in range(0, len(cpus), size)]
    return Topology(cpus, cpus, cpus, nodes, clusters, siblings)


def masks(seen, revision):
    """Give the masks of all calls, one behind the other."""
    machine = topology(seen)
    return [
        mask
        for numgrps in seen["numgrps"]
        for mask in group_cpus_evenly(machine, numgrps, revision=revision).masks
    ]


def published(seen):
    return [CpuSet(mask) for mask in seen["masks"].split()]


@each
def test_the_masks_come_out(seen):
    for revision in seen["revisions"]:
        got, expected = masks(seen, revision), published(seen)
        if seen.get("any_order"):
            got, expected = (sorted(sets, key=lambda one: one.mask) for sets in (got, expected))
        assert got == expected, revision


def test_where_nodes_are_unequal_or_clusters_known_another_revision_gives_other_masks():
    """A revision that is not the kernel's is told from it: the comparison can fail."""
    clustered = next(seen for seen in OBSERVED if "clusters" in seen)
    assert sorted(map(str, masks(clustered, "numa"))) != sorted(map(str, published(clustered)))
    two_nodes = next(seen for seen in OBSERVED if seen["numgrps"] == [24])
    assert masks(two_nodes, "numa")[:12] == [CpuSet([cpu]) for cpu in topology(two_nodes).nodes[1]]


@pytest.mark.parametrize(
    "seen", [seen for seen in OBSERVED if "effective" in seen], ids=lambda seen: seen["name"]
)
def test_the_effective_cpus_come_out(seen):
    chip = make_irqchip(seen["irqchip"], topology(seen))
    expected = [int(cpu) for cpu in seen["effective"].split()]
    assert chip.assign(masks(seen, seen["revisions"][0]))[: len(expected)] == expected


@pytest.mark.parametrize(
    "seen", [seen for seen in OBSERVED if "seen" in seen], ids=lambda seen: seen["name"]
)
def test_single_interrupts_that_were_seen_come_out(seen):
    chip = make_irqchip(seen["irqchip"], topology(seen))
    effective = chip.assign(masks(seen, seen["revisions"][0]))
    assert {int(queue): effective[int(queue) - 1] for queue in seen["seen"]} == {
        int(queue): cpu for queue, cpu in seen["seen"].items()
    }
