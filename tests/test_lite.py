# SPDX-License-Identifier: GPL-2.0-only
"""The lab that runs in a browser, without a network: engine, trace, and a slider that is clicked.

Not part of the default tests: `make test-lite` builds the lab and says where in GROUPCPUS_LITE.
Readers get Python from Pyodide's public address; here a copy of its core and of the wheels that its
kernel loads first, fetched before, stands in for it.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from groupcpus import Topology, explain, simulate
from groupcpus.machines.mail_text import mail_text
from tests.browser import PICTURES, open_page, outside, run_all_cells

LITE = os.environ.get("GROUPCPUS_LITE")
PYODIDE = "314"  # as the kernel that is built in asks for
FIRST_LOADED = ("micropip", "jedi", "ipython")
START_SECONDS = 240  # Python starts and unpacks its packages in the browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not LITE, reason="make test-lite runs it"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Path:
    """Copy the built lab, and put a Python beside it."""
    assert LITE
    lab = tmp_path_factory.mktemp("lite") / "lab"
    shutil.copytree(LITE, lab)
    runtime = lab / "static" / "pyodide"
    fetch_pyodide(runtime)
    config = lab / "jupyter-lite.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    settings = document["jupyter-config-data"]["litePluginSettings"]
    kernel = settings["@jupyterlite/pyodide-kernel-extension:kernel"]
    assert kernel["disablePyPIFallback"] is True
    assert "pyodideUrl" not in kernel
    kernel["pyodideUrl"] = "./static/pyodide/pyodide.mjs"
    config.write_text(json.dumps(document), encoding="utf-8")
    return lab


def fetch_pyodide(runtime: Path) -> None:
    """Fetch Pyodide's core and the wheels that its kernel loads first, and match the hashes."""
    scratch = runtime.parent
    scratch.mkdir(exist_ok=True)
    npm = subprocess.run(
        ["npm", "pack", "--silent", f"pyodide@{PYODIDE}"],
        cwd=scratch,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    with tarfile.open(scratch / npm.stdout.split()[-1]) as archive:
        archive.extractall(scratch, filter="data")
    (scratch / "package").rename(runtime)

    lock_file = runtime / "pyodide-lock.json"
    lock = json.loads(lock_file.read_text(encoding="utf-8"))
    packages, wanted = {}, list(FIRST_LOADED)
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name not in packages:
            packages[name] = lock["packages"][name]
            wanted += packages[name]["depends"]
    pins = [f"{name}=={package['version']}" for name, package in packages.items()]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version=3.14", f"--dest={runtime}", *pins]
    subprocess.run(command, check=True)
    for package in packages.values():
        wheel = runtime / package["file_name"]
        package["sha256"] = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock_file.write_text(json.dumps(lock), encoding="utf-8")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; yield its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_engine_trace_and_panel_run_in_the_browser(lab):
    small = Topology.uniform(nodes=2, cpus_per_node=4, threads=2)
    grouping, steps = explain(small, 3, revision="cluster")
    before, after = (simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2"))
    with served(lab) as address, open_page() as (page, requested):
        page.set_default_timeout(START_SECONDS * 1000)
        page.goto(f"{address}/lab/index.html?path=groupcpus.ipynb")
        run_all_cells(page)
        panel = page.locator(".jp-OutputArea .widget-vbox", has=page.locator("pre")).last
        panel.locator("svg").first.wait_for()

        printed = page.locator(".jp-OutputArea").all_text_contents()
        for step in steps:
            assert any(str(step) in text for text in printed)
        for queue, mask in enumerate(grouping.masks, start=1):
            assert any(f"queue {queue}: CPUs {mask}" in text for text in printed)
        assert any(str(before.summary) in text for text in printed)
        assert panel.locator("pre").inner_text().strip() == mail_text(before, after).strip()

        first = panel.evaluate(PICTURES)
        assert first
        # A click on the track's left end: fewer devices.
        track = panel.locator(".widget-slider .noUi-target").first
        track.scroll_into_view_if_needed()
        box = track.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + box["height"] / 2)
        deadline = time.monotonic() + 60
        while panel.evaluate(PICTURES) == first and time.monotonic() < deadline:
            time.sleep(0.2)
        assert panel.evaluate(PICTURES) != first
        assert "96 CPUs in 2 nodes; 6 nvme" not in panel.locator("pre").inner_text()
        if shots := os.environ.get("GROUPCPUS_SCREENSHOTS"):
            page.screenshot(path=Path(shots) / "lite.png")
        assert requested
        assert outside(requested) == []
