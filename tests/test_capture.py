# SPDX-License-Identifier: GPL-2.0-only
"""capture.py on made-up trees and on this machine: what it keeps, and what it must not."""

import ast
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError
from groupcpus.sources import capture, load_topology
from tests.sources.shapes import SHAPES, directory, sysfs

SCRIPT = Path(capture.__file__)

PERSONAL = {
    "MAC address": r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b|\b(?=[0-9]*[a-f])[0-9a-f]{12}\b",
    "IPv4 address": r"\b[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\b",
    "IPv6 address": r"\bfe80:|::[0-9a-f]{1,4}\b",
    "UUID": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}",
    "path": r"/(?:home|root|dev|mnt|media|srv|etc|boot|usr|var|tmp)\b",
    "file": r"\.(?:img|iso|qcow2|efi)\b",
    "planted": r"alice|secret|S3RIAL|wonderland|acme",
}

INTERRUPTS = """\
            CPU0       CPU1
  1:          0          9   IO-APIC   1-edge      i8042
 24:         25          0   PCI-MSIX-0000:01:00.0   0-edge      nvme0q0
 25:         25          0   PCI-MSIX-0000:01:00.0   1-edge      nvme0q1
 26:         25          0   PCI-MSIX-0000:01:00.0   2-edge      nvme0q2
 30:         25          0   IR-PCI-MSIX-0000:02:00.0   0-edge      enx00aabbccddee-TxRx-0
 31:         25          0   IR-PCI-MSIX-0000:02:00.0   1-edge      alicelan-rx-1
 32:         25          0   IR-PCI-MSIX-0000:02:00.0   2-edge      i40e-enp2s0f0-TxRx-7
 33:         25          0   PCI-MSI 524288-edge      acme-secret-card
 34:         25          0   PCI-MSI 524289-edge      alicelan
 35:         25          0   PCI-MSI 524290-edge      i801_smbus, alice's button
 36:         25          0   Hyper-V PCIe MSI 4138200989697-edge      mana_q0@pci:7870:00:00.0
NMI:          0          0   Non-maskable interrupts
"""
COMMAND_LINE = (
    "BOOT_IMAGE=/boot/vmlinuz-6.12 root=UUID=0a1b2c3d-1111-2222-3333-444455556666 ro quiet "
    "ip=192.168.7.9:::255.255.255.0:wonderland:eth0 "
    "isolcpus=managed_irq,domain,4-7 irqaffinity=0-1 "
    "nvme.poll_queues=2 nvme.write_queues=1 maxcpus=8 nr_cpus=16 numa=off nosmt "
    "isolcpus=alice systemd.hostname=wonderland user=alice -- --token=secret nosmt"
)


