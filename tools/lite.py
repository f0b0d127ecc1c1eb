# SPDX-License-Identifier: GPL-2.0-only
"""Build a JupyterLab that runs in the reader's browser, with the engine inside.

    python tools/lite.py [--output _lite]

What is built is a folder for any web server.  The Python packages that its notebook needs are in
it; Python itself comes from Pyodide's public address when a reader opens it.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LITE = ROOT / "lite"
MARKER = ".groupcpus-lite"  # in every folder that may be replaced
# All of them pure Python; what they need beyond is in Pyodide's own kernel.
PACKAGES = (
    *("anywidget", "attrs", "cattrs", "comm", "defusedxml", "ipywidgets", "networkx", "psygnal"),
    "typing_extensions",
)


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command; show what it says only if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{Path(command[0]).name} failed")


def engine_wheel(wheels: Path) -> None:
    """Build the package's wheel with its data inside; a checkout has them beside the package."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        shutil.copytree(
            ROOT / "groupcpus", copy / "groupcpus", ignore=shutil.ignore_patterns("__pycache__")
        )
        data = copy / "groupcpus" / "data"
        shutil.copytree(ROOT / "data" / "machines", data / "machines")
        for path in (ROOT / "data").glob("*.toml"):
            shutil.copy(path, data)
        pip("wheel", "--no-deps", "--wheel-dir", wheels, copy)


def package_wheels(wheels: Path) -> None:
    """Fetch the wheels of the packages that the notebook needs, in the versions installed here."""
    frozen = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.split()
    pins = [line for line in frozen if line.partition("==")[0] in PACKAGES]
    if len(pins) != len(PACKAGES):
        raise SystemExit(f"not all of {', '.join(PACKAGES)} are installed here")
    pip("download", "--no-deps", "--only-binary=:all:", "--platform=any", "--dest", wheels, *pins)


def pip(*arguments: str | Path) -> None:
    run(sys.executable, "-m", "pip", arguments[0], "--quiet", *arguments[1:])


def build(output: Path) -> None:
    """Build the folder, in place of one that was built before."""
    filled = output.exists() and not (output.is_dir() and not any(output.iterdir()))
    if filled and not (output / MARKER).is_file():
        raise SystemExit(
            f"{output} is not a lab of ours, as it has no {MARKER}: remove it first, or name "
            "another folder; nothing was changed"
        )
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lite"
        shutil.copytree(LITE, copy)
        wheels = copy / "pypi"
        wheels.mkdir()
        engine_wheel(wheels)
        package_wheels(wheels)
        run(
            *(sys.executable, "-m", "jupyterlite_core", "build", "--no-sourcemaps"),
            *("--lite-dir", copy, "--output-dir", Path(folder) / "built"),
            *("--contents", copy / "files", "--apps", "lab"),
            cwd=copy,
        )
        shutil.rmtree(output, ignore_errors=True)
        shutil.move(Path(folder) / "built", output)
        (output / MARKER).write_text("This folder is replaced by each build.\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "_lite", help="its folder")
    output = parser.parse_args(arguments).output.resolve()
    build(output)
    print(f"to try it: python3 -m http.server --bind 127.0.0.1 --directory {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
