# SPDX-License-Identifier: GPL-2.0-only
"""A machine as it was captured beside the engine: who follows, and why others don't."""

import json
import re
import time
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcpus.__main__ import main
from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import data_dir
from groupcpus.observed import judging
from groupcpus.observed.compare import compare
from groupcpus.observed.folding import WIDTH
from groupcpus.observed.isolating import can_isolate
from groupcpus.observed.managing import which_managed
from groupcpus.observed.moving import find_moves
from groupcpus.observed.patience import Patience
from groupcpus.observed.problem import find_problem
from groupcpus.observed.queue_counts import count_queues
from groupcpus.observed.recordings import load_recording, recording_names
from groupcpus.observed.report import comparison_text
from groupcpus.observed.submitting import submissions
from groupcpus.observed.verdicts import VERDICTS
from groupcpus.observed.what_if import as_found, machine_from_capture, what_if
from groupcpus.sources import load
from groupcpus.sources.found import find_devices, irqchip_of
from tests.captures import add_device, capture, of_recording
from tests.sources.shapes import SHAPES, grep, numactl, sysfs
from tests.strategies import made

SLOT = "0000:01:00.0"
# Two nodes whose order of allotment differs between the sorts, and clusters that don't divide.
TWO_NODES = Topology.uniform(nodes=2, cpus_per_node=8, threads=2, cluster=4)
BIG = Topology.uniform(nodes=2, cpus_per_node=48, threads=2, cluster=2)


def nvme_vectors(name, masks, effective=None, *, home="0-7"):
    effective = effective or [mask.first for mask in masks]
    queues = [
        (f"{name}q{at}", mask, cpu)
        for at, (mask, cpu) in enumerate(zip(masks, effective, strict=True), start=1)
    ]
    return [(f"{name}q0", CpuSet(home), CpuSet(home).first), *queues]


def with_nvme(topology, masks, effective=None, *, kernel="7.3.0", **more):
    document = capture(topology, kernel=kernel, **more)
    return add_device(
        document, "nvme0", SLOT, nvme_vectors("nvme0", masks, effective), driver="nvme"
    )


def with_net(topology, masks, effective=None, *, names="eth0-TxRx-{}", driver="ice", **more):
    effective = effective or [mask.first for mask in masks]
    vectors = [
        (names.format(at), mask, cpu)
        for at, (mask, cpu) in enumerate(zip(masks, effective, strict=True))
    ]
    document = capture(topology, **more)
    return add_device(document, "eth0", SLOT, vectors, driver=driver, node=more.pop("node", 0))


def compared(document, **more):
    return compare(load(json.dumps(document)), **more)


def the_only(document, **more):
    comparison = compared(document, **more)
    (judged,) = comparison.devices
    return judged


def masks_of(topology, numgrps, revision="cluster", offset=0):
    return list(group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset).masks)


def told(topology):
    """Give what /sys tells of a topology: of CPUs that are offline neither cores nor clusters."""
    cpus = [(topology.siblings_of(cpu), topology.cluster_of(cpu)) for cpu in topology.online]
    sets = topology.possible, topology.present, topology.online
    return *sets, dict(topology.nodes), cpus


# --- recordings of real boots


@pytest.mark.parametrize("name", [name for name in recording_names() if "96cpu" not in name])
def test_recorded_kernels_follow_their_own_revision(name):
    recording = load_recording(name)
    comparison = compared(of_recording(recording), search_offsets=16)
    assert told(comparison.topology) == told(recording.topology)
    assert comparison.expected == recording.revision.name
    assert comparison.irqchip == recording.irqchip
    assert {judged.found.name for judged in comparison.devices} == {
        device.name for device in recording.devices
    }
    for device in recording.devices:
        judged = comparison[device.name]
        assert judged.verdict == "follows"
        assert recording.revision.name in judged.revisions
        masks = [row for row in judged.rows if row.kind != "other"]
        assert [row.predicted for row in masks] == list(device.masks[1:])
        assert [row.queue for row in masks] == list(range(1, len(device.masks)))
        assert all(row.match and row.managed for row in masks)
        (admin,) = (row for row in judged.rows if row.kind == "other")
        assert (admin.match, admin.managed, admin.name) == (None, False, f"{device.name}q0")
    assert not any(row.odd for row in comparison.rows)
    # Where too many orders are possible the search gives up; it never finds that there is none.
    assert comparison.order.found is not False
    assert max(map(len, comparison_text(comparison).splitlines())) <= WIDTH


def test_six_recorded_disks_tell_the_sort_and_the_revision():
    comparison = compared(of_recording(load_recording("x86-48cpu-6nodes-smt2-6x32-6.12")))
    fixed = [set(judged.revisions) & set(judging.FIXED) for judged in comparison.devices]
    assert fixed == [{"numa"}] * 6
    assert sum(comparison.loads.values()) == 6 * 32
    assert comparison.order.found


def test_write_queues_make_two_calls():
    judged = the_only(of_recording(load_recording("x86-8cpu-4nodes-1x3-write2-7.3")))
    assert judged.numgrps == (2, 1)
    assert [row.kind for row in judged.rows] == ["other", "default", "default", "read"]
    assert "write_queues=2" in judged.why


def test_a_poll_queue_has_no_interrupt_and_is_kept_in_the_machine():
    document = of_recording(load_recording("x86-8cpu-4nodes-1x3-poll1-7.3"))
    judged = the_only(document)
    assert judged.numgrps == (2,)
    assert judged.why == "2 of 2 masks; 1 more to be polled, without interrupts"
    machine = machine_from_capture(load(json.dumps(document)))
    assert machine.devices == (Device("nvme0", "nvme", 3, 0, 1),)


# --- who follows


def test_queue_by_queue():
    masks = masks_of(TWO_NODES, 5)
    comparison = compared(with_nvme(TWO_NODES, masks))
    frame = comparison.frame
    assert list(frame["queue"].iloc[1:]) == [1, 2, 3, 4, 5]
    assert list(frame["affinity"].iloc[1:]) == [str(mask) for mask in masks]
    assert list(frame["predicted"].iloc[1:]) == [str(mask) for mask in masks]
    assert frame["match"].iloc[1:].all()
    assert frame["match"].isna().iloc[0]
    assert set(frame["verdict"]) == {"follows"}
    summary = comparison.summary
    assert summary[["device", "driver", "queues", "matched"]].values.tolist() == [
        ["nvme0", "nvme", 5, 5]
    ]


def test_the_revision_of_another_kernel_is_told():
    masks = masks_of(TWO_NODES, 5, "numa")
    judged = the_only(with_nvme(TWO_NODES, masks, kernel="7.3.0"))
    assert judged.verdict == "follows"
    assert "numa" in judged.revisions
    assert "cluster" not in judged.revisions
    assert judged.why.endswith("but kernel 7.3.0 should have cluster")


@pytest.mark.parametrize("revision", ["rotate-v2", "rotate-next"])
def test_the_counter_of_a_revision_that_rotates_is_found(revision):
    masks = masks_of(BIG, 62, revision, 11)
    judged = the_only(with_nvme(BIG, masks), search_offsets=64)
    assert judged.verdict == "follows"
    assert revision in judged.revisions
    assert not set(judged.revisions) & set(judging.FIXED)
    explanation = next(one for one in judged.explanations if one.revision == revision)
    (offsets,) = explanation.offsets
    assert 11 in offsets
    # All of them, and no others.
    assert list(offsets) == [n for n in range(64) if masks_of(BIG, 62, revision, n) == masks]
    assert 0 < len(offsets) < 64
    assert "with the counter at" in judged.why
    assert [row.match for row in judged.rows[1:]] == [True] * 62


