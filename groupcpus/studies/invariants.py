# SPDX-License-Identifier: GPL-2.0-only
"""What each call of a revision must keep, and how good revisions are; for a reader's own ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS, Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError
from groupcpus.machines.machine import machine_names, read_machine
from groupcpus.studies.lessons import allot, small, with_absent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INVARIANTS", "check_revision", "judge", "rank", "unusual_machines"]

WRAP = 1 << 32


def unusual_machines() -> dict[str, Topology]:
    """Return machines that are easily forgotten: lopsided, strided, with CPUs absent or alone.

    Examples
    --------
    >>> for name, machine in unusual_machines().items():
    ...     print(f"{name}: {machine}")
    one CPU: <Topology: 1 CPU, 1 node, 1 cluster, 1 core>
    nodes of 2, 6 and 8: <Topology: 16 CPUs, 3 nodes, 8 clusters, 8 cores>
    clusters of 1, 2 and 5: <Topology: 8 CPUs, 1 node, 3 clusters, 8 cores>
    clusters of 4 and 1: <Topology: 10 CPUs, 2 nodes, 4 clusters, 10 cores>
    no clusters known: <Topology: 21 CPUs, 3 nodes, 0 clusters, 21 cores>
    strided siblings: <Topology: 16 CPUs, 2 nodes, 4 clusters, 8 cores>
    a core absent: <Topology: 8 CPUs (6 present), 2 nodes, 4 clusters, 4 cores>
    a node absent: <Topology: 8 CPUs (4 present), 2 nodes, 4 clusters, 4 cores>
    """

    def made(cpus: str, nodes: list[str], clusters: list[str], siblings: list[str]) -> Topology:
        named = {str(node): members for node, members in enumerate(nodes)}
        parts = {"nodes": named, "clusters": clusters, "siblings": siblings}
        return Topology.from_dict(parts | {"possible": cpus, "present": cpus})

    pairs = [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]
    strided = [f"{cpu},{cpu + 8}" for cpu in range(8)]
    slices = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    half = {"present": "0-3", "online": "0-3"}
    return {
        "one CPU": Topology.uniform(1, 1, 1, None),
        "nodes of 2, 6 and 8": made("0-15", ["0-1", "2-7", "8-15"], pairs, pairs),
        "clusters of 1, 2 and 5": made("0-7", ["0-7"], ["0", "1-2", "3-7"], []),
        "clusters of 4 and 1": Topology.uniform(2, 5, 1, 4),
        "no clusters known": Topology.uniform(3, 7, 1, 0),
        "strided siblings": made("0-15", ["0-3,8-11", "4-7,12-15"], slices, strided),
        "a core absent": with_absent(),
        "a node absent": Topology.from_dict(small().to_dict() | half),
    }


INVARIANTS = {
    "accepted": "the engine accepts what its functions give",
    "covered": "every possible CPU is in exactly one group",
    "filled": "no group is empty while there are CPUs enough",
    "nodes": "nodes have as many groups as under cluster, equal ones in any order",
    "clusters": "the clusters of a node likewise",
    "sizes": "groups of a node, or of a cluster, differ by one CPU at most",
}
"""What `check_revision` looks at, the last three only where all CPUs are present.

