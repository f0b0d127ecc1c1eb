# SPDX-License-Identifier: GPL-2.0-only
"""Explorers in pages without a kernel: packed states, sliders, links; and the live view's words."""

import base64
import json
import re
import zlib
from contextlib import contextmanager
from dataclasses import replace

import nbformat
import pytest

from groupcpus import Topology, load_machine, panels, simulate
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.panels.documents import live_machine, live_run, why
from groupcpus.panels.live import SCRIPT
from groupcpus.panels.saving import PANEL
from groupcpus.pictures.stories import story
from tests.browser import chromium, open_page
from tools.packing import MAX_BYTES, Packer, guess, pack
from tools.website import PAGES, build, states

SETTINGS = {"probe": "admin-first", "requests": "device-by-device", "spread_start": 0}


CHIPS = ("x86", "its", "gicv3")


def small(irqchip="x86", devices=None) -> Machine:
    # Nodes that are not numbered one after the other, and a CPU that is off.
    document = {
        "nodes": {"0": "0-2,6-8", "1": "3-5,9-11"},
        "siblings": ["0,6", "1,7", "2,8", "3,9", "4,10", "5,11"],
        "clusters": ["0-1,6-7", "2,8", "3-4,9-10", "5,11"],
        "possible": "0-11",
        "present": "0-11",
        "online": "0-10",
    }
    devices = devices or (Device("loop0", "loop"), Device("nvme0", "nvme", 7))
    return Machine("small", "", "x86_64", irqchip, Topology.from_dict(document), devices)


def packer(machine, revisions=("cluster", "rotate-v2", "rotate-next"), devices=4) -> Packer:
    settings = {**SETTINGS, "irqchip": machine.irqchip}
    return Packer(machine, settings, revisions, devices)


def test_the_guess_of_an_irqchip_is_right_where_it_chooses_like_that():
    for irqchip in ("x86", "gicv3"):
        packed = packer(small(irqchip))
        packed.pack()
        assert packed.wrong == []


def test_what_a_guess_gets_wrong_is_written_down():
    packed = packer(small("its"))
    packed.pack()
    assert packed.wrong, "the ITS sees the charges of vectors that are not requested yet"
    assert list(guess([[0, 1]] * 3, [1, 0], True)) == [0, 0, 0]
    assert list(guess([[1]], [1, 0], True)) == [-1]


def test_a_page_has_room_for_an_explorer_of_a_large_machine():
    panel = panels.explorer("L48s_v2")
    machine = panel.machine.with_devices(2)
    packed = pack(panels.explorer(replace(machine, name="two")))
    assert packed is not None
    assert len(packed["packed"]) < MAX_BYTES / 3
    assert zlib.decompress(base64.b64decode(packed["packed"]))


def test_too_large_a_machine_is_left_to_a_kernel():
    topology = Topology.uniform(nodes=8, cpus_per_node=128)
    machine = Machine("big", "", "x86_64", "x86", topology, (Device("nvme0", "nvme", 64),))
    assert pack(panels.explorer(machine)) is None


@contextmanager
def scripts(folder):
    """Open a page that has the site's scripts as a module, and names what they export."""
    chromium()
    parts = [SCRIPT.read_text("utf-8"), (PAGES / "explorer.js").read_text("utf-8")]
    text = "\n".join(parts).replace("export default { render };", "")
    names = re.findall(r"^export (?:async )?(?:class|function) (\w+)", text, re.MULTILINE)
    module = f"{text}\nObject.assign(globalThis, {{ {', '.join(names)} }}); globalThis.ready = 1;"
    file = folder / "page.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><script type="module">{module}</script>', "utf-8"
    )
    with open_page() as (page, _):
        page.goto(file.as_uri())
        page.wait_for_function("globalThis.ready")
        yield page


OPEN = "text => Packed.open(text).then(packed => { globalThis.it = packed; })"


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_unpacks_exactly_what_the_engine_computed(tmp_path):
    drives = (Device("nvme0", "nvme", 7, write_queues=2), Device("card0", "irqs", 3))
    machines = [small(irqchip, devices) for irqchip in CHIPS for devices in (None, drives)]
    checked = 0
    with scripts(tmp_path) as page:
        for machine in machines:
            packed = packer(machine)
            page.evaluate(OPEN, base64.b64encode(packed.pack()).decode())
            for revision in packed.revisions:
                for devices in range(1, packed.devices + 1):
                    for queues in range(1, packed.queues + 1):
                        run = live_run(packed.run(revision, devices, queues), "x")
                        wanted = [revision, devices, queues, "x"]
                        assert page.evaluate("wanted => it.run(...wanted)", wanted) == run
                        checked += explained(page, packed, run, revision, devices, queues)
            document = json.loads(json.dumps(live_machine(machine.topology)))
            assert page.evaluate("it.machine") == {**document, "name": "small", "epoch": 0}
    assert checked > 100


