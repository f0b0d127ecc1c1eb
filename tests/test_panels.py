# SPDX-License-Identifier: GPL-2.0-only
"""Explorers without a browser: set a value, read the text, the picture and the error."""

import base64
import gc

import pytest
from matplotlib.figure import Figure

from groupcpus import load_machine, panels, simulate
from groupcpus.report import mail_text

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
        ("irqchip", "gicv3"),
        ("probe", "interleaved"),
        ("spread_start", 2**32 - 3),
    ],
)
def test_every_control_changes_what_is_shown(panel, control, value):
    text, picture = panel.text, panel.picture
    panel.controls[control].value = value
    assert panel.error == ""
    assert panel.text != text
    assert panel.picture != picture
    assert base64.b64encode(panel.picture).decode() in panel.children[2].value


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
    assert "-ENOSPC" in panel.children[1].value
    panel.controls["devices"].value = 2
    assert panel.error == ""
    assert panel.children[1].value == ""


def test_viewers_without_widgets_get_the_picture_and_the_text(panel):
    bundle = panel._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == panel.picture
    assert bundle["text/plain"] == panel.text
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_picture_has_a_text_for_screen_readers(panel):
    assert 'alt="IRQs per CPU. Before: L96as_v4' in panel.children[2].value


def test_moving_sliders_leaks_no_figure_and_no_observer(panel):
    def figures() -> int:
        gc.collect()
        return sum(isinstance(thing, Figure) for thing in gc.get_objects())

    before = figures()
    observers = len(panel.controls["devices"]._trait_notifiers["value"]["change"])
    for value in range(1, 21):
        panel.controls["devices"].value = value
    assert figures() == before
    assert len(panel.controls["devices"]._trait_notifiers["value"]["change"]) == observers
