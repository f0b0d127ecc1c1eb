# SPDX-License-Identifier: GPL-2.0-only
"""Pictures of replays say what the replay says."""

from dataclasses import replace

import pytest
from matplotlib.patches import Rectangle

from groupcpus import pictures
from groupcpus.engine.revisions import REVISIONS
from groupcpus.observed.recordings import load_recording
from groupcpus.observed.replay import replay


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_agreement_counts_every_recording_under_every_revision():
    names = ["x86-12cpu-6nodes-smt2-2x9-6.1", "x86-16cpu-1node-2x6-7.3"]
    revisions = ["numa", "numa-single-pop"]
    done = [replay(name, revision=REVISIONS[revision]) for name in names for revision in revisions]
    ax = pictures.agreement(done)
    counts = ["/".join(map(str, result.count("mask"))) for result in done]
    assert texts(ax) == counts
    assert counts[0] != counts[1] == "36/36"
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert [label.get_text() for label in ax.get_xticklabels()] == revisions


def test_a_pair_that_was_not_replayed_stays_empty():
    done = [
        replay("x86-8cpu-4nodes-1x3-7.3"),
        replay("x86-8cpu-4nodes-1x3-6.12"),
    ]
    assert texts(pictures.agreement(done, "effective")) == ["6/6", "6/6"]


def test_the_grid_shows_recorded_cpus_and_frames_what_does_not_match():
    recording = load_recording("x86-8cpu-4nodes-1x3-7.3")
    [device] = recording.devices
    assert device.effective == (1, 7, 3, 5)
    ax = pictures.effective_grid(replay(recording))
    assert texts(ax) == ["7", "3", "5"]
    assert [patch for patch in ax.patches if isinstance(patch, Rectangle)] == []
    moved = replace(recording, devices=(replace(device, effective=(1, 7, 2, 5)),))
    ax = pictures.effective_grid(replay(moved))
    assert texts(ax) == ["7", "2\n(3)", "5"]
    [frame] = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert frame.get_xy() == pytest.approx((1.02, 0.06))
    assert "2 of 3" in ax.get_title()


def test_devices_with_fewer_queues_leave_cells_empty():
    result = replay("x86-16cpu-3nodes-2-4-10-7+3-6.12")
    ax = pictures.effective_grid(result, "rebind")
    first, second = result.recording.rebind
    assert texts(ax) == [str(cpu) for cpu in (*first.effective[1:], *second.effective[1:])]
    assert (len(first.effective), len(second.effective)) == (8, 4)
