# SPDX-License-Identifier: GPL-2.0-only
"""From a slider's event to the painted picture, in Chromium: in a page, and in JupyterLab.

The time runs from the event until the frame that shows its state has been painted.  In a page
nothing but the live view works; in JupyterLab moves begin cold, 150 ms apart, so that some wait for
the kernel and most are answered from what was fetched.  GROUPCPUS_OLDER may name a checkout with an
older explorer, which is then measured in the same run.  Nothing that is timed is asserted.
"""

import json
import os
from pathlib import Path

import nbformat
import pytest

from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, read_machine
from groupcpus.machines.probe import simulate
from groupcpus.panels.documents import live_machine, live_run
from groupcpus.panels.live import SCRIPT
from tests.browser import chromium, open_page, run_all_cells, running_lab, slider

OLDER = os.environ.get("GROUPCPUS_OLDER")
PICTURES = ("bars", "map", "matrix", "distribution", "sharing")
MOVES = 30
PAINTED = """
const painted = () => new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = done;
  channel.port2.postMessage(0);
}));
"""
PAGE = (
    PAINTED
    + """
const [machine, states] = DOCUMENT;
const input = document.querySelector("input"), view = new View(document.body);
view.setMachine(machine);
globalThis.measure = async (picture, moves) => {
  const times = [];
  input.oninput = () => view.setState({ ...states[input.value], picture });
  for (let move = 0; move < moves + 3; move++) {
    input.value = move % states.length;
    const start = performance.now();
    input.dispatchEvent(new Event("input"));
    await painted();
    if (move >= 3) times.push(performance.now() - start);
    await new Promise((done) => setTimeout(done, 20));
  }
  return times;
};
"""
)
LAB = (
    "async (moves) => {"
    + PAINTED
    + """
  const bar = [...document.querySelectorAll(".jp-OutputArea .widget-slider")]
    .find((one) => one.textContent.includes("devices"));
  const handle = bar.querySelector("[role=slider]"), home = bar.closest(".jp-OutputArea-output");
  const live = home.querySelector(".gc-live");
  const shown = () => live?.dataset.shown ?? home.querySelector("img").src;
  const times = [];
  for (let move = 0; move < moves; move++) {
    const key = move % 10 < 5 ? "ArrowRight" : "ArrowLeft", before = shown();
    const start = performance.now();
    handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    while (shown() === before && performance.now() - start < 9000) {
      await new Promise((done) => setTimeout(done, 1));
    }
    await home.querySelector("img")?.decode();
    await painted();
    times.push(performance.now() - start);
    await new Promise((done) => setTimeout(done, 150));
  }
  return times;
}"""
)


def uniform(cpus: int) -> Machine:
    topology = Topology.uniform(nodes=8, cpus_per_node=cpus // 8)
    disks = tuple(Device(f"nvme{at}", "nvme", min(cpus // 8, 128)) for at in range(6))
    return Machine(str(cpus), f"8 nodes of {cpus // 8} CPUs", "x86_64", "x86", topology, disks)


def machine_of(cpus: int) -> Machine:
    return read_machine("L96as_v4") if cpus == 96 else uniform(cpus)


def figures(times: list[float]) -> str:
    ordered = sorted(times)
    median, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
    return f"median {median:6.1f} ms, 95th percentile {high:6.1f} ms"


@pytest.mark.browser
@pytest.mark.parametrize("cpus", [96, 512, 1024])
def test_a_move_in_a_page(note, tmp_path, cpus):
    chromium()
    machine = machine_of(cpus)
    states = [
        {
            "runs": [
                live_run(simulate(machine.with_devices(devices), revision=revision), when)
                for revision, when in (("cluster", "before"), ("rotate-v2", "after"))
            ]
        }
        for devices in range(3, 9)
    ]
    document = json.dumps([live_machine(machine.topology), states])
    page_file = tmp_path / "page.html"
    page_file.write_text(
        '<!doctype html><meta charset="utf-8"><input type="range" max="99">'
        f'<script type="module">{SCRIPT.read_text("utf-8")}\n'
        f"{PAGE.replace('DOCUMENT', document)}</script>",
        encoding="utf-8",
    )
    with open_page() as (page, _):
        page.goto(page_file.as_uri())
        page.wait_for_function("globalThis.measure")
        for picture in PICTURES:
            times = page.evaluate("([p, n]) => measure(p, n)", [picture, MOVES])
            note(f"page, {cpus:4} CPUs, {picture:12}: {figures(times)}")


CELL = """
from groupcpus import Topology, load_machine, panels
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
def made(cpus):
    topology = Topology.uniform(nodes=8, cpus_per_node=cpus // 8)
    disks = tuple(Device(f"nvme{{at}}", "nvme", min(cpus // 8, 128)) for at in range(6))
    return Machine(str(cpus), "", "x86_64", "x86", topology, disks)
panels.explorer(load_machine("L96as_v4") if {cpus} == 96 else made({cpus}))
"""


@pytest.mark.browser
@pytest.mark.parametrize("cpus", [96, 512, 1024])
@pytest.mark.parametrize("which", ["older", "live"])
def test_a_move_in_the_lab(note, tmp_path, monkeypatch, cpus, which):
    chromium()
    if which == "older":
        if not OLDER:
            pytest.skip("GROUPCPUS_OLDER names no older checkout")
        monkeypatch.setenv("PYTHONPATH", OLDER)
    else:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL.format(cpus=cpus))])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    (folder / "explorer.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    with running_lab(folder, tmp_path / "jupyter") as address, open_page() as (page, _):
        page.goto(address.format("explorer.ipynb"))
        run_all_cells(page)
        handle = slider(page, "devices")
        picture = ".gc-live svg" if which == "live" else ".jp-OutputArea-output img"
        page.locator(picture).first.wait_for()
        handle.focus()
        times = page.evaluate(LAB, MOVES)
        note(f"lab,  {cpus:4} CPUs, bars ({which:5}): {figures(times)}")