def explained(page, packed, document, revision, devices, queues) -> bool:
    """Check what the page says of one interrupt against the engine's own sentences."""
    run = packed.run(revision, devices, queues)
    irq = (devices * 7 + queues) % len(document["cpu"])
    arguments = [{"devices": devices, "queues": queues}, document, irq]
    said = page.evaluate("([set, run, irq]) => whyOf(it, set, run, irq)", arguments)
    sentences = [one for one in why(run, irq) if one.startswith("group ") and " of " in one]
    compared = len(sentences) == 1 and said[1].startswith("group ")
    if compared:
        assert said[1].split(":")[0] == sentences[0].split(":")[0]
        assert said[1].split(" of ")[1:] == sentences[0].split(" of ")[1:]
    return compared


@pytest.mark.browser
@pytest.mark.slow
def test_page_and_picture_tell_the_same_story(tmp_path):
    runs = [
        simulate(name, revision=revision, spread_start=start)
        for name in ("L96as_v4", "D16plds_v6", "overflow_4cpu", "xeon_e_40cpu", "mana_8cpu")
        for revision in ("numa", "cluster", "rotate-v2")
        for start in (0, 2**32 - 1)
    ]
    told = set()
    with scripts(tmp_path) as page:
        for run in runs:
            documents = [live_machine(run.machine.topology), live_run(run)]
            for show in ("IRQs", "submitters"):
                words = page.evaluate(
                    "([machine, run, show]) => story(run, figures(machine, run, show))",
                    [*documents, show],
                )
                assert words == story(run, show)
                told.add(words.translate(str.maketrans("", "", "0123456789")))
    assert len(told) > 5


@pytest.fixture(scope="module")
def page_of_one(tmp_path_factory):
    """Build a site of one notebook with one explorer."""
    folder = tmp_path_factory.mktemp("living")
    panel = panels.explorer("D16plds_v6")
    bundle = panel._repr_mimebundle_()
    del bundle["application/vnd.jupyter.widget-view+json"]
    output = nbformat.v4.new_output("execute_result", data=bundle)
    cells = [
        nbformat.v4.new_markdown_cell("# Small\n\n## A part"),
        nbformat.v4.new_code_cell("panels.explorer(machine)", outputs=[output]),
    ]
    (folder / "00-small.ipynb").write_text(
        nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8"
    )
    build(folder / "site", folder)
    return folder / "site" / "00-small.html"


def test_a_page_keeps_the_stored_picture_and_stays_small(page_of_one):
    text = page_of_one.read_text(encoding="utf-8")
    assert '<div class="explorer" id="explorer-1"><img src="pictures/' in text
    assert "D16plds_v6: 16 CPUs" in text
    assert len(text) < MAX_BYTES
    notebook = nbformat.read(page_of_one.parent / "notebooks" / "00-small.ipynb", as_version=4)
    assert [state.split()[1] for state in states(notebook)] == ["machine=D16plds_v6"]
    assert notebook.cells[1].outputs[0].data[PANEL]


@pytest.mark.browser
@pytest.mark.slow
def test_sliders_live_in_a_page_and_its_address_keeps_what_is_shown(page_of_one):
    chromium()
    with open_page() as (page, requested):
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(page_of_one.as_uri())
        live = page.locator(".gc-live")
        live.locator("svg").first.wait_for()
        assert page.locator(".explorer > img").count() == 0

        slider = page.get_by_role("slider", name="devices")
        before = live.locator("pre").inner_text()
        slider.focus()
        slider.press("ArrowRight")
        slider.press("ArrowRight")
        assert live.locator("pre").inner_text() != before
        page.get_by_role("combobox", name="after").select_option("rotate-next")
        page.get_by_role("combobox", name="picture").select_option("map")
        more = page.get_by_role("listbox", name="and also")
        more.select_option(["numa", "rotate-v2-fixed"])
        assert live.locator("svg").count() == 4
        assert page.url.endswith("&more=numa%2Crotate-v2-fixed&picture=map&show=IRQs")
        assert "fourth, rotate-v2-fixed: " in live.locator("pre").inner_text()
        more.select_option([])
        assert live.locator("svg").count() == 2
        live.locator("circle.leaf").nth(3).click(force=True)
        live.locator(".about").get_by_text(re.compile("^CPU 3: node 0")).wait_for()
        shown = live.locator("pre").inner_text()
        after = simulate(load_machine("D16plds_v6").with_devices(4), revision="rotate-next")
        most = max(after.counts.values())
        cpus = [cpu for cpu, count in after.counts.items() if count == most]
        assert f"with {most} IRQ" in shown
        assert f"{len(cpus)} CPU" in shown
        assert page.url.endswith(
            "#explorer-1?devices=4&queues=6&before=cluster&after=rotate-next&picture=map&show=IRQs&follow=cpu3"
        )

        # Whoever gets the link sees the same.
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        live.locator("circle.leaf").first.wait_for()
        assert live.locator("pre").inner_text() == shown
        assert live.locator(".halo.on").count() == 2
        live.locator(".about").get_by_text(re.compile("^CPU 3: node 0")).wait_for()

        # One that is damaged shows what can be shown.
        page.goto("about:blank")
        page.goto(link.split("#")[0] + "#explorer-1?devices=99&queues=x&before=none&picture=map")
        live.locator("circle.leaf").first.wait_for()
        assert page.get_by_role("slider", name="devices").input_value() == "2"
        assert page.get_by_role("slider", name="queues").input_value() == "6"
        assert failures == []
        here = page_of_one.parent.as_uri()
        assert [a for a in requested if not a.startswith((here, "data:", "about:"))] == []
