# SPDX-License-Identifier: GPL-2.0-only
"""What rotate-kept promises: no more split cores than `cluster`, a kept number, 32 bits."""

from dataclasses import replace
from itertools import product

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.life import Life
from groupcpus.machines.machine import data_dir, read_machine
from groupcpus.machines.probe import simulate
from groupcpus.studies.batch import Machines, group_many
from groupcpus.studies.invariants import check_revision, unusual_machines
from groupcpus.studies.review.zoo import zoo
from groupcpus.studies.rotation import Units, continue_shares, deal_from_unit, split_parts
from groupcpus.studies.sweeps import sweep
from tests.strategies import WRAP, made, numgrps_for, offsets

KEPT = REVISIONS["rotate-kept"]


def masks_of(topology, numgrps, offset, revision=KEPT):
    grouping = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset)
    return [mask for mask in grouping.masks if mask]


def strided(nodes, cores):
    """Machines whose second threads are numbered after all first ones."""
    every = nodes * cores
    return Topology.from_dict(
        {
            "possible": f"0-{2 * every - 1}",
            "present": f"0-{2 * every - 1}",
            "nodes": {
                str(node): f"{node * cores}-{node * cores + cores - 1},"
                f"{every + node * cores}-{every + node * cores + cores - 1}"
                for node in range(nodes)
            },
            "siblings": [f"{core},{core + every}" for core in range(every)],
            "clusters": [f"{core},{core + every}" for core in range(every)],
        }
    )


def borders(topology):
    clusters = topology.clusters_in(topology.possible) or ()
    return (
        [cpus for cpus in topology.nodes.values() if cpus],
        list(map(CpuSet, clusters)),
        # A CPU that is in no list of siblings is a core too.
        list(map(CpuSet, {*topology.core_cpus.values()})),
    )


def crossing(masks, parts):
    """How many masks have CPUs of several parts."""
    return sum(sum(bool(mask & part) for part in parts) > 1 for mask in masks)


def cached(topology, llcs):
    return Topology.from_dict(topology.to_dict() | {"llcs": llcs})


def check_no_worse(topology, numgrps, offset):
    masks, before = masks_of(topology, numgrps, offset), masks_of(topology, numgrps, 0, "cluster")
    assert sum(map(len, masks)) == len(topology.possible)
    assert CpuSet(cpu for mask in masks for cpu in mask) == topology.possible
    assert sorted(map(len, masks)) == sorted(map(len, before))
    nodes, clusters, cores = borders(topology)
    for parts in (nodes, clusters, cores):
        assert crossing(masks, parts) <= crossing(before, parts), (topology, numgrps, offset)
    for parts in (cores, topology.llcs):
        assert split_parts(masks, parts) <= split_parts(before, parts), (topology, numgrps, offset)


@given(made(absent=False), st.data())
def test_a_call_is_no_worse_than_that_of_cluster_on_any_machine(machine, data):
    numgrps = data.draw(numgrps_for(machine))
    check_no_worse(machine.topology, numgrps, data.draw(offsets))


@given(made(), st.data())
def test_a_call_is_valid_where_cpus_are_absent(machine, data):
    numgrps, offset = data.draw(numgrps_for(machine)), data.draw(offsets)
    masks = masks_of(machine.topology, numgrps, offset)
    assert sum(map(len, masks)) == len(machine.topology.possible)
    assert CpuSet(cpu for mask in masks for cpu in mask) == machine.topology.possible


REGULAR = [
    Topology.uniform(nodes, cpus, threads, cluster)
    for nodes, cpus, (threads, cluster) in product(
        (1, 3), (8, 12, 16), ((1, 0), (1, 4), (2, 2), (2, 4), (2, 0), (4, 8), (4, None))
    )
    if cpus % max(threads, cluster or 1) == 0
] + [strided(nodes, cores) for nodes, cores in product((1, 2), (4, 5, 6))]


CACHED = [
    cached(Topology.uniform(2, 16, 2, 2), [f"{cpu}-{cpu + 7}" for cpu in range(0, 32, 8)]),
    cached(Topology.uniform(1, 24, 2, 2), [f"{cpu}-{cpu + 3}" for cpu in range(0, 24, 4)]),
    cached(Topology.uniform(1, 15, 1, 0), ["0-3", "4-7", "8-11"]),
    # The second node has its caches elsewhere, and so has the second cluster.
    cached(Topology.uniform(2, 8, 1, 0), ["0-1", "2-7", "8-13", "14-15"]),
    cached(Topology.uniform(1, 16, 1, 8), ["0-1", "2-7", "8-13", "14-15"]),
    cached(strided(2, 6), ["0-2,12-14", "3-5,15-17", "6-8,18-20", "9-11,21-23"]),
]


