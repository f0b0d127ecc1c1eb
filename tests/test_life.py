# SPDX-License-Identifier: GPL-2.0-only
"""Life after boot: what events do to interrupts, masks and maps, and what they never do."""

import json
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from groupcpus import Life, simulate
from groupcpus.__main__ import main
from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError, RequestError, VectorSpaceError
from groupcpus.machines.devices import Device
from groupcpus.machines.events import EVENTS, Event, parse_events
from groupcpus.machines.inuse import topology_now
from groupcpus.machines.machine import Machine


def machine(topology=None, devices=None, arch="x86_64", irqchip="x86"):
    topology = topology or Topology.uniform(nodes=2, cpus_per_node=4, threads=2, cluster=4)
    devices = devices or [Device("nvme0", "nvme", 3), Device("nvme1", "nvme", 5)]
    return Machine("made", "made", arch, irqchip, topology, tuple(devices))


FOUR_DISKS = machine(
    Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=None),
    [Device(f"nvme{at}", "nvme", 2) for at in range(4)],
)


def handlers(life):
    return {(one.device, one.queue): one.handler for one in life.interrupts}


def test_hotplug_wears_the_spreading_off():
    """Interrupts that were shut down all start on the first CPU of their mask that returns."""
    life = Life(FOUR_DISKS)
    assert Counter(life.now.counts.values()) == {1: 8}
    life.then("offline 7 6 5 4; online 4 5 6 7")
    assert life.now.counts == {0: 1, 1: 1, 2: 1, 3: 1, 4: 4, 5: 0, 6: 0, 7: 0}
    life.then("offline 1 2 3; online 1 2 3")
    assert life.now.counts == {0: 4, 1: 0, 2: 0, 3: 0, 4: 4, 5: 0, 6: 0, 7: 0}
    # It lasts until the disks are reset, one by one.
    life.then("reset nvme0; reset nvme1; reset nvme2; reset nvme3")
    assert Counter(life.now.counts.values()) == {1: 8}


def test_a_reset_while_cpus_are_offline_leaves_the_map_on_a_stock_kernel():
    life = Life("L96as_v4", "cluster")
    life.then("offline 95 47 94; reset nvme1; online 47 94 95")
    nvme1 = [queue for queue in life.now.queues if queue.device == "nvme1"]
    assert all(queue.interrupt and queue.map.isdisjoint(queue.interrupt.mask) for queue in nvme1)
    assert sum(len(queue.outside) for queue in nvme1) == 96
    assert not [queue for queue in life.now.outside if queue.device != "nvme1"]
    life.reset("nvme1")
    assert not life.now.outside
    before = Life("L96as_v4", "numa")
    before.then("offline 95 47 94; reset nvme1; online 47 94 95")
    assert not before.now.of("mask")
    assert not before.now.outside


def test_a_queue_without_an_interrupt_strands_its_submitters():
    life = Life("L96as_v4", "cluster")
    life.then("offline 95 47 94; reset nvme1")
    stranded = {queue.label: str(queue.stranded) for queue in life.now.stranded}
    assert stranded == {"nvme1q30": "48", "nvme1q31": "49", "nvme1q62": "1"}
    assert {change.label for change in life.now.of("not started")} == set(stranded)


@pytest.mark.parametrize(
    ("revision", "ticks", "disjoint"), [("cluster", 0, 0), ("rotate-v2", 1, None)]
)
def test_each_reset_takes_the_next_value_of_the_counter(revision, ticks, disjoint):
    life = Life("L96as_v4", revision)
    begin = life.now.counter
    life.then("reset nvme0; reset nvme0")
    assert [step.counter for step in life.steps] == [begin, begin + ticks, begin + 2 * ticks]
    [call] = life.now.calls
    assert call == ("nvme0", "default", 62, begin + ticks if ticks else 0)
    assert bool(life.now.outside) == (disjoint is None)


def test_a_bind_calls_for_the_admin_queue_too_and_makes_a_new_map():
    life = Life("L96as_v4", "rotate-v2")
    life.then("reset nvme0; unbind nvme0; bind nvme0")
    assert [call.kind for call in life.now.calls] == ["admin", "default"]
    assert life.maps["nvme0"] == tuple(
        one.mask for one in life.interrupts if one.device == "nvme0" and one.queue
    )
    assert life.now.of("map")
    assert not life.now.outside