@pytest.fixture
def tree(tmp_path):
    """Make the /sys and /proc of a machine with one NVMe drive and a network card."""
    files = sysfs(SHAPES["16cpu-2nodes-siblings-at-stride-8"])
    files |= {
        "proc/interrupts": INTERRUPTS.rstrip("\n"),
        "proc/cmdline": COMMAND_LINE,
        "proc/sys/kernel/osrelease": "6.12.3-alice-1-amd64",
        "proc/sys/kernel/hostname": "wonderland",
        "proc/1/comm": "systemd",
        "proc/77/comm": "irqbalance",
        "proc/irq/default_smp_affinity": "ffff",
        "sys/module/nvme/parameters/poll_queues": "2",
        "sys/module/nvme/parameters/use_threaded_interrupts": "0",
        "sys/devices/pci0000:00/0000:01:00.0/class": "0x010802",
        "sys/devices/pci0000:00/0000:01:00.0/numa_node": "1",
        "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/serial": "S3RIAL",
        "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/queue_count": "3",
        "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/mq/0/cpu_list": "0, 1, 2, 3",
        "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/mq/1/cpu_list": "4, 5",
        "sys/devices/virtual/block/alice_disk/mq/0/cpu_list": "0",
        "sys/devices/pci0000:00/0000:02:00.0/class": "0x020000",
        "sys/bus/pci/drivers/nvme/new_id": "",
        "sys/kernel/debug/irq/irqs/25": "dstate: 0x1\n IRQD_AFFINITY_MANAGED\n IRQD_ACTIVATED",
        "sys/kernel/debug/irq/irqs/26": "IRQD_AFFINITY_MANAGED\n IRQD_MANAGED_SHUTDOWN",
        "sys/kernel/debug/irq/irqs/24": "IRQD_ACTIVATED",
    }
    for irq, affinity, effective in ((24, "4-7,12-15", "4"), (25, "0-7", "5"), (26, "8-15", "9")):
        files[f"proc/irq/{irq}/smp_affinity_list"] = affinity
        files[f"proc/irq/{irq}/effective_affinity_list"] = effective
        files[f"proc/irq/{irq}/node"] = "1"
        files[f"sys/devices/pci0000:00/0000:01:00.0/msi_irqs/{irq}"] = "msix"
        # The directory of an interrupt's actions is no number.
        files[f"proc/irq/{irq}/nvme0q{irq - 24}/x"] = ""
    root = directory(files, tmp_path / "root")
    for link, target in {
        "sys/bus/pci/devices/0000:01:00.0": "../../../devices/pci0000:00/0000:01:00.0",
        "sys/bus/pci/devices/0000:02:00.0": "../../../devices/pci0000:00/0000:02:00.0",
        "sys/devices/pci0000:00/0000:01:00.0/driver": "../../../bus/pci/drivers/nvme",
        "sys/class/nvme/nvme0": "../../devices/pci0000:00/0000:01:00.0/nvme/nvme0",
        "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/device": "../..",
        "sys/block/nvme0n1": "../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1",
        "sys/block/alice_disk": "../devices/virtual/block/alice_disk",
        "sys/class/net/alicelan": "../../devices/pci0000:00/0000:02:00.0",
        "sys/class/net/enx00aabbccddee": "../../devices/pci0000:00/0000:02:00.0",
    }.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(target)
    return root


def test_what_is_captured(tree):
    document = capture.capture(str(tree))
    assert document["kernel"] == "6.12.3-local-1-amd64"
    assert document["arch"] == "x86_64"
    assert document["irqbalance"] is True
    assert document["cmdline"] == [
        "isolcpus=managed_irq,domain,4-7",
        "irqaffinity=0-1",
        "nvme.poll_queues=2",
        "nvme.write_queues=1",
        "maxcpus=8",
        "nr_cpus=16",
        "numa=off",
        "nosmt",
    ]
    assert document["nvme"] == {"poll_queues": "2", "use_threaded_interrupts": "0"}
    told = {entry["irq"]: entry for entry in document["interrupts"]}
    assert told[25] == {
        "irq": 25,
        "chip": "PCI-MSIX-0000:01:00.0",
        "hwirq": 1,
        "actions": ["nvme0q1"],
        "affinity": "0-7",
        "effective": "5",
        "node": 1,
        "managed": True,
        "shutdown": False,
    }
    assert (told[24]["managed"], told[26]["shutdown"], told[30]["managed"]) == (False, True, None)
    names = {irq: entry["actions"] for irq, entry in told.items()}
    assert names[30] == ["net-TxRx-0"]
    assert names[31] == ["net-rx-1"]
    assert names[32] == ["i40e-enp2s0f0-TxRx-7"]
    assert names[33] == ["other"]
    assert names[34] == ["net"]
    assert names[35] == ["i801_smbus", "other"]
    assert names[36] == ["mana_q0@pci:7870:00:00.0"]
    assert told[36]["chip"] == "Hyper-V PCIe MSI"
    assert document["devices"] == [
        {
            "slot": "0000:01:00.0",
            "class": "0x010802",
            "driver": "nvme",
            "node": 1,
            "irqs": [24, 25, 26],
            "name": "nvme0",
            "queue_count": 3,
        }
    ]
    assert document["disks"] == [
        {"name": "nvme0n1", "slot": "0000:01:00.0", "queues": {"0": "0-3", "1": "4-5"}}
    ]


