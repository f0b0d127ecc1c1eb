# SPDX-License-Identifier: GPL-2.0-only
"""The order of requests: figures of logged boots, and what no order changes."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus import IRQCHIPS, simulate
from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.requests import ORDERS, request_order
from tests.strategies import made
from tests.test_bounds import probed


def histogram(run):
    return dict(sorted(Counter(run.counts.values()).items()))


@pytest.mark.parametrize(
    ("machine", "options", "expected"),
    [
        ("L96as_v4", {}, {3: 12, 4: 84}),
        ("L96as_v4", {"requests": "lockstep"}, {3: 48, 4: 12, 5: 36}),
        # One disk bound after the other, so that their admin calls take every other offset.
        ("L48s_v2", {"probe": "interleaved"}, {3: 24, 4: 8, 5: 8, 6: 8}),
    ],
)
def test_strict_orders(machine, options, expected):
    assert histogram(simulate(machine, revision="rotate-v2", **options)) == expected


def test_random_orders_are_what_boots_are():
    """Six natural boots: one to three CPUs of L96as_v4 with 5, eight to ten of L48s v2."""
    for revision in ("rotate-v2", "rotate-next"):
        parallel = simulate("L96as_v4", revision=revision).parallel
        assert (len(parallel.irqs), set(parallel.irqs)) == (ORDERS, {5})
        assert parallel.share(4) == 0
        assert parallel.share(5) == 1
    assert simulate("L48s_v2", revision="rotate-v2").parallel.share(4) == 0
    # The masks leave no choice before the patch: every order is the same.
    assert set(simulate("L96as_v4", revision="cluster").parallel.irqs) == {6}


def test_how_often_the_disk_changes():
    """318 to 342 changes of disk between consecutive placements in four logged boots."""
    vectors = {f"nvme{disk}": 62 for disk in range(6)}
    changes = []
    for seed in range(ORDERS):
        order = request_order(f"random-{seed}", vectors)
        assert Counter(order) == vectors
        changes.append(sum(a != b for a, b in pairwise(order)))
    assert min(changes) > 280
    assert max(changes) < 342
    assert request_order("random", vectors) == request_order("random-0", vectors)


def test_every_cpu_of_l96as_v4_completes_for_six_submitters_before_the_patch():
    assert set(simulate("L96as_v4", revision="cluster").submitters.values()) == {6}
    after = simulate("L96as_v4", revision="rotate-v2")
    assert set(after.submitters.values()) == {5, 6, 7}
    assert (after.summary.submitters, after.summary.best_submitters) == (7, 6)
    assert sum(after.submitters.values()) == 6 * 96
    assert dict(after.per_cpu["submitters"]) == after.submitters


def test_queue_maps_of_read_and_poll_queues():
    machine = read_machine("overflow_4cpu")
    disk = Device("nvme0", "nvme", 7, write_queues=2, poll_queues=2)
    run = simulate(Machine(**(vars(machine) | {"devices": (disk,)})), revision="cluster")
    rows = run.queue_map.to_dict("records")
    assert [(row["queue"], row["kind"]) for row in rows] == [
        *((1 + at, "default") for at in range(2)),
        *((3 + at, "read") for at in range(3)),
        *((6 + at, "poll") for at in range(2)),
    ]
    for kind in ("default", "read", "poll"):
        union = ",".join(row["cpus"] for row in rows if row["kind"] == kind)
        assert sorted(cpu for part in union.split(",") for cpu in span(part)) == [0, 1, 2, 3]
    assert [row["effective"] is not None for row in rows if row["kind"] != "poll"] == [True] * 5
    # Writes and reads end in an interrupt, polled requests in none.
    assert sum(run.submitters.values()) == 2 * 4


def span(part):
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


@given(
    made(),
    st.sampled_from(sorted(IRQCHIPS)),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_an_order_moves_interrupts_and_nothing_else(drawn, irqchip, queues, seed):
    topology = drawn.topology
    disks = tuple(Device(f"nvme{at}", "nvme", count) for at, count in enumerate(queues))
    machine = Machine("made", "Made", "x86_64", irqchip, topology, disks)
    if not topology.online:
        return
    run = simulate(machine, revision="rotate-v2")
    assert run.requested("device-by-device") == run
    for requests in ("lockstep", f"random-{seed}"):
        other = run.requested(requests)
        assert other == simulate(machine, revision="rotate-v2", requests=requests)
        assert [(i.label, i.affinity) for i in other.interrupts] == [
            (i.label, i.affinity) for i in run.interrupts
        ]
        for irq in other.interrupts:
            assert irq.effective is None or irq.effective in irq.affinity
        assert sum(other.counts.values()) == sum(run.counts.values())
        assert sum(other.submitters.values()) == sum(run.submitters.values())
        assert run.best_submitters <= max(run.submitters.values())
    own = [one.device for one in run.allocations for _ in one.vectors]
    assert run.requested(own).interrupts == run.interrupts
    if len(disks) == 1:
        assert len(set(run.parallel.irqs)) == 1


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ("mixed", "requests 'mixed': expected device-by-device, lockstep, random-SEED"),
        ("random-x", "expected device-by-device"),
        (7, "requests 7: expected a name or a sequence of devices"),
        (["nvme0"], "requests: nvme0 is named 1 times, it has 7 vectors"),
        (["nvme0", "nvme1"] * 7 + ["sda"], "requests: 'sda' requests no vectors"),
    ],
)
def test_orders_that_are_none(requests, said):
    with pytest.raises(RequestError, match=said):
        simulate("D16plds_v6", revision="cluster", requests=requests)


@pytest.mark.parametrize("irqchip", sorted(IRQCHIPS))
@pytest.mark.parametrize("name", ["L48s_v2", "D16plds_v6", "mana_8cpu"])
def test_many_orders_are_the_same_as_one_run_each(name, irqchip):
    run = simulate(name, revision="rotate-v2", irqchip=irqchip)
    each = [run.requested(f"random-{seed}") for seed in range(9)]
    parallel = run.in_parallel(9)
    assert parallel.irqs == tuple(sorted(max(one.counts.values()) for one in each))
    assert parallel.submitters == tuple(sorted(max(one.submitters.values()) for one in each))


@given(probed(), st.integers(1, 4))
def test_so_they_are_on_any_machine(run, orders):
    each = [run.requested(f"random-{seed}") for seed in range(orders)]
    parallel = run.in_parallel(orders)
    assert parallel.irqs == tuple(sorted(max(one.counts.values()) for one in each))
    assert parallel.submitters == tuple(sorted(max(one.submitters.values()) for one in each))
