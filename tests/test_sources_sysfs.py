# SPDX-License-Identifier: GPL-2.0-only
"""Copies of /sys: directories, archives, dumps; odd shapes; and what must be refused."""

import gzip
import io
import tarfile

import pytest

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, GroupCpusError, TopologyError
from groupcpus.sources import load, load_topology
from tests.sources.shapes import REFUSED, SHAPES, archive, directory, grep, sysfs, tail

# Of each shape: nodes, cluster source, some CPU's cluster and siblings, CPUs without a cluster.
EXPECTED = {
    "16cpu-2nodes-siblings-at-stride-8": (
        {0: "0-3,8-11", 1: "4-7,12-15"},
        "l2",
        (5, "5,13", "5,13"),
        "",
    ),
    "12cpu-sparse-and-cpuless-node-ids": (
        {0: "0-3", 5: "4-7", 6: "", 130: "8-11", 131: "", 133: ""},
        "l2",
        (9, "9", "9"),
        "",
    ),
    "8cpu-node-list-beyond-possible": (
        {0: "0-3", 1: "4-7"},
        "cluster_cpus_list",
        (7, "6-7", "6-7"),
        "",
    ),
    "6cpu-no-nodes": ({0: "0-5"}, "cluster_cpus_list", (4, "3-5", "4"), ""),
    "10cpu-offline-without-files": (
        {0: "0-4,9", 1: "5-8"},
        "cluster_cpus_list",
        (8, "", "8"),
        "7-9",
    ),
    "14cpu-hybrid-clusters-of-2-and-3": (
        {0: "0-13"},
        "cluster_cpus_list",
        (12, "11-13", "12"),
        "",
    ),
    "24possible-16present-3nodes": (
        {0: "0-5,18,21", 2: "6-10,16,19,22", 3: "11-15,17,20,23"},
        "l2",
        (3, "3", "3"),
        "16-23",
    ),
    "16cpu-8offline-4threads-no-arch": (
        {0: "0-7", 8: "8-15"},
        "unknown",
        (9, "", "8-11"),
        "0-15",
    ),
    "9cpu-clusters-across-nodes": (
        {0: "0-2,6-8", 1: "3-5"},
        "cluster_cpus_list",
        (3, "0-3", "3"),
        "",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_odd_shapes(name, tmp_path):
    shape = SHAPES[name]
    loaded = load_topology(directory(sysfs(shape), tmp_path))
    topology = loaded.topology
    nodes, source, (cpu, cluster, siblings), no_cluster = EXPECTED[name]
    assert {node: str(cpus) for node, cpus in topology.nodes.items()} == nodes
    assert loaded.cluster_source == source
    assert str(topology.cluster_of(cpu)) == cluster
    assert str(topology.siblings_of(cpu)) == siblings
    assert str(topology.no_cluster) == no_cluster
    assert topology.possible == CpuSet(shape.possible)
    assert topology.present == CpuSet(shape.all_present)
    assert topology.online == CpuSet(shape.online)


@pytest.mark.parametrize("name", SHAPES)
def test_every_form_of_a_tree_gives_the_same(name, tmp_path):
    files = sysfs(SHAPES[name])
    expected = load_topology(directory(files, tmp_path / "tree")).topology
    for form, data in {
        "plain.tar.gz": archive(files),
        "padded.tgz": archive(files, padded=True),
        "prefixed.tar.gz": archive(files, prefix="./some-machine/"),
        "unpacked.tar": gzip.decompress(archive(files)),
    }.items():
        (tmp_path / form).write_bytes(data)
        assert load_topology(tmp_path / form).topology == expected, form
    for inner in ("tree/sys", "tree/sys/devices", "tree/sys/devices/system"):
        assert load_topology(tmp_path / inner).topology == expected, inner


@pytest.mark.parametrize("name", [name for name in SHAPES if not SHAPES[name].links])
def test_dumps_of_a_tree_give_the_same(name, tmp_path):
    files = sysfs(SHAPES[name])
    expected = load_topology(directory(files, tmp_path)).topology
    assert load_topology(tail(files)).topology == expected
    dumped = load_topology(grep(files)).topology
    # `grep .` prints nothing of an empty list, so an empty node is seen only by its id.
    kept = {node: cpus for node, cpus in expected.nodes.items() if cpus}
    assert {node: cpus for node, cpus in dumped.nodes.items() if cpus} == kept
    assert max(dumped.nodes) == max(expected.nodes)


@pytest.mark.parametrize("name", REFUSED)
def test_machines_that_cannot_be_are_refused(name, tmp_path):
    files = sysfs(REFUSED[name])
    with pytest.raises((FormatError, TopologyError), match=r"CPUs? |core "):
        load_topology(directory(files, tmp_path))


def test_a_cpu_that_is_not_in_its_own_list(tmp_path):
    files = sysfs(SHAPES["6cpu-no-nodes"])
    for cpu, other in ((0, 1), (1, 0)):
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = str(other)
    with pytest.raises(FormatError, match="does not name CPU 0 itself"):
        load_topology(directory(files, tmp_path))


def test_masks_serve_where_lists_are_missing(tmp_path):
    files = sysfs(SHAPES["14cpu-hybrid-clusters-of-2-and-3"])
    expected = load_topology(directory(files, tmp_path / "a")).topology
    bare = {name: text for name, text in files.items() if not name.endswith("cpus_list")}
    bare = {name: text for name, text in bare.items() if not name.endswith("siblings_list")}
    del bare["sys/devices/system/node/node0/cpulist"]
    bare["sys/devices/system/node/node0/cpumap"] = "3fff"
    assert load_topology(directory(bare, tmp_path / "b")).topology == expected


def test_an_l2_is_a_cluster_on_x86_alone(tmp_path):
    tree = directory(sysfs(SHAPES["12cpu-sparse-and-cpuless-node-ids"]), tmp_path)
    assert load_topology(tree).cluster_source == "l2"
    assert load_topology(tree, arch="x86_64").cluster_source == "l2"
    assert load_topology(tree, arch="aarch64").cluster_source == "unknown"
    (tree / "proc").mkdir()
    (tree / "proc/cpuinfo").write_text(
        "processor\t: 0\nCPU implementer\t: 0x48\n", encoding="utf-8"
    )
    loaded = load_topology(tree)
    assert (loaded.arch, loaded.cluster_source) == ("aarch64", "unknown")


def test_masks_of_cpus_never_brought_up_are_as_the_architecture_has_them(tmp_path):
    files = sysfs(SHAPES["10cpu-offline-without-files"])
    files.pop("sys/devices/system/cpu/modalias")
    tree = directory(files, tmp_path)
    assert str(load_topology(tree, arch="x86_64").topology.cluster_of(9)) == ""
    assert str(load_topology(tree, arch="aarch64").topology.cluster_of(9)) == "9"


def test_absent_cpus_go_where_the_architecture_puts_them(tmp_path):
    files = sysfs(SHAPES["24possible-16present-3nodes"])
    files.pop("sys/devices/system/cpu/modalias")
    nodes = load_topology(directory(files, tmp_path), arch="ppc64le").topology.nodes
    assert str(nodes[0]) == "0-5,16-23"


def test_notes_say_what_was_assumed(tmp_path):
    beyond = "node 1 lists CPUs 8-63, which are not possible: left out"
    notes = {
        "6cpu-no-nodes": "no source has the nodes: all CPUs are taken to be in node 0",
        "8cpu-node-list-beyond-possible": beyond,
        "10cpu-offline-without-files": "CPUs 7-9 have no topology files: alone in their cores",
        "24possible-16present-3nodes": "CPUs 16-23 are possible, not present and in no node's list",
        "16cpu-8offline-4threads-no-arch": "the clusters are unknown: no CPU is taken to be in one",
        "12cpu-sparse-and-cpuless-node-ids": "no source has the architecture: taken as x86",
    }
    for name, note in notes.items():
        loaded = load_topology(directory(sysfs(SHAPES[name]), tmp_path / name))
        assert any(text.startswith(note) for text in loaded.notes), loaded.notes
        assert loaded.origins["possible"] == f"sysfs ({name})"


def test_distances_are_of_the_nodes_that_exist(tmp_path):
    files = sysfs(SHAPES["12cpu-sparse-and-cpuless-node-ids"])
    for node in (0, 5, 6, 130, 131):
        row = [10 if other == node else 20 + node % 7 for other in (0, 5, 6, 130, 131)]
        files[f"sys/devices/system/node/node{node}/distance"] = " ".join(map(str, row))
    distances = load_topology(directory(files, tmp_path)).topology.distances
    assert distances is not None
    assert distances[5][5] == 10
    assert distances[5][130] == 25
    assert distances[5][7] == 255
    assert len(distances) == 134


def made_archive(*members) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(data)
            member.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


CPU = "sys/devices/system/cpu"


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ([(f"../{CPU}/possible", tarfile.REGTYPE, b"0-3")], "may not leave the archive"),
        ([(f"/{CPU}/possible", tarfile.REGTYPE, b"0-3")], "may not leave the archive"),
        ([(f"a/../../{CPU}/possible", tarfile.REGTYPE, b"0-3")], "may not leave the archive"),
        ([(f"{CPU}/possible", tarfile.SYMTYPE, b"")], "no file of /sys"),
        ([(f"{CPU}/possible", tarfile.LNKTYPE, b"")], "no file of /sys"),
        ([("readme", tarfile.REGTYPE, b"hello")], "no file of /sys"),
        (
            [
                (f"{CPU}/possible", tarfile.REGTYPE, b"0"),
                (f"b/{CPU}/possible", tarfile.REGTYPE, b"1"),
            ],
            "there are two files",
        ),
        ([(f"{CPU}/possible", tarfile.REGTYPE, b"0-3x")], "neither a CPU nor a range"),
        ([(f"{CPU}/possible", tarfile.REGTYPE, b"0-9999")], "above the highest"),
    ],
)
def test_archives_that_are_refused(members, error, tmp_path):
    (tmp_path / "odd.tar.gz").write_bytes(made_archive(*members))
    with pytest.raises(FormatError, match=error):
        load_topology(tmp_path / "odd.tar.gz")


