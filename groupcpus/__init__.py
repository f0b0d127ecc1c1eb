# SPDX-License-Identifier: GPL-2.0-only
"""Which CPU will handle this queue's interrupt, and why do they pile up: the engine."""

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import Grouping, explain, group_cpus_evenly
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup
from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.engine.rotations import Deal
from groupcpus.engine.sort import heapsort_order
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError
from groupcpus.machines.life import Life
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.sources import load_machine
from groupcpus.studies.review.compiled import revision_from_c
from groupcpus.studies.rotation import ROTATE_KEPT, ROTATE_TILED

REVISIONS[ROTATE_TILED.name] = ROTATE_TILED
REVISIONS[ROTATE_KEPT.name] = ROTATE_KEPT
Revision.from_c = staticmethod(revision_from_c)

__all__ = [
    "IRQCHIPS",
    "REVISIONS",
    "CpuSet",
    "Deal",
    "GroupCpusError",
    "Grouping",
    "Life",
    "Machine",
    "Revision",
    "Run",
    "Topology",
    "cpumask_local_spread",
    "explain",
    "group_cpus_evenly",
    "heapsort_order",
    "irq_setup",
    "load_machine",
    "simulate",
]
