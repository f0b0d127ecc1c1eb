# SPDX-License-Identifier: GPL-2.0-only
"""A call in a compiled batch of 256, beside the engine's."""

import time
from statistics import median

import numpy as np
import pytest

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.topology import Topology
from groupcpus.machines.machine import read_machine
from groupcpus.studies.batch import Machines, group_many

pytest.importorskip("numba", reason="the extra `batch` is not installed")

CALLS = 256
MACHINES = {
    "L96as_v4": (lambda: read_machine("L96as_v4").topology, 62),
    "D96plds_v6": (lambda: read_machine("D96plds_v6").topology, 14),
    "1,024 CPUs": (lambda: Topology.uniform(8, 128), 128),
    "1,024 CPUs, many queues": (lambda: Topology.uniform(8, 128), 1000),
    "2,048 CPUs": (lambda: Topology.uniform(16, 128), 128),
    "2,048 CPUs, many queues": (lambda: Topology.uniform(2, 1024), 2000),
}


@pytest.mark.parametrize("revision", ["cluster", "rotate-v2", "rotate-next", "rotate-tiled"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_call(note, machine, revision):
    make, numgrps = MACHINES[machine]
    topology = make()
    machines, which = Machines.of([topology]), np.zeros(CALLS, int)
    offsets = np.arange(CALLS)
    batch, engine = [], []
    for turn in range(6):
        started = time.process_time()
        made = group_many(
            machines, numgrps, revisions=revision, spread_offsets=offsets, machine=which
        )
        batch.append((time.process_time() - started) / CALLS)
        started = time.process_time()
        answer = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=turn)
        engine.append(time.process_time() - started)
        assert [mask.mask for mask in answer.masks] == made.masks(turn, numgrps)
    # The first turn may have compiled the batch.
    batched, called = median(batch[1:]) * 1e6, median(engine[1:]) * 1e6
    note(
        f"{machine:23} {revision:12} {numgrps:4} groups: batch {batched:6.1f} us, "
        f"engine {called:7.0f} us, {called / batched:5.0f} times"
    )