As many groups as under `cluster` is from 1 to as many as CPUs, and says also that none crosses a
border.  Clusters count where `cluster` divides a node by cluster: when it has as many
groups as clusters.
"""


def check_revision(
    revision: str | Revision, machines: dict[str, Topology] | None = None
) -> "pd.DataFrame":
    """Try a revision on many calls and say which invariants hold.

    Parameters
    ----------
    revision : str or Revision
        A name in `REVISIONS` or one of your own.
    machines : dict of str to Topology, optional
        Where to try it; all machines that ship with the project and `unusual_machines` when left
        out.  On each every number of groups up to one more than CPUs is tried, with counters from
        0 on and near 2^32.

    Returns
    -------
    DataFrame
        A row for each of `INVARIANTS`.  Columns: invariant, machines and calls (that were looked
        at), first counter-example ("holds" if there is none): of the smallest machine, with the
        fewest groups.

    Raises
    ------
    RequestError
        If there is no such revision.  What the revision's functions raise is passed on, except
        that a `GroupCpusError` counts as not accepted.

    Notes
    -----
    "holds" says that these calls gave no counter-example; it is no proof.

    Examples
    --------
    >>> frame = check_revision("rotate-v2", {"four": Topology.uniform(1, 4, 1, 4)})
    >>> frame.loc["covered", "first counter-example"]
    'holds'
    >>> frame.loc["filled", "first counter-example"]
    'four, 3 groups, counter 4294967295: 0-1 2-3 -'
    """
    import pandas as pd

    revision = get_revision(revision)
    if machines is None:
        shipped = {name: read_machine(name).topology for name in machine_names()}
        machines = shipped | unusual_machines()
    tried: dict[str, set[str]] = {name: set() for name in INVARIANTS}
    calls = dict.fromkeys(INVARIANTS, 0)
    broken: dict[str, str] = {}
    for name, topology in sorted(machines.items(), key=lambda item: len(item[1].possible)):
        for numgrps, counter in _calls(revision, topology):
            try:
                offset = revision.offset(numgrps, counter)
                masks = group_cpus_evenly(
                    topology, numgrps, revision=revision, spread_offset=offset
                ).bits
                found = {"accepted": True} | judge(topology, masks)
                shown = " ".join(str(CpuSet.from_mask(mask)) or "-" for mask in masks)
            except GroupCpusError as error:
                found, shown = {"accepted": False}, str(error)
            for invariant, holds in found.items():
                tried[invariant].add(name)
                calls[invariant] += 1
                if not holds and invariant not in broken:
                    groups = f"{numgrps} group{'s' * (numgrps != 1)}"
                    broken[invariant] = f"{name}, {groups}, counter {counter}: {_short(shown)}"
    rows = [
        (meaning, len(tried[name]), calls[name], broken.get(name, "holds" if calls[name] else "-"))
        for name, meaning in INVARIANTS.items()
    ]
    columns = ["invariant", "machines", "calls", "first counter-example"]
    return pd.DataFrame(rows, columns=columns, index=list(INVARIANTS))


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200].rsplit(" ", 1)[0] + " ..."


def _calls(revision: Revision, topology: Topology) -> Iterator[tuple[int, int]]:
    """List numbers of groups and counters; one counter if the revision doesn't look at it."""
    for numgrps in range(1, len(topology.possible) + 2):
        steady = revision.counts(numgrps) in (0, False)
        counters = (0, 1, 2, 5, 1000, WRAP - 13, WRAP - 2, WRAP - 1)
        yield from ((numgrps, counter) for counter in counters[: 1 if steady else None])


def judge(topology: Topology, masks: Sequence[int]) -> dict[str, bool]:
    """Return which invariants hold in one call."""
    possible = topology.possible.mask
    filled = [mask for mask in masks if mask]
    union = 0
    for mask in filled:
        union |= mask
    cpus = possible.bit_count()
    covered = union == possible and sum(map(int.bit_count, filled)) == cpus
    found = {"covered": covered, "filled": len(filled) == min(len(masks), cpus)}
    if topology.present != topology.possible:
        return found
    nodes = [(cpus.mask, cpus) for cpus in topology.nodes.values() if cpus]
    if len(masks) <= len(nodes):
        # Whole nodes: each one is in one group.
        return found | {"nodes": all(_inside(filled, node) == 1 for node, _ in nodes)}
    found["nodes"] = _fair(filled, [node for node, _ in nodes], min(len(masks), cpus))
    found["sizes"] = True
    for node, cpus_of_node in nodes:
        within = [mask for mask in filled if mask & node]
        clusters = [CpuSet(of).mask for of in topology.clusters_in(cpus_of_node) or []]
        parts = [node]
        if 0 < len(clusters) <= len(within):
            found["clusters"] = found.get("clusters", True) and _fair(within, clusters, len(within))
            parts = clusters
        for part in parts:
            sizes = [mask.bit_count() for mask in within if mask & part]
            found["sizes"] &= max(sizes, default=0) - min(sizes, default=0) <= 1
    return found


