# SPDX-License-Identifier: GPL-2.0-only
"""The explorer's choices: machines, pictures, presets, states and downloads."""

import base64
import csv
import io
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from ipywidgets.widgets import widget

from groupcpus import Topology, load_machine, panels, simulate
from groupcpus.errors import GroupCpusError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, machine_names
from groupcpus.machines.mail_text import mail_text
from groupcpus.panels import explore
from groupcpus.panels.states import load_presets
from tests.leaks import figures

REVISIONS_SHOWN = ("cluster", "rotate-v2")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
    # All together are for a page; on paper that is the bars.
    assert (panel.picture != before) or picture == "all"
    assert panel.picture.startswith(b"\x89PNG")


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
    assert panel.view.state["error"] == panel.error
    assert (panel.picture, panel.text) == (picture, shown)
    panel.controls["topology"].value = "pu:4"
    assert panel.error == ""


def test_numbers_of_a_custom_machine_show_only_for_one(panel):
    hidden = [name for name, c in panel.controls.items() if c.layout.display == "none"]
    assert hidden == list(explore.CUSTOM_CONTROLS)
    assert hidden
    panel.controls["machine"].value = "custom"
    assert all(panel.controls[name].layout.display is None for name in explore.CUSTOM_CONTROLS)


@pytest.mark.parametrize("preset", load_presets(), ids=lambda preset: preset.claim)
def test_every_preset_can_be_shown_at_once(panel, preset):
    shown = []
    panel.view.observe(lambda change: shown.append(change["new"]), names="state")
    panel.controls["preset"].value = preset.state
    assert panel.error == ""
    assert len(shown) == 1
    for pair in preset.state.split():
        key, value = pair.split("=")
        assert str(panel.controls[key].value) == value
    panel.controls["devices"].value += 1
    assert panel.controls["preset"].value == "", "it is not that claim any more"


def test_a_preset_sets_every_control(panel):
    preset = load_presets()[0].state
    panel.controls["preset"].value = preset
    text = panel.text
    with panel.hold():
        panel.controls["spread_start"].value = 9
        panel.controls["probe"].value = "interleaved"
        panel.controls["picture"].value = "sharing"
    panel.controls["preset"].value = preset
    assert panel.text == text
    assert panel.controls["picture"].value == "matrix"


def change_everything(panel) -> None:
    with panel.hold():
        panel.controls["devices"].value = 4
        panel.controls["queues"].value = 3
        panel.controls["before"].value = "numa"
        panel.controls["after"].value = "rotate-next"
        panel.controls["more"].value = ("cluster", "rotate-v2-fixed")
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
        ("machine=L96as_v4 more=numa,v9", "more: 'v9'; expected one of"),
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


def test_a_thousand_moves_leak_no_figure_and_no_observer(panel):
    def observers() -> int:
        return sum(
            len(handlers)
            for control in panel.controls.values()
            for by_type in control._trait_notifiers.values()
            for handlers in by_type.values()
        )

    assert panel.picture
    figures_before, start = figures(), (observers(), len(widget._instances))
    for move in range(1000):
        panel.controls["spread_start"].value = move + 1
        if move % 100 == 0:
            assert panel.picture
    assert figures() <= figures_before
    assert observers() == start[0]
    assert len(widget._instances) <= start[1]
    assert len(panel._runs) <= explore._MAX_STATES


def test_reset_goes_back_to_what_the_machine_has(panel):
    text, state = panel.text, panel.state
    change_everything(panel)
    instances = len(widget._instances)
    panel.reset()
    assert (panel.text, panel.state) == (text, state)
    assert len(widget._instances) == instances


@pytest.mark.parametrize(
    "devices",
    [
        (Device("nvme0", "nvme", 7),),
        (Device("virtio0", "virtio", 3),),
        (Device("nvme0", "nvme", 3, write_queues=1), Device("loop0", "loop")),
        (Device("nvme0", "nvme", 2), Device("nvme1", "nvme", 3)),
        (Device("loop0", "loop"),),
        tuple(Device(f"card{at}", "irqs", 2) for at in range(30)),
    ],
)
@pytest.mark.parametrize("name", ["mine", "custom", "L96as_v4", "a b"])
def test_a_state_brings_back_every_machine_that_an_explorer_can_hold(devices, name):
    machine = Machine(name, "title", "x86_64", "x86", Topology.uniform(1, 4, 2, 2), devices)
    panel = panels.explorer(machine)
    assert panel.text == mail_text(*(simulate(machine, revision=r) for r in REVISIONS_SHOWN))
    fresh = panels.explorer(panel.state)
    assert (fresh.error, fresh.text, fresh.state) == ("", panel.text, panel.state)
    pasted = panels.explorer("L48s_v2")
    pasted.controls["state"].value = panel.state
    assert (pasted.error, pasted.text, pasted.state) == ("", panel.text, panel.state)


PASTED = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 1 cpus: 2 3\n"


def test_what_load_machine_reads_can_be_pasted_and_uploaded(panel):
    panel.controls["topology"].value = PASTED
    assert panel.error == ""
    assert panel.text.startswith("loaded: 4 CPUs in 2 nodes; 1 nvme with 4 queues")
    fresh = panels.explorer(panel.state)
    assert fresh.text == panel.text

    uploaded = panels.explorer("L96as_v4")
    upload = {"name": "../../n.txt", "content": memoryview(PASTED.encode()), "size": len(PASTED)}
    uploaded.controls["file"].set_trait("value", (upload | {"type": "", "last_modified": NOW},))
    assert uploaded.error == ""
    assert "4 CPUs in 2 nodes" in uploaded.text
    upload["content"] = memoryview(b"\x00\xff" * 50)
    uploaded.controls["file"].set_trait("value", (upload | {"type": "", "last_modified": NOW},))
    assert uploaded.error
    assert "4 CPUs in 2 nodes" in uploaded.text
