# SPDX-License-Identifier: GPL-2.0-only
"""Which CPU will handle this queue's interrupt, and why do they pile up: the engine."""

from groupcpus.cpuset import CpuSet
from groupcpus.errors import GroupCpusError
from groupcpus.grouping import Grouping, explain, group_cpus_evenly
from groupcpus.heapsort import heapsort_order
from groupcpus.revisions import REVISIONS, Deal, Revision
from groupcpus.topology import Topology

__all__ = [
    "REVISIONS",
    "CpuSet",
    "Deal",
    "GroupCpusError",
    "Grouping",
    "Revision",
    "Topology",
    "explain",
    "group_cpus_evenly",
    "heapsort_order",
]
