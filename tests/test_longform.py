# SPDX-License-Identifier: GPL-2.0-only
"""The long form of recordings, made from those that ship, is read as the same recordings."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, GroupCpusError
from groupcpus.machines.machine import data_dir
from groupcpus.observed.longform import compact_document
from groupcpus.observed.recordings import load_recording, recording_from_dict, recording_names
from groupcpus.observed.replay import replay


def document(name):
    return json.loads((data_dir() / "recordings" / f"{name}.json").read_text("utf-8"))


def cpus(text):
    return [] if text == "-" else list(CpuSet(text))


def long_device(device):
    irqs = zip(
        device["irqs"].split(), device["masks"].split(), device["effective"].split(), strict=True
    )
    return {
        "name": device["name"],
        "pci": device["pci"],
        "serial": "s0",
        "irqs": [
            {"irq": int(irq), "affinity": cpus(mask), "effective": [int(cpu)], "count": {"0": 7}}
            for irq, mask, cpu in irqs
        ],
        "mq": {str(hctx): cpus(text) for hctx, text in enumerate(device["maps"].split())},
    }


def logged(doc):
    """Write the lines that the kernel logged, the rebind's after the boot's."""
    lines = []
    step = {}
    devices = {device["name"]: device for device in doc["devices"]}
    for run in doc.get("order", []):
        name, queues = run.split()
        for queue in CpuSet(queues):
            device = devices[name]
            again = (name, queue) in step
            step[name, queue] = True
            cpu = (
                device["effective"].split()[queue]
                if again
                else device["charged"].split()[queue - 1]
            )
            lines.append(f"[    6.5] IRQ{device['irqs'].split()[queue]} -> 0-15 CPU{cpu}")
    return ["[    0.1] Booting", *lines, "[   11.1] ITT 8 entries", *lines]


def long_form(doc):
    topology = doc["topology"]
    x86 = doc["arch"] == "x86_64"
    online = CpuSet(topology.get("online", topology["present"]))
    nodes = {node: CpuSet(members) for node, members in topology["nodes"].items()}
    return {
        "run": doc["name"],
        "kernel": doc["kernel"],
        "uname": f"Linux (none) {doc['kernel']} #1 SMP {doc['package']} (2026-11-12) GNU/Linux",
        "arch": "x86_64" if x86 else "aarch64",
        **{key: doc[key] for key in ("machine", "qemu", "cmdline", "source")},
        "possible": cpus(topology["possible"]),
        "present": cpus(topology["present"]),
        "online": list(online),
        "nodes": {node: list(members & online) for node, members in nodes.items()},
        "cpu_node": {
            str(cpu): int(node)
            for node, members in nodes.items()
            for cpu in members & CpuSet(topology["present"])
        },
        "siblings": [*map(cpus, topology["siblings"]), [99]],
        "clusters": list(map(cpus, topology["clusters"])),
        "devices": list(map(long_device, doc["devices"])),
        "other_irqs": [
            {"name": "timer", "effective": [int(cpu)]} for cpu in doc.get("other_irqs", "").split()
        ]
        + [{"name": "IPI", "effective": []}],
        "nvme_params": {key: str(value) for key, value in doc["nvme"].items()} | {"noacpi": "N"},
        "rebind": {"pci_order": [], "devices": list(map(long_device, doc["rebind"]))},
        "dmesg_selected": logged(doc),
    }


@pytest.mark.parametrize("name", recording_names())
def test_the_long_form_is_read_as_the_same_recording(name):
    doc = document(name)
    short = load_recording(name)
    long = recording_from_dict(long_form(doc))
    used = [
        tuple(replace(device, io_queues=len(device.maps)) for device in devices)
        for devices in (short.devices, short.rebind)
    ]
    assert long == replace(short, notes="", devices=used[0], rebind=used[1])


def broken(**fields):
    doc = long_form(document("arm64-16cpu-1node-cluster4-2x6-6.12"))
    for key, value in fields.items():
        doc[key] = value
    return doc


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        (broken(possible=None), "possible: None; expected a list of CPUs"),
        (broken(possible=[0, 99999]), "possible: "),
        (broken(nodes=[]), "nodes: .*; expected a table"),
        (broken(nodes={"x": [0]}), "nodes: 'x'; expected a number"),
        (broken(cpu_node={"0": "y"}), "cpu_node: 'y'; expected a number"),
        (broken(kernel=6), "kernel: 6; expected a text"),
        (broken(devices={}), "devices: .*; expected a list"),
        (broken(devices=[7]), r"devices\[0\]: 7 is no table of fields"),
        (broken(devices=[{"name": "a", "irqs": []}]), "mq: missing; expected a table"),
        (
            broken(devices=[{"name": "a", "irqs": [], "mq": {"z": []}}]),
            "mq: 'z'; expected a number",
        ),
        (broken(nvme_params={"poll_queues": "many"}), "poll_queues: 'many'; expected a number"),
        (broken(rebind=3), "rebind: 3; expected a table"),
        (broken(clusters=[3]), "clusters: 3; expected a list of CPUs"),
        (broken(dmesg_selected="x"), "dmesg_selected: 'x'; expected a list"),
    ],
)
def test_a_bad_long_form_is_refused(doc, message):
    with pytest.raises(FormatError, match=message) as caught:
        recording_from_dict(doc, "boot.json")
    assert str(caught.value).startswith("boot.json: ")


def test_an_effective_mask_of_several_cpus_is_refused():
    doc = broken()
    doc["devices"][0]["irqs"][1]["effective"] = [1, 2]
    with pytest.raises(
        FormatError, match=r"devices\[0\]\.irqs\[1\]\.effective: 1-2; expected a CPU"
    ):
        recording_from_dict(doc)


def test_a_log_that_is_cut_short_is_left_out():
    doc = broken()
    doc["dmesg_selected"] = doc["dmesg_selected"][:20]
    assert compact_document(doc)["order"] == []
    assert recording_from_dict(doc).devices[0].charged == ()


def places(value, path=()):
    """List the paths of all values in a document."""
    items = dict(enumerate(value)) if isinstance(value, list) else value
    for key, inner in items.items() if isinstance(items, dict) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


PLACES = list(places(broken()))
JUNK: list[object] = [None, True, -1, 7, 10**9, 0.5, "", "x", "0-3", [], [5], [[]], {}, {"0": "0"}]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(JUNK)), min_size=1, max_size=3))
def test_a_damaged_long_form_ends_in_a_replay_or_one_of_our_errors(damages):
    doc = broken()
    for path, junk in damages:
        at = doc
        try:
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = junk
        except (LookupError, TypeError):
            continue  # an earlier damage took it away
    try:
        result = replay(recording_from_dict(doc), max_states=1000)
    except GroupCpusError:
        return
    assert result.matches == bool(result.frame["match"].all())


def test_two_vectors_of_one_number_are_refused():
    """Once, where the kernel logged its choices, this was a KeyError."""
    doc = broken()
    first, second = doc["devices"]
    second["irqs"][1]["irq"] = first["irqs"][1]["irq"]
    number = first["irqs"][1]["irq"]
    with pytest.raises(FormatError, match=f"more than one vector has the number '{number}'"):
        recording_from_dict(doc)
