# SPDX-License-Identifier: GPL-2.0-only
"""The compiled twin of the engine: the same algorithm on arrays, for millions of calls.

Written from lib/group_cpus.c and lib/sort.c function by function, under their names, with nothing
taken from the engine, so that each checks the other.  `batch` is the door to it; this module needs
Numba, and is imported when it is first asked for something.

A machine is a *layout*: what all calls on it share.  Its CPUs come in two stages, present ones and
others; in each, by node, and in a node by cluster.  A *unit* is what is dealt in one go, a node or
a cluster.  All arrays are of 32-bit integers, and -1 stands for "none".

It is over 450 lines long because Numba keeps what it compiled by file: a function in another one
could change and its caller not be compiled again.

Sources: lib/group_cpus.c of Linux 6.12 (`numa`) and 7.0 (`cluster`, commit 89802ca36c96),
lib/sort.c of 6.12 and 6.1, "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking"
and its thread.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

__all__ = ["CHIPS", "CODES", "group_many", "place_many"]

UINT_MAX = 0xFFFFFFFF

# Without Python's checks for a divisor of 0; there is none.
fast = njit(cache=True, error_model="numpy")
# What is done for every vector or group is put where it is called: passing arrays takes longer.
inlined = njit(cache=True, error_model="numpy", inline="always")

# What tells the revisions apart, as fields of a number.
SINGLE_POP, CLUSTERS, FLOOR, SMALLEST, SUM, REDUCED, ONE_IS_ZERO, CLASSES, TILES, KEPT = (
    1 << bit for bit in range(10)
)
CODES = {
    "numa": 0,
    "numa-single-pop": SINGLE_POP,
    "cluster": CLUSTERS,
    "rotate-v1": CLUSTERS | SMALLEST | SUM,
    "rotate-v2": CLUSTERS | FLOOR | SUM,
    "rotate-v2-fixed": CLUSTERS | FLOOR | REDUCED,
    "rotate-v2-skip1": CLUSTERS | FLOOR | SUM | ONE_IS_ZERO,
    "rotate-next": CLUSTERS | CLASSES | REDUCED | ONE_IS_ZERO,
    "rotate-tiled": CLUSTERS | TILES | ONE_IS_ZERO,
    "rotate-kept": CLUSTERS | KEPT | ONE_IS_ZERO,
}

FIRST, LAST_OF_LEAST, FIRST_OF_LEAST = range(3)
CHIPS = {
    "x86": LAST_OF_LEAST,
    "gicv2m": FIRST,
    "gicv3": FIRST,
    "its": FIRST_OF_LEAST,
    "its-first": FIRST,
}


class Machine(NamedTuple):
    """A machine's arrays by CPU number, as in `batch.Machines`, and its number of node ids."""

    node: Any
    core: Any
    cluster: Any
    present: Any
    online: Any
    nr_node_ids: Any
    llc: Any


class Call(NamedTuple):
    """One call of the function."""

    code: Any
    numgrps: Any
    offset: Any


class Parts(NamedTuple):
    """Nodes of a machine, or clusters of a node: `count` of them, from a place in the arrays on."""

    ncpus: Any
    order: Any
    """Which part comes where in the sort's order, counted from `first`."""
    first: Any
    count: Any


class Unit(NamedTuple):
    """A node or cluster, and its cores: `ncpus` CPUs from a place in an array on."""

    cpus: Any
    begin: Any
    ncpus: Any
    first: Any
    following: Any


class Work(NamedTuple):
    """What a call writes on, apart from its answer: nodes and clusters in the sort's order."""

    nodes: Any
    """Groups of each node."""
    clusters: Any
    """Groups of each cluster, a node's from its place among the CPUs on."""
    node_totals: Any
    """Groups that each was given before; of rotate-tiled and rotate-kept alone."""
    cluster_totals: Any
    tiles: Any
    """A unit's CPUs core by core; of rotate-tiled alone."""


class Layout(NamedTuple):
    """A machine as calls need it; the first index of all is the stage.

    A node's and a cluster's CPUs stand in `cpus` and `by_cluster` from its start on, ascending.
    """

    ncpus: Any
    nnodes: Any
    """Nodes that have CPUs."""
    ids: Any
    """Those nodes, ascending."""
    order: Any
    """[stage, pop]: those nodes in the order of the sort."""
    node_start: Any
    node_size: Any
    cpus: Any
    clusters: Any
    """How many clusters a node has; 0: at least one CPU's is unknown."""
    cluster_order: Any
    """[stage, as in by_cluster]: the clusters of a node, in the order of the sort."""
    cluster_start: Any
    cluster_size: Any
    by_cluster: Any
    node_next: Any
    """[by CPU]: the next sibling in its node; `node_first` the lowest one."""
    node_first: Any
    cluster_next: Any
    cluster_first: Any
    regular: Any
    """What rotate-kept has to know: whether the machine is regular; -1: not looked at yet."""
    llc: Any
    """[by CPU]: its last-level cache, or -1."""
    node_starts: Any
    """[stage, node]: at how many places its CPUs may start, how far these are apart, and how many
    CPUs its smallest last-level cache has."""
    cluster_starts: Any


def new_layout(ncpus: int, nnodes: int) -> Layout:
    """Return an empty layout for machines of at most so many CPUs and node ids."""

    def array(*shape: int) -> Any:
        return np.empty(shape, np.int32)

    return Layout(
        ncpus=array(2),
        nnodes=array(2),
        ids=array(2, nnodes),
        order=array(2, 2, nnodes),
        node_start=array(2, nnodes),
        node_size=array(2, nnodes),
        cpus=array(2, ncpus),
        clusters=array(2, nnodes),
        cluster_order=array(2, ncpus),
        cluster_start=array(2, ncpus),
        cluster_size=array(2, ncpus),
        by_cluster=array(2, ncpus),
        node_next=array(ncpus),
        node_first=array(ncpus),
        cluster_next=array(ncpus),
        cluster_first=array(ncpus),
        regular=array(1),
        llc=array(ncpus),
        node_starts=array(2, nnodes, 3),
        cluster_starts=array(2, ncpus, 3),
    )


