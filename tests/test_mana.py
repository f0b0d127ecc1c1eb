# SPDX-License-Identifier: GPL-2.0-only
"""MANA's irq_setup(), as posted and as merged, and cpumask_local_spread()."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup, numa_hops
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError
from groupcpus.machines.machine import read_machine
from groupcpus.machines.probe import simulate
from tests.strategies import made

EXAMPLE = read_machine("mana_8cpu").topology
TABLE = ["0-1", "2-3", "0-1", "2-3", "4-5", "6-7", "4-5", "6-7"]


def spread(topology, nirqs, node=0, version="merged"):
    return [str(mask) for mask in irq_setup(topology, nirqs, node, version=version)]


def test_the_merged_driver_gives_the_table_of_the_mail():
    assert spread(EXAMPLE, 8) == TABLE


def test_the_posted_loop_does_not():
    """It makes as many passes over the first hop as that has CPUs, and never gets further."""
    assert spread(EXAMPLE, 8, version="posted") == ["0-1", "2-3"] * 4
    # Twice as many interrupts would be needed to reach the second node.
    assert spread(EXAMPLE, 10, version="posted") == ["0-1", "2-3"] * 4 + ["4-5", "6-7"]


def test_one_thread_a_core_hides_the_difference_on_one_core_a_node_only():
    machine = Topology.uniform(nodes=2, cpus_per_node=1, threads=1)
    assert spread(machine, 2) == spread(machine, 2, version="posted") == ["0", "1"]


def test_it_starts_at_the_node_of_the_device():
    assert spread(EXAMPLE, 8, node=1) == ["4-5", "6-7", "4-5", "6-7", "0-1", "2-3", "0-1", "2-3"]


def test_interrupts_that_the_hops_cannot_take_stay_as_they_are():
    assert spread(EXAMPLE, 9) == TABLE
    assert len(spread(EXAMPLE, 17, version="posted")) == 16


RING = (
    # Four nodes in a ring: two neighbours, and one opposite.
    (10, 20, 30, 20),
    (20, 10, 20, 30),
    (30, 20, 10, 20),
    (20, 30, 20, 10),
)


def ring(distances=RING):
    plain = Topology.uniform(nodes=4, cpus_per_node=2, threads=2)
    return Topology.from_dict({**plain.to_dict(), "distances": [list(row) for row in distances]})


def test_hops_follow_the_distance_matrix():
    assert list(map(str, numa_hops(ring(), 0))) == ["0-1", "2-3,6-7", "4-5"]
    assert list(map(str, numa_hops(ring(), 3))) == ["6-7", "0-1,4-5", "2-3"]
    # Two interrupts a core of a hop, the two neighbours' cores in turn.
    assert spread(ring(), 8) == ["0-1", "0-1", "2-3", "6-7", "2-3", "6-7", "4-5", "4-5"]


def test_a_matrix_may_be_lopsided():
    rows = [list(row) for row in RING]
    rows[0] = [10, 40, 20, 30]
    assert list(map(str, numa_hops(ring(rows), 0))) == ["0-1", "4-5", "6-7", "2-3"]
    assert list(map(str, numa_hops(ring(rows), 1))) == ["2-3", "0-1,4-5", "6-7"]


def test_without_a_matrix_all_other_nodes_are_one_hop():
    plain = Topology.uniform(nodes=4, cpus_per_node=2, threads=2)
    assert list(map(str, numa_hops(plain, 2))) == ["4-5", "0-3,6-7"]


def test_offline_cpus_are_left_out():
    doc = {**Topology.uniform(nodes=2, cpus_per_node=4, threads=2).to_dict(), "online": "1-3,6"}
    topology = Topology.from_dict(doc)
    assert list(map(str, numa_hops(topology, 0))) == ["1-3", "6"]
    assert spread(topology, 8) == ["1", "2-3", "1", "2-3", "6"]
    assert [cpumask_local_spread(topology, i, 1) for i in range(5)] == [6, 1, 2, 3, 6]


@given(made(absent=False), st.integers(1, 80), st.data())
def test_merged_gives_the_cores_of_a_hop_the_same_number_give_or_take_one(machine, nirqs, data):
    topology = machine.topology
    assume(topology.online)
    node = data.draw(st.sampled_from(sorted(topology.nodes)))
    masks = irq_setup(topology, nirqs, node)
    counts = Counter(masks)
    first = 0
    for hop in numa_hops(topology, node):
        cores = {topology.siblings_of(cpu) & topology.online for cpu in hop}
        found = [counts[core] for core in cores]
        assert max(found) - min(found) <= 1
        # Nearer hops are full before the next one gets any: one pass may overshoot its CPUs.
        taken = masks[first : first + sum(found)]
        assert set(taken) <= cores
        first += sum(found)
        if first < len(masks):
            assert len(hop) <= sum(found) < len(hop) + len(cores)
    assert first == len(masks) <= nirqs


@given(made(absent=False), st.integers(1, 80), st.data())
def test_posted_starts_like_merged_and_never_gets_further_out(machine, nirqs, data):
    topology = machine.topology
    assume(topology.online)
    node = data.draw(st.sampled_from(sorted(topology.nodes)))
    merged = irq_setup(topology, nirqs, node)
    posted = irq_setup(topology, nirqs, node, version="posted")
    hops = numa_hops(topology, node)

    def hop_of(mask):
        return next(at for at, hop in enumerate(hops) if mask & hop)

    assert posted[0] == merged[0]
    for early, late in zip(posted, merged, strict=False):
        assert hop_of(early) <= hop_of(late)


@given(made(absent=False), st.data())
def test_local_spread_visits_every_online_cpu_before_it_repeats(machine, data):
    topology = machine.topology
    assume(topology.online)
    node = data.draw(st.sampled_from(sorted(topology.nodes)))
    count = len(topology.online)
    turn = [cpumask_local_spread(topology, i, node) for i in range(2 * count)]
    assert CpuSet(turn[:count]) == topology.online
    assert turn[:count] == turn[count:]
    home = len(topology.nodes[node] & topology.online)
    assert CpuSet(turn[:home]) == topology.nodes[node] & topology.online


def test_local_spread_minds_nodes_and_ignores_siblings():
    assert [cpumask_local_spread(EXAMPLE, i, 0) for i in range(9)] == [*range(8), 0]
    strided = Topology.from_dict(
        {
            "nodes": {"0": "0,2,4,6", "1": "1,3,5,7"},
            "siblings": ["0,4", "1,5", "2,6", "3,7"],
            "possible": "0-7",
            "present": "0-7",
        }
    )
    assert [cpumask_local_spread(strided, i, 1) for i in range(8)] == [1, 3, 5, 7, 0, 2, 4, 6]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: irq_setup(EXAMPLE, 0, 0), "nirqs 0: expected 1 to 65536"),
        (lambda: irq_setup(EXAMPLE, True, 0), "nirqs True: expected 1 to 65536"),
        (lambda: irq_setup(EXAMPLE, 1, 2), "node 2: expected one of 0, 1"),
        (lambda: irq_setup(EXAMPLE, 1, True), "node True: expected one of 0, 1"),
        (
            lambda: irq_setup(EXAMPLE, 1, 0, version="final"),
            "version 'final': expected posted or merged",
        ),
        (lambda: cpumask_local_spread(EXAMPLE, -1, 0), "i -1: expected 0 or more"),
        (lambda: cpumask_local_spread(EXAMPLE, 0, 9), "node 9: expected one of 0, 1"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(RequestError) as caught:
        call()
    assert str(caught.value) == message


def test_nobody_is_online():
    offline = Topology.from_dict({**EXAMPLE.to_dict(), "online": ""})
    assert numa_hops(offline, 0) == []
    assert irq_setup(offline, 4, 0) == ()
    with pytest.raises(RequestError, match="online"):
        cpumask_local_spread(offline, 0, 0)


def test_a_mana_device_in_a_run():
    run = simulate("mana_8cpu", revision="cluster")
    assert [str(irq.affinity) for irq in run.interrupts] == TABLE
    assert not any(irq.managed for irq in run.interrupts)
    assert run.calls == ()
    assert run.summary.greatest == run.summary.best == 1
