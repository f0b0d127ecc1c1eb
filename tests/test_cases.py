# SPDX-License-Identifier: GPL-2.0-only
"""What people paste in reports, with the right answer for each (tests/data/cases).

A machine is loaded as it is, or refused with a word on what is wrong with the text; a smaller
machine, or a verdict that the text does not carry, is the one thing that must not come out.
"""

import json
from pathlib import Path

import pytest

from groupcpus import load_machine
from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, GroupCpusError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import data_dir
from groupcpus.observed.compare import compare
from groupcpus.sources import load, load_topology

CASES = Path(__file__).parent / "data" / "cases"
FORMS = CASES / "forms"
TABLE, COUNTS, PATHS = (FORMS / f"00-ok.{name}.txt" for name in ("lscpu-e", "interrupts", "paths"))
MASKS = ["1,3,9", "5,7,13", "11,15", "0,2,8", "4,6,12", "10,14"]


def case(name):
    (folder,) = CASES.glob(f"{name}-*")
    return folder


def verdict(*sources):
    """Return the verdict on each device."""
    return {
        judged.found.name: judged.verdict
        for judged in compare(load(*sources), search_offsets=4).devices
    }


def nodes(loaded):
    return {node: str(cpus) for node, cpus in loaded.topology.nodes.items()}


def files(prefix):
    return sorted(path.name for path in FORMS.glob(f"{prefix}*"))


# What is wrong with these is said; all others are read as if they were not wrapped.
REFUSED = {
    "e-dots.txt": "line 6: '...': lines were left out here",
    "e-gap.txt": "CPUs 4-10 are online, but not listed",
    "i-tailcut.txt": "13 counts for 16 CPUs: the line is cut off or wrapped",
    "p-before-after.txt": "two states of one machine are loaded one by one",
    "p-cut-comma.txt": "cpulist '10,'",
    "p-dots.txt": "line 4: '...': lines were left out here",
    "i-dots.txt": "line 3: '...': lines were left out here",
    "i-lkml-wrap.txt": "columns of CPUs 0-3, but 4-15 are online by lscpu",
}
DOUBTED = {
    "p-cut.txt": "interrupt 46 has affinity 10, but all its counts are of CPUs 14",
}
BESIDE = {"p": (TABLE, COUNTS), "i": (TABLE, PATHS), "e": (COUNTS, PATHS)}


@pytest.mark.parametrize("name", [*files("p-"), *files("i-"), *files("e-")])
def test_one_machine_in_every_form(name):
    sources = (FORMS / name, *BESIDE[name[0]])
    if name in REFUSED:
        with pytest.raises(FormatError, match=r"^[ -~]{1,500}$") as caught:
            load(*sources)
        assert REFUSED[name] in str(caught.value)
        return
    loaded = load_topology(*sources)
    assert nodes(loaded) == {0: "0,2,4,6,8,10,12,14", 1: "1,3,5,7,9,11,13,15"}
    assert len(loaded.topology.siblings) == 8
    if name in DOUBTED:
        assert any(DOUBTED[name] in doubt for doubt in loaded.doubts)
    elif name != "p-tuna.txt":  # it shows the first and the last CPU of the admin queue's
        assert not loaded.doubts
    found = verdict(*sources)
    if name == "p-cut.txt":
        assert found == {"nvme0": "cannot be judged"}
        return
    assert found == {"nvme0": "follows"}
    queues = [told for told in loaded.interrupts if told.irq > 40]
    assert [str(one.affinity) for one in queues] == MASKS
    assert [one.counts for one in queues] == [
        {9: 1001}, {13: 1002}, {15: 1003}, {8: 1004}, {12: 1005}, {14: 1006}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["all-in-one.txt", "lscpu-e-then-paths.txt", "paths-then-interrupts.txt", "i-plus-paths.txt"],
)
def test_several_outputs_in_one_text(name):
    text = (FORMS / name).read_text("utf-8")
    loaded = load_topology(text, TABLE)
    assert len(loaded.topology.possible) == 16
    assert [str(told.affinity) for told in loaded.interrupts][1:] == MASKS
    assert not any("not read" in note for note in loaded.notes)
    assert verdict(text, TABLE, COUNTS) == {"nvme0": "follows"}


