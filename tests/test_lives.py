# SPDX-License-Identifier: GPL-2.0-only
"""Recordings of life after boot: every phase is predicted, and wrong rules are found out."""

import gzip
import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.__main__ import main
from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import FirstCpu, InterruptTranslationService, VectorMatrix, cpus_of
from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import FormatError, GroupCpusError, RequestError
from groupcpus.machines import inuse
from groupcpus.machines.inuse import InUse, topology_now
from groupcpus.machines.irqcore import IrqCore
from groupcpus.machines.machine import data_dir
from groupcpus.observed.boots import changes_of_device, run_as_recorded
from groupcpus.observed.recordings import load_recording, recording_from_dict, recording_names
from groupcpus.observed.replay import KINDS, LIFE_KINDS, replay
from tests.test_longform import places

# Predictions of each kind that must come true, in all phases.
COUNTS = {
    # name: masks, maps, effective CPUs, admin queues; calls, other interrupts; phases
    "arm64-16cpu-1node-cluster4-its-2x6-6.12": (342, 342, 342, 55, 0, 0, 31),
    "arm64-8cpu-1node-gicv2m-2x3-7.3": (111, 111, 111, 35, 0, 0, 20),
    "arm64-8cpu-1node-gicv3-noits-2x3-7.3": (0, 0, 0, 0, 0, 0, 2),
    "x86-16cpu-1node-2x6-rotate-next": (126, 126, 126, 19, 11, 33, 12),
    "x86-16cpu-1node-2x6-rotate-v2": (78, 78, 78, 11, 11, 21, 8),
    "x86-16cpu-1node-cluster4-1x6-7.3-offline-reset-io": (36, 36, 36, 6, 0, 30, 6),
    "x86-16cpu-1node-cluster4-2x6-rotate-v2": (126, 126, 126, 19, 11, 33, 12),
    "x86-24cpu-2nodes-smt2-cluster4-2x11-7.3": (649, 649, 649, 57, 0, 180, 31),
    "x86-48cpu-6nodes-smt2-6x32-rotate-next": (768, 768, 768, 18, 26, 12, 5),
    "x86-48cpu-6nodes-smt2-6x32-rotate-v2-first": (384, 384, 384, 6, 13, 3, 2),
    "x86-8cpu-1node-3x5-rotate-v2": (165, 165, 165, 30, 15, 36, 13),
    "x86-8cpu-1node-smt2-4x2-7.3": (268, 268, 268, 130, 0, 216, 37),
    "x86-96cpu-2nodes-smt2-6x62-7.3": (5394, 5394, 5394, 81, 0, 102, 18),
    "x86-96cpu-2nodes-smt2-6x62-rotate-next": (1488, 1488, 1488, 18, 26, 12, 5),
    "x86-96cpu-2nodes-smt2-6x62-rotate-v2": (744, 744, 744, 6, 13, 3, 2),
}
SMALL = [name for name in COUNTS if "96cpu" not in name and "48cpu" not in name]


def document(name):
    data = (data_dir() / "recordings" / "life" / f"{name}.json.gz").read_bytes()
    return json.loads(gzip.decompress(data))


def misses(names=SMALL):
    """Count the predictions that do not come true, by kind."""
    counts = dict.fromkeys([*KINDS, *LIFE_KINDS], 0)
    for name in names:
        for row in replay(f"life/{name}", max_states=500).rows:
            counts[row.kind] += not row.match
    return {kind: count for kind, count in counts.items() if count}


def test_all_recordings_are_counted():
    assert recording_names(life=True) == [f"life/{name}" for name in sorted(COUNTS)]
    totals = tuple(map(sum, zip(*COUNTS.values(), strict=True)))
    assert totals == (10679, 10679, 10679, 491, 126, 681, 204)


@pytest.mark.parametrize("name", COUNTS)
def test_every_prediction_comes_true(name):
    result = replay(f"life/{name}")
    assert [str(row) for row in result.rows if not row.match] == []
    counts = [result.count(kind) for kind in (*KINDS, *LIFE_KINDS[:2])]
    assert counts == [(n, n) for n in COUNTS[name][:-1]]
    assert len(result.recording.phases) == COUNTS[name][-1]
    assert result.interleaving.found


