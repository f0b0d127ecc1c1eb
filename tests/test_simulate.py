# SPDX-License-Identifier: GPL-2.0-only
"""Runs: the figures of the thread, who takes which counter value, and the frames."""

import pytest
from hypothesis import given

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irqchips import IRQCHIPS, make_irqchip
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, VectorSpaceError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.probe import simulate
from tests.strategies import ALL
from tests.test_bounds import probed


def machine_of(topology, *devices, irqchip="x86"):
    return Machine("made", "A made one", "x86_64", irqchip, topology, devices)


def used(run):
    """Give {interrupts: CPUs} of the CPUs that serve any."""
    return {irqs: cpus for irqs, cpus in run.summary.histogram.items() if irqs}


@pytest.mark.parametrize("revision", ["numa", "cluster"])
def test_l48s_before(revision):
    run = simulate("L48s_v2", revision=revision, irqchip="x86")
    assert used(run) == {3: 32, 6: 16}
    assert list(run.summary.per_node.values()) == [36, 30, 36, 30, 30, 30]
    assert (run.summary.irqs, run.summary.best, run.summary.excess) == (192, 4, 2)


def test_l48s_after():
    run = simulate("L48s_v2", revision="rotate-v2", probe="admin-first")
    assert set(used(run)) == {3, 4, 5}
    assert run.summary.used == 48
    assert list(run.summary.per_node.values()) == [36, 30, 36, 30, 30, 30]
    # Device by device it is worse: half of the counter's values go to admin queues.
    assert simulate("L48s_v2", revision="rotate-v2", probe="interleaved").summary.greatest == 6
    skip1 = simulate("L48s_v2", revision="rotate-v2-skip1", probe="interleaved")
    assert skip1.summary.greatest == 5


def test_d16plds():
    assert used(simulate("D16plds_v6", revision="cluster")) == {2: 6}
    after = simulate("D16plds_v6", revision="rotate-v2")
    assert used(after) == {1: 4, 2: 4}
    assert (after.summary.most_used, after.summary.best) == (11, 2)


def test_d96plds():
    before = simulate("D96plds_v6", revision="cluster")
    assert used(before) == {6: 14}
    after = simulate("D96plds_v6", revision="rotate-v2", probe="admin-first", spread_start=0)
    assert (after.summary.used, after.summary.least, after.summary.greatest) == (26, 0, 6)
    assert min(used(after)) == 1
    assert list(after.per_node["used"]) == [13, 13]
    # The same masks on an irqchip that chooses: no CPU with more than one.
    assert simulate("D96plds_v6", revision="rotate-v2", irqchip="x86").summary.greatest == 1


def test_l96as():
    before = simulate("L96as_v4", revision="cluster")
    assert used(before) == {3: 68, 6: 28}
    assert (before.summary.single, before.summary.hot) == (168, 28)
    after = simulate("L96as_v4", revision="rotate-v2")
    assert (after.summary.greatest, after.summary.used, after.summary.excess) == (4, 96, 0)


def test_who_takes_which_value_of_the_counter():
    machine = machine_of(
        Topology.uniform(nodes=1, cpus_per_node=8),
        Device("loop0", "loop"),
        Device("nvme0", "nvme", 4, write_queues=1, poll_queues=1),
        Device("virtio0", "virtio", 3),
    )

    def taken(revision, probe):
        run = simulate(machine, revision=revision, probe=probe, spread_start=2**32 - 2)
        offsets = {(call.device, call.kind): call.spread_offset for call in run.calls}
        return list(offsets.values()), run.spread_end

    high = 2**32 - 2
    assert taken("rotate-v2", "interleaved") == ([high, high + 1, 0, 1, 2, 3], 4)
    # nvme0's admin call is first now.
    assert taken("rotate-v2", "admin-first") == ([high, high + 1, 0, 1, 2, 3], 4)
    # loop0, admin, write and poll queues are one group each: no tick, and offset 0.
    assert taken("rotate-v2-skip1", "interleaved") == ([0, 0, 0, high, 0, high + 1], 0)
    assert taken("cluster", "interleaved") == ([0] * 6, high)


def test_an_explicit_order_decides_offsets_and_ties():
    order = ["nvme1:admin", "nvme1:default", "nvme0:admin", "nvme0:default"]
    run = simulate("D16plds_v6", revision="rotate-v2", irqchip="x86", probe=order)
    assert [(call.device, call.kind) for call in run.calls] == [
        tuple(label.split(":")) for label in order
    ]
    assert [call.spread_offset for call in run.calls] == [0, 1, 2, 3]
    assert [irq.device for irq in run.interrupts] == ["nvme1"] * 6 + ["nvme0"] * 6
    assert run.probe == tuple(order)
    # The first disk to be placed finds all CPUs free and gets the last of each mask.
    assert all(irq.effective == max(irq.affinity) for irq in run.interrupts[:6])
    assert "explicit order from 0" in str(run.summary)


