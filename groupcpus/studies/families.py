# SPDX-License-Identifier: GPL-2.0-only
"""Families of made-up machines, to try revisions on: one half to search with, one to judge by."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FAMILIES", "HALVES", "draw_machines", "scores"]

HALVES = ("search", "held out")
_MAX_CPUS = 256


def _uniform(
    rng: random.Random, threads: list[int], clusters: list[int | None], whole: bool = True
) -> Topology:
    """Make equal nodes; `whole`: of whole cores and clusters."""
    while True:
        nodes, thread, cluster = rng.choice([1, 2, 4, 8]), rng.choice(threads), rng.choice(clusters)
        cpus = rng.randint(1, _MAX_CPUS // nodes)
        if whole:
            cpus -= cpus % max(thread, cluster or 1)
        if cpus and nodes * cpus >= 4:
            return Topology.uniform(nodes, cpus, thread, cluster)


def _lopsided(rng: random.Random) -> Topology:
    """Make nodes of different sizes, of cores with two threads that are clusters."""
    sizes = [2 * rng.randint(2, 24) for _ in range(rng.randint(2, 5))]
    edges = [sum(sizes[:at]) for at in range(len(sizes) + 1)]
    cores = [f"{cpu}-{cpu + 1}" for cpu in range(0, edges[-1], 2)]
    return Topology.from_dict(
        {
            "nodes": {str(at): f"{edges[at]}-{edges[at + 1] - 1}" for at in range(len(sizes))},
            "siblings": cores,
            "clusters": cores,
            "possible": f"0-{edges[-1] - 1}",
            "present": f"0-{edges[-1] - 1}",
        }
    )


def _absent(rng: random.Random) -> Topology:
    """Make equal nodes of which a part may still be plugged in."""
    document = _uniform(rng, [1, 2], [2, None]).to_dict()
    count = Topology.from_dict(document).possible.mask.bit_count()
    present = f"0-{rng.randint(count // 2, count - 1)}"
    return Topology.from_dict(document | {"present": present, "online": present})


def _equal(rng: random.Random, cpus: int) -> list[Device]:
    queues = rng.randint(2, cpus)
    return [Device(f"nvme{at}", "nvme", queues) for at in range(rng.randint(2, 12))]


def _unequal(rng: random.Random, cpus: int) -> list[Device]:
    return [Device(f"nvme{at}", "nvme", rng.randint(2, cpus)) for at in range(rng.randint(2, 12))]


def _read_and_poll(rng: random.Random, cpus: int) -> list[Device]:
    """Make equal devices with calls of three sizes each; the last one's have no interrupts."""
    queues = rng.randint(4, cpus)
    write, poll = rng.randint(1, queues - 2), rng.randint(0, queues // 2)
    return [Device(f"nvme{at}", "nvme", queues, write, poll) for at in range(rng.randint(2, 12))]


Topologies = Callable[[random.Random], Topology]
Devices = Callable[[random.Random, int], list[Device]]


def _any_uniform(rng: random.Random) -> Topology:
    return _uniform(rng, [1, 2], [0, None, 2, 4, 8])


FAMILIES: dict[str, tuple[str, Topologies, Devices]] = {
    "pairs": (
        "equal nodes; cores of two threads, each a cluster",
        lambda rng: _uniform(rng, [2], [2]),
        _equal,
    ),
    "single threads": (
        "equal nodes; one thread a core; clusters of 1, 2, 4, 8 CPUs or unknown",
        lambda rng: _uniform(rng, [1], [0, None, 2, 4, 8]),
        _equal,
    ),
    "threads and clusters": (
        "equal nodes; one or two threads a core; any clusters",
        _any_uniform,
        _equal,
    ),
    "remainders": (
        "the same, but the last core or cluster of a node may be smaller",
        lambda rng: _uniform(rng, [1, 2], [0, None, 2, 4, 8], whole=False),
        _equal,
    ),
    "lopsided": ("nodes of different sizes", _lopsided, _equal),
    "absent": ("up to half of the CPUs are not there yet", _absent, _equal),
    "unequal devices": (
        "as threads and clusters, each device with its own number of queues",
        _any_uniform,
        _unequal,
    ),
    "read and poll queues": (
        "as threads and clusters, each device with calls of two or three sizes",
        _any_uniform,
        _read_and_poll,
    ),
}


def draw_machines(family: str, count: int, half: str = "held out", first: int = 0) -> list[Machine]:
    """Make machines of a family: always the same ones.

    Parameters
    ----------
    family : str
        A name in `FAMILIES`.
    count : int
        How many.
    half : {"search", "held out"}
        Which half: nothing in the project was chosen by looking at those held out.
    first : int
        How many to leave out before.

    Raises
    ------
    RequestError
        If there is no such family or half.

    Examples
    --------
    >>> [machine.topology for machine in draw_machines("pairs", 2)]
    [<Topology: 120 CPUs, 1 node, 60 clusters, 60 cores>,
     <Topology: 76 CPUs, 2 nodes, 38 clusters, 38 cores>]
    """
    for field, value, expected in (("family", family, FAMILIES), ("half", half, HALVES)):
        if value not in expected:
            raise RequestError(f"{field} {value!r}: expected one of {', '.join(expected)}")
    _, make_topology, make_devices = FAMILIES[family]
    made = []
    for at in range(first, first + count):
        rng = random.Random(f"{family}, {half}, {at}")
        topology = make_topology(rng)
        name = f"{family.replace(' ', '-')}-{half.replace(' ', '-')}-{at}"
        devices = make_devices(rng, len(topology.possible))
        made.append(Machine(name, name, "x86_64", "x86", topology, tuple(devices)))
    return made


def scores(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Sum a sweep up by revision.

    Returns
    -------
    DataFrame
        By revision, in the order of the frame; of x86 the share of rows whose greatest number of
        interrupts a CPU is ``ceil(interrupts / CPUs)`` (`even`) and the least that fair groupings
        reach (`reachable`), the mean distance from that (`above`), and the mean distance of the
        greatest number of submitters from its bound (`submitters above`); the same once more for
        the rows with random orders of requests (`parallel`), over all of these; of gicv3, where
        the order changes nothing, the mean share of CPUs used, of as many as there could be at
        all (`of all`) and with a fair grouping (`of usable`).  Columns without rows are left out.
    """
    import pandas as pd

    parallel = frame["requests"].str.startswith("random")
    x86, gic = (frame["irqchip"] == irqchip for irqchip in ("x86", "gicv3"))
    parts = {
        "x86": _x86_scores(frame[x86 & ~parallel]),
        "parallel": _x86_scores(frame[x86 & parallel]),
        "gicv3": _gicv3_scores(frame[gic & ~parallel]),
    }
    return pd.concat({name: part for name, part in parts.items() if len(part)}, axis=1)


def _x86_scores(rows: "pd.DataFrame") -> "pd.DataFrame":
    even = -(-rows["irqs"] // rows["cpus"])
    scored = {
        "even": rows["greatest"] <= even,
        "reachable": rows["greatest"] <= rows["fair_bound"],
        "above": rows["greatest"] - rows["fair_bound"],
        "submitters above": rows["submitters"] - rows["submitters_bound"],
    }
    return _means(rows, scored)


def _gicv3_scores(rows: "pd.DataFrame") -> "pd.DataFrame":
    most = rows[["irqs", "cpus"]].min(axis=1)
    scored = {"of all": rows["used"] / most, "of usable": rows["used"] / rows["usable"]}
    return _means(rows, scored)


def _means(rows: "pd.DataFrame", scored: "dict[str, pd.Series[Any]]") -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(scored).groupby(rows["revision"], sort=False).mean()
