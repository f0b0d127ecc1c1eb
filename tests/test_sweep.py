# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: the same rows as one run at a time, whoever computes them, interrupted or not."""

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS, Deal, Revision, deal_evenly
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, InterruptedSweepError, RequestError
from groupcpus.machines import probe as probing
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.studies import cells
from groupcpus.studies import sweeps as engine
from groupcpus.studies.sweeps import Row, figures, sweep
from tests.strategies import made

DISK = Device("nvme0", "nvme", io_queues=9)


def machine(name, topology=None, devices=(DISK,)):
    if topology is None:
        topology = Topology.uniform(nodes=2, cpus_per_node=8, threads=2, cluster=4)
    return Machine(name, name, "x86_64", "x86", topology, tuple(devices))


MACHINES = [
    machine("pairs"),
    machine("lone", Topology.uniform(nodes=3, cpus_per_node=5, threads=1, cluster=None)),
    machine("one", Topology.uniform(nodes=1, cpus_per_node=12, threads=2, cluster=0)),
]
ARGUMENTS: dict[str, Any] = {
    "devices": (1, 3, 4),
    "queues": (2, 7, 40),
    "irqchips": ("x86", "gicv3"),
    "starts": (0, 5),
    "progress": False,
}


@pytest.fixture
def small_jobs(monkeypatch):
    """Cut sweeps into many jobs."""
    monkeypatch.setattr(engine, "_ROWS_PER_JOB", 60)


@pytest.fixture(params=["engine", "batch"])
def who(request, monkeypatch):
    """Let the engine compute the rows, or the compiled batch."""
    if request.param == "batch":
        pytest.importorskip("numba", reason="the extra `batch` is not installed")
    else:
        monkeypatch.setattr(cells, "installed", lambda: False)
    return request.param


def assert_same(frame, other):
    pd.testing.assert_frame_equal(frame, other, check_exact=True)


ORDERS = ("device-by-device", "lockstep", "random-5")


