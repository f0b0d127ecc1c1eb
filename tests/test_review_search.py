# SPDX-License-Identifier: GPL-2.0-only
import random
import tomllib

import numpy as np
import pytest

from groupcpus import REVISIONS, CpuSet, Revision, Topology, group_cpus_evenly
from groupcpus.engine.revisions import deal_rotating, deal_rotating_fixed
from groupcpus.errors import RequestError
from groupcpus.machines.machine import machine_from_dict
from groupcpus.studies.batch import Machines
from groupcpus.studies.review.predicates import PREDICATES, Calls, as_topology
from groupcpus.studies.review.qemu import qemu_command
from groupcpus.studies.review.search import can_it_happen, counters_of
from groupcpus.studies.review.shapes import count_machines, machines_of, random_machines, shapes


def happens(predicate, revision, **how):
    return can_it_happen(predicate, revision, workers=1, **how)


def test_empty_masks_of_v2_near_the_wrap_are_found_and_the_remedy_has_none():
    case = happens("empty", "rotate-v2").case
    assert len(case.topology.possible) == 4
    assert case.numgrps == 3
    assert case.counter > 0xFFFFFFF0
    assert CpuSet() in case.masks
    remedy = happens("empty", "rotate-v2-fixed", most_cpus=4)
    assert remedy.case is None
    assert (remedy.all_up_to, remedy.machines) == (4, 332)
    assert "a proof up to there" in str(remedy)


def test_crossing_nodes_takes_an_absent_cpu():
    for revision in ("numa", "cluster"):
        none = happens("crosses-nodes", revision, absent=False, most_cpus=6)
        assert none.case is None
        assert none.machines == sum(
            count_machines(shape) for n in range(1, 7) for shape in shapes(n, absent=False)
        )
        case = happens("crosses-nodes-of-more", revision).case
        assert dict(case.topology.nodes) == {0: CpuSet("0"), 1: CpuSet("1-3")}
        assert case.topology.possible - case.topology.present == CpuSet("3")
        assert case.numgrps == 3
        # As many groups as nodes: even a CPU less is enough.
        assert len(happens("crosses-nodes", revision).case.topology.possible) == 3


def test_rule_of_two_cpus_a_group_fails_with_unequal_clusters():
    case = happens("fewer-than-2", "cluster").case
    assert [len(cluster) for cluster in case.topology.clusters] == [1, 3]
    uneven = Topology.from_dict(
        {"nodes": {"0": "0-7"}, "clusters": ["0", "1-7"], "possible": "0-7", "present": "0-7"}
    )
    calls = Calls(
        Machines.of([uneven]),
        2,
        np.array([[group_of(uneven, 2, cpu) for cpu in range(8)]], np.int32),
    )
    assert PREDICATES["fewer-than-2"].holds(calls).all()


def group_of(topology, numgrps, cpu):
    masks = group_cpus_evenly(topology, numgrps, revision="cluster").masks
    return next(group for group, mask in enumerate(masks) if cpu in mask)


def test_shapes_leave_out_no_result():
    """Any small machine gives the masks of one of the shapes, up to the numbers of its CPUs."""
    known = {
        results(as_topology(machines, row))
        for shape in shapes(4)
        for machines in [machines_of(shape, 0, count_machines(shape))]
        for row in range(len(machines))
    }
    rng = random.Random(5)
    for _ in range(300):
        assert results(any_machine(rng, 4)) in known


def any_machine(rng, count):
    names = rng.choice([1, 2, 3])
    labels = [rng.randrange(names) for _ in range(count)]
    ids = {label: at for at, label in enumerate(sorted(set(labels)))}
    nodes = {ids[label]: CpuSet(c for c in range(count) if labels[c] == label) for label in ids}

    def parts(within):
        sets: dict[tuple[int, int], list[int]] = {}
        for cpu in range(count):
            sets.setdefault((within(cpu), rng.randrange(count)), []).append(cpu)
        return [CpuSet(cpus) for cpus in sets.values()]

    every = CpuSet(range(count))
    present = CpuSet(rng.sample(range(count), rng.randint(1, count)))
    unknown = rng.random() < 0.2
    return Topology(
        every,
        present,
        present,
        nodes,
        [] if unknown else parts(lambda cpu: 0),
        parts(lambda cpu: labels[cpu]),
        no_cluster=every if unknown else CpuSet(),
    )


