# SPDX-License-Identifier: GPL-2.0-only
"""/proc/interrupts, and dumps of affinities and queue maps."""

import pytest

from groupcpus.errors import FormatError
from groupcpus.sources import load, load_topology
from tests.sources import shapes
from tests.sources.shapes import DUMP, INTERRUPTS, SHAPES


def test_interrupts_of_chips_with_blanks_in_their_names():
    loaded = load_topology(INTERRUPTS)
    assert {told.irq: (told.chip, told.hwirq, told.actions) for told in loaded.interrupts} == {
        1: ("IO-APIC", 1, ("i8042",)),
        24: ("soc_pcie:msi", 524288, ("nvme0q0",)),
        25: ("IR-PCI-MSIX-0000:02:00.0", 1, ("nvme0q1",)),
        26: ("IR-PCI-MSI", 1048577, ("nvme1q1", "shared thing")),
        27: ("Hyper-V PCIe MSI", 4138200989697, ("mana_q0",)),
        28: ("ITS-MSI", 134742017, ("nvme0q2",)),
        29: ("xen-pirq-msi-x", None, ("eth0-Tx-Rx-0",)),
        30: ("xen-dyn", None, ("blkif",)),
        31: ("IR-PCI-MSI", 18874369, ()),
    }
    assert str(loaded.topology.online) == "0-2,5"


def test_dumps_of_affinities():
    loaded = load(DUMP)
    told = {
        i.irq: (str(i.affinity), i.effective and str(i.effective), i.managed, i.actions)
        for i in loaded.interrupts
    }
    assert told == {
        67: ("4", None, None, ("nvme0q5",)),
        101: ("7", "7", None, ()),
        102: ("32-38,40", "35", None, ()),
        103: ("0-3", "0", None, ()),
        104: ("4", "4", True, ("nvme0q1",)),
        105: ("0", "0", None, ("nvme0q2",)),
        109: ("0-5,12-17", "2", None, ("eno49-TxRx-5",)),
        119: ("42", "42", None, ()),
    }
    maps = {
        disk: {queue: str(cpus) for queue, cpus in queues.items()}
        for disk, queues in loaded.queue_maps.items()
    }
    assert maps == {
        "nvme0n1": {0: "0,20"},
        "nvme1n1": {3: "1,21"},
        "nvme2n1": {0: "4-5", 1: "6", 2: "4-6"},
    }
    assert loaded.queue_kinds == {"nvme2n1": {0: "default", 1: "read", 2: "poll"}}
    assert loaded.topology is None
    assert any("interrupt 65 has no affinity to read" in note for note in loaded.notes)
    assert any("1 line not read: line 1 " in note for note in loaded.notes)


def test_together_they_tell_a_machine():
    interrupts = INTERRUPTS.replace("CPU5", "CPU3")
    cpus = "# CPU,Core,Socket,Node\n0,0,0,\n1,1,0,\n2,2,0,\n3,3,0,\n"
    dump = (
        "/proc/irq/25/smp_affinity_list:2-3\n"
        "/proc/irq/25/effective_affinity:4\n"
        "/proc/irq/25/node:1\n"
    )
    loaded = load_topology(dump, interrupts, cpus)
    told = {interrupt.irq: interrupt for interrupt in loaded.interrupts}[25]
    assert (str(told.affinity), str(told.effective), told.node) == ("2-3", "2", 1)
    assert (told.chip, told.actions) == ("IR-PCI-MSIX-0000:02:00.0", ("nvme0q1",))
    assert loaded.topology.possible == loaded.topology.online
    assert str(loaded.topology.online) == "0-3"
    with pytest.raises(FormatError, match="columns of CPUs 0-3, but 4-5 are online by lscpu"):
        load_topology(dump, interrupts, shapes.lscpu_p(SHAPES["6cpu-no-nodes"]))


def test_interrupts_within_a_tree(tmp_path):
    files = {**shapes.sysfs(SHAPES["6cpu-no-nodes"])}
    files["proc/interrupts"] = INTERRUPTS
    files["proc/irq/28/smp_affinity_list"] = "0-1"
    files["proc/irq/28/effective_affinity_list"] = "0"
    files["proc/sys/kernel/osrelease"] = "6.12.1-amd64"
    (tmp_path / "all.tar.gz").write_bytes(shapes.archive(files))
    loaded = load_topology(tmp_path / "all.tar.gz")
    told = {interrupt.irq: interrupt for interrupt in loaded.interrupts}
    assert (told[28].chip, str(told[28].affinity)) == ("ITS-MSI", "0-1")
    assert told[27].affinity is None
    assert loaded.kernel == "6.12.1-amd64"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("   CPU0   CPU0\n 1:  0  0 IO-APIC 1-edge x\n", "a CPU has two columns"),
        ("   CPU0   CPU1\n 1:  0 IO-APIC 1-edge x\n", "expected 2 counts"),
        ("   CPU0   CPU1\n 1:  0\n", "1 counts for 2 CPUs"),
        ("   CPU0\n 1:  0 a 1-edge x\n 1:  0 a 1-edge x\n", "interrupt 1 has two lines"),
        ("   CPU0   CPU9000\n", "'9000' is no whole number from 0 to 8191"),
        ("/proc/irq/1/smp_affinity:zz\n", "no cpumask"),
        ("/proc/irq/1/smp_affinity:1\n/proc/irq/1/smp_affinity_list:1\n", "before"),
        ("/proc/irq/1/smp_affinity_list:4-1\n", "runs backwards"),
        ("irq 5 affinity 1 effective 1\nirq 5 affinity 2 effective 1\n", "'2' here, '1' before"),
        ("hctx0: default 1\n", "before any 'queue mapping"),
        ("queue mapping for /dev/a\nhctx0: default 1\nhctx0: read 1\n", "mapped twice"),
        ("queue mapping for /dev/a\nhctx99999: default 1\n", "no whole number"),
        ("line\n" * 300, "expected a sysfs tree"),
        ("irq 5 affinity 1 effective 1\n" + "line\n" * 300_000, "more than 50000 lines"),
    ],
)
def test_what_is_refused(text, error):
    with pytest.raises(FormatError, match=error):
        load(text)


def test_affinities_alone_are_no_machine():
    with pytest.raises(FormatError, match="none names the CPUs"):
        load_topology("/proc/irq/1/smp_affinity_list:0-3\n")


def test_counts_of_each_cpu_are_kept():
    text = "      CPU0   CPU2\n 24: 0 7 PCI-MSI 1-edge nvme0q1\n 25: 0 0 PCI-MSI 2-edge nvme0q2\n"
    first, second = load(text).interrupts
    assert (first.counts, second.counts) == ({2: 7}, {})


@pytest.mark.parametrize("count", ["9" * 21, "²", "-1", "x"])
def test_a_count_that_cannot_be_is_refused(count):
    with pytest.raises(FormatError, match="expected 2 counts, one a CPU"):
        load(f"      CPU0   CPU2\n 24: 0 {count} PCI-MSI 1-edge nvme0q1\n")
