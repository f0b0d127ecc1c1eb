# SPDX-License-Identifier: GPL-2.0-only
"""What was agreed, asked and assumed about the rotation patch: R17 to R24."""

from itertools import product
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.rotations import deal_rotating_fixed
from groupcpus.engine.topology import Topology
from groupcpus.machines.life import Life
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.observed.recordings import load_recording, recording_names
from groupcpus.studies.claims.trials import (
    NEAR_WRAP,
    PROBES,
    RANDOM_ORDERS,
    STRICT_ORDERS,
    Outcome,
    Trial,
    empty_masks,
    from_starts,
    grouping_of,
    histogram_in_words,
    histogram_of,
    logged_boot,
    machine_named,
    modulo,
    number_ranges,
    run_of,
    scenario,
    spread_of,
)


@scenario("R17a")
def _r17a() -> Outcome:
    """Look whether the number of groups in node 0 of L48s_v2 changes with the offset."""

    def groups_of_node_0(revision: str) -> set[int]:
        home = machine_named("L48s_v2").topology.nodes[0]
        return {
            sum(mask <= home for mask in grouping_of("L48s_v2", revision, 32, offset).masks)
            for offset in range(12)
        }

    old, new = groups_of_node_0("rotate-v2"), groups_of_node_0("rotate-next")
    per_node = run_of("L48s_v2", REVISIONS["rotate-next"]).summary.per_node.values()
    note = f"Interrupts a node of L48s v2 come to {'/'.join(map(str, per_node))} in the later tree."
    return Outcome((Trial("rotate-next", len(old) == 1 < len(new)),), note=note)


@scenario("R17b")
def _r17b() -> Outcome:
    run = run_of("D16plds_v6", REVISIONS["rotate-next"])
    return Outcome((Trial("rotate-next", run.spread_end == len(run.machine.devices)),))


@scenario("R17c")
def _r17c() -> Outcome:
    trials = (Trial("rotate-next", empty_masks("rotate-next", at) == 0, at) for at in NEAR_WRAP)
    return Outcome(tuple(trials), "counter")


@scenario("R17d")
def _r17d() -> Outcome:
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
    return Outcome((Trial("rotate-v2", fits),))


@scenario("R17e")
def _r17e() -> Outcome:
    """Deal in one loop and without a union, and compare what groups get."""
    return _compared(_one_loop(guard=True))


@scenario("R17f")
def _r17f() -> Outcome:
    """Leave the test for no extra CPUs out of that loop."""
    return _compared(_one_loop(guard=False))


def _compared(same: bool) -> Outcome:
    note = f"{'No' if same else 'Some'} group gets another number of CPUs."
    return Outcome((Trial("1 to 24 CPUs, every offset", {"same_sizes": same}),), note=note)


def _one_loop(guard: bool) -> bool:
    same = True
    for ncpus in range(1, 25):
        for ngroups, offset in product(range(1, ncpus + 1), range(25)):
            each, extra = divmod(ncpus, ngroups)
            sizes = [
                each + bool((extra or not guard) and (group + offset % ngroups) % ngroups < extra)
                for group in range(ngroups)
            ]
            same &= sizes == list(deal_rotating_fixed(ncpus, ngroups, offset).sizes)
    return same


@scenario("R17g")
def _r17g() -> Outcome:
    """Give every CPU a cluster of its own, as arm64 does where firmware names none."""
    cpus = CpuSet("0-7")
    alone = Topology(cpus, cpus, cpus, {0: cpus}, [CpuSet([cpu]) for cpu in cpus])
    plain = Topology(cpus, cpus, cpus, {0: cpus}, [cpus])
    trials = []
    for numgrps in range(1, 8):
        masks = [
            group_cpus_evenly(topology, numgrps, revision="cluster").bits
            for topology in (alone, plain)
        ]
        trials.append(Trial("clusters of one CPU", {"as_without": masks[0] == masks[1]}, numgrps))
    same = all(trial.value["as_without"] for trial in trials)
    note = f"8 CPUs, each its own cluster, get {'the' if same else 'not the'} masks of one cluster."
    return Outcome(tuple(trials), "groups", note)


@scenario("R18a")
def _r18a() -> Outcome:
    """Compare the masks of each disk when admin calls come first and in between."""

    def masks(probe: str) -> list[CpuSet]:
        run = run_of("L96as_v4", REVISIONS["rotate-v2"], probe)
        return [irq.affinity for irq in run.interrupts]

    first, between = (masks(probe) for probe in PROBES)
    changed = sum(a != b for a, b in zip(first, between, strict=True))
    note = f"Of {len(first)} masks of L96as_v4 {changed} differ between the two probe orders."
    return Outcome((Trial("", changed > 0),), note=note)


@scenario("R18b")
def _r18b() -> Outcome:
    """Reset a disk after boot: its masks are made anew, its queue map is kept."""
    trials, said = [], []
    for revision in ("cluster", "rotate-v2"):
        for start in range(6):
            life = Life("L96as_v4", revision, spread_start=start)
            step = life.reset("nvme0")
            made, beside = len(step.of("mask")), len(step.outside)
            trials.append(Trial(f"{revision}, a reset of nvme0", made > 0, start))
            if not step.of("map") and revision == "rotate-v2":
                said.append((made, beside))
    note = (
        f"At rotate-v2's starts 0 to 5, {spread_of(made for made, _ in said)} of nvme0's 62 masks "
        f"change at a reset, and {spread_of(beside for _, beside in said)} queues then have "
        "submitters outside their mask: the queue map stays as it was at probe "
        "(__blk_mq_update_nr_hw_queues())."
    )
    return Outcome(tuple(trials), note=note)


