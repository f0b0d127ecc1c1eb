# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: many machines, devices, queues, revisions, irqchips, orders and counters, one row each.

Rows are worked out in jobs (`cells`), here or by an executor's workers, and kept in a folder
(`checkpoints`) so that a sweep that was interrupted goes on.
"""

import gc
import multiprocessing
import os
import pickle
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
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from groupcpus.engine.irqchips import make_irqchip
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.errors import InterruptedSweepError, RequestError, brief, counted
from groupcpus.machines.devices import probe_calls
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.requests import request_order
from groupcpus.studies.batch import get_ready
from groupcpus.studies.cells import Axes, Job, frame_of, is_compiled, run_job, with_devices
from groupcpus.studies.checkpoints import Folder, StoredPart
from groupcpus.studies.fingerprint import fingerprint, source_fingerprint
from groupcpus.studies.rows import Row, figures

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Row", "figures", "sweep"]

# So many vectors fit on every CPU, whatever the devices are.
MAX_DEVICES = 64
# Rows of one job: enough to be worth sending, few enough to lose little.
_ROWS_PER_JOB = 2000


class Tried(TypedDict, total=False):
    """What a sweep tries, each a list; see `sweep`."""

    devices: Iterable[int] | None
    queues: Iterable[int] | None
    revisions: Iterable[str | Revision]
    irqchips: Iterable[str] | None
    probes: Iterable[str]
    requests: Iterable[str]
    starts: Iterable[int]


_DEFAULTS: Tried = {
    "devices": None,
    "queues": None,
    "revisions": ("cluster", "rotate-v2", "rotate-next", "rotate-tiled"),
    "irqchips": None,
    "probes": ("admin-first",),
    "requests": ("device-by-device",),
    "starts": (0,),
}


def sweep(
    machines: Iterable[Machine | str],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    path: str | Path | None = None,
    progress: bool = True,
    **tried: Unpack[Tried],
) -> "pd.DataFrame":
    """Try every combination and return one row for each.

    Parameters
    ----------
    machines : iterable of Machine or str
        The machines; names as `read_machine` takes them.  Names must differ.
    devices, queues : iterable of int, optional
        How many devices, and I/O queues of each; each machine's own when left out.
    revisions, irqchips, probes, requests, starts : iterable, optional
        As `simulate` takes them, one at a time.  When left out: four revisions, the machine's own
        irqchip, ``admin-first``, ``device-by-device``, and 0.
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
        revisions, irqchips, probe orders, orders of requests, starts, and devices innermost.

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

    if unknown := sorted(set(tried) - set(_DEFAULTS)):
        raise RequestError(f"{unknown[0]}: expected one of {', '.join(_DEFAULTS)}")
    lists = {name: _listed(name, value) for name, value in (_DEFAULTS | tried).items()}
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int)):
        raise RequestError(f"workers {brief(workers)}: expected a whole number")
    wanted = tuple(map(get_revision, lists.pop("revisions") or ()))
    counts = lists.pop("devices"), lists.pop("queues")
    jobs = _plan(
        [
            read_machine(machine) if isinstance(machine, str) else machine
            for machine in _listed("machines", machines) or ()
        ],
        *counts,
        Axes(revisions=wanted, **lists),  # type: ignore[arg-type]
    )
    left = [one.name for one in wanted if not is_compiled(one)]
    if progress and left:
        print(f"the engine computes {', '.join(left)}: not compiled", file=sys.stderr)
    folder = None if path is None else Folder(Path(path), _parts(jobs))
    with folder.opened() if folder else nullcontext():
        parts = _known(folder, jobs)
        missing = [at for at in range(len(jobs)) if at not in parts]

        def keep(at: int, frame: pd.DataFrame) -> None:
            parts[at] = frame
            if folder:
                folder.write(at, frame)

        sizes = [job.size for job in jobs]
        with _bar(progress, sum(sizes), sum(sizes[at] for at in missing)) as advance:
            if executor is None and workers == 0:
                for at in missing:
                    keep(at, run_job(jobs[at]))
                    advance(sizes[at])
            elif missing:
                with _pool(executor, workers) as pool, _broken(folder, parts, jobs):
                    _collect(pool, jobs, missing, keep, advance)
    return pd.concat([frame_of([]), *(parts[at] for at in range(len(jobs)))], ignore_index=True)


def _listed(name: str, values: Any) -> tuple[Any, ...] | None:
    if values is None and name in ("devices", "queues", "irqchips"):
        return None
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise RequestError(f"{name} {brief(values)}: expected a list")
    return tuple(values)