def _inside(masks: Sequence[int], part: int) -> int:
    return sum(bool(mask & part) for mask in masks)


def _fair(masks: Sequence[int], parts: Sequence[int], ngroups: int) -> bool:
    """Return whether parts have as many groups as the kernel allots, equal ones in any order."""
    ncpus = [part.bit_count() for part in parts]
    groups = [_inside(masks, part) for part in parts]
    if not len(parts) <= ngroups <= sum(ncpus):
        return False
    expected = allot(ncpus, ngroups)
    return sorted(zip(ncpus, groups, strict=True)) == sorted(zip(ncpus, expected, strict=True))


def rank(
    revisions: Sequence[str | Revision] | None = None, machines: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Rank revisions by how evenly interrupts end up on the machines of the project.

    Parameters
    ----------
    revisions : sequence of str or Revision, optional
        Names in `REVISIONS` or your own; all of `REVISIONS` when left out.
    machines : sequence of str, optional
        Names as `read_machine` takes them; all that ship with the project when left out, but those
        with a network device that has no groups (``mana``).

    Returns
    -------
    DataFrame
        The best revision first.  Of x86: how often the greatest number of interrupts a CPU is the
        least that revisions as fair as `cluster` reach (`bound reached`), and how far above that it
        is in the mean (`above bound`, interrupts), device by device and over three random orders
        of requests (`in parallel`).  Of gicv3: which part of the CPUs that such
        revisions can use is used in the mean (`CPUs used`).  `runs` counts the configurations, half
        of them on each irqchip, device by device.

    Notes
    -----
    Every machine has 2 to 8 equal devices, with its own number of queues and some from 2 to one
    less than CPUs.  Both irqchips are tried on each, whatever the machine has.  The order is by
    `bound reached`, then `above bound`, then `CPUs used`.  A revision that breaks an invariant may
    do better than the bounds; ask `check_revision` first.

    Examples
    --------
    >>> rank(["cluster", "rotate-tiled"], ["D16plds_v6"]).T.round(2)
                       rotate-tiled  cluster
    runs                      98.00    98.00
    bound reached              1.00     0.69
    above bound                0.00     0.41
    bound in parallel          0.67     0.69
    above in parallel          0.33     0.41
    CPUs used                  0.99     0.56
    """
    import pandas as pd

    from groupcpus.studies.families import scores
    from groupcpus.studies.sweeps import sweep

    wanted = list(REVISIONS if revisions is None else revisions)
    frames = []
    for name in machine_names() if machines is None else machines:
        machine = read_machine(name)
        if machines is None and any(device.kind == "mana" for device in machine.devices):
            continue
        cpus = len(machine.topology.possible)
        queues = {*range(2, cpus, max(1, cpus // 8)), machine.devices[0].io_queues}
        # In parallel too, where the irqchip minds.
        in_turn, parallel = ("device-by-device",), ("random-0", "random-1", "random-2")
        for irqchip, orders in (("x86", in_turn + parallel), ("gicv3", in_turn)):
            frames.append(
                sweep(
                    [machine],
                    devices=range(2, 9),
                    queues=sorted(queues),
                    revisions=wanted,
                    irqchips=[irqchip],
                    requests=orders,
                    workers=0,
                    progress=False,
                )
            )
    frame = pd.concat(frames, ignore_index=True)
    score = scores(frame)
    one_by_one = frame[frame["requests"] == "device-by-device"]
    table = pd.DataFrame(
        {
            "runs": one_by_one.groupby("revision", sort=False).size(),
            "bound reached": score["x86", "reachable"],
            "above bound": score["x86", "above"],
            "bound in parallel": score["parallel", "reachable"],
            "above in parallel": score["parallel", "above"],
            "CPUs used": score["gicv3", "of usable"],
        }
    )
    order = ["bound reached", "above bound", "CPUs used"]
    table.index.name = None
    return table.sort_values(order, ascending=[False, True, False], kind="stable")
