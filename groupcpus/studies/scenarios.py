# SPDX-License-Identifier: GPL-2.0-only
"""How each claim of the ledger is computed: one function a claim, named by its id and part.

A scenario runs the engine under every setting that the mail leaves open, a `Trial` each; whether
a claim holds is for `groupcpus.studies.claims` to say.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import Grouping, group_cpus_evenly
from groupcpus.engine.irq_setup import cpumask_local_spread, irq_setup
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.engine.rotations import deal_rotating, place_extras
from groupcpus.engine.topology import Topology
from groupcpus.machines.bounds import most_used
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run

__all__ = [
    "SCENARIOS",
    "Finding",
    "Trial",
    "d96_pattern",
    "number_ranges",
    "probe_sequences",
    "smallest_rule_breaker",
]

_WRAP = 1 << 32


@dataclass(frozen=True)
class Trial:
    """A value that the engine computed under one setting.

    Attributes
    ----------
    setting : str
        What is assumed, in words; empty if the mail leaves nothing open.
    value : object
        What comes out, in the form that the claim's asserted value has.
    number : int, optional
        A number that is part of the setting, such as where the counter stood.
    """

    setting: str
    value: Any
    number: int | None = None


@dataclass(frozen=True)
class Finding:
    """What a scenario found: its trials, what their numbers count, and what else there is to say.

    Attributes
    ----------
    trials : tuple of Trial
        None of them if the value is not for a model to compute.
    numbers : str
        The name of the trials' numbers.
    note : str
        In words; its figures are computed too.
    """

    trials: tuple[Trial, ...]
    numbers: str = "counter from"
    note: str = ""


def number_ranges(numbers: Iterable[int]) -> str:
    """Print whole numbers of any size as ranges.

    Examples
    --------
    >>> number_ranges([5, 0, 1, 2, 4294967295])
    '0-2, 5, 4294967295'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


SCENARIOS: dict[str, Callable[[], Finding]] = {}


@cache
def _machine(name: str) -> Machine:
    return read_machine(name)


def _scenario(name: str) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
    def register(function: Callable[[], Finding]) -> Callable[[], Finding]:
        SCENARIOS[name] = cache(function)
        return function

    return register


# What ran before the patch: the mails don't say.
_BEFORE: dict[str, Revision] = {
    "numa (6.3 to 6.19)": REVISIONS["numa"],
    "numa-single-pop (6.3 to 6.8 or so)": REVISIONS["numa-single-pop"],
    "cluster (7.0 on)": REVISIONS["cluster"],
    "cluster, older sort (no kernel)": replace(REVISIONS["cluster"], sort="single-pop"),
    "cluster, stable sort (no kernel)": replace(REVISIONS["cluster"], sort="stable"),
}
_SORTS = {
    "double-pop sort (7.0, 6.9 on)": "double-pop",
    "older, single-pop sort": "single-pop",
    "stable sort (no kernel)": "stable",
}
_ORDERS = ("admin-first", "interleaved")


@lru_cache(maxsize=512)
def _run(
    machine: str, revision: Revision, probe: str | tuple[str, ...] = "admin-first", start: int = 0
) -> Run:
    return simulate(machine, revision=revision, probe=probe, spread_start=start)


def _before(machine: str, value: Callable[[Run], Any], note: str = "") -> Finding:
    """Compute a value for every revision that may have run before the patch."""
    trials = (Trial(name, value(_run(machine, rev))) for name, rev in _BEFORE.items())
    return Finding(tuple(trials), note=note)


def _starts(
    machine: str, revision: str, period: int, value: Callable[[Run], Any], note: str = ""
) -> Finding:
    """Compute a value for both named probe orders and every start, up to the period."""
    return Finding(
        tuple(
            Trial(f"{revision}, {order}", value(_run(machine, REVISIONS[revision], order, at)), at)
            for order in _ORDERS
            for at in range(period)
        ),
        numbers=_modulo(period),
        note=note,
    )


def probe_sequences(devices: int) -> list[str]:
    """List every order in which disks can make their two calls, as far as it matters.

    Equal disks are exchangeable, so an order is known by which calls are for an admin queue (A) and
    which for I/O queues (I); each I follows an A of its own.  There are as many as the Catalan
    number says, 132 for 6 disks.

    Examples
    --------
    >>> probe_sequences(2)
    ['AAII', 'AIAI']
    """

    def extend(admin: int, io: int) -> Iterator[str]:
        if not admin and not io:
            yield ""
        if admin:
            yield from (f"A{rest}" for rest in extend(admin - 1, io))
        if io > admin:
            yield from (f"I{rest}" for rest in extend(admin, io - 1))

    return list(extend(devices, devices))


def _named_first(sequences: list[str]) -> list[str]:
    return sorted(sequences, key=lambda sequence: _sequence_name(sequence) not in _ORDERS)


def _modulo(period: int) -> str:
    """Name the counter's start, of which the layout depends on a remainder only."""
    return f"counter modulo {period} from"