def test_a_reset_remakes_the_map_of_a_device_with_several_kinds_of_queues():
    devices = [Device("nvme0", "nvme", 6, write_queues=2, poll_queues=1)]
    life = Life(machine(devices=devices), "rotate-v2")
    step = life.reset("nvme0")
    assert [call.kind for call in step.calls] == ["default", "read", "poll"]
    assert not step.outside
    assert [queue.kind for queue in step.queues] == ["default"] * 2 + ["read"] * 3 + ["poll"]
    assert step.queues[-1].interrupt is None


def test_siblings_and_clusters_know_online_cpus_only():
    topology = Topology.uniform(nodes=1, cpus_per_node=8, threads=2, cluster=4)
    now = topology_now(topology, CpuSet("0-4,7"), "x86_64")
    assert (now.cluster_of(5), now.cluster_of(4), now.siblings_of(7)) == (
        CpuSet(),
        CpuSet("4,7"),
        CpuSet("7"),
    )
    now = topology_now(topology, CpuSet("0-4,7"), "arm64")
    assert (now.cluster_of(5), now.cluster_of(4)) == (CpuSet("5"), CpuSet("4,7"))
    assert topology_now(topology, topology.online, "arm64") is topology


def test_smt_off_and_on_leaves_the_second_threads_idle():
    topology = Topology.uniform(nodes=2, cpus_per_node=12, threads=2, cluster=4)
    disks = [Device("nvme0", "nvme", 11), Device("nvme1", "nvme", 11)]
    life = Life(machine(topology, disks))
    life.smt("off")
    with pytest.raises(RequestError, match="CPU 1 cannot come online: SMT is off"):
        life.online(1)
    assert not life.smt("off").changes
    life.smt("on")
    assert sum(not irqs for irqs in life.now.counts.values()) == 12
    assert max(life.now.counts.values()) == 2


def test_smt_on_brings_every_cpu_online_whoever_took_it_offline():
    life = Life(machine())
    life.then("offline 4 5; smt off; smt on")
    assert life.now.online == CpuSet("0-7")


def test_a_suspend_frees_all_and_a_resume_places_all_anew():
    life = Life(FOUR_DISKS)
    booted = handlers(life)
    life.then("offline 7 6 5 4; online 4 5 6 7; suspend")
    assert (life.now.online, life.interrupts) == (CpuSet("0"), ())
    with pytest.raises(RequestError, match="offline: the machine is suspended; resume it first"):
        life.offline(1)
    life.resume()
    assert handlers(life) == booted


def test_an_interrupt_that_is_not_managed_keeps_the_affinity_that_broke():
    life = Life(FOUR_DISKS, irqchip="gicv2m")
    assert not life.offline(1).changes
    life = Life(machine(arch="arm64", irqchip="gicv2m"))
    step = life.offline("0-3")
    broken = [change for change in step.of("mask") if change.rule == "break"]
    assert [str(change) for change in broken] == [
        f"nvme{at}q0 mask 0-3 -> 4-7: not managed, and no CPU of its affinity is online "
        "(migrate_one_irq())"
        for at in (0, 1)
    ]
    life.online("0-3")
    assert {one.mask for one in life.interrupts if not one.queue} == {CpuSet("4-7")}


def test_a_life_after_a_run_is_the_life_that_booted_like_it():
    run = simulate("L48s_v2", revision="rotate-v2", probe="interleaved", spread_start=7)
    lives = [
        Life.after(run),
        Life("L48s_v2", "rotate-v2", probe="interleaved", spread_start=7),
    ]
    for life in lives:
        life.then("reset nvme3; offline 3-9")
    assert str(lives[0]) == str(lives[1])
    with pytest.raises(RequestError, match=r"^run None: expected a Run"):
        Life.after(None)  # type: ignore[arg-type]


def test_the_text_is_for_a_mail_and_the_document_for_json():
    life = Life("L96as_v4", "rotate-v2")
    life.then("offline 95 47 94; reset nvme1; online 94-95 47; smt off; smt on; reset nvme1")
    text = str(life)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 72
    assert "2. reset nvme1" in text
    document = life.document()
    assert [step["event"] for step in document["steps"]][:2] == ["boot", "offline 95 47 94"]
    assert document["steps"][2]["calls"] == [
        {"device": "nvme1", "kind": "default", "numgrps": 62, "spread_offset": 12}
    ]