def _parts(jobs: Sequence[Job]) -> list[StoredPart]:
    """Say what the file of each job must hold."""
    sizes = [job.size for job in jobs]
    firsts = accumulate(sizes, initial=0)
    source = source_fingerprint()
    return [
        StoredPart(fingerprint((source, job)), first, size)
        for job, first, size in zip(jobs, firsts, sizes, strict=False)
    ]


def _known(folder: Folder | None, jobs: Sequence[Job]) -> "dict[int, pd.DataFrame]":
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


def _plan(
    machines: Sequence[Machine],
    devices: tuple[int, ...] | None,
    queues: tuple[int, ...] | None,
    axes: Axes,
) -> list[Job]:
    """Check the arguments, and put the cells into jobs of about the same size."""
    _check_axes(machines, axes)
    counts: tuple[int | None, ...] = (None,) if devices is None else devices
    cells = [
        (machine, counts, wanted)
        for machine in machines
        for wanted in ((None,) if queues is None else queues)
    ]
    # The fewest and the most devices stand for all.
    for number in devices or ():
        if isinstance(number, bool) or not isinstance(number, int):
            raise RequestError(f"devices: {brief(number)} is no whole number")
    extremes = (None,) if devices is None else {*sorted(devices)[:1], *sorted(devices)[-1:]}
    for (machine, _, wanted), count in product(cells, extremes):
        made = with_devices(machine, count, wanted)
        if len(made) > MAX_DEVICES:
            raise RequestError(f"devices: {len(made)} are too many, at most {MAX_DEVICES}")
        for probe in axes.probes:
            probe_calls(made, len(machine.topology.possible), probe)
    step = max(1, _ROWS_PER_JOB // max(1, len(counts) * axes.size))
    return [Job(tuple(cells[at : at + step]), axes) for at in range(0, len(cells), step)]


def _check_axes(machines: Sequence[Machine], axes: Axes) -> None:
    for machine in machines:
        _check_machine(machine, axes)
    for argument, named in (("machines", machines), ("revisions", axes.revisions)):
        for name, times in Counter(thing.name for thing in named).items():
            if times > 1:
                raise RequestError(f"{argument}: {name!r} is there twice")
    for start in axes.starts:
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise RequestError(f"starts: {brief(start)} is no whole number from 0 on")
    for order in axes.requests:
        if not isinstance(order, str):
            raise RequestError(f"requests: {brief(order)} is no name of an order")
        request_order(order, {})


def _check_machine(machine: Machine, axes: Axes) -> None:
    if not isinstance(machine, Machine):
        raise RequestError(f"machines: {brief(machine)} is no Machine")
    if any(device.kind == "mana" for device in machine.devices):
        raise RequestError(f"machine {machine.name}: interrupts of MANA don't come from groups")
    if not machine.topology.online:
        raise RequestError(f"machine {machine.name}: no CPU is online")
    for irqchip in axes.irqchips or [machine.irqchip]:
        make_irqchip(irqchip, machine.topology)


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
    # Compiled once here, not once in each of them.
    get_ready()
    with _Processes(
        workers or os.cpu_count() or 1, mp_context=context, initializer=_start_worker
    ) as pool:
        yield pool


class _Processes(ProcessPoolExecutor):
    """Processes that get jobs with the functions in them, those of a notebook's cells too."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            from cloudpickle import dumps
        except ImportError:
            from pickle import dumps
        try:
            sent = dumps((fn, args, kwargs))
        except Exception as error:
            raise RequestError(
                f"revisions: cannot be sent to other processes ({brief(str(error))}); use workers=0"
            ) from error
        return super().submit(_run_sent, sent)


def _run_sent(sent: bytes) -> Any:
    try:
        fn, args, kwargs = pickle.loads(sent)
    except Exception as error:
        raise RequestError(
            f"revisions: cannot be read in another process ({brief(str(error))}); use workers=0, "
            "define them in a module, or install cloudpickle"
        ) from None
    return fn(*args, **kwargs)


def _start_worker() -> None:
    """Load the batch, and end this worker when the sweep is gone: a killed one cannot say so."""
    get_ready()
    # What is loaded stays: looking for garbage in it takes a tenth of a sweep.
    gc.freeze()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _broken(
    folder: Folder | None, parts: "dict[int, pd.DataFrame]", jobs: Sequence[Job]
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
    jobs: Sequence[Job],
    missing: Sequence[int],
    keep: "Callable[[int, pd.DataFrame], None]",
    advance: Callable[[int], None],
) -> None:
    """Run jobs and keep their rows as they come; when interrupted, keep what is done."""
    waiting: dict[Future[pd.DataFrame], int] = {
        executor.submit(run_job, jobs[at]): at for at in missing
    }
    try:
        for future in as_completed(list(waiting)):
            frame = future.result()
            at = waiting.pop(future)
            keep(at, frame)
            advance(jobs[at].size)
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
