# SPDX-License-Identifier: GPL-2.0-only
"""What was said about the rotation patch: R10 to R15, R17."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import Grouping
from groupcpus.engine.revisions import REVISIONS
from groupcpus.machines.bounds import least_maximum, most_used
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.studies.claims.sequences import (
    in_sequences,
    probe_sequences,
    random_share,
    sequence_name,
)
from groupcpus.studies.claims.trials import (
    RANDOM_ORDERS,
    STRICT_ORDERS,
    Outcome,
    Trial,
    before_patch,
    grouping_of,
    histogram_of,
    in_words,
    logged_boot,
    machine_named,
    modulo,
    number_ranges,
    placed,
    run_of,
    scenario,
    span_of,
)

__all__ = ["d96_pattern", "pair_outcomes"]


@scenario("R10a")
def _r10a() -> Outcome:
    machine = machine_named("L48s_v2")
    topology = machine.topology
    sizes = {len(cpus) for cpus in topology.nodes.values()}
    value = {
        "nodes": len(topology.nodes),
        "cpus_a_node": sizes.pop() if len(sizes) == 1 else sorted(sizes),
        "clusters": len(topology.clusters),
        "irqs": len(run_of("L48s_v2", REVISIONS["cluster"]).interrupts),
    }
    return Outcome((Trial("", value),))


@scenario("R10b")
def _r10b() -> Outcome:
    return before_patch("L48s_v2", lambda run: histogram_of(run.counts.values()))


@scenario("R10c")
def _r10c() -> Outcome:
    """Try every probe sequence.

    The 2 extras of a node with 6 groups go to clusters 0 and 2 of 4, or 1 and 3, by whether the
    offset is even; what counts is thus how many of the I/O calls take even offsets.
    """
    outcome = in_sequences("L48s_v2", 4, lambda counts: span_of(counts.values()))
    note = (
        "The nodes with 6 groups give clusters 0 and 2 an extra at even offsets, 1 and 3 at odd "
        "ones: with three I/O calls of each kind no CPU has more than 5, disk by disk. "
        + random_share(outcome.trials, "3-5")
    )
    logged = logged_boot(
        "x86-48cpu-6nodes-smt2-6x32-rotate-v2-first", lambda run: span_of(run.counts.values())
    )
    return replace(outcome, trials=(*outcome.trials, logged), note=note)


@scenario("R10d")
def _r10d() -> Outcome:
    return before_patch("L48s_v2", lambda run: run.best)


@scenario("R10e")
def _r10e() -> Outcome:
    before = sorted(run_of("L48s_v2", REVISIONS["cluster"]).summary.per_node.values())
    nodes = machine_named("L48s_v2").topology.nodes

    def value(counts: dict[int, int]) -> Any:
        after = sorted(sum(counts[cpu] for cpu in cpus) for cpus in nodes.values())
        return {"before": before, "after": after}

    per_node = run_of("L48s_v2", REVISIONS["cluster"]).summary.per_node
    note = "Node by node: " + "/".join(map(str, per_node.values())) + "."
    return in_sequences("L48s_v2", 4, value, note)


# How vectors of disks that are probed in parallel come to be allocated.
_BY_DISK = "vectors allocated disk by disk"


_MIXED = "vectors of disks allocated in some mixed order"


def _skip1(node: int, interleaved: bool) -> Iterator[Trial]:
    """Try counter starts, and a foreign call between two disks', for rotate-v2-skip1."""
    cpus = machine_named("L48s_v2").topology.nodes[node]
    for gap, start in product(range(6), range(4)):
        offsets = [start + disk + (0 < gap <= disk) for disk in range(6)]
        groupings = tuple(grouping_of("L48s_v2", "rotate-v2-skip1", 32, at) for at in offsets)
        setting = f"one more call by another device after disk {gap}" if gap else "disks only"
        if interleaved:
            spans = _interleaved_spans(groupings, cpus)
            value = "3-5" if "3-5" in spans else " or ".join(sorted(spans))
            yield Trial(f"{setting}, {_MIXED}", value, start)
        else:
            counts = placed("L48s_v2", groupings)
            yield Trial(f"{setting}, {_BY_DISK}", span_of(counts[cpu] for cpu in cpus), start)


