# SPDX-License-Identifier: GPL-2.0-only
"""Families of machines, and the scores of the held-out ones."""

import pandas as pd
import pytest

from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import RequestError
from groupcpus.machines.machine import data_dir
from groupcpus.studies.families import FAMILIES, draw_machines, scores
from groupcpus.studies.sweeps import sweep
from tools.held_out import BLOCK, judge

PER_FAMILY = 1500
X86 = ["even", "reachable", "above", "submitters above"]
SCORES = [f"{part} {score}" for part in ("x86", "parallel") for score in X86]
SCORES += ["gicv3 of all", "gicv3 of usable"]


@pytest.fixture(scope="module")
def held_out():
    return pd.read_csv(data_dir() / "held-out.csv")


@pytest.mark.parametrize("family", FAMILIES)
def test_machines_are_always_the_same_and_halves_differ(family):
    machines = draw_machines(family, 12)
    assert machines == draw_machines(family, 12)
    assert machines[5:] == draw_machines(family, 7, first=5)
    others = draw_machines(family, 12, "search")
    assert not {machine.name for machine in machines} & {machine.name for machine in others}
    assert [m.topology for m in machines] != [m.topology for m in others]
    for machine in machines:
        assert 4 <= len(machine.topology.possible) <= 256
        assert 2 <= len(machine.devices) <= 12


def test_families_are_what_they_say():
    for machine in draw_machines("pairs", 20):
        assert {len(core) for core in machine.topology.siblings} == {2}
        assert set(machine.topology.siblings) == set(machine.topology.clusters)
    for machine in draw_machines("single threads", 20):
        assert {len(core) for core in machine.topology.siblings} <= {1}
    assert any(
        len({len(n) for n in m.topology.nodes.values()}) > 1 for m in draw_machines("lopsided", 20)
    )
    plugged = [machine.topology for machine in draw_machines("absent", 20)]
    assert all(2 * len(topology.present) >= len(topology.possible) for topology in plugged)
    assert sum(topology.present != topology.possible for topology in plugged) > 10
    for machine in draw_machines("unequal devices", 20):
        assert len({device.io_queues for device in machine.devices}) > 1
    for machine in draw_machines("read and poll queues", 20):
        assert all(device.write_queues for device in machine.devices)


def test_unknown_names_are_refused():
    with pytest.raises(RequestError, match="family 'pears'"):
        draw_machines("pears", 1)
    with pytest.raises(RequestError, match="half 'third'"):
        draw_machines("pairs", 1, "third")


def test_scores_of_two_rows_each():
    frame = sweep(
        ["L96as_v4"],
        devices=[1, 6],
        revisions=["cluster", "rotate-tiled"],
        irqchips=["x86", "gicv3"],
        requests=["device-by-device", "random-0", "random-1"],
        workers=0,
        progress=False,
    )
    table = scores(frame)
    assert table.index.tolist() == ["cluster", "rotate-tiled"]
    assert table["x86", "even"].tolist() == [0.5, 1.0]
    assert table["x86", "above"].tolist() == [1.0, 0.0]
    assert table["x86", "submitters above"].tolist() == [0.0, 0.5]
    rows = frame[(frame["irqchip"] == "x86") & (frame["requests"] != "device-by-device")]
    above = (rows["greatest"] - rows["fair_bound"]).groupby(rows["revision"], sort=False).mean()
    assert table["parallel", "above"].tolist() == above.tolist()
    frame = frame[frame["requests"] == "device-by-device"]
    used = frame[(frame["irqchip"] == "gicv3") & (frame["revision"] == "cluster")]["used"]
    assert table["gicv3", "of all"]["cluster"] == (used.iloc[0] / 62 + used.iloc[1] / 96) / 2


def test_held_out_scores_are_of_all_families(held_out):
    assert list(held_out) == ["family", "first", "machines", "revision", *SCORES]
    assert held_out["family"].drop_duplicates().tolist() == list(FAMILIES)
    counts = held_out.groupby(["family", "revision"])["machines"].sum()
    assert (counts == PER_FAMILY).all()
    assert set(held_out["revision"]) <= set(REVISIONS)
    means = held_out.groupby(["family", "revision"])[SCORES].mean()
    for family in FAMILIES:
        tiled, before = means.loc[family, "rotate-tiled"], means.loc[family, "rotate-next"]
        assert tiled["x86 reachable"] > before["x86 reachable"]
        assert tiled["x86 above"] < before["x86 above"]
        assert tiled["gicv3 of all"] >= before["gicv3 of all"]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["single threads", "read and poll queues"])
def test_held_out_scores_come_out_again(held_out, family):
    ours = judge(family, first=BLOCK, machines=BLOCK)
    stored = held_out[(held_out["family"] == family) & (held_out["first"] == BLOCK)]
    pd.testing.assert_frame_equal(
        ours.reset_index(drop=True), stored.reset_index(drop=True), rtol=1e-5
    )
