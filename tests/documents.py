# SPDX-License-Identifier: GPL-2.0-only
"""Topology documents read a second time, into integers: shares no code with the package."""


def cpulist_parse(text):
    """Read a cpulist into an int bitmask."""
    mask = 0
    for part in text.split(","):
        if part:
            first, _, last = part.partition("-")
            for cpu in range(int(first), int(last or first) + 1):
                mask |= 1 << cpu
    return mask


class Masks:
    """The cpumasks that the kernel function looks at."""

    def __init__(self, document):
        self.cpu_possible_mask = cpulist_parse(document["possible"])
        self.cpu_present_mask = cpulist_parse(document["present"])
        nodes = {int(node): cpulist_parse(cpus) for node, cpus in document["nodes"].items()}
        self.nr_node_ids = max(nodes) + 1
        self.node_to_cpumask = [nodes.get(node, 0) for node in range(self.nr_node_ids)]
        self.topology_sibling_cpumask = self._by_cpu(document.get("siblings", []))
        self.topology_cluster_cpumask = self._by_cpu(document.get("clusters", []))
        for cpu in cpumask_bits(cpulist_parse(document.get("no_cluster", ""))):
            self.topology_cluster_cpumask[cpu] = 0

    def _by_cpu(self, cpulists):
        # A CPU that no list names is alone.
        by_cpu = {cpu: 1 << cpu for cpu in cpumask_bits(self.cpu_possible_mask)}
        for text in cpulists:
            mask = cpulist_parse(text)
            for cpu in cpumask_bits(mask):
                by_cpu[cpu] = mask
        return by_cpu


def cpumask_first(mask):
    """Return the lowest CPU, or -1 (the kernel: nr_cpu_ids) when the mask is empty."""
    return (mask & -mask).bit_length() - 1


def cpumask_bits(mask):
    """Return all CPUs, ascending."""
    cpus = []
    while mask:
        cpus.append(cpumask_first(mask))
        mask &= mask - 1
    return cpus
