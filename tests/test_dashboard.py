# SPDX-License-Identifier: GPL-2.0-only
"""The explorer as a page of its own: Voilà, Chromium, a slider moved by keyboard."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.browser import PICTURES, START_SECONDS, chromium, open_page, outside

DASHBOARD = Path(__file__).parents[1] / "dashboard"
SHOTS = os.environ.get("GROUPCPUS_SCREENSHOTS")


@contextmanager
def running_voila(scratch: Path, *options: str) -> Iterator[str]:
    """Serve the dashboard on loopback as `make dashboard` does; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "JUPYTER_PATH": str(DASHBOARD),
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "IPYTHONDIR": str(scratch / "ipython"),
    }
    command = [sys.executable, "-m", "voila", str(DASHBOARD / "explorer.ipynb")]
    command += ["--template=offline", "--Voila.ip=127.0.0.1", "--no-browser", f"--port={port}"]
    log = scratch / "voila.log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            [*command, *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        address = f"http://127.0.0.1:{port}/"
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"{address}voila/static/voila.js"):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"Voilà did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def answers(address: str) -> bool:
    """Tell whether a server serves an address."""
    try:
        with urlopen(address, timeout=5):
            return True
    except URLError:
        return False


@pytest.mark.browser
@pytest.mark.slow
def test_slider_and_machine_change_the_picture_and_nothing_outside_is_asked(tmp_path):
    chromium()
    with running_voila(tmp_path) as address, open_page() as (page, requested):
        page.goto(address)
        panel = page.locator(".gc-live")
        panel.locator("svg").first.wait_for()
        assert page.get_by_text("panels.explorer").count() == 0  # no code is shown
        before = panel.evaluate(PICTURES)
        assert before

        handle = page.locator(".widget-slider", has_text="devices").get_by_role("slider")
        handle.focus()
        handle.press("ArrowRight")
        page.get_by_text("7 nvme with 62 queues").wait_for()
        moved = panel.evaluate(PICTURES)
        assert moved not in ("", before)

        page.get_by_label("machine").select_option("L48s_v2")
        page.get_by_text("L48s_v2: 48 CPUs in 6 nodes").wait_for()
        assert panel.evaluate(PICTURES) not in ("", before, moved)
        assert requested
        assert outside(requested) == []
        for width in (1280, 1920) if SHOTS else ():
            page.set_viewport_size({"width": width, "height": 1000})
            page.screenshot(path=Path(SHOTS or "") / f"dashboard-{width}.png", full_page=True)
