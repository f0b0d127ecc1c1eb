# SPDX-License-Identifier: GPL-2.0-only
"""The explorer without matplotlib: its picture is right, and it needs no heavy package."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from groupcpus import REVISIONS, Topology, load_machine, panels, simulate
from groupcpus.machines import machine as machines
from groupcpus.panels import svgpanel
from groupcpus.panels.svgpanel import compare_svg

SVG = "{http://www.w3.org/2000/svg}"


def bars(run_picture, kind):
    """Return the rectangles of one run's picture."""
    return [rect for rect in run_picture.iter(f"{SVG}rect") if rect.get("class") == kind]


@pytest.mark.parametrize("name", ["L96as_v4", "L48s_v2", "D16plds_v6", "overflow_4cpu"])
def test_bars_are_as_high_as_the_counts(name):
    runs = [simulate(name, revision=revision) for revision in ("cluster", "rotate-v2")]
    root = ET.fromstring(compare_svg(*runs))
    top = max(1, *(max(run.best, *run.counts.values()) for run in runs))
    for run, picture in zip(runs, root.findall(f"{SVG}g"), strict=True):
        drawn = [float(rect.get("height", "")) for rect in bars(picture, "bar")]
        unit = (svgpanel._HEIGHT - svgpanel._TOP - svgpanel._BOTTOM) / top
        assert drawn == pytest.approx([irqs * unit for irqs in run.counts.values()], abs=0.06)
        hatched = [float(rect.get("height", "")) for rect in bars(picture, "single")]
        singles = [irqs * unit for irqs in run.single.values() if irqs]
        assert hatched == pytest.approx(singles, abs=0.06)


def test_the_picture_says_what_it_shows_in_words():
    runs = [simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2")]
    root = ET.fromstring(compare_svg(*runs))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    for word in ("node 0", "node 1", "CPU", "IRQs", "best 4", "92"):
        assert word in texts
    assert any(str(text).startswith("before, cluster: max 6 (best possible 4)") for text in texts)
    assert any(str(text).startswith("after, rotate-v2: max 4 (best possible 4)") for text in texts)


def test_a_name_with_marks_of_xml_is_only_text():
    mine = replace(REVISIONS["cluster"], name="<b>&'")
    run = simulate("overflow_4cpu", revision=mine)
    texts = [text.text or "" for text in ET.fromstring(compare_svg(run, run)).iter(f"{SVG}text")]
    assert any("<b>&'" in text for text in texts)


def test_a_thousand_cpus_stay_in_the_picture():
    machine = machines.Machine(
        name="large",
        title="large",
        arch="x86_64",
        irqchip="x86",
        topology=Topology.uniform(nodes=8, cpus_per_node=128),
        devices=load_machine("L96as_v4").devices,
    )
    run = simulate(machine, revision="cluster")
    root = ET.fromstring(compare_svg(run, run))
    drawn = bars(root, "bar")
    assert len(drawn) == 2 * 1024
    assert max(float(r.get("x", "")) + float(r.get("width", "")) for r in drawn) <= svgpanel._WIDTH


def test_its_text_and_controls_are_those_of_the_other_explorer():
    plain, full = svgpanel.explorer("D16plds_v6"), panels.explorer("D16plds_v6")
    assert plain.text == full.text
    assert {name: (type(c), c.value) for name, c in plain.controls.items()} == {
        name: (type(full.controls[name]), full.controls[name].value) for name in plain.controls
    }


def test_a_slider_changes_the_picture_and_an_error_keeps_it():
    panel = svgpanel.explorer("L96as_v4")
    picture, text = panel.picture, panel.text
    panel.controls["devices"].value = 3
    assert panel.picture != picture
    assert panel.text != text
    picture = panel.picture
    panel.controls["devices"].max = 300
    panel.controls["devices"].value = 300
    assert "-ENOSPC" in panel.error
    assert panel.picture == picture


def test_viewers_without_widgets_get_the_picture_as_svg():
    panel = svgpanel.explorer("L96as_v4")
    bundle = panel._repr_mimebundle_()
    assert bundle["image/svg+xml"].encode() == panel.picture
    assert bundle["text/plain"] == panel.text
    assert "image/png" not in bundle


def test_neither_it_nor_the_engine_needs_numpy_pandas_or_matplotlib():
    code = """
import sys
for name in ("numpy", "pandas", "matplotlib", "seaborn", "PIL"):
    sys.modules[name] = None  # importing it fails
import groupcpus
from groupcpus.panels import svgpanel
run = groupcpus.simulate("L96as_v4", revision="cluster")
print(run.summary.greatest, max(run.counts.values()), len(svgpanel.explorer("L48s_v2").picture))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    greatest, most, size = map(int, done.stdout.split())
    assert greatest == most == 6
    assert size > 1000