def test_every_call_has_a_counter_of_its_own():
    masks = masks_of(BIG, 31, "rotate-v2", 3) + masks_of(BIG, 20, "rotate-v2", 7)
    document = with_nvme(BIG, masks, nvme={"write_queues": "31", "poll_queues": "0"})
    explanations = the_only(document, search_offsets=32).explanations
    v2 = next(one for one in explanations if one.revision == "rotate-v2")
    first, second = v2.offsets
    assert 3 in first
    assert 3 not in second
    assert 7 in second


def test_without_an_offset_none_is_claimed():
    masks = masks_of(BIG, 62, "rotate-v2", 11)
    judged = the_only(with_nvme(BIG, masks), search_offsets=0)
    assert {one.revision for one in judged.explanations} == set(judging.FIXED)
    assert judged.verdict == "differs"
    assert judged.revisions == ()


def test_offsets_that_repeat_are_told_as_a_residue():
    assert judging.offsets_text(tuple(range(2, 100, 5)), 100) == "2 mod 5"
    assert judging.offsets_text((1, 4, 7), 9) == "1 mod 3"
    assert judging.offsets_text((), 9) == "none of 0-8"
    assert judging.offsets_text((1, 2, 3, 4, 8), 9) == "1, 2, 3, 4, ... of 0-8"


def test_queue_sets_are_recognised_without_parameters():
    """Seven write queues and a read queue, as a desktop showed them."""
    machine = Topology(
        CpuSet("0-31"),
        CpuSet("0-31"),
        CpuSet("0-31"),
        {0: CpuSet("0-31")},
        [CpuSet([cpu]) for cpu in range(32)],
        [CpuSet([cpu, cpu + 16]) for cpu in range(16)],
    )
    masks = [*masks_of(machine, 7, "numa"), CpuSet("0-31")]
    effective = [17, 20, 23, 26, 29, 31, 27, 30]
    comparison = compared(with_nvme(machine, masks, effective, kernel="6.8.0"))
    judged = comparison["nvme0"]
    assert (judged.verdict, judged.numgrps) == ("follows", (7, 1))
    assert "write_queues=7" in judged.why
    assert comparison.order.found
    assert not any(row.odd for row in comparison.rows)


def test_kinds_of_queue_maps_give_the_queue_sets():
    masks = masks_of(TWO_NODES, 4) + masks_of(TWO_NODES, 2)
    document = with_nvme(TWO_NODES, masks)
    maps = "".join(
        f"\thctx{at}: {'default' if at < 4 else 'read'} {' '.join(map(str, mask))}\n"
        for at, mask in enumerate(masks)
    )
    dump = "queue mapping for /dev/nvme0n1\n" + maps
    (judged,) = compare(load(json.dumps(document), dump)).devices
    assert judged.numgrps == (4, 2)
    assert judged.why.endswith("by the kinds of its queue maps")


def test_the_driver_s_log_gives_the_queue_sets():
    masks = masks_of(TWO_NODES, 5) + masks_of(TWO_NODES, 3)
    log = "[    3.1] nvme nvme0: 5/3/2 default/read/poll queues\n"
    (judged,) = compare(load(json.dumps(with_nvme(TWO_NODES, masks)), log)).devices
    assert judged.numgrps == (5, 3)
    assert judged.verdict == "follows"
    assert judged.why.endswith("by the driver's log")


def test_fewer_queues_than_masks():
    masks = masks_of(TWO_NODES, 6)[:4]
    judged = the_only(with_nvme(TWO_NODES, masks))
    assert (judged.verdict, judged.numgrps) == ("follows", (6,))
    assert "6 masks were made, these queues have the first 4" in judged.why


def test_a_queue_that_was_not_told_leaves_the_others_in_place():
    document = with_nvme(TWO_NODES, masks_of(TWO_NODES, 6))
    del document["interrupts"][3]
    judged = the_only(document)
    assert judged.verdict == "follows"
    assert [row.queue for row in judged.rows] == [None, 1, 2, 4, 5, 6]


def test_a_storage_controller_with_vectors_in_front():
    masks = [CpuSet("0-15")] * 2 + masks_of(TWO_NODES, 6, "numa")
    vectors = [(f"megasas0-msix{at}", mask, mask.first) for at, mask in enumerate(masks)]
    document = capture(TWO_NODES, kernel="6.12.1")
    judged = the_only(add_device(document, "megasas0", SLOT, vectors, driver="megaraid_sas"))
    assert (judged.verdict, judged.numgrps) == ("follows", (6,))
    assert "the first 2 of its vectors are not spread" in judged.why
    assert [row.match for row in judged.rows] == [None, None, *[True] * 6]


def test_virtio_disks_follow_and_one_queue_says_nothing_of_revisions():
    masks = masks_of(TWO_NODES, 4)
    document = capture(TWO_NODES, kernel="7.0.0")
    for disk, groups in (("virtio0", masks), ("virtio1", [CpuSet("0-15")])):
        vectors = [(f"{disk}-config", CpuSet("0-15"), 0)]
        vectors += [(f"{disk}-req.{at}", mask, mask.first) for at, mask in enumerate(groups)]
        slot = f"0000:0{disk[-1]}:00.0"
        add_device(document, disk, slot, vectors, driver="virtio-pci", node=-1)
    comparison = compared(document)
    assert [judged.verdict for judged in comparison.devices] == ["follows"] * 2
    assert comparison["virtio1"].why == "one queue: all CPUs, under every revision"
    assert set(comparison["virtio1"].revisions) == set(REVISIONS)
    assert machine_from_capture(comparison.loaded).devices == (
        Device("virtio0", "virtio", 4),
        Device("virtio1", "virtio", 1),
    )


def test_the_nodes_of_interrupts_show_that_they_were_spread():
    """A device without a node has interrupts with nodes only if masks came with them."""

    def told_node(affinity):
        return TWO_NODES.node_of(affinity.first)

    masks = masks_of(TWO_NODES, 4)
    vectors = [(f"card0-msix{at}", mask, mask.first) for at, mask in enumerate(masks)]
    verdicts = []
    for node in (told_node, None):
        document = capture(TWO_NODES, kernel="7.0.0")
        add_device(document, "card0", SLOT, vectors, driver="card", node=-1, told_node=node)
        verdicts.append(the_only(document).verdict)
    assert verdicts == ["follows", "not managed"] or verdicts == ["follows", "moved"]


# --- and who doesn't


def test_not_managed_by_default_affinity():
    judged = the_only(with_net(TWO_NODES, [CpuSet("0-15")] * 4, [0, 1, 2, 3]))
    assert judged.verdict == "not managed"
    assert judged.why == "its queues have all CPUs (0-15)"
    assert not judged.calls_grouping
    assert all(row.predicted is None and not row.managed for row in judged.rows)


def test_not_managed_in_one_node():
    judged = the_only(with_net(TWO_NODES, [CpuSet("0-7")] * 4))
    assert judged.verdict == "not managed"
    assert judged.why == "its queues have the online CPUs of the device's node 0 (0-7)"


def test_not_managed_by_the_default_of_the_command_line():
    document = with_net(TWO_NODES, [CpuSet("0-1")] * 4, cmdline=["irqaffinity=0-1"])
    judged = the_only(document)
    assert judged.verdict == "not managed"
    assert judged.why == "its queues have the default of irqaffinity=0-1 (0-1)"


def test_not_managed_says_the_kernel():
    vectors = nvme_vectors("nvme0", masks_of(TWO_NODES, 4))
    document = capture(TWO_NODES)
    add_device(document, "nvme0", SLOT, vectors, driver="nvme", managed=lambda name: False)
    judged = the_only(document)
    assert judged.verdict != "follows"
    assert "the kernel says so itself" in judged.why