def test_long_names_of_archives(tmp_path):
    files = sysfs(SHAPES["6cpu-no-nodes"])
    expected = load_topology(directory(files, tmp_path / "tree")).topology
    for style in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", format=style) as tar:
            tar.add(tmp_path / "tree", arcname="/".join(["a-long-directory-name"] * 4))
        (tmp_path / f"{style}.tar.gz").write_bytes(packed.getvalue())
        assert load_topology(tmp_path / f"{style}.tar.gz").topology == expected


def test_archives_cut_off_or_damaged(tmp_path):
    data = archive(sysfs(SHAPES["6cpu-no-nodes"]))
    file = tmp_path / "cut.tar.gz"
    for end in (10, len(data) // 2, len(data) - 9):
        file.write_bytes(data[:end])
        with pytest.raises(GroupCpusError, match=r"cut\.tar\.gz"):
            load_topology(file)
    plain = bytearray(gzip.decompress(data))
    plain[512 * 4 : 512 * 4 + 8] = b"\xff" * 8
    file.write_bytes(gzip.compress(plain))
    with pytest.raises(FormatError, match="damaged"):
        load_topology(file)


@pytest.mark.parametrize(
    "kind",
    [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK],
)
def test_extended_headers_are_kept_in_memory_and_so_small(tmp_path, kind):
    file = tmp_path / "headers.tar.gz"
    file.write_bytes(made_archive(("header", kind, bytes(100_000))))
    with pytest.raises(FormatError, match="a member's header has 100000 bytes"):
        load_topology(file)


def test_archives_that_unpack_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("groupcpus.sources.limits.UNPACKED", 1_000_000)
    member = ("zeros", tarfile.REGTYPE, bytes(2_000_000))
    (tmp_path / "bomb.tar.gz").write_bytes(made_archive(member))
    with pytest.raises(FormatError, match="more than 1000000 bytes unpacked"):
        load_topology(tmp_path / "bomb.tar.gz")
    monkeypatch.setattr("groupcpus.sources.limits.MEMBERS", 3)
    members = [(f"file{number}", tarfile.REGTYPE, b"") for number in range(5)]
    (tmp_path / "many.tar.gz").write_bytes(made_archive(*members))
    with pytest.raises(FormatError, match="more than 3 members"):
        load_topology(tmp_path / "many.tar.gz")


def test_a_directory_is_left_by_no_link(tmp_path):
    outside = directory(sysfs(SHAPES["6cpu-no-nodes"]), tmp_path / "outside")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "sys").symlink_to(outside / "sys")
    with pytest.raises(FormatError, match="no file of /sys"):
        load_topology(inside)
    files = sysfs(SHAPES["14cpu-hybrid-clusters-of-2-and-3"])
    tree = directory(files, tmp_path / "tree")
    (tree / CPU / "online").unlink()
    (tree / CPU / "online").symlink_to(outside / CPU / "online")
    loaded = load_topology(tree)
    assert loaded.topology.online == CpuSet("0-13")
    assert "no source has the online CPUs: all present ones are taken as online" in loaded.notes


def test_nothing_known(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        load_topology(tmp_path / "nothing")
    with pytest.raises(FormatError, match="no file of /sys"):
        load_topology(tmp_path)
    with pytest.raises(FormatError, match="expected a sysfs tree"):
        load()
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 8)
    with pytest.raises(FormatError, match="noise: expected a sysfs tree"):
        load_topology(tmp_path / "noise")
