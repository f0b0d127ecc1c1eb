# SPDX-License-Identifier: GPL-2.0-only
"""The panels as a reader uses them: JupyterLab, Chromium, a mouse and a keyboard."""

import re
import shutil
import time
from pathlib import Path

import nbformat
import pytest

from tests.browser import (
    chromium,
    open_page,
    outside,
    pictures_around,
    run_all_cells,
    running_lab,
    slider,
)

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Serve notebooks that are copied; yield the address and the folder."""
    chromium()
    scratch = tmp_path_factory.mktemp("lab")
    folder = scratch / "notebooks"
    folder.mkdir()
    shutil.copy(NOTEBOOKS / "01-how-grouping-works.ipynb", folder)
    cell = nbformat.v4.new_code_cell(
        "from groupcpus import panels\npanels.explorer('L96as_v4')", id="a"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    (folder / "explorer.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    with running_lab(folder, scratch / "jupyter") as address:
        yield address, folder


@pytest.mark.browser
@pytest.mark.slow
def test_the_stepper_steps_and_plays(lab):
    address, _ = lab
    with open_page() as (page, requested):
        page.goto(address.format("01-how-grouping-works.ipynb"))
        run_all_cells(page)
        handle = slider(page, "step")
        before = wait_for_pictures(handle, "")
        handle.focus()
        handle.press("ArrowRight")
        wait_for_pictures(handle, before)
        live = page.locator(".gc-live").first
        step = int(live.get_attribute("data-shown") or 0)
        live.get_by_role("button", name="play").click()
        page.wait_for_function(
            "least => +document.querySelector('.gc-live').dataset.shown >= least", arg=step + 2
        )
        live.get_by_role("button", name="stop").click()
        assert requested
        assert outside(requested) == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_explorer_answers_hovering_following_and_keys_and_survives_a_save(lab):
    address, folder = lab
    with open_page() as (page, requested):
        page.goto(address.format("explorer.ipynb"))
        run_all_cells(page)
        handle = slider(page, "devices")
        live = page.locator(".gc-live")
        before = wait_for_pictures(handle, "")

        # Pointing at a CPU says which interrupts it has, with what masks, and why.
        bars = live.locator("svg").first
        box = bars.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.7 * box["height"])
        about = live.locator(".about")
        about.get_by_text(re.compile("^CPU [0-9]+: node 0")).wait_for()
        about.get_by_text(re.compile("Why: nvme[0-9] asked for 62 groups")).first.wait_for()

        # A queue that is clicked is followed in every picture.
        page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.7 * box["height"])
        about.get_by_role("button", name=re.compile("^nvme0q")).first.click()
        followed = about.get_by_role("button").first.inner_text()
        for picture in ("matrix", "map"):
            page.get_by_label("picture", exact=True).select_option(picture)
            marked = ".row[d^=M]" if picture == "matrix" else ".halo.on"
            live.locator(marked).first.wait_for(state="attached")
            assert about.get_by_role("button").first.inner_text() == followed
        page.get_by_label("picture", exact=True).select_option("bars")

        # The keyboard does the same.
        live.locator("svg").first.focus()
        page.keyboard.press("Escape")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        about.get_by_text("CPU 2: node 0, cluster 2-3, core 2-3").wait_for()
        assert "Arrow keys" in (live.locator("svg").first.get_attribute("aria-label") or "")

        # The slider is answered, from what was fetched or by the kernel.
        handle.focus()
        handle.press("ArrowRight")
        wait_for_pictures(handle, before)
        live.get_by_text("L96as_v4: 96 CPUs in 2 nodes; 7 nvme with 62 queues").wait_for()

        # Saved and opened again without its kernel it is a picture that says what to do.
        page.keyboard.press("Control+s")
        path = folder / "explorer.ipynb"
        deadline = time.monotonic() + 30
        while "To move the controls" not in path.read_text("utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        page.get_by_role("menuitem", name="Kernel", exact=True).click()
        page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()
        page.reload()
        page.get_by_text("To move the controls of this panel").wait_for()
        assert page.get_by_text("model not found").count() == 0
        assert page.locator(".jp-OutputArea-output img").count() == 1
        assert requested
        assert outside(requested) == []


def wait_for_pictures(handle, before: str, seconds: float = 60) -> str:
    """Wait until the pictures beside a slider are there and differ from `before`; return them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        shown = pictures_around(handle)
        if shown not in ("", before):
            return shown
        time.sleep(0.1)
    pytest.fail(f"no {'new ' if before else ''}picture beside the slider in {seconds} s")