# ---- lib/sort.c ------------------------------------------------------------------------------


@njit(cache=True)
def sift_down(ids, keys, a, n, left_on_tie):
    """Walk to a leaf, to the larger child each time, then climb back to where `a` belongs."""
    b = a
    while 2 * b + 2 < n:
        order = keys[ids[2 * b + 1]] - keys[ids[2 * b + 2]]
        b = 2 * b + 1 if order > 0 or (left_on_tie and order == 0) else 2 * b + 2
    if 2 * b + 2 == n:
        b = 2 * b + 1
    while b != a and keys[ids[a]] >= keys[ids[b]]:
        b = (b - 1) // 2
    c = b
    while b != a:
        b = (b - 1) // 2
        ids[b], ids[c] = ids[c], ids[b]


@njit(cache=True)
def sort(ids, keys, n, single_pop):
    """Sort ids by their keys as the kernel does: up to 6.8 or so with a single pop."""
    for a in range(n // 2 - 1, -1, -1):
        sift_down(ids, keys, a, n, single_pop)
    if single_pop:
        for end in range(n - 1, 0, -1):
            ids[0], ids[end] = ids[end], ids[0]
            sift_down(ids, keys, 0, end, True)
        return
    if n < 2:
        return
    while n > 3:
        n -= 1
        ids[0], ids[n] = ids[n], ids[0]
        a = 2 if keys[ids[1]] <= keys[ids[2]] else 1
        n -= 1
        ids[a], ids[n] = ids[n], ids[a]
        sift_down(ids, keys, a, n, False)
        sift_down(ids, keys, 0, n, False)
    n -= 1
    ids[0], ids[n] = ids[n], ids[0]
    if n == 2 and keys[ids[0]] > keys[ids[1]]:
        ids[0], ids[1] = ids[1], ids[0]


# ---- the machine -----------------------------------------------------------------------------


@njit(cache=True)
def lay_out(lay, machine, scratch):
    """Fill a machine's layout."""
    for stage in range(2):
        lay_out_nodes(lay, stage, machine, scratch)
        for at in range(lay.nnodes[stage]):
            lay_out_clusters(lay, stage, lay.ids[stage, at], machine.cluster, scratch)
    link_siblings(lay.node_first, lay.node_next, machine, False, scratch)
    link_siblings(lay.cluster_first, lay.cluster_next, machine, True, scratch)
    lay.regular[0] = -1
    lay.llc[: len(machine.llc)] = machine.llc


@njit(cache=True)
def lay_out_nodes(lay, stage, machine, scratch):
    """Put a stage's CPUs in order of their nodes, and the nodes in order of the sort."""
    node, present, nr_node_ids = machine.node, machine.present, machine.nr_node_ids
    size, start = lay.node_size[stage], lay.node_start[stage]
    size[:nr_node_ids] = 0
    for cpu in range(len(node)):
        if node[cpu] >= 0 and (present[cpu] == 0) == stage:
            size[node[cpu]] += 1
    ncpus = nnodes = 0
    for n in range(nr_node_ids):
        start[n] = scratch[n] = ncpus
        ncpus += size[n]
        if size[n]:
            lay.ids[stage, nnodes] = n
            nnodes += 1
    lay.ncpus[stage], lay.nnodes[stage] = ncpus, nnodes
    for cpu in range(len(node)):
        if node[cpu] >= 0 and (present[cpu] == 0) == stage:
            lay.cpus[stage, scratch[node[cpu]]] = cpu
            scratch[node[cpu]] += 1
    # A node without CPUs has UINT_MAX of them, which the signed comparison takes for -1.
    keys, ids = scratch[:nr_node_ids], scratch[nr_node_ids : 2 * nr_node_ids]
    for single_pop in range(2):
        for n in range(nr_node_ids):
            keys[n], ids[n] = size[n] if size[n] else -1, n
        sort(ids, keys, nr_node_ids, single_pop == 1)
        lay.order[stage, single_pop, :nnodes] = ids[nr_node_ids - nnodes :]


@njit(cache=True)
def lay_out_clusters(lay, stage, n, cluster, scratch):
    """Put a node's CPUs in order of their clusters: alloc_cluster_groups()."""
    first, ncpus = lay.node_start[stage, n], lay.node_size[stage, n]
    cpus = lay.cpus[stage, first : first + ncpus]
    size = lay.cluster_size[stage, first : first + ncpus]
    number = scratch[: len(cluster)]
    lay.clusters[stage, n] = 0
    for cpu in cpus:
        if cluster[cpu] < 0:
            return
        number[cluster[cpu]] = -1
    ncluster = 0
    for cpu in cpus:
        c = cluster[cpu]
        if number[c] < 0:
            number[c] = ncluster
            size[ncluster] = 0
            ncluster += 1
        size[number[c]] += 1
    place = scratch[len(cluster) : len(cluster) + ncluster]
    order = lay.cluster_order[stage, first : first + ncluster]
    total = first
    for c in range(ncluster):
        lay.cluster_start[stage, first + c] = place[c] = total
        total += size[c]
        order[c] = c
    for cpu in cpus:
        c = number[cluster[cpu]]
        lay.by_cluster[stage, place[c]] = cpu
        place[c] += 1
    sort(order, size, ncluster, False)
    lay.clusters[stage, n] = ncluster


@njit(cache=True)
def dealt_together(machine, cpu, other, by_cluster):
    """Return whether two CPUs are in one stage and node (and cluster)."""
    return (
        machine.node[cpu] == machine.node[other]
        and machine.present[cpu] == machine.present[other]
        and not (by_cluster and machine.cluster[cpu] != machine.cluster[other])
    )


@njit(cache=True)
def link_siblings(first, following, machine, by_cluster, scratch):
    """Link the threads of each core, ascending, as far as they are dealt together."""
    ncpus = len(machine.node)
    last, before = scratch[:ncpus], scratch[ncpus:]
    last[:] = first[:ncpus] = following[:ncpus] = -1
    for cpu in range(ncpus):
        if machine.node[cpu] < 0:
            continue
        core = machine.core[cpu]
        # Look back through the core for the latest thread of the same unit.
        thread = last[core]
        while thread >= 0 and not dealt_together(machine, cpu, thread, by_cluster):
            thread = before[thread]
        first[cpu] = cpu
        if thread >= 0:
            following[thread] = cpu
            first[cpu] = first[thread]
        before[cpu] = last[core]
        last[core] = cpu


# ---- lib/group_cpus.c ------------------------------------------------------------------------


@fast
def divided(dividend, divisor):
    """Divide as C does with its unsigned int, several times as fast as with signs."""
    return np.int64(np.uint32(dividend) // np.uint32(divisor))


@fast
def alloc_groups_to_nodes(call, parts, numgrps, numcpus, ngroups):
    """Allot groups to nodes or clusters in proportion to CPUs, in the sort's order."""
    first = parts.first
    for at in range(first, first + parts.count):
        size = parts.ncpus[first + parts.order[at]]
        ngroups[at] = max(1, divided(numgrps * size, numcpus))
        numgrps -= ngroups[at]
        numcpus -= size
    if call.code & CLASSES:
        rotate_classes(parts, ngroups, call.offset)


@fast
def rotate_classes(parts, ngroups, offset):
    """rotate-next: split evenly among equally large entries, the remainder rotated."""
    ncpus, order, first = parts.ncpus, parts.order, parts.first
    start, last = first, first + parts.count
    while start < last:
        end, total, size = start, 0, ncpus[first + order[start]]
        while end < last and ncpus[first + order[end]] == size:
            total += ngroups[end]
            end += 1
        equal = end - start
        share, rest = total // equal, total % equal
        ngroups[start:end] = share
        if rest:
            place, stride = offset % equal, equal // rest
            for _ in range(rest):
                ngroups[start + place] += 1
                place = place + stride if place + stride < equal else place + stride - equal
        start = end


@fast
def rotate_cluster_extras(call, parts, numgrps, numcpus, ngroups):
    """Place extra groups anew, as the rotation patch does in __try_group_cluster_cpus()."""
    caps, order, first, ncluster = parts
    smallest = ngroups[first : first + ncluster].min()
    extra = 0
    for at in range(first, first + ncluster):
        base = smallest
        if call.code & FLOOR:
            base = min(max(divided(numgrps * caps[first + order[at]], numcpus), 1), ngroups[at])
        extra += ngroups[at] - base
        ngroups[at] = base
    if not extra:
        return
    stride = ncluster // extra if extra < ncluster else 1
    place = call.offset % ncluster
    for _ in range(ncluster):
        if extra and ngroups[first + place] < caps[first + order[first + place]]:
            ngroups[first + place] += 1
            extra -= 1
        place = place + stride if place + stride < ncluster else place + stride - ncluster
    placed = extra
    while extra and placed:
        placed = 0
        for at in range(first, first + ncluster):
            if extra and ngroups[at] < caps[first + order[at]]:
                ngroups[at] += 1
                extra -= 1
                placed += 1


@inlined
def grp_spread_init_one(unit, at, start, room, curgrp, group):
    """Fill a group: the next free CPU, then its siblings, while there is room.

    Returns where the next group goes on; dealing started at `start` and goes once around.
    """
    cpus, begin, ncpus, first, following = unit
    while room > 0 and at < start + ncpus:
        cpu = cpus[begin + (at if at < ncpus else at - ncpus)]
        at += 1
        if group[cpu] >= 0:
            continue
        group[cpu] = curgrp
        room -= 1
        # From the lowest CPU on, all lower siblings are gone already.
        sibling = first[cpu] if start else following[cpu]
        while room > 0 and sibling >= 0:
            if group[sibling] < 0:
                group[sibling] = curgrp
                room -= 1
            sibling = following[sibling]
    return at


@fast
def assign_cpus_to_groups(call, unit, ngroups, start, curgrp, group):
    """Deal a unit's CPUs to its groups, from a place on.  Returns the next group."""
    share = divided(unit.ncpus, ngroups)
    extra_grps = unit.ncpus - share * ngroups
    place = 0
    if extra_grps:
        if call.code & CLASSES:
            stride = unit.ncpus // 2 + 1
            stride += unit.ncpus % 2 == 0 and stride % 2 == 0
            start = call.offset % unit.ncpus * stride % unit.ncpus
        if call.code & (SUM | REDUCED):
            place = call.offset - divided(call.offset, ngroups) * ngroups
    at = start
    for v in range(ngroups):
        cpus_per_grp = share + (place < extra_grps)
        place = place + 1 if place + 1 < ngroups else 0
        if call.code & SUM and v + call.offset == UINT_MAX:
            place = 0  # the 32-bit sum wraps
        if curgrp >= call.numgrps:
            curgrp = 0
        at = grp_spread_init_one(unit, at, start, cpus_per_grp, curgrp, group)
        curgrp += 1
    return curgrp


@fast
def group_by_cluster(call, lay, node, curgrp, work, group):
    """Deal a node cluster by cluster: __try_group_cluster_cpus().  Returns the next group."""
    stage, n, ngroups, total = node
    first, ncpus = lay.node_start[stage, n], lay.node_size[stage, n]
    ncluster = lay.clusters[stage, n]
    caps, order = lay.cluster_size[stage], lay.cluster_order[stage]
    parts = Parts(caps, order, first, ncluster)
    alloc_groups_to_nodes(call, parts, ngroups, ncpus, work.clusters)
    if ncluster > 1 and call.code & (FLOOR | SMALLEST):
        rotate_cluster_extras(call, parts, ngroups, ncpus, work.clusters)
    if call.code & (TILES | KEPT):
        continue_shares(call, parts, total, work.clusters, work.cluster_totals)
    cpus, begin = lay.by_cluster[stage], lay.cluster_start[stage]
    for at in range(first, first + ncluster):
        c = first + order[at]
        unit = Unit(cpus, begin[c], caps[c], lay.cluster_first, lay.cluster_next)
        ngroups = work.clusters[at]
        if call.code & TILES and 1 < ngroups < unit.ncpus:
            split = split_unit(unit, 1, True, work.tiles)
            dealt = (ngroups, work.cluster_totals[at])
            curgrp = assign_tiles(call, split, dealt, curgrp, work.tiles, group)
        else:
            start = 0
            if call.code & KEPT:
                starts = lay.cluster_starts[stage, c]
                start = kept_start(unit.ncpus, starts, ngroups, work.cluster_totals[at])
            curgrp = assign_cpus_to_groups(call, unit, ngroups, start, curgrp, group)
    return curgrp


@fast
def group_node(call, lay, node, curgrp, work, group):
    """Deal a node as a whole.  Returns the next group."""
    stage, n, ngroups, total = node
    first, ncpus = lay.node_start[stage, n], lay.node_size[stage, n]
    unit = Unit(lay.cpus[stage], first, ncpus, lay.node_first, lay.node_next)
    if call.code & TILES and 1 < ngroups < ncpus:
        ncluster, equal, largest = lay.clusters[stage, n], True, 0
        for c in range(first, first + ncluster):
            equal &= lay.cluster_size[stage, c] == lay.cluster_size[stage, first]
            largest = max(largest, lay.cluster_size[stage, c])
        within = unit
        if largest >= widest_core(unit):
            within = Unit(lay.by_cluster[stage], first, ncpus, lay.cluster_first, lay.cluster_next)
        else:
            ncluster = 0
        split = split_unit(within, ncluster, equal, work.tiles)
        if ncluster <= 1 or equal or ncpus // ngroups > largest:
            return assign_tiles(call, split, (ngroups, total), curgrp, work.tiles, group)
    start = kept_start(ncpus, lay.node_starts[stage, n], ngroups, total) if call.code & KEPT else 0
    return assign_cpus_to_groups(call, unit, ngroups, start, curgrp, group)


@fast
def group_nodes_whole(call, lay, stage, curgrp, group):
    """Give whole nodes to groups in turn, where there are no more groups than nodes."""
    nnodes, start = lay.nnodes[stage], 0
    if call.code & (CLASSES | TILES | KEPT):
        size = lay.node_size[stage, lay.ids[stage, 0]]
        equal = True
        for at in range(nnodes):
            equal &= lay.node_size[stage, lay.ids[stage, at]] == size
        start = call.offset % nnodes if equal else 0
    for at in range(nnodes):
        n = lay.ids[stage, (start + at) % nnodes]
        first = lay.node_start[stage, n]
        for place in range(first, first + lay.node_size[stage, n]):
            group[lay.cpus[stage, place]] = curgrp
        curgrp = curgrp + 1 if curgrp + 1 < call.numgrps else 0


@fast
def group_stage(call, lay, stage, curgrp, work, group):
    """One stage, __group_cpus_evenly().  Returns how many groups were filled."""
    nnodes, ncpus = lay.nnodes[stage], lay.ncpus[stage]
    if not ncpus:
        return 0
    if call.numgrps <= nnodes:
        group_nodes_whole(call, lay, stage, curgrp, group)
        return call.numgrps
    asked = min(ncpus, call.numgrps)
    order, size = lay.order[stage, call.code & SINGLE_POP], lay.node_size[stage]
    parts = Parts(size, order, 0, nnodes)
    alloc_groups_to_nodes(call, parts, asked, ncpus, work.nodes)
    if call.code & (TILES | KEPT):
        continue_shares(call, parts, call.offset, work.nodes, work.node_totals)
    for at in range(nnodes):
        n, ngroups = order[at], work.nodes[at]
        node = (stage, n, ngroups, work.node_totals[at])
        if call.code & CLUSTERS and 0 < lay.clusters[stage, n] <= ngroups:
            curgrp = group_by_cluster(call, lay, node, curgrp, work, group)
        else:
            curgrp = group_node(call, lay, node, curgrp, work, group)
    return asked


@fast
def group_cpus_evenly(call, lay, work, group):
    """Put every CPU's group into `group`.  Returns how many groups count as filled."""
    if call.code & ONE_IS_ZERO and call.numgrps == 1:
        call = Call(call.code, call.numgrps, np.int64(0))
    if call.code & KEPT:
        call = kept_call(call, lay)
    group[:] = -1
    present = group_stage(call, lay, 0, 0, work, group)
    others = group_stage(call, lay, 1, 0 if present >= call.numgrps else present, work, group)
    # Before 7.0 the function had no nummasks, and its callers took all groups as filled.
    return min(present + others, call.numgrps) if call.code & CLUSTERS else call.numgrps


# ---- rotate-tiled and rotate-kept ------------------------------------------------------------


@fast
def continue_shares(call, parts, total, ngroups, totals):
    """Split evenly among equally large parts, from where the last call ended."""
    ncpus, order, first = parts.ncpus, parts.order, parts.first
    start, last = first, first + parts.count
    if parts.count == 1:
        totals[start] = total
        return
    calls = call.offset // call.numgrps
    numgrps = ngroups[start:last].sum()
    while start < last:
        end, here, size = start, 0, ncpus[first + order[start]]
        while end < last and ncpus[first + order[end]] == size:
            here += ngroups[end]
            end += 1
        count = end - start
        before = total - calls * (numgrps - here)
        for i in range(count):
            ngroups[start + i] = here // count + ((i - before) % count < here % count)
            totals[start + i] = (before - i + count - 1) // count
        start = end


@fast
def widest_core(unit):
    """Return the most threads that a core of a unit has."""
    widest = 0
    for at in range(unit.begin, unit.begin + unit.ncpus):
        threads, cpu = 0, unit.cpus[at]
        if unit.first[cpu] == cpu:
            while cpu >= 0:
                threads += 1
                cpu = unit.following[cpu]
            widest = max(widest, threads)
    return widest


@fast
def split_unit(within, ncluster, equal, tiles):
    """Put a unit's CPUs in order of clusters and cores; return the width that its tiles have.

    That is the CPUs of its clusters, the CPUs of its cores where these are equally many, and how
    many CPUs there are; 0: there are no such clusters or cores.
    """
    ncpus = threads = ncores = 0
    alike = True
    for at in range(within.begin, within.begin + within.ncpus):
        cpu = within.cpus[at]
        if within.first[cpu] == cpu:
            begin = ncpus
            while cpu >= 0:
                tiles[ncpus] = cpu
                ncpus += 1
                cpu = within.following[cpu]
            alike &= ncores == 0 or ncpus - begin == threads
            threads = ncpus - begin
            ncores += 1
    cluster = ncpus // ncluster if ncluster > 1 and equal else 0
    return cluster, threads if ncores > 1 and alike else 0, ncpus


@fast
def assign_tiles(call, split, dealt, curgrp, tiles, group):
    """Lay the groups of successive calls around a unit's CPUs like tiles."""
    cluster, core, ncpus = split
    ngroups, total = dealt
    share, extra = ncpus // ngroups, ncpus % ngroups
    part = 1 if share == 1 else 0
    if share <= cluster:
        part = cluster
    elif share <= core:
        part = core
    at, back, first = 0, total // ngroups % ncpus, 0
    if part:
        back = total * share * (share + 1) // part
        at = -back % (ncpus // part) * part if extra else 0
    else:
        first = (back - 1) * ngroups // ncpus + 1
        at = -(-first * ncpus // ngroups) - back
    for v in range(ngroups):
        if part:
            end = at + share + (v < extra)
        else:
            end = -(-(first + v + 1) * ncpus // ngroups) - back
        if curgrp >= call.numgrps:
            curgrp = 0
        while at < end:
            group[tiles[at % ncpus]] = curgrp
            at += 1
        curgrp += 1
    return curgrp


# ---- rotate-kept -----------------------------------------------------------------------------


@fast
def kept_call(call, lay):
    """Return the call of `cluster` where nothing rotates, else one whose offset counts groups."""
    ncpus = lay.ncpus[0]
    if lay.regular[0] < 0:
        lay.regular[0] = is_regular(lay)
    if ncpus % min(call.numgrps, ncpus) == 0 or lay.regular[0] == 0:
        return Call(np.int64(CLUSTERS), call.numgrps, np.int64(0))
    return Call(call.code, call.numgrps, call.offset % 65536 * call.numgrps)


@fast
def kept_start(ncpus, starts, ngroups, total):
    """Return the place behind the groups with one CPU more of all calls before, rounded down."""
    share, count = ncpus // ngroups, starts[0]
    if share * ngroups == ncpus or share + 1 >= starts[2]:
        return 0
    back = total % ncpus * (share * (share + 1)) % ncpus
    return (ncpus - back) % ncpus // (ncpus // count) * starts[1]


@njit(cache=True)
def count_cores(unit):
    """Return how many cores a unit has CPUs of."""
    count = 0
    for at in range(unit.begin, unit.begin + unit.ncpus):
        count += unit.first[unit.cpus[at]] == unit.cpus[at]
    return count


@njit(cache=True)
def core_step(unit, ncores):
    """Return how far the first threads of equal cores are apart; 0: they are in no regular order.

    Either core by core, or all first threads and then all second ones.
    """
    cpus, begin, ncpus = unit.cpus, unit.begin, unit.ncpus
    threads = ncpus // ncores
    if threads * ncores != ncpus:
        return 0
    blocks, halves = True, threads == 2
    for at in range(ncpus):
        first = unit.first[cpus[begin + at]]
        blocks &= first == cpus[begin + at - at % threads]
        halves &= first == cpus[begin + at % ncores]
    return threads if blocks else int(halves)


@njit(cache=True)
def look_at_unit(unit, starts, seen):
    """Note a unit's cores as its starts; return whether it is like those `seen` before.

    That is their threads a core, and the step between cores where there are several; 0: none yet.
    """
    ncores = count_cores(unit)
    step = core_step(unit, ncores)
    starts[0], starts[1] = ncores if step else 1, step if step else unit.ncpus
    starts[2] = unit.ncpus + 1
    threads = unit.ncpus // ncores
    if threads * ncores != unit.ncpus or (seen[0] and seen[0] != threads):
        return False
    seen[0] = threads
    if ncores > 1:
        if not step or (seen[1] and seen[1] != step):
            return False
        seen[1] = step
    return True


@njit(cache=True)
def cluster_unit(lay, stage, c):
    """Return the unit that a cluster is."""
    begin, ncpus = lay.cluster_start[stage, c], lay.cluster_size[stage, c]
    return Unit(lay.by_cluster[stage], begin, ncpus, lay.cluster_first, lay.cluster_next)


@njit(cache=True)
def start_with_clusters(lay, stage, n, unit, starts):
    """Let a node whose clusters are several cores wide start with whole clusters alone."""
    first, ncluster = lay.node_start[stage, n], lay.clusters[stage, n]
    ncores, largest = starts[0], 0
    for c in range(first, first + ncluster):
        largest = max(largest, lay.cluster_size[stage, c])
    if ncluster < 2 or largest <= unit.ncpus // ncores:
        return
    # Each cluster must be a row of as many cores.
    row, alike = ncores // ncluster, ncores % ncluster == 0
    for c in range(first, first + ncluster):
        begin = lay.cluster_start[stage, c]
        alike = alike and count_cores(cluster_unit(lay, stage, c)) == row
        if not alike:
            break
        lowest = unit.cpus[unit.begin + (c - first) * row * starts[1]]
        last = unit.cpus[unit.begin + ((c - first + 1) * row - 1) * starts[1]]
        alike = lay.by_cluster[stage, begin] == lowest
        alike = alike and lay.by_cluster[stage, begin + (row - 1) * starts[1]] == last
    starts[0], starts[1] = (ncluster, row * starts[1]) if alike else (1, unit.ncpus)


@njit(cache=True)
def smallest_llc(unit, llc):
    """Return how many CPUs of a unit the smallest last-level cache has that has not all of them."""
    smallest = unit.ncpus + 1
    for at in range(unit.begin, unit.begin + unit.ncpus):
        size = 0
        for other in range(unit.begin, unit.begin + unit.ncpus):
            size += llc[unit.cpus[at]] == llc[unit.cpus[other]]
        if llc[unit.cpus[at]] >= 0 and size < unit.ncpus:
            smallest = min(smallest, size)
    return smallest


@njit(cache=True)
def same_llcs(lay, unit, other):
    """Return whether two units of one size have their last-level caches in the same places."""
    for at in range(unit.ncpus):
        one = lay.llc[unit.cpus[unit.begin + at]]
        two = lay.llc[other.cpus[other.begin + at]]
        if (one < 0) != (two < 0):
            return False
        if one < 0:
            continue
        if (lay.llc == one).sum() != (lay.llc == two).sum():
            return False
        for before in range(at):
            same = lay.llc[unit.cpus[unit.begin + before]] == one
            if same != (lay.llc[other.cpus[other.begin + before]] == two):
                return False
    return True


@njit(cache=True)
def same_clusters(lay, place, other):
    """Return whether two equally large nodes, as (stage, node), have equally large clusters."""
    count = lay.clusters[place]
    if count != lay.clusters[other]:
        return False
    first, second = lay.node_start[place], lay.node_start[other]
    for at in range(count):
        one = lay.cluster_size[place[0], first + lay.cluster_order[place[0], first + at]]
        two = lay.cluster_size[other[0], second + lay.cluster_order[other[0], second + at]]
        if one != two:
            return False
    return True


@njit(cache=True)
def is_regular(lay):
    """Return whether a machine is the same from each core on, and note where units may start."""
    seen = np.zeros(2, np.int64)
    for stage in range(2):
        for at in range(lay.nnodes[stage]):
            n = lay.ids[stage, at]
            first, ncpus = lay.node_start[stage, n], lay.node_size[stage, n]
            unit = Unit(lay.cpus[stage], first, ncpus, lay.node_first, lay.node_next)
            starts = lay.node_starts[stage, n]
            if not look_at_unit(unit, starts, seen):
                return False
            for c in range(first, first + lay.clusters[stage, n]):
                if not look_at_unit(
                    cluster_unit(lay, stage, c), lay.cluster_starts[stage, c], seen
                ):
                    return False
            if starts[0] > 1:
                start_with_clusters(lay, stage, n, unit, starts)
            for stage_before in range(stage + 1):
                for m in lay.ids[stage_before, : lay.nnodes[stage_before]]:
                    if lay.node_size[stage_before, m] == ncpus and not same_clusters(
                        lay, (stage, n), (stage_before, m)
                    ):
                        return False
    return lay.llc.max() < 0 or look_at_llcs(lay)


@njit(cache=True)
def look_at_llcs(lay):
    """Return whether all units of one size have their last-level caches in the same places."""
    units, starts = [], []
    for stage in range(2):
        for n in lay.ids[stage, : lay.nnodes[stage]]:
            first, ncpus = lay.node_start[stage, n], lay.node_size[stage, n]
            units.append(Unit(lay.cpus[stage], first, ncpus, lay.node_first, lay.node_next))
            starts.append(lay.node_starts[stage, n])
            for c in range(first, first + lay.clusters[stage, n]):
                units.append(cluster_unit(lay, stage, c))
                starts.append(lay.cluster_starts[stage, c])
    for at in range(len(units)):
        starts[at][2] = smallest_llc(units[at], lay.llc)
        for before in range(at):
            if units[before].ncpus == units[at].ncpus:
                if not same_llcs(lay, units[before], units[at]):
                    return False
                break
    return True


# ---- many calls ------------------------------------------------------------------------------


@njit(cache=True)
def machine_at(machines, m):
    """Return one of many machines."""
    return Machine(
        machines.node[m],
        machines.core[m],
        machines.cluster[m],
        machines.present[m],
        machines.online[m],
        machines.nr_node_ids[m],
        machines.llc[m],
    )


@njit(cache=True)
def new_work(width):
    """Return the arrays that calls write on, for machines of up to `width` CPUs and node ids."""
    return Work(
        np.empty(width, np.int64),
        np.empty(width, np.int64),
        np.zeros(width, np.int64),
        np.zeros(width, np.int64),
        np.empty(width, np.int32),
    )


@njit(cache=True, nogil=True)
def group_many(machines, lay, calls, groups, nummasks):
    """Make many calls; those of one machine should follow one another.

    `machines` is a `Machine` whose arrays have one axis more; `calls` are the machine, code,
    numgrps and offset of each call.
    """
    which, codes, numgrps, offsets = calls
    width = max(machines.node.shape[1], lay.ids.shape[1])
    scratch, work = np.empty(2 * width, np.int32), new_work(width)
    last = -1
    for at in range(len(which)):
        m = which[at]
        if m != last:
            lay_out(lay, machine_at(machines, m), scratch)
            last = m
        call = Call(codes[at], numgrps[at], offsets[at])
        nummasks[at] = group_cpus_evenly(call, lay, work, groups[at])


# ---- irqchips --------------------------------------------------------------------------------


class Runs(NamedTuple):
    """Runs of several devices; all of a run's calls follow one another, and so do its devices."""

    machine: Any
    code: Any
    chip: Any
    devices: Any
    """[run]: where its devices begin, and one more."""
    calls: Any
    """[device]: where its calls begin, and one more; those that make interrupts."""
    numgrps: Any
    offsets: Any
    row: Any
    """[device]: the row that is to be told when it is placed, or -1."""
    pre_vectors: Any
    """[device]: how many vectors it requests before those of its queues."""
    turns: Any
    """[run]: where its order of requests begins, and one more; none: device by device."""
    order: Any
    """Whose next vector is requested, counted within the run."""


class Masks(NamedTuple):
    """The masks of a run's calls, a row a call."""

    cpus: Any
    """The CPUs group by group, ascending in each."""
    start: Any
    """Where each group begins, and one more."""
    filled: Any
    """How many groups become interrupts, as far as they may have CPUs."""
    charged: Any
    """The CPU that each group's interrupt counts on until it is requested, or -1."""


class Place(NamedTuple):
    """A machine, and everything that is written while its runs are placed."""

    machine: Any
    lay: Any
    masks: Any
    state: Any
    work: Any
    group: Any
    turns: Any
    """The order of requests of a device that has its turns in a row."""


class Cursor(NamedTuple):
    """Where each device of a run is with its requests."""

    first: Any
    """Its first call."""
    calls: Any
    """The call of its next vector, from 0 on; -1: it has allocated nothing yet."""
    ncalls: Any
    group: Any
    pre_vectors: Any


class State(NamedTuple):
    """What the CPUs of a machine handle."""

    loads: Any
    """Queue interrupts that each handles."""
    submitters: Any
    """Possible CPUs that submit to the queues of these."""
    charges: Any
    """The same, and what is allocated and not requested yet."""
    hot: Any
    """Whether it handles one whose mask has no other CPU."""
    crossing: Any
    """Masks with CPUs of several nodes, and of several clusters."""


@fast
def by_group(masks, k, group, nummasks):
    """Put the CPUs of a call in order of their groups."""
    start, cpus = masks.start[k], masks.cpus[k]
    filled = min(nummasks, len(group))
    masks.filled[k] = filled
    start[:] = 0
    for cpu in range(len(group)):
        if 0 <= group[cpu] < filled:
            start[group[cpu] + 2] += 1
    for g in range(1, filled + 1):
        start[g + 1] += start[g]
    # Each group's start is one place too far, and is where the next one's is when it is full.
    for cpu in range(len(group)):
        if 0 <= group[cpu] < filled:
            cpus[start[group[cpu] + 1]] = cpu
            start[group[cpu] + 1] += 1


@fast
def least_charged(charges, online):
    """Return the online CPU that least is charged to, the first on a tie; -1: none is online."""
    chosen = -1
    for cpu in range(len(online)):
        if online[cpu] and (chosen < 0 or charges[cpu] < charges[chosen]):
            chosen = cpu
    return chosen


@fast
def allocate(chip, machine, masks, k, state):
    """Allocate a call's vectors: `its` charges each to the least loaded of all CPUs."""
    cpus, start, charged = masks.cpus[k], masks.start[k], masks.charged[k]
    node, cluster, online = machine.node, machine.cluster, machine.online
    hot, charges = state.hot, state.charges
    crossing_nodes = crossing_clusters = 0
    for g in range(masks.filled[k]):
        charged[g] = -1
        begin, end = start[g], start[g + 1]
        if begin == end:
            continue
        last = cpus[end - 1]
        across_nodes = across_clusters = any_online = False
        for at in range(begin, end):
            any_online |= online[cpus[at]] != 0
            across_nodes |= node[cpus[at]] != node[last]
            across_clusters |= cluster[cpus[at]] != cluster[last]
        crossing_nodes += across_nodes
        crossing_clusters += across_clusters and cluster[last] >= 0
        if begin + 1 == end and any_online:
            hot[last] = 1
        if chip == FIRST_OF_LEAST and any_online:
            charged[g] = least_charged(charges, online)
            charges[charged[g]] += 1
    state.crossing[0] += crossing_nodes
    state.crossing[1] += crossing_clusters


@inlined
def pick(chip, cpus, span, online, charges):
    """Return the CPU of a mask that an irqchip picks; -1: none is online.

    That is the one that least is charged to: the last one on a tie (x86), the first (`its`);
    elsewhere the first of all.
    """
    k, begin, end = span
    chosen = -1
    for at in range(begin, end):
        cpu = cpus[k, at]
        if online[cpu]:
            better = chip != FIRST and charges[cpu] < charges[chosen] + (chip == LAST_OF_LEAST)
            if chosen < 0 or better:
                chosen = cpu
    return chosen


@fast
def request_turns(chip, place, cursor, order, turn):
    """Request vectors in this order, until a device has allocated nothing yet: return when."""
    first, calls, ncalls, group, pre_vectors = cursor
    cpus, start, filled, charged = place.masks
    loads, submitters, charges = place.state.loads, place.state.submitters, place.state.charges
    online = place.machine.online
    while turn < len(order) and calls[order[turn]] >= 0:
        at = order[turn]
        turn += 1
        if pre_vectors[at]:
            pre_vectors[at] -= 1
            continue
        while calls[at] < ncalls[at] and group[at] >= filled[first[at] + calls[at]]:
            calls[at] += 1
            group[at] = 0
        if calls[at] == ncalls[at]:
            continue
        k, g = first[at] + calls[at], group[at]
        group[at] += 1
        if charged[k, g] >= 0:
            charges[charged[k, g]] -= 1
        cpu = pick(chip, cpus, (k, start[k, g], start[k, g + 1]), online, charges)
        if cpu >= 0:
            loads[cpu] += 1
            submitters[cpu] += start[k, g + 1] - start[k, g]
            charges[cpu] += 1
    return turn


@fast
def tell(counts, row, state):
    """Write down what the CPUs handle now."""
    for cpu in range(len(state.loads)):
        counts.loads[row, cpu] = state.loads[cpu]
        counts.submitters[row, cpu] = state.submitters[cpu]
        counts.hot[row, cpu] = state.hot[cpu]
    counts.crossing[row, 0], counts.crossing[row, 1] = state.crossing


@fast
def new_state(ncpus):
    """Return a state for machines of so many CPUs."""
    return State(
        np.empty(ncpus, np.int32),
        np.empty(ncpus, np.int32),
        np.empty(ncpus, np.int32),
        np.empty(ncpus, np.int32),
        np.empty(2, np.int32),
    )


@fast
def new_masks(ncalls, ncpus):
    """Return room for the masks of so many calls."""
    return Masks(
        np.empty((ncalls, ncpus), np.int32),
        np.empty((ncalls, ncpus + 2), np.int32),
        np.empty(ncalls, np.int32),
        np.empty((ncalls, ncpus), np.int32),
    )


@fast
def new_cursor(ndevices):
    """Return a cursor for runs of so many devices."""
    return Cursor(
        np.empty(ndevices, np.int64),
        np.empty(ndevices, np.int64),
        np.empty(ndevices, np.int64),
        np.empty(ndevices, np.int64),
        np.empty(ndevices, np.int64),
    )


@fast
def begin_run(runs, r, state, cursor):
    """Let no device have allocated anything, and no CPU handle anything."""
    for array in (state.loads, state.submitters, state.charges, state.hot, state.crossing):
        array[:] = 0
    first = runs.devices[r]
    for d in range(first, runs.devices[r + 1]):
        cursor.first[d - first] = runs.calls[d] - runs.calls[first]
        cursor.calls[d - first] = -1
        cursor.ncalls[d - first] = runs.calls[d + 1] - runs.calls[d]
        cursor.group[d - first] = 0
        cursor.pre_vectors[d - first] = runs.pre_vectors[d]


@fast
def allocate_device(runs, r, at, place, cursor):
    """Make a device's calls, and allocate all its vectors.  Returns how many."""
    masks, first, d = place.masks, cursor.first[at], runs.devices[r] + at
    vectors = runs.pre_vectors[d]
    for c in range(runs.calls[d], runs.calls[d + 1]):
        k = first + c - runs.calls[d]
        call = Call(runs.code[r], runs.numgrps[c], runs.offsets[c])
        nummasks = group_cpus_evenly(call, place.lay, place.work, place.group)
        by_group(masks, k, place.group, nummasks)
        allocate(runs.chip[r], place.machine, masks, k, place.state)
        vectors += masks.filled[k]
    cursor.calls[at] = 0
    return vectors


@fast
def place_run(runs, r, place, cursor, counts):
    """Place a run's interrupts in its order of requests."""
    begin_run(runs, r, place.state, cursor)
    chip, first = runs.chip[r], runs.devices[r]
    order = runs.order[runs.turns[r] : runs.turns[r + 1]]
    turn = 0
    while turn < len(order):
        turn = request_turns(chip, place, cursor, order, turn)
        if turn < len(order):
            allocate_device(runs, r, order[turn], place, cursor)
    for d in range(first, runs.devices[r + 1]):
        if not len(order):
            vectors = allocate_device(runs, r, d - first, place, cursor)
            place.turns[:vectors] = d - first
            request_turns(chip, place, cursor, place.turns[:vectors], 0)
        if runs.row[d] >= 0:
            tell(counts, runs.row[d], place.state)


@njit(cache=True, nogil=True)
def place_many(machines, lay, runs, counts):
    """Place the interrupts of many runs.

    `machines` is a `Machine` whose arrays have one axis more, and `counts` has a row for each one
    that `runs` names.
    """
    ncpus = machines.node.shape[1]
    width = max(ncpus, lay.ids.shape[1])
    scratch, work = np.empty(2 * width, np.int32), new_work(width)
    most_calls = most_devices = 0
    for r in range(len(runs.machine)):
        first, last = runs.devices[r], runs.devices[r + 1]
        most_devices = max(most_devices, last - first)
        most_calls = max(most_calls, runs.calls[last] - runs.calls[first])
    masks, state, group = new_masks(most_calls, ncpus), new_state(ncpus), np.empty(ncpus, np.int32)
    cursor = new_cursor(most_devices)
    turns = np.empty(most_calls * ncpus + runs.pre_vectors.max(), np.int64)
    before = -1
    for r in range(len(runs.machine)):
        machine = machine_at(machines, runs.machine[r])
        if runs.machine[r] != before:
            lay_out(lay, machine, scratch)
            before = runs.machine[r]
        place_run(runs, r, Place(machine, lay, masks, state, work, group, turns), cursor, counts)