@pytest.mark.parametrize("name", SHAPES)
def test_a_capture_loads_as_the_tree_it_was_made_of(name, tmp_path):
    root = directory(sysfs(SHAPES[name]), tmp_path / "root")
    file = tmp_path / "capture.json"
    assert capture.main(["--root", str(root), "-o", str(file)]) == 0
    expected = load_topology(root)
    loaded = load_topology(file)
    if expected.arch or expected.cluster_source != "l2":
        assert without_caches(loaded.topology) == without_caches(expected.topology)
        assert loaded.cluster_source == expected.cluster_source
    else:
        # Without a word on the architecture capture.py takes no L2 for a cluster.
        assert loaded.cluster_source == "unknown"
        assert loaded.topology.siblings == expected.topology.siblings


def without_caches(topology):
    """Leave out what a capture has not: who shares a last-level cache."""
    return {name: value for name, value in topology.to_dict().items() if name != "llcs"}


def test_interrupts_and_queues_are_loaded(tree, tmp_path):
    file = tmp_path / "capture.json"
    capture.main(["--root", str(tree), "-o", str(file)])
    loaded = load_topology(file)
    told = {interrupt.irq: interrupt for interrupt in loaded.interrupts}
    assert (told[25].affinity, told[25].effective) == (CpuSet("0-7"), CpuSet("5"))
    assert (told[25].managed, told[30].managed, told[26].shutdown) == (True, None, True)
    assert loaded.queue_maps == {"nvme0n1": {0: CpuSet("0-3"), 1: CpuSet("4-5")}}
    assert loaded.disk_slots == {"nvme0n1": "0000:01:00.0"}
    assert loaded.devices[0]["irqs"] == [24, 25, 26]
    assert "maxcpus=8" in loaded.cmdline
    assert loaded.nvme["poll_queues"] == "2"
    assert loaded.irqbalance is True
    assert loaded.kernel == "6.12.3-local-1-amd64"


def test_nothing_personal_of_a_tree_is_written(tree):
    text = json.dumps(capture.capture(str(tree)))
    for kind, pattern in PERSONAL.items():
        assert not re.search(pattern, text), (kind, re.search(pattern, text))


def test_nothing_personal_of_this_machine_is_written():
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    document = json.loads(done.stdout)
    assert document["format"] == "groupcpus-capture"
    assert CpuSet(document["topology"]["online"])
    patterns = {**PERSONAL, "IPv4 address": r"\b[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+\b"}
    # The kernel's release has as many dots as an address may have.
    text = json.dumps({**document, "kernel": None})
    for kind, pattern in patterns.items():
        assert not re.search(pattern, text), (kind, re.search(pattern, text))
    host = socket.gethostname()
    assert len(host) < 4 or host not in text
    for name in os.environ.get("USER"), os.environ.get("LOGNAME"):
        assert not name or f'"{name}"' not in text
    assert load_topology(done.stdout).topology.online == CpuSet(document["topology"]["online"])


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("nvme12q128", "nvme12q128"),
        ("virtio3-req.7", "virtio3-req.7"),
        ("virtio0-input.0", "virtio0-input.0"),
        ("mlx5_comp3@pci:0000:3b:00.0", "mlx5_comp3@pci:0000:3b:00.0"),
        ("hpsa0-msix14", "hpsa0-msix14"),
        ("ahci[0000:00:1f.2]", "ahci[0000:00:1f.2]"),
        ("eth0-Tx-Rx-0", "eth0-Tx-Rx-0"),
        ("ens785f0np0-TxRx-12", "ens785f0np0-TxRx-12"),
        ("bnx2x-eth0-fp-0", "bnx2x-eth0-fp-0"),
        ("eno1alice-TxRx-0", "net-TxRx-0"),
        ("alice-eth0-TxRx-0", "net-TxRx-0"),
        ("wlx00aabbccddee", "other"),
        ("alice", "other"),
        ("nvme0q1 alice", "other"),
        ("a" * 100_000, "other"),
        ("-TxRx" * 20_000, "other"),
    ],
)
def test_names(name, kept):
    assert capture.clean_name(name, ["enx00aabbccddee"]) == kept


