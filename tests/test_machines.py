# SPDX-License-Identifier: GPL-2.0-only
"""Machine files: those that ship, what a bad one is told, and the smallest one that overflows."""

from itertools import product

import pytest

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, RequestError
from groupcpus.machines.machine import data_dir, machine_from_dict, machine_names, read_machine
from groupcpus.machines.probe import simulate

SHAPES = {
    # name: architecture, irqchip, CPUs, nodes, clusters, cores, devices and queues
    "D16plds_v6": ("arm64", "gicv3", 16, 1, 1, 16, ("nvme", 2, 6)),
    "D96plds_v6": ("arm64", "gicv3", 96, 2, 1, 96, ("nvme", 6, 14)),
    "L48s_v2": ("x86_64", "x86", 48, 6, 24, 24, ("nvme", 6, 32)),
    "L96as_v4": ("x86_64", "x86", 96, 2, 48, 48, ("nvme", 6, 62)),
    "mana_8cpu": ("x86_64", "x86", 8, 2, 4, 4, ("mana", 1, 8)),
    "overflow_4cpu": ("x86_64", "x86", 4, 1, 1, 4, ("irqs", 1, 3)),
    "xeon_e_40cpu": ("x86_64", "x86", 40, 1, 10, 40, ("irqs", 1, 11)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_machines_are_shaped_as_their_sources_say(name):
    machine = read_machine(name)
    cpus = machine.topology.possible
    kinds = {(device.kind, device.io_queues) for device in machine.devices}
    assert len(kinds) == 1
    assert (
        machine.arch,
        machine.irqchip,
        len(cpus),
        len(machine.topology.nodes),
        len({machine.topology.cluster_id(cpu) for cpu in cpus}),
        len({machine.topology.core_id(cpu) for cpu in cpus}),
        (kinds.pop()[0], len(machine.devices), machine.devices[0].io_queues),
    ) == SHAPES[name]
    assert machine.topology.online == machine.topology.present == cpus


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_says_where_it_comes_from_and_what_is_assumed(name):
    machine = read_machine(name)
    assert machine.name == name
    assert machine.title
    assert machine.source
    assert machine.notes.strip()
    path = data_dir() / "machines" / f"{name}.toml"
    assert read_machine(path) == machine == read_machine(str(path))
    assert path.read_text("utf-8").startswith("# SPDX-License-Identifier: GPL-2.0-only\n")


def smaller_machines():
    """Every machine of up to 3 CPUs: all nodes, clusters (known or not), cores, absent CPUs.

    Cores within nodes; clusters as they like.  CPU 0 is always present.
    """
    for count in (1, 2, 3):
        cpus = range(count)
        everything = CpuSet(cpus)
        # Each partition once: a new label is the next free number.
        labellings = [
            labels
            for labels in product(cpus, repeat=count)
            if all(label <= len({*labels[:at]}) for at, label in enumerate(labels))
        ]
        for nodes, clusters, cores in product(labellings, repeat=3):
            if any(nodes[a] != nodes[b] for a in cpus for b in cpus if cores[a] == cores[b]):
                continue
            for absent in range(0, 1 << count, 2):
                present = everything - CpuSet.from_mask(absent)
                for unknown in (CpuSet(), everything):
                    yield Topology(
                        everything,
                        present,
                        present,
                        _sets(nodes),
                        () if unknown else _sets(clusters).values(),
                        _sets(cores).values(),
                        no_cluster=unknown,
                    )


def _sets(labels):
    return {
        label: CpuSet(cpu for cpu, other in enumerate(labels) if other == label)
        for label in sorted(set(labels))
    }


@pytest.mark.parametrize("revision", ["rotate-v1", "rotate-v2", "rotate-v2-skip1"])
def test_no_machine_smaller_than_overflow_4cpu_shows_an_empty_mask(revision):
    machines = set(smaller_machines())
    assert len(machines) > 100
    for topology in machines:
        for numgrps in range(1, len(topology.possible) + 1):
            for offset in range(2**32 - 4, 2**32):
                grouping = group_cpus_evenly(
                    topology, numgrps, revision=revision, spread_offset=offset
                )
                assert all(grouping.bits), (topology.to_dict(), numgrps, offset)


def test_overflow_4cpu_shows_it_at_one_counter_value_only():
    topology = read_machine("overflow_4cpu").topology
    empty = [
        (numgrps, offset)
        for numgrps in (1, 2, 3, 4)
        for offset in (*range(100), *range(2**32 - 100, 2**32))
        if not all(group_cpus_evenly(topology, numgrps, spread_offset=offset).bits)
    ]
    assert empty == [(3, 2**32 - 1)]
    run = simulate("overflow_4cpu", revision="rotate-v2", spread_start=2**32 - 1)
    # No interrupt has an empty mask: the device asks again for two, and that call ticks as well.
    assert [(call.numgrps, call.spread_offset) for call in run.calls] == [(3, 2**32 - 1), (2, 0)]
    assert [str(irq.affinity) for irq in run.interrupts] == ["0-1", "2-3"]
    assert run.lost == {"irqs0": 1}
    assert run.spread_end == 1
    for cured in ("rotate-v2-fixed", "rotate-next"):
        run = simulate("overflow_4cpu", revision=cured, spread_start=2**32 - 1)
        assert all(irq.affinity for irq in run.interrupts)


GOOD = {
    "name": "good",
    "title": "A good one",
    "arch": "x86_64",
    "irqchip": "x86",
    "source": "made up",
    "topology": {"uniform": {"nodes": 1, "cpus_per_node": 4}},
    "devices": [{"kind": "nvme", "count": 2, "io_queues": 3}],
}


def test_a_good_machine_is_read():
    machine = machine_from_dict(GOOD)
    assert [device.name for device in machine.devices] == ["nvme0", "nvme1"]
    assert machine.notes == ""
    assert machine_from_dict({**GOOD, "devices": []}).devices == ()


def test_devices_of_a_kind_are_numbered_through():
    entries = [{"kind": "nvme"}, {"kind": "loop", "count": 2}, {"kind": "nvme", "count": 2}]
    machine = machine_from_dict({**GOOD, "devices": entries})
    names = [device.name for device in machine.devices]
    assert names == ["nvme0", "loop0", "loop1", "nvme1", "nvme2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "machine: name: None; expected a name such as L96as_v4"),
        ({"name": "../up"}, "machine: name: '../up'; expected a name such as L96as_v4"),
        ({"colour": 1}, "machine: unknown field 'colour'"),
        ({"arch": "mips"}, "machine: arch: 'mips'; expected one of x86_64, arm64"),
        (
            {"irqchip": "gic"},
            "machine: irqchip: 'gic'; expected one of x86, gicv2m, gicv3, its, its-first",
        ),
        ({"topology": "flat"}, "machine: topology: 'flat'; expected a table"),
        ({"topology": {"uniform": 4}}, "machine: topology.uniform: 4 is no table"),
        (
            {"topology": {"uniform": {"cores": 4}}},
            "machine: topology: unknown field 'cores'",
        ),
        (
            {"topology": {"uniform": {"nodes": 0}}},
            "machine: topology: nodes: 0 is no whole number from 1 to 1024",
        ),
        (
            {"topology": {"nodes": {"0": "0-3"}, "possible": "0-4", "present": "0-3"}},
            "machine: topology: nodes: possible CPUs 4 are in no node",
        ),
        (
            {"devices": {"kind": "nvme"}},
            "machine: devices: {'kind': 'nvme'}; expected a list of at most 1024 tables",
        ),
        ({"devices": ["nvme"]}, "machine: devices[0]: 'nvme'; expected a table"),
        (
            {"devices": [{}]},
            "machine: devices[0].kind: missing; expected one of nvme, virtio, loop, mana, irqs",
        ),
        (
            {"devices": [{"kind": "disk"}]},
            "machine: devices[0].kind: 'disk'; expected one of nvme, virtio, loop, mana, irqs",
        ),
        (
            {"devices": [{"kind": "nvme"}, {"kind": "nvme", "queues": 4}]},
            "machine: devices[1]: unknown field 'queues'; did you mean 'io_queues'?",
        ),
        (
            {"devices": [{"kind": "nvme", "count": 0}]},
            "machine: devices[0].count: 0; expected a whole number from 1 to 1024",
        ),
        (
            {"devices": [{"kind": "nvme", "count": 1000}] * 2},
            "machine: devices[1]: more than 1024 devices in all",
        ),
        (
            {"devices": [{"kind": "nvme", "io_queues": "6"}]},
            "machine: devices[0].io_queues: '6'; expected a whole number from 1 to 65535",
        ),
        (
            {"devices": [{"kind": "virtio", "poll_queues": 1}]},
            "machine: devices[0]: virtio0: only nvme has write_queues and poll_queues",
        ),
    ],
)
def test_a_bad_field_is_named(change, message):
    with pytest.raises(FormatError) as caught:
        machine_from_dict({**GOOD, **change})
    assert str(caught.value) == message


@pytest.mark.parametrize("field", ["name", "title", "arch", "irqchip", "source", "topology"])
def test_a_missing_field_is_named(field):
    doc = {key: value for key, value in GOOD.items() if key != field}
    with pytest.raises(FormatError, match=f"^machine: {field}: missing; expected "):
        machine_from_dict(doc)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name = ", "bad.toml: not a TOML file: "),
        (b"\xff\xfe", "bad.toml: not a TOML file: "),
        (b"a = " + b"[" * 100_000, "bad.toml: not a TOML file: "),
        (b"#" * (5 << 20), "bad.toml: 5242880 bytes, at most 262144 are read"),
        (b"", "bad.toml: name: missing; expected a name such as L96as_v4"),
    ],
    ids=["cut off", "not UTF-8", "deep", "huge", "empty"],
)
def test_a_bad_file_is_refused_in_a_sentence(tmp_path, content, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_machine(path)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, GroupCpusError)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_those_that_are_known():
    with pytest.raises(RequestError) as caught:
        read_machine("L96")
    assert str(caught.value).startswith("machine 'L96': neither a file nor one of D16plds_v6, ")


