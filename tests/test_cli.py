# SPDX-License-Identifier: GPL-2.0-only
"""The command line: what it prints, and that every error is one line and exit status 2."""

import io
import json
import re
import subprocess
import sys

import pytest

from groupcpus.__main__ import COMMANDS, main
from groupcpus.engine.revisions import REVISIONS
from groupcpus.machines.machine import data_dir, machine_names, read_machine
from groupcpus.machines.mail_text import mail_text
from groupcpus.machines.probe import simulate
from groupcpus.machines.queue_table import queue_table


def printed(capsys, *arguments):
    assert main(arguments) == 0
    output = capsys.readouterr()
    assert output.err == ""
    return output.out


def complaint(capsys, *arguments):
    """Give the one line that a call with an error prints."""
    status: object
    try:
        status = main(arguments)
    except SystemExit as stop:  # argparse's way
        status = stop.code
    output = capsys.readouterr()
    assert status == 2
    assert output.out == ""
    assert re.fullmatch(r"groupcpus: [^\n]+\n", output.err), output.err
    return output.err.removeprefix("groupcpus: ").rstrip("\n")


def test_run_prints_the_mail_text(capsys):
    text = printed(capsys, "run", "L48s_v2", "--revision", "rotate-v2", "--irqchip", "x86")
    runs = [simulate("L48s_v2", revision=name) for name in ("cluster", "rotate-v2")]
    assert text == f"{mail_text(*runs)}\n\n{queue_table(runs[0], runs[1])}\n"
    assert text == printed(capsys, "run", "L48s_v2")
    assert "  32 CPUs serve 3 IRQs: " in text
    assert "  16 CPUs serve 6 IRQs: " in text


def test_every_option_reaches_the_run(capsys):
    text = printed(
        capsys,
        *("run", "L48s_v2", "--revision", "rotate-next", "--before", "rotate-v2"),
        *("--irqchip", "its", "--probe", "interleaved", "--spread-start", "0x10"),
        *("--requests", "lockstep"),
        *("--devices", "3", "--queues", "8"),
    )
    machine = read_machine("L48s_v2").with_devices(count=3, io_queues=8)
    runs = [
        simulate(
            machine, revision=name, irqchip="its", probe="interleaved", spread_start=16
        ).requested("lockstep")
        for name in ("rotate-v2", "rotate-next")
    ]
    assert text == f"{mail_text(*runs)}\n\n{queue_table(runs[0], runs[1])}\n"


def test_an_explicit_probe_order(capsys):
    order = "nvme1:admin,nvme1:default,nvme0:admin,nvme0:default"
    command = ("run", "D16plds_v6", "--revision", "rotate-v2", "--json", "--probe", order)
    document = json.loads(printed(capsys, *command))
    assert document["after"]["probe"] == order.split(",")
    assert [irq["device"] for irq in document["after"]["irqs"][::6]] == ["nvme1", "nvme0"]
    assert [irq["spread_offset"] for irq in document["after"]["irqs"][::6]] == [1, 3]


def test_run_as_json(capsys):
    command = ("run", "D16plds_v6", "--revision", "rotate-v2", "--json")
    document = json.loads(printed(capsys, *command))
    assert document["machine"] == "D16plds_v6"
    for side, revision in (("before", "cluster"), ("after", "rotate-v2")):
        run = simulate("D16plds_v6", revision=revision)
        told = document[side]
        assert told["revision"] == revision
        assert told["irqchip"] == "gicv3"
        assert told["summary"]["histogram"] == {
            str(irqs): cpus for irqs, cpus in run.summary.histogram.items()
        }
        assert told["irqs_per_cpu"] == {str(cpu): irqs for cpu, irqs in run.counts.items()}
        for row, (_, expected) in zip(told["irqs"], run.irqs.iterrows(), strict=True):
            assert {key: expected[key] for key in row} == row


def test_listings_name_everything(capsys):
    for command, names in (("machines", machine_names()), ("revisions", list(REVISIONS))):
        lines = printed(capsys, command).splitlines()
        assert [line.split()[0] for line in lines] == names
        assert [row["name"] for row in json.loads(printed(capsys, command, "--json"))] == names


def test_the_machines_can_be_read_from_files(capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "Mine"\narch = "arm64"\nirqchip = "its"\nsource = "made up"\n'
        '[topology]\npossible = "0-3"\npresent = "0-3"\nnodes = { 0 = "0-3" }\n'
        '[[devices]]\nkind = "nvme"\nio_queues = 4\n',
        "utf-8",
    )
    text = printed(capsys, "run", str(path), "--revision", "numa")
    assert text.startswith("mine: 4 CPUs in 1 node; 1 nvme with 4 queues\n")
    path.write_text("name = 4\n", encoding="utf-8")
    assert complaint(capsys, "run", str(path), "--revision", "numa") == (
        "mine.toml: name: 4; expected a name such as L96as_v4"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["walk"], "argument COMMAND: invalid choice: 'walk'"),
        (["run"], "the following arguments are required: MACHINE"),
        (["run", "L96as_v4", "--device", "sda"], "device 'sda': expected one of 'nvme0 nvme1 "),
        (["run", "L96as_v4", "--picture", "no/such/folder/a.png"], "argument --picture: "),
        (["run", "node:2 core:x pu:2"], "text: expected a sysfs tree"),
        (["run", "L96as_v4", "D16plds_v6"], "machine L96as_v4: a whole machine"),
        (["run", "L96", "--revision", "numa"], "machine 'L96': neither a file nor one of "),
        (["run", "a\nb", "--revision", "numa"], "text: expected a sysfs tree"),
        (["run", "L96as_v4", "--revision", "v3"], "revision 'v3': expected one of numa, "),
        (["run", "L96as_v4", "--revision", "numa", "--before", "é"], "revision '\\xe9': expected"),
        (["run", "L96as_v4", "--revision", "numa", "--irqchip", "gic"], "irqchip 'gic': expected"),
        (["run", "L96as_v4", "--revision", "numa", "--probe", "any"], "probe 'any': expected"),
        (["run", "L96as_v4", "--revision", "numa", "--probe", "a:b"], "probe: there is no call"),
        (
            ["run", "L96as_v4", "--revision", "numa", "--spread-start", "-1"],
            "argument --spread-start: -1: expected 0 to 4294967295",
        ),
        (
            ["run", "L96as_v4", "--revision", "numa", "--devices", "9" * 5000],
            "argument --devices: '9999",
        ),
        (["run", "L96as_v4", "--revision", "numa", "--devices", "-1"], "devices -1: expected"),
        (["run", "L96as_v4", "--revision", "numa", "--queues", "0"], "io_queues 0: expected"),
        (["run", "L96as_v4", "--revision", "numa", "--devices", "500"], "vector "),
        (["machines", "all\nof them"], "unrecognized arguments: all of them"),
    ],
)
def test_an_error_is_one_line_and_status_2(capsys, arguments, message):
    line = complaint(capsys, *arguments)
    assert line.startswith(message)
    assert len(line) < 400


