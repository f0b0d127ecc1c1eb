# SPDX-License-Identifier: GPL-2.0-only
"""The picture and the panel of a life after boot."""

import numpy as np
import pytest

from groupcpus import Life
from groupcpus.errors import RequestError
from groupcpus.panels import timeline
from groupcpus.pictures import cpus_over_steps

EVENTS = "offline 95 47 94; reset nvme1; online 94-95 47"


@pytest.fixture
def life():
    life = Life("L96as_v4", "cluster")
    life.then(EVENTS)
    return life


def test_a_row_a_step_and_a_column_a_cpu(life):
    ax = cpus_over_steps(life.steps)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "0. boot",
        "1. offline 95 47 94",
        "2. reset nvme1",
        "3. online 94 95 47",
    ]
    mesh, *rings = ax.collections
    cells = np.asarray(mesh.get_array()).reshape(4, 96)
    for row, step in enumerate(life.steps):
        drawn = {cpu: int(cells[row][cpu]) for cpu in step.online}
        assert drawn == step.counts
    hatched = [patch for patch in ax.patches if patch.get_hatch()]
    assert len(hatched) == sum(96 - len(step.online) for step in life.steps)
    assert sum(len(np.asarray(one.get_offsets())) for one in rings) == 93 + 96


def test_it_counts_submitters_too_and_nothing_else(life):
    ax = cpus_over_steps(life.steps, "submitters", current=2)
    assert "submitters" in ax.figure.axes[-1].get_ylabel()
    with pytest.raises(RequestError, match="what 'cpus': expected irqs or submitters"):
        cpus_over_steps(life.steps, "cpus")


def test_the_panel_shows_the_step_that_is_chosen(life):
    panel = timeline("L96as_v4", events=EVENTS)
    assert panel.controls["step"].value == 3
    assert panel.picture.startswith(b"\x89PNG")
    panel.controls["step"].value = 2
    assert panel.text.startswith("2. reset nvme1\n")
    assert panel.text in str(life)
    before = panel.picture
    panel.controls["what"].value = "submitters"
    assert panel.picture != before
    panel.controls["revision"].value = "numa"
    assert "outside" not in panel.text
    assert panel.life.revision.name == "numa"
    panel.close()


def test_the_panel_says_why_events_cannot_happen():
    panel = timeline("D16plds_v6", "rotate-v2", "reset nvme0")
    text = panel.text
    panel.controls["events"].value = "offline 99 <b>"
    assert panel.error.startswith("event 'offline 99 <b>': cpulist")
    assert "&lt;b&gt;" in panel.words.value
    assert panel.text == text
    panel.controls["events"].value = "offline 9; online 9; reset nvme1"
    assert panel.error == ""
    assert panel.controls["step"].max == 3
    panel.close()
