# SPDX-License-Identifier: GPL-2.0-only
"""The affinity matrix and the picture of sharing say what the run says."""

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from groupcpus import Topology, load_machine, pictures, simulate

# What matplotlib returns has types too wide to be read back.
plot: Any = pictures


@pytest.fixture(scope="module")
def run():
    return simulate("L96as_v4", revision="cluster")


def bands(ax) -> list[set[int]]:
    """Read the masks back from the bands, row by row."""
    (drawn,) = (made for made in ax.collections if isinstance(made, PolyCollection))
    masks: dict[int, set[int]] = {}
    for path in drawn.get_paths():
        corners = np.asarray(path.vertices)
        (left, upper), (right, lower) = corners.min(axis=0), corners.max(axis=0)
        assert lower == upper + 1
        masks.setdefault(int(upper), set()).update(range(int(left + 0.5), int(right + 0.5)))
    assert sorted(masks) == list(range(len(masks)))
    return list(masks.values())


def cpus_below(ax) -> list[str]:
    """Read the numbers below the bars, from left to right."""
    return [text for _, text in sorted(plot.written(ax).items())]


def test_a_matrix_has_each_mask_as_a_band_and_its_effective_cpu_in_it(run):
    ax = plot.affinity_matrix(run, device="nvme3")
    irqs = [irq for irq in run.interrupts if irq.device == "nvme3"]
    # The CPUs of this machine are numbered node by node: a column is a CPU.
    assert bands(ax) == [set(irq.affinity) for irq in irqs]
    marks, singles = (ax.lines[at].get_xydata().tolist() for at in (0, 1))
    expected = [[irq.effective, at + 0.5] for at, irq in enumerate(irqs)]
    assert sorted(marks + singles) == sorted(expected)
    assert len(singles) == 28


def test_a_matrix_of_all_devices_stacks_them(run):
    ax = plot.affinity_matrix(run)
    assert len(bands(ax)) == 6 * 62
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"nvme{at}" for at in range(6)]


def test_columns_follow_the_nodes_when_numbering_is_interleaved():
    doc = {"nodes": {"0": "0-6:2", "1": "1-7:2"}, "possible": "0-7", "present": "0-7"}
    topology = Topology.from_dict(doc)
    machine = load_machine("L96as_v4")
    machine = type(machine)("custom", "", "x86_64", "x86", topology, machine.devices[:1])
    run = simulate(machine.with_devices(1, 2), revision="cluster")
    assert bands(plot.affinity_matrix(run)) == [{0, 1, 2, 3}, {4, 5, 6, 7}]


def test_sharing_stacks_devices_on_the_most_loaded_cpus(run):
    ax = plot.sharing(run)
    hot = [cpu for cpu, count in run.counts.items() if count == 6]
    assert [int(text) for text in cpus_below(ax)] == hot
    layers = [patch for patch in ax.patches if patch.get_gid()]
    assert [layer.get_gid() for layer in layers] == [f"nvme{at}" for at in range(6)]
    heights = np.zeros(len(hot))
    for layer in layers:
        values, _, baseline = layer.get_data()
        heights += (values - baseline)[::2]
    assert heights.tolist() == [6.0] * len(hot)


def test_sharing_takes_the_cpus_it_is_given_and_bounds_its_legend(run):
    many = simulate(load_machine("L96as_v4").with_devices(20), revision="cluster")
    ax = plot.sharing(many, cpus=[3, 90])
    assert cpus_below(ax) == ["3", "90"]
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "13 more"
    tops = [patch.get_data().values.max() for patch in ax.patches if patch.get_gid()]
    assert max(tops) == max(many.counts[3], many.counts[90])


def test_a_run_without_interrupts_has_an_empty_matrix():
    machine = load_machine("D16plds_v6").with_devices(0)
    run = simulate(machine, revision="cluster")
    assert "masks of 0 queues" in plot.affinity_matrix(run).get_title(loc="left")
