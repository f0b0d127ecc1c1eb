# SPDX-License-Identifier: GPL-2.0-only
"""Configurations a second: with what they share done once, and with one simulation each.

Nothing that is timed is asserted; the figures are printed after the table.
"""

import os
import random
from itertools import product

import pytest

from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.studies.sweeps import Row, figures, sweep

REVISIONS = ("cluster", "rotate-v2", "rotate-next", "rotate-tiled")
DEVICES = range(1, 13)
IRQCHIPS = ("x86", "gicv3")
EACH = len(REVISIONS) * len(DEVICES) * len(IRQCHIPS)


def machines(count, seed=6):
    """Make machines of 4 to 256 CPUs, each with a number of queues up to its CPUs."""
    rng = random.Random(seed)
    made: list[Machine] = []
    while len(made) < count:
        nodes, threads = rng.choice([1, 2, 4, 8]), rng.choice([1, 2])
        cpus = 2 * rng.randint(1, 128 // nodes)
        cluster = rng.choice([0, None, 2, 4, 8])
        if nodes * cpus >= 4:
            topology = Topology.uniform(nodes, cpus, threads, cluster)
            devices = (Device("nvme0", "nvme", rng.randint(2, nodes * cpus)),)
            name = f"machine{len(made)}"
            made.append(Machine(name, name, "x86_64", "x86", topology, devices))
    return made


class Clock:
    """The time since it was made, and what this process and its ended children computed."""

    def __init__(self):
        self.before = os.times()

    def __str__(self):
        now = os.times()
        seconds = now.elapsed - self.before.elapsed
        cpu = sum(now[:4]) - sum(self.before[:4])
        return f"{seconds:5.1f} s ({cpu:5.1f} s of CPU time)"

    @property
    def seconds(self):
        return os.times().elapsed - self.before.elapsed


def test_without_sharing(benchmark, note):
    """One simulation a configuration, in one process."""
    few = machines(3)
    clock = Clock()
    rows = benchmark.pedantic(
        lambda: [
            figures(simulate(one.with_devices(count), revision=revision, irqchip=irqchip))
            for one, revision, irqchip, count in product(few, REVISIONS, IRQCHIPS, DEVICES)
        ],
        rounds=1,
    )
    took, seconds = str(clock), clock.seconds
    frame = sweep(
        few, devices=DEVICES, revisions=REVISIONS, irqchips=IRQCHIPS, workers=0, progress=False
    )
    assert [Row(*row) for row in frame.itertuples(index=False)] == rows
    note(f"one by one, 1 process:    {len(rows):7} in {took}: {len(rows) / seconds:6.0f}/s")


@pytest.mark.parametrize(("workers", "count"), [(0, 20), (2, 100_000 // EACH + 1)])
def test_with_sharing(benchmark, note, workers, count):
    """`workers` processes (0: this one), their start included."""
    many = machines(count)
    clock = Clock()
    frame = benchmark.pedantic(
        lambda: sweep(
            many,
            devices=DEVICES,
            revisions=REVISIONS,
            irqchips=IRQCHIPS,
            workers=workers,
            progress=False,
        ),
        rounds=1,
    )
    took, seconds = str(clock), clock.seconds
    assert len(frame) == count * EACH
    benchmark.extra_info["configurations_a_second"] = len(frame) / seconds
    note(
        f"shared, {workers or 1} process(es): {len(frame):7} in {took}: "
        f"{len(frame) / seconds:6.0f}/s"
    )