def test_managed_says_the_kernel():
    """Then a driver need not be known, and no name tells what is a queue's."""
    vectors = [
        (f"card0-msix{at}", mask, mask.first) for at, mask in enumerate(masks_of(TWO_NODES, 6)[:3])
    ]
    verdicts = {}
    for managed in (lambda name: True, None):
        document = capture(TWO_NODES, kernel="7.3.0")
        add_device(document, "card0", SLOT, vectors, driver="card", managed=managed)
        verdicts[bool(managed)] = the_only(document).verdict
    assert verdicts == {True: "follows", False: "moved"}


def test_shut_down_says_the_kernel():
    document = with_nvme(TWO_NODES, masks_of(TWO_NODES, 4))
    document["interrupts"][2]["shutdown"] = True
    comparison = compared(document)
    row = comparison["nvme0"].rows[2]
    assert row.effective_why == "shut down, says the kernel, since its CPUs went"
    assert sum(comparison.loads.values()) == 3


def test_missing_queues_are_no_evidence_against_a_grouping():
    document = with_nvme(TWO_NODES, [CpuSet("0-4"), CpuSet("5-9"), CpuSet("10-15")])
    del document["interrupts"][2]
    judged = the_only(document)
    assert judged.verdict == "differs"
    assert "are in none" not in judged.why


def test_vector_0_of_a_disk_is_not_managed():
    judged = the_only(with_nvme(TWO_NODES, masks_of(TWO_NODES, 4)))
    admin = judged.rows[0]
    assert (admin.name, admin.managed) == ("nvme0q0", False)
    assert admin.why == "not a queue's, so not managed"


@pytest.mark.parametrize(
    ("irqbalance", "words"),
    [
        (True, "irqbalance runs"),
        (False, "by a user or the driver; irqbalance does not run"),
        (None, "by irqbalance, a user or the driver"),
    ],
)
def test_moved_by_irqbalance_or_a_user(irqbalance, words):
    masks = [CpuSet("3"), CpuSet("0-15"), CpuSet("9-10"), CpuSet("3")]
    judged = the_only(with_net(TWO_NODES, masks, irqbalance=irqbalance))
    assert judged.verdict == "moved"
    assert judged.why == f"not managed, and 3 of 4 queues have other CPUs than the default: {words}"
    assert [row.why for row in judged.rows] == [
        "set after it was requested",
        "as by default",
        *["set after it was requested"] * 2,
    ]


def test_other_function_cpumask_local_spread():
    masks = [CpuSet([cpumask_local_spread(TWO_NODES, at, 1)]) for at in range(12)]
    document = with_net(TWO_NODES, masks)
    document["devices"][0]["node"] = 1
    judged = the_only(document)
    assert judged.verdict == "other function"
    assert judged.why == "cpumask_local_spread() outward from node 1, a CPU a queue"
    assert {row.why for row in judged.rows} == {"as that function gives it"}


def test_one_cpu_a_queue_is_not_taken_for_a_grouping():
    """A network card's masks can be the same as those of group_cpus_evenly()."""
    machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=1, cluster=None)
    masks = masks_of(machine, 4, "numa")
    assert masks == [CpuSet([cpu]) for cpu in range(4)]
    assert the_only(with_net(machine, masks)).verdict == "other function"
    # Of a card that is not known, the more is said.
    vectors = [(f"card0-msix{at}", mask, mask.first) for at, mask in enumerate(masks)]
    document = add_device(capture(machine), "card0", SLOT, vectors, driver="card")
    document["devices"][0]["class"] = None
    judged = the_only(document)
    assert judged.verdict == "other function"
    assert judged.why.endswith("group_cpus_evenly() would give the same masks")


@pytest.mark.parametrize("version", ["merged", "posted"])
def test_other_function_of_mana(version):
    masks = [CpuSet("0"), *irq_setup(TWO_NODES, 12, 0, version=version)]
    document = with_net(TWO_NODES, masks, names="mana_q{}@pci:7870:00:00.0", driver="mana")
    judged = the_only(document)
    assert judged.verdict == "other function"
    assert judged.why == f"irq_setup() of the MANA driver ({version}), outward from node 0"
    machine = machine_from_capture(load(json.dumps(document)))
    assert [device.kind for device in machine.devices] == ["mana"]


def test_other_function_of_virtio_net():
    pairs = [CpuSet("0-5"), CpuSet("6-10"), CpuSet("11-15")]
    vectors: list[tuple[str, CpuSet, int | None]] = [("virtio0-config", CpuSet("0-15"), 0)]
    for at, mask in enumerate(pairs):
        vectors += [(f"virtio0-{way}.{at}", mask, mask.first) for way in ("input", "output")]
    document = add_device(capture(TWO_NODES), "virtio0", SLOT, vectors, driver="virtio-pci")
    judged = the_only(document)
    assert judged.verdict == "other function"
    assert judged.why.startswith("virtnet_set_affinity() deals the online CPUs in order to 3 pairs")
    vectors[1] = ("virtio0-input.0", CpuSet("0-4"), 0)
    document = add_device(capture(TWO_NODES), "virtio0", SLOT, vectors, driver="virtio-pci")
    assert the_only(document).verdict == "moved"


@pytest.mark.parametrize("kernel", ["5.3.18", "6.1.0-40-amd64"])
def test_older_kernel(kernel):
    masks = [CpuSet("0-1,8"), CpuSet("2-3,9"), CpuSet("4-5,10-11"), CpuSet("6-7,12-15")]
    judged = the_only(with_nvme(TWO_NODES, masks, kernel=kernel))
    assert judged.verdict == "older kernel"
    assert judged.why.startswith(
        f"{kernel} has no group_cpus_evenly() (6.3 on); none of 4 masks as in"
    )
    assert [row.match for row in judged.rows[1:]] == [False] * 4


def test_older_kernels_that_deal_alike_follow():
    masks = masks_of(TWO_NODES, 5, "numa-single-pop")
    judged = the_only(with_nvme(TWO_NODES, masks, kernel="5.15.0-91-generic"))
    assert judged.verdict == "follows"
    assert "numa-single-pop" in judged.revisions
    assert "deals so in irq_build_affinity_masks()" in judged.why


def test_masks_that_are_no_grouping_differ():
    masks = [CpuSet("0-3"), CpuSet("2-7"), CpuSet("8-11"), CpuSet("12-14")]
    judged = the_only(with_nvme(TWO_NODES, masks))
    assert judged.verdict == "differs"
    assert judged.why.endswith(
        "CPUs 2-3 are in several masks and CPUs 15 are in none, so this is no grouping of these "
        "CPUs"
    )


def test_another_grouping_differs_and_unknown_clusters_are_said():
    masks = [CpuSet("0,4,8,12"), CpuSet("1,5,9,13"), CpuSet("2,6,10,14"), CpuSet("3,7,11,15")]
    document = with_nvme(TWO_NODES, masks)
    judged = the_only(document)
    assert judged.verdict == "differs"
    assert "an even grouping of another kind; the CPUs or nodes may have been others" in judged.why
    document["topology"].update(clusters=[], cluster_source="unknown")
    comparison = compared(document)
    assert "the clusters are not known" in comparison["nvme0"].why
    assert any(text.startswith("the clusters") for text in comparison.unknown)


def test_no_affinity_is_no_verdict():
    document = capture(TWO_NODES)
    vectors = [(f"nvme0q{at}", None, None) for at in range(3)]
    assert the_only(add_device(document, "nvme0", SLOT, vectors, driver="nvme")).verdict == (
        "not known"
    )


# --- effective CPUs