@pytest.mark.parametrize("name", [path.name for path in sorted((CASES / "formats").iterdir())])
def test_each_format_is_loaded(name):
    loaded = load(CASES / "formats" / name)
    known = loaded.topology or loaded.interrupts or loaded.queue_maps
    assert known


def test_counts_tell_where_queues_are():
    folder = case("01")
    loaded = load(folder / "interrupts.txt", folder / "lscpu-e.txt", folder / "lscpu.txt")
    counted = {
        told.actions[0]: CpuSet(told.counts or ())
        for told in loaded.interrupts
        if told.actions and told.actions[0].startswith("hpsa0")
    }
    order = [3, 11, 7, 15, 5, 13, 1, 9, 2, 10, 6, 14, 4, 12, 0, 8]
    assert [counted[f"hpsa0-msix{at}"].first for at in range(16)] == order
    assert loaded.arch == "x86_64"


def test_plain_lscpu_hides_the_siblings():
    folder = case("24")
    loaded = load(folder / "lscpu.txt", folder / "dump.txt")
    assert loaded.threads == 2
    assert "siblings" not in loaded.origins
    assert any("though a core has 2 threads" in note for note in loaded.notes)
    assert verdict(folder / "lscpu.txt", folder / "dump.txt") == {"nvme0": "cannot be judged"}
    assert verdict(folder / "lscpu-e.txt", folder / "dump.txt") == {"nvme0": "follows"}


def test_a_table_with_lines_left_out():
    folder = case("03")
    for name in ("lscpu-extended.txt", "lscpu-extended.noprompt.txt"):
        with pytest.raises(FormatError, match=r"'# output omitted [.]+': lines were left out"):
            load(folder / name)
    loaded = load(folder / "lscpu-extended.only-rows.txt")
    assert any("CPU numbers 7-63,71-122 are missing" in doubt for doubt in loaded.doubts)
    with pytest.raises(FormatError, match="names by CPU do not say an interrupt's affinity"):
        load(folder / "irq-names.txt")


@pytest.mark.parametrize("name", ["transcript.txt", "transcript.quoted.txt", "onefile.txt"])
def test_a_transcript_of_a_single_queue(name):
    folder = case("05")
    loaded = load(folder / name, folder / "lscpu.txt")
    (told,) = loaded.interrupts
    assert (str(told.affinity), str(told.effective), told.counts) == ("0-9", "9", {9: 15206})
    assert verdict(folder / name, folder / "lscpu.txt") == {"virtio2": "follows"}


def test_names_without_numbers_are_no_dump():
    folder = case("06")
    with pytest.raises(FormatError, match="an interrupt needs its number"):
        load(folder / "as-posted.txt")
    loaded = load(folder / "reworked2.txt", folder / "lscpu-p.txt")
    assert [str(told.affinity) for told in loaded.interrupts][1:4] == [
        "0-5,16-20", "6-11,22-26", "12-15,21,27-31"
    ]  # fmt: skip
    assert verdict(folder / "reworked2.txt", folder / "lscpu-p.txt") == {"nvme1": "follows"}


def test_a_post_with_fences():
    loaded = load_topology(case("08") / "posted.md")
    assert len(loaded.topology.online) == 14
    assert any("1 line not read: line 1 'Before having" in note for note in loaded.notes)
    alone = {told.actions[0]: told.counts for told in loaded.interrupts if told.actions}
    assert alone["nvme0q14"] == {13: 915}
    assert not alone["nvme1q14"]


def test_queue_maps_alone():
    folder = case("11")
    loaded = load(folder / "find-grep-dump.txt", folder / "numa.txt")
    assert str(loaded.queue_maps["sdb"][0]) == "32-39"
    assert any("lines not read: line 1 'xterm./block/sdb/uevent" in note for note in loaded.notes)
    (judged,) = compare(loaded, search_offsets=4).devices
    assert (judged.verdict, judged.revisions) == ("follows", ("numa-single-pop",))


def test_what_a_driver_logs_of_its_queues():
    loaded = load(case("12") / "as-posted.txt")
    assert loaded.nvme_queues == {"nvme2": (11, 0, 20)}
    assert any("line 3 '19 11 13 15 17 19 1 3 5 7 8 9'" in note for note in loaded.notes)
    machine = load_machine(case("12") / "as-posted.txt", "node:2 pu:10")
    assert machine.devices == (Device("nvme2", "nvme", 31, 0, 20),)
    assert load_machine(case("12") / "optane20.toml").devices[0].poll_queues == 20


