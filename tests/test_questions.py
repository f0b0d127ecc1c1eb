# SPDX-License-Identifier: GPL-2.0-only
"""The questions with an answer of their own, on recorded boots and on captures."""

import json
from dataclasses import replace

import pytest

from groupcpus.__main__ import main
from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, data_dir
from groupcpus.machines.probe import simulate
from groupcpus.observed.isolating import can_isolate
from groupcpus.observed.managing import read_refusals, which_managed
from groupcpus.observed.moving import find_moves
from groupcpus.observed.patience import Patience
from groupcpus.observed.queue_counts import count_queues, usual_counts
from groupcpus.observed.recordings import load_recording, recording_names
from groupcpus.observed.submitting import submissions
from groupcpus.sources import load
from tests.captures import of_recording

CAPTURE = data_dir() / "captures" / "x86-24cpu-2nodes-2nvme-3net-7.3.json"
SMALL = [name for name in recording_names() if "96cpu" not in name]


def loaded_of(name, **more):
    return load(json.dumps(of_recording(load_recording(name), **more)))


def printed(capsys, *arguments):
    assert main(list(map(str, arguments))) == 0
    output = capsys.readouterr()
    # On a busy machine it says what takes long.
    assert all(line.endswith(" ...") for line in output.err.splitlines())
    assert "--json" in arguments or max(map(len, output.out.splitlines())) <= 100
    return output.out


# --- which are managed?


@pytest.mark.parametrize("name", SMALL)
def test_queues_of_recorded_disks_are_managed_and_their_first_vector_is_not(name):
    recording = load_recording(name)
    managed = {row.name: row.managed for row in which_managed(loaded_of(name)).rows}
    for device in recording.devices:
        names = [f"{device.name}q{queue}" for queue in range(len(device.irqs))]
        assert [managed[name] for name in names] == [False, *[True] * len(names[1:])]


def test_names_alone_tell_it_too():
    text = (
        "           CPU0       CPU1\n"
        "24:         25          0   PCI-MSIX-0000:01:00.0   0-edge      nvme0q0\n"
        "25:         25          0   PCI-MSIX-0000:01:00.0   1-edge      nvme0q1\n"
        "34:         25          0   PCI-MSI 1-edge      i40e-enp2s0f0-TxRx-0\n"
        "35:         25          0   PCI-MSI 2-edge      i40e-enp2s0f0-TxRx-1\n"
    )
    managed = {row.irq: row.managed for row in which_managed(load(text)).rows}
    assert managed[24] is False
    assert managed[25] is True
    assert managed[34] is not True
    dump = "irq 25 affinity 0-1 effective 0 nvme0q1\nirq 26 affinity 2-3 effective 2 nvme0q2\n"
    answer = which_managed(load(dump))
    assert [row.managed for row in answer.rows] == [True, True]


LOG = """\
Dec  1 12:00:01 host irqbalance[712]: Cannot change IRQ 31 affinity: Input/output error
Dec  1 12:00:01 host irqbalance[712]: IRQ 31 affinity is now unmanaged
perftune: OSError: [Errno 5] Input/output error: '/proc/irq/26/smp_affinity'
tuned: Failed to set SMP affinity of IRQ 49 to '00000001': [Errno 22] Invalid argument
bash: line 3: /proc/irq/999/smp_affinity_list: write error: Input/output error
IRQ 50 is handled by CPU 3
"""


def test_logs_of_irqbalance_tuned_perftune_and_shells():
    refusals = {one.irq: one.eio for one in read_refusals(LOG)}
    assert refusals == {31: True, 26: True, 49: False, 999: True}