@st.composite
def with_caches(draw):
    """Draw a random machine whose last-level caches are some cores or CPUs each."""
    topology = draw(st.one_of(made(absent=False).map(lambda one: one.topology), regular))
    parts = draw(st.sampled_from([topology.siblings, [CpuSet([cpu]) for cpu in topology.possible]]))
    width = draw(st.integers(1, 4))
    llcs = [CpuSet(c for one in parts[at : at + width] for c in one) for at in range(0, 64, width)]
    return cached(topology, [str(cpus & topology.possible) for cpus in llcs if cpus])


regular = st.builds(
    lambda nodes, cores, threads, cluster: Topology.uniform(
        nodes, cores * threads, threads, cluster * threads
    ),
    st.integers(1, 3),
    st.integers(1, 12),
    st.sampled_from([1, 2]),
    st.integers(0, 1),
)


@given(with_caches(), st.data())
def test_no_last_level_cache_is_cut_that_cluster_keeps(topology, data):
    numgrps = data.draw(st.integers(1, len(topology.possible)))
    offset = data.draw(offsets)
    check_no_worse(topology, numgrps, offset)
    pytest.importorskip("numba", reason="the extra `batch` is not installed")
    twin = group_many(
        Machines.of([topology]), numgrps, revisions="rotate-kept", spread_offsets=offset
    )
    masks = group_cpus_evenly(topology, numgrps, revision=KEPT, spread_offset=offset).masks
    assert [mask.mask for mask in masks] == twin.masks(0, numgrps)


def stored():
    """Return the machines whose CPUs are all present; what `cluster` splits is compared there."""
    machines = [
        read_machine(path.stem) for path in sorted((data_dir() / "machines").glob("*.toml"))
    ]
    every = [*machines, *zoo()]
    return [one for one in every if one.topology.present == one.topology.possible]