def test_wide_colons_and_other_languages():
    folder = case("18")
    hygon = load(folder / "hygon7280.txt")
    assert (nodes(hygon), hygon.arch, hygon.threads) == (
        {0: "0-31,64-95", 1: "32-63,96-127"}, "x86_64", 2
    )  # fmt: skip
    assert nodes(load(folder / "kunpeng-grep.txt"))[3] == "192-255"
    ryzen = load(folder / "ryzen8845-full.txt")
    assert (nodes(ryzen), ryzen.threads) == ({0: "0-15"}, 2)


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("smartpqi", "smartpqi"),
        ("hisi_sas_v3_hw", "hisi_sas_v3_hw cq"),
        ("qla2xxx", "qla2xxx7_qpair{}"),
        ("mpt3sas", "mpt3sas0-msix{}"),
    ],
)
def test_drivers_whose_names_have_no_queue(driver, name):
    path = data_dir() / "captures" / "x86-24cpu-2nodes-2nvme-3net-7.3.json"
    document = json.loads(path.read_text("utf-8"))
    for told in document["interrupts"]:
        if told["actions"] and told["actions"][0].startswith("nvme0q"):
            number = int(told["actions"][0].removeprefix("nvme0q"))
            told["actions"] = [name.format(number - 1)] if number else []
    for device in document["devices"]:
        if device["name"] == "nvme0":
            device.update(driver=driver, name=None, queue_count=None)
            kept = [told["irq"] for told in document["interrupts"] if told["actions"]]
            device["irqs"] = [irq for irq in device["irqs"] if irq in kept]
    document["disks"] = [disk for disk in document["disks"] if not disk["name"].startswith("nvme0")]
    judged = compare(load(json.dumps(document)), search_offsets=4).devices[0]
    assert (judged.verdict, judged.numgrps) == ("follows", (9,))
    assert "cluster" in judged.revisions


def test_cpu_0_has_no_file_online():
    folder = case("26")
    for name in ("online.txt", "onl-paths.txt", "both.txt"):
        loaded = load_topology(folder / name)
        assert str(loaded.topology.online) == "0-15"
        assert any("CPU 0 has no file online: taken as online" in note for note in loaded.notes)
    assert str(load_topology(folder / "topo.txt").topology.online) == "0-15"
    (archive,) = (CASES / "repro").glob("*.tar.gz")
    assert str(load_topology(archive).topology.online) == "0-1"


def test_hwloc_that_sees_a_part_or_more_than_cpus():
    loaded = load_topology(CASES / "repro" / "32amd64-4s2n4c-cgroup2.xml")
    assert str(loaded.topology.online) == "0-31"
    assert "cores and nodes of CPUs 6-31 are not shown" in loaded.doubts[0]
    loaded = load_topology(CASES / "repro" / "hetero.xml")
    assert (len(loaded.topology.online), loaded.topology.distances) == (2, ((10,),))


def test_every_case_makes_a_machine_or_a_sentence():
    for path in sorted(CASES.rglob("*.*")):
        try:
            said = load_machine(path).notes
        except GroupCpusError as error:
            said = str(error)[:501]
            assert 0 < len(said) <= 500
        assert said.isprintable()


# --- more of the same kinds, made here

AFFINITIES = dict(zip(range(40, 47), ["0-15", *MASKS], strict=True))
SHOWN_AS = {
    "for f in ...; do echo $f; cat $f; done": "/proc/irq/{irq}/smp_affinity_list\n{mask}\n",
    "a blank line between": "/proc/irq/{irq}/smp_affinity_list\n{mask}\n\n",
    "kernel's time": "[  123.456789] /proc/irq/{irq}/smp_affinity_list:{mask}\n",
    "journalctl -o short-iso-precise": "2026-05-06T07:08:09.123456+0200 db1 x[12]: "
    "/proc/irq/{irq}/smp_affinity_list:{mask}\n",
    "an arrow": "{irq} -> {mask}\n",
    "words": "irq={irq} affinity={mask}\n",
    "words and commas": "IRQ {irq}, smp_affinity_list: {mask}\n",
}