# ---- the rows ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("irqchip", "probe"),
    [*((irqchip, "admin-first") for irqchip in IRQCHIPS), ("its", "interleaved")],
)
def test_rows_are_those_of_one_simulation_each(who, irqchip, probe):
    """Shared work and short cuts change nothing."""
    frame = sweep(
        MACHINES,
        devices=(0, 2, 5),
        queues=(5, 17),
        revisions=list(REVISIONS),
        irqchips=[irqchip],
        probes=[probe],
        requests=ORDERS,
        starts=[0, 2**32 - 4],
        workers=0,
        progress=False,
    )
    expected = [
        figures(
            simulate(
                one.with_devices(count=count, io_queues=queues),
                revision=revision,
                irqchip=irqchip,
                probe=probe,
                requests=requests,
                spread_start=start,
            )
        )
        for one, queues, revision, requests, start, count in product(
            MACHINES, (5, 17), REVISIONS, ORDERS, (0, 2**32 - 4), (0, 2, 5)
        )
    ]
    rows = [Row(*row) for row in frame.itertuples(index=False)]
    # A machine without devices has no queues to name.
    assert [row._replace(queues=0) for row in rows] == [row._replace(queues=0) for row in expected]


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=40)
@given(drawn=made(max_cpus=16), data=st.data())
def test_any_machine_with_devices_of_its_own(compiled, drawn, data):
    """Unequal devices, read and poll queues, absent and offline CPUs."""
    if not drawn.topology.online:
        return
    queues = st.integers(1, 12)
    devices = [
        data.draw(
            st.one_of(
                st.builds(
                    Device,
                    st.just(f"nvme{at}"),
                    st.just("nvme"),
                    queues,
                    st.integers(0, 3),
                    st.integers(0, 3),
                ),
                st.builds(Device, st.just(f"virtio{at}"), st.just("virtio"), queues),
                st.builds(Device, st.just(f"loop{at}"), st.just("loop")),
                st.builds(Device, st.just(f"irqs{at}"), st.just("irqs"), queues),
            )
        )
        for at in range(data.draw(st.integers(1, 4)))
    ]
    one = machine("any", drawn.topology, devices)
    revision = data.draw(st.sampled_from(list(REVISIONS)))
    irqchip = data.draw(st.sampled_from(list(IRQCHIPS)))
    probe = data.draw(st.sampled_from(["admin-first", "interleaved"]))
    requests = data.draw(st.sampled_from(ORDERS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "installed", lambda: compiled)
        frame = sweep(
            [one],
            revisions=[revision],
            irqchips=[irqchip],
            probes=[probe],
            requests=[requests],
            workers=0,
            progress=False,
        )
    run = simulate(one, revision=revision, irqchip=irqchip, probe=probe, requests=requests)
    assert [Row(*row) for row in frame.itertuples(index=False)] == [figures(run)]


def test_figures_of_the_mail(who):
    """28 hot CPUs with six interrupts each, and none above four after the patch."""
    frame = sweep(["L96as_v4"], revisions=["cluster", "rotate-v2"], workers=0, progress=False)
    assert frame["greatest"].tolist() == [6, 4]
    assert frame["hot"].tolist() == [28, 96]
    assert frame["irqs"].tolist() == [372, 372]
    assert frame["bound"].tolist() == [4, 4]
    assert frame["imbalance"].tolist() == [0, 0]
    assert (frame[["cross_node", "cross_cluster"]] == 0).all(axis=None)


def test_columns_of_a_small_case(who):
    """Three CPUs in clusters 0-1 and 2, two devices with one queue: one mask over everything."""
    topology = Topology.uniform(nodes=1, cpus_per_node=3, threads=1, cluster=2)
    one = machine("three", topology, [Device(f"irqs{at}", "irqs", 1) for at in range(2)])
    row = Row(*next(sweep([one], revisions=["numa"], workers=0, progress=False).itertuples(False)))
    assert row._replace(machine="", revision="", irqchip="", probe="") == Row(
        machine="",
        cpus=3,
        nodes=1,
        devices=2,
        queues=1,
        revision="",
        irqchip="",
        probe="",
        requests="device-by-device",
        start=0,
        irqs=2,
        greatest=1,
        mean=2 / 3,
        used=2,
        hot=0,
        imbalance=0.0,
        cross_node=0,
        cross_cluster=2,
        bound=1,
        fair_bound=1,
        usable=2,
        submitters=3,
        submitters_bound=3,
    )


def test_what_runs_share_is_done_once(monkeypatch):
    """Six devices are one run: each mask is made once for all counts and both irqchips."""
    made_masks = []
    real = probing.group_cpus_evenly

    def counting(*args, **kwargs):
        made_masks.append((args[1], kwargs["spread_offset"]))
        return real(*args, **kwargs)

    monkeypatch.setattr(probing, "group_cpus_evenly", counting)
    monkeypatch.setattr(cells, "installed", lambda: False)
    frame = sweep(
        MACHINES[:1],
        devices=range(1, 7),
        revisions=["rotate-next"],
        irqchips=["x86", "gicv3"],
        workers=0,
        progress=False,
    )
    assert len(frame) == 12
    assert sorted(made_masks) == [(1, 0), *((9, offset) for offset in range(6))]


# ---- jobs ----------------------------------------------------------------------------------


class Here(Executor):
    """Runs jobs at once, counts them, and may be interrupted before one of them."""

    def __init__(self, until=None):
        self.until = until
        self.done = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future[Any] = Future()
        if len(self.done) == self.until:
            future.set_exception(KeyboardInterrupt())
        else:
            self.done.append(args)
            future.set_result(fn(*args, **kwargs))
        return future


def test_any_executor_gives_the_same_frame(small_jobs):
    here = Here()
    frame = sweep(MACHINES, **ARGUMENTS, workers=0)
    assert len(frame) == 3 * 3 * 4 * 2 * 2 * 3
    assert_same(sweep(MACHINES, **ARGUMENTS, executor=here), frame)
    assert len(here.done) > 5
    assert frame["machine"].drop_duplicates().tolist() == ["pairs", "lone", "one"]


@pytest.mark.slow
def test_processes_give_the_same_frame(small_jobs):
    assert_same(sweep(MACHINES, **ARGUMENTS, workers=2), sweep(MACHINES, **ARGUMENTS, workers=0))


@pytest.mark.slow
def test_functions_of_a_notebook_are_sent_to_processes(small_jobs):
    pytest.importorskip("cloudpickle", reason="the extra `sweep` is not installed")
    last = own(lambda ncpus, ngroups, offset: Most(-1)(ncpus, ngroups, offset))
    arguments = ARGUMENTS | {"revisions": [last]}
    assert_same(sweep(MACHINES, **arguments, workers=1), sweep(MACHINES, **arguments, workers=0))


def test_what_cannot_be_sent_is_said():
    stuck = own(partial(at_place, 0, offset=threading.Lock()))
    with pytest.raises(RequestError, match=r"cannot be sent to other processes.*workers=0"):
        sweep(MACHINES[:1], **ARGUMENTS, revisions=[stuck], workers=1)


def test_it_says_which_revisions_are_not_compiled(capsys):
    pytest.importorskip("numba", reason="the extra `batch` is not installed")
    arguments = ARGUMENTS | {"progress": True, "revisions": ["cluster", own(Most(0))]}
    sweep(MACHINES[:1], **arguments, workers=0)
    assert "the engine computes own: not compiled" in capsys.readouterr().err


# ---- files ---------------------------------------------------------------------------------


@pytest.fixture
def parquet():
    return pytest.importorskip("pyarrow", reason="the extra `sweep` is not installed")


def test_an_interrupted_sweep_goes_on_and_computes_nothing_twice(parquet, small_jobs, tmp_path):
    expected = sweep(MACHINES, **ARGUMENTS, workers=0)
    first, second, third = Here(until=3), Here(), Here()
    with pytest.raises(KeyboardInterrupt):
        sweep(MACHINES, **ARGUMENTS, path=tmp_path / "rows", executor=first)
    parts = sorted(path.name for path in (tmp_path / "rows").glob("part-*"))
    assert parts == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    frame = sweep(MACHINES, **ARGUMENTS, path=tmp_path / "rows", executor=second)
    assert_same(frame, expected)
    assert len(first.done) == 3
    assert not {repr(job) for job in first.done} & {repr(job) for job in second.done}
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path / "rows", executor=third), expected)
    assert third.done == []
    # The folder is one data set for any reader of Parquet.
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    assert_same(pd.concat(map(pd.read_parquet, files), ignore_index=True), expected)


