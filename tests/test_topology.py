# SPDX-License-Identifier: GPL-2.0-only
"""Topologies: what is accepted, what is refused, and what is asked of the function."""

import copy
import json
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError, TopologyError
from tests.strategies import made

GOOD = {
    "nodes": {"0": "0-3", "2": "4-7"},
    "siblings": ["0-1", "2-3", "4-5", "6-7"],
    "clusters": ["0-3", "4-7"],
    "possible": "0-7",
    "present": "0-6",
    "online": "0-5",
}


def changed(**fields):
    document = copy.deepcopy(GOOD) | fields
    return {field: value for field, value in document.items() if value is not ...}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"nodes": {"0": "0-4", "1": "4-7"}}, "nodes"),
        ({"nodes": {"0": "0-3", "1": "4-6"}}, "nodes"),
        ({"nodes": {"0": "0-3", "1": "4-8"}}, "nodes"),
        ({"nodes": {"0": "0-3", "00": "4-7"}}, "nodes"),
        ({"nodes": {}}, "nodes"),
        ({"nodes": ...}, "nodes"),
        ({"nodes": ["0-3", "4-7"]}, "nodes"),
        ({"nodes": {"-1": "0-7"}}, "nodes"),
        ({"nodes": {"a": "0-7"}}, "nodes"),
        ({"nodes": {"٣": "0-7"}}, "nodes"),
        ({"nodes": {"": "0-7"}}, "nodes"),
        ({"nodes": {"99999999999999999999": "0-7"}}, "nodes"),
        ({"nodes": {"1000000": "0-7"}}, "nodes"),
        ({"nodes": {"0": 7}}, "nodes"),
        ({"nodes": {"0": ["0", "1"]}}, "nodes"),
        ({"nodes": {"0": "0-3", "1": "7-4"}}, "nodes"),
        ({"siblings": ["0-1", "1-2"]}, "siblings"),
        ({"siblings": ["0-1", "0-1"]}, "siblings"),
        ({"siblings": ["3-4"]}, "siblings"),
        ({"siblings": "0-1"}, "siblings"),
        ({"siblings": [0, 1]}, "siblings"),
        ({"siblings": [None]}, "siblings"),
        ({"siblings": ["0-99999999"]}, "siblings"),
        ({"clusters": ["0-3", "3-7"]}, "clusters"),
        ({"clusters": {"0": "0-3"}}, "clusters"),
        ({"clusters": ["1,,2"]}, "clusters"),
        ({"no_cluster": "0"}, "no_cluster"),
        ({"no_cluster": ["0"]}, "no_cluster"),
        ({"no_cluster": "x"}, "no_cluster"),
        ({"possible": ...}, "possible"),
        ({"possible": "0-99999999"}, "possible"),
        ({"possible": "0-8192"}, "possible"),
        ({"possible": "0-6"}, "possible"),
        ({"possible": None}, "possible"),
        ({"possible": "", "present": "", "online": "", "nodes": {"0": ""}}, "present"),
        ({"present": ...}, "present"),
        ({"present": "0-8"}, "present"),
        ({"present": ""}, "present"),
        ({"present": "a"}, "present"),
        ({"present": 3}, "present"),
        ({"online": "0-7"}, "online"),
        ({"online": "-4"}, "online"),
        ({"distances": [[10]]}, "distances"),
        ({"distances": [[10, 20, 20], [20, 10, 20], [20, 20, -1]]}, "distances"),
        ({"distances": [[10, 20, 20], [20, 10, 20], [20, 20, "10"]]}, "distances"),
        ({"distances": "10"}, "distances"),
        ({"cpus": "0-7"}, "cpus"),
    ],
    ids=str,
)
def test_a_machine_that_cannot_be_is_refused(fields, names):
    with pytest.raises(TopologyError) as raised:
        Topology.from_dict(changed(**fields))
    assert isinstance(raised.value, GroupCpusError)
    assert names in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("document", [None, [], "0-3", 5, {}, {1: 2}, {"nodes": None}], ids=repr)
def test_what_is_no_document_is_refused(document):
    with pytest.raises(TopologyError):
        Topology.from_dict(document)


def test_huge_documents_are_refused_quickly():
    started = time.process_time()
    for fields in (
        {"nodes": {str(node): "" for node in range(9999)} | {"0": "0-7"}},
        {"siblings": ["0-8191"] * 50_000},
        {"clusters": [""] * 50_000 + ["0-7", "0"]},
        {"possible": "0-8191," * 100_000},
    ):
        with pytest.raises(TopologyError):
            Topology.from_dict(changed(**fields))
    assert time.process_time() - started < 5


