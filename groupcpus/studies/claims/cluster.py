# SPDX-License-Identifier: GPL-2.0-only
"""The cluster-aware patch: C1 to C4."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.engine.topology import Topology
from groupcpus.studies.claims.trials import HARDWARE, SORTS, Outcome, Trial, machine_named, scenario


def _xeon(revision: Revision) -> tuple[CpuSet, ...]:
    return group_cpus_evenly(machine_named("xeon_e_40cpu").topology, 11, revision=revision).masks


def _spanned(mask: CpuSet) -> int:
    return len({machine_named("xeon_e_40cpu").topology.cluster_id(cpu) for cpu in mask})


def _by_sort(value: Callable[[tuple[CpuSet, ...]], Any], note: str = "") -> Outcome:
    """Compute a value after the cluster patch for each way of sorting equal clusters."""
    return Outcome(
        tuple(
            Trial(name, value(_xeon(replace(REVISIONS["cluster"], sort=sort))))
            for name, sort in SORTS.items()
        ),
        note=note,
    )


@scenario("C1a")
def _c1a() -> Outcome:
    return Outcome((Trial("", [len(mask) for mask in _xeon(REVISIONS["numa"])]),))


@scenario("C1b")
def _c1b() -> Outcome:
    ninth = _xeon(REVISIONS["numa"])[8]
    has = ninth & CpuSet("31-32")
    return Outcome((Trial("", {"has": str(has), "clusters": _spanned(ninth)}),))


@scenario("C1c")
def _c1c() -> Outcome:
    masks = _xeon(REVISIONS["numa"])[-4:]
    crossing = [str(mask) for mask in masks if _spanned(mask) > 1]
    note = f"{len(crossing)} of the four do: {' and '.join(crossing)}."
    return Outcome((Trial("", bool(crossing)),), note=note)


@scenario("C1d")
def _c1d() -> Outcome:
    topology = machine_named("xeon_e_40cpu").topology
    masks = _xeon(REVISIONS["numa"])
    return Outcome(
        tuple(
            Trial(irqchip, make_irqchip(irqchip, topology).assign(masks)[8])
            for irqchip in ("x86", "gicv3")
        ),
        note=f"Its mask is {masks[8]}.",
    )


@scenario("C2a")
def _c2a() -> Outcome:
    def value(masks: tuple[CpuSet, ...]) -> Any:
        sizes = Counter(map(len, masks))
        return {
            **dict(sorted(sizes.items())),
            "spanning": sum(_spanned(mask) > 1 for mask in masks),
        }

    return _by_sort(value)


@scenario("C2b")
def _c2b() -> Outcome:
    return _by_sort(lambda masks: CpuSet(cpu for mask in masks if len(mask) == 2 for cpu in mask))


@scenario("C2c")
def _c2c() -> Outcome:
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


@scenario("C3")
def _c3() -> Outcome:
    return Outcome((), note=HARDWARE)


@scenario("C4a")
def _c4a() -> Outcome:
    """Take the cluster of the first CPU out of the CPUs left: nothing goes if it is empty."""
    topology = Topology.uniform(nodes=1, cpus_per_node=4, cluster=0)
    left = topology.nodes[0]
    return Outcome((Trial("", left - topology.cluster_of(min(left)) == left),))


@scenario("C4b")
def _c4b() -> Outcome:
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
    return Outcome(tuple(trials), "groups")
