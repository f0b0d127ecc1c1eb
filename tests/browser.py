# SPDX-License-Identifier: GPL-2.0-only
"""A real JupyterLab in a real Chromium, for the tests that need both."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, sync_playwright

LAB = Path(__file__).parents[1] / "lab"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 90  # for a server or a kernel to come up on a busy machine
# What the pictures of an element show, as text; nothing while one of them still loads.
PICTURES = """
element => {
    const pictures = [...element.querySelectorAll("img, svg")];
    if (pictures.some(picture => picture.tagName === "IMG" && !picture.naturalWidth)) return "";
    return pictures.map(picture => {
        if (picture.tagName !== "IMG") return picture.outerHTML;
        const canvas = document.createElement("canvas");
        canvas.width = picture.naturalWidth;
        canvas.height = picture.naturalHeight;
        canvas.getContext("2d").drawImage(picture, 0, 0);
        return canvas.toDataURL();
    }).join("\\n");
}
"""


def chromium() -> str:
    """Return Chromium's path; without one skip the test, or fail if a browser is required."""
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            return path
    message = f"no Chromium: none of {', '.join(CHROMIUM_NAMES)} is in PATH"
    if os.environ.get("GROUPCPUS_BROWSER") == "required":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def running_lab(notebooks: Path, scratch: Path) -> Iterator[str]:
    """Serve `notebooks` with JupyterLab on loopback; yield its address, which ends in a token.

    All that JupyterLab reads or writes of its own is kept in `scratch`.
    """
    settings = scratch / "settings"
    popups = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    popups.parent.mkdir(parents=True)
    popups.write_text('{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8")
    runtime = scratch / "runtime"
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(scratch / "workspaces"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "JUPYTER_CONFIG_PATH": str(LAB),  # as `make lab` has it
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.port=0"]
    command += ["--LabApp.extension_manager=readonly", f"--ServerApp.root_dir={notebooks}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    log = scratch / "lab.log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        info = _server_info(server, runtime, log)
        assert urlsplit(info["url"]).hostname in LOOPBACK
        assert info["token"]
        yield f"{info['url']}lab/tree/{{}}?reset&token={info['token']}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _server_info(server: subprocess.Popen, runtime: Path, log: Path) -> dict[str, str]:
    """Wait for the file in which a server says its address and token."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            try:
                return json.loads(path.read_text(encoding="utf-8"))
            except json.JSONDecodeError:  # not yet written to its end
                pass
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')}")


@contextmanager
def open_page() -> Iterator[tuple[Page, list[str]]]:
    """Open a page in Chromium; yield it and the list of the addresses it asks for."""
    executable = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(START_SECONDS * 1000)
            requested: list[str] = []
            page.context.on("request", lambda request: requested.append(request.url))
            page.on("websocket", lambda socket: requested.append(socket.url))
            yield page, requested
        finally:
            browser.close()


def outside(addresses: list[str]) -> list[str]:
    """Return those of the addresses that leave this machine."""
    parts = [(urlsplit(address), address) for address in addresses]
    return [
        address
        for part, address in parts
        if part.scheme not in {"data", "blob"} and part.hostname not in LOOPBACK
    ]


def run_all_cells(page: Page) -> None:
    """Wait for the open notebook's kernel, then choose Run All Cells in the menu."""
    page.get_by_text(re.compile(r" \| Idle$")).wait_for()  # in the status bar
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def slider(page: Page, label: str) -> Locator:
    """Wait for the first slider with this label; return its handle, which takes the keyboard."""
    row = page.locator(".jp-OutputArea .widget-slider", has=page.get_by_text(label, exact=True))
    handle = row.first.get_by_role("slider")
    handle.scroll_into_view_if_needed()
    return handle


def pictures_around(element: Locator) -> str:
    """Return what the pictures in the output that holds `element` show."""
    return element.locator(
        "xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')][1]"
    ).evaluate(PICTURES)