def _sequence_name(sequence: str) -> str:
    devices = len(sequence) // 2
    if sequence == "A" * devices + "I" * devices:
        return "admin-first"
    return "interleaved" if sequence == "AI" * devices else sequence


@lru_cache(maxsize=4096)
def _grouping(machine: str, revision: str, numgrps: int, offset: int) -> Grouping:
    topology = _machine(machine).topology
    return group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset)


@lru_cache(maxsize=4096)
def _place(machine: str, groupings: tuple[Grouping, ...]) -> dict[int, int]:
    """Place the interrupts of disks that got these groupings, and count them a CPU.

    Admin queues' interrupts are left out: they are not managed, and none of the irqchips lets them
    weigh in the choice for managed ones.
    """
    topology = _machine(machine).topology
    chip = make_irqchip(_machine(machine).irqchip, topology)
    counts = Counter(cpu for grouping in groupings for cpu in chip.assign(grouping.masks))
    return {cpu: counts[cpu] for cpu in topology.online}


def _sequences(
    machine: str, starts: int, value: Callable[[dict[int, int]], Any], note: str = ""
) -> Finding:
    """Compute a value of rotate-v2 for every probe sequence and start of the counter."""
    disks = _machine(machine).devices
    trials = []
    for sequence in _named_first(probe_sequences(len(disks))):
        for start in range(starts):
            offsets = [start + at for at, call in enumerate(sequence) if call == "I"]
            groupings = (_grouping(machine, "rotate-v2", disks[0].io_queues, at) for at in offsets)
            counts = _place(machine, tuple(groupings))
            trials.append(Trial(f"order {_sequence_name(sequence)}", value(counts), start))
    return Finding(tuple(trials), _modulo(starts), note)


def _histogram(counts: Iterable[int]) -> dict[int, int]:
    """Count CPUs by their interrupts, the idle ones left out."""
    return dict(sorted(Counter(filter(None, counts)).items()))


def _span(counts: Iterable[int]) -> str:
    counts = list(counts)
    return f"{min(counts)}-{max(counts)}"


def _hot(run: Run) -> CpuSet:
    """Give the CPUs that serve an interrupt which can only run there."""
    return CpuSet(irq.affinity.first or 0 for irq in run.interrupts if len(irq.affinity) == 1)


def _counts_of(run: Run, *cpus: int) -> dict[int, int]:
    return {cpu: run.counts[cpu] for cpu in cpus}


# --- The rotation patch and its thread ------------------------------------------------------------


@_scenario("R1")
def _r1() -> Finding:
    machine = _machine("L96as_v4")
    nodes = machine.topology.nodes

    def value(run: Run) -> Any:
        first = run.calls[-1].grouping.masks
        return {
            "disks": len(machine.devices),
            "queues": len(first),
            "cpus_a_node": [len(cpus) for cpus in nodes.values()],
            "queues_a_node": [sum(mask <= cpus for mask in first) for cpus in nodes.values()],
        }

    return _before("L96as_v4", value)


@_scenario("R2a")
def _r2a() -> Finding:
    nodes = _machine("L96as_v4").topology.nodes

    def value(run: Run) -> Any:
        masks = run.calls[-1].grouping.masks
        sizes = [Counter(len(m) for m in masks if m <= cpus) for cpus in nodes.values()]
        return dict(sizes[0]) if sizes[0] == sizes[1] else [dict(size) for size in sizes]

    return _before("L96as_v4", value)


@_scenario("R2b")
def _r2b() -> Finding:
    def value(run: Run) -> Any:
        single = Counter(irq.device for irq in run.interrupts if len(irq.affinity) == 1)
        return {"a_disk": max(single.values()), "in_all": sum(single.values())}

    return _before("L96as_v4", value)


@_scenario("R3a")
def _r3a() -> Finding:
    return _before("L96as_v4", lambda run: _histogram(run.counts.values()))


@_scenario("R3b")
def _r3b() -> Finding:
    return _before("L96as_v4", lambda run: _counts_of(run, 0, 1, 34, 47))


@_scenario("R4")
def _r4() -> Finding:
    """Where the hot CPUs are depends on what ran.

    A node of 48 CPUs has 31 groups.  Dealt as a whole (``numa``), the first 17 get a second CPU,
    so the last 14 CPUs are hot.  Dealt by cluster, 7 of 24 clusters get two groups, and the
    proportional rule gives them to those that the sort leaves last: the last ones only if the sort
    is stable, which the kernel's is not.
    """
    hot = _hot(_run("L96as_v4", REVISIONS["cluster"]))
    note = f"Linux 7.x (cluster, double-pop sort), which the patch is for, really has {hot}."
    return _before("L96as_v4", _hot, note)


@_scenario("R5a")
def _r5a() -> Finding:
    def value(run: Run) -> Any:
        return {"most": max(run.counts.values()), "used": run.summary.used}

    return _starts("L96as_v4", "rotate-v2", 24, value)