def test_masks_are_those_of_the_function_and_cpus_those_of_the_irqchip():
    run = simulate("L48s_v2", revision="rotate-next", irqchip="its", spread_start=77)
    topology = run.machine.topology
    chip = make_irqchip("its", topology)
    for call in run.calls:
        assert call.grouping == group_cpus_evenly(
            topology, call.numgrps, revision="rotate-next", spread_offset=call.spread_offset
        )
    for device in run.machine.devices:
        own = [irq for irq in run.interrupts if irq.device == device.name]
        admin = next(irq for irq in run.pre_interrupts if irq.device == device.name)
        masks = [admin.affinity, *(irq.affinity for irq in own)]
        expected = chip.assign(masks, [False] + [True] * len(own))
        assert [admin.effective, *(irq.effective for irq in own)] == expected


def test_read_queues_follow_the_default_ones_and_poll_queues_have_no_interrupt():
    machine = machine_of(
        Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=8),
        Device("nvme0", "nvme", 8, write_queues=2, poll_queues=2),
    )
    run = simulate(machine, revision="numa", irqchip="gicv3")
    rows = [(irq.queue, irq.kind, str(irq.affinity)) for irq in run.interrupts]
    assert rows == [
        (1, "default", "0-3"),
        (2, "default", "4-7"),
        (3, "read", "0-1"),
        (4, "read", "2-3"),
        (5, "read", "4-5"),
        (6, "read", "6-7"),
    ]
    assert [call.kind for call in run.calls] == ["admin", "default", "read", "poll"]
    assert run.summary.best == 2  # two sets, CPU 0 is the first of a mask of both


def test_more_queues_than_cpus_make_no_interrupt_for_empty_masks():
    machine = machine_of(Topology.uniform(nodes=1, cpus_per_node=4), Device("irqs0", "irqs", 9))
    assert len(simulate(machine, revision="cluster").interrupts) == 4
    # Before 6.17 the driver could not tell; the fifth vector was refused, so it asked for four.
    run = simulate(machine, revision="numa")
    assert [(call.numgrps, len(call.filled)) for call in run.calls] == [(9, 9), (4, 4)]
    assert [str(irq.affinity) for irq in run.interrupts] == ["0", "1", "2", "3"]
    assert run.lost == {"irqs0": 5}


def test_a_queue_whose_cpus_are_offline_is_shut_down():
    doc = {**Topology.uniform(nodes=1, cpus_per_node=4).to_dict(), "online": "0-1"}
    machine = machine_of(Topology.from_dict(doc), Device("virtio0", "virtio", 2))
    run = simulate(machine, revision="cluster")
    assert [irq.effective for irq in run.interrupts] == [None, 1]
    assert list(run.irqs["effective"].isna()) == [True, False]
    assert list(run.irqs["node"].isna()) == [True, False]
    assert (run.summary.irqs, run.summary.cpus, run.summary.best) == (1, 2, 1)
    assert list(run.per_cpu.index) == [0, 1, 2, 3]
    assert list(run.per_cpu["online"]) == [True, True, False, False]


FRAME = {
    "device": "str",
    "queue": "int64",
    "kind": "str",
    "affinity": "str",
    "effective": "Int64",
    "node": "Int64",
    "cluster": "Int64",
    "core": "Int64",
    "single": "bool",
    "spread_offset": "int64",
}


