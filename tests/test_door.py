# SPDX-License-Identifier: GPL-2.0-only
"""The one door: whatever tells a machine makes one, and what it cannot tell is said."""

import json

import pytest

from groupcpus import load_machine, simulate
from groupcpus.errors import FormatError, GroupCpusError, RequestError
from groupcpus.machines.machine import data_dir, machine_names, read_machine
from groupcpus.observed.recordings import load_recording, recording_names
from groupcpus.sources import load
from groupcpus.sources.door import HERE
from tests.sources import shapes
from tests.sources.shapes import SHAPES

SHAPE = SHAPES["16cpu-2nodes-siblings-at-stride-8"]


@pytest.mark.parametrize("name", machine_names())
def test_a_shipped_machine_is_itself(name):
    path = data_dir() / "machines" / f"{name}.toml"
    assert load_machine(name) == load_machine(path) == load_machine(str(path)) == read_machine(name)


@pytest.mark.parametrize("name", recording_names())
def test_a_recording_makes_its_machine(name):
    recording = load_recording(name)
    machine = load_machine(name)
    assert machine.topology == recording.topology
    assert [device.io_queues for device in machine.devices] == [
        device.io_queues for device in recording.devices
    ]
    shown = {told.irq: told for told in load(name).interrupts}
    for device in recording.devices:
        for irq, mask in zip(device.irqs, device.masks, strict=True):
            assert shown[irq].affinity == mask
    run = simulate(machine, revision=recording.revision)
    assert len(run.interrupts) == sum(len(device.masks) - 1 for device in recording.devices)


def test_a_capture_makes_its_machine():
    path = data_dir() / "captures" / "x86-24cpu-2nodes-2nvme-3net-7.3.json"
    machine = load_machine(path)
    assert len(machine.topology.possible) == 24
    assert [(device.name, device.io_queues) for device in machine.devices][:2] == [
        ("nvme0", 9),
        ("nvme1", 13),
    ]
    assert load_machine(path, devices=4, queues=5).devices[3].io_queues == 5


@pytest.mark.parametrize(
    "text",
    [shapes.lscpu_p(SHAPE), shapes.lscpu_e(SHAPE), shapes.lscpu_json(SHAPE), shapes.hwloc(SHAPE)],
)
def test_without_devices_one_drive_is_taken_and_said(text):
    machine = load_machine(text)
    assert [(device.kind, device.io_queues) for device in machine.devices] == [("nvme", 16)]
    assert "one NVMe drive with 16 queues is taken" in machine.notes
    given = load_machine(text, devices=6, queues=8)
    assert [device.io_queues for device in given.devices] == [8] * 6
    assert "is taken" not in given.notes.rpartition(";")[2]


@pytest.mark.parametrize("name", machine_names())
def test_the_text_of_a_machine_file(name):
    text = (data_dir() / "machines" / f"{name}.toml").read_text("utf-8")
    assert load_machine(text) == read_machine(name)
    with pytest.raises(GroupCpusError, match="not a TOML file"):
        load_machine(text + "x = [0x" + "f" * 5000)


def test_a_line_of_text_and_a_synthetic_one():
    assert len(load_machine("NUMA node0 CPU(s): 0-95").topology.possible) == 96
    machine = load_machine("node:2 core:24 pu:2")
    assert str(machine.topology.nodes[1]) == "48-95"


def test_this_machine_is_read_only_when_asked_for(monkeypatch):
    document = json.loads(
        (data_dir() / "captures" / "x86-5of8cpu-online-1nvme-7.3.json").read_text("utf-8")
    )
    asked = []

    def captured(path):
        asked.append(path)
        return document

    monkeypatch.setattr("groupcpus.sources.door.capture", captured)
    assert load_machine("node:1 pu:4").topology.possible.mask == 15
    assert not asked
    for name in HERE:
        assert len(load_machine(name).topology.online) == 5
    assert asked == ["/", "/"]


@pytest.mark.parametrize("source", ["L96", "", "a\0b", "x" * 5000, 3, None, ("L96as_v4",)])
def test_what_is_no_source(source):
    with pytest.raises(GroupCpusError) as caught:
        load_machine(source)
    assert len(str(caught.value)) < 500


def test_numbers_that_cannot_be():
    for wrong in (
        {"devices": -1},
        {"queues": 0},
        {"devices": "x"},
        {"irqchip": "none"},
        {"arch": 5},
    ):
        with pytest.raises(RequestError):
            simulate(load_machine("L96as_v4", **wrong), revision="cluster")


@pytest.mark.parametrize(
    ("changes", "irqchip"),
    [
        ({}, "its"),
        ({"qemu": "qemu-system-aarch64 -machine virt,gic-version=2"}, "gicv2m"),
        ({"qemu": "qemu-system-aarch64 -machine virt,gic-version=3,its=off"}, "gicv3"),
        ({"qemu": ""}, "gicv3"),
        ({"qemu": "", "irqchip": "its-first"}, "its-first"),
        ({"irqchip": ["its"]}, None),
    ],
)
def test_a_recordings_irqchip_is_what_qemu_was_told(changes, irqchip, tmp_path):
    path = data_dir() / "recordings" / "arm64-16cpu-1node-cluster4-2x6-7.3.json"
    document = json.loads(path.read_text(encoding="utf-8")) | changes
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(document), encoding="utf-8")
    if irqchip is None:
        with pytest.raises(FormatError, match=r"irqchip: \['its'\]: expected one of x86"):
            load_machine(copy)
    else:
        assert load_machine(copy).irqchip == irqchip