def test_a_half_written_part_does_not_count(parquet, small_jobs, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sweep(MACHINES, **ARGUMENTS, path=tmp_path, executor=Here(until=2))
    (tmp_path / "part-00002.parquet.unfinished").write_bytes(b"PAR1")
    expected = sweep(MACHINES, **ARGUMENTS, workers=0)
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"starts": (0, 6)},
        {"devices": (1, 3)},
        {"irqchips": ("x86",)},
        {"revisions": ["cluster"]},
        {"revisions": [replace(REVISIONS["cluster"], sort="single-pop")]},
        {"probes": ["interleaved"]},
    ],
)
def test_a_folder_belongs_to_one_sweep(parquet, tmp_path, change):
    sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
    with pytest.raises(FormatError, match="belongs to another sweep"):
        sweep(MACHINES, **ARGUMENTS | change, path=tmp_path, workers=0)
    other = [*MACHINES[:2], replace(MACHINES[2], topology=MACHINES[0].topology)]
    with pytest.raises(FormatError, match="belongs to another sweep"):
        sweep(other, **ARGUMENTS, path=tmp_path, workers=0)


def test_a_folder_with_something_else_is_left_alone(parquet, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FormatError, match="is not empty and holds no sweep"):
        sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sweep.json").write_text("{", encoding="utf-8")
    with pytest.raises(FormatError, match=r"sweep\.json: not a JSON file"):
        sweep(MACHINES, **ARGUMENTS, path=tmp_path / "other", workers=0)
    (tmp_path / "other" / "sweep.json").write_text(json.dumps({"format": 2}), encoding="utf-8")
    with pytest.raises(FormatError, match="belongs to another sweep"):
        sweep(MACHINES, **ARGUMENTS, path=tmp_path / "other", workers=0)


def test_parts_say_what_they_are(parquet, small_jobs, tmp_path):
    import pyarrow.parquet as pq

    frame = sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
    files = sorted(tmp_path.glob("*.parquet"))
    tags = [json.loads(pq.read_schema(file).metadata[b"groupcpus"]) for file in files]
    assert len({tag["job"] for tag in tags}) == len({tag["checksum"] for tag in tags}) == len(files)
    assert [tag["first"] for tag in tags] == [
        sum(tag["rows"] for tag in tags[:at]) for at in range(len(tags))
    ]
    assert sum(tag["rows"] for tag in tags) == len(frame)


def fewer_rows(first, second):
    pd.read_parquet(first).head(10).to_parquet(first)


def other_values(first, second):
    frame = pd.read_parquet(first)
    frame["greatest"] += 1
    frame.to_parquet(first)


def other_values_under_the_same_tag(first, second):
    import pyarrow.parquet as pq

    table = pq.read_table(first)
    columns = list(table.columns)
    at = table.column_names.index("greatest")
    columns[at] = columns[0].combine_chunks().dictionary_encode().indices
    pq.write_table(table.set_column(at, "greatest", columns[at].cast("int64")), first)


def swapped(first, second):
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


def truncated(first, second):
    first.write_bytes(first.read_bytes()[:3000])


def empty(first, second):
    first.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [fewer_rows, other_values, other_values_under_the_same_tag, swapped, truncated, empty],
)
def test_a_damaged_part_is_computed_again_and_said(parquet, small_jobs, tmp_path, capsys, damage):
    expected = sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
    damage(*sorted(tmp_path.glob("*.parquet"))[:2])
    again = Here()
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, executor=again), expected)
    count = 2 if damage is swapped else 1
    assert len(again.done) == count
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{count} part{'s' * (count > 1)} computed again; part-00000.parquet" in line
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, executor=Here(until=0)), expected)