def _interleaved_spans(groupings: Sequence[Grouping], cpus: CpuSet) -> set[str]:
    """List the least and greatest interrupts a CPU that x86 can come to when disks race.

    Each disk requests its vectors in queue order, but the disks' requests may mix in any way.  The
    masks of one pair of CPUs don't touch another, so pairs can be looked at one by one.
    """
    pairs = [CpuSet((cpu, cpu + 1)) for cpu in cpus if cpu % 2 == 0]
    reachable = [
        pair_outcomes(
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
def pair_outcomes(disks: tuple[tuple[int, ...], ...]) -> frozenset[tuple[int, int]]:
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


def _skip1_runs(orders: Sequence[str]) -> Iterator[tuple[str, int, dict[int, int]]]:
    """Yield setting, start and interrupts a CPU for rotate-v2-skip1, in some orders of requests."""
    for order, gap, start in product(orders, range(6), range(4)):
        offsets = [start + disk + (0 < gap <= disk) for disk in range(6)]
        groupings = tuple(grouping_of("L48s_v2", "rotate-v2-skip1", 32, at) for at in offsets)
        setting = f"one more call by another device after disk {gap}" if gap else "disks only"
        yield f"{setting}, {in_words(order)}", start, placed("L48s_v2", groupings, order)


def _of_node(counts: dict[int, int], node: int) -> str:
    return span_of(counts[cpu] for cpu in machine_named("L48s_v2").topology.nodes[node])


@scenario("R11a")
def _r11a() -> Outcome:
    orders = (*STRICT_ORDERS, *RANDOM_ORDERS)
    trials = tuple(
        Trial(setting, _of_node(counts, 1), start) for setting, start, counts in _skip1_runs(orders)
    )
    return Outcome(trials, modulo(4), random_share(trials, "3-4"))


@scenario("R11b")
def _r11b() -> Outcome:
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
    return Outcome(trials, modulo(4), note)


@scenario("R11c")
def _r11c() -> Outcome:
    """Both at once need an order of requests that does it: search some."""
    orders = (*STRICT_ORDERS, *RANDOM_ORDERS)
    trials = tuple(
        Trial(setting, {"node_0": _of_node(counts, 0), "node_1": _of_node(counts, 1)}, start)
        for setting, start, counts in _skip1_runs(orders)
    )
    note = random_share(trials, {"node_0": "3-5", "node_1": "3-4"})
    return Outcome(trials, modulo(4), note)


@scenario("R12a")
def _r12a() -> Outcome:
    return before_patch("D16plds_v6", lambda run: histogram_of(run.counts.values()))


@scenario("R12b")
def _r12b() -> Outcome:
    return in_sequences("D16plds_v6", 6, lambda counts: histogram_of(counts.values()))


@scenario("R12c")
def _r12c() -> Outcome:
    """Bound it: see `groupcpus.machines.bounds`.

    CPU 0 is the lowest CPU of its group in both calls, so GICv3 gives it both interrupts; each call
    reaches at most 5 other CPUs.
    """
    machine = machine_named("D16plds_v6")
    calls = [disk.io_queues for disk in machine.devices]
    bound = most_used(machine.topology, calls, machine.irqchip)
    used = {
        (a, b): sum(
            map(
                bool,
                placed(
                    "D16plds_v6",
                    tuple(grouping_of("D16plds_v6", "rotate-v2", 6, offset) for offset in (a, b)),
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
    best = run_of("D16plds_v6", REVISIONS["rotate-v2"]).best
    spread = most_used(machine.topology, calls, "its")
    chosen = least_maximum(len(machine.topology.online), sum(calls), len(calls), "its")
    return Outcome(
        (
            Trial("any grouping, the first CPU of a mask (GICv3)", {"vcpus": bound, "most": best}),
            Trial("any grouping, an irqchip that chooses (ITS)", {"vcpus": spread, "most": chosen}),
        ),
        note=note,
    )


@scenario("R13a")
def _r13a() -> Outcome:
    return before_patch("D96plds_v6", lambda run: histogram_of(run.counts.values()))


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


@scenario("R13b")
def _r13b() -> Outcome:
    def value(counts: dict[int, int]) -> Any:
        nodes = machine_named("D96plds_v6").topology.nodes.values()
        return {
            "vcpus": sum(map(bool, counts.values())),
            "a_node": [sum(bool(counts[cpu]) for cpu in cpus) for cpus in nodes],
            "irqs": span_of(filter(None, counts.values())),
        }

    outcome = in_sequences("D96plds_v6", 7, value)
    hits = [trial for trial in outcome.trials if trial.value["vcpus"] == 26]
    predicted = {
        (sequence, start)
        for sequence in probe_sequences(6)
        for start in range(7)
        if {0, 6} <= {(start + at) % 7 for at, call in enumerate(sequence) if call == "I"}
    }
    by_rule = {(f"order {sequence_name(sequence)}", start) for sequence, start in predicted}
    rule = "exactly" if by_rule == {(t.setting, t.number) for t in hits} else "not only"
    note = (
        f"26 CPUs come of {len(hits)} of {len(outcome.trials)} orders and starts modulo 7: {rule} "
        "those where one I/O call takes an offset that is 0 modulo 7 and another one that is 6."
    )
    return replace(outcome, note=note)


@scenario("R13c")
def _r13c() -> Outcome:
    def value(counts: dict[int, int]) -> bool:
        return all(counts[cpu] == counts[cpu + 48] for cpu in range(48))

    return in_sequences("D96plds_v6", 7, value)


@scenario("R13d")
def _r13d() -> Outcome:
    """Compare the closed form of `d96_pattern` with the engine."""
    trials = []
    for sequence in probe_sequences(6):
        for start in range(7):
            offsets = [start + at for at, call in enumerate(sequence) if call == "I"]
            groupings = tuple(grouping_of("D96plds_v6", "rotate-v2", 14, at) for at in offsets)
            same = placed("D96plds_v6", groupings) == d96_pattern(offsets)
            trials.append(Trial(f"order {sequence_name(sequence)}", {"by_rule": same}, start))
    example = d96_pattern(range(6, 12))
    shown = " ".join(f"{cpu}:{irqs}" for cpu, irqs in example.items() if cpu < 48 and irqs)
    note = (
        "The pattern: let a disk's short group be s = (6 - offset) mod 7. CPU 7v of a node serves "
        "the disks with s >= v, CPU 7v - 1 those with s < v, CPU 0 all. For admin-first from 0, "
        f"CPU:IRQs are {shown}."
    )
    return Outcome(tuple(trials), note=note)


def _both_architectures(revision: str, numgrps: int, offset: int) -> tuple[Grouping, Grouping]:
    x86 = grouping_of("L96as_v4", revision, numgrps, offset)
    return x86, grouping_of("D96plds_v6", revision, numgrps, offset)


@scenario("R14a")
def _r14a() -> Outcome:
    trials = []
    for revision, offset in (("cluster", 0), *(("rotate-v2", offset) for offset in range(12))):
        x86, arm64 = _both_architectures(revision, 6, offset)
        sizes = sorted({len(mask) for mask in x86.masks})
        trials.append(Trial(revision, {"same": x86 == arm64, "sizes": sizes}, offset))
    return Outcome(tuple(trials))


@scenario("R14b")
def _r14b() -> Outcome:
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
    return Outcome(tuple(trials), "queues", note)


def _six_queues(irqchip: str, start: int) -> Run:
    machine = machine_named("D96plds_v6").with_devices(count=6, io_queues=6)
    return simulate(machine, revision="rotate-v2", irqchip=irqchip, spread_start=start)


@scenario("R15a")
def _r15a() -> Outcome:
    trials = []
    for start in range(6):
        busy = _six_queues("gicv3", start).summary.used
        trials.append(Trial("", {"busy": busy, "idle": 96 - busy}, start))
    return Outcome(tuple(trials))


@scenario("R15b")
def _r15b() -> Outcome:
    trials = (
        Trial("", {"most": _six_queues("x86", start).summary.greatest}, start) for start in range(6)
    )
    used = _six_queues("x86", 0).summary.used
    return Outcome(tuple(trials), note=f"6 disks with 6 queues are then on {used} CPUs.")
