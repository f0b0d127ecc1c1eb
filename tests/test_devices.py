# SPDX-License-Identifier: GPL-2.0-only
"""Devices: the calls each driver makes, how many interrupts come of them, and the probe orders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcpus.errors import RequestError
from groupcpus.machines.devices import DEVICE_KINDS, PROBE_ORDERS, Device, probe_calls


def sets(device, cpus=96):
    return [(part.kind, part.queues, part.interrupts) for part in device.queue_sets(cpus)]


ADMIN = ("admin", 1, False)


@pytest.mark.parametrize(
    ("io", "write", "poll", "expected"),
    [
        (62, 0, 0, [("default", 62, True)]),
        (1, 0, 0, [("default", 1, True)]),
        # write_queues: the default set is for writes, the rest is for reads.
        (8, 2, 0, [("default", 2, True), ("read", 6, True)]),
        (8, 7, 0, [("default", 7, True), ("read", 1, True)]),
        # All of them or more: one is left for reads.
        (8, 8, 0, [("default", 7, True), ("read", 1, True)]),
        (8, 20, 0, [("default", 7, True), ("read", 1, True)]),
        # One interrupt serves both.
        (1, 1, 0, [("default", 1, True)]),
        # Poll queues have no interrupt, and leave at least one queue that has.
        (8, 0, 3, [("default", 5, True), ("poll", 3, False)]),
        (8, 0, 8, [("default", 1, True), ("poll", 7, False)]),
        (1, 0, 4, [("default", 1, True)]),
        (8, 2, 3, [("default", 2, True), ("read", 3, True), ("poll", 3, False)]),
        (4, 2, 3, [("default", 1, True), ("poll", 3, False)]),
    ],
)
def test_the_sets_of_an_nvme_device(io, write, poll, expected):
    assert sets(Device("nvme0", "nvme", io, write, poll)) == [ADMIN, *expected]


@pytest.mark.parametrize(
    ("write", "poll", "queues"), [(0, 0, 4), (3, 0, 7), (0, 2, 6), (3, 2, 9), (90, 90, 128)]
)
def test_an_nvme_driver_asks_for_no_more_than_its_cpus_and_parameters(write, poll, queues):
    made = Device("nvme0", "nvme", 128, write, poll).queue_sets(4)
    assert sum(part.queues for part in made[1:]) == queues


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 200), st.integers(1, 200))
def test_nvme_sets_add_up(io, write, poll, cpus):
    admin, *rest = sets(Device("nvme0", "nvme", io, write, poll), cpus)
    assert admin == ADMIN
    assert sum(queues for _, queues, _ in rest) == min(io, cpus + write + poll)
    found = {kind: queues for kind, queues, _ in rest}
    assert found["default"] >= 1
    assert found.get("poll", 0) <= poll
    assert all(queues >= 1 for queues in found.values())
    assert ("read" in found) == (write > 0 and found["default"] + found.get("read", 0) > 1)
    assert all(interrupts == (kind != "poll") for kind, _, interrupts in rest)


def test_other_devices():
    assert sets(Device("loop0", "loop")) == [("default", 1, False)]
    assert sets(Device("virtio0", "virtio", 5)) == [("default", 5, True)]
    assert sets(Device("irqs0", "irqs", 11)) == [("default", 11, True)]
    assert sets(Device("mana0", "mana", 8)) == []  # irq_setup() instead
    pre = {kind: Device(f"{kind}0", kind).pre_vectors for kind in DEVICE_KINDS}
    assert pre == {"nvme": 1, "virtio": 1, "loop": 0, "mana": 0, "irqs": 0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "disk"}, "kind 'disk': expected one of nvme, virtio, loop, mana, irqs"),
        ({"io_queues": 0}, "io_queues 0: expected a whole number from 1 to 65535"),
        ({"io_queues": 65536}, "io_queues 65536: expected a whole number from 1 to 65535"),
        ({"io_queues": 10**5000}, "io_queues an integer of 16610 bits: expected a whole"),
        ({"io_queues": True}, "io_queues True: expected"),
        ({"io_queues": 2.0}, "io_queues 2.0: expected"),
        ({"write_queues": -1}, "write_queues -1: expected a whole number from 0 to 65535"),
        ({"poll_queues": "1"}, "poll_queues '1': expected a whole number from 0 to 65535"),
        ({"kind": "virtio", "write_queues": 1}, "x0: only nvme has write_queues and poll_queues"),
        ({"kind": "irqs", "poll_queues": 1}, "x0: only nvme has write_queues and poll_queues"),
    ],
)
def test_a_device_that_cannot_be_is_refused(fields, message):
    with pytest.raises(RequestError) as caught:
        Device(**{"name": "x0", "kind": "nvme", **fields})
    assert str(caught.value).startswith(message)


FLEET = [
    Device("loop0", "loop"),
    Device("nvme0", "nvme", 4, write_queues=1, poll_queues=1),
    Device("virtio0", "virtio", 2),
    Device("nvme1", "nvme", 2),
]


def labels(probe, devices=FLEET):
    return [call.label for call in probe_calls(devices, 8, probe)]


DEVICE_BY_DEVICE = [
    "loop0:default",
    "nvme0:admin",
    "nvme0:default",
    "nvme0:read",
    "nvme0:poll",
    "virtio0:default",
    "nvme1:admin",
    "nvme1:default",
]


def test_interleaved_is_device_by_device():
    assert labels("interleaved") == DEVICE_BY_DEVICE


def test_admin_first_moves_admin_calls_to_the_front_and_nothing_else():
    assert labels("admin-first") == [
        "nvme0:admin",
        "nvme1:admin",
        *(label for label in DEVICE_BY_DEVICE if not label.endswith("admin")),
    ]
    assert labels("admin-first") == [call.label for call in probe_calls(FLEET, 8)]


@given(st.permutations(DEVICE_BY_DEVICE))
def test_any_order_can_be_asked_for(order):
    assert labels(order) == order
    assert labels(tuple(order)) == order


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ("random", "probe 'random': expected admin-first or interleaved, or a sequence of calls"),
        ([], "probe: expected each of the 8 calls once"),
        (DEVICE_BY_DEVICE[1:], "probe: expected each of the 8 calls once"),
        ([*DEVICE_BY_DEVICE, "nvme0:admin"], "probe: expected each of the 8 calls once"),
        (["nvme0:read"] * 8, "probe: expected each of the 8 calls once"),
        (["nvme9:admin"], "probe: there is no call 'nvme9:admin'; the calls are "),
    ],
)
def test_an_order_that_is_none_is_refused(probe, message):
    with pytest.raises(RequestError) as caught:
        labels(probe)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("probe", PROBE_ORDERS)
def test_no_devices_no_calls(probe):
    assert labels(probe, []) == []


@pytest.mark.parametrize("name", [None, 5, "", "a\nb", "x" * 100, "nvme 0"])
def test_a_device_has_a_name_of_one_word(name):
    with pytest.raises(RequestError, match="expected a name such as nvme0"):
        Device(name, "nvme", 4)


def test_two_devices_of_one_name_are_refused():
    with pytest.raises(RequestError, match="several named nvme0"):
        probe_calls([Device("nvme0", "nvme", 4)] * 2, 8)