def test_refusals_of_managed_interrupts_are_normal(tmp_path, capsys):
    answer = which_managed(load(CAPTURE), refusals=read_refusals(LOG))
    assert [(row.irq, row.normal) for row in answer.rows] == [(26, True), (31, True), (49, False)]
    assert [one.irq for one in answer.unknown] == [999]
    log = tmp_path / "irqbalance.log"
    log.write_text(LOG, encoding="utf-8")
    text = printed(capsys, "managed", CAPTURE, "--log", log)
    assert "Refused in the log: 3, of which 2 are managed: normal." in text
    assert "IRQ 999 is in the log, and no source has it" in text
    log.write_text("nothing of interest\n", encoding="utf-8")
    assert main(["managed", str(CAPTURE), "--log", str(log)]) == 2
    assert "no line says" in capsys.readouterr().err


def test_the_kernel_s_word_counts():
    document = json.loads(CAPTURE.read_text(encoding="utf-8"))
    irq = next(one for one in document["interrupts"] if one["actions"] == ["nvme0q1"])
    irq["managed"] = False
    row = next(
        row for row in which_managed(load(json.dumps(document))).rows if row.name == "nvme0q1"
    )
    assert (row.managed, row.why) == (False, "the kernel says so (debugfs)")


# --- can they be kept off isolated CPUs?


@pytest.mark.parametrize("name", [name for name in recording_names() if "isolcpus-managed" in name])
def test_isolation_as_recorded(name):
    recording = load_recording(name)
    answer = can_isolate(loaded_of(name, rebind=True))
    assert answer.isolated == CpuSet("2,7")
    effective = {
        f"{device.name}q{queue}": cpu
        for device in recording.rebind
        for queue, cpu in enumerate(device.effective)
    }
    assert len(answer.rows) == sum(len(device.masks) - 1 for device in recording.rebind)
    for row in answer.rows:
        assert row.effective_then == effective[row.name]
    assert answer.kept_off


def test_what_has_isolated_cpus_alone_stays():
    answer = can_isolate(load(CAPTURE), CpuSet("10-11"))
    assert [row.name for row in answer.stay] == ["nvme0q9", "nvme1q12", "nvme1q13"]
    for row in answer.stay:
        assert row.effective_then in CpuSet("10-11")
    for row in answer.rows:
        if row.affinity & CpuSet("10-11") and not row.affinity <= CpuSet("10-11"):
            assert row.effective_then not in CpuSet("10-11")
    without = can_isolate(load(CAPTURE), CpuSet("10-11"), ("domain",))
    assert "Without managed_irq" in "\n".join(without.lines())


def test_an_older_kernel_does_not_know_managed_irq():
    document = json.loads(CAPTURE.read_text(encoding="utf-8")) | {"kernel": "5.4.0"}
    assert "came with Linux 5.6" in can_isolate(load(json.dumps(document)), CpuSet("1")).note


@pytest.mark.parametrize("wrong", [None, CpuSet(), CpuSet("0-23"), CpuSet("99")])
def test_an_isolation_that_cannot_be(wrong):
    with pytest.raises(RequestError, match="isolate: "):
        can_isolate(load(CAPTURE), wrong)


# --- how many queues?


def machine_of(topology, devices=2):
    disks = tuple(Device(f"nvme{at}", "nvme", 4) for at in range(devices))
    return Machine("mine", "Mine", "x86_64", "x86", topology, disks)


def test_every_number_is_what_a_run_of_it_gives():
    machine = machine_of(Topology.uniform(nodes=2, cpus_per_node=6, threads=2, cluster=2), 3)
    answer = count_queues(machine)
    assert [row.queues for row in answer.rows] == list(range(1, 13))
    for row in answer.rows:
        run = simulate(machine.with_devices(io_queues=row.queues), revision="cluster")
        counts = run.counts.values()
        assert (row.least, row.greatest) == (min(counts), max(counts))
        assert row.best == run.best
        assert row.single == sum(len(irq.affinity) == 1 for irq in run.interrupts)
        assert (row.offline, row.isolated) == (0, 0)
        nodes = machine.topology.nodes
        remote = {
            cpu
            for irq in run.interrupts
            for cpu in irq.affinity
            if cpu not in nodes[machine.topology.node_of(irq.effective)]
        }
        assert row.remote == len(remote)