def test_with_devices_changes_the_main_ones_and_keeps_the_rest():
    entries = [{"kind": "nvme"}, {"kind": "loop"}, {"kind": "nvme"}, {"kind": "virtio"}]
    machine = machine_from_dict({**GOOD, "devices": entries})

    def names(**changes):
        return " ".join(device.name for device in machine.with_devices(**changes).devices)

    assert machine.with_devices() == machine
    assert names(count=2) == "nvme0 loop0 nvme1 virtio0"
    assert names(count=1) == "nvme0 loop0 virtio0"
    assert names(count=0) == "loop0 virtio0"
    assert names(count=4) == "nvme0 loop0 nvme1 nvme2 nvme3 virtio0"
    queues = [device.io_queues for device in machine.with_devices(count=3, io_queues=2).devices]
    assert queues == [2, 1, 2, 2, 1]


@pytest.mark.parametrize("count", [-1, 1025, True, "2"])
def test_with_devices_refuses_what_is_no_number_of_devices(count):
    with pytest.raises(RequestError, match="expected a whole number from 0 to 1024"):
        machine_from_dict(GOOD).with_devices(count=count)


def test_with_devices_needs_a_device_with_interrupts():
    with pytest.raises(RequestError, match="no device with interrupts to change"):
        machine_from_dict({**GOOD, "devices": [{"kind": "loop"}]}).with_devices(count=1)


