# SPDX-License-Identifier: GPL-2.0-only
"""Build a static site of the notebooks as they are stored; nothing is executed.

    python -m tools.website [--output _site]

The pages load nothing from anywhere else: no scripts, fonts or styles but their own. So they can be
opened as files, put on any web server, or sent as an archive.  Explorers live in them without a
kernel: the states behind their controls are computed here and packed into the page.

Long, as it is a program of its own: cells, pages, and the check of what was written.
"""

import argparse
import base64
import hashlib
import html
import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import unquote, urlsplit

from nbconvert.filters import markdown2html, strip_ansi
from nbformat import NotebookNode
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from groupcpus.panels import explorer
from groupcpus.panels.live import SCRIPT
from groupcpus.panels.saving import PANEL
from tools.notebooks import NOTEBOOKS, all_notebooks, dumps, read, title
from tools.packing import pack

PAGES = Path(__file__).resolve().parent / "pages"
SITE = Path(__file__).resolve().parents[1] / "_site"
CODE_STYLES = {"light": "friendly", "dark": "github-dark"}
MARKER = ".groupcpus-site"  # in every folder that may be replaced
THUMBNAIL = (640, 352)  # pixels at most: twice the size at which the index shows it
# Attributes that make a browser fetch something; <a href> waits for a click.
FETCHED = {"src", "srcset", "poster", "data", "background", "xlink:href", "action", "formaction"}
CSS_FETCH = re.compile(r"@import|url\(\s*['\"]?(?!data:|#)", re.IGNORECASE)


class SiteError(ValueError):
    """A site that cannot be built as asked."""


@dataclass
class Page:
    """A notebook as a page."""

    path: Path
    title: str
    notebook: NotebookNode
    body: str = ""
    pictures: list[str] = field(default_factory=list)  # addresses, in their order
    sections: list[tuple[str, str, str]] = field(default_factory=list)  # address, title, text
    packed: Mapping[str, Any] = field(default_factory=dict)  # what explorers need, by state
    explorers: int = 0

    @property
    def address(self) -> str:
        return f"{self.path.stem}.html"


# --- cells


def render(page: Page, site: Path) -> None:
    """Fill in a page's body, pictures and sections; write the pictures into the site."""
    parts = []
    place = page.title
    for cell in page.notebook.cells:
        if "nav" in cell.metadata.get("tags", []):
            continue  # the page has its own
        if cell.cell_type == "markdown":
            text = relink(markdown2html(cell.source))
            parts.append(f'<div class="text">{text}</div>')
            page.sections += sections(page, text)
            place = page.sections[-1][1] if page.sections else place
        elif cell.cell_type == "code":
            if cell.source.strip():
                formatter: HtmlFormatter[str] = HtmlFormatter(cssclass="code")
                code = highlight(cell.source, PythonLexer(), formatter)
                parts.append(f'<details class="fold" open><summary>code</summary>{code}</details>')
            parts += [
                f'<div class="output">{render_output(output, page, place, site)}</div>'
                for output in cell.outputs
            ]
    page.body = "\n".join([contents(page), *parts])


def contents(page: Page) -> str:
    """Render the list of a page's sections, and the link to its notebook."""
    rows = [
        f'<li><a href="{address[len(page.address) :]}">{html.escape(name)}</a></li>'
        for address, name, _ in page.sections
        if "#" in address and name != page.title
    ]
    there = f'<a href="notebooks/{page.path.name}" download>Download this notebook</a>'
    listed = f"<ul>{''.join(rows)}</ul>" if rows else ""
    return (
        f'<details class="contents"><summary>On this page</summary>{listed}<p>{there}</p></details>'
    )


