# SPDX-License-Identifier: GPL-2.0-only
"""The mail text: what it says about a run, and that it fits a mail."""

import re
from dataclasses import replace

import pytest

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.mail_text import WIDTH, mail_text
from groupcpus.machines.probe import simulate


def runs(machine, before="cluster", after="rotate-v2", **options):
    return [simulate(machine, revision=name, **options) for name in (before, after)]


def machine_of(topology, *devices, irqchip="x86"):
    return Machine("made", "A made one", "x86_64", irqchip, topology, devices)


def histogram(text, section):
    """Read back {IRQs: cpulist} from a section's lines."""
    body = text.split(f"{section} (")[1].split("\n\n")[0]
    body = re.sub(r",\n +", ",", body)
    found = re.findall(r"(\d+) CPUs? serves? (?:(\d+) IRQs?|none): (\S+)", body)
    return {int(irqs or 0): (int(count), cpus) for count, irqs, cpus in found}


def test_the_histogram_is_the_runs():
    before, after = runs("L96as_v4")
    text = mail_text(before, after)
    for section, run in (("Before", before), ("After", after)):
        told = histogram(text, section)
        assert {irqs: count for irqs, (count, _) in told.items()} == run.summary.histogram
        for irqs, (_, cpus) in told.items():
            expected = [cpu for cpu, count in run.counts.items() if count == irqs]
            assert list(CpuSet(cpus)) == expected


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("probe", ["admin-first", "interleaved"])
def test_lines_fit_a_mail(revision, probe):
    text = mail_text(*runs("L96as_v4", after=revision, probe=probe, spread_start=2**32 - 3))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_long_and_foreign_names_fit_too():
    machine = replace(read_machine("L96as_v4"), name="L96as_v4-" + "x" * 55)
    mine = replace(REVISIONS["numa"], name="grün " + "ein langer Name " * 8)
    text = mail_text(simulate(machine, revision="numa"), simulate(machine, revision=mine))
    assert text.isascii()
    assert "gr\\xfcn" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_revision_that_does_not_rotate_tells_no_counter():
    text = mail_text(*runs("L96as_v4", probe="interleaved", spread_start=5))
    assert "Before (cluster, irqchip x86):" in text
    assert "After (rotate-v2, irqchip x86, interleaved, counter from 5):" in text


def test_idle_and_shut_down_are_told():
    # CPUs 2-3 are offline: the second queue's mask has nobody to serve it.
    doc = {"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-3", "online": "0-1"}
    machine = machine_of(Topology.from_dict(doc), Device("irqs0", "irqs", 2), irqchip="gicv3")
    text = mail_text(*runs(machine, "numa", "cluster"))
    assert "made: 2 CPUs (2 more offline) in 1 node; 1 irqs with 2 queues" in text
    assert "  1 CPU serves none: 1\n  1 CPU serves 1 IRQ: 0\n" in text
    assert "  1 IRQ shut down: no CPU of the mask is online" in text


def test_two_machines_each_get_a_heading():
    before = simulate("L96as_v4", revision="numa")
    after = simulate(read_machine("L96as_v4").with_devices(count=1), revision="numa")
    text = mail_text(before, after)
    assert "6 nvme with 62 queues" in text
    assert "1 nvme with 62 queues" in text
    assert mail_text(before, before).count("nvme with") == 1


def test_a_machine_without_devices():
    machine = machine_of(Topology.uniform(nodes=1, cpus_per_node=2))
    text = mail_text(*runs(machine))
    assert "no devices" in text
    assert "  2 CPUs serve none: 0-1" in text


def test_more_runs_than_have_a_name_are_refused():
    run = simulate("D16plds_v6", revision="cluster")
    for number in (0, 7):
        with pytest.raises(RequestError, match=f"{number} runs: expected 1 to 6"):
            mail_text(*[run] * number)
