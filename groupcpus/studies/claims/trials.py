# SPDX-License-Identifier: GPL-2.0-only
"""How a claim is computed: trials, one for each setting that a mail leaves open."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import Grouping, group_cpus_evenly
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.requests import Allocation, VectorWanted, place, request_order
from groupcpus.machines.run import Run
from groupcpus.observed.boots import run_as_recorded

__all__ = [
    "BEFORE",
    "HARDWARE",
    "NEAR_WRAP",
    "PROBES",
    "RANDOM_ORDERS",
    "SCENARIOS",
    "SORTS",
    "STRICT_ORDERS",
    "WRAP",
    "Outcome",
    "Trial",
    "before_patch",
    "counts_of",
    "empty_masks",
    "from_starts",
    "grouping_of",
    "histogram_in_words",
    "histogram_of",
    "hot_cpus",
    "in_words",
    "logged_boot",
    "machine_named",
    "modulo",
    "number_ranges",
    "placed",
    "run_of",
    "scenario",
    "span_of",
    "spread_of",
]


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
class Outcome:
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
    numbers: str = "counter at start is"
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


SCENARIOS: dict[str, Callable[[], Outcome]] = {}


@cache
def machine_named(name: str) -> Machine:
    """Return a machine of the project, read once."""
    return read_machine(name)


def scenario(name: str) -> Callable[[Callable[[], Outcome]], Callable[[], Outcome]]:
    """Register the function that computes the claim of this name."""

    def register(function: Callable[[], Outcome]) -> Callable[[], Outcome]:
        SCENARIOS[name] = cache(function)
        return function

    return register


# How requests of disks may mix: strictly, and irregularly as they do when disks probe in parallel.
STRICT_ORDERS = ("device-by-device", "lockstep")
RANDOM_ORDERS = tuple(f"random-{seed}" for seed in range(20))

# What ran before the patch: the mails don't say.
BEFORE: dict[str, Revision] = {
    "numa (6.3 to 6.19)": REVISIONS["numa"],
    "numa-single-pop (6.3 to 6.8 or so)": REVISIONS["numa-single-pop"],
    "cluster (7.0 on)": REVISIONS["cluster"],
    "cluster, older sort (no kernel)": replace(REVISIONS["cluster"], sort="single-pop"),
    "cluster, stable sort (no kernel)": replace(REVISIONS["cluster"], sort="stable"),
}


SORTS = {
    "double-pop sort (7.0, 6.9 on)": "double-pop",
    "older, single-pop sort": "single-pop",
    "stable sort (no kernel)": "stable",
}


PROBES = ("admin-first", "interleaved")


@lru_cache(maxsize=1024)
def run_of(
    machine: str,
    revision: Revision,
    probe: str | tuple[str, ...] = "admin-first",
    start: int = 0,
    requests: str = "device-by-device",
) -> Run:
    """Return a run; runs that differ in the order of requests share their masks."""
    if requests != "device-by-device":
        return run_of(machine, revision, probe, start).requested(requests)
    return simulate(machine, revision=revision, probe=probe, spread_start=start)


def before_patch(machine: str, value: Callable[[Run], Any], note: str = "") -> Outcome:
    """Compute a value for every revision that may have run before the patch."""
    trials = (Trial(name, value(run_of(machine, rev))) for name, rev in BEFORE.items())
    return Outcome(tuple(trials), note=note)


def from_starts(
    machine: str,
    revision: str,
    period: int,
    value: Callable[[Run], Any],
    orders: Iterable[str] = ("device-by-device",),
) -> Outcome:
    """Compute a value for probe orders, starts up to the period, and orders of requests."""
    orders = tuple(orders)
    return Outcome(
        tuple(
            Trial(
                ", ".join([revision, probe, *([in_words(order)] if len(orders) > 1 else [])]),
                value(run_of(machine, REVISIONS[revision], probe, at, order)),
                at,
            )
            for order in orders
            for probe in PROBES
            for at in range(period)
        ),
        numbers=modulo(period),
    )


def in_words(order: str) -> str:
    """Return how a trial's setting calls an order of requests."""
    return f"requests {'in ' if order == 'lockstep' else ''}{order.replace('-', ' ')}"


def logged_boot(name: str, value: Callable[[Run], Any]) -> Trial:
    """Compute a value of a recorded boot, calls and requests in the order that was logged."""
    return Trial(f"as logged at boot: {name}", value(run_as_recorded(f"life/{name}")))


def modulo(period: int) -> str:
    """Name the counter's start, of which the layout depends on a remainder only."""
    return f"counter at start modulo {period} is"


@lru_cache(maxsize=4096)
def grouping_of(machine: str, revision: str, numgrps: int, offset: int) -> Grouping:
    """Return what a call gives on a machine."""
    topology = machine_named(machine).topology
    return group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=offset)


@lru_cache(maxsize=8192)
def placed(
    machine: str, groupings: tuple[Grouping, ...], requests: str = "device-by-device"
) -> dict[int, int]:
    """Place the interrupts of disks that got these groupings, and count them a CPU.

    Admin queues' interrupts are left out: they are not managed, and none of the irqchips lets them
    weigh in the choice for managed ones.
    """
    topology = machine_named(machine).topology
    chip = make_irqchip(machine_named(machine).irqchip, topology)
    allocations = [
        Allocation(
            f"nvme{disk}",
            tuple(VectorWanted("default", mask, 0, True) for mask in grouping.masks if mask),
        )
        for disk, grouping in enumerate(groupings)
    ]
    order = request_order(requests, {one.device: len(one.vectors) for one in allocations})
    counts = Counter(cpu for disk in place(chip, allocations, order) for cpu in disk)
    return {cpu: counts[cpu] for cpu in topology.online}


def histogram_of(counts: Iterable[int]) -> dict[int, int]:
    """Count CPUs by their interrupts, the idle ones left out."""
    return dict(sorted(Counter(filter(None, counts)).items()))


def histogram_in_words(run: Run) -> str:
    """Return how many CPUs serve how many interrupts, the idle ones left out.

    Examples
    --------
    >>> histogram_in_words(run_of("L96as_v4", REVISIONS["cluster"]))
    '68 CPUs with 3, 28 with 6'
    """
    counts = histogram_of(run.counts.values())
    return ", ".join(
        f"{cpus} {'' if at else 'CPUs '}with {irqs}"
        for at, (irqs, cpus) in enumerate(counts.items())
    )


def span_of(counts: Iterable[int]) -> str:
    """Print the least and the greatest of some numbers."""
    counts = list(counts)
    return f"{min(counts)}-{max(counts)}"


def spread_of(numbers: Iterable[int]) -> str:
    """Put the least and the greatest of some numbers into words."""
    least, greatest = min(found := list(numbers)), max(found)
    return f"{least}" if least == greatest else f"{least} to {greatest}"


def hot_cpus(run: Run) -> CpuSet:
    """Give the CPUs that serve an interrupt which can only run there."""
    return CpuSet(irq.affinity.first or 0 for irq in run.interrupts if len(irq.affinity) == 1)


def counts_of(run: Run, *cpus: int) -> dict[int, int]:
    """Return how many interrupts each of some CPUs serves."""
    return {cpu: run.counts[cpu] for cpu in cpus}


HARDWARE = "Hardware did this; nothing here models the time an interrupt takes."


WRAP = 1 << 32


def empty_masks(revision: str, counter: int) -> int:
    """Return how many masks of the small machine are empty."""
    run = run_of("overflow_4cpu", REVISIONS[revision], start=counter)
    return sum(not mask for call in run.calls for mask in call.filled)


NEAR_WRAP = range(WRAP - 6, WRAP)
