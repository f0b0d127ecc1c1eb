# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of sweeps, rows of calls and losses: what is written and drawn in them."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from groupcpus import pictures
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.topology import Topology
from groupcpus.machines.probe import simulate
from groupcpus.observed.queue_counts import count_queues
from groupcpus.sources import load_machine
from groupcpus.studies.latency import worst_disk_loss
from groupcpus.studies.sweeps import sweep


def texts(ax):
    return [text.get_text() for text in ax.texts]


def rectangles(ax):
    return [patch for patch in ax.patches if isinstance(patch, Rectangle)]


def test_shortfall_counts_configurations_above_the_bound():
    frame = sweep(
        ["L96as_v4"],
        devices=[1, 6],
        queues=[30, 62],
        revisions=["cluster", "rotate-tiled"],
        workers=0,
        progress=False,
    )
    cluster, tiled = (ax for ax in pictures.shortfall(frame).axes if ax.get_visible())
    short = frame[(frame["revision"] == "cluster") & (frame["greatest"] > frame["fair_bound"])]
    assert short["queues"].tolist() == [62]
    assert texts(cluster) == ["0% of 2", "50% of 2"]
    assert cluster.get_title() == "cluster: 25% above the bound"
    assert texts(tiled) == ["0% of 2", "0% of 2"]


def test_lines_over_queues_are_medians_beside_the_bound():
    frame = sweep(
        ["L96as_v4"],
        queues=[48, 62],
        revisions=["cluster", "rotate-v2"],
        requests=["device-by-device", "random-0", "random-1", "random-2"],
        workers=0,
        progress=False,
    )
    single, parallel = pictures.over_queues(frame).axes
    assert "cluster 1, rotate-v2 0" in single.get_title(loc="left")
    assert "cluster 1, rotate-v2 1" in parallel.get_title(loc="left")
    bounds = [line for line in single.lines if line.get_label() == "best possible"]
    assert np.asarray(bounds[0].get_ydata()).tolist() == [3, 4]


@pytest.mark.parametrize("revision", ["cluster", "rotate-next", "rotate-tiled"])
def test_successive_calls_count_first_cpus(revision):
    topology = Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=0)
    ax = pictures.successive_calls(topology, [3, 3, 3], revision)
    if revision == "cluster":
        firsts = [mask.first for mask in group_cpus_evenly(topology, 3, revision=revision).masks]
        assert texts(ax) == ["3" if cpu in firsts else "0" for cpu in range(8)]
    assert sum(map(int, texts(ax))) == 9
    # Every CPU is drawn in every row.
    covered = sum(round(patch.get_width() + 0.1) for patch in rectangles(ax))
    assert covered == 24
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "call 0: 3 groups",
        "call 1: 3 groups",
        "call 2: 3 groups",
    ]


def test_successive_calls_take_the_counter_on():
    """With a counter of groups, two calls for three stand where one for six does."""
    topology = Topology.uniform(nodes=1, cpus_per_node=8, threads=1, cluster=0)
    late = pictures.successive_calls(topology, [3], "rotate-tiled", start=6)
    both = pictures.successive_calls(topology, [3, 3, 3], "rotate-tiled")
    third = [patch.get_x() for patch in rectangles(both) if round(patch.get_y() + 0.4) == 2]
    assert [patch.get_x() for patch in rectangles(late)] == third


def test_scores_have_a_row_a_family_and_a_mark_a_revision():
    table = pd.DataFrame(
        {
            "family": ["a", "a", "b", "b"],
            "revision": ["cluster", "rotate-tiled"] * 2,
            "share": [0.5, 1.0, 0.6, 0.9],
        }
    )
    (ax,) = pictures.scores_by_family(table, {"share": "a share"}, aim=0.95).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    lines = {line.get_label(): line for line in ax.lines}
    assert np.asarray(lines["rotate-tiled"].get_xdata()).tolist() == [1.0, 0.9]
    assert lines["cluster"].get_marker() != lines["rotate-tiled"].get_marker()
    assert ax.get_title() == "a share"
    assert "aim 0.95" in lines


def test_losses_are_those_of_the_model():
    run = simulate("L96as_v4", revision="cluster")
    ax = pictures.disk_losses({"before": run}, 2, measured={"mail": 0.11})
    (line,) = [line for line in ax.lines if line.get_label() == "before"]
    load, loss = np.asarray(line.get_xdata())[10], np.asarray(line.get_ydata())[10]
    assert loss == pytest.approx(worst_disk_loss(run, depth=2, service=load / 2))
    assert texts(ax) == ["mail, measured elsewhere"]


def test_axes_of_the_caller_are_used():
    ax = pictures.disk_losses({"before": simulate("L96as_v4", revision="cluster")}, 1)
    assert pictures.successive_calls(Topology.uniform(1, 4, 1, 0), [2], "cluster", ax) is ax


def test_numbers_of_queues_are_drawn_with_what_they_lack():
    frame = count_queues(load_machine("node:2 core:4 pu:2", devices=2, irqchip="x86")).frame
    figure = pictures.queue_chart(frame)
    load, lacks = figure.axes
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in load.lines}
    assert lines["most on a CPU"] == frame["greatest"].tolist()
    assert lines["best possible"] == frame["best"].tolist()
    assert [line.get_label() for line in lacks.lines if np.any(line.get_ydata())] == [
        "CPUs served from another node"
    ]
    assert len(load.patches) == frame["good"].sum() > 0
