# SPDX-License-Identifier: GPL-2.0-only
"""The tool that records a boot: its archive, what it reads, and the files that came of it."""

import gzip
import json
from pathlib import Path

import pytest

from groupcpus.engine.topology import Topology
from groupcpus.machines.machine import data_dir
from groupcpus.observed.recordings import recording_names
from tools.record import record

CONSOLE = Path(__file__).parent / "data" / "record-console.txt"


def test_what_a_boot_printed_becomes_the_recording_that_ships():
    """The console of one recorded boot, made into a recording again."""
    name = "x86-8cpu-2nodes-smt2-2x3-6.1"
    path = data_dir() / "recordings" / f"{name}.json"
    shipped = json.loads(path.read_text("utf-8"))
    smp, nodes, nvme = "8,sockets=2,cores=2,threads=2", ["0-3", "4-7"], [3, 3]
    document = record.recording_document(
        record.read_console(CONSOLE.read_text("utf-8")),
        name,
        record.in_words(smp, nodes, nvme),
        shipped["qemu"],
        shipped["notes"],
        nvme,
    )
    assert record.dump(document) == path.read_text("utf-8")
    words = record.machine_arguments(smp, nodes, nvme, "max,vendor=GenuineIntel")
    assert " ".join(["qemu-system-x86_64", *words]) == shipped["qemu"]


@pytest.mark.parametrize("name", recording_names())
def test_recordings_are_written_a_line_a_field(name):
    text = (data_dir() / "recordings" / f"{name}.json").read_text("utf-8")
    assert record.dump(json.loads(text)) == text
    assert json.loads(text)["name"] == name


@pytest.mark.parametrize(
    ("console", "message"),
    [
        ("", "did not come to its end"),
        ("@phase boot\n@/proc/cmdline quiet\nKernel panic\n", "did not come to its end"),
        ("@error: 1 controllers live and 2 disks after a minute, 2 expected\n", "1 controllers"),
    ],
)
def test_a_boot_that_failed(console, message):
    with pytest.raises(SystemExit, match=message):
        record.read_console(console)


def test_the_kernels_own_lines_between_are_ignored():
    text = "[ 1.2] usb 1-1\r\n@phase boot\r\n@/proc/cmdline a b \r\n[ 2.0] @x\r\n@end\r\n"
    assert record.read_console(text) == {"boot": {"/proc/cmdline": "a b", "end": ""}}


def test_offline_and_absent_cpus_get_their_nodes():
    """A link tells an offline CPU's node; absent CPUs are dealt round robin."""
    system = "/sys/devices/system"
    files = {
        f"{system}/cpu/possible": "0-7",
        f"{system}/cpu/present": "0-5",
        f"{system}/cpu/online": "0-4",
        f"{system}/node/node0/cpulist": "0-2",
        f"{system}/node/node1/cpulist": "3-4",
        f"{system}/cpu/cpu5/node1": "-",
        f"{system}/cpu/cpu0/topology/thread_siblings_list": "0-1",
        f"{system}/cpu/cpu1/topology/thread_siblings_list": "0-1",
        f"{system}/cpu/cpu2/topology/thread_siblings_list": "2",
    }
    topology = Topology.from_dict(record.topology_document(files))
    assert topology.to_dict() == {
        "nodes": {"0": "0-2,6", "1": "3-5,7"},
        "siblings": ["0-1"],
        "clusters": [],
        "possible": "0-7",
        "present": "0-5",
        "online": "0-4",
        "no_cluster": "5-7",
    }


def test_the_initramfs_holds_busybox_the_init_and_a_console(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF" + bytes(1001))
    archive = gzip.decompress(record.initramfs(busybox))
    found = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        start = -(-(at + 110 + fields[11]) // 4) * 4
        if name == "TRAILER!!!":
            break
        found[name] = oct(fields[1]), archive[start : start + fields[6]], tuple(fields[9:11])
        at = -(-(start + fields[6]) // 4) * 4
    assert found["bin/busybox"][:2] == ("0o100755", busybox.read_bytes())
    assert found["init"][:2] == ("0o100755", record.INIT.read_bytes())
    assert found["dev/console"] == ("0o20600", b"", (5, 1))
    assert {name for name in found if "/" not in name} == {"bin", "dev", "proc", "sys", "init"}
