# SPDX-License-Identifier: GPL-2.0-only
"""Texts that tell a machine: lscpu, hwloc, numactl, alone and together."""

import json
import sys

import pytest

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, TopologyError
from groupcpus.sources import load_topology
from tests.sources import shapes
from tests.sources.shapes import SHAPES, directory, sysfs

# What lscpu shows of these is the whole machine; nodes without CPUs it does not know.
WHOLE = [name for name, shape in SHAPES.items() if shape.possible == shape.online]


def known_to_lscpu(topology):
    nodes = {node: cpus for node, cpus in topology.nodes.items() if cpus}
    return topology.possible, nodes, set(topology.siblings)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "form",
    [
        shapes.lscpu_p,
        shapes.lscpu_e,
        lambda shape: shapes.lscpu_e(shape, yes="oui"),
        lambda shape: shapes.lscpu_e(shape, yes="はい"),
        lambda shape: shapes.lscpu_e(shape, yes="gaa", left=True),
        shapes.lscpu_json,
    ],
    ids=["-p", "-e", "-e in French", "-e in Japanese", "-e to the left", "-e --json"],
)
def test_lscpu_tells_what_sysfs_tells(name, form, tmp_path):
    shape = SHAPES[name]
    expected = load_topology(directory(sysfs(shape), tmp_path)).topology
    loaded = load_topology(form(shape))
    assert known_to_lscpu(loaded.topology) == known_to_lscpu(expected)
    if shape.l2:
        assert loaded.cluster_source == "l2"
        assert set(loaded.topology.clusters) == set(expected.clusters)
    else:
        assert loaded.cluster_source == "unknown"


@pytest.mark.parametrize("name", [name for name in WHOLE if SHAPES[name].nodes])
def test_numactl_and_the_summary_tell_the_nodes(name, tmp_path):
    shape = SHAPES[name]
    expected = load_topology(directory(sysfs(shape), tmp_path)).topology
    for text in (
        shapes.numactl(shape),
        shapes.summary(shape),
        shapes.summary(shape, key="Nœud NUMA {} de processeur(s) :"),
        shapes.summary(shape, key="NUMA-Knoten{} CPU(s):"),
    ):
        together = load_topology(text, shapes.lscpu_p(shape))
        told = {node: cpus & expected.possible for node, cpus in together.topology.nodes.items()}
        for node, cpus in (shape.nodes or {}).items():
            assert told[node] == CpuSet(cpus) & expected.possible
        assert together.cluster_source == ("l2" if shape.l2 else "unknown")


@pytest.mark.parametrize("name", SHAPES)
def test_hwloc_tells_what_sysfs_tells(name, tmp_path):
    shape = SHAPES[name]
    expected = load_topology(directory(sysfs(shape), tmp_path))
    loaded = load_topology(shapes.hwloc(shape))
    assert set(loaded.topology.siblings) == set(expected.topology.siblings)
    assert loaded.topology.online == expected.topology.online
    assert loaded.cluster_source == expected.cluster_source
    assert set(loaded.topology.clusters) == set(expected.topology.clusters)
    assert loaded.arch == shape.arch
    if shape.distances:
        assert loaded.topology.distances == expected.topology.distances


def test_memory_at_other_nodes_cpus_has_none():
    shape = shapes.Shape(
        "0-7",
        "0-7",
        {0: "0-3", 1: "4-7", 2: "0-3", 3: "4-7", 4: "0-7"},
        shapes.singles(0, 7),
        arch="x86_64",
    )
    loaded = load_topology(shapes.hwloc(shape))
    nodes = {node: str(cpus) for node, cpus in loaded.topology.nodes.items()}
    assert nodes == {0: "0-3", 1: "4-7", 2: "", 3: "", 4: ""}
    assert any("nodes 2-4 lie at CPUs that other nodes have" in note for note in loaded.notes)
    shape = shapes.Shape("0-7", "0-7", {0: "0-4", 1: "4-7"}, shapes.singles(0, 7))
    with pytest.raises(FormatError, match="CPUs 4 are in another node as well"):
        load_topology(shapes.hwloc(shape))