def test_queues_without_an_online_or_a_housekeeping_cpu_are_counted():
    whole = Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=None)
    machine = machine_of(replace_online(whole, CpuSet("0-3")), 1)
    assert [row.offline for row in count_queues(machine, [1, 2, 4, 8]).rows] == [0, 1, 2, 4]
    isolated = count_queues(machine_of(whole, 1), [1, 2, 4, 8], isolated=CpuSet("4-7"))
    assert [row.isolated for row in isolated.rows] == [0, 1, 2, 4]
    assert isolated.good == (1,)


def replace_online(topology, online):
    return Topology(
        topology.possible,
        topology.possible,
        online,
        topology.nodes,
        topology.clusters,
        topology.siblings,
    )


def test_without_time_the_rest_is_left_out_and_said():
    machine = machine_of(Topology.uniform(nodes=1, cpus_per_node=8))
    answer = count_queues(machine, patience=Patience(0))
    assert (len(answer.rows), answer.complete) == (1, False)
    assert "too long" in "\n".join(answer.lines())
    assert len(usual_counts(8192)) <= 64


# --- who submits where?


@pytest.mark.parametrize("name", SMALL)
def test_every_cpu_submits_to_one_queue_of_a_kind(name):
    recording = load_recording(name)
    answer = submissions(loaded_of(name))
    for device in recording.devices:
        rows = [row for row in answer.rows if row.device == device.name]
        assert len(rows) == len(device.maps)
        for row, shown in zip(rows, device.maps, strict=True):
            assert row.submitters - row.hidden == shown
        for kind in {row.kind for row in rows}:
            every = [cpu for row in rows if row.kind == kind for cpu in row.submitters]
            assert sorted(every) == list(recording.topology.possible)
    for cpu in recording.topology.online:
        assert {row.device for row in answer.of_cpu(cpu)} == {
            device.name for device in recording.devices
        }


def test_isolated_cpus_submit_though_the_map_leaves_them_out():
    answer = submissions(loaded_of("x86-8cpu-2nodes-smt2-isolcpus-2x3-6.12"))
    hidden = {row.hidden for row in answer.rows} - {CpuSet()}
    assert hidden
    text = "\n".join(answer.lines())
    assert "isolated, not in mq/N/cpu_list" in text


def test_a_poll_queue_interrupts_nobody(capsys):
    answer = submissions(loaded_of("x86-8cpu-4nodes-1x3-poll1-7.3"))
    assert [(row.kind, row.interrupted) for row in answer.rows][-1] == ("poll", None)
    assert answer.frame["interrupted"].isna().sum() == 1
    text = printed(capsys, "submitters", "x86-8cpu-4nodes-1x3-poll1-7.3", "--cpu", "5")
    assert "queue 1 (default): CPUs 0-1,4-5 submit, CPU 5 is interrupted" in text
    assert "polled, nobody is interrupted" in text
    with pytest.raises(RequestError, match="cpu 99: expected one of 0-7"):
        answer.of_cpu(99)


# --- is someone moving them?


def changed(**fields):
    document = json.loads(CAPTURE.read_text(encoding="utf-8"))
    for name, values in fields.items():
        irq = next(one for one in document["interrupts"] if one["actions"] == [name])
        irq.update(values)
    return load(json.dumps(document))


def test_nobody_moved_what_is_the_same():
    moves = find_moves(load(CAPTURE), load(CAPTURE))
    assert moves.rows == ()
    assert moves.verdict == "Nobody moved any of 45 interrupts in between."


def test_moves_are_told_by_what_changed_and_by_who_can_have_done_it():
    name = "i40e-enp6s0f0-TxRx-0"
    after = changed(**{name: {"affinity": "5", "effective": "5"}, "nvme0q1": {"effective": "4"}})
    moves = find_moves(load(CAPTURE), after)
    assert [(row.name, row.what, row.managed) for row in moves.rows] == [
        ("nvme0q1", "effective", True),
        (name, "affinity", False),
    ]
    assert "so no user and no irqbalance" in moves.rows[0].who
    assert "2 of 45 interrupts moved: 1 were given another affinity, 1 are managed" in moves.verdict


