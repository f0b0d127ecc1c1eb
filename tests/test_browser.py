# SPDX-License-Identifier: GPL-2.0-only
"""The notebooks as a reader uses them: JupyterLab, Chromium, a slider moved by keyboard."""

import shutil
import time
from pathlib import Path

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


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("notebook", "label"),
    [("01-how-grouping-works.ipynb", "step"), ("03-l96as-v4.ipynb", "devices")],
)
def test_moving_a_slider_changes_the_picture(notebook, label, tmp_path):
    chromium()
    copies = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, copies)
    with running_lab(copies, tmp_path / "jupyter") as address, open_page() as (page, requested):
        page.goto(address.format(notebook))
        run_all_cells(page)
        handle = slider(page, label)
        before = wait_for_pictures(handle, "")
        handle.focus()
        handle.press("ArrowRight")
        wait_for_pictures(handle, before)
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