@pytest.mark.parametrize("name", COUNTS)
def test_a_recording_counts_what_it_holds(name):
    """No interrupt, map or call of any phase is left out of the replay."""
    doc = document(name)
    phases = [phase for phase in doc["phases"] if phase["online"] is not None]
    devices = [device for phase in phases for device in phase["devices"]]
    masks = sum(len(device["masks"].split()) - 1 for device in devices)
    maps = sum(len(device["maps"].split()) for device in devices)
    calls = sum(line[1] == "group" for phase in phases for line in phase.get("log", []))
    assert COUNTS[name][:3] == (masks, maps, masks)
    # What the admin queues got at boot depends on the order, which is known for one disk.
    first = len(phases[0]["devices"])
    assert COUNTS[name][3] == len(devices) - (first if first > 1 else 0)
    assert COUNTS[name][4] == (calls if doc["patched_build"] else 0)


def test_a_stock_kernel_leaves_the_map_after_a_reset_with_cpus_offline():
    """What is computed for L96as_v4 was recorded: no mask of nvme1 touches its queue's CPUs."""
    recording = load_recording("life/x86-96cpu-2nodes-smt2-6x62-7.3")
    [reset] = [at for at, phase in enumerate(recording.phases) if phase.event == "reset nvme1"]
    for phase in recording.phases[reset : reset + 4]:
        [nvme1] = [device for device in phase.devices if device.name == "nvme1"]
        assert all(
            mask.isdisjoint(cpus) for mask, cpus in zip(nvme1.masks[1:], nvme1.maps, strict=True)
        )
    assert recording.phases[reset + 3].online == recording.topology.online


class TestWrongRules:
    """Each rule is needed: without it, predictions fail."""

    def test_x86_takes_the_first_cpu_on_a_tie(self, monkeypatch):
        def request(chip, vector):
            candidates = cpus_of(chip.candidates(vector.mask, vector.managed))
            if not vector.managed or not candidates:
                return right(chip, vector)
            cpu = min(candidates, key=chip.managed_allocated.__getitem__)
            return right(chip, vector._replace(mask=1 << cpu))

        right = VectorMatrix.request
        monkeypatch.setattr(VectorMatrix, "request", request)
        assert misses()["effective"] > 500

    def test_its_keeps_its_charge_while_it_chooses(self, monkeypatch):
        def request(chip, vector):
            cpu = right(chip, vector._replace(charged=None))
            chip.free([vector])
            return cpu

        right = InterruptTranslationService.request
        monkeypatch.setattr(InterruptTranslationService, "request", request)
        assert misses(["arm64-16cpu-1node-cluster4-its-2x6-6.12"])["effective"] > 20

    def test_gicv2m_takes_the_last_cpu(self, monkeypatch):
        def request(chip, vector):
            candidates = chip.candidates(vector.mask, vector.managed)
            return candidates.bit_length() - 1 if candidates else None

        monkeypatch.setattr(FirstCpu, "request", request)
        assert misses(["arm64-8cpu-1node-gicv2m-2x3-7.3"])["effective"] > 20

    @pytest.mark.parametrize(
        "now",
        [
            lambda topology, online, arch: topology,
            lambda topology, online, arch: topology_now(topology, online, "arm64"),
        ],
    )
    def test_masks_are_made_from_the_topology_at_boot_or_as_on_arm64(self, monkeypatch, now):
        monkeypatch.setattr(inuse, "topology_now", now)
        assert misses()["mask"] > 15

    def test_a_reset_remakes_the_map(self, monkeypatch):
        right = InUse.reset

        def reset(state, name, numbers=None):
            state.maps.pop(name)
            return right(state, name, numbers)

        monkeypatch.setattr(InUse, "reset", reset)
        wrong = misses()
        assert wrong["map"] > 80
        assert wrong["call"] > 0

    def test_a_returning_cpu_takes_interrupts_back(self, monkeypatch):
        right = IrqCore.cpu_up

        def cpu_up(core, cpu, isolated=None):
            return right(core, cpu, CpuSet(range(cpu)))

        monkeypatch.setattr(IrqCore, "cpu_up", cpu_up)
        assert misses()["effective"] > 100

    def test_a_kernel_has_another_revision(self):
        recording = load_recording("life/x86-16cpu-1node-2x6-rotate-v2")
        result = replay(recording, revision=REVISIONS["rotate-next"])
        right, all_ = result.count("call")
        assert right < all_