def test_siblings_and_clusters_may_name_impossible_cpus():
    machine = Topology.from_dict(
        {
            "nodes": {"0": "0,2"},
            "siblings": ["0-1", "2-3"],
            "clusters": ["0-3"],
            "possible": "0,2",
            "present": "0,2",
        }
    )
    assert machine.siblings_of(0) == CpuSet("0-1")
    assert machine.cluster_of(2) == CpuSet("0-3")


def test_clusters_may_cross_nodes():
    machine = Topology.from_dict(changed(clusters=["0-1", "2-5"]))
    assert machine.cluster_of(3) == CpuSet("2-5")
    assert (machine.node_of(3), machine.node_of(4)) == (0, 2)


def test_what_is_left_out_of_a_document():
    machine = Topology.from_dict({"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-2"})
    assert machine.online == machine.present == CpuSet("0-2")
    assert machine.siblings_of(3) == machine.cluster_of(3) == CpuSet("3")


def test_a_cpu_without_cluster_has_an_empty_one():
    machine = Topology.from_dict(changed(clusters=["0-3"], no_cluster="4-5"))
    assert machine.cluster_of(4) == CpuSet()
    assert machine.cluster_of(6) == CpuSet("6")


@pytest.mark.parametrize("cpu", [-1, 8, 8191, 10**30, "0", None, 1.5], ids=repr)
def test_questions_about_impossible_cpus_are_refused(cpu):
    machine = Topology.from_dict(GOOD)
    for question in (machine.node_of, machine.cluster_of, machine.siblings_of):
        with pytest.raises(GroupCpusError):
            question(cpu)


@given(made())
def test_a_machine_answers_as_its_document_says(machine):
    topology = machine.topology
    for cpu in topology.possible:
        assert topology.siblings_of(cpu).mask == machine.plain.topology_sibling_cpumask[cpu]
        assert topology.cluster_of(cpu).mask == machine.plain.topology_cluster_cpumask[cpu]
        assert machine.plain.node_to_cpumask[topology.node_of(cpu)] >> cpu & 1
        assert cpu in topology.nodes[topology.node_of(cpu)]
    assert str(topology.online) == str(CpuSet(machine.document["online"]))


@given(made())
def test_a_document_is_read_back(machine):
    document = machine.topology.to_dict()
    again = Topology.from_dict(json.loads(json.dumps(document)))
    assert again == machine.topology
    assert hash(again) == hash(machine.topology)
    assert again.to_dict() == document
    assert pickle.loads(pickle.dumps(again)) == again


def test_a_topology_is_immutable():
    machine = Topology.from_dict(GOOD)
    with pytest.raises(AttributeError):
        machine.online = CpuSet()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del machine.online
    with pytest.raises(TypeError):
        machine.nodes[5] = CpuSet()  # type: ignore[index]
    nodes = {0: CpuSet("0-3")}
    kept = Topology(nodes[0], nodes[0], nodes[0], nodes)
    nodes[0] = CpuSet("0")
    assert kept.nodes[0] == CpuSet("0-3")


# ---- uniform machines ----------------------------------------------------------------------


def test_uniform_numbers_cpus_node_by_node():
    machine = Topology.uniform(nodes=2, cpus_per_node=6, threads=2, cluster=3)
    assert [str(cpus) for cpus in machine.nodes.values()] == ["0-5", "6-11"]
    assert [str(machine.siblings_of(cpu)) for cpu in (0, 5, 6)] == ["0-1", "4-5", "6-7"]
    assert [str(machine.cluster_of(cpu)) for cpu in (0, 5, 6)] == ["0-2", "3-5", "6-8"]
    assert machine.possible == machine.present == machine.online == CpuSet("0-11")


def test_uniform_clusters():
    assert Topology.uniform(1, 4, cluster=None).cluster_of(1) == CpuSet("1")
    assert Topology.uniform(1, 4, cluster=0).cluster_of(1) == CpuSet()
    assert Topology.uniform(2, 4, cluster=4).cluster_of(5) == CpuSet("4-7")


@pytest.mark.parametrize(
    "arguments",
    [
        {"nodes": 0},
        {"nodes": -1},
        {"nodes": True},
        {"nodes": 2.0},
        {"nodes": "2"},
        {"nodes": 10**9},
        {"cpus_per_node": 0},
        {"cpus_per_node": 4097},
        {"cpus_per_node": 10**12},
        {"threads": 0},
        {"threads": None},
        {"cluster": -1},
        {"cluster": 1.5},
        {"cluster": False},
    ],
    ids=str,
)
def test_uniform_refuses_what_is_out_of_range(arguments):
    with pytest.raises(TopologyError):
        Topology.uniform(**arguments)


# ---- what is asked of the function ---------------------------------------------------------


