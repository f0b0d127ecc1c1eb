# SPDX-License-Identifier: GPL-2.0-only
"""Execute the notebooks, compare or store what they print, and link them to each other.

    python tools/notebooks.py --check            execute all, compare with what is stored
    python tools/notebooks.py --write 03-*.ipynb execute these and store their outputs
    python tools/notebooks.py --links            renew the index and the previous/next links

What is stored depends on nothing but the notebook and the installed packages: no counts, times,
versions or widget state. Pictures are compared for presence and kind only, since fonts and
libraries draw the same picture in different bytes.
"""

import argparse
import base64
import difflib
import io
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
TIMEOUT = 120  # seconds a cell may take
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KEPT_CELL_METADATA = ("tags", "jupyter")
BLANK = ", blank"
PNG_NOTES = (b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf")


def all_notebooks(folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of `folder` in reading order."""
    return sorted(folder.glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    """Read a notebook; cells without an id get one that stays the same."""
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.setdefault("id", f"cell-{number}")
    return notebook


def dumps(notebook: NotebookNode) -> str:
    """Return the notebook's text as it is stored."""
    return nbformat.writes(notebook) + "\n"


# --- executing


class OwnKernel(AsyncKernelManager):
    """The kernel of the Python that runs this; one the user has installed can't take its place."""

    def _kernel_spec_manager_default(self) -> KernelSpecManager:
        return KernelSpecManager(kernel_dirs=[])


def execute(path: Path) -> NotebookNode:
    """Execute a notebook in a fresh kernel, in its own folder, and return it stripped.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell raised; the message holds the cell and the traceback.
    nbclient.exceptions.CellTimeoutError
        A cell took longer than `TIMEOUT` seconds.
    """
    import matplotlib.font_manager  # noqa: F401  (else the first kernel says that it makes the cache)

    notebook = read(path)
    with tempfile.TemporaryDirectory() as ipython_dir:
        environment = os.environ | {
            "IPYTHONDIR": ipython_dir,  # no start-up files of the user
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "SOURCE_DATE_EPOCH": "0",  # the date that matplotlib writes into SVG
            "TQDM_DISABLE": "1",  # progress bars show times
        }
        for other in ("MPLBACKEND", "PYTHONWARNDEFAULTENCODING"):
            environment.pop(other, None)
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT,
            kernel_name="python3",
            kernel_manager_class=OwnKernel,
            extra_arguments=["--log-level=ERROR"],
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
        )
        client.execute(cwd=str(path.parent), env=environment)
    return strip(notebook)


# --- stripping


def strip(notebook: NotebookNode) -> NotebookNode:
    """Remove from a notebook, in place, what differs between runs; return it."""
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
    )
    styler_ids: dict[str, str] = {}
    for cell in notebook.cells:
        cell.metadata = NotebookNode(
            {key: cell.metadata[key] for key in KEPT_CELL_METADATA if cell.metadata.get(key)}
        )
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = None
            if "text" in output:
                output.text = strip_text(output.text, styler_ids)
            for mime, value in list(output.get("data", {}).items()):
                if mime == WIDGET_VIEW:
                    del output.data[mime]  # without a kernel it hides the picture beside it
                elif mime == "image/png":
                    output.data[mime] = strip_png(value)
                elif isinstance(value, str):
                    output.data[mime] = strip_text(value, styler_ids)
    return notebook


def strip_text(text: str, styler_ids: dict[str, str]) -> str:
    """Remove addresses, random ids and pictures' bytes from a text."""
    text = re.sub(r"\b0x[0-9a-f]{6,}\b", "0x…", text)
    text = re.sub(r"b(['\"])\\x89PNG.*?\1(\.\.\.)?", "b'…'", text)  # an Image widget's value
    return re.sub(  # a pandas Styler's tables: number them
        r"\bT_[0-9a-f]{5}(?=_|\b)",
        lambda match: styler_ids.setdefault(match[0], f"T_{len(styler_ids):05x}"),
        text,
    )


def strip_png(encoded: str) -> str:
    """Store a base64 PNG in 256 colours, without the chunks that name programs and times."""
    data = base64.b64decode(encoded)
    with Image.open(io.BytesIO(data)) as picture:
        if picture.mode != "P":  # a third of the size, and no eye tells the difference
            buffer = io.BytesIO()
            drawn = picture.convert("RGBA")
            paper = Image.new("RGBA", drawn.size, "white")
            paper.alpha_composite(drawn)
            paper.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(buffer, "PNG")
            data = buffer.getvalue()
    kept, start = [data[:8]], 8
    while start < len(data):
        (length,) = struct.unpack_from(">I", data, start)
        end = start + length + 12
        if data[start + 4 : start + 8] not in PNG_NOTES:
            kept.append(data[start:end])
        start = end
    return base64.b64encode(b"".join(kept)).decode()


# --- comparing