def dtypes(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


@pytest.mark.parametrize("machine", ["L48s_v2", "D96plds_v6", "mana_8cpu", "none"])
def test_the_columns_of_the_frames(machine):
    if machine == "none":
        machine = machine_of(Topology.uniform(nodes=2, cpus_per_node=2))
    run = simulate(machine, revision="rotate-v2")
    assert dtypes(run.irqs) == dtypes(run.admin) == FRAME
    assert dtypes(run.per_cpu) == {
        "node": "int64",
        "cluster": "Int64",
        "core": "int64",
        "online": "bool",
        "irqs": "int64",
        "devices": "int64",
        "single": "int64",
        "submitters": "int64",
    }
    assert run.per_cpu.index.name == "cpu"
    assert dtypes(run.per_node) == {
        **dict.fromkeys(["cpus", "used", "irqs", "least", "greatest"], "int64"),
        "mean": "float64",
        "single": "int64",
        "submitters": "int64",
    }
    assert run.per_node.index.name == "node"


def test_the_rows_of_the_frames():
    run = simulate("L48s_v2", revision="rotate-v2")
    irqs, topology = run.irqs, run.machine.topology
    assert len(irqs) == 192
    assert list(irqs.loc[irqs["device"] == "nvme3", "queue"]) == list(range(1, 33))
    for row in irqs.to_dict("records"):
        cpu, affinity = row["effective"], CpuSet(row["affinity"])
        assert cpu in affinity
        assert row["node"] == topology.node_of(cpu)
        assert row["cluster"] == row["core"] == cpu // 2 * 2
        assert row["single"] == (len(affinity) == 1)
    assert run.per_cpu["irqs"].to_dict() == irqs["effective"].value_counts().sort_index().to_dict()
    assert run.per_cpu["devices"].max() <= 6
    assert run.per_cpu["single"].sum() == irqs["single"].sum() == 96
    assert run.per_node["irqs"].to_dict() == run.summary.per_node
    admin = run.admin
    assert list(admin["device"]) == [f"nvme{at}" for at in range(6)]
    assert set(admin["queue"]) == {0}
    assert set(admin["kind"]) == {"admin"}
    assert set(admin["affinity"]) == {"0-7"}  # one node's CPUs


def test_a_cluster_that_is_not_known_is_missing():
    machine = machine_of(
        Topology.uniform(nodes=1, cpus_per_node=2, cluster=0), Device("irqs0", "irqs", 2)
    )
    run = simulate(machine, revision="cluster")
    assert run.irqs["cluster"].isna().all()
    assert run.per_cpu["cluster"].isna().all()


@given(probed())
def test_the_views_of_a_run_agree(run):
    summary = run.summary
    placed = [irq.effective for irq in run.interrupts if irq.effective is not None]
    assert summary.irqs == len(placed) == sum(run.counts.values()) == run.per_cpu["irqs"].sum()
    assert sum(irqs * cpus for irqs, cpus in summary.histogram.items()) == summary.irqs
    assert sum(summary.histogram.values()) == summary.cpus
    assert sum(summary.per_node.values()) == summary.irqs == run.per_node["irqs"].sum()
    assert summary.used == (run.per_cpu["irqs"] > 0).sum() == run.per_node["used"].sum()
    assert summary.single == run.per_cpu["single"].sum()
    assert summary.hot == (run.per_cpu["single"] > 0).sum()
    assert len(run.irqs) == len(run.interrupts)
    devices = run.irqs.dropna(subset="effective").groupby("effective")["device"].nunique()
    serving = run.per_cpu[run.per_cpu["irqs"] > 0]
    assert devices.to_dict() == serving["devices"].to_dict()


def test_a_counter_has_32_bits():
    small, great = (
        simulate("L48s_v2", revision="rotate-v2", spread_start=start) for start in (3, 2**40 + 3)
    )
    assert great.counts == small.counts
    assert (great.spread_start, great.spread_end) == (small.spread_start, small.spread_end)
    assert "from" not in str(simulate("L48s_v2", revision="numa", spread_start=2**40).summary)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"revision": "v3"}, "revision 'v3': expected one of numa, "),
        ({"irqchip": "apic"}, "irqchip 'apic': expected one of x86, "),
        ({"probe": "random"}, "probe 'random': expected admin-first or interleaved"),
        ({"spread_start": -1}, "spread_start -1: expected 0 or more"),
        ({"spread_start": True}, "spread_start True: expected 0 or more"),
        ({"spread_start": 1.0}, "spread_start 1.0: expected 0 or more"),
    ],
)
def test_what_cannot_be_asked(arguments, message):
    with pytest.raises(RequestError) as caught:
        simulate("D16plds_v6", **{"revision": "numa", **arguments})
    assert str(caught.value).startswith(message)


def test_a_machine_that_is_off_cannot_probe():
    doc = {**Topology.uniform(nodes=1, cpus_per_node=2).to_dict(), "online": ""}
    machine = machine_of(Topology.from_dict(doc), Device("nvme0", "nvme", 2))
    for irqchip in IRQCHIPS:
        with pytest.raises(RequestError, match=r"^machine made: no CPU is online$"):
            simulate(machine, revision="numa", irqchip=irqchip)


def test_too_many_devices_run_out_of_vectors():
    machine = read_machine("L96as_v4").with_devices(count=201)
    with pytest.raises(VectorSpaceError, match=r"\(-ENOSPC\)$"):
        simulate(machine, revision="cluster")
    # Each disk reserves a vector on every CPU. An irqchip without vectors knows no such limit.
    assert simulate(machine, revision="cluster", irqchip="gicv3").summary.greatest == 201


@pytest.mark.parametrize("revision", ALL)
def test_a_run_is_the_same_every_time(revision):
    first, second = (simulate("D96plds_v6", revision=revision) for _ in range(2))
    assert first.interrupts == second.interrupts
    assert first.summary == second.summary