@_scenario("R5b")
def _r5b() -> Finding:
    def value(run: Run) -> Any:
        return _counts_of(run, 0, 1, 2, 3, 47)

    return _starts("L96as_v4", "rotate-v2", 24, value)


@_scenario("R6a")
def _r6a() -> Finding:
    before = len(_run("L96as_v4", REVISIONS["cluster"]).interrupts)

    def value(run: Run) -> Any:
        return {"before": before, "after": sum(run.counts.values())}

    return _starts("L96as_v4", "rotate-v2", 24, value)


@_scenario("R6b")
def _r6b() -> Finding:
    def masks_a_cpu(run: Run) -> int:
        seen = Counter((irq.device, cpu) for irq in run.interrupts for cpu in irq.affinity)
        every = len(run.machine.topology.possible) * len(run.machine.devices)
        return max(seen.values()) if len(seen) == every else 0

    before = masks_a_cpu(_run("L96as_v4", REVISIONS["cluster"]))

    def value(run: Run) -> Any:
        return {"before": before, "after": masks_a_cpu(run)}

    return _starts("L96as_v4", "rotate-v2", 24, value)


@_scenario("R7")
def _r7() -> Finding:
    """Six callers in a row place 7 extras on 24 clusters; how many meet on the fullest cluster."""

    def overlap(start: int, stride: int | None) -> int:
        met: Counter[int] = Counter()
        for caller in range(start, start + 6):
            allotted = place_extras([2] * 24, [1] * 17 + [2] * 7, [1] * 24, caller, stride)
            met.update(at for at, groups in enumerate(allotted) if groups > 1)
        return max(met.values())

    return Finding(
        tuple(
            Trial("", {"with_stride": overlap(at, None), "stride_1": overlap(at, 1)}, at)
            for at in range(24)
        )
    )


@cache
def _shapes(parts: int, size: int) -> list[Topology]:
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
        machines.append(Topology(everything, everything, everything, sets, map(CpuSet, clusters)))
    return machines


