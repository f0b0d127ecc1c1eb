# SPDX-License-Identifier: GPL-2.0-only
"""The explorer's choices: machines, pictures, presets, states and downloads."""

import base64
import csv
import gc
import io
import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from groupcpus import Topology, load_machine, panels
from groupcpus.errors import GroupCpusError
from groupcpus.machines.machine import machine_names
from groupcpus.machines.mail_text import mail_text
from groupcpus.panels import explore
from groupcpus.panels.states import load_presets
from groupcpus.pictures import Picture


@pytest.fixture
def panel():
    return panels.explorer("overflow_4cpu")


@pytest.mark.parametrize("name", machine_names())
def test_every_machine_can_be_chosen_and_starts_as_its_file_has_it(panel, name):
    panel.controls["machine"].value = name
    assert panel.error == ""
    assert panel.text == panels.explorer(name).text
    assert panel.text.startswith(f"{name}: ")


@pytest.mark.parametrize("picture", explore.PICTURES)
def test_every_picture_is_drawn_and_described(panel, picture):
    panel.controls["picture"].value = "distribution" if picture == "bars" else "bars"
    before = panel.picture
    panel.controls["picture"].value = picture
    assert panel.error == ""
    assert panel.picture != before
    assert panel.picture.startswith(b"\x89PNG")
    sentence = explore._SENTENCES[picture]
    view = panel.children[2].value
    assert f'alt="{sentence}' in view.replace("&#x27;", "'")
    # Always the same size, so that nothing jumps.
    assert 'width="1100" height="560"' in view


def test_a_custom_machine_follows_its_numbers_then_its_text(panel):
    panel.controls["machine"].value = "custom"
    assert panel.text.startswith("custom: 48 CPUs in 2 nodes; ")
    panel.controls["nodes"].value = 3
    panel.controls["cpus"].value = 4
    assert panel.text.startswith("custom: 12 CPUs in 3 nodes; ")
    panel.controls["topology"].value = "node:2 core:4 pu:2"
    assert panel.text.startswith("custom: 16 CPUs in 2 nodes; ")
    panel.controls[
        "topology"
    ].value = '{"nodes": {"0": "0-4"}, "possible": "0-4", "present": "0-3"}'
    assert panel.text.startswith("custom: 4 CPUs (1 more offline) in 1 node; ")
    assert panel.controls["queues"].max == 5


@pytest.mark.parametrize("text", ["node:2 core:x", "{", '{"nodes": 1}', "[" * 5000, "{" * 9999])
def test_a_wrong_topology_is_said_and_the_last_picture_stays(panel, text):
    panel.controls["machine"].value = "custom"
    picture, shown = panel.picture, panel.text
    panel.controls["topology"].value = text
    assert panel.error
    assert len(panel.error) < 300
    assert 'role="alert"' in panel.children[1].value
    assert (panel.picture, panel.text) == (picture, shown)
    panel.controls["topology"].value = "pu:4"
    assert panel.error == ""


def test_numbers_of_a_custom_machine_show_only_for_one(panel):
    hidden = [name for name, c in panel.controls.items() if c.layout.display == "none"]
    assert hidden == list(explore.CUSTOM_CONTROLS)
    panel.controls["machine"].value = "custom"
    assert all(panel.controls[name].layout.display is None for name in explore.CUSTOM_CONTROLS)


@pytest.mark.parametrize("preset", load_presets(), ids=lambda preset: preset.claim)
def test_every_preset_can_be_shown_in_one_redraw(panel, preset, monkeypatch):
    drawn = []

    def count(picture: Picture) -> bytes:
        drawn.append(picture)
        return b"PNG"

    monkeypatch.setattr(Picture, "png", count)
    panel.controls["preset"].value = preset.state
    assert panel.error == ""
    assert len(drawn) == 1
    for pair in preset.state.split():
        key, value = pair.split("=")
        assert str(panel.controls[key].value) == value
    panel.controls["devices"].value += 1
    assert panel.controls["preset"].value == "", "it is not that claim any more"


def change_everything(panel) -> None:
    with panel.hold():
        panel.controls["devices"].value = 4
        panel.controls["queues"].value = 3
        panel.controls["before"].value = "numa"
        panel.controls["after"].value = "rotate-next"
        panel.controls["irqchip"].value = "its"
        panel.controls["probe"].value = "interleaved"
        panel.controls["spread_start"].value = 4_294_967_290
        panel.controls["picture"].value = "map"


def custom_by_numbers():
    panel = panels.explorer("L48s_v2")
    panel.controls["machine"].value = "custom"
    panel.controls["nodes"].value = 3
    panel.controls["cpus"].value = 4
    return panel


def custom_by_line():
    panel = panels.explorer("L48s_v2")
    panel.controls["machine"].value = "custom"
    panel.controls["topology"].value = "node:2 cluster:2 core:2 pu:2"
    return panel


