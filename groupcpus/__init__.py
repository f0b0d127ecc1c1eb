# SPDX-License-Identifier: GPL-2.0-only
"""Which CPU will handle this queue's interrupt, and why do they pile up: the engine."""

from groupcpus.cpuset import CpuSet
from groupcpus.errors import GroupCpusError
from groupcpus.grouping import Grouping, explain, group_cpus_evenly
from groupcpus.heapsort import heapsort_order
from groupcpus.irqchip import IRQCHIPS
from groupcpus.machines import Machine, load_machine
from groupcpus.mana import cpumask_local_spread, irq_setup
from groupcpus.revisions import REVISIONS, Deal, Revision
from groupcpus.simulate import Run, simulate
from groupcpus.topology import Topology

__all__ = [
    "IRQCHIPS",
    "REVISIONS",
    "CpuSet",
    "Deal",
    "GroupCpusError",
    "Grouping",
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
