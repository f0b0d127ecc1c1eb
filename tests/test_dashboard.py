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
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.browser import PICTURES, START_SECONDS, chromium, open_page, outside

ROOT = Path(__file__).parents[1]
SHOTS = os.environ.get("GROUPCPUS_SCREENSHOTS")


TOKEN = "a-token-for-this-test"


@contextmanager
def running_dashboard(scratch: Path, *options: str) -> Iterator[str]:
    """Serve the dashboard on loopback as `make dashboard` does; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A path with a blank, as home folders may have one.
    project = scratch / "a project"
    project.symlink_to(ROOT)
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "TMPDIR": str(scratch),
    }
    command = [sys.executable, "-m", "tools.dashboard", "--no-browser", f"--port={port}"]
    log = scratch / "voila.log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            [*command, f"--token={TOKEN}", *options],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        address = f"http://127.0.0.1:{port}/"
        deadline = time.monotonic() + START_SECONDS
        while status(f"{address}voila/static/voila.js") is None:
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


def status(address: str, **headers: str) -> int | None:
    """Return the status of a request; None if nobody answers."""
    try:
        with urlopen(Request(address, headers=headers), timeout=60) as answer:
            return 401 if "login" in answer.url else answer.status
    except HTTPError as error:
        return error.code
    except URLError:
        return None


def kernels(scratch: Path) -> int:
    """Return how many kernels run for a dashboard: each writes a file, and takes it along."""
    return len(list(scratch.glob("**/kernel-*.json")))


@pytest.mark.browser
@pytest.mark.slow
def test_slider_and_machine_change_the_picture_and_nothing_outside_is_asked(tmp_path):
    chromium()
    with running_dashboard(tmp_path) as address, open_page() as (page, requested):
        page.goto(f"{address}?token={TOKEN}")
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


@pytest.mark.slow
def test_a_stranger_is_kept_out_and_a_kernel_without_a_reader_goes(tmp_path):
    cull = [f"--MappingKernelManager.{name}=2" for name in ("cull_idle_timeout", "cull_interval")]
    with running_dashboard(tmp_path, *cull) as address:
        assert status(address) in (401, 403)
        assert status(f"{address}?token=wrong") in (401, 403)
        right = f"{address}?token={TOKEN}"
        # A page of somebody else whose name was made to mean this computer.
        for host in ("evil.example", "evil.example:80"):
            assert status(right, Host=host, Origin=f"http://{host}") == 403
        assert kernels(tmp_path) == 0

        # Who only asks and never connects leaves a kernel, for a while.
        assert status(right) == 200
        assert kernels(tmp_path) == 1
        deadline = time.monotonic() + 60
        while kernels(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.2)