def test_isolated_cpus_are_avoided():
    recording = load_recording("x86-8cpu-2nodes-smt2-isolcpus-managed-2x3-6.12")
    document = of_recording(recording)
    comparison = compared(document)
    kept = [row for row in comparison.rows if row.effective_why.startswith("off the isolated CPUs")]
    assert kept
    for row in kept:
        assert row.effective.isdisjoint(CpuSet(row.effective_why.split("CPUs ")[1].split(";")[0]))
    assert "off the isolated CPUs" in comparison_text(comparison)
    # Without the flag on the command line the same CPUs can't be explained.
    without = compared(document | {"cmdline": []})
    assert not any(row.effective_why.startswith("off the isolated") for row in without.rows)
    assert without.order.found is False


def test_shut_down_because_all_cpus_are_offline():
    recording = load_recording("x86-5of8cpu-online-1node-1x3-6.12")
    comparison = compared(of_recording(recording))
    online = recording.topology.online
    down = [row for row in comparison.rows if row.managed and not row.affinity & online]
    assert down
    for row in down:
        assert row.effective_why == (
            f"shut down, all of CPUs {row.affinity} are offline: {row.effective} is no error"
        )
        assert not row.odd
        assert row.match
    handled = sum(comparison.loads.values())
    assert handled == sum(row.managed for row in comparison.rows) - len(down)


def test_loads_of_the_mask_are_told():
    chip = make_irqchip("x86", TWO_NODES)
    document = capture(TWO_NODES, kernel="7.3.0")
    masks = masks_of(TWO_NODES, 5)
    for disk in range(3):
        name = f"nvme{disk}"
        vectors = nvme_vectors(name, masks, chip.assign(masks))
        add_device(document, name, f"0000:0{disk}:00.0", vectors, driver="nvme")
    comparison = compared(document)
    assert comparison.order.found
    assert not any(row.odd for row in comparison.rows)
    row = next(row for row in comparison["nvme1"].rows if row.managed and len(row.affinity) == 4)
    counts = [comparison.loads[cpu] for cpu in row.affinity if cpu != row.effective.first]
    assert row.effective_why == (
        f"{comparison.loads[row.effective.first]} managed on CPU {row.effective}, "
        f"{min(counts)} to {max(counts)} on the others of {row.affinity}"
        if min(counts) != max(counts)
        else f"{comparison.loads[row.effective.first]} managed on CPU {row.effective}, "
        f"{counts[0]} on the others of {row.affinity}"
    )
    assert comparison.loads == {
        cpu: sum(row.managed and row.effective == CpuSet([cpu]) for row in comparison.rows)
        for cpu in range(16)
    }


def test_more_than_any_order_gives_is_said():
    masks = [CpuSet("0-7"), CpuSet("8-15")]
    document = capture(TWO_NODES, kernel="7.3.0")
    for disk in range(3):
        name = f"nvme{disk}"
        vectors = nvme_vectors(name, masks, [5, 15 - disk])
        add_device(document, name, f"0000:0{disk}:00.0", vectors, driver="nvme")
    comparison = compared(document)
    odd = [row.name for row in comparison.rows if row.odd]
    assert odd == ["nvme0q1", "nvme1q1", "nvme2q1"]
    assert comparison["nvme0"].rows[1].effective_why == (
        "3 managed on CPU 5, 0 on the others of 0-7: more than any order of requests gives"
    )
    assert comparison.order.found is False
    text = comparison_text(comparison)
    assert "no order of requests since boot gives them all" in " ".join(text.split())


def test_the_last_of_equal_cpus_is_taken_so_the_first_is_odd():
    masks = [CpuSet("0-7"), CpuSet("8-15")]
    for effective, odd in (([7, 15], [False, False]), ([0, 15], [True, False])):
        judged = the_only(with_nvme(TWO_NODES, masks, effective))
        assert [row.odd for row in judged.rows[1:]] == odd


def test_outside_of_its_mask():
    masks = [CpuSet("0-7"), CpuSet("8-15")]
    judged = the_only(with_nvme(TWO_NODES, masks, [12, 15]))
    assert judged.rows[1].odd
    assert judged.rows[1].effective_why == "not one of CPUs 0-7, the choice it had"


def test_the_first_cpu_without_a_translation_service():
    masks = [CpuSet("0-7"), CpuSet("8-15")]
    for effective, odd in (([0, 8], [False, False]), ([3, 8], [True, False])):
        document = with_nvme(TWO_NODES, masks, effective, arch="aarch64")
        for interrupt in document["interrupts"]:
            interrupt["chip"] = "Hyper-V PCIe MSI"
        assert irqchip_of(load(json.dumps(document))) == "gicv3"
        assert [row.odd for row in the_only(document).rows[1:]] == odd


@pytest.mark.parametrize(
    ("arch", "kernel", "chip", "name"),
    [
        ("x86_64", "6.12.0", "IR-PCI-MSIX-0000:01:00.0", "x86"),
        ("aarch64", "6.12.0", "ITS-PCI-MSIX-0000:01:00.0", "its"),
        ("aarch64", "5.4.0", "ITS-MSI", "its-first"),
        ("aarch64", "7.3.4", "GICv2m-PCI-MSIX-0000:00:01.0", "gicv2m"),
        ("aarch64", "6.12.0", "Hyper-V PCIe MSI", "gicv3"),
        ("ppc64le", "6.12.0", "XIVE-IRQ", None),
    ],
)
def test_the_irqchip_by_architecture_and_name(arch, kernel, chip, name):
    document = with_nvme(TWO_NODES, masks_of(TWO_NODES, 4), kernel=kernel, arch=arch)
    for interrupt in document["interrupts"]:
        interrupt["chip"] = chip
    loaded = load(json.dumps(document))
    assert irqchip_of(loaded) == name
    comparison = compare(loaded)
    assert (comparison.order is None) == (name is None)
    if name is None:
        assert any("irqchip" in text for text in comparison.unknown)
        with pytest.raises(RequestError, match="pass irqchip="):
            machine_from_capture(loaded)


def test_history_is_said_to_be_unknown():
    comparison = compared(with_nvme(TWO_NODES, masks_of(TWO_NODES, 4)))
    assert any(text.startswith("the history") for text in comparison.unknown)
    assert any("only root may read" in text for text in comparison.unknown)
    text = comparison_text(comparison)
    assert "What cannot be known from this:" in text


# --- other sources than captures


def test_text_files_together_are_enough():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    topology = load(grep(sysfs(shape)), arch="x86_64").topology
    masks = masks_of(topology, 5, "numa")
    lines = [
        f"irq {30 + at} affinity {m} effective {m.first} nvme0q{at + 1}"
        for at, m in enumerate(masks)
    ]
    lines += [
        "irq 40 affinity 0-15 effective 2 eth0-TxRx-0",
        "irq 41 affinity 3 effective 3 eth0-TxRx-1",
    ]
    lines += ["irq 9 affinity 0-15 effective 0 acpi"]
    comparison = compare(
        load(grep(sysfs(shape)), numactl(shape), "\n".join(lines) + "\n", arch="x86_64")
    )
    assert [judged.found.name for judged in comparison.devices] == ["eth0", "nvme0"]
    assert comparison["nvme0"].verdict == "follows"
    assert comparison["eth0"].verdict == "moved"
    assert [told.irq for told in comparison.others] == [9]
    assert comparison.expected is None


