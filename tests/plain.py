# SPDX-License-Identifier: GPL-2.0-only
"""A plain second implementation of group_cpus_evenly(), to check the engine against.

It follows lib/group_cpus.c and lib/sort.c of the kernel function by function, under the
kernel's names, with ints for cpumasks, and shares no code with the groupcpus package. It is
meant to be read beside the C; nothing in it is arranged to be fast.

Sources: lib/group_cpus.c of Linux 6.12 (`numa`) and 7.0 (`cluster`, commit 89802ca36c96
"lib/group_cpus: make group CPU cluster aware"), lib/sort.c of 6.12 and 6.1, and the patch
"[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking" with its thread.
"""

from dataclasses import dataclass

UINT_MAX = 0xFFFFFFFF


# ---- the machine --------------------------------------------------------------------------


def cpulist_parse(text):
    """Read a cpulist into an int bitmask."""
    mask = 0
    for part in text.split(","):
        if part:
            first, _, last = part.partition("-")
            for cpu in range(int(first), int(last or first) + 1):
                mask |= 1 << cpu
    return mask


class PlainTopology:
    """The cpumasks that the kernel functions look at, made from a topology document."""

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


# ---- cpumasks -----------------------------------------------------------------------------


def cpumask_first(mask):
    """Give the lowest CPU, or -1 (the kernel: nr_cpu_ids) when the mask is empty."""
    return (mask & -mask).bit_length() - 1


def cpumask_next(cpu, mask):
    """Give the lowest CPU above `cpu`, or -1."""
    return cpumask_first(mask >> (cpu + 1) << (cpu + 1))


def cpumask_nth(nth, mask):
    """Give the CPU that has `nth` CPUs of the mask below it."""
    for _ in range(nth):
        mask &= mask - 1
    return cpumask_first(mask)


def cpumask_bits(mask):
    """List all CPUs, ascending."""
    cpus = []
    while mask:
        cpus.append(cpumask_first(mask))
        mask &= mask - 1
    return cpus


# ---- lib/sort.c ---------------------------------------------------------------------------


def parent(i):
    return (i - 1) // 2


def sift_down(base, a, n, cmp_func, left_on_tie):
    # Walk to a leaf, to the larger child each time, without looking at the moving element.
    b = a
    while True:
        c = 2 * b + 1
        d = c + 1
        if d >= n:
            break
        order = cmp_func(base[c], base[d])
        b = c if order > 0 or (left_on_tie and order == 0) else d
    if d == n:
        b = c
    # Climb back to where the moving element belongs.
    while b != a and cmp_func(base[a], base[b]) >= 0:
        b = parent(b)
    c = b
    while b != a:
        b = parent(b)
        base[b], base[c] = base[c], base[b]


