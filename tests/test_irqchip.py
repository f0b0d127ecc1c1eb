# SPDX-License-Identifier: GPL-2.0-only
"""Irqchips: which CPU of a mask each takes, when none is left, and what a failed try leaves."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import (
    IRQCHIPS,
    VECTORS_PER_CPU,
    InterruptTranslationService,
    VectorMatrix,
    make_irqchip,
)
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, VectorSpaceError

EIGHT = CpuSet("0-7")


def topology(online="0-7"):
    return Topology(EIGHT, EIGHT, CpuSet(online), {0: CpuSet("0-3"), 1: CpuSet("4-7")})


def masks(*cpulists):
    return [CpuSet(text) for text in cpulists]


def test_the_irqchips_are_those_of_the_design():
    assert list(IRQCHIPS) == ["x86", "gicv2m", "gicv3", "its", "its-first"]
    with pytest.raises(RequestError, match=r"^irqchip 'gic': expected one of x86, gicv2m, gicv3, "):
        make_irqchip("gic", topology())


@pytest.mark.parametrize(
    ("irqchip", "expected"),
    [
        ("x86", [7, 6, 5, 4, 3, 2, 1, 0, 7]),
        ("its", [0, 1, 2, 3, 4, 5, 6, 7, 0]),
        ("gicv2m", [0] * 9),
        ("gicv3", [0] * 9),
        ("its-first", [0] * 9),
    ],
)
def test_ties(irqchip, expected):
    """Nine devices of one interrupt that may go anywhere."""
    chip = make_irqchip(irqchip, topology())
    assert [chip.assign([EIGHT])[0] for _ in expected] == expected


def test_x86_takes_the_fewest_managed_vectors_not_the_fewest_of_the_device():
    chip = VectorMatrix(topology())
    assert chip.assign(masks("6-7", "6-7", "7")) == [7, 6, 7]
    # CPU 7 has two and CPU 6 one from the device before.
    assert chip.assign(masks("6-7", "6-7", "6-7")) == [6, 7, 6]


def test_x86_reserves_a_vector_on_every_cpu_of_a_managed_mask():
    chip = VectorMatrix(topology())
    assert chip.assign(masks("0-2")) == [2]
    # Not managed: most vectors available, the first on a tie; CPUs 0-2 have one less.
    assert chip.assign(masks("0-3", "0-7"), managed=False) == [3, 4]
    # That one's own vector counts, and those are 199 199 199 199 199 200 200 200 now.
    assert chip.assign(masks("0-4", "4-5"), managed=False) == [0, 5]


def test_x86_interrupts_that_are_not_managed_do_not_weigh_on_managed_ones():
    chip = VectorMatrix(topology())
    assert chip.assign(masks("3", "3", "3"), managed=False) == [3, 3, 3]
    assert chip.assign(masks("2-3")) == [3]


def test_x86_a_device_may_mix_both():
    chip = VectorMatrix(topology())
    # The admin vector is placed after the reservations: CPU 0 has one, CPUs 1-3 none.
    assert chip.assign(masks("0-3", "0", "4-7"), managed=[False, True, True]) == [1, 0, 7]


@pytest.mark.parametrize("irqchip", IRQCHIPS)
def test_flags_are_one_a_mask(irqchip):
    chip = make_irqchip(irqchip, topology())
    with pytest.raises(
        RequestError, match=r"^managed \[True\]: expected a bool, or one for each of 2 masks$"
    ):
        chip.assign(masks("0", "1"), managed=[True])


def test_x86_runs_out_of_vectors():
    chip = VectorMatrix(topology())
    assert chip.assign(masks("0") * VECTORS_PER_CPU) == [0] * VECTORS_PER_CPU
    message = "vector 1 with mask 0-1: all 200 interrupt vectors of CPU 0 are taken (-ENOSPC)"
    with pytest.raises(VectorSpaceError) as caught:
        chip.assign(masks("1", "0-1"))
    assert str(caught.value) == message
    # Without that CPU there is room everywhere.
    assert chip.assign(masks("1", "1-2")) == [1, 2]


def test_x86_a_failed_device_leaves_nothing_behind():
    chip = VectorMatrix(topology(), vectors_per_cpu=3)
    twin = VectorMatrix(topology(), vectors_per_cpu=3)
    for one in (chip, twin):
        one.assign(masks("0-3", "0-1"))
    with pytest.raises(VectorSpaceError):
        chip.assign(masks("2-3", "3", "0-1", "0-1"))  # CPUs 0 and 1 have one vector left
    for attempt in (masks("2-3", "2-3"), masks("0", "1", "4-7")):
        assert chip.assign(attempt) == twin.assign(attempt)
    assert (chip.available, chip.managed_allocated) == (twin.available, twin.managed_allocated)


def test_x86_a_device_that_fails_late_leaves_nothing_behind_either():
    chip = VectorMatrix(topology("0"), vectors_per_cpu=2)
    before = chip.available[:], chip.managed_allocated[:]
    with pytest.raises(VectorSpaceError, match=r"vector 2 .* every CPU"):
        chip.assign(masks("0", "0", "0"), managed=[True, False, False])
    assert (chip.available, chip.managed_allocated) == before


def test_x86_an_interrupt_that_is_not_managed_leaves_a_full_mask():
    """Rather another CPU than none: ``assign_irq_vector_any_locked()`` tries all online ones."""
    chip = VectorMatrix(topology(), vectors_per_cpu=1)
    assert chip.assign(masks("0-1", "0-1", "0-1"), managed=False) == [0, 1, 2]


@pytest.mark.parametrize("irqchip", IRQCHIPS)
def test_offline_cpus_are_not_taken(irqchip):
    chip = make_irqchip(irqchip, topology("2,5-7"))
    first = 7 if irqchip == "x86" else 5
    assert chip.assign(masks("0-3", "4-7", "0-1,3", "")) == [2, first, None, None]


@pytest.mark.parametrize("irqchip", IRQCHIPS)
def test_an_unmanaged_interrupt_without_an_online_cpu_goes_anywhere(irqchip):
    chip = make_irqchip(irqchip, topology("2,5-7"))
    assert chip.assign(masks("0-1"), managed=False) == [2]


@pytest.mark.parametrize("irqchip", IRQCHIPS)
def test_isolated_cpus_are_taken_only_if_nothing_else_is_left(irqchip):
    chip = make_irqchip(irqchip, topology("0-6"), CpuSet("4-7"))
    home, away = (3, 6) if irqchip == "x86" else (0, 4)
    # 3,7: CPU 3 is the housekeeping one. 4-7: isolated all; 7: offline, so shut down.
    assert chip.assign(masks("0-7", "4-7", "7")) == [home, away, None]
    assert chip.assign(masks("2,5")) == [2]
    # isolcpus=managed_irq says nothing about interrupts that are not managed.
    assert chip.assign(masks("5"), managed=False) == [5]


def test_its_charges_a_device_before_it_places_any_vector():
    chip = make_irqchip("its", topology("0-3"))
    # Charges go to CPUs 0 to 3. The first vector drops CPU 0's: it is the least loaded again. The
    # second drops CPU 1's and finds CPU 0 with one, CPU 1 with none.
    assert chip.assign(masks("0-3", "0-3", "0-3", "0-3")) == [0, 1, 2, 3]
    # Charges 0 and 1 again; vector 0 may go to CPU 1 (2 charges) or CPU 3 (1 charge).
    assert chip.assign(masks("1,3", "0-1")) == [3, 0]


def test_its_places_all_masks_of_a_device_together():
    """One vector at a time would give another result."""
    together = make_irqchip("its", topology("0-3"))
    one_by_one = make_irqchip("its", topology("0-3"))
    device = masks("1-2", "1-2")
    # Charged to 0 and 1. The first vector finds CPU 1 charged by the second: it takes CPU 2.
    assert together.assign(device) == [2, 1]
    assert [one_by_one.assign([mask])[0] for mask in device] == [1, 2]


def test_its_counts_managed_interrupts_apart():
    chip = make_irqchip("its", topology())
    assert chip.assign(masks("0-7") * 3, managed=False) == [0, 1, 2]
    assert chip.assign(masks("0-7")) == [0]


def test_its_does_not_charge_a_vector_that_cannot_start():
    """``msi_init_virq()`` activates no managed vector without an online CPU."""
    chip = make_irqchip("its", topology("0-3"))
    assert chip.assign(masks("4-7")) == [None]
    assert chip.assign(masks("0-1")) == [0]


any_masks = st.lists(st.sets(st.integers(0, 7), min_size=1).map(CpuSet), max_size=8)
devices = st.lists(any_masks, max_size=4)
onlines = st.sets(st.integers(0, 7), min_size=1).map(CpuSet)


@pytest.mark.parametrize("irqchip", IRQCHIPS)
@given(devices, onlines)
def test_a_managed_interrupt_is_on_an_online_cpu_of_its_mask_or_nowhere(irqchip, probed, online):
    chip = make_irqchip(irqchip, topology(str(online)))
    for device in probed:
        effective = chip.assign(device)
        for mask, cpu in zip(device, effective, strict=True):
            assert cpu in mask & online if mask & online else cpu is None


@given(devices, onlines)
def test_x86_never_leaves_a_less_loaded_cpu_of_the_mask(probed, online):
    chip = VectorMatrix(topology(str(online)))
    counts: Counter[int] = Counter()
    for device in probed:
        for mask, cpu in zip(device, chip.assign(device), strict=True):
            if cpu is not None:
                reachable = mask & online
                least = min(counts[other] for other in reachable)
                assert cpu == max(other for other in reachable if counts[other] == least)
                counts[cpu] += 1


@given(devices, onlines)
def test_its_charges_add_up(probed, online):
    chip = InterruptTranslationService(topology(str(online)))
    placed: Counter[int | None] = Counter()
    for device in probed:
        placed.update(chip.assign(device))
    assert chip.charges[True] == [placed[cpu] for cpu in EIGHT]


@pytest.mark.parametrize("irqchip", IRQCHIPS)
@settings(max_examples=50)
@given(devices, devices)
def test_a_fork_goes_its_own_way(irqchip, before, after):
    chip = make_irqchip(irqchip, topology())
    for device in before:
        chip.assign(device)
    fork = chip.fork()
    expected = [fork.assign(device) for device in after]
    again = chip.fork()
    assert [again.assign(device) for device in after] == expected
    assert [chip.assign(device) for device in after] == expected


@pytest.mark.parametrize("name", IRQCHIPS)
def test_nothing_online_shuts_everything_down(name):
    four = CpuSet("0-3")
    chip = make_irqchip(name, Topology(four, four, CpuSet(), {0: four}))
    assert chip.assign([CpuSet("0-1"), four]) == [None, None]
    assert chip.assign([CpuSet("0")], managed=False) == [None]


@pytest.mark.parametrize("name", IRQCHIPS)
@pytest.mark.parametrize(
    ("masks", "managed", "what"),
    [
        ([CpuSet("0"), CpuSet("100")], True, r"masks\[1\] CpuSet\('100'\)"),
        ([None], True, r"masks\[0\] None"),
        (["0-3"], True, r"masks\[0\] '0-3'"),
        (CpuSet("0-3"), True, r"masks\[0\] 0"),
        ([CpuSet("0")], [1], r"managed \[1\]"),
        ([CpuSet("0")], [True, False], r"managed \[True, False\]"),
    ],
)
def test_what_is_no_mask_or_flag_is_refused(name, masks, managed, what):
    chip = make_irqchip(name, Topology.uniform(nodes=1, cpus_per_node=4))
    with pytest.raises(RequestError, match=f"^{what}: expected a"):
        chip.assign(masks, managed)
    assert chip.assign([CpuSet("0-3")]) == make_irqchip(
        name, Topology.uniform(nodes=1, cpus_per_node=4)
    ).assign([CpuSet("0-3")])


def test_odd_settings_of_an_irqchip_are_refused():
    topology = Topology.uniform(nodes=1, cpus_per_node=4)
    for build in (
        lambda: make_irqchip([], topology),  # type: ignore[arg-type]
        lambda: make_irqchip("x86", None),  # type: ignore[arg-type]
        lambda: make_irqchip("its", topology, "0-3"),  # type: ignore[arg-type]
        lambda: VectorMatrix(topology, vectors_per_cpu=-1),
    ):
        with pytest.raises(RequestError, match="expected"):
            build()


def charged(vectors, cpus):
    return [vector._replace(charged=cpu) for vector, cpu in zip(vectors, cpus, strict=True)]


def request(chip, vectors):
    return charged(vectors, [chip.request(vector) for vector in vectors])


@pytest.mark.parametrize(
    ("irqchip", "before", "after"),
    [
        # Placed on 3, 2, 1, 0, 3. The two of CPU 3 go to the last of the least loaded, one by one.
        ("x86", [3, 2, 1, 0, 3], [2, 2, 1, 0, 1]),
        ("its", [0, 1, 2, 3, 0], [0, 1, 2, 1, 0]),
        ("gicv2m", [0] * 5, [0] * 5),
    ],
)
def test_interrupts_of_a_cpu_that_goes_offline_are_requested_again(irqchip, before, after):
    chip = make_irqchip(irqchip, Topology.uniform(nodes=1, cpus_per_node=4))
    vectors = request(chip, chip.allocate(masks("0-3") * 5))
    assert [vector.charged for vector in vectors] == before
    chip.cpu_down(3)
    moved = [
        vector._replace(charged=chip.request(vector)) if vector.charged == 3 else vector
        for vector in vectors
    ]
    assert [vector.charged for vector in moved] == after


@pytest.mark.parametrize("irqchip", IRQCHIPS)
def test_the_last_cpu_of_a_mask_shuts_its_interrupt_down_and_starts_it_again(irqchip):
    chip = make_irqchip(irqchip, topology())
    [vector] = request(chip, chip.allocate(masks("6-7")))
    cpu = vector.charged
    chip.cpu_down(13 - cpu)
    chip.cpu_down(cpu)
    vector = vector._replace(charged=chip.request(vector))
    assert vector.charged is None
    assert chip.shown_when_shut_down(cpu) == (0 if irqchip == "x86" else cpu)
    chip.cpu_up(6)
    assert chip.request(vector) == 6


@pytest.mark.parametrize("irqchip", IRQCHIPS)
@settings(max_examples=50)
@given(devices, devices, onlines)
def test_a_device_that_is_freed_leaves_nothing_behind(irqchip, before, probed, online):
    chip = make_irqchip(irqchip, topology(str(online)))
    for device in before:
        chip.assign(device)
    twin = chip.fork()
    held = [request(chip, chip.allocate(device)) for device in probed]
    held.append(request(chip, chip.allocate([EIGHT], managed=False)))
    for vectors in held:
        chip.free(vectors)
    for counts in ("available", "managed_allocated", "taken", "charges"):
        assert getattr(chip, counts, None) == getattr(twin, counts, None)


def test_x86_a_cpu_seems_emptier_when_it_was_offline_during_the_reservation():
    """Reserved while CPU 1 was offline, freed while it was online: one more available there."""
    chip = VectorMatrix(topology("0-3"))
    chip.cpu_down(1)
    vectors = request(chip, chip.allocate(masks("0-1")))
    chip.cpu_up(1)
    chip.free(vectors)
    assert chip.available[:4] == [VECTORS_PER_CPU, VECTORS_PER_CPU + 1, *[VECTORS_PER_CPU] * 2]
    assert chip.assign(masks("0-3"), managed=False) == [1]
    assert chip.taken[:4] == [0, 1, 0, 0]


def test_x86_a_cpu_that_comes_up_for_the_first_time_counts_what_is_reserved_there():
    chip = VectorMatrix(topology("0-3"))
    chip.assign(masks("3-4", "0-7"))
    chip.cpu_up(4)
    assert chip.available[4] == VECTORS_PER_CPU - 2


def test_x86_a_vector_that_only_seems_available_is_not_given_out():
    chip = VectorMatrix(topology("0-1"), vectors_per_cpu=1)
    chip.cpu_down(1)
    vectors = chip.allocate(masks("1"))
    chip.cpu_up(1)
    chip.free(vectors)
    assert chip.assign(masks("1"), managed=False) == [1]
    assert chip.available[1] == 1
    with pytest.raises(VectorSpaceError, match="of CPU 1 are taken"):
        chip.assign(masks("1"))


@pytest.mark.parametrize("irqchip", IRQCHIPS)
@pytest.mark.parametrize(
    ("event", "cpu", "message"),
    [
        ("cpu_down", 9, r"CPU 9 is not present \(0-7 are\)"),
        ("cpu_down", -1, "CPU -1: expected a CPU number"),
        ("cpu_up", True, "CPU True: expected a CPU number"),
        ("cpu_down", 4, "CPU 4 is offline already"),
        ("cpu_up", 3, "CPU 3 is online already"),
    ],
)
def test_what_cannot_happen_to_a_cpu_is_refused(irqchip, event, cpu, message):
    chip = make_irqchip(irqchip, topology("0-3"))
    with pytest.raises(RequestError, match=f"^{message}$"):
        getattr(chip, event)(cpu)


@pytest.mark.parametrize("irqchip", IRQCHIPS)
@settings(max_examples=50)
@given(devices, onlines)
def test_what_is_adopted_counts_as_if_it_had_been_placed(irqchip, probed, online):
    chip = make_irqchip(irqchip, topology(str(online)))
    heir = chip.fork()
    for device in probed:
        heir.adopt(request(chip, chip.allocate(device)))
    vectors = chip.allocate([EIGHT, EIGHT], managed=False)
    heir.adopt(request(chip, vectors))
    for counts in ("available", "managed_allocated", "taken", "charges"):
        assert getattr(heir, counts, None) == getattr(chip, counts, None)