@pytest.mark.parametrize(
    "odd", [None, 3, b"L96as_v4", "nope", "/nowhere/x.toml", "a\0b", "x" * 5000, "."]
)
def test_what_is_no_machine_is_refused_in_a_short_sentence(odd):
    for load in (read_machine, lambda name: simulate(name, revision="numa")):
        with pytest.raises(RequestError) as refused:
            load(odd)
        assert str(refused.value).startswith("machine ")
        assert len(str(refused.value)) < 300


def test_a_machine_can_be_named_by_its_path():
    path = data_dir() / "machines" / "D16plds_v6.toml"
    assert simulate(path, revision="numa").machine == read_machine("D16plds_v6")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('name = "x"\nnotes = ' + "9" * 5000, "not a TOML file"),
        ("name = [0x" + "f" * 5000 + "]", "name: a list with a number of thousands of digits"),
        ("a" + ".a" * 20_000 + " = 1", "more than 2000 dots"),
        ("[[devices]]\nkind = 'loop'\n" * 4000, "expected a list of at most 1024 tables"),
        ("# " + "x" * 300_000, "at most 262144 are read"),
        ("source = " + "[" * 5000, "not a TOML file"),
    ],
)
def test_files_that_cost_much_are_refused(tmp_path, text, what):
    good = (
        (data_dir() / "machines" / "D16plds_v6.toml")
        .read_text(encoding="utf-8")
        .partition("[[devices]]")[0]
    )
    path = tmp_path / "odd.toml"
    path.write_text(good + text if text.startswith("[[") else text, encoding="utf-8")
    with pytest.raises(FormatError, match=what):
        read_machine(path)


def test_a_small_file_that_asks_for_millions_of_interrupts_is_refused_at_once():
    """Fault: 300 bytes took 85 s and 2.4 GB."""
    topology = {"uniform": {"nodes": 8, "cpus_per_node": 1024}}
    devices = [{"kind": "irqs", "count": 1024, "io_queues": 65535}]
    machine = machine_from_dict({**GOOD, "topology": topology, "devices": devices})
    with pytest.raises(RequestError, match="machine good: 8388608 interrupts; at most 32768 are"):
        simulate(machine, revision="rotate-v2", irqchip="gicv3")
    devices[0] |= {"count": 100, "io_queues": 1}
    machine = machine_from_dict({**GOOD, "topology": topology, "devices": devices})
    with pytest.raises(RequestError, match="100 calls that group 8192 CPUs; calls times CPUs may"):
        simulate(machine, revision="rotate-v2")