def test_no_flipped_bit_goes_unnoticed(parquet, small_jobs, tmp_path, capsys):
    expected = sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
    file = sorted(tmp_path.glob("*.parquet"))[1]
    good = file.read_bytes()
    rng = random.Random(14)
    for _ in range(25):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        file.write_bytes(bad)
        assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0), expected)


class Most:
    """A callable object: the first or another group gets what is left over."""

    def __init__(self, at):
        self.at = at

    def __call__(self, ncpus, ngroups, offset):
        sizes = [1] * ngroups
        sizes[self.at] += ncpus - ngroups
        return Deal(sizes)


def at_place(at, ncpus, ngroups, offset):
    return Most(at)(ncpus, ngroups, offset)


SHIFT = 0


def by_a_global(ncpus, ngroups, offset):
    return Most(SHIFT)(ncpus, ngroups, offset)


def closure(at):
    return lambda ncpus, ngroups, offset: Most(at)(ncpus, ngroups, offset)


def default(at):
    def deal(ncpus, ngroups, offset, at=at):
        return Most(at)(ncpus, ngroups, offset)

    return deal


def own(deal):
    return Revision("own", "nowhere", "of one's own", deal=deal)


@pytest.mark.parametrize(
    "make", [Most, closure, default, lambda at: partial(at_place, at), lambda at: Most(at).__call__]
)
def test_a_folder_knows_the_functions_of_a_revision(parquet, tmp_path, make):
    """The same code and data go on; other data under the same names don't."""
    arguments = ARGUMENTS | {"path": tmp_path}
    frame = sweep(MACHINES[:1], **arguments, revisions=[own(make(0))], workers=0)
    here = Here()
    assert_same(sweep(MACHINES[:1], **arguments, revisions=[own(make(0))], executor=here), frame)
    assert here.done == []
    with pytest.raises(FormatError, match="belongs to another sweep, or to the same one before"):
        sweep(MACHINES[:1], **arguments, revisions=[own(make(-1))], workers=0)


def test_a_folder_knows_two_lambdas_and_globals_apart(parquet, tmp_path, monkeypatch):
    arguments = ARGUMENTS | {"path": tmp_path / "lambdas", "workers": 0}
    sweep(MACHINES[:1], **arguments, revisions=[own(lambda n, g, offset: Most(0)(n, g, offset))])
    with pytest.raises(FormatError, match="another sweep"):
        sweep(
            MACHINES[:1], **arguments, revisions=[own(lambda n, g, offset: Most(-1)(n, g, offset))]
        )
    arguments["path"] = tmp_path / "globals"
    sweep(MACHINES[:1], **arguments, revisions=[own(by_a_global)])
    monkeypatch.setitem(globals(), "SHIFT", -1)
    with pytest.raises(FormatError, match="another sweep"):
        sweep(MACHINES[:1], **arguments, revisions=[own(by_a_global)])


