# SPDX-License-Identifier: GPL-2.0-only
"""From a slider to the picture: the engine's part, the drawing's and the whole, in CPU time.

Measured with `time.process_time`, so that a busy computer counts less.  Nothing that is timed is
asserted; the aims are 100 ms for 96 CPUs and 300 ms for 1,024 on an idle core, and the ratios tell
more on any other.
"""

import time
from collections.abc import Callable
from statistics import median

import pytest

from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.mail_text import mail_text
from groupcpus.panels import explore as panels


def large() -> Machine:
    topology = Topology.uniform(nodes=8, cpus_per_node=128)
    disks = tuple(Device(f"nvme{at}", "nvme", 128) for at in range(6))
    return Machine("1024", "8 nodes of 128 CPUs", "x86_64", "x86", topology, disks)


MACHINES = {"96 CPUs": lambda: read_machine("L96as_v4"), "1,024 CPUs": large}
ROUNDS = 15


def milliseconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1000


@pytest.mark.parametrize("picture", panels.PICTURES)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_move(benchmark, note, machine, picture):
    panel = panels.Explorer(MACHINES[machine]())
    panel.controls["picture"].value = picture
    engine, drawing, whole = [], [], []

    def move(start: int) -> None:
        panel.controls["spread_start"].value = start

    def tell() -> None:
        runs[:] = panel.runs()
        mail_text(*runs)
        for run in runs:
            str(run.summary)

    def draw() -> None:
        drawn = panel._pictures[picture]
        drawn.draw(*runs)
        panel.render(drawn)

    runs: list = []
    for start in range(1, ROUNDS + 1):
        whole.append(milliseconds(lambda start=start: move(start)))
        engine.append(milliseconds(tell))
        drawing.append(milliseconds(draw))
    assert panel.error == ""
    note(
        f"{machine:10} {picture:13} engine and text {median(engine):6.1f} ms, drawing "
        f"{median(drawing):6.1f} ms ({median(drawing) / median(engine):4.1f} times), "
        f"slider to picture {median(whole):6.1f} ms"
    )
    benchmark.group = f"slider to picture, {machine}"
    benchmark.extra_info.update(
        engine_ms=median(engine), drawing_ms=median(drawing), whole_ms=median(whole)
    )
    starts = iter(range(1000, 2000))
    benchmark.pedantic(move, setup=lambda: ((next(starts),), {}), rounds=3)