def test_names_tell_whose_an_interrupt_is():
    text = (
        "           CPU0       CPU1\n"
        " 1:          0          9   IO-APIC   1-edge      i8042\n"
        "24:         25          0   PCI-MSIX-0000:01:00.0   0-edge      nvme0q0\n"
        "25:         25          0   PCI-MSIX-0000:01:00.0   1-edge      nvme0q1\n"
        "30:         25          0   PCI-MSI 524288-edge      mlx5_comp0@pci:0000:02:00.0\n"
        "31:         25          0   PCI-MSI 524289-edge      mlx5_comp1@pci:0000:02:00.0\n"
        "32:         25          0   PCI-MSI 528384-edge      mlx5_comp0@pci:0000:02:00.1\n"
        "33:         25          0   PCI-MSI 528385-edge      mlx5_comp1@pci:0000:02:00.1\n"
        "34:         25          0   PCI-MSI 1-edge      i40e-enp2s0f0-TxRx-0\n"
        "35:         25          0   PCI-MSI 2-edge      i40e-enp2s0f0-TxRx-1\n"
        "36:         25          0   PCI-MSI 3-edge      hpsa0-msix0\n"
        "37:         25          0   PCI-MSI 4-edge      hpsa0-msix1\n"
        "38:         25          0   PCI-MSI 5-edge      mana_q0@pci:7870:00:00.0\n"
        "39:         25          0   PCI-MSI 6-edge      mana_q1@pci:7870:00:00.0\n"
    )
    devices, others = find_devices(load(text))
    names = {device.name: (device.kind, device.spreads) for device in devices}
    assert names == {
        "nvme0": ("nvme", True),
        "mlx5-0000:02:00.0": ("irqs", False),
        "mlx5-0000:02:00.1": ("irqs", False),
        "i40e-enp2s0f0": ("irqs", False),
        "hpsa0": ("irqs", True),
        "mana": ("mana", False),
    }
    assert [told.irq for told in others] == [1]


@pytest.mark.parametrize(
    "sources",
    [
        ["irq 31 affinity 0-1 effective 1 nvme0q1\n"],
        ["/sys/devices/system/cpu/online:0-3\n"],
    ],
)
def test_too_little_is_refused(sources):
    with pytest.raises(RequestError, match=r"no source (names|has)"):
        compare(load(*sources))


def test_a_number_of_offsets_that_cannot_be_is_refused():
    loaded = load(json.dumps(with_nvme(TWO_NODES, masks_of(TWO_NODES, 4))))
    for wrong in (-1, 1 << 20, True):
        with pytest.raises(RequestError, match="offsets"):
            compare(loaded, search_offsets=wrong)


def test_names_with_numbers_beyond_any_queue_cost_nothing():
    document = with_nvme(TWO_NODES, masks_of(TWO_NODES, 4))
    document["interrupts"][1]["actions"] = ["nvme0q999999"]
    assert the_only(document).verdict in ("differs", "follows")


NAMES = st.sampled_from(
    (
        *("nvme0q{}", "virtio0-req.{}", "virtio1-input.{}", "virtio1-output.{}", "virtio2-request"),
        *("eth0-TxRx-{}", "mlx5_comp{}", "mana_q{}", "hpsa0-msix{}", "card-{}", "timer", ""),
    )
)
SOME_CPUS = st.none() | st.sets(st.integers(0, 40), max_size=8).map(CpuSet)


@st.composite
def captures(draw):
    """Draw captures whose interrupts make no sense."""
    name, slot = draw(NAMES), st.sampled_from([SLOT, "0000:02:00.0"])
    topology = draw(made()).topology
    document = capture(
        topology,
        arch=draw(st.sampled_from(["x86_64", "aarch64", "s390x", None])),
        kernel=draw(st.sampled_from(["5.3.1", "6.1.0", "6.12.9", "7.3.4", "local", None])),
        irqbalance=draw(st.sampled_from([True, False, None])),
        nvme=draw(st.sampled_from([{}, {"write_queues": "2"}, {"poll_queues": "99999999"}])),
        cmdline=draw(st.sampled_from([[], ["isolcpus=managed_irq,0-1"], ["irqaffinity=1"]])),
    )
    for driver in draw(st.lists(st.sampled_from(["nvme", "virtio-pci", "mana", "x"]), max_size=3)):
        numbers = draw(st.lists(st.integers(0, 9) | st.integers(0, 999_999), max_size=9))
        vectors = [(name.format(at), draw(SOME_CPUS), draw(SOME_CPUS)) for at in numbers]
        add_device(
            document, "nvme0", draw(slot), vectors, driver=driver, node=draw(st.integers(-1, 3))
        )
        name = draw(NAMES)
    return document


@settings(max_examples=50, deadline=None)
@given(captures())
def test_whatever_was_captured_ends_in_a_comparison_or_an_error_of_ours(document):
    try:
        comparison = compared(document, search_offsets=4)
    except GroupCpusError:
        return
    assert {judged.verdict for judged in comparison.devices} <= set(VERDICTS)
    assert json.loads(json.dumps(comparison.document()))["cluster_source"] == "cluster_cpus_list"
    assert max(map(len, comparison_text(comparison).splitlines())) <= WIDTH
    total = sum(row.managed and row.effective_why[:4] != "shut" for row in comparison.rows)
    assert sum(comparison.loads.values()) <= total


@settings(max_examples=60, deadline=None)
@given(captures(), st.sets(st.integers(0, 40), max_size=4).map(CpuSet))
def test_every_question_ends_in_an_answer_or_an_error_of_ours(document, cpus):
    try:
        loaded = load(json.dumps(document))
        comparison = compare(loaded, search_offsets=0)
    except GroupCpusError:
        return
    asked = [
        lambda: find_problem(comparison),
        lambda: which_managed(loaded),
        lambda: can_isolate(comparison, cpus),
        lambda: submissions(comparison),
        lambda: find_moves(loaded, loaded),
        lambda: count_queues(machine_from_capture(comparison), [1, 2]),
    ]
    for ask in asked:
        answer, message = None, ""
        try:
            answer = ask()
        except GroupCpusError as error:
            message = str(error)
        assert len(message) <= 500
        assert answer is None or list(answer.lines())


# --- is there a problem?


def test_six_disks_whose_interrupts_pile_up_have_something_to_gain():
    comparison = compared(of_recording(load_recording("x86-96cpu-2nodes-smt2-6x62-7.3")))
    problem = find_problem(comparison)
    assert problem is not None
    assert (problem.found.greatest, problem.best, problem.own) == (6, 4, "cluster")
    assert (problem.found.single, problem.found.single_cpus) == (168, 28)
    assert problem.what_if["cluster"].greatest == 6
    assert problem.what_if["rotate-v2"].greatest == 4
    assert "rotate-v2" in problem.better
    assert "cluster" not in problem.better
    assert len(problem.crowded) == 28
    for cpu, names in problem.crowded:
        rows = [row for row in comparison.rows if row.effective == CpuSet([cpu]) and row.managed]
        assert sorted(names) == sorted(row.name for row in rows)
        assert len(names) == 6
    text = comparison_text(comparison)
    assert "Something to gain for the most loaded CPU: it has 6 managed interrupts" in text
    assert "nvme0 ... nvme5 (6)" in text
    assert text.count("62 of 62 masks") == 1
    assert max(map(len, text.splitlines())) <= WIDTH


def test_nothing_to_gain_where_no_grouping_is_better():
    comparison = compared(with_nvme(TWO_NODES, masks_of(TWO_NODES, 5)))
    problem = find_problem(comparison)
    assert problem is not None
    assert problem.better == ()
    assert problem.verdict == (
        "Nothing to gain for the most loaded CPU: it has 1 managed interrupt, and no grouping gets "
        "below 1."
    )
    assert problem.verdict in comparison_text(comparison).replace("\n    ", " ")


def test_revisions_that_would_take_too_much_work_are_named():
    comparison = compared(with_nvme(TWO_NODES, masks_of(TWO_NODES, 5)))
    problem = find_problem(comparison, Patience(0))
    assert problem is not None
    assert (problem.what_if, problem.left_out) == ({}, tuple(REVISIONS))
    assert list(problem.lines())[-1].startswith("    not computed, since it would take long: numa,")


