# SPDX-License-Identifier: GPL-2.0-only
"""R8: how small groups get, and where a reviewer's rule about that holds."""

from functools import cache
from itertools import product

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.topology import Topology
from groupcpus.studies.claims.trials import Outcome, Trial, scenario

__all__ = ["all_small", "cluster_shapes", "smallest_mask", "smallest_rule_breaker"]


@cache
def cluster_shapes(parts: int, size: int) -> list[Topology]:
    """Make every machine of `parts` times `size` CPUs, cut anywhere between parts.

    A cut is none, between clusters, or between nodes.
    """
    everything = CpuSet(range(parts * size))
    machines = []
    for cuts in product(("", "cluster", "node"), repeat=parts - 1):
        clusters: list[list[int]] = [[]]
        nodes: list[list[int]] = [[]]
        for part, cut in enumerate(("", *cuts)):
            if cut:
                clusters.append([])
            if cut == "node":
                nodes.append([])
            cpus = range(part * size, (part + 1) * size)
            clusters[-1] += cpus
            nodes[-1] += cpus
        sets = {node: CpuSet(cpus) for node, cpus in enumerate(nodes)}
        made = tuple(map(CpuSet, clusters))
        machines.append(Topology(everything, everything, everything, sets, made))
    return machines


def smallest_mask(topology: Topology, numgrps: int, revision: str, offset: int) -> int:
    """Return the size of the smallest mask of a call."""
    grouping = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset)
    return min(mask.bit_count() for mask in grouping.bits)


_RULE_REVISIONS = {"numa": 1, "cluster": 1, "rotate-v2": 6, "rotate-next": 6}


@cache
def smallest_rule_breaker(revision: str, least: int, size: int, parts: int) -> str:
    """Find the smallest machine where ``ngroups <= ncpus / least`` leaves a group with fewer CPUs.

    The exact condition.  Call a node that is dealt as a whole, or a cluster that is dealt by
    itself, a *unit*, and let it have n CPUs and g groups.  Dealing gives each of its groups n // g
    or n // g + 1 CPUs, and some group n // g unless g divides n, where all have it.  So **every
    group of a call has at least k CPUs if and only if k * g <= n holds for every unit** (when whole
    nodes go round, the nodes of a group are added up instead).  The rule says that this follows
    from k * G <= N for all G groups and N CPUs together.  With one unit it does: g = G, n = N.

    It also does for ``numa`` and ``cluster`` if every unit has a multiple of k CPUs.  Let n = k*m,
    and let the units that are not served yet have N = k*M CPUs and G <= M groups.  The next unit
    gets g = max(1, floor(G*m / M)).  As G <= M, g <= m.  What is left fits again: if G*m >= M then
    G - g = ceil(G*(M - m) / M) <= M - m; else G*m < M, and G - 1 < G - G*m/M <= M - m.  So by
    induction g <= m, that is k*g <= n, everywhere: for nodes, then for the clusters of each node.

    A unit with another number of CPUs may break it: 3 CPUs with 2 groups leave one with 1.  And
    rotation breaks it even without: re-placed extras ignore proportion, so a small cluster whose
    floor was raised to 1 may get a second group.

    Parameters
    ----------
    revision : str
        A name in `REVISIONS`.
    least : int
        CPUs that each group should have: the rule's divisor.
    size : int
        Nodes and clusters are multiples of this many CPUs.
    parts : int
        The machines have at most this many times `size` CPUs.

    Returns
    -------
    str
        The machine in words, or an empty text if there is none.

    Examples
    --------
    >>> smallest_rule_breaker("numa", 2, 1, 5)
    '4 CPUs, nodes 0-2 | 3, 2 groups: 3 alone'
    >>> smallest_rule_breaker("numa", 2, 2, 5)
    ''
    """
    for count in range(1, parts + 1):
        for topology in cluster_shapes(count, size):
            cpus = len(topology.possible)
            for numgrps in range(1, cpus // least + 1):
                for offset in range(_RULE_REVISIONS[revision]):
                    if smallest_mask(topology, numgrps, revision, offset) < least:
                        return _breaker(topology, numgrps, revision, offset)
    return ""


def _breaker(topology: Topology, numgrps: int, revision: str, offset: int) -> str:
    masks = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset).masks
    nodes = " | ".join(map(str, topology.nodes.values()))
    clusters = " | ".join(map(str, topology.clusters))
    where = f"nodes {nodes}" if len(topology.nodes) > 1 else ""
    if len(topology.clusters) > len(topology.nodes):
        where = ", ".join(filter(None, [where, f"clusters {clusters}"]))
    at = f" at offset {offset}" if revision.startswith("rotate") else ""
    least = min(masks, key=len)
    alone = "alone" if len(least) == 1 else "only"
    cpus = len(topology.possible)
    return f"{cpus} CPUs, {where}, {numgrps} groups{at}: {least} {alone}"