def test_the_text_sums_lives_and_boots_apart(capsys):
    assert main(["replay", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == (
        "15 recordings of life after boot, 204 phases: mask 10679/10679, map 10679/10679, "
        "effective 10679/10679, admin 491/491, call 126/126, other 681/681"
    )
    assert lines[-1] == (
        "29 recordings: mask 3006/3006, map 3008/3008, effective 3006/3006, admin 82/82"
    )


def test_a_file_is_read_packed_or_not(tmp_path, capsys):
    doc = document("x86-8cpu-1node-3x5-rotate-v2")
    doc["phases"][2]["devices"][0]["effective"] = "2 7 0 3 5 6"
    for name, data in (
        ("life.json", json.dumps(doc).encode()),
        ("life.json.gz", gzip.compress(json.dumps(doc).encode())),
    ):
        (tmp_path / name).write_bytes(data)
        assert main(["replay", "--json", str(tmp_path / name)]) == 0
        [result] = json.loads(capsys.readouterr().out)
        assert list(result["matched"]) == list(KINDS)
        right, all_ = result["matched"]["effective"]
        assert right < all_ == 165
        assert result["also_matched"]["call"] == [15, 15]
        assert result["mismatches"]


def test_a_gzip_file_that_unpacks_to_much_is_refused_soon(tmp_path):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(bytes(200 << 20)))
    begin = time.monotonic()
    with pytest.raises(FormatError, match="more than 4194304 bytes when unpacked"):
        load_recording(path)
    assert time.monotonic() - begin < 1
    for data, message in (
        (gzip.compress(b"{}")[:-9], "cut short"),
        (b"\x1f\x8b nonsense", "not a gzip file"),
        (gzip.compress(b"{"), "not a JSON file"),
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=message):
            load_recording(path)


def edited(*path, value, name="x86-16cpu-1node-2x6-rotate-v2"):
    doc = document(name)
    at = doc
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return doc


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        (edited("phases", value=[]), "phases: expected at least one, the boot"),
        (edited("phases", value=7), "phases: 7; expected a list"),
        (edited("phases", 0, value=7), r"phases\[0\]: 7 is no table of fields"),
        (edited("lib_group_cpus", value="mine"), "lib_group_cpus: 'mine'; expected one of numa"),
        (edited("arch", value="s390x"), "arch: 's390x'; expected x86_64 or arm64"),
        (edited("phases", 1, "event", value="reset nvme7"), "phase 1, reset nvme7: cannot happen"),
        (edited("phases", 1, "event", value="off x"), "phase 1, off x: cannot happen"),
        (edited("phases", 1, "event", value="bind 0000:00:01.0"), "it is bound already"),
        (edited("phases", 1, "online", value="0-99"), r"phases\[1\].online: CPUs 16-99 are not"),
        (edited("phases", 1, "log", value=[[1, 2]]), r"log\[0\]: \[1, 2\]; expected a time"),
        (edited("phases", 0, "devices", 0, "irqs", value="1"), "1 irqs, 7 masks, 7 effective"),
        (
            edited("phases", 0, "devices", 1, "irqs", value="24 25 26 27 28 29 30"),
            "more than one vector has the number",
        ),
        (edited("phases", 1, "devices", 0, "name", value="nvme1"), "more than one device is"),
        (edited("phases", 1, "devices", 0, "irqs", value="1 2"), "2 irqs, 7 masks"),
        (edited("phases", 1, "other_irqs", value=[[1]]), "number, name, affinity and effective"),
        (
            edited("qemu", value="", name="arm64-8cpu-1node-gicv2m-2x3-7.3"),
            "irqchip: missing, and qemu does not tell it; expected one of x86, gicv2m",
        ),
    ],
)
def test_a_bad_recording_is_refused(doc, message):
    with pytest.raises(GroupCpusError, match=message) as caught:
        replay(recording_from_dict(doc, "life.json"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 500


def test_an_irqchip_may_be_named_where_qemu_does_not_tell_it():
    doc = document("arm64-8cpu-1node-gicv2m-2x3-7.3")
    recording = recording_from_dict({**doc, "qemu": "", "irqchip": "gicv2m"})
    assert recording.irqchip == "gicv2m"
    assert replay(recording).matches


def test_a_rotating_kernel_that_logged_no_calls_is_predicted_after_its_boot():
    """Which offsets the boot took is not known then, and so is no mask of it or after it."""
    doc = document("x86-16cpu-1node-2x6-rotate-v2")
    doc["phases"] = doc["phases"][:1]
    doc["phases"][0]["log"] = [line for line in doc["phases"][0]["log"] if line[1] != "group"]
    recording = recording_from_dict(doc)
    assert [device.spread_offset for device in recording.devices] == [None, None]
    result = replay(recording)
    assert {row.predicted for row in result.rows if row.kind == "mask"} == {"?"}
    assert result.count("effective") == (12, 12)


DAMAGED = "arm64-8cpu-1node-gicv2m-2x3-7.3"
PLACES = list(places(document(DAMAGED)))
JUNK: list[object] = [None, True, -1, 7, 10**9, 0.5, "", "x", "0-3", "-", [], [5], [[]], {}]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(JUNK)), min_size=1, max_size=3))
def test_a_damaged_recording_ends_in_a_replay_or_one_of_our_errors(damages):
    doc = document(DAMAGED)
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


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", ".", "life/", "life/nosuch"])
def test_a_name_that_cannot_be_opened_is_refused(name):
    with pytest.raises(RequestError, match="neither a file nor one of") as caught:
        load_recording(name)
    assert len(str(caught.value)) <= 500
    for value in (None, 7, ["a"]):
        with pytest.raises(RequestError, match="expected a name or a path"):
            load_recording(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [900, 980, 985, 988, 990, 991, 992, 995, 1000, 5000])