def test_frames_count_what_the_steps_hold():
    life = Life("L96as_v4", "cluster")
    life.then("offline 95 47 94; reset nvme1")
    frames = life.frames()
    assert list(frames.steps["event"]) == ["boot", "offline 95 47 94", "reset nvme1"]
    assert list(frames.steps["outside"]) == [0, 0, 59]
    assert len(frames.changes) == sum(len(step.changes) for step in life.steps)
    assert len(frames.queues) == 3 * 372
    last = frames.per_cpu[frames.per_cpu["step"] == 2]
    assert dict(zip(last["cpu"], last["irqs"], strict=True)) == life.now.counts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ""),
        ("offline", "event 'offline': expected one of offline CPUS, online CPUS, smt off|on, "),
        ("offline x", "event 'offline x': cpulist 'x': 'x' is neither"),
        ("offline 3 3", "event 'offline 3 3': cpus '3 3': expected at least one CPU, and each"),
        ("reboot", "event 'reboot': expected one of"),
        ("smt maybe", "event 'smt maybe': expected one of"),
        ("resume now", "event 'resume now': expected one of"),
        ("offline 3;;reset", "event 'reset': expected one of"),
        (";" * 70_000, "events: 70000 characters"),
        ("resume;" * 1001, "events: 1001 events, at most 1000"),
        (7, "events 7: expected a text"),
    ],
)
def test_what_is_no_event_is_refused_in_a_sentence(text, message):
    if not message:
        assert parse_events(text) == ()
        return
    with pytest.raises(RequestError) as caught:
        parse_events(text)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 500


@given(
    st.lists(
        st.one_of(
            st.sampled_from([*EVENTS, "off", "on", "nvme0", ";", "\n", "0-3", "7", "-", "٣"]),
            st.text(max_size=5),
        ),
        max_size=12,
    )
)
def test_any_text_is_events_that_read_back_or_one_of_our_errors(words):
    try:
        events = parse_events(" ".join(words))
    except RequestError as error:
        message = str(error)
    else:
        message = ""
        assert parse_events("; ".join(map(str, events))) == events
    assert "\n" not in message
    assert len(message) <= 500


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ("offline 0", "CPU 0 cannot go offline on x86"),
        ("offline 99", r"CPU 99 is not present \(0-7 are\)"),
        ("offline 3; offline 3", "CPU 3 is offline already"),
        ("online 3", "CPU 3 is online already"),
        ("reset nvme9", r"device 'nvme9' is not bound \(bound: nvme0, nvme1\)"),
        ("unbind nvme0; reset nvme0", "device 'nvme0' is not bound"),
        ("unbind nvme0; unbind nvme1; reset nvme0", "no device is bound"),
        ("bind nvme0", "bind nvme0: it is bound already"),
        ("bind sda", "device 'sda': expected one of nvme0, nvme1"),
        ("resume", "resume: the machine is not suspended"),
        ([7], "event 7: expected one of"),
        ([Event("fly")], "expected one of offline"),
        ([Event("smt", (), "x")], "smt 'x': expected off or on"),
    ],
)
def test_an_event_that_cannot_happen_changes_nothing(events, message):
    life = Life(machine())
    with pytest.raises(GroupCpusError, match=message):
        life.then(events)
    steps = len(life.steps)
    before = handlers(life), life.now.online, life.now.counter
    twin = Life(machine())
    twin.then([step.event for step in life.steps if step.event])
    assert before == (handlers(twin), twin.now.online, twin.now.counter)
    assert len(twin.steps) == steps


def test_only_an_nvme_controller_is_reset():
    life = Life(machine(devices=[Device("virtio0", "virtio", 4), Device("mana0", "mana", 4)]))
    for name in ("virtio0", "mana0"):
        with pytest.raises(RequestError, match=f"^reset {name}: of NVMe controllers alone"):
            life.reset(name)
        before = handlers(life)
        life.then(f"unbind {name}; bind {name}")
        assert handlers(life).keys() == before.keys()
    flat = machine(Topology.uniform(nodes=1, cpus_per_node=4, threads=1))
    with pytest.raises(RequestError, match="no core of made has more than one thread"):
        Life(flat).smt("off")