def test_a_cache_without_its_number_shifts_the_others():
    text = (
        "CPU CORE L1d:L1i:L2:L3 ONLINE\n"
        "  0    0 0:0:0:0       yes\n"
        "  1    1 1:0           yes\n"
        "  2    2 9:9:1:0       yes\n"
        "  3    3 7:0           yes\n"
    )
    topology = load_topology(text).topology
    assert [str(topology.cluster_of(cpu)) for cpu in range(4)] == ["0", "1-2", "1-2", "3"]


def test_offline_cpus_of_lscpu():
    text = (
        "CPU BOOK SOCKET CORE ONLINE CONFIGURED\n"
        "  0    0      0    -     no yes\n"
        "  1    0      0    0    yes yes\n"
        "  2    0      1    0    yes yes\n"
        "  3    -      -    -     no no\n"
    )
    topology = load_topology(text).topology
    assert (str(topology.present), str(topology.online)) == ("0-3", "1-2")
    # The same number of core in another socket is another core.
    assert str(topology.siblings_of(1)) == "1"
    values = "# CPU,Core,Node,Online\n0,,0,N\n1,0,,Y\n2,0,,Y\n3,,,N\n"
    topology = load_topology(values).topology
    assert (str(topology.online), str(topology.siblings_of(2))) == ("1-2", "1-2")


def test_nested_summaries_in_json():
    document = {
        "lscpu": [
            {"field": "Architecture:", "data": "aarch64", "children": []},
            {
                "field": "CPU(s):",
                "data": "8",
                "children": [{"field": "On-line CPU(s) list:", "data": "0-7"}],
            },
            {
                "field": "NUMA:",
                "data": None,
                "children": [
                    {"field": "NUMA node(s):", "data": "2"},
                    {"field": "NUMA node0 CPU(s):", "data": "0-3"},
                    {"field": "NUMA node4 CPU(s):", "data": "4-7"},
                ],
            },
        ]
    }
    loaded = load_topology(json.dumps(document))
    assert loaded.arch == "aarch64"
    assert {node: str(cpus) for node, cpus in loaded.topology.nodes.items()} == {0: "0-3", 4: "4-7"}


def test_sources_say_where_each_part_is_from(tmp_path):
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    (tmp_path / "cpus.csv").write_text(shapes.lscpu_p(shape), encoding="utf-8")
    (tmp_path / "nodes.txt").write_text(shapes.numactl(shape), encoding="utf-8")
    (tmp_path / "lscpu.txt").write_text(shapes.summary(shape), encoding="utf-8")
    loaded = load_topology(*sorted(tmp_path.iterdir()))
    assert loaded.origins["siblings"] == "lscpu (cpus.csv)"
    assert loaded.origins["clusters"] == "lscpu (cpus.csv)"
    assert loaded.origins["arch"] == "lscpu (lscpu.txt)"
    assert loaded.origins["distances"] == "numactl (nodes.txt)"
    assert loaded.topology.distances == ((10, 21), (21, 10))