@pytest.mark.parametrize("ask", [group_cpus_evenly, explain])
@pytest.mark.parametrize(
    "asked",
    [
        {"numgrps": 0},
        {"numgrps": -1},
        {"numgrps": True},
        {"numgrps": 2.0},
        {"numgrps": "2"},
        {"numgrps": None},
        {"numgrps": 10**12},
        {"revision": "rotate-v3"},
        {"revision": ""},
        {"revision": None},
        {"revision": ["cluster"]},
        {"revision": {}},
        {"spread_offset": -1},
        {"spread_offset": 1.0},
        {"spread_offset": "1"},
        {"spread_offset": None},
        {"spread_offset": True},
    ],
    ids=lambda asked: str(asked)[:40],
)
def test_a_question_that_cannot_be_asked_is_refused(ask, asked):
    arguments = {"numgrps": 2} | asked
    with pytest.raises(RequestError) as raised:
        ask(Topology.from_dict(GOOD), **arguments)
    assert len(str(raised.value)) < 300


def test_parts_that_are_no_cpu_sets_are_refused():
    four = CpuSet("0-3")
    with pytest.raises(GroupCpusError, match="present: '0-3' is no CpuSet"):
        Topology(four, "0-3", four, {0: four})  # type: ignore[arg-type]
    with pytest.raises(GroupCpusError, match=r"clusters\[1\]: 3 is no CpuSet"):
        Topology(four, four, four, {0: four}, clusters=[CpuSet("0-1"), 3])  # type: ignore[list-item]


def test_a_call_without_a_topology_is_refused():
    with pytest.raises(GroupCpusError, match="topology None: expected a Topology"):
        group_cpus_evenly(None, 3)  # type: ignore[arg-type]


def test_errors_stay_short_however_long_the_name():
    with pytest.raises(GroupCpusError) as raised:
        group_cpus_evenly(Topology.uniform(), 3, revision="x" * 100_000)
    assert len(str(raised.value)) < 300


# ---- last-level caches ---------------------------------------------------------------------


def test_last_level_caches_are_told_as_far_as_they_are_known():
    document = changed(llcs=["0-3", "4"])
    machine = Topology.from_dict(document)
    assert [machine.llc_of(cpu) for cpu in (3, 4, 5)] == [CpuSet("0-3"), CpuSet("4"), None]
    assert machine.to_dict()["llcs"] == ["0-3", "4"]
    assert Topology.from_dict(machine.to_dict()) == machine == pickle.loads(pickle.dumps(machine))
    unknown = Topology.from_dict(GOOD)
    assert unknown != machine
    assert unknown.llc_of(0) is None
    assert "llcs" not in unknown.to_dict()
    with pytest.raises(TopologyError, match="llcs: CPUs 3 of 3-4 are in another one as well"):
        Topology.from_dict(changed(llcs=["0-3", "3-4"]))


# ---- limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["siblings", "clusters", "llcs"])
def test_overlapping_lists_are_refused_at_once_and_in_short(field):
    every = "0-8191"
    strided = {field: ["0-8191:2"] * 8192}
    document = {"possible": every, "present": every, "nodes": {"0": every}} | strided
    started = time.process_time()
    with pytest.raises(TopologyError) as raised:
        Topology.from_dict(document)
    assert time.process_time() - started < 1
    assert len(str(raised.value)) < 300


def test_long_sets_are_cut_in_every_message():
    long = CpuSet(range(0, 8192, 2))
    odd = CpuSet(range(1, 8192, 2))
    every = long | odd
    machines: list[Any] = [
        (long, odd, long, {0: long}),
        (every, long, odd, {0: every}),
        (long, long, long, {0: odd}),
        (every, every, every, {0: long}),
        (every, every, every, {0: every}, [long, long]),
        (every, every, every, {0: long, 1: odd}, [], [every]),
    ]
    for arguments in machines:
        with pytest.raises(TopologyError) as raised:
            Topology(*arguments)
        assert len(str(raised.value)) < 300


def test_threads_may_share_a_topology():
    """What it works out when first asked is the same whoever asks first."""
    machine = Topology.uniform(nodes=4, cpus_per_node=96, threads=2, cluster=8)
    again = Topology.from_dict(machine.to_dict())
    expected = [
        group_cpus_evenly(machine, numgrps, revision=revision, spread_offset=7)
        for numgrps in (3, 62, 200)
        for revision in REVISIONS
    ]
    together = threading.Barrier(16)

    def ask(_):
        together.wait()
        return [
            group_cpus_evenly(again, numgrps, revision=revision, spread_offset=7)
            for numgrps in (3, 62, 200)
            for revision in REVISIONS
        ]

    with ThreadPoolExecutor(16) as threads:
        assert all(answers == expected for answers in threads.map(ask, range(16)))