def test_a_cpu_whose_vectors_find_no_room_elsewhere_stays_online():
    """132 reserved on each of two CPUs, and 66 not managed: 264 do not fit on one."""
    topology = Topology.uniform(nodes=1, cpus_per_node=2, threads=1)
    life = Life(machine(topology, [Device(f"nvme{at}", "nvme", 2) for at in range(132)]))
    before = handlers(life)
    with pytest.raises(VectorSpaceError, match=r"\(-ENOSPC\)$"):
        life.offline(1)
    assert handlers(life) == before
    assert life.now.online == CpuSet("0-1")


class Living(RuleBasedStateMachine):
    """A machine to which anything happens."""

    @initialize(
        irqchip=st.sampled_from(sorted(IRQCHIPS)),
        revision=st.sampled_from(["numa", "cluster", "rotate-v2", "rotate-next"]),
        start=st.integers(0, 1 << 32),
        threads=st.integers(1, 2),
        cluster=st.sampled_from([None, 0, 2, 4]),
        offline=st.sets(st.integers(1, 7), max_size=5),
    )
    def boot(self, irqchip, revision, start, threads, cluster, offline):
        topology = Topology.uniform(nodes=2, cpus_per_node=4, threads=threads, cluster=cluster)
        online = str(topology.online - CpuSet(offline))
        topology = Topology.from_dict(topology.to_dict() | {"online": online})
        arch = "x86_64" if irqchip == "x86" else "arm64"
        devices = [
            Device("nvme0", "nvme", 3),
            Device("nvme1", "nvme", 7, write_queues=2, poll_queues=1),
            Device("virtio0", "virtio", 4),
            Device("mana0", "mana", 3),
        ]
        self.life = Life(machine(topology, devices, arch, irqchip), revision, spread_start=start)

    def happens(self, event):
        """Let an event happen, or fail without a trace."""
        before, steps = handlers(self.life), len(self.life.steps)
        step, message = None, ""
        try:
            [step] = self.life.then(event)
        except GroupCpusError as error:
            message = str(error)
        assert "\n" not in message
        assert len(message) <= 500
        assert len(self.life.steps) == steps + (step is not None)
        if step is None:
            assert handlers(self.life) == before
        return before, step

    @rule(cpu=st.integers(0, 8))
    def offline(self, cpu):
        before, step = self.happens(f"offline {cpu}")
        if step is not None:
            moved = {which for which, was in before.items() if handlers(self.life)[which] != was}
            assert moved <= {which for which, was in before.items() if was == cpu}

    @rule(cpu=st.integers(0, 8))
    def online(self, cpu):
        before, step = self.happens(f"online {cpu}")
        if step is not None:
            for which, now in handlers(self.life).items():
                # What was started stays; what starts has no other CPU to go to.
                assert now == before[which] or (before[which] is None and now == cpu)

    @rule(event=st.sampled_from(["smt off", "smt on", "suspend", "resume"]))
    def machine_event(self, event):
        self.happens(event)

    @rule(
        action=st.sampled_from(["reset", "unbind", "bind"]),
        device=st.sampled_from(["nvme0", "nvme1", "virtio0", "mana0"]),
    )
    def device_event(self, action, device):
        before, step = self.happens(f"{action} {device}")
        if step is not None:
            for which, now in handlers(self.life).items():
                assert which[0] == device or now == before[which]

    @precondition(lambda self: hasattr(self, "life"))
    @invariant()
    def interrupts_are_where_they_can_be(self):
        online = self.life.now.online
        assert online
        for one in self.life.interrupts:
            if one.started:
                assert one.effective in one.mask & online
                assert one.vector.charged == one.effective
            else:
                assert one.vector.managed
                assert not one.mask & online

    @precondition(lambda self: hasattr(self, "life"))
    @invariant()
    def counts_equal_placements(self):
        chip: Any = self.life._state.core.chip
        placed: dict[bool, Counter[int | None]] = {True: Counter(), False: Counter()}
        for one in self.life.interrupts:
            placed[one.vector.managed][one.handler] += 1
        for cpu in CpuSet("0-7"):
            if hasattr(chip, "charges"):
                for managed, counts in chip.charges.items():
                    assert counts[cpu] == placed[managed][cpu]
            if hasattr(chip, "managed_allocated"):
                assert chip.managed_allocated[cpu] == placed[True][cpu]
                reserved = sum(
                    cpu in one.mask for one in self.life.interrupts if one.vector.managed
                )
                assert chip.taken[cpu] == reserved + placed[False][cpu]

    @precondition(lambda self: hasattr(self, "life"))
    @invariant()
    def queues_say_who_is_outside_and_stranded(self):
        for queue in self.life.now.queues:
            if queue.interrupt is not None:
                assert queue.outside == (queue.map & self.life.now.online) - queue.interrupt.mask
                if queue.stranded:
                    assert not queue.interrupt.mask & self.life.now.online
                    assert queue.outside >= queue.stranded