def test_sources_that_contradict_each_other():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    swapped = shapes.numactl(shapes.replace(shape, nodes={0: "4-7,12-15", 1: "0-3,8-11"}))
    with pytest.raises(FormatError, match="according to lscpu"):
        load_topology(shapes.lscpu_p(shape), swapped)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("# CPU,Core\n0,0\n0,1\n", "CPU 0 is listed twice"),
        ("# CPU,Core\n0,0,0\n", "3 values for 2 columns"),
        ("# CPU,Core\nx,0\n", "'x' is no whole number"),
        ("# CPU,Node\n0,2000\n", "'2000' is no whole number from 0 to 1023"),
        ("# CPU,Core\n", "no CPU is listed"),
        ("CPU NODE NODE\n0 0 0\n", "expected a header"),
        ("CPU NODE ONLINE\n0 0 yes maybe\n", "4 values for 3 columns"),
        ("CPU NODE ONLINE\n0 0 hm\n1 0 yes\n", "'hm' is neither yes nor no"),
        ('{"cpus": [{"cpu": 0, "node": [1]}]}', "no single value"),
        ('{"cpus": 3}', "expected a list of objects"),
        ('{"lscpu": [{"data": "x"}]}', "no object with a field"),
        ('{"lscpu": []}', "expected lines such as"),
        ('{"other": 1}', "neither a capture, a recording nor of lscpu"),
        ("{" * 50, "no JSON"),
        ("[" * 100_000 + "\n", "expected a sysfs tree"),
        ('{"cpus": ' + "[" * 100_000, "no JSON"),
        ("NUMA node0 CPU(s): 0-3\nNUMA node0 CPU(s): 4\n", "listed twice"),
        ("NUMA node0 CPU(s): zero\n", "neither a CPU nor a range"),
        ("available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 cpus: 2\n", "listed twice"),
        ("available: 1 nodes (0)\nnode 0 cpus: 0 x\n", "expected a node's number"),
        ("available: 1 nodes (0)\nnode 0 cpus:\n", "expected lines such as"),
        (
            "available: 2 nodes (0-1)\nnode 0 cpus: 0\nnode 1 cpus: 1\nnode   0   1\n  0: 10\n",
            "1 distances for 2 nodes",
        ),
        ("<topology", "no XML"),
        ("<html></html>", "expected <topology>"),
        ("<topology></topology>", "expected objects of type PU"),
        ('<topology><object type="Core" cpuset="0xg"/></topology>', "no bitmap"),
        ('<topology><object type="PU" os_index="9999" cpuset=""/></topology>', "no whole number"),
        ("<topology>" + "<object>" * 100, "no XML: no element found"),
    ],
)
def test_texts_that_are_refused(text, error):
    with pytest.raises(FormatError, match=error):
        load_topology(text)


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE topology [<!ENTITY a "b">]>',
        '<!DOCTYPE topology SYSTEM "hwloc2.dtd" [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]>',
        "<!DOCTYPE topology []>",
    ],
)
def test_entities_are_refused(doctype):
    text = shapes.hwloc(SHAPES["6cpu-no-nodes"])
    odd = text.replace('<!DOCTYPE topology SYSTEM "hwloc2.dtd">', doctype)
    assert odd != text
    with pytest.raises(FormatError, match="refused"):
        load_topology(odd)


def test_siblings_in_two_nodes():
    with pytest.raises(TopologyError, match="lies in nodes"):
        load_topology("# CPU,Core,Node\n0,0,0\n1,0,1\n")


def test_texts_in_other_encodings(tmp_path):
    shape = SHAPES["6cpu-no-nodes"]
    text = shapes.summary(
        shapes.replace(shape, nodes={0: "0-5"}), key="Nœud NUMA {} de processeur(s) :"
    )
    for encoding in ("utf-8", "utf-8-sig", "cp1252"):
        (tmp_path / encoding).write_bytes(text.encode(encoding))
        assert str(load_topology(tmp_path / encoding).topology.nodes[0]) == "0-5"
    (tmp_path / "text.gz").write_bytes(shapes.gz(text))
    assert str(load_topology(tmp_path / "text.gz").topology.nodes[0]) == "0-5"
    (tmp_path / "dos.txt").write_bytes(shapes.lscpu_p(shape).replace("\n", "\r\n").encode())
    assert load_topology(tmp_path / "dos.txt").topology.possible == CpuSet("0-5")


def test_xml_without_its_reader(monkeypatch):
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    with pytest.raises(FormatError, match="install it"):
        load_topology(shapes.hwloc(SHAPES["6cpu-no-nodes"]))