def sort_single_pop(base, cmp_func):
    """sort() up to 6.8 or so: the largest element leaves the heap in every round."""
    n = len(base)
    for a in range(n // 2 - 1, -1, -1):
        sift_down(base, a, n, cmp_func, True)
    for n in range(len(base) - 1, 0, -1):
        base[0], base[n] = base[n], base[0]
        sift_down(base, 0, n, cmp_func, True)


def sort_double_pop(base, cmp_func):
    """sort() from 6.9 or so on: the two largest elements leave the heap in every round."""
    n = len(base)
    if n < 2:
        return
    for a in range(n // 2 - 1, -1, -1):
        sift_down(base, a, n, cmp_func, False)
    while n > 3:
        n -= 1
        base[0], base[n] = base[n], base[0]
        a = 2 if cmp_func(base[1], base[2]) <= 0 else 1
        n -= 1
        base[a], base[n] = base[n], base[a]
        sift_down(base, a, n, cmp_func, False)
        sift_down(base, 0, n, cmp_func, False)
    n -= 1
    base[0], base[n] = base[n], base[0]
    if n == 2 and cmp_func(base[0], base[1]) > 0:
        base[0], base[1] = base[1], base[0]


# ---- lib/group_cpus.c ---------------------------------------------------------------------


class NodeGroups:
    """struct node_groups; ncpus and ngroups share their storage in C."""

    def __init__(self, id, ncpus):
        self.id = id
        self.ncpus = ncpus
        self.ngroups = ncpus


@dataclass
class Rev:
    """What tells the revisions apart."""

    sort: object = sort_double_pop
    clusters: bool = True
    base: str = ""  # where the extra groups of clusters are rotated: "floor" or "smallest"
    rotate_extra: str = ""  # which groups get an extra CPU: "sum", "reduced" or "" (the first)
    one_is_zero: bool = False  # numgrps == 1 takes offset 0
    by_class: bool = False  # rotate-next's allotment, first CPU and start node


REVISIONS = {
    "numa": Rev(clusters=False),
    "numa-single-pop": Rev(clusters=False, sort=sort_single_pop),
    "cluster": Rev(),
    "rotate-v1": Rev(base="smallest", rotate_extra="sum"),
    "rotate-v2": Rev(base="floor", rotate_extra="sum"),
    "rotate-v2-fixed": Rev(base="floor", rotate_extra="reduced"),
    "rotate-v2-skip1": Rev(base="floor", rotate_extra="sum", one_is_zero=True),
    "rotate-next": Rev(rotate_extra="reduced", one_is_zero=True, by_class=True),
}


def grp_spread_init_one(topology, masks, grp, nmsk, cpus_per_grp, after):
    """Fill one mask. Returns what is left of `nmsk`, and `after`.

    For rotate-next `after` is the CPU behind which the next one is looked for; elsewhere it is
    None, and the lowest CPU comes next.
    """
    while cpus_per_grp > 0:
        if after is None:
            cpu = cpumask_first(nmsk)
        else:
            cpu = cpumask_next(after, nmsk)
            if cpu < 0:
                cpu = cpumask_first(nmsk)
        if cpu < 0:
            return nmsk, after
        nmsk &= ~(1 << cpu)
        masks[grp] |= 1 << cpu
        cpus_per_grp -= 1
        if after is not None:
            after = cpu

        # If the CPU has siblings, they come first.
        siblmsk = topology.topology_sibling_cpumask[cpu]
        sibl = -1
        while cpus_per_grp > 0:
            sibl = cpumask_next(sibl, siblmsk)
            if sibl < 0:
                break
            if not nmsk >> sibl & 1:
                continue
            nmsk &= ~(1 << sibl)
            masks[grp] |= 1 << sibl
            cpus_per_grp -= 1
    return nmsk, after


def ncpus_cmp_func(ln, rn):
    """Subtract as the C function does: the result is an int."""
    difference = (ln.ncpus - rn.ncpus) & UINT_MAX
    return difference - (1 << 32) if difference >> 31 else difference


def alloc_groups_to_nodes(rev, numgrps, numcpus, node_groups, spread_offset):
    remaining_ncpus = numcpus
    rev.sort(node_groups, ncpus_cmp_func)
    for nv in node_groups:
        if nv.ncpus == UINT_MAX:
            continue
        nv.ngroups = max(1, numgrps * nv.ncpus // remaining_ncpus)
        remaining_ncpus -= nv.ncpus
        numgrps -= nv.ngroups
    if rev.by_class:
        rotate_equal_entries(node_groups, spread_offset)


def rotate_equal_entries(node_groups, spread_offset):
    """rotate-next: split evenly among equally large entries, the remainder rotated."""
    start = 0
    while start < len(node_groups):
        ncpus = node_groups[start].ncpus
        end = start
        while end < len(node_groups) and node_groups[end].ncpus == ncpus:
            end += 1
        if ncpus != UINT_MAX:
            count = end - start
            total = sum(node_groups[i].ngroups for i in range(start, end))
            for i in range(start, end):
                node_groups[i].ngroups = total // count
            rest = total % count
            for i in range(rest):
                place = (spread_offset % count + i * (count // rest)) % count
                node_groups[start + place].ngroups += 1
        start = end


def alloc_nodes_groups(rev, topology, numgrps, cpu_mask, nodemsk, spread_offset):
    numcpus = 0
    node_groups = [NodeGroups(n, UINT_MAX) for n in range(topology.nr_node_ids)]
    for n in nodemsk:
        ncpus = (cpu_mask & topology.node_to_cpumask[n]).bit_count()
        if not ncpus:
            continue
        numcpus += ncpus
        node_groups[n] = NodeGroups(n, ncpus)
    numgrps = min(numcpus, numgrps)
    alloc_groups_to_nodes(rev, numgrps, numcpus, node_groups, spread_offset)
    return node_groups


def assign_cpus_to_groups(
    rev, topology, ncpus, nmsk, ngroups, masks, curgrp, last_grp, spread_offset
):
    """Deal the CPUs of `nmsk` to `ngroups` groups. Returns the next group."""
    extra_grps = ncpus - ngroups * (ncpus // ngroups)
    after = None
    if rev.by_class and extra_grps:
        stride = ncpus // 2 + 1
        if ncpus % 2 == 0 and stride % 2 == 0:
            stride += 1
        after = cpumask_nth(spread_offset % ncpus * stride % ncpus, nmsk) - 1
    for v in range(ngroups):
        cpus_per_grp = ncpus // ngroups
        if rev.rotate_extra == "sum":
            extra = ((v + spread_offset) & UINT_MAX) % ngroups < extra_grps
        elif rev.rotate_extra == "reduced":
            extra = (v + spread_offset % ngroups) % ngroups < extra_grps
        else:
            extra = v < extra_grps
        if extra:
            cpus_per_grp += 1
        if curgrp >= last_grp:
            curgrp = 0
        nmsk, after = grp_spread_init_one(topology, masks, curgrp, nmsk, cpus_per_grp, after)
        curgrp += 1
    return curgrp


def alloc_cluster_groups(rev, topology, ncpus, ngroups, node_cpumask, spread_offset):
    """Give a node's clusters and their groups, in allotment order; None: don't use them."""
    ncluster = 0
    msk = node_cpumask
    while msk:
        cluster_mask = topology.topology_cluster_cpumask[cpumask_first(msk)]
        if not cluster_mask:
            return None
        msk &= ~cluster_mask
        ncluster += 1
    if ncluster == 0 or ncluster > ngroups:
        return None

    clusters = []
    cluster_groups = []
    msk = node_cpumask
    for n in range(ncluster):
        cluster_mask = topology.topology_cluster_cpumask[cpumask_first(msk)]
        clusters.append(cluster_mask)
        cluster_groups.append(NodeGroups(n, (cluster_mask & node_cpumask).bit_count()))
        msk &= ~cluster_mask
    alloc_groups_to_nodes(rev, ngroups, ncpus, cluster_groups, spread_offset)
    return clusters, cluster_groups


def rotate_cluster_extras(
    rev, ncpus, ngroups, node_cpumask, clusters, cluster_groups, spread_offset
):
    """Place extra groups anew, as the rotation patch does in __try_group_cluster_cpus()."""
    ncluster = len(cluster_groups)
    smallest = min(nv.ngroups for nv in cluster_groups)
    total_extra = 0
    for nv in cluster_groups:
        if rev.base == "smallest":
            base = smallest
        else:
            cap = (clusters[nv.id] & node_cpumask).bit_count()
            base = min(max(ngroups * cap // ncpus, 1), nv.ngroups)
        total_extra += nv.ngroups - base
        nv.ngroups = base

    start = spread_offset % ncluster
    stride = ncluster // total_extra if 0 < total_extra < ncluster else 1
    for i in range(ncluster):
        if not total_extra:
            break
        nv = cluster_groups[(start + i * stride) % ncluster]
        if nv.ngroups < (clusters[nv.id] & node_cpumask).bit_count():
            nv.ngroups += 1
            total_extra -= 1

    while total_extra:
        placed = 0
        for nv in cluster_groups:
            if not total_extra:
                break
            if nv.ngroups < (clusters[nv.id] & node_cpumask).bit_count():
                nv.ngroups += 1
                total_extra -= 1
                placed += 1
        if not placed:
            break


def __try_group_cluster_cpus(
    rev, topology, ncpus, ngroups, node_cpumask, masks, curgrp, last_grp, spread_offset
):
    """Deal a node's CPUs cluster by cluster. Returns the next group; None: don't."""
    if not rev.clusters:
        return None
    found = alloc_cluster_groups(rev, topology, ncpus, ngroups, node_cpumask, spread_offset)
    if found is None:
        return None
    clusters, cluster_groups = found
    if rev.base and len(clusters) > 1:
        rotate_cluster_extras(
            rev, ncpus, ngroups, node_cpumask, clusters, cluster_groups, spread_offset
        )
    for nv in cluster_groups:
        nmsk = node_cpumask & clusters[nv.id]
        nc = nmsk.bit_count()
        if not nc:
            continue
        assert nv.ngroups <= nc
        curgrp = assign_cpus_to_groups(
            rev, topology, nc, nmsk, nv.ngroups, masks, curgrp, last_grp, spread_offset
        )
    return curgrp


def __group_cpus_evenly(rev, topology, startgrp, numgrps, cpu_mask, masks, spread_offset):
    """One stage. Returns how many groups were filled."""
    last_grp = numgrps
    curgrp = startgrp
    done = 0
    if not cpu_mask:
        return 0
    nodemsk = [n for n, msk in enumerate(topology.node_to_cpumask) if msk & cpu_mask]

    # No more groups than nodes: whole nodes go to the groups.
    if numgrps <= len(nodemsk):
        if rev.by_class:
            weights = {(cpu_mask & topology.node_to_cpumask[n]).bit_count() for n in nodemsk}
            if len(weights) == 1:
                start = spread_offset % len(nodemsk)
                nodemsk = nodemsk[start:] + nodemsk[:start]
        for n in nodemsk:
            masks[curgrp] |= cpu_mask & topology.node_to_cpumask[n]
            curgrp += 1
            if curgrp == last_grp:
                curgrp = 0
        return numgrps

    node_groups = alloc_nodes_groups(rev, topology, numgrps, cpu_mask, nodemsk, spread_offset)
    for nv in node_groups:
        if nv.ngroups == UINT_MAX:
            continue
        nmsk = cpu_mask & topology.node_to_cpumask[nv.id]
        ncpus = nmsk.bit_count()
        if not ncpus:
            continue
        assert nv.ngroups <= ncpus
        nextgrp = __try_group_cluster_cpus(
            rev, topology, ncpus, nv.ngroups, nmsk, masks, curgrp, last_grp, spread_offset
        )
        if nextgrp is None:
            nextgrp = assign_cpus_to_groups(
                rev, topology, ncpus, nmsk, nv.ngroups, masks, curgrp, last_grp, spread_offset
            )
        curgrp = nextgrp
        done += nv.ngroups
    return done


def group_cpus_evenly(topology, numgrps, revision, spread_offset=0):
    """Return the masks, as a list of ints in group order, and nummasks."""
    rev = REVISIONS[revision]
    spread_offset &= UINT_MAX
    if rev.one_is_zero and numgrps == 1:
        spread_offset = 0
    masks = [0] * numgrps

    npresmsk = topology.cpu_present_mask
    nr_present = __group_cpus_evenly(rev, topology, 0, numgrps, npresmsk, masks, spread_offset)

    curgrp = 0 if nr_present >= numgrps else nr_present
    npresmsk = topology.cpu_possible_mask & ~npresmsk
    nr_others = __group_cpus_evenly(rev, topology, curgrp, numgrps, npresmsk, masks, spread_offset)
    # Before 7.0 the function had no nummasks, and its callers took all groups as filled.
    nummasks = min(nr_present + nr_others, numgrps) if rev.clusters else numgrps
    return masks, nummasks
