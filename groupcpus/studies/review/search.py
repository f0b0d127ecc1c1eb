# SPDX-License-Identifier: GPL-2.0-only
"""Can it happen?  A predicate against a revision: all small machines, then larger ones at random.

Calls are made by the compiled batch where it knows the revision and is installed, by the engine
otherwise; a `CompiledRevision` by its C.

This module has over 450 lines since the exhaustive and the random search share how a case is made
small.
"""

import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count, islice
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import explain, group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS, Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, counted
from groupcpus.studies.batch import COMPILED, Machines, group_many, installed
from groupcpus.studies.review.compiled import CompiledRevision
from groupcpus.studies.review.predicates import (
    Calls,
    Predicate,
    as_topology,
    find_predicate,
)
from groupcpus.studies.review.qemu import qemu_command
from groupcpus.studies.review.running import Request
from groupcpus.studies.review.shapes import (
    Shape,
    count_machines,
    machines_of,
    random_machines,
    shapes,
)

__all__ = ["Case", "Found", "can_it_happen", "counters_of"]

UINT_MAX = 0xFFFFFFFF
# Rows of a block are calls on machines of few CPUs.
_BLOCK = 20_000
_LARGEST = 64
# Of a block's cases, so many are compared for the simplest.
_MOST_HITS = 500


@dataclass(frozen=True)
class Case:
    """A call in which a predicate holds."""

    topology: Topology
    numgrps: int
    counter: int
    revision: Revision

    @property
    def masks(self) -> tuple[CpuSet, ...]:
        """What the call returns; nothing if it does not come back."""
        (masks,) = _masks(self.revision, self.topology, self.numgrps, [self.counter])
        return tuple(map(CpuSet.from_mask, masks))

    def text(self) -> str:
        """Return the case with the decisions of its call."""
        nodes = "; ".join(f"node {id}: {cpus or '-'}" for id, cpus in self.topology.nodes.items())
        absent = self.topology.possible - self.topology.present
        rows = [
            f"{counted(len(self.topology.possible), 'CPU')}, {nodes}"
            + (f"; absent: {absent}" if absent else ""),
            f"clusters {_sets(self.topology.clusters)}; cores {_sets(self.topology.siblings)}",
            f"{counted(self.numgrps, 'group')} at counter {self.counter}: "
            + " | ".join(str(mask) or "empty" for mask in self.masks),
        ]
        if not isinstance(self.revision, CompiledRevision):
            steps = explain(
                self.topology, self.numgrps, revision=self.revision, spread_offset=self.counter
            )[1]
            rows += [f"  {step}" for step in steps]
        return "\n".join(rows)

    def machine_file(self) -> str:
        """Return a machine file of the case, as data/machines has them."""
        doc = self.topology.to_dict()
        nodes = ", ".join(f'{id} = "{cpus}"' for id, cpus in doc.pop("nodes").items())
        fields = [f"nodes = {{ {nodes} }}"]
        for name, value in doc.items():
            text = str(value).replace("'", '"') if isinstance(value, list) else f'"{value}"'
            fields.append(f"{name} = {text}")
        return "\n".join(
            [
                'name = "case"',
                f'title = "{counted(len(self.topology.possible), "CPU")} that show it"',
                'arch = "x86_64"',
                'irqchip = "x86"',
                f'source = "found by review: {self.numgrps} groups, counter {self.counter}"',
                "",
                "[topology]",
                *fields,
                "",
                "[[devices]]",
                'kind = "irqs"',
                "count = 1",
                f"io_queues = {self.numgrps}",
                "",
            ]
        )

    def qemu(self) -> str:
        """Return a command line that boots such a machine, or why there is none."""
        return qemu_command(self.topology, self.numgrps)