@pytest.mark.parametrize("form", SHOWN_AS.values(), ids=SHOWN_AS)
def test_affinities_as_loops_and_logs_print_them(form):
    text = "".join(form.format(irq=irq, mask=mask) for irq, mask in AFFINITIES.items())
    loaded = load(TABLE, COUNTS, text)
    shown = {one.irq: str(one.affinity) for one in loaded.interrupts}
    assert shown == AFFINITIES
    assert verdict(TABLE, COUNTS, text) == {"nvme0": "follows"}


def test_queue_maps_whose_paths_are_printed_ahead():
    text = "".join(
        f"/sys/block/nvme0n1/mq/{queue}/cpu_list\n{mask.replace(',', ', ')}\n"
        for queue, mask in enumerate(MASKS)
    )
    assert verdict(TABLE, text) == {"nvme0": "follows"}


@pytest.mark.parametrize("line", ["40 0-15", "40\t0-15", "| 40 | 0-15 |"])
def test_values_of_files_that_nothing_names_are_refused(line):
    with pytest.raises(FormatError, match="which file each value is of must be there"):
        load(f"{line}\n41 3\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [("{code}", "{code}"), ("{code:bash}", "{code}"), ("<pre>", "</pre>"), ("[code]", "[/code]")],
)
def test_marks_of_trackers_are_no_text(before, after):
    loaded = load(TABLE, f"{before}\n{COUNTS.read_text('utf-8')}{after}\n", PATHS)
    assert not any("not read" in note for note in loaded.notes)
    assert len(loaded.interrupts) == 7


def test_outputs_of_two_machines_are_not_made_one():
    table, counts = (path.read_text("utf-8") for path in (TABLE, COUNTS))
    text = f"[root@db1 ~]# lscpu -e\n{table}[root@db2 ~]# cat /proc/interrupts\n{counts}"
    with pytest.raises(FormatError, match="outputs of 'db1' and of 'db2'"):
        load(text)
    assert load(text.replace("db2", "db1")).interrupts
    # A prompt of the reader's own, where nothing was read.
    assert load(f"me@desk:~$ ssh db1\n{text.replace('db2', 'db1')}").interrupts
    with pytest.raises(FormatError, match="affinity of interrupt 41 is 1,3,9 here, 3 in another"):
        load(TABLE, PATHS, "/proc/irq/41/smp_affinity_list:3\n")
    other = COUNTS.read_text("utf-8").replace("nvme0q3", "eth0-3")
    with pytest.raises(FormatError, match="two machines, or two states of one"):
        load(TABLE, COUNTS, other)


@pytest.mark.parametrize(
    ("names", "pre"),
    [
        (["smartpqi"] * 6, 0),
        (["aacraid"] * 6, 0),
        (["hisi_sas_v3_hw phy", "hisi_sas_v3_hw channel", *["hisi_sas_v3_hw cq"] * 6], 2),
        (["qla2xxx (default)", "qla2xxx (rsp_q)", *["qla2xxx (qpair)"] * 6], 2),
        ([f"mpt2sas0-msix{queue}" for queue in range(7)], 1),
        ([f"pm80xx0-{queue}" for queue in range(7)], 1),
    ],
)
@pytest.mark.parametrize(
    "chip", ["IR-PCI-MSIX-0000:c1:00.0 {at}-edge", "IR-PCI-MSI {more}-edge", "ITS-MSI {more} Edge"]
)
def test_drivers_by_name_alone(names, pre, chip):
    """Take the vectors of a driver that spreads in hwirq order, named by slot or by hwirq alone."""
    lines = [COUNTS.read_text("utf-8").splitlines()[0]]
    masks = ["0-15"] * pre + MASKS
    for at, name in enumerate(names):
        shown = chip.format(at=at, more=(0xC100 << 11) + at)
        lines.append(f"{40 + at}: {' '.join(['0'] * 16)} {shown} {name}")
    paths = "".join(
        f"/proc/irq/{40 + at}/smp_affinity_list:{mask}\n" for at, mask in enumerate(masks)
    )
    (judged,) = compare(load(TABLE, "\n".join(lines) + "\n", paths)).devices
    assert (judged.verdict, judged.numgrps) == ("follows", (6,))