@pytest.mark.parametrize(
    ("release", "kept"),
    [
        ("6.12.0-1-amd64", "6.12.0-1-amd64"),
        ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.13.1.el9_4.x86_64"),
        ("7.3.4+deb13-cloud-arm64", "7.3.4+deb13-cloud-arm64"),
        ("7.0.0-rc3-alice+", "7.0.0-rc3-local+"),
        ("", None),
        (None, None),
    ],
)
def test_releases(release, kept):
    assert capture.clean_release(release) == kept


@pytest.mark.parametrize(
    ("described", "chip", "hwirq", "actions"),
    [
        ("xen-dyn -event Alice Laptop 12", "xen-dyn", None, ["other"]),
        ("xen-pirq-msi-x 5-edge nvme0q1", "xen-pirq-msi-x", 5, ["nvme0q1"]),
        ("alices chip 7-edge nvme0q1", "other", 7, ["nvme0q1"]),
        ("PCI-MSI 7-edge mlx5_comp4915123456789", "PCI-MSI", 7, ["other"]),
        ("PCI-MSI 7-edge 4915123456789", "PCI-MSI", 7, ["other"]),
        ("PCI-MSI 7-edge eth4915123456789", "PCI-MSI", 7, ["other"]),
        ("PCI-MSI 7-edge virtio0-alice", "PCI-MSI", 7, ["other"]),
        ("PCI-MSI 7-edge virtio0-req.3", "PCI-MSI", 7, ["virtio0-req.3"]),
        ("ITS-PCI-MSIX-0000:01:00.0 7 Edge nvme0q1", "ITS-PCI-MSIX-0000:01:00.0", 7, ["nvme0q1"]),
    ],
)
def test_descriptions(tree, described, chip, hwirq, actions):
    (tree / "proc/interrupts").write_text(f"   CPU0 CPU1\n 24: 0 0 {described}\n", encoding="utf-8")
    (one,) = [irq for irq in capture.capture(str(tree))["interrupts"] if irq["irq"] == 24]
    assert (one["chip"], one["hwirq"], one["actions"]) == (chip, hwirq, actions)


def test_digits_that_are_no_numbers(tree):
    """str.isdigit() takes them, int() does not."""
    expected = capture.capture(str(tree))
    for place in ("sys/class/net/eth0\u00b2", "proc/\u2460", "proc/irq/\u00b2"):
        # As bytes: a name on disk is UTF-8 whatever the locale.
        os.makedirs(os.fsencode(tree) + b"/" + place.encode())
    assert capture.capture(str(tree)) == expected


def test_nodes_and_caches_of_which_there_are_masks_only(tree):
    expected = capture.capture(str(tree))
    for path in (tree / "sys").rglob("*list"):
        where = str(path)
        if "/node/" in where or "/topology/" in where or "/cache/" in where:
            mask = f"{CpuSet(path.read_text(encoding='utf-8')).mask:x}"
            path.unlink()
            name = "cpumap" if path.name == "cpulist" else path.name.removesuffix("_list")
            path.with_name(name.replace("shared_cpu", "shared_cpu_map")).write_text(
                mask, encoding="utf-8"
            )
    assert capture.capture(str(tree)) == expected


def run_script(*arguments, **options):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, encoding="utf-8", **options
    )


def test_a_root_that_is_none_is_refused(tmp_path):
    for root, said in ((tmp_path / "missing", "no such folder"), (tmp_path, "cpu/possible")):
        done = run_script("--root", str(root))
        assert done.returncode == 2
        assert done.stdout == ""
        assert said in done.stderr


@pytest.mark.parametrize("output", ["missing/mine.json", "/dev/full", "."])
def test_what_cannot_be_written_is_said(tree, tmp_path, output):
    done = run_script("--root", str(tree), "-o", output, cwd=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"capture: '.*' cannot be written: [^\n]+\n", done.stderr)
    assert not list(tmp_path.glob("*.part"))