def test_what_cannot_be_told_apart_is_not_kept_on_disk(parquet, tmp_path):
    with open(os.devnull, encoding="utf-8") as file:
        revision = own(partial(at_place, 0, ngroups=file))
        with pytest.raises(RequestError, match="leave the path out"):
            sweep(MACHINES[:1], **ARGUMENTS, revisions=[revision], path=tmp_path, workers=0)


def test_a_lock_names_the_other_sweep(parquet, small_jobs, tmp_path):
    inner = []

    class Nested(Here):
        def submit(self, fn, /, *args, **kwargs):
            with pytest.raises(FormatError, match=f"another sweep .process {os.getpid()} on ") as e:
                sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
            inner.append(e)
            return super().submit(fn, *args, **kwargs)

    expected = sweep(MACHINES, **ARGUMENTS, workers=0)
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, executor=Nested()), expected)
    assert inner
    # One that a process left behind holds nobody up.
    (tmp_path / "sweep.lock").write_text("process 1 on elsewhere\n")
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, executor=Here(until=0)), expected)


def test_a_kill_while_the_folder_is_made_leaves_it_usable(parquet, tmp_path):
    (tmp_path / "sweep.lock").touch()
    (tmp_path / "sweep.json.unfinished").write_text('{"for')
    expected = sweep(MACHINES, **ARGUMENTS, workers=0)
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0), expected)


@pytest.mark.parametrize("full_after", [0, 3])
def test_a_full_disk_is_said_and_finished_parts_are_kept(
    parquet, small_jobs, tmp_path, monkeypatch, full_after
):
    import pyarrow.parquet as pq

    real = pq.write_table
    written: list[Any] = []

    def write_until_full(table, where, **kwargs):
        if len(written) == full_after:
            Path(where).write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(where)
        real(table, where, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", write_until_full)
        with pytest.raises(InterruptedSweepError, match=r"No space left on device.*to go on"):
            sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0)
    assert len(list(tmp_path.glob("part-*"))) == full_after
    expected = sweep(MACHINES, **ARGUMENTS, workers=0)
    assert_same(sweep(MACHINES, **ARGUMENTS, path=tmp_path, workers=0), expected)


# ---- kills ---------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="kills a process with a signal")


def deadly(ncpus, ngroups, offset):
    """Kill the worker at one of the last machines."""
    if ncpus == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    return deal_evenly(ncpus, ngroups, offset)


@pytest.mark.slow
@posix
def test_a_killed_worker_is_said_and_finished_parts_are_kept(parquet, small_jobs, tmp_path):
    arguments = ARGUMENTS | {"revisions": [own(deadly)], "workers": 1}
    with pytest.raises(InterruptedSweepError, match=r"1 of 2 parts are kept in .*the same sweep"):
        sweep(MACHINES, **arguments, path=tmp_path)
    with pytest.raises(InterruptedSweepError, match="nothing is kept without a path"):
        sweep(MACHINES, **arguments)


SCRIPT = """
import sys
from groupcpus.studies import sweeps
sweeps._ROWS_PER_JOB = 60
if __name__ == "__main__":
    sweeps.sweep(["L48s_v2", "D16plds_v6"], devices=[1, 2, 3], queues=range(1, 25),
                 starts=range(8), workers=2, path=sys.argv[1], progress=False)
"""


