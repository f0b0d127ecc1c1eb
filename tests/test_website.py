# SPDX-License-Identifier: GPL-2.0-only
"""The static site: complete, whole without a network, and readable in a browser from files."""

import base64
import html
import json
import re
from pathlib import Path

import nbformat
import pytest

from tests.browser import chromium, open_page
from tools.notebooks import all_notebooks, read, title
from tools.website import SiteError, addresses, build, check

NOTEBOOKS = all_notebooks()
MATHS = re.compile(r"\$\$|\\\(|\\\[|\\begin\{")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = tmp_path_factory.mktemp("site") / "_site"
    # What explorers need takes minutes to compute: tests/test_living.py looks at one.
    build(site, packing=lambda found: {})
    return site


def pictures(path: Path) -> list[bytes]:
    """Return the pictures that a notebook stores."""
    found = []
    for cell in read(path).cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                found.append(data["image/svg+xml"].encode())
            elif "image/png" in data:
                found.append(base64.b64decode(data["image/png"]))
    return found


def small_notebook(folder: Path, *cells: str, output: str = "") -> Path:
    """Write a notebook of markdown cells, and maybe one that has put out HTML."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(c) for c in cells])
    if output:
        shown = nbformat.v4.new_output("display_data", data={"text/html": output})
        notebook.cells.append(nbformat.v4.new_code_cell("show()", outputs=[shown]))
    folder.mkdir(exist_ok=True)
    path = folder / "00-small.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return path


def test_every_notebook_has_a_page_that_the_index_links_to(site):
    linked = addresses(site / "index.html").linked
    assert [name for name in linked if name != "index.html"] == [
        f"{path.stem}.html" for path in NOTEBOOKS
    ]
    for path in NOTEBOOKS:
        heading = html.escape(title(path, read(path)))
        assert f"<title>{heading}</title>" in (site / f"{path.stem}.html").read_text(
            encoding="utf-8"
        )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_stored_picture_is_in_its_page_and_in_its_order(site, path):
    page = addresses(site / f"{path.stem}.html")
    shown = [(site / name).read_bytes() for name in page.loaded if name.startswith("pictures/")]
    assert shown == pictures(path) != []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_text_that_a_notebook_prints_is_in_its_page(site, path):
    page = (site / f"{path.stem}.html").read_text(encoding="utf-8")
    for cell in read(path).cells:
        for output in cell.get("outputs", []):
            for line in output.get("text", "").splitlines():
                assert html.escape(line) in page


def test_pages_lead_to_the_one_before_and_the_one_after(site):
    pages = [f"{path.stem}.html" for path in NOTEBOOKS]
    for at, page in enumerate(pages):
        around = [*pages[max(0, at - 1) : at], "index.html", *pages[at + 1 : at + 2]]
        linked = addresses(site / page).linked
        assert linked[: len(around)] == linked[-len(around) :] == around


def test_nothing_is_loaded_from_elsewhere_and_every_link_leads_somewhere(site):
    assert check(site) == []
    loaded = {name for page in site.glob("*.html") for name in addresses(page).loaded}
    assert {"style.css", "search.js"} < loaded
    assert [name for name in loaded if "//" in name] == []


def test_notebooks_do_without_maths_that_would_need_a_script():
    found = [
        (path.name, cell.source)
        for path in NOTEBOOKS
        for cell in read(path).cells
        if cell.cell_type == "markdown" and MATHS.search(cell.source)
    ]
    assert found == []


@pytest.mark.parametrize(
    "output",
    [
        '<img src="https://example.org/a.png">',
        '<script src="//example.org/a.js"></script>',
        '<link rel="stylesheet" href="http://example.org/a.css">',
        '<style>@import "https://example.org/a.css";</style>',
        "<p style=\"background: url('https://example.org/a.png')\">text</p>",
        '<iframe src="https://example.org/"></iframe>',
    ],
)
def test_a_page_that_would_load_something_is_refused(tmp_path, output):
    small_notebook(tmp_path / "notebooks", "# Small", output=output)
    with pytest.raises(SiteError, match=r"00-small\.html loads"):
        build(tmp_path / "site", tmp_path / "notebooks")


@pytest.mark.parametrize("link", ["01-gone.ipynb", "00-small.ipynb#gone", "#gone"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path, link):
    small_notebook(tmp_path / "notebooks", f"# Small\n\nSee [there]({link}).")
    with pytest.raises(SiteError, match="which is not there"):
        build(tmp_path / "site", tmp_path / "notebooks")


def test_links_to_headings_and_other_sites_are_kept_and_those_into_the_project_dropped(tmp_path):
    text = "# Small\n\n## A part\n\n[a](00-small.ipynb#A-part) [b](../LICENSE) [c](https://a.org/)"
    small_notebook(tmp_path / "notebooks", text)
    build(tmp_path / "site", tmp_path / "notebooks")
    linked = addresses(tmp_path / "site" / "00-small.html").linked
    assert "00-small.html#A-part" in linked
    assert "https://a.org/" in linked
    assert "../LICENSE" not in linked


def test_headings_with_marks_can_be_linked_to(tmp_path):
    small_notebook(tmp_path / "notebooks", "# Small\n\n## Is it 15 % faster?\n\n## A `b` & c")
    build(tmp_path / "site", tmp_path / "notebooks")
    assert check(tmp_path / "site") == []


@pytest.mark.parametrize("name", ["index.html", "letter.txt", "style.css"])
def test_no_folder_without_our_marker_is_emptied(tmp_path, name):
    small_notebook(tmp_path / "notebooks", "# Small")
    mine = tmp_path / "mine"
    (mine / "important").mkdir(parents=True)
    (mine / name).write_text("precious", encoding="utf-8")
    with pytest.raises(SiteError, match=r"no \.groupcpus-site.*nothing was changed"):
        build(mine, tmp_path / "notebooks")
    assert (mine / name).read_text(encoding="utf-8") == "precious"
    assert (mine / "important").is_dir()
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("precious", encoding="utf-8")
    link.symlink_to(mine)
    for other in (file, link):
        with pytest.raises(SiteError, match="nothing was changed"):
            build(other, tmp_path / "notebooks")
    ours = tmp_path / "ours"
    for _ in range(2):
        build(ours, tmp_path / "notebooks")
    assert (ours / "00-small.html").is_file()


def test_a_page_lists_its_parts_and_offers_its_notebook(tmp_path):
    small_notebook(tmp_path / "notebooks", "# Small\n\n## A part\n\n### Another")
    build(tmp_path / "site", tmp_path / "notebooks")
    linked = addresses(tmp_path / "site" / "00-small.html").linked
    assert {"#A-part", "#Another", "notebooks/00-small.ipynb"} <= set(linked)
    kept = tmp_path / "site" / "notebooks" / "00-small.ipynb"
    assert read(kept).cells[0].source.startswith("# Small")


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path):
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(SiteError, match="not a site of ours"):
        build(tmp_path)
    assert (tmp_path / "letter.txt").read_text(encoding="utf-8") == "dear"


def test_the_search_knows_every_page(site):
    line = (site / "search.js").read_text(encoding="utf-8").partition("\n")[0]
    entries = json.loads(line.removeprefix("const SECTIONS = ").removesuffix(";"))
    assert {address.partition("#")[0] for address, _, _ in entries} == {
        f"{path.stem}.html" for path in NOTEBOOKS
    }


@pytest.mark.browser
@pytest.mark.slow
def test_opened_as_files_the_pages_show_all_and_ask_for_nothing_else(site):
    chromium()
    with open_page() as (page, requested):
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("requestfailed", lambda request: failures.append(request.url))
        for path in sorted(site.glob("*.html")):
            page.goto(path.as_uri(), wait_until="load")
            widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
            assert len(widths) == sum(
                name.startswith("pictures/") for name in addresses(path).loaded
            )
            assert all(widths)
            # Nothing but what scrolls in its own box is wider than the window.
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert failures == []
        assert [
            address for address in requested if not address.startswith((site.as_uri(), "data:"))
        ] == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_search_finds_a_notebook_by_its_words(site):
    chromium()
    path = NOTEBOOKS[0]
    with open_page() as (page, _):
        page.goto((site / "index.html").as_uri())
        page.get_by_label("Search").fill(title(path, read(path)))
        found = page.locator("#found a").first.get_attribute("href") or ""
        assert found.partition("#")[0] == f"{path.stem}.html"
        page.get_by_label("Search").fill("no such words")
        assert page.locator("#found").inner_text() == "Nothing found."