def render_output(output: NotebookNode, page: Page, place: str, site: Path) -> str:
    """Render what a cell has put out, in the richest way that needs no kernel."""
    if output.output_type == "stream":
        return preformatted(output.text)
    if output.output_type == "error":
        return preformatted("\n".join(output.traceback))
    data = output.data
    text = data.get("text/plain", "")
    for mime, suffix in (("image/svg+xml", "svg"), ("image/png", "png")):
        if mime in data:
            content = data[mime].encode() if suffix == "svg" else base64.b64decode(data[mime])
            address = f"pictures/{hashlib.sha256(content).hexdigest()[:16]}.{suffix}"
            (site / address).write_bytes(content)
            page.pictures.append(address)
            # A panel describes its picture; a figure says no more than that it is one.
            panel = bool(text) and not text.startswith("<")
            alt = text.partition("\n")[0] if panel else f"Picture: {place}"
            picture = f'<img src="{address}" alt="{html.escape(alt)}"{size(content)}>'
            if not panel:
                return picture
            live = page.packed.get(data.get(PANEL, {}).get("state", ""))
            if live is None:
                return how_to_run(page) + picture + preformatted(text)
            return living(page, live, picture + preformatted(text))
    if "text/html" in data:
        return relink(data["text/html"])
    return preformatted(text)


def living(page: Page, live: Mapping[str, Any], stored: str) -> str:
    """Render an explorer that a script brings to life; without one the stored picture stays."""
    page.explorers += 1
    how = f"make lab, and open notebooks/{page.path.name}"
    data = json.dumps({**live, "how": how}, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="explorer" id="explorer-{page.explorers}">{stored}'
        f'<script type="application/json">{data}</script></div>'
    )


def living_script() -> str:
    """Return the script of living pages: one file that works from ``file://``, so no module."""
    parts = [SCRIPT.read_text("utf-8"), (PAGES / "explorer.js").read_text("utf-8")]
    parts = [re.sub(r"^export default .*$", "", part, flags=re.MULTILINE) for part in parts]
    plain_script = "\n".join(re.sub(r"^export ", "", part, flags=re.MULTILINE) for part in parts)
    return f'(() => {{\n"use strict";\n{plain_script}\n}})();\n'


def states(notebook: NotebookNode) -> Iterator[str]:
    """Yield the states of the explorers that a notebook stores."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if state := output.get("data", {}).get(PANEL, {}).get("state"):
                yield state


def packed_state(state: str) -> dict[str, Any] | None:
    """Compute what a page needs for an explorer that starts in a state."""
    panel = explorer(state)
    try:
        return pack(panel)
    finally:
        panel.close()


def pack_all(found: Sequence[str]) -> dict[str, Any]:
    """Pack all states, a process each: the engine runs some thousand times for one."""
    with ProcessPoolExecutor() as pool:
        return dict(zip(found, pool.map(packed_state, found), strict=True))


def how_to_run(page: Page) -> str:
    """Say how a panel comes alive."""
    return (
        f'<p class="live">To move the sliders of this panel: <code>make lab</code>, open '
        f"<code>notebooks/{page.path.name}</code>, run its cells. Its first picture and text:</p>"
    )


def preformatted(text: str) -> str:
    return f"<pre>{html.escape(strip_ansi(text))}</pre>"


def size(content: bytes) -> str:
    """Give a PNG's width and height as attributes, so that the page doesn't jump."""
    if not content.startswith(b"\x89PNG"):
        return ""
    with Image.open(io.BytesIO(content)) as picture:
        return f' width="{picture.width}" height="{picture.height}"'


def relink(text: str) -> str:
    """Let links to notebooks lead to their pages; drop those to other files of the project."""
    text = re.sub(r'(<a href="(?![a-z]+:)[^"#/]+)\.ipynb([#"])', r"\1.html\2", text)
    return re.sub(r'<a href="\.\./[^"]*">(.*?)</a>', r"\1", text, flags=re.DOTALL)


def sections(page: Page, text: str) -> Iterator[tuple[str, str, str]]:
    """Cut a cell's text at its headings, for the search."""
    for part in re.split(r"(?=<h[1-6])", text):
        heading = re.match(r'<h[1-6] id="([^"]*)">(.*?)<a ', part, flags=re.DOTALL)
        anchor = f"#{heading[1]}" if heading else ""
        name = plain(heading[2]) if heading else page.title
        rest = part[part.index("</h") + 5 :] if heading else part
        if heading or plain(rest):
            yield page.address + anchor, name, plain(rest)