def _smallest_mask(topology: Topology, numgrps: int, revision: str, offset: int) -> int:
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
        for topology in _shapes(count, size):
            cpus = len(topology.possible)
            for numgrps in range(1, cpus // least + 1):
                for offset in range(_RULE_REVISIONS[revision]):
                    if _smallest_mask(topology, numgrps, revision, offset) < least:
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


def _rule(least: int, parts: int) -> Finding:
    """Search where the reviewer's rule holds: kinds of machines, a trial each and revision."""
    trials = []
    notes = []
    for revision in _RULE_REVISIONS:
        one_unit = all(
            _smallest_mask(Topology.uniform(1, cpus, 1, cpus), numgrps, revision, offset) >= least
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
    return Finding(tuple(trials), note=note)


@_scenario("R8a")
def _r8a() -> Finding:
    """Compare with what every machine of up to 5 CPUs does."""
    seen: dict[str, set[bool]] = {}
    for revision, topology, numgrps, least in _all_small():
        cpus = len(topology.possible)
        if numgrps < cpus:
            kind = "ncpus/2 < ngroups < ncpus" if 2 * numgrps > cpus else "ngroups <= ncpus/2"
            seen.setdefault(f"{revision}, {kind}", set()).add(least == 1)
    return Finding(tuple(Trial(setting, found == {True}) for setting, found in seen.items()))


@_scenario("R8b")
def _r8b() -> Finding:
    """More groups than half the CPUs: not all can have two.  Checked all the same."""
    found = {
        least == 1
        for _, topology, numgrps, least in _all_small()
        if len(topology.possible) < 2 * numgrps < 2 * len(topology.possible)
    }
    return Finding((Trial("", found == {True}),))


@cache
def _all_small() -> list[tuple[str, Topology, int, int]]:
    return [
        (revision, topology, numgrps, _smallest_mask(topology, numgrps, revision, 0))
        for count in range(1, 6)
        for topology in _shapes(count, 1)
        for revision in _RULE_REVISIONS
        for numgrps in range(1, count + 1)
    ]


@_scenario("R8c")
def _r8c() -> Finding:
    return _rule(2, 4)


@_scenario("R8d")
def _r8d() -> Finding:
    return _rule(3, 6)


def _empty_masks(revision: str, counter: int) -> int:
    run = _run("overflow_4cpu", REVISIONS[revision], start=counter)
    return sum(not mask for call in run.calls for mask in call.filled)


_NEAR_WRAP = range(_WRAP - 6, _WRAP)


@_scenario("R9a")
def _r9a() -> Finding:
    """Show it on the smallest machine; a sum that asks for too many CPUs needs 4 of them."""
    cpus, groups = next(
        (ncpus, ngroups)
        for ncpus in range(1, 9)
        for ngroups in range(1, ncpus + 1)
        if any(_runs_dry(ncpus, ngroups, counter) for counter in _NEAR_WRAP)
    )
    note = f"The smallest machine that shows it has {cpus} CPUs, with {groups} groups."
    trials = (
        Trial("overflow_4cpu, rotate-v2", _empty_masks("rotate-v2", at) > 0, at)
        for at in (*range(6), *_NEAR_WRAP)
    )
    return Finding(tuple(trials), "counter", note)


def _runs_dry(ncpus: int, ngroups: int, counter: int) -> bool:
    """Tell whether the groups before the last take all CPUs."""
    return sum(deal_rotating(ncpus, ngroups, counter).sizes[:-1]) >= ncpus


@_scenario("R9b")
def _r9b() -> Finding:
    trials = (
        Trial("rotate-v2-fixed", _empty_masks("rotate-v2-fixed", at) == 0, at)
        for at in (*range(6), *_NEAR_WRAP)
    )
    return Finding(tuple(trials), "counter")


@_scenario("R9c")
def _r9c() -> Finding:
    """Compare what groups ask for with the CPUs there are, for every deal of up to 24 CPUs."""
    harmless = {True: True, False: True}
    for ncpus, counter in product(range(1, 25), range(_WRAP - 24, _WRAP)):
        for ngroups in range(1, ncpus + 1):
            fits = sum(deal_rotating(ncpus, ngroups, counter).sizes) == ncpus
            harmless[_WRAP % ngroups == 0] &= fits
    return Finding(
        (
            Trial("a node's or cluster's number of groups is a power of 2", harmless[True]),
            Trial("it is any other number", harmless[False]),
        )
    )


@_scenario("R10a")
def _r10a() -> Finding:
    machine = _machine("L48s_v2")
    topology = machine.topology
    sizes = {len(cpus) for cpus in topology.nodes.values()}
    value = {
        "nodes": len(topology.nodes),
        "cpus_a_node": sizes.pop() if len(sizes) == 1 else sorted(sizes),
        "clusters": len(topology.clusters),
        "irqs": len(_run("L48s_v2", REVISIONS["cluster"]).interrupts),
    }
    return Finding((Trial("", value),))


@_scenario("R10b")
def _r10b() -> Finding:
    return _before("L48s_v2", lambda run: _histogram(run.counts.values()))


@_scenario("R10c")
def _r10c() -> Finding:
    """Try every probe sequence.

    The 2 extras of a node with 6 groups go to clusters 0 and 2 of 4, or 1 and 3, by whether the
    offset is even; what counts is thus how many of the I/O calls take even offsets.
    """
    note = (
        "The nodes with 6 groups give clusters 0 and 2 an extra at even offsets, 1 and 3 at odd "
        "ones: with three I/O calls of each kind no CPU has more than 5."
    )
    return _sequences("L48s_v2", 4, lambda counts: _span(counts.values()), note)


@_scenario("R10d")
def _r10d() -> Finding:
    return _before("L48s_v2", lambda run: run.best)


@_scenario("R10e")
def _r10e() -> Finding:
    before = sorted(_run("L48s_v2", REVISIONS["cluster"]).summary.per_node.values())
    nodes = _machine("L48s_v2").topology.nodes

    def value(counts: dict[int, int]) -> Any:
        after = sorted(sum(counts[cpu] for cpu in cpus) for cpus in nodes.values())
        return {"before": before, "after": after}

    per_node = _run("L48s_v2", REVISIONS["cluster"]).summary.per_node
    note = "Node by node: " + "/".join(map(str, per_node.values())) + "."
    return _sequences("L48s_v2", 4, value, note)


# How vectors of disks that are probed in parallel come to be allocated.
_BY_DISK = "vectors allocated disk by disk"
_MIXED = "vectors of disks allocated in some mixed order"


def _skip1(node: int, interleaved: bool) -> Iterator[Trial]:
    """Try counter starts, and a foreign call between two disks', for rotate-v2-skip1."""
    cpus = _machine("L48s_v2").topology.nodes[node]
    for gap, start in product(range(6), range(4)):
        offsets = [start + disk + (0 < gap <= disk) for disk in range(6)]
        groupings = tuple(_grouping("L48s_v2", "rotate-v2-skip1", 32, at) for at in offsets)
        setting = f"one more call by another device after disk {gap}" if gap else "disks only"
        if interleaved:
            spans = _interleaved_spans(groupings, cpus)
            value = "3-5" if "3-5" in spans else " or ".join(sorted(spans))
            yield Trial(f"{setting}, {_MIXED}", value, start)
        else:
            counts = _place("L48s_v2", groupings)
            yield Trial(f"{setting}, {_BY_DISK}", _span(counts[cpu] for cpu in cpus), start)


def _interleaved_spans(groupings: Sequence[Grouping], cpus: CpuSet) -> set[str]:
    """List the least and greatest interrupts a CPU that x86 can come to when disks race.

    Each disk requests its vectors in queue order, but the disks' requests may mix in any way.  The
    masks of one pair of CPUs don't touch another, so pairs can be looked at one by one.
    """
    pairs = [CpuSet((cpu, cpu + 1)) for cpu in cpus if cpu % 2 == 0]
    reachable = [
        _pair_outcomes(
            tuple(
                tuple(sorted(mask.mask >> min(pair) for mask in grouping.masks if mask <= pair))
                for grouping in groupings
            )
        )
        for pair in pairs
    ]
    spans = {(99, 0)}
    for outcomes in reachable:
        spans = {(min(low, *pair), max(high, *pair)) for low, high in spans for pair in outcomes}
    return {f"{low}-{high}" for low, high in spans}


@cache
def _pair_outcomes(disks: tuple[tuple[int, ...], ...]) -> frozenset[tuple[int, int]]:
    """List the ends that disks' requests for two CPUs can come to; masks are 1, 2 and 3."""
    ends: set[tuple[int, int]] = set()
    todo = [(tuple(0 for _ in disks), (0, 0))]
    seen = set(todo)
    while todo:
        done, (first, last) = todo.pop()
        moved = False
        for disk, masks in enumerate(disks):
            if done[disk] == len(masks):
                continue
            moved = True
            mask = masks[done[disk]]
            # The fewest, the last one on a tie; see VectorMatrix.
            to_last = mask == 2 or (mask == 3 and last <= first)
            state = (
                (*done[:disk], done[disk] + 1, *done[disk + 1 :]),
                (first + (not to_last), last + to_last),
            )
            if state not in seen:
                seen.add(state)
                todo.append(state)
        if not moved:
            ends.add((first, last))
    return frozenset(ends)


@_scenario("R11a")
def _r11a() -> Finding:
    return Finding(tuple(_skip1(1, False)), _modulo(4))


@_scenario("R11b")
def _r11b() -> Finding:
    """Search what could give node 0 a CPU with 3: it has 36 interrupts for 8 CPUs.

    Placed disk by disk, x86 evens out each pair of CPUs: 9 interrupts are 4 and 5.
    """
    trials = (*_skip1(0, False), *_skip1(0, True))
    alone = {
        how: " or ".join(
            sorted(
                {
                    trial.value
                    for trial in trials
                    if trial.setting.startswith("disks only") and trial.setting.endswith(how)
                }
            )
        )
        for how in (_BY_DISK, _MIXED)
    }
    note = (
        f"With no other call between the disks', node 0 comes to {alone[_BY_DISK]} disk by disk, "
        f"and to {alone[_MIXED]} if their vectors mix."
    )
    return Finding(trials, _modulo(4), note)


@_scenario("R12a")
def _r12a() -> Finding:
    return _before("D16plds_v6", lambda run: _histogram(run.counts.values()))


@_scenario("R12b")
def _r12b() -> Finding:
    return _sequences("D16plds_v6", 6, lambda counts: _histogram(counts.values()))


@_scenario("R12c")
def _r12c() -> Finding:
    """Bound it: see `groupcpus.machines.bounds`.

    CPU 0 is the lowest CPU of its group in both calls, so GICv3 gives it both interrupts; each call
    reaches at most 5 other CPUs.
    """
    machine = _machine("D16plds_v6")
    calls = [disk.io_queues for disk in machine.devices]
    bound = most_used(machine.topology, calls, machine.irqchip)
    used = {
        (a, b): sum(
            map(
                bool,
                _place(
                    "D16plds_v6",
                    tuple(_grouping("D16plds_v6", "rotate-v2", 6, offset) for offset in (a, b)),
                ).values(),
            )
        )
        for a, b in product(range(6), repeat=2)
    }
    reached = sorted(pair for pair, cpus in used.items() if cpus == max(used.values()))
    note = (
        f"No grouping reaches more than {bound} CPUs, and CPU 0 serves both disks in all of them. "
        f"rotate-v2 comes to {max(used.values())} when the two offsets are, modulo 6, "
        f"{' or '.join(f'{a} and {b}' for a, b in reached)}."
    )
    best = _run("D16plds_v6", REVISIONS["rotate-v2"]).best
    return Finding((Trial("any grouping", {"vcpus": bound, "most": best}),), note=note)


@_scenario("R13a")
def _r13a() -> Finding:
    return _before("D96plds_v6", lambda run: _histogram(run.counts.values()))


def d96_pattern(offsets: Sequence[int]) -> dict[int, int]:
    """Predict how many interrupts each CPU of D96plds_v6 serves, without dealing a CPU.

    A node has 48 CPUs and 7 groups: 6 groups of 7 CPUs and one of 6.  At offset o group v is the
    short one when (v + o) % 7 == 6, that is v = s = (6 - o) % 7.  Groups are neighbours, so group v
    begins at CPU 7*v of the node if no shorter group came before (v <= s), and one CPU earlier
    otherwise; and GICv3 takes that first CPU.  So with short groups s1 to s6 of the six disks,

    * CPU 7*v serves as many disks as there are s >= v, CPU 7*v - 1 as many as there are s < v;
    * CPU 0 serves all six.

    Both nodes are alike.  Each v from 1 to 6 has two CPUs in use unless all s are on one side of
    it, so 13 CPUs a node are used if and only if one disk has s = 0 and another has s = 6: some
    offset is 6 modulo 7, and some is 0.

    Examples
    --------
    >>> counts = d96_pattern(range(6, 12))
    >>> [f"{cpu}:{irqs}" for cpu, irqs in counts.items() if cpu < 48 and irqs]
    ['0:6', '6:1', '7:5', '13:1', '14:5', '20:2', '21:4', '27:3', '28:3', '34:4', '35:2',
     '41:5', '42:1']
    """
    shorts = [(6 - offset) % 7 for offset in offsets]
    counts = dict.fromkeys(range(96), 0)
    for node, v in product((0, 48), range(7)):
        counts[node + 7 * v] += sum(short >= v for short in shorts)
        if v:
            counts[node + 7 * v - 1] += sum(short < v for short in shorts)
    return counts


@_scenario("R13b")
def _r13b() -> Finding:
    def value(counts: dict[int, int]) -> Any:
        nodes = _machine("D96plds_v6").topology.nodes.values()
        return {
            "vcpus": sum(map(bool, counts.values())),
            "a_node": [sum(bool(counts[cpu]) for cpu in cpus) for cpus in nodes],
            "irqs": _span(filter(None, counts.values())),
        }

    finding = _sequences("D96plds_v6", 7, value)
    hits = [trial for trial in finding.trials if trial.value["vcpus"] == 26]
    predicted = {
        (sequence, start)
        for sequence in probe_sequences(6)
        for start in range(7)
        if {0, 6} <= {(start + at) % 7 for at, call in enumerate(sequence) if call == "I"}
    }
    by_rule = {(f"order {_sequence_name(sequence)}", start) for sequence, start in predicted}
    rule = "exactly" if by_rule == {(t.setting, t.number) for t in hits} else "not only"
    note = (
        f"26 CPUs come of {len(hits)} of {len(finding.trials)} orders and starts modulo 7: {rule} "
        "those where one I/O call takes an offset that is 0 modulo 7 and another one that is 6."
    )
    return replace(finding, note=note)


@_scenario("R13c")
def _r13c() -> Finding:
    def value(counts: dict[int, int]) -> bool:
        return all(counts[cpu] == counts[cpu + 48] for cpu in range(48))

    return _sequences("D96plds_v6", 7, value)


@_scenario("R13d")
def _r13d() -> Finding:
    """Compare the closed form of `d96_pattern` with the engine."""
    trials = []
    for sequence in probe_sequences(6):
        for start in range(7):
            offsets = [start + at for at, call in enumerate(sequence) if call == "I"]
            groupings = tuple(_grouping("D96plds_v6", "rotate-v2", 14, at) for at in offsets)
            same = _place("D96plds_v6", groupings) == d96_pattern(offsets)
            trials.append(Trial(f"order {_sequence_name(sequence)}", not same, start))
    example = d96_pattern(range(6, 12))
    shown = " ".join(f"{cpu}:{irqs}" for cpu, irqs in example.items() if cpu < 48 and irqs)
    note = (
        "The pattern: let a disk's short group be s = (6 - offset) mod 7. CPU 7v of a node serves "
        "the disks with s >= v, CPU 7v - 1 those with s < v, CPU 0 all. For admin-first from 0, "
        f"CPU:IRQs are {shown}."
    )
    return Finding(tuple(trials), note=note)


def _both_architectures(revision: str, numgrps: int, offset: int) -> tuple[Grouping, Grouping]:
    x86 = _grouping("L96as_v4", revision, numgrps, offset)
    return x86, _grouping("D96plds_v6", revision, numgrps, offset)


@_scenario("R14a")
def _r14a() -> Finding:
    trials = []
    for revision, offset in (("cluster", 0), *(("rotate-v2", offset) for offset in range(12))):
        x86, arm64 = _both_architectures(revision, 6, offset)
        sizes = sorted({len(mask) for mask in x86.masks})
        trials.append(Trial(revision, {"same": x86 == arm64, "sizes": sizes}, offset))
    return Finding(tuple(trials))


@_scenario("R14b")
def _r14b() -> Finding:
    """Compare two nodes of 24 clusters with two nodes in one cluster, for 1 to 96 queues.

    A node looks at its clusters only if it has at least as many groups; with fewer it is dealt as a
    whole, and so is a node that is one cluster.  Pairs of threads change nothing when their CPUs
    are neighbours.  So masks agree below 24 groups a node.  From there on
    they can't; with a group a cluster or a group a CPU only their order differs.
    """
    trials = []
    same_sets = []
    for revision in ("cluster", "rotate-v2"):
        for numgrps in range(1, 97):
            offsets = range(4) if revision == "rotate-v2" else range(1)
            pairs = [_both_architectures(revision, numgrps, offset) for offset in offsets]
            same = all(x86 == arm64 for x86, arm64 in pairs)
            trials.append(Trial(revision, same, numgrps))
            if not same and all(set(x86.bits) == set(arm64.bits) for x86, arm64 in pairs):
                same_sets.append(numgrps)
    note = (
        "Clusters matter once a node has as many groups as clusters (24 here). Masks that differ "
        f"in their order alone: {number_ranges(same_sets)} queues."
    )
    return Finding(tuple(trials), "queues", note)


def _six_queues(irqchip: str, start: int) -> Run:
    machine = _machine("D96plds_v6").with_devices(count=6, io_queues=6)
    return simulate(machine, revision="rotate-v2", irqchip=irqchip, spread_start=start)


@_scenario("R15a")
def _r15a() -> Finding:
    trials = []
    for start in range(6):
        busy = _six_queues("gicv3", start).summary.used
        trials.append(Trial("", {"busy": busy, "idle": 96 - busy}, start))
    return Finding(tuple(trials))


@_scenario("R15b")
def _r15b() -> Finding:
    trials = (
        Trial("", {"most": _six_queues("x86", start).summary.greatest}, start) for start in range(6)
    )
    used = _six_queues("x86", 0).summary.used
    return Finding(tuple(trials), note=f"6 disks with 6 queues are then on {used} CPUs.")


_HARDWARE = "Hardware did this; nothing here models the time an interrupt takes."


@_scenario("R16a")
def _r16a() -> Finding:
    return Finding((), note=_HARDWARE)


@_scenario("R16b")
def _r16b() -> Finding:
    return Finding((), note=_HARDWARE)


@_scenario("R17a")
def _r17a() -> Finding:
    """Look whether the number of groups in node 0 of L48s_v2 changes with the offset."""

    def groups_of_node_0(revision: str) -> set[int]:
        home = _machine("L48s_v2").topology.nodes[0]
        return {
            sum(mask <= home for mask in _grouping("L48s_v2", revision, 32, offset).masks)
            for offset in range(12)
        }

    old, new = groups_of_node_0("rotate-v2"), groups_of_node_0("rotate-next")
    per_node = _run("L48s_v2", REVISIONS["rotate-next"]).summary.per_node.values()
    note = f"Interrupts a node of L48s v2 come to {'/'.join(map(str, per_node))} in the later tree."
    return Finding((Trial("rotate-next", len(old) == 1 < len(new)),), note=note)


@_scenario("R17b")
def _r17b() -> Finding:
    run = _run("D16plds_v6", REVISIONS["rotate-next"])
    return Finding((Trial("rotate-next", run.spread_end == len(run.machine.devices)),))


@_scenario("R17c")
def _r17c() -> Finding:
    trials = (Trial("rotate-next", _empty_masks("rotate-next", at) == 0, at) for at in _NEAR_WRAP)
    return Finding(tuple(trials), "counter")


@_scenario("R17d")
def _r17d() -> Finding:
    """Re-place the extras of every machine of up to 4 clusters of up to 4 CPUs."""
    fits = True
    for count in range(1, 5):
        for sizes in product(range(1, 5), repeat=count):
            for numgrps in range(count, sum(sizes) + 1):
                everything = CpuSet(range(sum(sizes)))
                ends = [sum(sizes[: at + 1]) for at in range(count)]
                clusters = [CpuSet(range(end - n, end)) for n, end in zip(sizes, ends, strict=True)]
                topology = Topology(everything, everything, everything, {0: everything}, clusters)
                fits &= all(group_cpus_evenly(topology, numgrps, spread_offset=count).bits)
    return Finding((Trial("rotate-v2", fits),))


@_scenario("R17e")
def _r17e() -> Finding:
    return Finding((), note="How the source is written; no mask depends on it.")


# --- The cluster-aware patch ----------------------------------------------------------------------


def _xeon(revision: Revision) -> tuple[CpuSet, ...]:
    return group_cpus_evenly(_machine("xeon_e_40cpu").topology, 11, revision=revision).masks


def _spanned(mask: CpuSet) -> int:
    return len({_machine("xeon_e_40cpu").topology.cluster_id(cpu) for cpu in mask})


def _by_sort(value: Callable[[tuple[CpuSet, ...]], Any], note: str = "") -> Finding:
    """Compute a value after the cluster patch for each way of sorting equal clusters."""
    return Finding(
        tuple(
            Trial(name, value(_xeon(replace(REVISIONS["cluster"], sort=sort))))
            for name, sort in _SORTS.items()
        ),
        note=note,
    )


@_scenario("C1a")
def _c1a() -> Finding:
    return Finding((Trial("", [len(mask) for mask in _xeon(REVISIONS["numa"])]),))


@_scenario("C1b")
def _c1b() -> Finding:
    ninth = _xeon(REVISIONS["numa"])[8]
    has = ninth & CpuSet("31-32")
    return Finding((Trial("", {"has": str(has), "clusters": _spanned(ninth)}),))


@_scenario("C2a")
def _c2a() -> Finding:
    def value(masks: tuple[CpuSet, ...]) -> Any:
        sizes = Counter(map(len, masks))
        return {
            **dict(sorted(sizes.items())),
            "spanning": sum(_spanned(mask) > 1 for mask in masks),
        }

    return _by_sort(value)


@_scenario("C2b")
def _c2b() -> Finding:
    return _by_sort(lambda masks: CpuSet(cpu for mask in masks if len(mask) == 2 for cpu in mask))


@_scenario("C2c")
def _c2c() -> Finding:
    """Find who has the halves, interrupts numbered from 1 in queue order.

    In proportion, clusters get a rounded-down share while groups last, so the one that is served
    last has two: whatever the sort, the halves are the last two interrupts.
    """
    masks = _xeon(REVISIONS["cluster"])
    order = ", ".join(f"{irq}: {mask}" for irq, mask in enumerate(masks, 1))
    return _by_sort(
        lambda masks: [irq for irq, mask in enumerate(masks, 1) if len(mask) == 2],
        f"In true queue order: {order}.",
    )


@_scenario("C3")
def _c3() -> Finding:
    return Finding((), note=_HARDWARE)


@_scenario("C4a")
def _c4a() -> Finding:
    """Take the cluster of the first CPU out of the CPUs left: nothing goes if it is empty."""
    topology = Topology.uniform(nodes=1, cpus_per_node=4, cluster=0)
    left = topology.nodes[0]
    return Finding((Trial("", left - topology.cluster_of(min(left)) == left),))


@_scenario("C4b")
def _c4b() -> Finding:
    """Compare with numa: all cluster masks empty, then that of one CPU among pairs."""
    cpus = CpuSet("0-7")
    pairs = [CpuSet((cpu, cpu + 1)) for cpu in range(0, 8, 2)]
    trials = []
    for name, empty in (("all cluster masks empty", cpus), ("that of CPU 5 empty", CpuSet("5"))):
        clusters = [pair - empty for pair in pairs if pair - empty]
        topology = Topology(cpus, cpus, cpus, {0: cpus}, clusters, no_cluster=empty)
        for numgrps in range(1, 9):
            plain, aware = (
                group_cpus_evenly(topology, numgrps, revision=revision).bits
                for revision in ("numa", "cluster")
            )
            trials.append(Trial(name, plain == aware, numgrps))
    return Finding(tuple(trials), "groups")


# --- MANA's irq_setup() ---------------------------------------------------------------------------


def _mana(version: str) -> list[str]:
    topology = _machine("mana_8cpu").topology
    return [str(mask) for mask in irq_setup(topology, 8, 0, version=version)]


@_scenario("M1")
def _m1() -> Finding:
    return Finding(
        tuple(Trial(f"the code as {version}", _mana(version)) for version in ("posted", "merged"))
    )


@_scenario("M2")
def _m2() -> Finding:
    note = (
        "The posted loop counts a hop's passes and makes as many as the hop has CPUs. The merged "
        f"driver counts interrupts instead, and has {' '.join(_mana('merged'))}."
    )
    return Finding((Trial("", _mana("posted")),), note=note)


@_scenario("M3a")
def _m3a() -> Finding:
    topology = _machine("mana_8cpu").topology
    nodes = [topology.node_of(int(mask.split("-")[0])) for mask in _mana("merged")]
    shifted = [node + 1 for node in nodes]
    note = f"Counted from 1 the drawing's nodes would be {' '.join(map(str, shifted))}."
    return Finding((Trial("", nodes),), note=note)


@_scenario("M3b")
def _m3b() -> Finding:
    topology = _machine("mana_8cpu").topology
    numbers = {min(core): at for at, core in enumerate(topology.siblings)}
    return Finding((Trial("", [numbers[int(mask.split("-")[0])] for mask in _mana("merged")]),))


# What ntttcp printed: bytes, and a test duration of 60.00 seconds.
_RATES = [total * 8 / 60 / 1e9 for total in (630292053310, 741966608384)]


@_scenario("M4a")
def _m4a() -> Finding:
    return Finding((Trial("", round(_RATES[0], 2)),))


@_scenario("M4b")
def _m4b() -> Finding:
    return Finding((Trial("", round(_RATES[1], 2)),))


@_scenario("M4c")
def _m4c() -> Finding:
    slow, fast = _RATES
    note = (
        f"Read as time saved it would be right: {slow:.2f} / {fast:.2f} is "
        f"{100 * (1 - slow / fast):.1f} % less."
    )
    return Finding((Trial("", round(100 * (fast / slow - 1), 1)),), note=note)


@_scenario("M5")
def _m5() -> Finding:
    topology = _machine("mana_8cpu").topology
    cpus = [cpumask_local_spread(topology, at, 0) for at in range(8)]
    nodes = [topology.node_of(cpu) for cpu in cpus]
    value = {
        "nodes_in_order": nodes == sorted(nodes),
        "first_two_share_a_core": topology.core_id(cpus[0]) == topology.core_id(cpus[1]),
    }
    return Finding((Trial("", value),), note=f"The CPUs in turn: {' '.join(map(str, cpus))}.")
