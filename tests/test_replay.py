# SPDX-License-Identifier: GPL-2.0-only
"""Recordings of real kernels: every mask, queue map and effective CPU is predicted."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.__main__ import main
from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import FormatError, GroupCpusError, RequestError
from groupcpus.machines.machine import data_dir
from groupcpus.observed.interleaving import find_interleaving
from groupcpus.observed.kernels import isolated_cpus, revision_of_release
from groupcpus.observed.recorded import RecordedStep
from groupcpus.observed.recordings import load_recording, recording_from_dict, recording_names
from groupcpus.observed.replay import KINDS, replay

# Predictions of each kind that must come true, boot and rebind together.
COUNTS = {
    # name: masks, maps, effective CPUs, those of admin queues
    "arm64-16cpu-1node-cluster4-1x6-7.3": (12, 12, 12, 2),
    "arm64-16cpu-1node-cluster4-2x6-6.12": (24, 24, 24, 2),
    "arm64-16cpu-1node-cluster4-2x6-7.3": (24, 24, 24, 2),
    "arm64-96cpu-2nodes-cluster4-6x14-6.12": (168, 168, 168, 6),
    "arm64-96cpu-2nodes-cluster4-6x14-7.3": (168, 168, 168, 6),
    "x86-12cpu-6nodes-smt2-2x9-6.1": (36, 36, 36, 2),
    "x86-12of16cpu-2nodes-2x5-7.3": (20, 20, 20, 2),
    "x86-16cpu-1node-2x6-6.12": (24, 24, 24, 2),
    "x86-16cpu-1node-2x6-7.3": (24, 24, 24, 2),
    "x86-16cpu-3nodes-2-4-10-7+3-6.12": (20, 20, 20, 2),
    "x86-24cpu-2nodes-8-16-smt2-cluster4-9+13-7.3": (44, 44, 44, 2),
    "x86-32cpu-1node-smt2-cluster4-2x11-6.12": (44, 44, 44, 2),
    "x86-40cpu-1node-smt4-1x11-6.12": (22, 22, 22, 2),
    "x86-40cpu-1node-smt4-1x11-7.3": (22, 22, 22, 2),
    "x86-48cpu-6nodes-smt2-6x32-6.12": (384, 384, 384, 6),
    "x86-48cpu-6nodes-smt2-6x32-7.3": (384, 384, 384, 6),
    "x86-5of8cpu-online-1node-1x3-6.12": (6, 6, 6, 2),
    "x86-5of8cpu-online-1node-1x3-7.3": (6, 6, 6, 2),
    "x86-8cpu-1node-smt2-1x32-7.3": (16, 16, 16, 2),
    "x86-8cpu-2nodes-smt2-2x3-6.1": (12, 12, 12, 2),
    "x86-8cpu-2nodes-smt2-isolcpus-2x3-6.1": (12, 12, 12, 2),
    "x86-8cpu-2nodes-smt2-isolcpus-2x3-6.12": (12, 12, 12, 2),
    "x86-8cpu-2nodes-smt2-isolcpus-managed-2x3-6.12": (12, 12, 12, 2),
    "x86-8cpu-4nodes-1x3-6.12": (6, 6, 6, 2),
    "x86-8cpu-4nodes-1x3-7.3": (6, 6, 6, 2),
    "x86-8cpu-4nodes-1x3-poll1-7.3": (4, 6, 4, 2),
    "x86-8cpu-4nodes-1x3-write2-7.3": (6, 6, 6, 2),
    "x86-96cpu-2nodes-smt2-6x62-6.12": (744, 744, 744, 6),
    "x86-96cpu-2nodes-smt2-6x62-7.3": (744, 744, 744, 6),
}
LOGGED = {name for name in COUNTS if load_recording(name).order}


def document(name="x86-16cpu-1node-2x6-7.3"):
    return json.loads((data_dir() / "recordings" / f"{name}.json").read_text("utf-8"))


def test_all_recordings_are_counted():
    assert set(recording_names()) == set(COUNTS)
    totals = tuple(map(sum, zip(*COUNTS.values(), strict=True)))
    assert totals == (3006, 3008, 3006, 82)


@pytest.mark.parametrize("name", COUNTS)
def test_every_prediction_comes_true(name):
    result = replay(name)
    frame = result.frame
    assert not len(frame[~frame["match"]])
    assert tuple(result.count(kind) for kind in KINDS) == tuple((n, n) for n in COUNTS[name])
    assert result.matches
    assert result.interleaving.found


@pytest.mark.parametrize("name", COUNTS)
def test_a_recording_counts_what_it_holds(name):
    """No interrupt or map is left out of the replay."""
    recording = load_recording(name)
    devices = [*recording.devices, *recording.rebind]
    masks = sum(len(device.masks) - 1 for device in devices)
    maps = sum(len(device.maps) for device in devices)
    assert COUNTS[name][:3] == (masks, maps, masks)
    assert {device.pci for device in recording.devices} == {d.pci for d in recording.rebind}
    for text in (recording.package, recording.machine, recording.qemu, recording.source):
        assert text
        assert "/home" not in text
        assert "@" not in text


def test_another_revision_does_not_explain_a_recording():
    recording = load_recording("x86-40cpu-1node-smt4-1x11-7.3")
    assert recording.revision is REVISIONS["cluster"]
    result = replay(recording, revision=REVISIONS["numa"])
    right, masks = result.count("mask")
    assert right < masks == 22
    assert not result.matches


@pytest.mark.parametrize(
    ("name", "sort", "other"),
    [
        ("x86-48cpu-6nodes-smt2-6x32-6.12", "numa", "numa-single-pop"),
        ("x86-12cpu-6nodes-smt2-2x9-6.1", "numa-single-pop", "numa"),
    ],
)
def test_the_sort_of_another_release_does_not_explain_a_recording(name, sort, other):
    assert load_recording(name).revision is REVISIONS[sort]
    result = replay(name, revision=REVISIONS[other])
    assert result.count("mask")[0] < result.count("mask")[1]


@pytest.mark.parametrize("name", sorted(set(COUNTS) - LOGGED))
def test_the_order_that_was_found_is_one(name):
    """Each device requests its queues in turn, and every request gets the recorded CPU."""
    recording = load_recording(name)
    isolated, _ = isolated_cpus(recording.cmdline, recording.topology.possible)
    chip = make_irqchip(recording.irqchip, recording.topology, isolated)
    vectors = {}
    if recording.irqchip == "x86":
        for device in recording.devices:
            for queue, vector in enumerate(chip.allocate(device.masks[1:]), start=1):
                vectors[device.name, queue] = vector
    by_name = {device.name: device for device in recording.devices}
    done: Counter[tuple[str, str]] = Counter()
    for step in replay(recording).interleaving.steps:
        done[step.device, step.action] += 1
        assert step.queue == done[step.device, step.action]
        device = by_name[step.device]
        if step.action == "allocate":
            vectors[step[:2]] = chip.allocate([device.masks[step.queue]])[0]
        else:
            cpu = chip.request(vectors[step[:2]])
            assert cpu == device.effective[step.queue] or cpu is None
    for device in recording.devices:
        assert done[device.name, "request"] == len(device.masks) - 1


def test_kernels_that_logged_their_choices():
    """On 96 CPUs one allocation each chose before the one ahead of it was counted."""
    assert {name: len(replay(name).interleaving.late) for name in LOGGED} == {
        "arm64-16cpu-1node-cluster4-2x6-6.12": 0,
        "arm64-96cpu-2nodes-cluster4-6x14-6.12": 1,
        "arm64-96cpu-2nodes-cluster4-6x14-7.3": 1,
    }


def test_without_the_late_choice_the_log_explains_less():
    recording = load_recording("arm64-96cpu-2nodes-cluster4-6x14-7.3")
    blind = [replace(device, charged=()) for device in recording.devices]
    result = replay(replace(recording, devices=tuple(blind)))
    assert result.interleaving.found is False
    right, predictions = result.count("effective", "boot")
    assert right < predictions


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("x86-16cpu-1node-2x6-7.3", 5),
        ("x86-96cpu-2nodes-smt2-6x62-7.3", 1),
        ("arm64-16cpu-1node-cluster4-2x6-7.3", 6),
    ],
)
def test_it_is_said_that_no_order_explains_a_crowded_cpu(name, queue):
    """An interrupt moved to the other CPU of its mask makes that CPU too full for any order."""
    recording = load_recording(name)
    first, *others = recording.devices
    [other] = first.masks[queue] - CpuSet([first.effective[queue]])
    effective = [*first.effective[:queue], other, *first.effective[queue + 1 :]]
    moved = replace(first, effective=tuple(effective))
    result = replay(replace(recording, devices=(moved, *others)))
    assert result.interleaving.found is False
    boot = [row for row in result.rows if row.phase == "boot" and row.kind == "effective"]
    assert {row.predicted for row in boot} == {"?"}
    assert result.count("mask")[0] == result.count("mask")[1]


def test_a_search_gives_up():
    result = replay("x86-48cpu-6nodes-smt2-6x32-7.3", max_states=100)
    assert result.interleaving.found is None
    assert "cannot be judged in" in str(result)


def test_isolated_cpus_leave_the_choice_and_the_maps():
    """isolcpus=managed_irq,domain takes CPUs out of both, unless a mask has no others."""
    recording = load_recording("x86-8cpu-2nodes-smt2-isolcpus-2x3-6.12")
    isolated = CpuSet("2-3,7")
    for device in (*recording.devices, *recording.rebind):
        assert [str(mask) for mask in device.masks[1:]] == ["4-7", "0-1", "2-3"]
        assert [str(cpus) for cpus in device.maps] == ["4-6", "0-1", ""]
        assert [cpu in isolated for cpu in device.effective[1:]] == [False, False, True]
    unaware = replay(replace(recording, cmdline="quiet"))
    assert unaware.count("map")[0] == 4
    assert unaware.count("effective", "rebind")[0] < 6


def test_isolated_from_interrupts_alone_they_stay_in_the_maps():
    recording = load_recording("x86-8cpu-2nodes-smt2-isolcpus-managed-2x3-6.12")
    assert "isolcpus=managed_irq,2,7" in recording.cmdline
    for device in (*recording.devices, *recording.rebind):
        assert device.maps == device.masks[1:]
        assert not {2, 7} & set(device.effective[1:])


def test_an_interrupt_whose_cpus_are_offline_is_shown_on_the_first_online_one():
    frame = replay("x86-5of8cpu-online-1node-1x3-7.3").frame
    last = frame[(frame["kind"] == "effective") & (frame["queue"] == 3)]
    assert list(last["recorded"]) == list(last["predicted"]) == ["0", "0"]
    recording = load_recording("x86-5of8cpu-online-1node-1x3-7.3")
    assert not recording.devices[0].masks[3] & recording.topology.online


@pytest.mark.parametrize(
    ("cmdline", "irqs", "maps"),
    [
        ("quiet", "", ""),
        ("isolcpus=2-3", "", "2-3"),
        ("isolcpus=managed_irq,2-3", "2-3", ""),
        ("isolcpus=managed_irq,domain,2-3,5", "2-3,5", "2-3,5"),
        ("isolcpus=nohz,domain,managed_irq,1", "1", "1"),
        ("nohz_full=4-99", "", "4-7"),
        ("isolcpus=managed_irq,1 nohz_full=6", "1", "6"),
        ("isolcpus=managed_irq", "", ""),
        ("isolcpus=nonsense", "", ""),
        ("nohz_full", "", ""),
        ("myisolcpus=1", "", ""),
    ],
)
def test_isolated_cpus(cmdline, irqs, maps):
    assert isolated_cpus(cmdline, CpuSet("0-7")) == (CpuSet(irqs), CpuSet(maps))


@pytest.mark.parametrize(
    ("release", "revision"),
    [
        ("5.4.0", "numa-single-pop"),
        ("6.1.0-57-cloud-amd64", "numa-single-pop"),
        ("6.8.12", "numa-single-pop"),
        ("6.9.1", "numa"),
        ("6.12.117+deb13-cloud-arm64", "numa"),
        ("6.19.7", "numa"),
        ("7.0.1", "cluster"),
        ("7.3.4+deb13-cloud-amd64", "cluster"),
        ("10.1", "cluster"),
    ],
)
def test_the_revision_of_a_release(release, revision):
    assert revision_of_release(release) is REVISIONS[revision]


@pytest.mark.parametrize("release", ["4.19.1", "5.3.18", "6", "6.", "", "linux-6.12", "6.9999"])
def test_a_release_without_a_revision(release):
    with pytest.raises(RequestError, match=r"expected a release from 5\.4 on"):
        revision_of_release(release)


def edited(*path, value):
    doc = document("arm64-16cpu-1node-cluster4-2x6-6.12")
    at = doc
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return doc


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ([], "no table of fields"),
        (edited("typo", value=1), "unknown field 'typo'"),
        (edited("kernel", value=None), "kernel: missing"),
        (edited("kernel", value="2.6.18"), "expected a release"),
        (edited("arch", value="s390x"), "arch: 's390x'; expected x86_64 or arm64"),
        (edited("topology", value=None), "topology"),
        (edited("topology", "nodes", "0", value="0-3"), "in no node"),
        (edited("topology", "online", value=""), "at least one CPU"),
        (edited("nvme", "poll_queues", value=None), "write_queues and poll_queues"),
        (edited("nvme", "poll_queues", value=-1), "poll_queues: -1 is no whole number"),
        (edited("nvme", "poll_queues", value=True), "poll_queues: True is no whole number"),
        (edited("other_irqs", value="99"), "other_irqs: CPU 99 is not possible"),
        (edited("devices", value={}), "expected a list"),
        (edited("devices", 0, "maps", value=None), r"devices\[0\]: expected the fields"),
        (edited("devices", 0, "maps", value="0-2 3-99"), r"devices\[0\].maps: CPUs 16-99"),
        (edited("devices", 0, "masks", value="0-2 x"), r"devices\[0\].masks"),
        (edited("devices", 0, "irqs", value="1 2"), r"devices\[0\]: 2 irqs, 7 masks"),
        (edited("devices", 0, "effective", value="0 -1"), "'-1' is no whole number"),
        (edited("devices", 0, "io_queues", value=0), "io_queues: 0 is no whole number"),
        (edited("devices", 0, "charged", value="1 2"), "charged: 2 CPUs for 6 queues"),
        (edited("devices", 0, "name", value="nvme1"), "more than one device"),
        (edited("order", value=["nvme0 1-6"]), "6 steps; expected two a queue, 24"),
        (edited("order", value=["nvme0 1-9"]), "no such queue"),
        (edited("order", value=[7]), "expected a text such as"),
        (edited("rebind", value={}), "rebind: {}; expected a list"),
    ],
)
def test_a_bad_recording_is_refused(doc, message):
    with pytest.raises(FormatError, match=message) as caught:
        recording_from_dict(doc, "boot.json")
    assert str(caught.value).startswith("boot.json")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(RequestError, match=r"neither a file nor one of arm64-16cpu"):
        load_recording("nosuch")
    for bad in (b"\xff", b"{", b"[" * 100_000, b'{"a": NaN}', b"9" * 10_000):
        path = tmp_path / "boot.json"
        path.write_bytes(bad)
        with pytest.raises(FormatError, match=r"^boot\.json: "):
            load_recording(path)
    path.write_bytes(b" " * (17 << 20))
    with pytest.raises(FormatError, match="bytes, at most"):
        load_recording(path)


@given(st.data())
def test_a_damaged_recording_ends_in_a_replay_or_one_of_our_errors(data):
    text = json.dumps(document("x86-8cpu-4nodes-1x3-poll1-7.3"))
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(st.sampled_from(["", "0", "9", "-", ",", '"', "7-0", "null", "[]", "{}"]))
    damaged = text[:at] + piece + text[at + data.draw(st.integers(0, 9)) :]
    try:
        result = replay(recording_from_dict(json.loads(damaged)), max_states=1000)
    except json.JSONDecodeError:
        return
    except GroupCpusError:
        return
    assert result.matches == bool(result.frame["match"].all())


def test_the_command_line_replays_all(capsys):
    assert main(["replay", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.partition(":")[0] for line in lines]
    assert [name for name in names if name in COUNTS][-len(COUNTS) :] == sorted(COUNTS)
    sums = [sum(counts[at] for counts in COUNTS.values()) for at in range(len(KINDS))]
    counted = ", ".join(f"{kind} {n}/{n}" for kind, n in zip(KINDS, sums, strict=True))
    assert lines[-1] == f"{len(COUNTS)} recordings: {counted}"


def test_the_command_line_names_what_did_not_match(tmp_path, capsys):
    doc = document("x86-8cpu-4nodes-1x3-7.3")
    doc["devices"][0]["effective"] = "1 0 3 5"
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(doc), encoding="utf-8")
    assert main(["replay", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "effective 5/6" in first
    assert second == "  boot nvme0 effective 1: predicted 7 (only device), recorded 0"
    assert main(["replay", "--json", str(path)]) == 0
    [result] = json.loads(capsys.readouterr().out)
    assert result["matched"]["effective"] == [5, 6]
    assert result["mismatches"] == [second.strip()]
    assert main(["replay"]) == 2
    assert "--all" in capsys.readouterr().err


def test_steps_are_read_in_runs():
    steps = load_recording("arm64-16cpu-1node-cluster4-2x6-6.12").order
    assert steps[0] == RecordedStep("nvme0", 1, "allocate")
    assert steps[-1] == RecordedStep("nvme1", 6, "request")
    assert Counter(step.action for step in steps) == {"allocate": 12, "request": 12}


def test_the_search_leaves_the_irqchip_alone():
    recording = load_recording("x86-16cpu-1node-2x6-7.3")
    chip = make_irqchip("x86", recording.topology)
    assert find_interleaving(recording.devices, chip) == find_interleaving(recording.devices, chip)