def test_nested_lists_are_refused_at_any_depth(depth, tmp_path):
    path = tmp_path / "deep.json"
    doc = document(DAMAGED)
    for field in ("topology", "phases", "qemu"):
        path.write_text(json.dumps({**doc, field: "@"}).replace('"@"', "[" * depth + "]" * depth))
        with pytest.raises(FormatError):
            load_recording(path)


def test_a_long_recording_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "long.json"
    path.write_text("[" + "0," * (5 << 20) + "0]", encoding="utf-8")
    with pytest.raises(FormatError, match="bytes, at most 4194304 are read"):
        load_recording(path)


def test_isolated_cpus_leave_the_choice_in_a_life_too():
    """A housekeeping CPU that returns takes an interrupt from an isolated one."""
    recording = load_recording("life/x86-8cpu-1node-3x5-rotate-v2")
    aware = replay(replace(recording, cmdline="isolcpus=managed_irq,2"))
    assert aware.count("effective") < replay(recording).count("effective")


X86 = [*(f"life/{name}" for name in COUNTS if name.startswith("x86")), *recording_names()]


@pytest.mark.parametrize("name", [n for n in X86 if "x86" in n and "isolcpus" not in n])
def test_a_boot_simulated_as_recorded_has_the_recorded_effective_cpus(name):
    recording = load_recording(name)
    run = run_as_recorded(recording)
    recorded = {device.name: device for device in recording.devices}
    for irq in run.interrupts:
        device = recorded[irq.device]
        assert irq.affinity == device.masks[irq.queue]
        assert irq.effective in (None, device.effective[irq.queue])


@pytest.mark.parametrize(
    ("name", "histogram", "changes"),
    [
        ("life/x86-96cpu-2nodes-smt2-6x62-rotate-v2", {3: 13, 4: 82, 5: 1}, 318),
        ("life/x86-96cpu-2nodes-smt2-6x62-rotate-next", {3: 15, 4: 78, 5: 3}, 318),
        ("life/x86-48cpu-6nodes-smt2-6x32-rotate-v2-first", {3: 10, 4: 28, 5: 10}, 178),
    ],
)
def test_disks_that_probe_in_parallel_exceed_what_device_by_device_reaches(
    name, histogram, changes
):
    """In natural boots of patched kernels "no CPU more than 4" failed."""
    assert run_as_recorded(name).summary.histogram == histogram
    assert changes_of_device(load_recording(name).order) == changes


def test_a_boot_whose_order_is_not_known_is_not_simulated():
    recording = load_recording("x86-16cpu-1node-2x6-7.3")
    first, *others = recording.devices
    [other] = first.masks[5] - CpuSet([first.effective[5]])
    effective = [*first.effective[:5], other, *first.effective[6:]]
    moved = replace(recording, devices=(replace(first, effective=tuple(effective)), *others))
    with pytest.raises(RequestError, match="the order of its requests is not known"):
        run_as_recorded(moved)


@pytest.mark.parametrize("field", ["patched_build", "qemu", "cmdline", "script", "complete"])
def test_what_a_life_is_not_read_from_may_be_missing(field):
    doc = document("x86-8cpu-1node-3x5-rotate-v2")
    del doc[field]
    assert replay(recording_from_dict(doc)).matches


@pytest.mark.parametrize("kind", ["masks", "maps", "effective"])
@pytest.mark.parametrize("phase", [0, 1])
def test_a_falsified_word_is_a_miss_and_no_error(kind, phase):
    doc = document("x86-8cpu-1node-3x5-rotate-v2")
    device = doc["phases"][phase]["devices"][0]
    words = device[kind] if isinstance(device[kind], list) else device[kind].split()
    words[2] = "7" if words[2] != "7" else "6"
    device[kind] = words if isinstance(device[kind], list) else " ".join(words)
    result = replay(recording_from_dict(doc))
    assert not result.matches
    missed = {row.kind for row in result.rows if not row.match}
    assert kind.removesuffix("s") in missed
