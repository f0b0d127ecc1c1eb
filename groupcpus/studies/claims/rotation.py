# SPDX-License-Identifier: GPL-2.0-only
"""The rotation patch: R1 to R7, R9 and R16."""

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.rotations import deal_rotating, place_extras
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.studies.claims.trials import (
    HARDWARE,
    NEAR_WRAP,
    RANDOM_ORDERS,
    STRICT_ORDERS,
    WRAP,
    Outcome,
    Trial,
    before_patch,
    counts_of,
    empty_masks,
    from_starts,
    histogram_in_words,
    histogram_of,
    hot_cpus,
    logged_boot,
    machine_named,
    run_of,
    scenario,
    spread_of,
)


@scenario("R1")
def _r1() -> Outcome:
    machine = machine_named("L96as_v4")
    nodes = machine.topology.nodes

    def value(run: Run) -> Any:
        first = run.calls[-1].grouping.masks
        return {
            "disks": len(machine.devices),
            "queues": len(first),
            "cpus_a_node": [len(cpus) for cpus in nodes.values()],
            "queues_a_node": [sum(mask <= cpus for mask in first) for cpus in nodes.values()],
        }

    return before_patch("L96as_v4", value)


@scenario("R2a")
def _r2a() -> Outcome:
    nodes = machine_named("L96as_v4").topology.nodes

    def value(run: Run) -> Any:
        masks = run.calls[-1].grouping.masks
        sizes = [Counter(len(m) for m in masks if m <= cpus) for cpus in nodes.values()]
        return dict(sizes[0]) if sizes[0] == sizes[1] else [dict(size) for size in sizes]

    return before_patch("L96as_v4", value)


@scenario("R2b")
def _r2b() -> Outcome:
    def value(run: Run) -> Any:
        single = Counter(irq.device for irq in run.interrupts if len(irq.affinity) == 1)
        return {"a_disk": max(single.values()), "in_all": sum(single.values())}

    return before_patch("L96as_v4", value)


@scenario("R3a")
def _r3a() -> Outcome:
    return before_patch("L96as_v4", lambda run: histogram_of(run.counts.values()))


@scenario("R3b")
def _r3b() -> Outcome:
    return before_patch("L96as_v4", lambda run: counts_of(run, 0, 1, 34, 47))


@scenario("R3c")
def _r3c() -> Outcome:
    """Count what the CPUs handle that have no single-CPU interrupt."""
    run = run_of("L96as_v4", REVISIONS["cluster"])
    others = set(run.machine.topology.possible) - set(hot_cpus(run))
    handled = sum(run.counts[cpu] for cpu in others)
    share = f"{len(others)} of {len(run.counts)} CPUs"
    return Outcome(
        (
            Trial("all interrupts", handled),
            Trial("single-CPU interrupts alone", sum(run.single[cpu] for cpu in others)),
        ),
        note=f"Those are {share}, and they handle {handled} of {len(run.interrupts)} interrupts.",
    )


@scenario("R4")
def _r4() -> Outcome:
    """Where the hot CPUs are depends on what ran.

    A node of 48 CPUs has 31 groups.  Dealt as a whole (``numa``), the first 17 get a second CPU,
    so the last 14 CPUs are hot.  Dealt by cluster, 7 of 24 clusters get two groups, and the
    proportional rule gives them to those that the sort leaves last: the last ones only if the sort
    is stable, which the kernel's is not.
    """
    hot = hot_cpus(run_of("L96as_v4", REVISIONS["cluster"]))
    note = f"Linux 7.x (cluster, double-pop sort), which the patch is for, really has {hot}."
    return before_patch("L96as_v4", hot_cpus, note)


@scenario("R4b")
def _r4b() -> Outcome:
    """Look for CPUs that serve all disks in kernels with and without the commit."""
    stacked = {
        name: sum(irqs == 6 for irqs in run_of("L96as_v4", REVISIONS[name]).counts.values())
        for name in ("numa", "cluster")
    }
    hot = hot_cpus(run_of("L96as_v4", REVISIONS["numa"]))
    note = (
        f"Without the commit {stacked['numa']} CPUs serve all 6 disks, with it "
        f"{stacked['cluster']}; the list of the mail, {hot}, is that of a kernel without."
    )
    return Outcome((Trial("", [name for name, cpus in stacked.items() if cpus]),), note=note)


@scenario("R5a")
def _r5a() -> Outcome:
    """Try every order of requests, and disks with a poll queue, which make three calls each."""

    def value(run: Run) -> Any:
        return {"most": max(run.counts.values()), "used": sum(map(bool, run.counts.values()))}

    orders = (*STRICT_ORDERS, *RANDOM_ORDERS[:8])
    outcome = from_starts("L96as_v4", "rotate-v2", 24, value, orders)
    polling = replace(
        machine_named("L96as_v4"),
        devices=tuple(
            replace(disk, io_queues=63, poll_queues=1) for disk in machine_named("L96as_v4").devices
        ),
    )
    three_calls = [
        simulate(polling, revision="rotate-v2", probe="interleaved", spread_start=start)
        for start in range(24)
    ]
    setting = "rotate-v2, interleaved, 63 queues of which 1 polls, requests device by device"
    polled = tuple(Trial(setting, value(run), start) for start, run in enumerate(three_calls))
    logged = logged_boot("x86-96cpu-2nodes-smt2-6x62-rotate-v2", value)
    random = [trial.value["most"] for trial in outcome.trials if "random" in trial.setting]
    lockstep = run_of("L96as_v4", REVISIONS["rotate-v2"], requests="lockstep")
    note = (
        "Natural boots place requests of all disks mixed; in the logged one of such a machine the "
        f"most is {logged.value['most']}. Of {len(random)} runs with requests in "
        f"a random order, {sum(most <= 4 for most in random)} have no CPU with more than 4; the "
        f"most is {spread_of(random)}. In lockstep from 0: "
        f"{histogram_in_words(lockstep)}. With three calls a disk, from 0: "
        f"{histogram_in_words(three_calls[0])}."
    )
    return replace(outcome, trials=(*outcome.trials, *polled, logged), note=note)