def results(topology):
    """Return the masks of all calls, each as how many CPUs of a node and stage it has."""
    found = []
    for numgrps in range(1, len(topology.possible) + 1):
        made = group_cpus_evenly(topology, numgrps, revision="rotate-v2", spread_offset=1)
        found.append(
            tuple(
                tuple(
                    len(mask & cpus & stage)
                    for cpus in topology.nodes.values()
                    for stage in (topology.present, topology.possible - topology.present)
                )
                for mask in made.masks
            )
        )
    return tuple(found)


def test_own_function_and_own_revision_are_searched():
    def seven_alone(topology, masks):
        return any(len(mask) == 1 for mask in masks) and len(masks) == 2

    assert happens(seven_alone, "numa").case.numgrps == 2
    always = Revision("always", "nowhere", "", deal=lambda n, g, o: deal_rotating(n, g, 2**32 - 1))
    assert happens("empty", always).case.numgrps == 3
    never = Revision("never", "nowhere", "", deal=lambda n, g, o: deal_rotating_fixed(n, g, 1))
    found = happens("empty", never, most_cpus=3, seconds=(60, 0.3))
    assert found.case is None
    assert found.at_random > 0


def test_random_search_shrinks_what_it_finds():
    found = happens("empty", "rotate-v2", most_cpus=3, seconds=(60, 30))
    assert found.case is not None
    assert len(found.case.topology.possible) <= 16
    assert "Found at random" in str(found)
    assert CpuSet() in found.case.masks


def test_devices_stack_without_a_rotation():
    """On 3 CPUs with 2 queues each, `cluster` leaves the same CPU alone, whatever the device."""
    for predicate in ("same-masks", "same-singles", "more-than-3", "more-than-5"):
        case = happens(predicate, "cluster").case
        assert (len(case.topology.possible), case.numgrps) == (3, 2)
    # With clusters of one CPU and of two, nothing is left to rotate.
    case = happens("same-masks", "rotate-v2-fixed").case
    assert [len(cluster) for cluster in case.topology.clusters] == [1, 2]


def test_workers_find_what_one_process_finds():
    alone, together = (
        can_it_happen("empty", "rotate-v2", workers=workers, most_cpus=4) for workers in (1, 2)
    )
    assert (alone.case, alone.machines) == (together.case, together.machines)
    found = can_it_happen("empty", "rotate-v2", workers=2, most_cpus=2, seconds=(60, 30))
    assert found.case is not None
    assert found.at_random >= 20


def test_case_has_a_machine_file_and_a_qemu_line():
    case = happens("crosses-nodes-of-more", "cluster").case
    machine = machine_from_dict(tomllib.loads(case.machine_file()))
    assert machine.topology == case.topology
    assert "-smp cpus=3,maxcpus=4" in case.qemu()
    assert "-numa cpu,node-id=1,socket-id=3" in case.qemu()
    uneven = Topology.from_dict(
        {"nodes": {"0": "0-2"}, "clusters": ["0", "1-2"], "possible": "0-2", "present": "0-2"}
    )
    assert "clusters of several sizes" in qemu_command(uneven, 2)
    arm = Topology.uniform(nodes=2, cpus_per_node=8, threads=1, cluster=4)
    assert "clusters=4,cores=4,threads=1" in qemu_command(arm, 2)


def test_random_machines_can_be():
    machines = random_machines(20, 30, np.random.default_rng(1))
    for row in range(len(machines)):
        assert as_topology(machines, row).possible == CpuSet("0-19")


def test_counters_and_wrong_arguments():
    assert counters_of(REVISIONS["cluster"], 4) == [0]
    assert counters_of(REVISIONS["rotate-v2"], 3) == [0, 1, 2, 3, 4, 5, *range(2**32 - 3, 2**32)]
    with pytest.raises(RequestError, match="did you mean 'crosses-nodes'"):
        can_it_happen("crosses_nodes", "cluster")
    with pytest.raises(RequestError, match="most_cpus"):
        can_it_happen("empty", "cluster", most_cpus=40)