def plain(text: str) -> str:
    """Take the words out of HTML."""
    text = re.sub(r"</?(?:a|code|em|span|strong|sub|sup)\b[^>]*>", "", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


# --- pages


def links(pages: Sequence[Page], number: int | None) -> str:
    """Render the links to the notebooks before and after one."""

    def link(at: int, side: str, sign: str) -> str:
        if not 0 <= at < len(pages):
            return f'<span class="{side}"></span>'
        name = html.escape(pages[at].title)
        return f'<a class="{side}" href="{pages[at].address}">{sign.format(name)}</a>'

    if number is None:
        return ""
    before, after = link(number - 1, "before", "← {}"), link(number + 1, "next", "{} →")
    return f'{before}<a href="index.html">Contents</a>{after}'


def index(pages: Sequence[Page], site: Path) -> str:
    """Render the list of all notebooks."""
    cards = []
    shown: set[str] = set()
    for page in pages:
        thumbnail = f"pictures/{page.path.stem}-small.png"
        pictures = [name for name in page.pictures if name.endswith(".png")]
        picture = ""
        if pictures:
            # The first picture, or the last one if another notebook begins with the same.
            chosen = pictures[0] if pictures[0] not in shown else pictures[-1]
            shown.add(chosen)
            with Image.open(site / chosen) as large:
                small = large.convert("RGB")
            small.thumbnail(THUMBNAIL)
            small.save(site / thumbnail)
            picture = f'<img src="{thumbnail}" alt="">'
        about = page.sections[0][2] if page.sections else ""
        sentence = re.match(r".*?[.?:](?= |$)|.*", about)
        cards.append(
            f'<li class="card">{picture}<div><h2><a href="{page.address}">'
            f"{page.path.name[:2]} {html.escape(page.title)}</a></h2>"
            f"<p>{html.escape(sentence[0] if sentence else '')}</p></div></li>"
        )
    return f"""<h1>groupcpus</h1>
<p>Which CPU will handle this queue's interrupt, and why do they pile up? The notebooks below
compute what the Linux kernel's <code>group_cpus_evenly()</code> and the irqchips make of a machine,
exactly, and show what comes of it. To move their sliders, run them: <code>make lab</code> in the
project's folder.</p>
<p><label for="search">Search</label><br><input id="search" type="search" autocomplete="off"></p>
<ul id="found" aria-live="polite"></ul>
<ul class="cards">{"".join(cards)}</ul>"""


def style() -> str:
    """Return the style sheet: ours, and the colours of code in light and dark."""
    light, dark = (
        HtmlFormatter(style=name, nobackground=True).get_style_defs(".code")
        for name in CODE_STYLES.values()
    )
    ours = (PAGES / "style.css").read_text(encoding="utf-8")
    return f"{ours}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def build(
    site: Path,
    folder: Path = NOTEBOOKS,
    packing: Callable[[Sequence[str]], Mapping[str, Any]] = pack_all,
) -> list[Path]:
    """Build the site of a folder of notebooks; return its pages.

    Parameters
    ----------
    site : Path
        Its folder; one that was built before is replaced, no other.
    folder : Path
        Where the notebooks are.
    packing : callable
        What computes the states of explorers.

    Raises
    ------
    SiteError
        If a page would load something from elsewhere, or links to what is not there.
    """
    make_room(site)
    notebooks = {path: read(path) for path in all_notebooks(folder)}
    packed = packing([state for notebook in notebooks.values() for state in states(notebook)])
    pages = [
        Page(path, title(path, notebook), notebook, packed=packed)
        for path, notebook in notebooks.items()
    ]
    for page in pages:
        render(page, site)
        (site / "notebooks" / page.path.name).write_text(dumps(page.notebook), encoding="utf-8")

    template = Template((PAGES / "page.html").read_text(encoding="utf-8"))

    def write(address: str, heading: str, nav: str, body: str, script: str = "") -> Path:
        text = template.substitute(title=html.escape(heading), nav=nav, body=body, script=script)
        (site / address).write_text(text, encoding="utf-8")
        return site / address

    found = [entry for page in pages for entry in page.sections]
    search = (PAGES / "search.js").read_text(encoding="utf-8")
    titles = {page.address: page.title for page in pages}
    (site / "search.js").write_text(
        f"const SECTIONS = {json.dumps(found)};\nconst TITLES = {json.dumps(titles)};\n{search}",
        encoding="utf-8",
    )
    (site / "explorer.js").write_text(living_script(), encoding="utf-8")
    (site / "style.css").write_text(style(), encoding="utf-8")
    script = '<script src="search.js"></script>'
    written = [write("index.html", "groupcpus", links(pages, None), index(pages, site), script)]
    for number, page in enumerate(pages):
        script = '<script src="explorer.js"></script>' if page.explorers else ""
        written.append(write(page.address, page.title, links(pages, number), page.body, script))
    if problems := check(site):
        raise SiteError("\n".join(problems))
    return written