@pytest.mark.parametrize("machine", stored(), ids=lambda machine: machine.name)
def test_no_stored_machine_is_worse(machine):
    """Try some 24 numbers of queues on each."""
    topology = machine.topology
    every = len(topology.possible)
    for numgrps in range(1, every + 1, max(1, every // 24)):
        for offset in (1, WRAP - 1):
            masks = masks_of(topology, numgrps, offset)
            before = masks_of(topology, numgrps, 0, "cluster")
            for parts in (topology.siblings, topology.llcs):
                assert split_parts(masks, parts) <= split_parts(before, parts), numgrps


@pytest.mark.parametrize("topology", [*REGULAR, *CACHED], ids=str)
def test_regular_machines_are_no_worse(topology):
    for numgrps in range(1, len(topology.possible) + 1):
        plain = masks_of(topology, numgrps, 0, "cluster")
        for offset in (0, 1, 2, 3, 7, WRAP - 2, WRAP - 1):
            check_no_worse(topology, numgrps, offset)
            if len(topology.possible) % numgrps == 0:
                assert masks_of(topology, numgrps, offset) == plain


def test_the_compiled_twin_agrees_where_something_rotates():
    """Random machines are mostly irregular, and then both are `cluster`."""
    pytest.importorskip("numba", reason="the extra `batch` is not installed")
    uneven = Topology.from_dict(
        {
            "possible": "0-23",
            "present": "0-19",
            "nodes": {"0": "0-7,20-21", "2": "8-19,22-23"},
            "siblings": [f"{cpu}-{cpu + 1}" for cpu in range(0, 24, 2)],
            "clusters": [f"{cpu}-{cpu + 3}" for cpu in range(0, 24, 4)],
        }
    )
    rotated = 0
    for topology in [*REGULAR, uneven, *CACHED]:
        every = range(1, len(topology.possible) + 2)
        calls = [(n, at) for n in every for at in (0, 1, 5, 65535, 65536, WRAP - 1)]
        answers = group_many(
            Machines.of([topology]),
            [numgrps for numgrps, _ in calls],
            revisions="rotate-kept",
            spread_offsets=[offset for _, offset in calls],
        )
        for at, (numgrps, offset) in enumerate(calls):
            masks = group_cpus_evenly(topology, numgrps, revision=KEPT, spread_offset=offset).masks
            assert [mask.mask for mask in masks] == answers.masks(at, numgrps), (numgrps, offset)
            plain = group_cpus_evenly(topology, numgrps, revision="cluster").masks
            rotated += masks != plain
    assert rotated > 1000


@pytest.mark.parametrize("probe", ["admin-first", "interleaved"])
def test_sweeps_count_its_devices_as_a_run_does(probe):
    """A device with a poll set calls twice for more than one group, and takes one offset."""
    machine = read_machine("L48s_v2")
    devices = tuple(
        Device(f"nvme{at}", "nvme", 25, write_queues=11, poll_queues=4) for at in range(4)
    )
    machine = replace(machine, devices=devices)
    frame = sweep([machine], revisions=[KEPT], irqchips=["x86"], probes=[probe], progress=False)
    run = simulate(machine, revision=KEPT, irqchip="x86", probe=probe)
    assert [call.spread_offset for call in run.calls if call.numgrps > 1] == [
        at for at in range(4) for _ in range(3)
    ]
    assert frame["greatest"].tolist() == [run.per_cpu["irqs"].max()]
    assert frame["submitters"].tolist() == [run.per_cpu["submitters"].max()]


def test_it_rotates_by_whole_cores_what_does_not_divide_evenly():
    for topology in (Topology.uniform(2, 48, 2, 2), strided(2, 24)):
        first, second = (masks_of(topology, 62, offset) for offset in (0, 1))
        assert first != second
        assert masks_of(topology, 48, 1) == masks_of(topology, 48, 0, "cluster")


def test_invariants_hold():
    machines = unusual_machines() | {"strided": strided(2, 5)}
    frame = check_revision("rotate-kept", machines)
    assert set(frame["first counter-example"]) == {"holds"}


class U32(int):
    """An unsigned number of 32 bits; no result may leave them."""

    def __neg__(self):
        raise AssertionError("an unsigned number has no negative")


def checked(name):
    def operate(self, other):
        if not isinstance(other, int):
            return NotImplemented
        result = getattr(int(self), name)(int(other))
        assert 0 <= result < WRAP, f"{int(self)}.{name}({int(other)})"
        return U32(result)

    return operate


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _side in ("", "r"):
        setattr(U32, f"__{_side}{_name}__", checked(f"__{_side}{_name}__"))


@given(st.integers(1, 1024), st.integers(1, 8), st.integers(1, 2048), offsets)
def test_nothing_leaves_32_bits(cores, threads, numgrps, offset):
    ncpus = cores * threads
    turn = KEPT.turn(U32(numgrps), U32(offset))
    assert turn.total == offset % 65536 * numgrps
    ngroups = min(numgrps, ncpus)
    units = Units(U32(ncpus), U32(cores), U32(threads))
    first = deal_from_unit(units, U32(ngroups), turn.total).first
    share = ncpus // ngroups
    expected = -int(turn.total) * share * (share + 1) % ncpus // threads * threads
    assert first == (expected if ncpus % ngroups else 0)


@given(st.integers(1, 64), st.integers(1, 2048), offsets)
def test_shares_of_equal_nodes_leave_no_32_bits_and_add_up(count, numgrps, offset):
    numgrps = max(numgrps, count)
    turn = KEPT.turn(U32(numgrps), U32(offset))
    plain = [U32(numgrps // count)] * (count - 1)
    plain.append(U32(numgrps - sum(plain)))
    spread, totals = continue_shares([U32(8)] * count, plain, *turn)
    assert sum(map(int, spread)) == numgrps
    assert sum(map(int, totals)) == turn.total


def test_calls_of_others_move_a_device_by_one_whatever_their_size():
    for between, expected in (([], 1), ([1], 1), ([2], 2), ([37], 2)):
        counter = sum(map(KEPT.advance, [7, *between]))
        assert KEPT.offset(7, counter) == expected
        assert KEPT.turn(7, expected).total == 7 * expected


def life_masks(life):
    return {(one.device, one.queue): one.mask for one in life.interrupts if one.vector.managed}


def test_devices_take_an_offset_once_and_keep_it_over_resets():
    run = simulate("L96as_v4", revision="rotate-kept", irqchip="x86", spread_start=9)
    taken: dict[str, set[int]] = {}
    for call in run.calls:
        if call.numgrps > 1:
            taken.setdefault(call.device, set()).add(call.spread_offset)
    assert [*taken.values()] == [{9 + at} for at in range(len(taken))]
    assert run.spread_end == 9 + len(taken)
    life = Life.after(run)
    before = life_masks(life)
    life.then("reset nvme1; unbind nvme0; bind nvme0; suspend; resume")
    assert life_masks(life) == before
    assert life.now.counter == run.spread_end


def test_split_cores_see_what_crossing_does_not():
    """Two queues that share a core cross no border each if cores have four threads."""
    masks = [CpuSet("0-1"), CpuSet("2-3"), CpuSet("4-7")]
    cores = [CpuSet("0-3"), CpuSet("4-7")]
    assert crossing(masks, cores) == 0
    assert split_parts(masks, cores) == 1


def test_the_stored_comparison_says_so_too():
    stored = pd.read_csv(data_dir() / "kept.csv").pivot_table(
        index="group", columns="revision", values="split cores"
    )
    assert (stored["rotate-kept"] <= stored["cluster"]).all()
    assert (stored["rotate-tiled"] > stored["cluster"]).any()
