# SPDX-License-Identifier: GPL-2.0-only
"""Compare the project's two rotations with the others and write data/kept.csv.

    python tools/kept.py [--machines 20]

On some held-out machines of each family and on shapes of real machines, all with the x86 irqchip: a
row is a group of machines, an order of requests and a revision.  `by irqs` and `by submitters` are
the shares of runs at the least that is reachable; `split cores` and `split llcs` the mean numbers
of those that a device cuts between two queues, looked at on every third machine.  The order *a call
between* is device by device with a call of random size after each device: that of the poll queues
of a device whose only interrupt may go to any CPU.  Submitters are not compared then.
"""

import argparse
import random
from dataclasses import replace

import pandas as pd

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, data_dir
from groupcpus.machines.probe import simulate
from groupcpus.studies.families import FAMILIES, draw_machines
from groupcpus.studies.rotation import split_parts
from groupcpus.studies.sweeps import sweep

NAMES = ("cluster", "rotate-v2", "rotate-next", "rotate-tiled", "rotate-kept")
ORDERS = ("device-by-device", "lockstep", "random-0", "random-1")
BETWEEN = "a call between"
QUEUES = (5, 7, 10, 14, 20)
DEVICES = (3, 6, 9)


def shapes() -> dict[str, Topology]:
    """Return shapes of real machines; numbering and caches are those of a common model."""
    epyc = Topology.uniform(2, 64, 2, 2).to_dict()
    epyc["llcs"] = [f"{cpu}-{cpu + 15}" for cpu in range(0, 128, 16)]
    pairs = [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]
    hybrid = {
        "possible": "0-31",
        "present": "0-31",
        "nodes": {"0": "0-31"},
        "siblings": pairs,
        "clusters": [*pairs, *(f"{cpu}-{cpu + 3}" for cpu in range(16, 32, 4))],
    }
    return {
        "EPYC": Topology.from_dict(epyc),
        "Kunpeng": Topology.uniform(4, 32, 1, 4),
        "POWER": Topology.uniform(2, 88, 4, None),
        "hybrid": Topology.from_dict(hybrid),
        "odd VM": Topology.uniform(1, 23, 2, 2),
    }


def machines_of(name: str, topology: Topology) -> list[Machine]:
    """Return a shape with each of some numbers of equal devices and queues."""
    return [
        Machine(
            f"{name}-{count}-{queues}",
            name,
            "x86_64",
            "x86",
            topology,
            tuple(Device(f"nvme{at}", "nvme", queues) for at in range(count)),
        )
        for count in DEVICES
        for queues in QUEUES
    ]


def with_calls_between(machine: Machine) -> Machine:
    """Put a device whose poll queues make a call of random size after each device."""
    rng = random.Random(machine.name)
    cpus = len(machine.topology.possible)
    devices = []
    for at, device in enumerate(machine.devices):
        polls = rng.randint(2, cpus)
        devices += [device, Device(f"other{at}", "nvme", polls + 1, poll_queues=polls)]
    return replace(machine, devices=tuple(devices))


def split(machine: Machine, revision: str) -> tuple[float, float]:
    """Return how many cores and last-level caches a device cuts in the mean."""
    topology = machine.topology
    made = [
        group_cpus_evenly(
            topology, call.numgrps, revision=revision, spread_offset=call.spread_offset
        ).masks
        for call in simulate(machine, revision=revision, irqchip="x86").calls
        if call.kind in ("default", "read")
    ]
    cores, llcs = (
        sum(split_parts(masks, parts) for masks in made) / len(made)
        for parts in (topology.siblings, topology.llcs)
    )
    return cores, llcs


def compare(group: str, machines: list[Machine]) -> pd.DataFrame:
    """Return the rows of a group of machines."""
    revisions = [REVISIONS[name] for name in NAMES]
    frame = sweep(
        machines, revisions=revisions, irqchips=["x86"], requests=ORDERS, workers=0, progress=False
    )
    between = sweep(
        list(map(with_calls_between, machines)),
        revisions=revisions,
        irqchips=["x86"],
        workers=0,
        progress=False,
    )
    frame = pd.concat([frame, between.assign(requests=BETWEEN)])
    frame["order"] = frame["requests"].replace(r"random-\d", "random", regex=True)
    frame["by irqs"] = frame["greatest"] <= frame["fair_bound"]
    frame["by submitters"] = frame["submitters"] <= frame["submitters_bound"]
    frame["by submitters"] = frame["by submitters"].where(frame["order"] != BETWEEN)
    table = frame.groupby(["order", "revision"], sort=False)[["by irqs", "by submitters"]].mean()
    table = table.astype(float)
    cuts = {
        name: pd.DataFrame([split(one, name) for one in machines[::3]]).mean() for name in NAMES
    }
    names = table.index.get_level_values("revision")
    table["split cores"] = [cuts[name][0] for name in names]
    table["split llcs"] = [cuts[name][1] for name in names]
    table = table.reset_index()
    table.insert(0, "machines", len(machines))
    table.insert(0, "group", group)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--machines", type=int, default=20, help="of each family")
    count = parser.parse_args().machines
    tables = [compare(name, machines_of(name, topology)) for name, topology in shapes().items()]
    tables += [compare(family, draw_machines(family, count)) for family in FAMILIES]
    whole = pd.concat(tables, ignore_index=True)
    whole.to_csv(data_dir() / "kept.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