def test_every_command_has_help(capsys):
    for name, command in COMMANDS.items():
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert command.help in capsys.readouterr().out


def module(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "groupcpus", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **options,
    )


def test_as_a_process():
    with module("run", "L96", "--revision", "numa") as process:
        out, err = process.communicate()
    assert process.returncode == 2
    assert out == ""
    assert err.startswith("groupcpus: machine 'L96': ")
    assert err.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error():
    with module("run", "L96as_v4", "--revision", "rotate-v2", "--json") as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(("name", "start"), [("two.png", b"\x89PNG"), ("two.svg", b"<?xml")])
def test_run_draws_a_picture(tmp_path, capsys, name, start):
    picture = tmp_path / name
    command = ["run", "D16plds_v6", "--revision", "rotate-v2", "--picture", str(picture)]
    assert main(command) == 0
    assert picture.read_bytes().startswith(start)
    assert capsys.readouterr().out.startswith("D16plds_v6")


def test_run_refuses_other_kinds_of_picture(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "D16plds_v6", "--revision", "rotate-v2", "--picture", "two.gif"])
    assert stopped.value.code == 2
    assert "'two.gif': expected a name that ends in .png or .svg" in capsys.readouterr().err


CAPTURE = "data/captures/x86-24cpu-2nodes-2nvme-3net-7.3.json"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([CAPTURE], ["Before (cluster, ", "9  10-11     11  8-11        11", "nvme1: other masks"]),
        (["x86-8cpu-4nodes-1x3-write2-7.3"], ["3 (read)", "cluster"]),
        (["node:2 core:8 pu:2"], ["drive with 32 queues is taken.", "irqchip x86; --irqchip"]),
        (["node:2 core:8 pu:2", "--queues", "4"], ["1 nvme with 4 queues"]),
    ],
)
def test_run_takes_whatever_describes_a_machine(capsys, arguments, parts):
    text = printed(capsys, "run", *arguments)
    for part in parts:
        assert part in text


def test_run_takes_a_dump_from_stdin_and_names_its_kernel_s_version(capsys, monkeypatch):
    dump = "/sys/devices/system/cpu/possible:0-7\n/proc/sys/kernel/osrelease:6.12.9\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(dump))
    text = printed(capsys, "run", "-", "--queues", "3", "--devices", "2")
    assert "Before (numa, irqchip x86)" in text
    assert "2 nvme with 3 queues" in text


def test_a_long_table_is_folded_and_a_device_s_is_whole(capsys):
    folded = printed(capsys, "run", "L96as_v4")
    assert "... 46 more queues: --device nvme0" in folded
    whole = printed(capsys, "run", "L96as_v4", "--device", "nvme5")
    run = simulate("L96as_v4", revision="rotate-v2")
    rows = [irq for irq in run.interrupts if irq.device == "nvme5"]
    table = whole.split("queue of nvme5")[1].splitlines()[1:63]
    assert [line.split()[-2:] for line in table] == [
        [str(irq.affinity), str(irq.effective)] for irq in rows
    ]


def test_names_that_are_nearly_right_are_guessed(capsys):
    assert complaint(capsys, "rnu").endswith("did you mean 'run'?")
    assert complaint(capsys, "run", "L96").endswith("did you mean 'L96as_v4'?")
    wrong = complaint(capsys, "run", "L96as_v4", "--revision", "rotate_v2")
    assert wrong.endswith("did you mean 'rotate-v2'?")


EVIL = "\x1b]0;title\x07\x1b[2J\u202e"


def test_nothing_unprintable_reaches_the_terminal(capsys, tmp_path):
    document = json.loads((data_dir().parent / CAPTURE).read_text(encoding="utf-8"))
    names = json.loads(json.dumps(document))
    for interrupt in names["interrupts"]:
        interrupt["actions"] = [f"{EVIL}-TxRx-{interrupt['irq']}"]
        interrupt["chip"] = EVIL
    field = document | {"nvme": {EVIL: 5}}
    for at, changed in enumerate((names, field, document | {"kernel": EVIL})):
        path = tmp_path / f"{at}.json"
        path.write_text(json.dumps(changed), encoding="utf-8")
        for command in ("compare", "run"):
            main([command, str(path)])
            output = capsys.readouterr()
            text = output.out + output.err
            assert text.replace("\n", "").isprintable()
            assert len(output.err) <= 520
