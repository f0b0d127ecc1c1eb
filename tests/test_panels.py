# SPDX-License-Identifier: GPL-2.0-only
"""Explorers without a browser: set a value, read the text, the picture and the error."""

import base64
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ipywidgets.widgets import widget

from groupcpus import REVISIONS, Revision, group_cpus_evenly, load_machine, panels, simulate
from groupcpus.errors import RequestError
from groupcpus.machines.mail_text import mail_text

CONTROLS = {"devices", "queues", "before", "after", "irqchip", "probe", "spread_start"}


@pytest.fixture
def panel():
    return panels.explorer("L96as_v4")


def test_it_starts_with_the_machine_as_its_file_has_it(panel):
    runs = [simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2")]
    assert set(panel.controls) >= CONTROLS
    assert panel.text == mail_text(*runs)
    assert panel.picture.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("control", "value"),
    [
        ("devices", 5),
        ("queues", 48),
        ("before", "numa"),
        ("after", "rotate-next"),
        ("more", ("numa", "rotate-next")),
        ("irqchip", "gicv3"),
        ("probe", "interleaved"),
        ("requests", "random-2"),
        ("spread_start", 2**32 - 3),
    ],
)
def test_every_control_changes_what_is_shown(panel, control, value):
    text, picture = panel.text, panel.picture
    panel.controls[control].value = value
    assert panel.error == ""
    assert panel.text != text
    assert panel.picture != picture
    assert panel.view.words["text"] == panel.text
    assert panel.view.words["key"] == panel.view.state["key"]


def test_what_is_shown_is_what_the_engine_says(panel):
    with panel.hold():
        panel.controls["devices"].value = 3
        panel.controls["irqchip"].value = "its"
        panel.controls["spread_start"].value = 7
    machine = load_machine("L96as_v4").with_devices(3)
    runs = [
        simulate(machine, revision=name, irqchip="its", spread_start=7)
        for name in ("cluster", "rotate-v2")
    ]
    assert panel.text == mail_text(*runs)


def test_more_revisions_are_shown_on_one_scale():
    names = ["numa", "cluster", "rotate-v2", "rotate-next"]
    panel = panels.explorer("D16plds_v6", revisions=names)
    runs = [simulate("D16plds_v6", revision=name) for name in names]
    assert panel.text == mail_text(*runs)
    shown = [(run["when"], run["revision"]) for run in panel.view.state["runs"]]
    assert shown == list(zip(("before", "after", "third", "fourth"), names, strict=True))
    irq = {"kind": "why", "irq": 0}
    assert ask(panel, **irq, run=3)
    assert not ask(panel, **irq, run=4)
    for picture in ("bars", "distribution", "map"):
        panel.controls["picture"].value = picture
        with_two = panels.explorer("D16plds_v6", revisions=names[:2])
        with_two.controls["picture"].value = picture
        # A map stays one of two.
        assert (panel.picture == with_two.picture) == (picture == "map")
    panel.controls["picture"].value = "bars"
    fresh = panels.explorer(panel.state)
    assert (fresh.text, fresh.state, fresh.picture) == (panel.text, panel.state, panel.picture)
    fresh.reset()
    assert "more=" not in fresh.state
    panel.controls["more"].value = tuple(REVISIONS)[:5]
    assert panel.error == "and also 5 revisions: expected at most 4"


@pytest.mark.parametrize(
    ("revisions", "words"),
    [
        ("cluster", "revisions 'cluster': expected a list of 2 to 6"),
        (["cluster"], "expected a list of 2 to 6"),
        (["cluster"] * 7, "expected a list of 2 to 6"),
        (["cluster", "none"], "revision 'none': expected one of"),
        (["cluster", replace(REVISIONS["numa"], name="x")], "'x': expected one that REVISIONS has"),
    ],
)
def test_revisions_that_cannot_be_shown_are_refused(revisions, words):
    with pytest.raises(RequestError, match=words):
        panels.explorer("D16plds_v6", revisions=revisions)


def test_holding_redraws_once(panel, monkeypatch):
    drawn = []
    monkeypatch.setattr(panel, "redraw", lambda: drawn.append(1))
    with panel.hold():
        panel.controls["devices"].value = 2
        panel.controls["queues"].value = 8
    assert drawn == [1]


def test_an_error_is_shown_and_the_last_picture_stays(panel):
    picture = panel.picture
    # Each disk reserves a vector on every CPU, and a CPU has about 200.
    panel.controls["devices"].max = 300
    panel.controls["devices"].value = 300
    assert "-ENOSPC" in panel.error
    assert panel.picture == picture
    assert "-ENOSPC" in panel.view.state["error"]
    panel.controls["devices"].value = 2
    assert panel.error == ""
    assert "error" not in panel.view.state


def test_viewers_without_widgets_get_the_picture_and_the_text(panel):
    bundle = panel._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == panel.picture
    assert bundle["text/plain"] == panel.text
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_out_of_range_is_refused_beside_its_field_and_not_clamped(panel):
    text, field = panel.text, panel.controls["spread_start"]
    field.value = 2**32
    assert panel.error == "counter 4294967296: expected 0 to 4294967295"
    assert (field.value, panel.text) == (2**32, text)
    column = panel.children[0].children[1].children
    beside = column[column.index(field) + 1]
    assert panel.error in beside.value
    field.value = 5
    assert (panel.error, beside.value) == ("", "")
    assert panel.text != text