def make_room(site: Path) -> None:
    """Empty the folder of a site that was built before, and mark it as ours again.

    Raises
    ------
    SiteError
        If there is anything in it and no marker: whoever put it there may want to keep it.
    """
    if site.exists() or site.is_symlink():
        if not site.is_dir() or site.is_symlink():
            raise SiteError(f"{site} is no folder; nothing was changed")
        if any(site.iterdir()) and not (site / MARKER).is_file():
            raise SiteError(
                f"{site} is not a site of ours, as it has no {MARKER}: remove it first, or name "
                "another folder; nothing was changed"
            )
        shutil.rmtree(site)
    for name in ("pictures", "notebooks"):
        (site / name).mkdir(parents=True)
    (site / MARKER).write_text("This folder is replaced by each build.\n", encoding="utf-8")


# --- checking


class _Addresses(HTMLParser):
    """Collects what a page loads, where it links to, and what can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.names: set[str] = set()
        self._styled = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._styled = tag == "style"
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            elif name == "href" and tag == "a":
                self.linked.append(value or "")
            elif name in FETCHED or name == "href" or (name == "style" and loads(value or "")):
                self.loaded.append(value or "")

    def handle_data(self, data: str) -> None:
        if self._styled and loads(data):
            self.loaded.append(data.strip()[:80])

    def handle_endtag(self, tag: str) -> None:
        self._styled = False


def loads(css: str) -> bool:
    """Tell whether a style makes a browser fetch something."""
    return bool(CSS_FETCH.search(css))


def addresses(page: Path) -> _Addresses:
    """Read a page's addresses."""
    parser = _Addresses()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    return parser


def check(site: Path) -> list[str]:
    """Say what a site would load from elsewhere, and which of its links lead nowhere."""
    pages = {path.name: addresses(path) for path in site.glob("*.html")}
    problems = []
    for name, page in pages.items():
        for address in page.loaded:
            if not (address.startswith("data:") or (site / address).is_file()):
                problems.append(f"{name} loads {address!r}, which is no file of the site")
        for address in page.linked:
            parts = urlsplit(address)
            if parts.scheme in {"http", "https"}:
                continue
            if parts.path.startswith("notebooks/") and (site / parts.path).is_file():
                continue
            target = pages.get(parts.path or name)
            # As browsers do: the fragment as it stands, else decoded.
            names = {"", *target.names} if target else set()
            if names.isdisjoint({parts.fragment, unquote(parts.fragment)}):
                problems.append(f"{name} links to {address!r}, which is not there")
    if loads((site / "style.css").read_text(encoding="utf-8")):
        problems.append("style.css loads something")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=SITE, help="its folder (default: _site)")
    output = parser.parse_args(arguments).output
    try:
        pages = build(output)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(pages)} pages; open {output / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