def test_without_managed_interrupts_there_is_nothing_to_say():
    assert find_problem(compared(with_net(TWO_NODES, [CpuSet("0-15")] * 4))) is None


def test_effective_cpus_that_are_not_known_are_no_load():
    document = with_nvme(TWO_NODES, masks_of(TWO_NODES, 5))
    for interrupt in document["interrupts"]:
        interrupt["effective"] = None
    problem = find_problem(compared(document))
    assert problem is not None
    assert problem.verdict.startswith("Not known: ")
    assert problem.what_if["cluster"].greatest == 1


# --- counts, queue maps, incomplete sources


def interrupts_text(cpus, lines):
    """Give /proc/interrupts: lines are (irq, chip, hwirq, name, {cpu: count})."""
    header = "".join(f"{f'CPU{cpu}':>11}" for cpu in range(cpus))
    rows = [f"     {header}"]
    for irq, chip, hwirq, name, counts in lines:
        numbers = "".join(f"{counts.get(cpu, 0):>11}" for cpu in range(cpus))
        rows.append(f"{irq:>4}:{numbers}  {chip}  {hwirq}-edge  {name}")
    return "\n".join(rows) + "\n"


def counted_disk(topology, revision, *, silent=(), wrong=None):
    masks = masks_of(topology, len(topology.possible), revision)
    lines = [(30, "PCI-MSIX-0000:01:00.0", 0, "nvme0q0", {0: 9})]
    for queue, mask in enumerate(masks, start=1):
        cpu = wrong if queue == 1 and wrong is not None else mask.first
        counts = {} if queue in silent else {cpu: 100 + queue}
        lines.append((30 + queue, "PCI-MSIX-0000:01:00.0", queue, f"nvme0q{queue}", counts))
    return interrupts_text(len(topology.possible), lines)


def test_counts_name_the_effective_cpu_and_the_revision():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    machine = grep(sysfs(shape))
    topology = load(machine, arch="x86_64").topology
    assert topology is not None
    numa = set(masks_of(topology, 16, "numa"))
    assert all(len(mask) == 1 for mask in numa)
    for revision in ("numa", "cluster"):
        text = counted_disk(topology, revision, silent=(3, 5))
        (disk,) = compare(load(machine, text, arch="x86_64")).devices
        assert disk.verdict == "follows"
        assert revision in disk.revisions
        assert "14 of 14 queues by counts" in disk.why
        assert "2 never counted" in disk.why
        rows = [row for row in disk.rows if row.queue is not None]
        assert [row.by_counts for row in rows].count(False) == 2
        for row in rows:
            assert row.effective in (row.predicted, None)
    if masks_of(topology, 16, "numa") != masks_of(topology, 16, "cluster"):
        text = counted_disk(topology, "numa")
        (disk,) = compare(load(machine, text, arch="x86_64")).devices
        assert "cluster" not in disk.revisions


def test_counts_on_another_cpu_than_predicted_are_no_firm_difference():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    machine = grep(sysfs(shape))
    topology = load(machine, arch="x86_64").topology
    assert topology is not None
    wrong = masks_of(topology, 16, "numa")[1].first
    text = counted_disk(topology, "numa", wrong=wrong)
    (disk,) = compare(load(machine, text, arch="x86_64")).devices
    assert disk.verdict == "cannot be judged"
    assert "15 of 16 counted CPUs" in disk.why


def test_nothing_differs_where_siblings_are_not_known():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    topology = load(grep(sysfs(shape)), arch="x86_64").topology
    assert topology is not None
    nodes = "".join(f"NUMA node{node} CPU(s): {cpus}\n" for node, cpus in topology.nodes.items())
    plain = f"CPU(s): 16\nThread(s) per core: 2\n{nodes}"
    masks = masks_of(topology, 5, "numa")
    lines = [
        f"irq {30 + at} affinity {mask} effective {mask.first} nvme0q{at + 1}\n"
        for at, mask in enumerate(masks)
    ]
    (disk,) = compare(load(plain, "".join(lines), arch="x86_64")).devices
    assert disk.verdict == "cannot be judged"
    assert "siblings" in disk.why
    assert "with siblings 0,8 and so on, as is usual, it follows numa" in disk.why
    assert [row.predicted for row in disk.rows] == [None] * 5
    assert all(row.managed for row in disk.rows)


def test_queue_maps_alone_are_judged():
    masks = masks_of(TWO_NODES, 6)
    maps = "".join(f"/sys/block/sdb/mq/{at}/cpu_list:{mask}\n" for at, mask in enumerate(masks))
    comparison = compare(load(json.dumps(capture(TWO_NODES, kernel="7.0.1")), maps))
    (disk,) = comparison.devices
    assert (disk.found.name, disk.verdict) == ("sdb", "follows")
    assert disk.why == "6 of 6 masks, by queue maps, which are made of them"
    assert not any(row.managed for row in disk.rows)
    assert {row.irq for row in disk.rows} == {None}


def test_isolated_cpus_may_be_missing_in_queue_maps():
    masks = masks_of(TWO_NODES, 4)
    isolated = CpuSet("2-3")
    document = capture(TWO_NODES, kernel="7.0.1", cmdline=["isolcpus=managed_irq,domain,2-3"])
    for hidden in (isolated, CpuSet()):
        maps = "".join(
            f"/sys/block/nvme0n1/mq/{at}/cpu_list:{mask - hidden}\n"
            for at, mask in enumerate(masks)
        )
        (disk,) = compare(load(json.dumps(document), maps)).devices
        assert disk.verdict == "follows"


@pytest.mark.parametrize("names", ["smartpqi", "hisi_sas_v3_hw cq", "qla2xxx7_qpair{}"])
def test_drivers_whose_names_have_no_queue_numbers_follow_by_hwirq(names):
    masks = masks_of(TWO_NODES, 6)
    driver = names.split()[0].split("7_")[0]
    for front in (0, 2):
        vectors = [(f"{driver}0:default{at}", CpuSet("0-15"), 0) for at in range(front)]
        vectors += [(names.format(at), mask, mask.first) for at, mask in enumerate(masks)]
        document = add_device(
            capture(TWO_NODES, kernel="7.3.0"), "card", SLOT, vectors, driver=driver
        )
        judged = the_only(document)
        assert judged.verdict == "follows"
        assert [row.affinity for row in judged.rows if row.predicted] == masks
        assert judged.numgrps == (6,)


def test_a_mask_that_is_cut_off_is_no_difference():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    machine = grep(sysfs(shape))
    topology = load(machine, arch="x86_64").topology
    assert topology is not None
    masks = [str(mask) for mask in masks_of(topology, 6, "numa")]
    for last, verdict in ((masks[-1], "follows"), (masks[-1][:1], "cannot be judged")):
        lines = [
            f"irq {30 + at} affinity {mask} effective {mask.split(',')[0]} nvme0q{at + 1}\n"
            for at, mask in enumerate([*masks[:-1], last])
        ]
        (disk,) = compare(load(machine, "".join(lines), arch="x86_64")).devices
        assert disk.verdict == verdict
    assert f"{last}, may be cut off: {masks[-1]}" in disk.why


def test_masks_of_cpus_that_the_topology_lacks_say_that_it_is_not_whole():
    half = Topology.uniform(nodes=1, cpus_per_node=8, threads=2, cluster=2)
    comparison = compared(with_nvme(half, masks_of(TWO_NODES, 4)))
    (disk,) = comparison.devices
    assert disk.verdict == "cannot be judged"
    assert disk.why == "masks name CPUs 8-15, which the topology lacks: it is not whole"
    assert comparison.order is None
    assert find_problem(comparison) is None
    beyond = [row for row in disk.rows if row.affinity and not row.affinity <= half.possible]
    assert beyond
    assert not any(row.odd for row in beyond)
    assert "8-15" in comparison_text(comparison)