def test_anything_that_a_revision_of_ones_own_raises_is_shown(panel, monkeypatch):
    def deal(ncpus, ngroups, spread_offset):
        return 1 / 0

    mine = replace(REVISIONS["cluster"], name="mine", deal=deal)
    monkeypatch.setitem(REVISIONS, "mine", mine)
    text = panel.text
    panel = panels.explorer("D16plds_v6")
    panel.controls["after"].value = "mine"
    assert panel.error == panel.view.state["error"] == "ZeroDivisionError: division by zero"
    assert panel.text != text
    panel.controls["after"].value = "numa"
    assert panel.error == ""


def test_closing_leaves_no_widget_behind():
    panels.explorer("D16plds_v6").close()
    before = len(widget._instances)
    for machine in ("D16plds_v6", "L96as_v4"):
        panel = panels.explorer(machine)
        panel.controls["devices"].value = 3
        assert panel.picture
        panel.close()
        steps = panels.stepper(load_machine(machine).topology, 5)
        steps.close()
    assert len(widget._instances) == before


def test_what_a_cell_made_is_closed_when_the_cell_runs_again(monkeypatch):
    class Kernel:
        cell, run = "a", 0

        def get_parent(self):
            header = {"msg_id": str(self.run)}
            return {"header": header, "metadata": {"cellId": self.cell}, "content": {"code": ""}}

    kernel = Kernel()
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=kernel))
    first, other = panels.explorer("D16plds_v6"), panels.explorer("D16plds_v6")
    kernel.cell = "b"
    elsewhere = panels.explorer("D16plds_v6")
    kernel.cell, kernel.run = "a", 1
    again = panels.explorer("D16plds_v6")
    assert [panel.comm is None for panel in (first, other, elsewhere, again)] == [
        *(True, True, False, False)
    ]
    for panel in (elsewhere, again):
        panel.close()


def ask(panel, **message):
    """Ask a panel's live view as the page does; return its answer."""
    answers: list[dict] = []
    panel.view.send = answers.append
    panel.view._handle_custom_msg(message | {"token": 1}, [])
    return answers[0]["answer"]


def test_the_page_can_fetch_the_range_of_a_slider(panel):
    states = ask(panel, kind="states", name="devices", values=[5, 7, 99, "8"])
    assert [state["key"].split("|")[1] for state in states] == ["5", "7"]
    assert panel.controls["devices"].value == 6
    for state, value in zip(states, (5, 7), strict=True):
        panel.controls["devices"].value = value
        assert panel.view.state == state


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "states", "name": "machine", "values": [1]},
        {"kind": "states", "name": "devices", "values": "many"},
        {"kind": "states"},
        {"kind": "why", "run": 7, "irq": 0},
        {"kind": "why", "run": 0, "irq": 10**9},
        {"kind": "why", "run": "0", "irq": None},
        {"kind": "open"},
        {},
    ],
)
def test_a_question_that_is_none_gets_nothing(panel, message):
    assert not ask(panel, **message)


def test_the_page_is_told_why(panel):
    sentences = ask(panel, kind="why", run=0, irq=4)
    assert "group 4: CPUs 60, 61 of cluster 60-61" in sentences


@pytest.fixture
def steps():
    return panels.stepper(load_machine("xeon_e_40cpu").topology, 11)


def test_the_stepper_ends_with_the_groups_that_the_engine_gives(steps):
    assert steps.text == "0 of 16: nothing is decided yet\ngroups so far: none"
    steps.controls["step"].value = steps.controls["step"].max
    masks = group_cpus_evenly(steps.topology, 11, revision="cluster").masks
    listed = ", ".join(f"{group}: {cpus}" for group, cpus in enumerate(masks))
    assert steps.text.splitlines()[-1] == f"groups so far: {listed}"


@pytest.mark.parametrize(
    ("control", "value"),
    [("step", 9), ("queues", 7), ("revision", REVISIONS["numa"]), ("spread_offset", 3)],
)
def test_every_control_of_the_stepper_changes_what_is_shown(steps, control, value):
    with steps.hold():
        steps.controls["revision"].value = REVISIONS["rotate-v2"]
        steps.controls["step"].value = 12
    text, picture = steps.text, steps.picture
    steps.controls[control].value = value
    assert steps.error == ""
    assert steps.text != text
    assert steps.picture != picture


def test_fewer_decisions_move_the_step_back_to_the_last_one(steps):
    steps.controls["step"].value = 15
    steps.controls["queues"].value = 1
    decision, groups = steps.text.rsplit("\n", 1)
    assert decision.startswith("3 of 3: group 0: CPUs 0, 1, 2, 3, ")
    assert groups == "groups so far: 0: 0-39"


def test_a_revision_of_ones_own_can_be_stepped_through():
    mine = Revision("mine", "nowhere", "clusters are ignored", cluster_aware=False)
    panel = panels.stepper(load_machine("xeon_e_40cpu").topology, 11, mine)
    assert panel.controls["revision"].value is mine
    with pytest.raises(RequestError, match="revision 'none'"):
        panels.stepper(load_machine("xeon_e_40cpu").topology, 11, "none")


def test_the_stepper_numbers_groups_across_nodes():
    panel = panels.stepper(load_machine("L96as_v4").topology, 5)
    panel.controls["step"].value = panel.controls["step"].max
    masks = group_cpus_evenly(panel.topology, 5, revision="cluster").masks
    assert panel.text.endswith(", ".join(f"{group}: {cpus}" for group, cpus in enumerate(masks)))
