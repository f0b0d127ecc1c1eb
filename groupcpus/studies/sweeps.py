# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: many machines, devices, queues, revisions, irqchips and counters, one row each.

What configurations share is worked out once.  A *cell* is a machine with a number of queues; in
it the masks of a revision and an offset serve every device count and irqchip, and a run with six
devices goes on where the one with five ended, if their calls begin alike.
"""

import multiprocessing
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    as_completed,
)
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from groupcpus.engine.cpuset import CpuSet, cpus_of
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import InterruptedSweepError, RequestError, counted
from groupcpus.machines.bounds import least_maximum, reachable_cpus, reachable_maximum
from groupcpus.machines.devices import Device, probe_calls
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.run import Run
from groupcpus.studies.checkpoints import Folder, Part
from groupcpus.studies.fingerprint import fingerprint, source_fingerprint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Row", "figures", "sweep"]

# So many vectors fit on every CPU, whatever the devices are.
MAX_DEVICES = 64
# Rows of one job: enough to be worth sending, few enough to lose little.
_ROWS_PER_JOB = 2000
_UINT_MAX = 0xFFFFFFFF
_FIRST_CPU = ("gicv2m", "gicv3", "its-first")


class Row(NamedTuple):
    """One configuration and what came of it."""

    machine: str
    cpus: int
    """Online CPUs."""
    nodes: int
    devices: int
    queues: int
    """The greatest number of I/O queues of any device."""
    revision: str
    irqchip: str
    probe: str
    start: int
    """The counter before the first call."""
    irqs: int
    """Interrupts of queues that some CPU handles."""
    greatest: int
    """Interrupts of the CPU that handles most."""
    mean: float
    """Interrupts a CPU."""
    used: int
    """CPUs that handle any."""
    hot: int
    """CPUs that handle interrupts whose masks have no other CPU."""
    imbalance: float
    """Interrupts a CPU of the node that has most of them, less those of the one with fewest."""
    cross_node: int
    """Masks with CPUs of several nodes."""
    cross_cluster: int
    """Masks with CPUs of several clusters; 0 where none are known."""
    bound: int
    """The least possible `greatest` with this irqchip, whatever the grouping."""
    fair_bound: int
    """The same for groupings that are as fair as `cluster`; see `reachable_maximum`."""
    usable: int
    """The most CPUs that such a grouping can use; see `reachable_cpus`."""


class _Masks(NamedTuple):
    """What one call gives to all configurations that make it."""

    filled: tuple[int, ...]
    choices: list[list[int]]
    """The online CPUs of each mask that has any, the greatest first."""
    singles: int
    cross_node: int
    cross_cluster: int


class _Step(NamedTuple):
    """A device as its interrupts are requested: vectors before its own, and its calls."""

    pre_vectors: int
    calls: tuple[tuple[int, int], ...]
    """Groups and offset of each call that makes interrupts."""


@dataclass(frozen=True)
class _Job:
    """Some cells and everything to be tried on them."""

    cells: tuple[tuple[Machine, tuple[int | None, ...], int | None], ...]
    revisions: tuple[Revision, ...]
    irqchips: tuple[str, ...] | None
    probes: tuple[str, ...]
    starts: tuple[int, ...]


def sweep(
    machines: Iterable[Machine | str],
    *,
    devices: Iterable[int] | None = None,
    queues: Iterable[int] | None = None,
    revisions: Iterable[str | Revision] = ("cluster", "rotate-v2", "rotate-next", "rotate-tiled"),
    irqchips: Iterable[str] | None = None,
    probes: Iterable[str] = ("admin-first",),
    starts: Iterable[int] = (0,),
    executor: Executor | None = None,
    workers: int | None = None,
    path: str | Path | None = None,
    progress: bool = True,
) -> "pd.DataFrame":
    """Try every combination and return one row for each.

    Parameters
    ----------
    machines : iterable of Machine or str
        The machines; names as `read_machine` takes them.  Names must differ.
    devices, queues : iterable of int, optional
        How many devices, and I/O queues of each; each machine's own when left out.
    revisions, irqchips, probes, starts : iterable, optional
        As `simulate` takes them, one at a time; the irqchip is the machine's own when left out.
    executor : concurrent.futures.Executor, optional
        Where jobs run, such as ``distributed.Client().get_executor()``; left open.  Revisions of
        your own have to be something that it can send.
    workers : int, optional
        Without an executor: how many processes to start; one a CPU when left out, 0: none, work
        here.
    path : str or Path, optional
        A folder for the rows, one Parquet file a job.  A sweep that was interrupted goes on from
        there when it is started again with the same arguments.  What was computed by other code,
        groupcpus' own or a revision's, is not taken for an answer.
    progress : bool
        Show a bar.

    Returns
    -------
    DataFrame
        The fields of `Row`, in the order of the arguments: machines outermost, then queues,
        revisions, irqchips, probe orders, starts, and devices innermost.

    Raises
    ------
    RequestError
        If an argument is none that can be.
    FormatError
        If the folder belongs to another sweep, or one is writing there.
    InterruptedSweepError
        If a worker was killed or the disk is full; finished parts are kept.

    Examples
    --------
    >>> frame = sweep(["L96as_v4"], devices=[1, 6], revisions=["cluster", "rotate-tiled"],
    ...               workers=0, progress=False)
    >>> frame[["revision", "devices", "irqs", "greatest", "bound", "hot"]]
           revision  devices  irqs  greatest  bound  hot
    0       cluster        1    62         1      1   28
    1       cluster        6   372         6      4   28
    2  rotate-tiled        1    62         1      1   28
    3  rotate-tiled        6   372         4      4   96
    """
    import pandas as pd

    jobs = _plan(
        [read_machine(machine) if isinstance(machine, str) else machine for machine in machines],
        None if devices is None else tuple(devices),
        None if queues is None else tuple(queues),
        tuple(map(get_revision, revisions)),
        None if irqchips is None else tuple(irqchips),
        tuple(probes),
        tuple(starts),
    )
    folder = None if path is None else Folder(Path(path), _parts(jobs))
    with folder.opened() if folder else nullcontext():
        parts = _known(folder, jobs)
        missing = [at for at in range(len(jobs)) if at not in parts]

        def keep(at: int, rows: list[Row]) -> None:
            parts[at] = _frame(rows)
            if folder:
                folder.write(at, parts[at])

        sizes = list(map(_size, jobs))
        with _bar(progress, sum(sizes), sum(sizes[at] for at in missing)) as advance:
            if executor is None and workers == 0:
                for at in missing:
                    keep(at, run_job(jobs[at]))
                    advance(sizes[at])
            elif missing:
                with _pool(executor, workers) as pool, _broken(folder, parts, jobs):
                    _collect(pool, jobs, missing, keep, advance)
    return pd.concat([_frame([]), *(parts[at] for at in range(len(jobs)))], ignore_index=True)


def _parts(jobs: Sequence[_Job]) -> list[Part]:
    """Say what the file of each job must hold."""
    sizes = list(map(_size, jobs))
    firsts = accumulate(sizes, initial=0)
    source = source_fingerprint()
    return [
        Part(fingerprint((source, job)), first, size)
        for job, first, size in zip(jobs, firsts, sizes, strict=False)
    ]


def _known(folder: Folder | None, jobs: Sequence[_Job]) -> "dict[int, pd.DataFrame]":
    """Read the rows that an earlier start left, and say which of them cannot be trusted."""
    if folder is None:
        return {}
    read = {at: folder.read(at) for at in range(len(jobs))}
    if folder.distrusted:
        at, why = next(iter(folder.distrusted.items()))
        print(
            f"{folder.path}: {counted(len(folder.distrusted), 'part')} computed again; "
            f"{folder.file(at).name} {why}",
            file=sys.stderr,
        )
    return {at: frame for at, frame in read.items() if frame is not None}


def _frame(rows: list[Row]) -> "pd.DataFrame":
    import pandas as pd

    kinds = {"int": "int64", "float": "float64", "str": "str"}
    frame = pd.DataFrame(rows, columns=list(Row._fields))
    return frame.astype({name: kinds[kind.__name__] for name, kind in Row.__annotations__.items()})


def _plan(
    machines: Sequence[Machine],
    devices: tuple[int, ...] | None,
    queues: tuple[int, ...] | None,
    revisions: tuple[Revision, ...],
    irqchips: tuple[str, ...] | None,
    probes: tuple[str, ...],
    starts: tuple[int, ...],
) -> list[_Job]:
    """Check the arguments, and put the cells into jobs of about the same size."""
    for argument, named in (("machines", machines), ("revisions", revisions)):
        for name, times in Counter(thing.name for thing in named).items():
            if times > 1:
                raise RequestError(f"{argument}: {name!r} is there twice")
    for start in starts:
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise RequestError(f"starts: {start!r} is no whole number from 0 on")
    for machine in machines:
        if any(device.kind == "mana" for device in machine.devices):
            raise RequestError(f"machine {machine.name}: interrupts of MANA don't come from groups")
        if not machine.topology.online:
            raise RequestError(f"machine {machine.name}: no CPU is online")
        for irqchip in irqchips or [machine.irqchip]:
            make_irqchip(irqchip, machine.topology)
    every = (None,) if devices is None else devices
    cells = [
        (machine, every, wanted)
        for machine in machines
        for wanted in ((None,) if queues is None else queues)
    ]
    for machine, counts, wanted in cells:
        for count in counts:
            made = _devices(machine, count, wanted)
            if len(made) > MAX_DEVICES:
                raise RequestError(f"devices: {len(made)} are too many, at most {MAX_DEVICES}")
            for probe in probes:
                probe_calls(made, len(machine.topology.possible), probe)
    each = max(1, len(every) * len(revisions) * len(irqchips or "1") * len(probes) * len(starts))
    step = max(1, _ROWS_PER_JOB // each)
    return [
        _Job(tuple(cells[at : at + step]), revisions, irqchips, probes, starts)
        for at in range(0, len(cells), step)
    ]


def _size(job: _Job) -> int:
    """Count the rows of a job."""
    others = len(job.revisions) * len(job.irqchips or "1") * len(job.probes) * len(job.starts)
    return others * sum(len(counts) for _, counts, _ in job.cells)


def _devices(machine: Machine, count: int | None, queues: int | None) -> tuple[Device, ...]:
    if count is None and queues is None:
        return machine.devices
    return machine.with_devices(count=count, io_queues=queues).devices


def run_job(job: _Job) -> list[Row]:
    """Work out the rows of a job; this is what executors run."""
    return [row for cell in job.cells for row in _Cell(*cell).rows(job)]


class _Cell:
    """A machine with a number of queues, and what its configurations share."""

    def __init__(self, machine: Machine, counts: Sequence[int | None], queues: int | None) -> None:
        self.machine = machine
        self.topology = machine.topology
        self.devices = [_devices(machine, count, queues) for count in counts]
        self.probing: dict[tuple[int, str], list[tuple[str, int, int, bool]]] = {}
        self.masks: dict[tuple[str, int, int], _Masks] = {}
        self.bounds: dict[tuple[int, ...], tuple[int, int]] = {}
        self.nodes = [
            list(cpus & self.topology.online)
            for cpus in self.topology.nodes.values()
            if cpus & self.topology.online
        ]

    def rows(self, job: _Job) -> Iterator[Row]:
        irqchips = job.irqchips or (self.machine.irqchip,)
        for revision, irqchip, probe, start in product(
            job.revisions, irqchips, job.probes, job.starts
        ):
            steps = [self.steps(made, revision, probe, start) for made in self.devices]
            after = self.follow(steps, revision, irqchip)
            for made, path in zip(self.devices, steps, strict=True):
                known = (
                    self.machine.name,
                    len(self.topology.online),
                    len(self.nodes),
                    len(made),
                    max((device.io_queues for device in made), default=0),
                    revision.name,
                    irqchip,
                    probe,
                    start,
                )
                yield Row(*known, *after[path])

    def steps(
        self, devices: Sequence[Device], revision: Revision, probe: str, start: int
    ) -> tuple[_Step, ...]:
        """Follow the counter through all calls; give the devices in the order of their requests."""
        key = (len(devices), probe)
        if key not in self.probing:
            self.probing[key] = [
                (device.name, device.pre_vectors, asked.queues, asked.interrupts)
                for call in probe_calls(devices, len(self.topology.possible), probe)
                for device, asked in [(call.device, call.queue_set)]
            ]
        counter = start & _UINT_MAX
        made: dict[str, _Step] = {}
        for device, pre_vectors, numgrps, interrupts in self.probing[key]:
            offset = revision.offset(numgrps, counter)
            counter = (counter + revision.advance(numgrps)) & _UINT_MAX
            if interrupts:
                # A device is where its last call is.
                before = made.pop(device, _Step(pre_vectors, ()))
                made[device] = _Step(pre_vectors, (*before.calls, (numgrps, offset)))
        return tuple(made.values())

    def follow(
        self, paths: Sequence[tuple[_Step, ...]], revision: Revision, irqchip: str
    ) -> dict[tuple[_Step, ...], tuple[Any, ...]]:
        """Place the interrupts of all runs; one that begins like another is part of it."""
        after: dict[tuple[_Step, ...], tuple[Any, ...]] = {}
        for path in sorted(set(paths), key=len, reverse=True):
            if path not in after:
                wanted = {other for other in paths if path[: len(other)] == other}
                after |= self.place(path, wanted, revision, irqchip)
        return after

    def place(
        self,
        path: tuple[_Step, ...],
        wanted: set[tuple[_Step, ...]],
        revision: Revision,
        irqchip: str,
    ) -> dict[tuple[_Step, ...], tuple[Any, ...]]:
        """Request all devices of a run; give the figures wherever another run ends."""
        request = self.requests(irqchip)
        loads = dict.fromkeys(self.topology.online, 0)
        tally = _Tally()
        after: dict[tuple[_Step, ...], tuple[Any, ...]] = {}
        for at, step in enumerate((None, *path)):
            if step is not None:
                calls = [self.call(revision, *call) for call in step.calls]
                request(loads, step, calls)
                for masks, (numgrps, _) in zip(calls, step.calls, strict=True):
                    tally.add(masks, numgrps)
            if path[:at] in wanted:
                after[path[:at]] = self.figures(loads, tally, irqchip)
        return after

    def requests(self, irqchip: str) -> Callable[[dict[int, int], _Step, Sequence[_Masks]], None]:
        """Give a function that requests a device's interrupts, and counts them on CPUs.

        Short cuts for irqchips that need not look at anything but the queues' own interrupts.
        """
        if irqchip == "x86":
            return _request_least_loaded
        if irqchip in _FIRST_CPU:
            return _request_first
        chip = make_irqchip(irqchip, self.topology)
        home = next(cpus for cpus in self.topology.nodes.values() if cpus & self.topology.online)

        def request(loads: dict[int, int], step: _Step, calls: Sequence[_Masks]) -> None:
            own = [CpuSet.from_mask(mask) for masks in calls for mask in masks.filled]
            managed = [False] * step.pre_vectors + [True] * len(own)
            before = [home & self.topology.online] * step.pre_vectors
            for cpu in chip.assign(before + own, managed)[step.pre_vectors :]:
                if cpu is not None:
                    loads[cpu] += 1

        return request

    def call(self, revision: Revision, numgrps: int, offset: int) -> _Masks:
        """Group the CPUs, once for each revision, number of groups and offset."""
        key = (revision.name, numgrps, offset)
        if key not in self.masks:
            grouping = group_cpus_evenly(
                self.topology, numgrps, revision=revision, spread_offset=offset
            )
            self.masks[key] = _look_at(self.topology, grouping.bits[: grouping.nummasks])
        return self.masks[key]

    def figures(self, loads: dict[int, int], tally: "_Tally", irqchip: str) -> tuple[Any, ...]:
        """Sum up what the CPUs handle."""
        irqs, cpus = sum(loads.values()), len(loads)
        best = least_maximum(cpus, irqs, tally.calls, irqchip)
        fair, usable = self.fair(tuple(tally.numgrps))
        load = loads.__getitem__
        means = [sum(map(load, node)) / len(node) for node in self.nodes]
        return (
            irqs,
            max(loads.values()),
            irqs / cpus,
            sum(map(bool, loads.values())),
            (tally.singles & self.topology.online.mask).bit_count(),
            max(means) - min(means),
            tally.cross_node,
            tally.cross_cluster,
            best,
            max(best, fair),
            min(usable, cpus, irqs) if irqchip in _FIRST_CPU else min(cpus, irqs),
        )

    def fair(self, numgrps: tuple[int, ...]) -> tuple[int, int]:
        """Bound what fair groupings reach, as far as all CPUs are online."""
        if self.topology.online != self.topology.possible:
            return 0, len(self.topology.online)
        if numgrps not in self.bounds:
            self.bounds[numgrps] = (
                reachable_maximum(self.topology, numgrps),
                reachable_cpus(self.topology, numgrps),
            )
        return self.bounds[numgrps]


class _Tally:
    """What adds up over the calls of a run."""

    def __init__(self) -> None:
        self.numgrps: list[int] = []
        self.calls = self.singles = self.cross_node = self.cross_cluster = 0

    def add(self, masks: _Masks, numgrps: int) -> None:
        self.numgrps.append(numgrps)
        self.calls += 1
        self.singles |= masks.singles
        self.cross_node += masks.cross_node
        self.cross_cluster += masks.cross_cluster


def _request_least_loaded(loads: dict[int, int], step: _Step, calls: Sequence[_Masks]) -> None:
    """Do as `VectorMatrix` does while no CPU runs out of vectors; `MAX_DEVICES` sees to that."""
    load = loads.__getitem__
    for masks in calls:
        for cpus in masks.choices:
            cpu = cpus[0]
            if len(cpus) == 2:
                # Most groups are pairs or single CPUs, and min() is slow to start.
                cpu = cpu if loads[cpu] <= loads[cpus[1]] else cpus[1]
            elif len(cpus) > 2:
                cpu = min(cpus, key=load)
            loads[cpu] += 1


def _request_first(loads: dict[int, int], step: _Step, calls: Sequence[_Masks]) -> None:
    """Do as `FirstCpu` does."""
    for masks in calls:
        for cpus in masks.choices:
            loads[cpus[-1]] += 1


def _look_at(topology: Topology, masks: tuple[int, ...]) -> _Masks:
    online = topology.online.mask
    choices: list[list[int]] = []
    singles = cross_node = cross_cluster = 0
    for mask in filter(None, masks):
        last = mask.bit_length() - 1
        if mask == 1 << last:
            singles |= mask
            choices += [[last]] if mask & online else []
        else:
            cross_node += bool(mask & ~topology.nodes[topology.node_ids[last]].mask)
            cluster = topology.cluster_of(last).mask
            cross_cluster += bool(cluster and mask & ~cluster)
            choices += [cpus_of(mask & online)[::-1]] if mask & online else []
    return _Masks(masks, choices, singles, cross_node, cross_cluster)


def figures(run: Run) -> Row:
    """Give the row of a run that `simulate` made; the same as `sweep` would, with nothing shared.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> row = figures(simulate("L96as_v4", revision="rotate-tiled", irqchip="gicv3"))
    >>> row.greatest, row.used, row.usable
    (6, 96, 96)
    """
    topology = run.machine.topology
    online = topology.online
    silent = {device.name for device in run.machine.devices if device.kind == "loop"}
    made = [
        call for call in run.calls if call.kind in ("default", "read") and call.device not in silent
    ]
    loads = {cpu: run.counts[cpu] for cpu in online}
    irqs = sum(loads.values())
    seen = [_look_at(topology, call.grouping.bits[: call.grouping.nummasks]) for call in made]
    nodes = [cpus & online for cpus in topology.nodes.values() if cpus & online]
    means = [sum(loads[cpu] for cpu in node) / len(node) for node in nodes]
    best = least_maximum(len(online), irqs, len(made), run.irqchip)
    fair, usable = 0, len(online)
    if online == topology.possible:
        numgrps = [call.numgrps for call in made]
        fair, usable = reachable_maximum(topology, numgrps), reachable_cpus(topology, numgrps)
    singles = {irq.effective for irq in run.interrupts if len(irq.affinity) == 1} - {None}
    return Row(
        machine=run.machine.name,
        cpus=len(online),
        nodes=len(nodes),
        devices=len(run.machine.devices),
        queues=max((device.io_queues for device in run.machine.devices), default=0),
        revision=run.revision.name,
        irqchip=run.irqchip,
        probe=run.probe if isinstance(run.probe, str) else "explicit",
        start=run.spread_start,
        irqs=irqs,
        greatest=max(loads.values()),
        mean=irqs / len(online),
        used=sum(map(bool, loads.values())),
        hot=len(singles),
        imbalance=max(means) - min(means),
        cross_node=sum(masks.cross_node for masks in seen),
        cross_cluster=sum(masks.cross_cluster for masks in seen),
        bound=best,
        fair_bound=max(best, fair),
        usable=min(len(online), irqs, usable if run.irqchip in _FIRST_CPU else len(online)),
    )


# ---- jobs, files, progress -----------------------------------------------------------------


@contextmanager
def _pool(executor: Executor | None, workers: int | None) -> Iterator[Executor]:
    """Give the executor, or start processes and end them."""
    if executor is not None:
        yield executor
        return
    # Forking a process that has threads may hang it; Python 3.14 no longer does so either.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    with ProcessPoolExecutor(
        workers or os.cpu_count() or 1, mp_context=context, initializer=_end_with_parent
    ) as pool:
        yield pool


def _end_with_parent() -> None:
    """End this worker when the sweep is gone: a killed one cannot tell its workers."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _broken(
    folder: Folder | None, parts: "dict[int, pd.DataFrame]", jobs: Sequence[_Job]
) -> Iterator[None]:
    """Turn the death of a worker into an error that says how to go on."""
    try:
        yield
    except Exception as error:
        # Dask's has a name of its own, which is not to be imported for this.
        if not isinstance(error, BrokenExecutor) and type(error).__name__ != "KilledWorker":
            raise
        kept = f"{len(parts)} of {counted(len(jobs), 'part')} are kept in {folder and folder.path}"
        raise InterruptedSweepError(
            "a worker process was killed or could not start, perhaps for want of memory; "
            + (kept if folder else "nothing is kept without a path")
            + ": start the same sweep again, with fewer workers if it happens again"
        ) from error


def _collect(
    executor: Executor,
    jobs: Sequence[_Job],
    missing: Sequence[int],
    keep: Callable[[int, list[Row]], None],
    advance: Callable[[int], None],
) -> None:
    """Run jobs and keep their rows as they come; when interrupted, keep what is done."""
    waiting: dict[Future[list[Row]], int] = {
        executor.submit(run_job, jobs[at]): at for at in missing
    }
    try:
        for future in as_completed(list(waiting)):
            rows = future.result()
            at = waiting.pop(future)
            keep(at, rows)
            advance(_size(jobs[at]))
    finally:
        for future in waiting:
            future.cancel()
        for future, at in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                keep(at, future.result())


@contextmanager
def _bar(wanted: bool, total: int, missing: int) -> Iterator[Callable[[int], None]]:
    """Show a bar for all rows, those of an earlier start included."""
    if not wanted:
        yield lambda rows: None
        return
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        yield lambda rows: None
        return
    with tqdm(total=total, initial=total - missing, unit="configuration") as bar:
        yield bar.update