def of_a_machine_of_ones_own():
    topology = Topology.uniform(nodes=2, cpus_per_node=6, threads=2, cluster=4)
    return panels.explorer(replace(load_machine("L48s_v2"), name="mine", topology=topology))


@pytest.mark.parametrize(
    "make",
    [
        lambda: panels.explorer("D96plds_v6"),
        custom_by_numbers,
        custom_by_line,
        of_a_machine_of_ones_own,
    ],
)
def test_a_state_brings_everything_back(make):
    panel = make()
    change_everything(panel)
    state = panel.state
    assert panel.controls["state"].value == state
    assert "\n" not in state

    fresh = panels.explorer(state)
    assert fresh.text.replace("custom", "mine") == panel.text.replace("custom", "mine")
    assert fresh.picture == panel.picture
    assert fresh.state == state
    # And the same by pasting it into a panel.
    pasted = panels.explorer("L96as_v4")
    pasted.controls["state"].value = f"> {state}\n"
    assert pasted.error == ""
    assert (pasted.picture, pasted.state) == (panel.picture, state)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("machine=nowhere", "'nowhere'; expected one of"),
        ("machine=custom", "does not end with the CPUs"),
        ("machine=L96as_v4 devices=0", "devices: '0'; expected a whole number, 1 to 24"),
        ("machine=L96as_v4 devices=many", "'many'"),
        ("machine=L96as_v4 queues=97", "queues: '97'; expected a whole number, 1 to 96"),
        ("machine=L96as_v4 before=v9", "before: 'v9'; expected one of"),
        ("machine=L96as_v4 picture=pie", "picture: 'pie'; expected one of bars"),
        ("machine=L96as_v4 spread_start=4294967296", "spread_start"),
        ("machine=L96as_v4 size=1", "unknown field"),
    ],
)
def test_a_wrong_state_changes_nothing(panel, field, words):
    settings = {name: panel.controls[name].value for name in panel.controls if name != "state"}
    picture = panel.picture
    panel.controls["state"].value = f"groupcpus {field}"
    assert words in panel.error
    assert panel.picture == picture
    assert settings == {name: panel.controls[name].value for name in settings}
    with pytest.raises(GroupCpusError):
        panels.explorer(f"groupcpus {field}")


def downloads(panel) -> dict[str, bytes]:
    links = re.findall(
        r'<a download="([^"]+)"[^>]*href="data:[^;]+;base64,([^"]+)"',
        panel.children[-1].children[1].value,
    )
    return {name: base64.b64decode(content) for name, content in links}


def test_downloads_are_what_is_shown_and_go_with_the_next_move(panel):
    button = panel.children[-1].children[0]
    assert downloads(panel) == {}
    button.click()
    files = downloads(panel)
    assert list(files) == [f"groupcpus-overflow_4cpu.{end}" for end in ("png", "svg", "csv", "txt")]
    png, svg, table, text = files.values()
    assert png == panel.picture
    assert b"<svg" in svg
    assert text.decode() == panel.text == mail_text(*panel.runs())
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    before, after = panel.runs()
    assert [row["run"] for row in rows] == ["before"] * 3 + ["after"] * 3
    assert [row["affinity"] for row in rows] == [
        str(irq.affinity) for run in (before, after) for irq in run.interrupts
    ]
    panel.controls["devices"].value = 2
    assert downloads(panel) == {}


def test_every_control_has_a_label_for_screen_readers(panel):
    labels = [control.description for control in panel.controls.values()]
    assert all(labels)
    assert len(set(labels)) == len(labels)


def test_a_thousand_moves_leak_no_figure_and_no_observer(panel, monkeypatch):
    def figures() -> int:
        gc.collect()
        return sum(isinstance(thing, Figure) for thing in gc.get_objects())

    def observers() -> int:
        return sum(
            len(handlers)
            for control in panel.controls.values()
            for by_type in control._trait_notifiers.values()
            for handlers in by_type.values()
        )

    def artists() -> int:
        return sum(len(ax.get_children()) for p in panel._pictures.values() for ax in p.figure.axes)

    for picture in explore.PICTURES:
        panel.controls["picture"].value = picture
    panel.controls["picture"].value = "bars"
    panel.controls["spread_start"].value = 1
    start = figures(), observers(), artists()
    monkeypatch.setattr("groupcpus.pictures.base.encode", lambda canvas: b"PNG")
    real = Picture.png
    for move in range(1000):
        # Rendering needs most of the time; each fiftieth move does it.
        monkeypatch.setattr(Picture, "png", real if move % 50 == 0 else lambda self: b"PNG")
        panel.controls["spread_start"].value = move + 2
    panel.controls["spread_start"].value = 1
    assert (figures(), observers(), artists()) == start
    assert start[0] >= len(explore.PICTURES)