@scenario("R5b")
def _r5b() -> Outcome:
    def value(run: Run) -> Any:
        return counts_of(run, 0, 1, 2, 3, 47)

    return from_starts("L96as_v4", "rotate-v2", 24, value, (*STRICT_ORDERS, *RANDOM_ORDERS[:4]))


@scenario("R6a")
def _r6a() -> Outcome:
    before = len(run_of("L96as_v4", REVISIONS["cluster"]).interrupts)

    def value(run: Run) -> Any:
        return {"before": before, "after": sum(run.counts.values())}

    return from_starts("L96as_v4", "rotate-v2", 24, value)


@scenario("R6b")
def _r6b() -> Outcome:
    def masks_a_cpu(run: Run) -> int:
        seen = Counter((irq.device, cpu) for irq in run.interrupts for cpu in irq.affinity)
        every = len(run.machine.topology.possible) * len(run.machine.devices)
        return max(seen.values()) if len(seen) == every else 0

    before = masks_a_cpu(run_of("L96as_v4", REVISIONS["cluster"]))

    def value(run: Run) -> Any:
        return {"before": before, "after": masks_a_cpu(run)}

    return from_starts("L96as_v4", "rotate-v2", 24, value)


@scenario("R7")
def _r7() -> Outcome:
    """Six callers in a row place 7 extras on 24 clusters; how many meet on the fullest cluster."""

    def overlap(start: int, stride: int | None) -> int:
        met: Counter[int] = Counter()
        for caller in range(start, start + 6):
            allotted = place_extras([2] * 24, [1] * 17 + [2] * 7, [1] * 24, caller, stride)
            met.update(at for at, groups in enumerate(allotted) if groups > 1)
        return max(met.values())

    return Outcome(
        tuple(
            Trial("", {"with_stride": overlap(at, None), "stride_1": overlap(at, 1)}, at)
            for at in range(24)
        )
    )


@scenario("R7b")
def _r7b() -> Outcome:
    """Let other calls come in between: every nth call is one of the six."""

    def overlap(step: int, start: int) -> int:
        met: Counter[int] = Counter()
        for caller in range(start, start + 6 * step, step):
            allotted = place_extras([2] * 24, [1] * 17 + [2] * 7, [1] * 24, caller, None)
            met.update(at for at, groups in enumerate(allotted) if groups > 1)
        return max(met.values())

    trials = [
        Trial(f"every call in {step}" if step > 1 else "consecutive", overlap(step, at), at)
        for step in range(1, 7)
        for at in range(24)
    ]
    worst = {step: max(overlap(step, at) for at in range(24)) for step in range(1, 7)}
    shown = ", ".join(f"{step}: {most}" for step, most in worst.items())
    return Outcome(tuple(trials), note=f"Callers from one cluster, by step: {shown}.")


@scenario("R9a")
def _r9a() -> Outcome:
    """Show it on the smallest machine; a sum that asks for too many CPUs needs 4 of them."""
    cpus, groups = next(
        (ncpus, ngroups)
        for ncpus in range(1, 9)
        for ngroups in range(1, ncpus + 1)
        if any(_runs_dry(ncpus, ngroups, counter) for counter in NEAR_WRAP)
    )
    note = f"The smallest machine that shows it has {cpus} CPUs, with {groups} groups."
    trials = (
        Trial("overflow_4cpu, rotate-v2", empty_masks("rotate-v2", at) > 0, at)
        for at in (*range(6), *NEAR_WRAP)
    )
    return Outcome(tuple(trials), "counter", note)


def _runs_dry(ncpus: int, ngroups: int, counter: int) -> bool:
    """Tell whether the groups before the last take all CPUs."""
    return sum(deal_rotating(ncpus, ngroups, counter).sizes[:-1]) >= ncpus


@scenario("R9b")
def _r9b() -> Outcome:
    trials = (
        Trial("rotate-v2-fixed", empty_masks("rotate-v2-fixed", at) == 0, at)
        for at in (*range(6), *NEAR_WRAP)
    )
    return Outcome(tuple(trials), "counter")


@scenario("R9c")
def _r9c() -> Outcome:
    """Compare what groups ask for with the CPUs there are, for every deal of up to 24 CPUs."""
    harmless = {True: True, False: True}
    for ncpus, counter in product(range(1, 25), range(WRAP - 24, WRAP)):
        for ngroups in range(1, ncpus + 1):
            fits = sum(deal_rotating(ncpus, ngroups, counter).sizes) == ncpus
            harmless[WRAP % ngroups == 0] &= fits
    return Outcome(
        (
            Trial("a node's or cluster's number of groups is a power of 2", harmless[True]),
            Trial("it is any other number", harmless[False]),
        )
    )


@scenario("R16a")
def _r16a() -> Outcome:
    return Outcome((), note=HARDWARE)


@scenario("R16b")
def _r16b() -> Outcome:
    return Outcome((), note=HARDWARE)