def _sets(sets: Iterable[CpuSet]) -> str:
    return " ".join(map(str, sets)) or "-"


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes
    ----------
    predicate : Predicate
        What was asked.
    case : Case, or None
        The smallest case; None: there was none.
    all_up_to : int
        All machines of up to so many CPUs were tried, as `shapes` says.
    machines, calls : int
        How many were tried.
    seconds : float
        How long it took.
    counters : str
        At which counters.
    at_random : int
        How many of the machines were larger, and drawn at random.
    """

    predicate: Predicate
    revision: str
    case: Case | None
    all_up_to: int
    machines: int
    calls: int
    seconds: float
    counters: str
    at_random: int = 0
    absent: bool = True

    def __str__(self) -> str:
        rate = self.machines / max(self.seconds, 1e-9)
        tried = f"{self.machines:,} machines, {self.calls:,} calls"
        head = f"{self.revision}: {self.predicate.sentence}:"
        if self.case:
            last = f"The smallest of {tried} tried."
            if self.at_random:
                last = f"Found at random after {tried}, and made smaller while it happens."
            return f"{head} yes.\n{self.case.text()}\n{last}"
        which = "" if self.absent else " with all CPUs present"
        kind = "a proof up to there, for those counters" if self.predicate.exact else "no proof"
        drawn = f"; {self.at_random:,} larger ones at random" if self.at_random else ""
        return (
            f"{head} none up to {counted(self.all_up_to, 'CPU')}{which}: {tried}, at counters "
            f"{self.counters}{drawn} ({kind}; {rate:,.0f} machines/s)."
        )

    def __repr__(self) -> str:
        return str(self)


def counters_of(revision: Revision, ncpus: int) -> list[int]:
    """Return counters to try: the first ones, and the last ones before it wraps.

    What only depends on the counter modulo numbers up to `ncpus` repeats after their least common
    multiple; beyond 60, the first 24 stand for them.
    """
    if not any(revision.advance(numgrps) for numgrps in (2, 3)):
        return [0]
    period = lcm(*range(1, ncpus + 1))
    first = period if period <= 60 else 24
    return [*range(first), *range(UINT_MAX + 1 - ncpus, UINT_MAX + 1)]


@dataclass(frozen=True)
class _Job:
    revision: Revision
    predicate: Predicate
    shape: Shape
    start: int
    stop: int
    counters: tuple[int, ...]


def can_it_happen(
    predicate: str | Predicate | Callable[[Topology, Sequence[CpuSet]], bool],
    revision: str | Revision,
    *,
    most_cpus: int = 7,
    absent: bool = True,
    seconds: float | tuple[float, float] = 60,
    workers: int | None = None,
) -> Found:
    """Search for the smallest call of a revision in which a predicate holds.

    Parameters
    ----------
    predicate : str, Predicate or callable
        A name in `PREDICATES`, or a function ``f(topology, masks) -> bool``.
    revision : str or Revision
        A name in `REVISIONS`, or a revision of one's own.
    most_cpus : int
        Try all machines of up to so many CPUs, with up to as many groups.
    absent : bool
        Whether machines with possible CPUs that are not present are among them.
    seconds : float or pair of float
        End after so long, at the last number of CPUs that was finished; of a pair, the second says
        for how long larger machines are drawn at random then.
    workers : int, optional
        Processes; all CPUs when left out, 1: none beside this one.

    Returns
    -------
    Found

    Examples
    --------
    >>> print(can_it_happen("empty", "rotate-v2", workers=1))
    rotate-v2: a mask is empty, though there are as many CPUs as groups: yes.
    4 CPUs, node 0: 0-3
    clusters 0 1 2 3; cores 0 1 2 3
    3 groups at counter 4294967295: 0-1 | 2-3 | empty
      present: assign CPUs 0-3 of node 0 to 3 groups, from group 0 on, at offset 4294967295
      nodes, in the order of the sort: 0: 3*4/4 = 3
      node 0: as a whole, 4 clusters for 3 groups
      node 0: 4 CPUs for 3 groups, 2 + 2 + 1 from CPU 0 on
      group 0: CPUs 0, 1 of node 0
      group 1: CPUs 2, 3 of node 0
      group 2: no CPU left of node 0
    The smallest of 332 machines, 18,553 calls tried.
    """
    asked = find_predicate(predicate)
    chosen = get_revision(revision)
    if not isinstance(most_cpus, int) or not 1 <= most_cpus <= 12:
        raise RequestError(f"most_cpus {brief(most_cpus)}: expected 1 to 12")
    # What is compiled once, and by whom, is no part of the search.
    _first(chosen, asked, machines_of(shapes(1)[0], 0, 1), [0])
    began = time.monotonic()
    tally = _Tally()
    case, finished, drawn = None, 0, 0
    used = counters_of(chosen, 1)
    every, at_random = seconds if isinstance(seconds, tuple) else (seconds, 0)
    with _pool(chosen, asked, workers) as run:
        for ncpus in range(1, most_cpus + 1):
            level = counters_of(chosen, ncpus)
            jobs = _jobs(chosen, asked, ncpus, absent, tuple(level))
            hits = tally.add(_shown(run(_search, jobs), jobs, ncpus), began + every)
            if not tally.late:
                finished, used = ncpus, level
            if hits:
                case = _smallest(hits, chosen)
            if case or tally.late:
                break
        if case is None and at_random:
            before, draws = tally.machines, _draws(chosen, asked, finished + 1, absent)
            hits = tally.add(_some_at_once(run, draws), time.monotonic() + at_random)
            drawn = tally.machines - before
            if hits:
                case = _shrunk(_smallest(hits, chosen), asked)
    return Found(
        asked,
        chosen.name,
        case,
        finished,
        tally.machines,
        tally.calls,
        time.monotonic() - began,
        _ranges(used),
        drawn,
        absent,
    )


_Hit = tuple[tuple[int, ...], dict[str, Any], int, int]


@dataclass
class _Tally:
    machines: int = 0
    calls: int = 0
    late: bool = False

    def add(self, results: Iterable[tuple[list[_Hit], int, int]], end: float) -> list[_Hit]:
        """Count what jobs did until there is no more time, and return the cases they found."""
        hits: list[_Hit] = []
        for found, machines, calls in results:
            self.machines += machines
            self.calls += calls
            hits += found
            self.late = time.monotonic() > end
            if self.late:
                break
        return hits


def _jobs(
    revision: Revision,
    predicate: Predicate,
    ncpus: int,
    absent: bool,
    counters: tuple[int, ...],
) -> list[_Job]:
    rows = max(1, _BLOCK // len(counters))
    return [
        _Job(revision, predicate, shape, start, start + rows, counters)
        for shape in shapes(ncpus, absent)
        for start in range(0, count_machines(shape), rows)
    ]


def _search(job: _Job) -> tuple[list[_Hit], int, int]:
    """Return the first case of a job, and how many machines and calls it took."""
    machines = machines_of(job.shape, job.start, job.stop)
    best, calls = _first(job.revision, job.predicate, machines, job.counters)
    return [best] if best else [], len(machines), calls


def _first(
    revision: Revision, predicate: Predicate, machines: Machines, counters: Sequence[int]
) -> tuple[_Hit | None, int]:
    calls = 0
    for numgrps in range(1, machines.node.shape[1] + 1):
        rows = np.repeat(np.arange(len(machines)), len(counters))
        offsets = np.tile(np.array(counters, np.int64), len(machines))
        held = predicate.holds(_call(revision, predicate, machines, numgrps, rows, offsets))
        calls += len(rows) * predicate.devices
        if held.any():
            at = min(
                np.flatnonzero(held)[:_MOST_HITS], key=lambda at: _key(machines, int(rows[at]))
            )
            row = int(rows[at])
            topology = as_topology(machines, row).to_dict()
            key = (numgrps, *_key(machines, row))
            return (key, topology, numgrps, int(offsets[at])), calls
    return None, calls


def _key(machines: Machines, row: int) -> tuple[int, ...]:
    """Return what makes a machine the simpler one of two with as many CPUs."""
    node, present = machines.node[row], machines.present[row]
    apart = [len(set(labels[row].tolist())) for labels in (machines.core, machines.cluster)]
    nodes = len(set(node.tolist()))
    bare = nodes - len(set(node[present > 0].tolist()))
    gone = len(node) - int(present.sum())
    return nodes, gone, bare, -apart[0], -apart[1], *np.bincount(node).tolist()


def _call(
    revision: Revision,
    predicate: Predicate,
    machines: Machines,
    numgrps: int,
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> Calls:
    """Make calls, those of further devices as well."""
    step = revision.advance(numgrps)
    made, twice = [], None
    for device in range(predicate.devices):
        counters = (offsets + device * step) & UINT_MAX
        groups, wrong = _groups(revision, machines, numgrps, rows, counters)
        made.append(groups)
        twice = wrong if twice is None else twice
    spread = Machines(
        *(
            getattr(machines, name)[rows]
            for name in ("node", "core", "cluster", "present", "online", "node_ids")
        )
    )
    return Calls(spread, numgrps, made[0], made[1:], twice)


def _groups(
    revision: Revision,
    machines: Machines,
    numgrps: int,
    rows: NDArray[np.int64],
    counters: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.bool_] | None]:
    """Return the group of each CPU, and where masks are no partition."""
    if installed() and revision.name in COMPILED and REVISIONS.get(revision.name) == revision:
        offsets = counters if revision.advance(numgrps) else np.zeros_like(counters)
        made = group_many(
            machines, numgrps, revisions=revision.name, spread_offsets=offsets, machine=rows
        )
        return made.groups, None
    groups = np.full((len(rows), machines.node.shape[1]), -1, np.int32)
    twice = np.zeros(len(rows), bool)
    at = 0
    for row in range(len(machines)):
        mine = counters[rows == row].tolist()
        topology = as_topology(machines, row)
        for masks in _masks(revision, topology, numgrps, mine):
            seen = 0
            for group, mask in enumerate(masks):
                twice[at] |= bool(mask & seen) or bool(mask & ~topology.possible.mask)
                seen |= mask
                for cpu in topology.possible:
                    if mask >> cpu & 1:
                        groups[at, cpu] = group
            at += 1
    return groups, twice


def _masks(
    revision: Revision, topology: Topology, numgrps: int, counters: Sequence[int]
) -> list[tuple[int, ...]]:
    if isinstance(revision, CompiledRevision):
        requests = [Request(numgrps, counter) for counter in counters]
        return [answer.masks or () for answer in revision.ask(topology, requests)]
    return [
        group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=counter).bits
        for counter in counters
    ]


def _smallest(hits: Iterable[_Hit], revision: Revision) -> Case:
    _, topology, numgrps, counter = min(hits, key=lambda hit: hit[0])
    return Case(Topology.from_dict(topology), numgrps, counter, revision)


@dataclass(frozen=True)
class _Draw:
    revision: Revision
    predicate: Predicate
    ncpus: int
    absent: bool
    seed: int


def _draws(revision: Revision, predicate: Predicate, ncpus: int, absent: bool) -> Iterator[_Draw]:
    for seed in count():
        yield _Draw(revision, predicate, ncpus, absent, seed)


def _search_larger(draw: _Draw) -> tuple[list[_Hit], int, int]:
    """Return the first case of some machines drawn at random, and how many these are."""
    rng = np.random.default_rng(draw.seed)
    counters = [0, 1, 5, UINT_MAX - 2, UINT_MAX] if draw.revision.advance(2) else [0]
    machines = random_machines(int(rng.integers(draw.ncpus, _LARGEST)), 20, rng, draw.absent)
    hit, calls = _first(draw.revision, draw.predicate, machines, counters)
    return [hit] if hit else [], len(machines), calls


def _some_at_once(
    run: Callable[..., Iterable[Any]], draws: Iterator[_Draw]
) -> Iterator[tuple[list[_Hit], int, int]]:
    """Yield what draws find, of which there is no end, up to the first batch that has a case."""
    found = False
    while not found:
        for result in run(_search_larger, list(islice(draws, 2 * (os.cpu_count() or 1)))):
            found |= bool(result[0])
            yield result


def _shrunk(case: Case, predicate: Predicate) -> Case:
    """Take CPUs away, many at once and then one by one, while the predicate holds."""
    counters = [case.counter, *range(6), *range(UINT_MAX - 7, UINT_MAX + 1)]
    size = len(case.topology.possible) // 2
    while size:
        cpus = list(case.topology.possible)
        for start in range(0, len(cpus), size):
            fewer = _without(case.topology, CpuSet(cpus[start : start + size]))
            if fewer is None:
                continue
            hit, _ = _first(case.revision, predicate, Machines.of([fewer]), counters)
            if hit:
                case = _smallest([hit], case.revision)
                size = len(fewer.possible)
                break
        size //= 2
    return case


def _without(topology: Topology, gone: CpuSet) -> Topology | None:
    """Return a machine without some CPUs, the others numbered anew; None: none is present."""
    kept = [cpu for cpu in topology.possible if cpu not in gone]
    number = {cpu: at for at, cpu in enumerate(kept)}
    if not topology.present - gone:
        return None

    def renamed(cpus: CpuSet) -> CpuSet:
        return CpuSet(number[cpu] for cpu in cpus if cpu in number)

    nodes = [renamed(cpus) for cpus in topology.nodes.values()]
    return Topology(
        renamed(topology.possible),
        renamed(topology.present),
        renamed(topology.online),
        dict(enumerate(cpus for cpus in nodes if cpus)),
        [cpus for cpus in map(renamed, topology.clusters) if cpus],
        [cpus for cpus in map(renamed, topology.siblings) if cpus],
        no_cluster=renamed(topology.no_cluster & topology.possible),
    )


def _ranges(counters: Sequence[int]) -> str:
    """Return counters as ranges."""
    rows: list[list[int]] = []
    for counter in counters:
        if rows and counter == rows[-1][-1] + 1:
            rows[-1][1:] = [counter]
        else:
            rows.append([counter])
    return ", ".join("-".join(map(str, row)) for row in rows)


@contextmanager
def _pool(
    revision: Revision, predicate: Predicate, workers: int | None
) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield a `map` over processes, or this one's where nothing else can have the function."""
    try:
        pickle.dumps((revision, predicate))
    except (pickle.PicklingError, AttributeError, TypeError):
        workers = 1
    if workers == 1:
        with nullcontext():
            yield map
        return
    with ProcessPoolExecutor(workers) as pool:
        try:
            yield pool.map
        finally:
            pool.shutdown(cancel_futures=True)


def _shown(results: Iterable[Any], jobs: Sequence[_Job], ncpus: int) -> Iterable[Any]:
    """Return the results with a progress bar after two seconds, in a terminal alone."""
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return results
    how = {"total": len(jobs), "desc": f"{ncpus} CPUs", "leave": False, "delay": 2}
    return tqdm(results, disable=None, **how)