def _lowers(machine: str, queues: int, irqchip: str | None, revision: str = "rotate-v2") -> bool:
    """Return whether a revision takes interrupts off the most loaded CPU, or uses more CPUs."""
    with_queues = machine_named(machine).with_devices(io_queues=queues)
    old, new = (
        simulate(with_queues, revision=name, irqchip=irqchip) for name in ("cluster", revision)
    )
    return _figures(new) < _figures(old)


def _figures(run: Run) -> tuple[int, int]:
    return max(run.counts.values()), -sum(map(bool, run.counts.values()))


def _histogram(machine: str, revision: str, probe: str, start: int) -> dict[int, int]:
    """Return how many CPUs serve each number of interrupts, the idle ones left out."""
    return histogram_of(run_of(machine, REVISIONS[revision], probe, start).counts.values())


@scenario("R19")
def _r19() -> Outcome:
    """Try numbers of queues, those that divide the CPUs too."""
    counts = (8, 12, 16, 24, 31, 32, 40, 48, 56, 62, 64, 80, 95, 96)
    trials = [
        Trial("6 devices on L96as_v4", _lowers("L96as_v4", queues, None), queues)
        for queues in counts
    ]
    nic = simulate("mana_8cpu", revision="rotate-v2")
    note = (
        f"MANA, a network card, makes {len(nic.calls)} calls of the function: most network drivers "
        "do not ask for managed interrupts."
    )
    return Outcome(tuple(trials), "queues", note)


@scenario("R20")
def _r20() -> Outcome:
    """Where admin calls come in between, two disks' I/O calls take every other offset."""
    trials = [
        Trial(
            "rotate-v2, interleaved",
            histogram_of(
                run_of("D16plds_v6", REVISIONS["rotate-v2"], "interleaved", at).counts.values()
            ),
            at,
        )
        for at in range(6)
    ]
    return Outcome(tuple(trials), modulo(6), "The figure needs I/O calls at adjacent offsets.")


@scenario("R21")
def _r21() -> Outcome:
    """Compare the most CPUs in use, over all starts of the counter."""
    used = {
        (machine, revision): sorted(
            {
                sum(
                    map(
                        bool,
                        run_of(machine, REVISIONS[revision], "admin-first", at).counts.values(),
                    )
                )
                for at in range(42)
            }
        )
        for machine in ("D16plds_v6", "D96plds_v6")
        for revision in ("rotate-v2", "rotate-v2-skip1")
    }
    trials = [
        Trial(machine, max(used[machine, "rotate-v2-skip1"]) > max(used[machine, "rotate-v2"]))
        for machine in ("D16plds_v6", "D96plds_v6")
    ]
    shown = "; ".join(
        f"{machine} under {revision}: {number_ranges(cpus)}"
        for (machine, revision), cpus in used.items()
    )
    return Outcome(tuple(trials), note=f"CPUs in use: {shown}.")


@scenario("R22")
def _r22() -> Outcome:
    """Call it near if no CPU has more than one interrupt above the best possible."""
    orders = (*STRICT_ORDERS, *RANDOM_ORDERS[:8])

    def value(run: Run) -> Any:
        return max(run.counts.values()) - run.best <= 1

    outcome = from_starts("L48s_v2", "rotate-next", 12, value, orders)
    shown = {
        histogram_in_words(run_of("L48s_v2", REVISIONS["rotate-next"], "admin-first", at))
        for at in range(12)
    }
    note = f"Device by device, admin-first, at the 12 starts: {' or '.join(sorted(shown))}."
    logged = logged_boot("x86-48cpu-6nodes-smt2-6x32-rotate-next", value)
    return Outcome((*outcome.trials, logged), outcome.numbers, note)


@scenario("R23")
def _r23() -> Outcome:
    """Look whether clusters of recorded arm64 boots are single CPUs, or whole nodes."""
    trials = []
    for name in (*recording_names(), *recording_names(life=True)):
        recording = load_recording(name)
        if recording.arch != "arm64":
            continue
        sizes = {len(cluster) for cluster in recording.topology.clusters}
        nodes = {len(cpus) for cpus in recording.topology.nodes.values() if cpus}
        trials.append(Trial(name.removeprefix("life/"), sizes == {1} or sizes == nodes))
    return Outcome(tuple(trials), note="Clusters are what firmware says (PPTT), if it says any.")


@scenario("R24")
def _r24() -> Outcome:
    """Numbers of queues at which all groups have 2 CPUs or more, and divide unevenly."""
    trials = []
    for machine, irqchip in (("D96plds_v6", "gicv3"), ("L96as_v4", "x86")):
        for queues in range(18, 47, 4):
            trials.append(Trial(f"{machine}, {irqchip}", _lowers(machine, queues, irqchip), queues))
    return Outcome(tuple(trials), "queues")