TestLiving = Living.TestCase
TestLiving.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_the_command_line_goes_on_after_the_boot(capsys):
    command = ["run", "D16plds_v6", "--revision", "rotate-v2", "--then", "offline 3; reset nvme0"]
    assert main(command) == 0
    text = capsys.readouterr().out
    for name in ("cluster", "rotate-v2"):
        life = Life("D16plds_v6", name)
        life.then("offline 3; reset nvme0")
        assert str(life) in text
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [step["event"] for step in document["after"]["then"]] == [
        "boot",
        "offline 3",
        "reset nvme0",
    ]
    assert main(["run", "D16plds_v6", "--then", "offline 99"]) == 2
    assert capsys.readouterr().err == "groupcpus: CPU 99 is not present (0-15 are)\n"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda life: Life(None), "expected"),  # type: ignore[arg-type]
        (lambda life: Life("L96as_v4", None), "revision None"),  # type: ignore[arg-type]
        (lambda life: Life("L96as_v4", irqchip="gic"), "irqchip 'gic'"),
        (lambda life: life.then(7), "events 7: expected a text or events"),
        (lambda life: life.then(None), "events None: expected a text or events"),
        (lambda life: life.offline(None), "cpus None: expected CPUs"),
        (lambda life: life.offline([]), r"cpus \[\]: expected at least one CPU"),
        (lambda life: life.online([1.5]), "1.5 is no CPU number"),
        (lambda life: life.online(-1), "-1 is no CPU from 0"),
        (lambda life: life.smt(True), "smt True: expected off or on"),
        (lambda life: life.reset(0), "device 0: expected a name such as nvme0"),
        (lambda life: life.unbind(None), "device None: expected a name"),
        (lambda life: life.bind(["nvme0"]), r"device \['nvme0'\]: expected a name"),
        (lambda life: life.reset("nvme0", [1, 2]), "nvme0: 2 numbers for 4 vectors"),
        (lambda life: life.reset("nvme0", [28, 29, 30, 31]), "another interrupt's"),
        (lambda life: life.reset("nvme0", [1, 2, 3, 3]), "another interrupt's"),
    ],
)
def test_a_wrong_argument_is_refused_and_named(wrong, message):
    life = Life(machine())
    before = handlers(life)
    with pytest.raises(GroupCpusError, match=message):
        wrong(life)
    assert handlers(life) == before
    assert len(life.steps) == 1


def test_a_parallel_boot_is_lived_on_too():
    """The order of the boot's requests decides who shares a CPU, and so who moves."""
    lives = [
        Life("L48s_v2", "rotate-v2", requests=order) for order in ("device-by-device", "random-3")
    ]
    for life in lives:
        life.then("offline 3; online 3; reset nvme2")
    counts = [life.now.counts for life in lives]
    assert counts[0] != counts[1]
    assert sum(counts[0].values()) == sum(counts[1].values()) == 192


def test_many_events_take_little_time_and_memory():
    life = Life("L96as_v4", "cluster")
    begin = time.monotonic()
    life.then(";".join(["offline 3;online 3"] * 250))
    assert time.monotonic() - begin < 5
    # A queue that nothing happened to is one object in all steps.
    assert len({id(queue) for step in life.steps for queue in step.queues}) < 372 + 501 * 6 * 2


@pytest.mark.parametrize("revision", ["rotate-v2", "rotate-next"])
def test_with_offsets_that_are_kept_resets_change_nothing(revision):
    life = Life("L96as_v4", revision, keep_offsets=True)
    begin = life.now.counter
    life.then("reset nvme0; reset nvme5; reset nvme0; unbind nvme1; bind nvme1; suspend; resume")
    assert not life.now.outside
    assert not [change for step in life.steps for change in step.changes if change.what == "mask"]
    assert life.now.counter == begin
    # What a stock kernel does with CPUs offline is not mended by it.
    life.then("offline 95 47 94; reset nvme1; online 47 94-95")
    assert life.now.outside