def test_the_screen_may_be_full(tree):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--root", str(tree)],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    assert done.returncode == 1
    assert done.stderr.startswith("capture: 'standard output' cannot")


def test_links_out_of_the_tree_are_not_followed(tree, tmp_path):
    (tmp_path / "outside").write_text("0-1", encoding="utf-8")
    online = tree / "sys/devices/system/cpu/online"
    online.unlink()
    online.symlink_to(tmp_path / "outside")
    assert capture.capture(str(tree))["topology"]["online"] is None


def test_an_empty_tree(tmp_path):
    document = capture.capture(str(tmp_path))
    assert document["interrupts"] == []
    with pytest.raises(FormatError, match="none names the CPUs"):
        load_topology(json.dumps(document))


def test_the_file_is_python_3_6():
    """Of syntax; and nothing beyond the standard library, so that it can be copied."""
    parsed = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))
    imported = {
        name.name
        for node in ast.walk(parsed)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    imported |= {str(node.module) for node in ast.walk(parsed) if isinstance(node, ast.ImportFrom)}
    assert imported == {"argparse", "collections.abc", "json", "os", "re", "sys", "typing"}
    newer = {"removeprefix", "removesuffix", "bit_count", "is_relative_to"}
    assert not newer & {node.attr for node in ast.walk(parsed) if isinstance(node, ast.Attribute)}


CHANGES = [
    (("version",), 2, "version"),
    (("kernel",), 5, "kernel"),
    (("arch",), "x\n86", "expected a text of at most 256 printable ASCII"),
    (("topology", "online"), "0-9999", "above the highest"),
    (("topology", "siblings"), ["0-1", "1-2"], "in another one"),
    (("topology", "nodes", "0"), 3, "3; expected a text"),
    (("topology", "nodes"), {"x": "0"}, "no whole number"),
    (("topology", "cluster_source"), "guess", "expected one of cluster_cpus_list, l2, unknown"),
    (("topology", "distances", "0"), [10, True], "True; expected a whole number"),
    (("topology", "cpu_node"), {"0": 5000}, "no whole number"),
    (("interrupts", 0, "irq"), True, "True; expected a whole number"),
    (("interrupts", 0, "irq"), -1, "-1; expected a whole number from 0"),
    (("interrupts", 0, "extra"), 1, "unknown field"),
    (("interrupts", 0, "actions"), ["x" * 1000], "no text of at most 256"),
    (("interrupts", 1, "irq"), 1, "two interrupts 1"),
    (("devices", 0, "irqs"), ["1"], "'1'; expected a whole number"),
    (("devices", 0), [], "; expected a table"),
    (("disks", 0, "queues"), {"0": "zero"}, "neither a CPU nor a range"),
    (("disks", 0, "queues"), {"a": "0"}, "no whole number"),
    (("cmdline",), ["x" * 5000], "no text of at most 4096"),
    (("nvme",), {"a": 1}, "1; expected a text"),
]


@pytest.mark.parametrize(("path", "value", "error"), CHANGES)
def test_fields_are_checked(tree, path, value, error):
    document = capture.capture(str(tree))
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(ValueError, match=error) as caught:
        load_topology(json.dumps(document))
    assert "capture (text)" in str(caught.value) or "siblings" in str(caught.value)


def test_distances_of_other_nodes_are_left_out(tree):
    document = capture.capture(str(tree))
    document["topology"]["distances"]["0"] = [10]
    loaded = load_topology(json.dumps(document))
    assert loaded.topology.distances is None
    assert any("1 distances, of which nodes is not told" in note for note in loaded.notes)


def test_every_field_is_needed(tree):
    document = capture.capture(str(tree))
    for name in sorted(set(document) - {"format"}):
        without = {key: value for key, value in document.items() if key != name}
        with pytest.raises(FormatError, match=name):
            load_topology(json.dumps(without))