def test_counts_give_the_load():
    shape = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
    machine = grep(sysfs(shape))
    topology = load(machine, arch="x86_64").topology
    assert topology is not None
    comparison = compare(load(machine, counted_disk(topology, "numa", silent=(3,)), arch="x86_64"))
    assert sum(comparison.loads.values()) == 15
    problem = find_problem(comparison)
    assert problem is not None
    assert (problem.found.irqs, problem.silent) == (15, 1)
    assert "The CPUs of 1 more interrupt are not known." in comparison_text(comparison)


def test_counts_do_not_make_a_controller_of_one_queue():
    """Vectors in front are skipped where masks show it, not until one last count fits."""
    plain = "CPU(s): 16\nThread(s) per core: 2\nNUMA node0 CPU(s): 0-7\nNUMA node1 CPU(s): 8-15\n"
    cpus = [3, 11, 7, 15, 5, 13, 1, 9, 2, 10, 6, 14, 4, 12, 0, 8]
    lines = [
        (40 + at, "PCI-MSIX-0000:05:00.0", at, f"hpsa0-msix{at}", {cpu: 9})
        for at, cpu in enumerate(cpus)
    ]
    (card,) = compare(load(plain, interrupts_text(16, lines), arch="x86_64")).devices
    assert (card.verdict, card.numgrps) == ("cannot be judged", (16,))


@pytest.mark.parametrize("driver", ["lpfc", "qla2xxx"])
def test_two_ports_of_one_adapter_are_two_devices(driver):
    masks = masks_of(TWO_NODES, 4)
    document = capture(TWO_NODES, kernel="7.3.0")
    for port in (0, 1):
        vectors = [(f"{driver}:{at}", mask, mask.first) for at, mask in enumerate(masks)]
        add_device(document, driver, f"0000:3b:00.{port}", vectors, driver=driver)
    comparison = compared(document)
    assert [judged.verdict for judged in comparison.devices] == ["follows"] * 2
    names = {judged.found.name for judged in comparison.devices}
    assert len(names) == 2
    assert {device.name for device in machine_from_capture(comparison).devices} == names
    assert len(as_found(comparison).interrupts) == 8
    assert len(what_if(comparison, revision="rotate-v2").interrupts) == 8
    assert find_problem(comparison) is not None


def test_an_empty_effective_affinity_is_no_contradiction():
    masks = masks_of(TWO_NODES, 4)
    effective = make_irqchip("x86", TWO_NODES).assign(masks)
    document = with_nvme(TWO_NODES, masks, effective)
    document["interrupts"][2]["effective"] = ""
    comparison = compared(document)
    row = comparison["nvme0"].rows[2]
    assert not row.odd
    assert row.effective_why == "none: nobody has requested it, or it is shut down"
    assert comparison.order is not None
    assert comparison.order.found


# --- bounds


def of_disks(topology, disks, masks, effective):
    document = capture(topology, kernel="7.3.4")
    for disk in range(disks):
        name = f"nvme{disk}"
        vectors = nvme_vectors(name, masks, effective)
        add_device(document, name, f"0000:{disk:02x}:00.0", vectors, driver="nvme")
    return document