def _rule(least: int, parts: int) -> Outcome:
    """Search where the reviewer's rule holds: kinds of machines, a trial each and revision."""
    trials = []
    notes = []
    for revision in _RULE_REVISIONS:
        one_unit = all(
            smallest_mask(Topology.uniform(1, cpus, 1, cpus), numgrps, revision, offset) >= least
            for cpus in range(1, 17)
            for numgrps in range(1, cpus // least + 1)
            for offset in range(17)
        )
        trials.append(Trial(f"{revision}, one node that is one cluster", one_unit))
        even = smallest_rule_breaker(revision, least, least, 5)
        kind = f"nodes and clusters multiples of {least} CPUs (tried up to {5 * least})"
        trials.append(Trial(f"{revision}, {kind}", not even))
        any_size = smallest_rule_breaker(revision, least, 1, parts)
        trials.append(Trial(f"{revision}, any nodes and clusters", not any_size))
        notes.append(f"{revision}: {any_size}" + (f"; {even}" if even else ""))
    note = (
        "A group is too small if and only if some node or cluster that is dealt by itself has "
        f"fewer than {least} times as many CPUs as groups. Smallest machines that break the rule: "
        + ". ".join(notes)
        + "."
    )
    return Outcome(tuple(trials), note=note)


@scenario("R8a")
def _r8a() -> Outcome:
    """Compare with what every machine of up to 5 CPUs does."""
    seen: dict[str, set[bool]] = {}
    for revision, topology, numgrps, least in all_small():
        cpus = len(topology.possible)
        if numgrps < cpus:
            kind = "ncpus/2 < ngroups < ncpus" if 2 * numgrps > cpus else "ngroups <= ncpus/2"
            seen.setdefault(f"{revision}, {kind}", set()).add(least == 1)
    return Outcome(tuple(Trial(setting, found == {True}) for setting, found in seen.items()))


@scenario("R8b")
def _r8b() -> Outcome:
    """More groups than half the CPUs: not all can have two.  Checked all the same."""
    found = {
        least == 1
        for _, topology, numgrps, least in all_small()
        if len(topology.possible) < 2 * numgrps < 2 * len(topology.possible)
    }
    return Outcome((Trial("", found == {True}),))


@cache
def all_small() -> list[tuple[str, Topology, int, int]]:
    """Return revision, machine, groups and smallest mask, for all machines of up to 5 CPUs."""
    return [
        (revision, topology, numgrps, smallest_mask(topology, numgrps, revision, 0))
        for count in range(1, 6)
        for topology in cluster_shapes(count, 1)
        for revision in _RULE_REVISIONS
        for numgrps in range(1, count + 1)
    ]


@scenario("R8c")
def _r8c() -> Outcome:
    return _rule(2, 4)


@scenario("R8d")
def _r8d() -> Outcome:
    return _rule(3, 6)


@scenario("R8e")
def _r8e() -> Outcome:
    """Three unequal clusters: a larger one should get no fewer groups than a smaller one."""
    everything = CpuSet("0-9")
    clusters = [CpuSet("0-3"), CpuSet("4-7"), CpuSet("8-9")]
    topology = Topology(everything, everything, everything, {0: everything}, clusters)
    trials: list[Trial] = []
    masks: dict[str, str] = {}
    for revision, offsets in (("cluster", range(1)), ("rotate-v2", range(6))):
        for offset in offsets:
            made = group_cpus_evenly(topology, 4, revision=revision, spread_offset=offset).masks
            masks.setdefault(revision, " | ".join(map(str, made)))
            shares = [sum(mask <= cluster for mask in made) for cluster in clusters]
            trials.append(Trial(f"{revision}, 4 groups", shares[2] <= min(shares[:2]), offset))
    note = "; ".join(f"{revision} from 0: {shown}" for revision, shown in masks.items())
    return Outcome(tuple(trials), "offset", f"Clusters 0-3, 4-7, 8-9. {note}.")