def counts(*lines):
    head = "           CPU0       CPU1       CPU2\n"
    return load(
        head
        + "".join(
            f"{irq}: {' '.join(map(str, n))} PCI-MSI {irq}-edge {name}\n" for irq, name, n in lines
        )
    )


def test_counts_show_a_move():
    before = counts((24, "eth0-TxRx-0", (9, 0, 0)), (25, "eth0-TxRx-1", (0, 9, 0)))
    after = counts((24, "eth0-TxRx-0", (9, 0, 4)), (25, "eth0-TxRx-1", (0, 12, 0)))
    (move,) = find_moves(before, after).rows
    assert (move.irq, move.what, move.before, move.after) == (
        24,
        "counts",
        CpuSet("0"),
        CpuSet("2"),
    )
    backwards = find_moves(after, before)
    assert backwards.rebooted
    assert backwards.verdict.startswith("Not comparable")


def test_other_machines_are_not_compared():
    with pytest.raises(RequestError, match="in common"):
        find_moves(counts((24, "a-0", (1, 1, 1))), counts((25, "b-0", (1, 1, 1))))


# --- the commands


@pytest.mark.parametrize(
    "arguments",
    [
        ("managed", CAPTURE),
        ("managed", CAPTURE, "--irq", "26"),
        ("isolate", CAPTURE, "--cpus", "6-11"),
        ("queues", CAPTURE, "--isolated", "6-11"),
        ("queues", "node:2 core:4 pu:2", "--devices", "4", "--counts", "1-16"),
        ("submitters", CAPTURE),
        ("submitters", CAPTURE, "--cpu", "3"),
        ("moved", CAPTURE, CAPTURE),
    ],
)
def test_commands_answer_in_text_and_json(capsys, arguments):
    assert printed(capsys, *arguments)
    assert json.loads(printed(capsys, *arguments, "--json"))


def test_the_commands_refuse_what_cannot_be(capsys):
    for arguments in (
        ("isolate", str(CAPTURE)),
        ("isolate", str(CAPTURE), "--cpus", "3", "--flags", "nohz"),
        ("submitters", str(CAPTURE), "--cpu", "77"),
        ("queues", str(CAPTURE), "--counts", "0"),
        ("managed", "node:2 core:4 pu:2"),
    ):
        assert main(list(arguments)) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_replaced_number_is_another_interrupt():
    before = load(CAPTURE)
    after = replace(
        before,
        interrupts=tuple(
            replace(one, actions=("other-1",)) if one.irq == 26 else one
            for one in before.interrupts
        ),
    )
    moves = find_moves(before, after)
    assert (moves.gone, moves.new) == ((26,), (26,))


def test_an_interrupt_that_no_source_has_is_refused(capsys):
    assert main(["managed", str(CAPTURE), "--irq", "999"]) == 2
    assert capsys.readouterr().err == "groupcpus: managed: no source has interrupt 999\n"


@pytest.mark.parametrize(
    "name",
    [
        "x86-24cpu-2nodes-smt2-4x8-6.12",
        "x86-32cpu-4nodes-smt2-isolcpus-3x12-6.12",
        "x86-48cpu-2nodes-smt2-3x18-write4-poll2-6.1",
    ],
)
def test_from_capture_to_run_and_compare(capsys, name):
    """What was captured, run under its kernel's own version, has the masks that were found."""
    path = CAPTURE.parent / f"{name}.json"
    document = json.loads(printed(capsys, "run", path, "--json"))
    shown = {
        (irq["device"], f"{irq['device']}q{irq['queue']}"): irq["affinity"]
        for irq in document["before"]["irqs"]
    }
    captured = json.loads(path.read_text(encoding="utf-8"))
    found = {one["actions"][0]: one["affinity"] for one in captured["interrupts"] if one["actions"]}
    assert len(shown) > 30
    assert {label: mask for (_, label), mask in shown.items()} == {
        label: found[label] for _, label in shown
    }
    assert "Nothing to gain" in printed(capsys, "compare", path)
