# SPDX-License-Identifier: GPL-2.0-only
"""Machines from hwloc's synthetic lines."""

import pytest

from groupcpus import Topology
from groupcpus.errors import FormatError
from groupcpus.sources.synthetic import parse_synthetic


@pytest.mark.parametrize(
    ("line", "uniform"),
    [
        ("node:2 core:24 pu:2", (2, 48, 2, 2)),
        ("NUMANode:2 Core:24 PU:2", (2, 48, 2, 2)),
        ("pack:2 die:1 numa:2 l3:2 l2:4 core:2 pu:2", (4, 32, 2, 4)),
        ("node:1 cluster:10 core:4 pu:1", (1, 40, 1, 4)),
        ("pu:2", (1, 2, 1, 1)),
        ("node:8 core:64 pu:2", (8, 128, 2, 2)),
    ],
)
def test_lines_make_uniform_machines(line, uniform):
    nodes, cpus, threads, cluster = uniform
    expected = Topology.uniform(nodes=nodes, cpus_per_node=cpus, threads=threads, cluster=cluster)
    assert parse_synthetic(line) == expected


def test_threads_can_be_half_a_machine_apart():
    topology = parse_synthetic("node:2 core:3 pu:2", strided=True)
    assert {node: str(cpus) for node, cpus in topology.nodes.items()} == {
        0: "0-2,6-8",
        1: "3-5,9-11",
    }
    assert [str(core) for core in topology.siblings] == ["0,6", "1,7", "2,8", "3,9", "4,10", "5,11"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "does not end with the CPUs"),
        ("node:2 core:24", "does not end with the CPUs"),
        ("node:2 core:24 pu:2 l1:1", "does not end with the CPUs"),
        ("core:2 node:2 pu:2", "'node:2'; expected node, cluster, core, pu inwards"),
        ("node:2 node:2 pu:2", "'node:2'; expected node, cluster, core, pu inwards"),
        ("node:2 core:0 pu:2", "'core:0'"),
        ("node:2 gpu:2 pu:2", "'gpu:2'"),
        ("node:2 core:2(indexes=0,1) pu:2", "(indexes=0,1)"),
        ("node:99 core:99 pu:99", "8192"),
        ("node:2048 pu:1", "2048 nodes"),
        ("node:２ pu:1", "node:"),
        ("node:2 " * 400, "characters"),
        ("pu:" + "9" * 500, "pu:999"),
    ],
)
def test_other_lines_are_refused_in_one_short_sentence(line, words):
    with pytest.raises(FormatError) as error:
        parse_synthetic(line)
    assert words in str(error.value)
    assert len(str(error.value)) < 160