def session(leader):
    """List the living processes that a session leader started, by process id."""
    alive = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == leader and state != "Z":
                alive.append(int(stat.parent.name))
    return alive


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_killed_at_random_moments_it_gives_the_same_frame_and_leaves_no_worker(
    parquet, small_jobs, tmp_path
):
    """GROUPCPUS_KILLS says how often; a kill may also come after the end."""
    rng = random.Random(os.environ.get("GROUPCPUS_KILLS_SEED", "30"))
    arguments: dict[str, Any] = {"devices": [1, 2, 3], "queues": range(1, 25), "starts": range(8)}
    arguments |= {"progress": False, "workers": 0}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    expected = sweep(["L48s_v2", "D16plds_v6"], **arguments)
    for _ in range(int(os.environ.get("GROUPCPUS_KILLS", "3"))):
        process = subprocess.Popen(
            [sys.executable, script, tmp_path / "rows"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(1, 4))
        process.kill()
        process.wait()
        until = time.monotonic() + 20
        while session(process.pid) and time.monotonic() < until:
            time.sleep(0.1)
        assert not session(process.pid), "workers were left behind"
    frame = sweep(["L48s_v2", "D16plds_v6"], **arguments, path=tmp_path / "rows")
    assert_same(frame, expected)


# ---- Dask ----------------------------------------------------------------------------------


def run_and_die_once(job, flag):
    """Work on a job; the first worker that finds the flag takes it away and is gone."""
    try:
        os.unlink(flag)
    except FileNotFoundError:
        return engine.run_job(job)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


class Deadly(Executor):
    """Passes jobs on to another executor; in the middle, a worker dies of one."""

    def __init__(self, executor, flag):
        self.executor = executor
        self.flag = flag
        self.submitted = 0

    def submit(self, fn, /, *args, **kwargs):
        assert fn is engine.run_job
        self.submitted += 1
        if self.submitted == 5:
            return self.executor.submit(run_and_die_once, *args, str(self.flag))
        return self.executor.submit(fn, *args, **kwargs)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills a process with a signal")
@pytest.mark.filterwarnings("default")
def test_dask_gives_the_same_frame_though_a_worker_is_killed(small_jobs, tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra `sweep` is not installed")
    expected = sweep(MACHINES, **ARGUMENTS, workers=0)
    flag = tmp_path / "flag"
    flag.touch()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = set(client.run(os.getpid).values())
        deadly = Deadly(client.get_executor(), flag)
        frame = sweep(MACHINES, **ARGUMENTS, executor=deadly)
        client.wait_for_workers(2)
        after = set(client.run(os.getpid).values())
    assert not flag.exists()
    assert len(before - after) == 1, "one worker was killed and replaced"
    assert deadly.submitted > 8
    assert_same(frame, expected)


# ---- arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machines": [MACHINES[0], MACHINES[0]]}, "'pairs' is there twice"),
        ({"revisions": ["rotate-v9"]}, "rotate-v9"),
        ({"revisions": ["numa", REVISIONS["numa"]]}, "'numa' is there twice"),
        ({"irqchips": ["apic"]}, "apic"),
        ({"probes": ["backwards"]}, "backwards"),
        ({"requests": ["backwards"]}, "requests 'backwards'"),
        ({"requests": [["nvme0"]]}, "requests: .* is no name of an order"),
        ({"starts": [-1]}, "starts: -1"),
        ({"starts": [True]}, "starts: True"),
        ({"devices": 3}, "devices 3: expected a list"),
        ({"devices": ["3"]}, "devices: '3' is no whole number"),
        ({"revisions": "cluster"}, "revisions 'cluster': expected a list"),
        ({"disks": [3]}, "disks: expected one of devices, queues"),
        ({"probes": None}, "probes None: expected a list"),
        ({"machines": None}, "machines None: expected a list"),
        ({"machines": [None]}, "machines: None is no Machine"),
        ({"workers": "2"}, "workers '2': expected a whole number"),
        ({"devices": [65]}, "65 are too many"),
        ({"devices": [-1]}, "-1"),
        ({"queues": [0]}, "io_queues 0"),
        ({"machines": ["no such machine"]}, "no such machine"),
        (
            {"machines": [machine("net", devices=[Device("mana0", "mana", 4)])]},
            "MANA",
        ),
    ],
)
def test_arguments_are_refused_before_anything_runs(change, message):
    arguments: dict[str, Any] = {
        "machines": MACHINES,
        "executor": Here(until=0),
        "progress": False,
    } | change
    with pytest.raises(RequestError, match=message):
        sweep(arguments.pop("machines"), **arguments)


def test_a_bar_counts_rows(small_jobs, capfd):
    pytest.importorskip("tqdm")
    sweep(MACHINES, **ARGUMENTS | {"progress": True}, workers=0)
    assert "432/432" in capfd.readouterr().err