@pytest.mark.parametrize(
    ("cpus", "disks", "masks"),
    [
        (512, 128, [CpuSet([at]) for at in range(64)]),
        (4096, 4, [CpuSet("0-4095")] * 500),
        (8192, 8, [CpuSet([at]) for at in range(512)]),
    ],
)
def test_a_great_capture_is_judged_in_seconds(cpus, disks, masks):
    machine = Topology.uniform(nodes=2, cpus_per_node=cpus // 2, threads=2, cluster=2)
    document = json.dumps(of_disks(machine, disks, masks, [mask.first for mask in masks]))
    loaded = load(document)
    start = time.process_time()
    comparison = compare(loaded)
    comparison_text(comparison)
    assert time.process_time() - start < 8
    # Nothing explains them; where that takes too long to be sure of, it is said.
    assert {judged.verdict for judged in comparison.devices} <= {"differs", "cannot be judged"}
    for judged in comparison.devices:
        if judged.verdict == "cannot be judged":
            assert re.search(r"; nothing more was found in \d+ calls, where it ends$", judged.why)


def test_a_search_without_time_gives_up_and_says_so():
    loaded = load(json.dumps(of_recording(load_recording("x86-48cpu-6nodes-smt2-6x32-7.3"))))
    comparison = compare(loaded, patience=Patience(0, seconds=0))
    assert comparison.order is not None
    assert comparison.order.found is None
    # The likeliest guess is judged all the same.
    assert {judged.verdict for judged in comparison.devices} == {"follows"}
    assert "cannot be judged in 1 state" in comparison_text(comparison)


@pytest.mark.parametrize("patience", [Patience(0), Patience(1 << 30, seconds=0), Patience(9_000)])
def test_who_gives_up_never_says_differs(patience):
    # Of a kernel that rotates, far along: neither guesses nor counters get there.
    machine = Topology.uniform(nodes=2, cpus_per_node=48, threads=2, cluster=2)
    masks = group_cpus_evenly(machine, 62, revision="rotate-v2", spread_offset=300).masks
    loaded = load(json.dumps(of_disks(machine, 1, masks, [mask.first for mask in masks])))
    (judged,) = compare(loaded, patience=patience).devices
    assert judged.verdict == "cannot be judged"
    assert re.search(r"; nothing more was found in \d+ calls, where it ends$", judged.why)
    assert not any(row.match is False for row in judged.rows)
    (judged,) = compare(loaded).devices
    assert (judged.verdict, "rotate-v2" in judged.revisions) == ("follows", True)


def test_work_decides_what_is_found_and_not_the_clock(monkeypatch):
    machine = Topology.uniform(nodes=2, cpus_per_node=48, threads=2, cluster=2)
    masks = [CpuSet([cpu]) for cpu in range(62)]
    loaded = load(json.dumps(of_disks(machine, 1, masks, range(62))))
    (quick,) = compare(loaded).devices
    clock = count(0, 1e-4)  # many times as slow
    monkeypatch.setattr("groupcpus.observed.patience.process_time", lambda: next(clock))
    (slow,) = compare(loaded).devices
    assert (slow.verdict, slow.why) == (quick.verdict, quick.why)
    assert slow.verdict == "differs"


def test_who_waits_is_told_once():
    said: list[str] = []
    patience = Patience(1, waiting=said.append)
    assert patience.left("counting")
    assert said == []
    patience.start -= 3
    assert patience.left("counting")
    assert patience.left("counting on")
    assert said == ["counting"]


# --- what if


@pytest.mark.parametrize(
    "name", ["x86-48cpu-6nodes-smt2-6x32-7.3", "x86-5of8cpu-online-1node-1x3-7.3"]
)
def test_what_was_found_can_be_drawn_as_a_run(name):
    comparison = compared(of_recording(load_recording(name)), search_offsets=0)
    run = as_found(comparison)
    online = comparison.topology.online
    assert {cpu: run.counts[cpu] for cpu in online} == comparison.loads
    # Within the bounds of its own masks, as a run that is computed would be.
    summary = run.summary
    assert summary.irqs == sum(comparison.loads.values())
    assert summary.best <= summary.best_with_masks <= summary.greatest


def test_what_if_gives_the_captured_run_under_another_revision():
    recording = load_recording("x86-96cpu-2nodes-smt2-6x62-7.3")
    loaded = load(json.dumps(of_recording(recording)))
    machine = machine_from_capture(loaded)
    assert machine.irqchip == "x86"
    assert {device.name for device in machine.devices} == {
        device.name for device in recording.devices
    }
    assert {device.io_queues for device in machine.devices} == {62}
    before = what_if(loaded)
    assert before.revision.name == "cluster"
    assert before.summary.greatest == 6
    assert sorted(str(irq.affinity) for irq in before.interrupts) == sorted(
        str(mask) for device in recording.devices for mask in device.masks[1:]
    )
    assert what_if(loaded, revision="rotate-v2").summary.greatest < 6
    more = what_if(loaded, devices=8, queues=32)
    assert len(more.interrupts) == 8 * 32


def test_what_if_keeps_queue_sets_and_loops():
    document = of_recording(load_recording("x86-8cpu-4nodes-1x3-write2-7.3"))
    document["disks"] += [
        {"name": f"loop{at}", "slot": None, "queues": {"0": "0-7"}} for at in (0, 1, 10)
    ]
    run = what_if(compared(document))
    assert [device.name for device in run.machine.devices] == ["loop0", "loop1", "loop10", "nvme0"]
    assert [irq.kind for irq in run.interrupts] == ["default", "default", "read"]


def test_a_machine_without_disks_can_have_some_in_thought():
    loaded = load(json.dumps(with_net(TWO_NODES, [CpuSet("0-15")] * 4)))
    machine = machine_from_capture(loaded)
    assert machine.devices == ()
    assert machine.notes == "without eth0, which spread in another way"
    assert len(what_if(loaded, devices=2, queues=3).interrupts) == 6


# --- the command


@pytest.fixture
def captured(tmp_path):
    document = with_nvme(TWO_NODES, masks_of(TWO_NODES, 5))
    masks = [CpuSet("3"), CpuSet("9-10")]
    vectors = [(f"eth0-TxRx-{at}", mask, mask.first) for at, mask in enumerate(masks)]
    add_device(document, "eth0", "0000:05:00.0", vectors, driver="ice")
    path = tmp_path / "capture.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_the_command_prints_a_line_a_device(captured, capsys):
    assert main(["compare", str(captured)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= WIDTH
    lines = text.splitlines()
    assert any(line.startswith("nvme0 ") and "follows cluster" in line for line in lines)
    assert any(line.startswith("eth0") and "moved" in line for line in lines)
    assert "follows cluster: 5 of 5 masks" in " ".join(text.split())


def test_the_command_prints_json(captured, capsys):
    assert main(["compare", str(captured), "--json", "--offsets", "8"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [device["verdict"] for device in document["devices"]] == ["follows", "moved"]
    assert document["offsets_tried"] == 8
    assert [row["match"] for row in document["devices"][0]["queues"]] == [None, *[True] * 5]
    assert Topology.from_dict(document["topology"]) == TWO_NODES


def test_a_device_that_does_not_follow_is_no_error(tmp_path, capsys):
    masks = [CpuSet("0-3"), CpuSet("2-7"), CpuSet("8-11"), CpuSet("12-14")]
    path = tmp_path / "capture.json"
    path.write_text(json.dumps(with_nvme(TWO_NODES, masks)))
    assert main(["compare", str(path)]) == 0
    text = capsys.readouterr().out
    assert "What did not match:" in text
    assert "nvme0q2 (irq 26): mask 2-7, predicted" in text


@pytest.mark.parametrize("content", ["", "{}", '{"format": "groupcpus-capture", "version": 99}'])
def test_what_cannot_be_read_is_an_error(tmp_path, capsys, content):
    path = tmp_path / "wrong.json"
    path.write_text(content, encoding="utf-8")
    assert main(["compare", str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("groupcpus: ")


def test_all_verdicts_are_explained():
    assert set(VERDICTS) == {
        "follows",
        "not managed",
        "moved",
        "other function",
        "older kernel",
        "differs",
        "cannot be judged",
        "not known",
    }


# --- the captures that ship


CAPTURES = {
    "x86-24cpu-2nodes-2nvme-3net-7.3": "x86-24cpu-2nodes-8-16-smt2-cluster4-9+13-7.3",
    "x86-5of8cpu-online-1nvme-7.3": "x86-5of8cpu-online-1node-1x3-7.3",
    "x86-8cpu-isolcpus-managed-2nvme-6.12": "x86-8cpu-2nodes-smt2-isolcpus-managed-2x3-6.12",
}


OWN_CAPTURES = {
    "x86-24cpu-2nodes-smt2-4x8-6.12": ("numa", [(8,)] * 4),
    "x86-32cpu-4nodes-smt2-isolcpus-3x12-6.12": ("numa", [(12,)] * 3),
    "x86-48cpu-2nodes-smt2-3x18-write4-poll2-6.1": ("numa-single-pop", [(4, 14)] * 3),
}


@pytest.mark.parametrize("name", OWN_CAPTURES)
def test_machines_that_were_captured_where_they_ran_follow(name):
    folder = data_dir() / "captures"
    assert f"| `{name}` |" in (folder / "README.md").read_text(encoding="utf-8")
    comparison = compare(load(folder / f"{name}.json"), search_offsets=0)
    revision, numgrps = OWN_CAPTURES[name]
    assert comparison.expected == revision
    assert [judged.numgrps for judged in comparison.devices] == numgrps
    for judged in comparison.devices:
        assert judged.verdict == "follows"
        assert revision in judged.revisions
    assert comparison.order is not None
    assert comparison.order.found
    assert not any(row.odd for row in comparison.rows)
    run = what_if(comparison)
    masks = [irq.affinity for irq in run.interrupts]
    shown = [row.affinity for row in comparison.rows if row.managed]
    assert sorted(map(str, masks)) == sorted(map(str, shown))


def test_counts_of_a_real_kernel_are_on_the_effective_cpus():
    folder, name = data_dir() / "captures", "x86-24cpu-2nodes-smt2-4x8-6.12"
    interrupts = load(folder / f"{name}.interrupts.txt").interrupts
    counts = {shown.irq: CpuSet(shown.counts or ()) for shown in interrupts}
    rows = [row for row in compare(load(folder / f"{name}.json")).rows if row.managed]
    counted = [row for row in rows if counts[row.irq or 0]]
    assert len(counted) == 22
    for row in counted:
        assert counts[row.irq or 0] == row.effective
    # The same without affinities: the effective CPUs by counts alone.
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    for interrupt in document["interrupts"]:
        interrupt.update(affinity=None, effective=None)
    alone = compare(load(json.dumps(document), folder / f"{name}.interrupts.txt"))
    assert {judged.verdict for judged in alone.devices} == {"follows"}
    by_counts = {row.irq: row.effective for row in alone.rows if row.by_counts}
    assert by_counts == {row.irq: row.effective for row in counted}


def test_captures_are_of_the_recordings_that_their_readme_names():
    folder = data_dir() / "captures"
    assert {path.stem for path in folder.glob("*.json")} == {*CAPTURES, *OWN_CAPTURES}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for name, recording in CAPTURES.items():
        assert f"| `{name}` | `{recording}` |" in readme
        shipped = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        made = of_recording(load_recording(recording))
        for document in (shipped, made):
            document["devices"] = [one for one in document["devices"] if one["driver"] == "nvme"]
            document["interrupts"] = [
                one for one in document["interrupts"] if one["actions"][0].startswith("nvme")
            ]
        assert shipped == made


def test_verdicts_on_the_capture_with_network_cards():
    path = data_dir() / "captures" / "x86-24cpu-2nodes-2nvme-3net-7.3.json"
    comparison = compare(load(path), search_offsets=0)
    assert {judged.found.name: judged.verdict for judged in comparison.devices} == {
        "nvme0": "follows",
        "nvme1": "follows",
        "enp5s0": "other function",
        "enp6s0f0": "moved",
        "virtio0": "not managed",
    }
    assert comparison["nvme0"].revisions == ("cluster",)
