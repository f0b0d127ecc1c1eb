# SPDX-License-Identifier: GPL-2.0-only
"""Configurations a second: in the compiled batch, in the engine, and with one simulation each.

Nothing that is timed is asserted.  Ratios are within a run, and by CPU time where no other process
works, so that a busy computer counts less; the figures are printed at the end.
"""

import random
import time
from itertools import product

import pytest

from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.studies import cells
from groupcpus.studies.sweeps import Row, figures, sweep

REVISIONS = ("cluster", "rotate-v2", "rotate-next", "rotate-tiled")
DEVICES = range(1, 13)
IRQCHIPS = ("x86", "gicv3")


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
            name = f"machine{seed}-{len(made)}"
            made.append(Machine(name, name, "x86_64", "x86", topology, devices))
    return made


def swept(many, workers=0):
    return sweep(
        many,
        devices=DEVICES,
        revisions=REVISIONS,
        irqchips=IRQCHIPS,
        workers=workers,
        progress=False,
    )


def rate(call):
    """Return what a call gives, and its length a second of CPU time."""
    started = time.process_time()
    rows = call()
    return rows, len(rows) / (time.process_time() - started)


def test_who_computes(note, monkeypatch):
    """The same rows from all three, in one process."""
    pytest.importorskip("numba", reason="the extra `batch` is not installed")
    few = machines(5)
    swept(machines(1))
    compiled, fast = rate(lambda: swept(few))
    monkeypatch.setattr(cells, "installed", lambda: False)
    shared, slower = rate(lambda: swept(few))
    alone, slowest = rate(
        lambda: [
            figures(simulate(one.with_devices(count), revision=revision, irqchip=irqchip))
            for one, revision, irqchip, count in product(few[:1], REVISIONS, IRQCHIPS, DEVICES)
        ]
    )
    assert compiled.equals(shared)
    assert [Row(*row) for row in shared[: len(alone)].itertuples(index=False)] == alone
    note(
        f"configurations a CPU second: batch {fast:6.0f}, engine {slower:6.0f} "
        f"({fast / slower:.1f} times), one simulation each {slowest:6.0f} ({fast / slowest:.0f})"
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_large_sweep(benchmark, note, workers):
    """`workers` processes (0: this one), their start included."""
    many = machines(100 * (workers or 1), seed=workers)
    swept(machines(1))
    started = time.perf_counter()
    frame = benchmark.pedantic(lambda: swept(many, workers), rounds=1)
    seconds = time.perf_counter() - started
    note(
        f"a sweep in {workers or 1} process(es): {len(frame)} configurations in {seconds:.1f} s: "
        f"{len(frame) / seconds:.0f} a second"
    )
