# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: the same rows as one run at a time, whoever computes them, interrupted or not."""

import json
import os
import signal
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
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


def assert_same(frame, other):
    pd.testing.assert_frame_equal(frame, other, check_exact=True)


# ---- the rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("irqchip", IRQCHIPS)
@pytest.mark.parametrize("probe", ["admin-first", "interleaved"])
def test_rows_are_those_of_one_simulation_each(irqchip, probe):
    """Shared work and short cuts change nothing."""
    frame = sweep(
        MACHINES,
        devices=(0, 1, 2, 6),
        queues=(1, 5, 11, 17),
        revisions=list(REVISIONS),
        irqchips=[irqchip],
        probes=[probe],
        starts=[0, 3, 2**32 - 4],
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
                spread_start=start,
            )
        )
        for one, queues, revision, start, count in product(
            MACHINES, (1, 5, 11, 17), REVISIONS, (0, 3, 2**32 - 4), (0, 1, 2, 6)
        )
    ]
    rows = [Row(*row) for row in frame.itertuples(index=False)]
    # A machine without devices has no queues to name.
    assert [row._replace(queues=0) for row in rows] == [row._replace(queues=0) for row in expected]


@settings(max_examples=40)
@given(made(max_cpus=16), st.data())
def test_any_machine_with_devices_of_its_own(drawn, data):
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
    frame = sweep(
        [one], revisions=[revision], irqchips=[irqchip], probes=[probe], workers=0, progress=False
    )
    run = simulate(one, revision=revision, irqchip=irqchip, probe=probe)
    assert [Row(*row) for row in frame.itertuples(index=False)] == [figures(run)]


def test_figures_of_the_mail():
    """28 hot CPUs with six interrupts each, and none above four after the patch."""
    frame = sweep(["L96as_v4"], revisions=["cluster", "rotate-v2"], workers=0, progress=False)
    assert frame["greatest"].tolist() == [6, 4]
    assert frame["hot"].tolist() == [28, 96]
    assert frame["irqs"].tolist() == [372, 372]
    assert frame["bound"].tolist() == [4, 4]
    assert frame["imbalance"].tolist() == [0, 0]
    assert (frame[["cross_node", "cross_cluster"]] == 0).all(axis=None)


def test_columns_of_a_small_case():
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
    )


def test_what_runs_share_is_done_once(monkeypatch):
    """Six devices are one run: each mask is made once for all counts and both irqchips."""
    made_masks = []
    real = engine.group_cpus_evenly

    def counting(*args, **kwargs):
        made_masks.append(kwargs["spread_offset"])
        return real(*args, **kwargs)

    monkeypatch.setattr(engine, "group_cpus_evenly", counting)
    frame = sweep(
        MACHINES[:1],
        devices=range(1, 7),
        revisions=["rotate-next"],
        irqchips=["x86", "gicv3"],
        workers=0,
        progress=False,
    )
    assert len(frame) == 12
    assert made_masks == [0, 1, 2, 3, 4, 5]


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
    (tmp_path / "part-00002.unfinished").write_bytes(b"PAR1")
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
        ({"starts": [-1]}, "starts: -1"),
        ({"starts": [True]}, "starts: True"),
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