def check(path: Path, fresh: NotebookNode) -> list[str]:
    """Say what is wrong with a stored notebook, given its fresh execution; [] when all is well."""
    problems = []
    if path.read_text(encoding="utf-8") != dumps(strip(read(path))):
        problems.append(
            f"{path.name} is stored with the noise of a run: `make notebooks` strips it"
        )
    stored_lines, fresh_lines = list(describe(read(path))), list(describe(fresh))
    if any(line.endswith(BLANK) for line in stored_lines + fresh_lines):
        problems.append(f"{path.name} has a blank picture")
    names = f"{path.name} as stored", f"{path.name} executed"
    if diff := "\n".join(difflib.unified_diff(stored_lines, fresh_lines, *names, lineterm="")):
        problems.append(diff)
    return problems


def describe(notebook: NotebookNode) -> Iterator[str]:
    """Yield the lines to compare: all text that the cells put out, and a word for each picture."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        yield f"[cell {number}] {cell.source.partition(chr(10))[0]}"
        for output in cell.outputs:
            if output.output_type == "stream":
                yield f"{output.name}:"
                yield from output.text.splitlines()
            elif output.output_type == "error":
                yield f"error: {output.ename}: {output.evalue}"
            for mime, value in sorted(output.get("data", {}).items()):
                if mime.startswith("text/"):
                    yield f"{mime}:"
                    yield from without_pictures(value).splitlines()
                elif mime.startswith("image/"):
                    yield mime + (BLANK if is_blank(mime, value) else "")


def without_pictures(html: str) -> str:
    """Return a text with the pictures inside it replaced by a word for their kind."""
    html = re.sub(r"data:(image/[\w.+-]+)[^\"')\s]*", r"\1", html)
    return re.sub(r"<svg\b.*?</svg>", "image/svg+xml", html, flags=re.DOTALL)


def is_blank(mime: str, value: str) -> bool:
    """Tell whether a picture shows nothing."""
    if mime == "image/svg+xml":
        return not re.search(r"<(path|rect|circle|ellipse|line|polyline|polygon|text|use)\b", value)
    with Image.open(io.BytesIO(base64.b64decode(value))) as picture:
        return len(picture.convert("RGBA").getcolors(2) or "many") == 1


# --- links


def title(path: Path, notebook: NotebookNode) -> str:
    """Return a notebook's first heading."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := re.search(r"^# +(.+)", cell.source, re.M)):
            return match[1].strip()
    raise SystemExit(f"{path.name} has no heading: its first cell should begin with `# Title`")


def tagged(notebook: NotebookNode, tag: str) -> NotebookNode | None:
    """Return the first cell that carries `tag`."""
    return next((cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])), None)


def set_tagged(notebook: NotebookNode, tag: str, source: str) -> None:
    """Give the cell tagged `tag` its text; a notebook without one gets it as its last cell."""
    cell = tagged(notebook, tag)
    if cell is None:
        cell = nbformat.v4.new_markdown_cell(id=tag, metadata={"tags": [tag]})
        notebook.cells.append(cell)
    cell.source = source


def link(notebooks: dict[Path, NotebookNode]) -> None:
    """Renew, in place, the index in the first notebook and the links at the end of each."""
    links = [f"[{title(path, notebook)}]({path.name})" for path, notebook in notebooks.items()]
    for number, notebook in enumerate(notebooks.values()):
        if number == 0:
            rows = [f"| {p.name[:2]} | {text} |" for p, text in zip(notebooks, links, strict=True)]
            set_tagged(notebook, "index", "\n".join(["| | notebook |", "| --- | --- |", *rows]))
        parts = [f"← {links[number - 1]}"] if number > 0 else []
        parts += [f"[Contents]({next(iter(notebooks)).name})"] if number > 1 else []
        parts += [f"{links[number + 1]} →"] if number + 1 < len(links) else []
        if nav := tagged(notebook, "nav"):
            notebook.cells.remove(nav)
        set_tagged(notebook, "nav", " · ".join(parts))


def stale_links(paths: Sequence[Path]) -> list[str]:
    """Return the notebooks whose links are not what `link()` makes of all of them."""
    notebooks = {path: read(path) for path in paths}
    link(notebooks)
    return [path.name for path, notebook in notebooks.items() if notebook != read(path)]


# --- the command


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; return 1 when a comparison fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--links", action="store_true", help="renew the index and the links")
    parser.add_argument("--write", action="store_true", help="execute and store the outputs")
    parser.add_argument("--check", action="store_true", help="execute and compare the outputs")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all)")
    options = parser.parse_args(arguments)
    if not (options.links or options.write or options.check):
        parser.error("say --links, --write or --check")
    paths = [path.resolve() for path in options.paths] or all_notebooks()

    if options.links:
        notebooks = {path: read(path) for path in all_notebooks()}
        link(notebooks)
        for path, notebook in notebooks.items():
            path.write_text(dumps(notebook), encoding="utf-8")

    problems = []
    if options.check and (stale := stale_links(all_notebooks())):
        problems.append(f"stale links in {', '.join(stale)}: `make notebooks` renews them")
    if options.write or options.check:
        with ProcessPoolExecutor() as pool:
            for path, fresh in zip(paths, pool.map(execute, paths), strict=True):
                if options.write:
                    path.write_text(dumps(fresh), encoding="utf-8")
                if options.check:
                    problems += check(path, fresh)
                print(path.name, "executed", flush=True)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
