# SPDX-License-Identifier: GPL-2.0-only
"""Every notebook is executed and compared with what it stores, and keeps to the house rules."""

import re

import pytest

from tools.notebooks import all_notebooks, check, execute, read, stale_links

NOTEBOOKS = all_notebooks()
MAX_BYTES = 500_000
MAX_CELL_LINES = 25
# The widgets that capture output stall runs without a browser and leak figures.
FORBIDDEN = re.compile(
    r"\bwidgets\.Output\b|\bOutput\(|import .*\bOutput\b|\binteract(ive|_manual)?\b"
    r"|\binteractive_output\b|^\s*from .* import \*",
    re.MULTILINE,
)
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def outputs(path):
    return [output for cell in code_cells(path) for output in cell.outputs]


def test_there_are_notebooks_and_the_first_is_the_one_that_make_lab_opens():
    assert NOTEBOOKS[0].name == "00-start-here.ipynb"


def test_names_are_numbered_and_in_kebab_case():
    names = [path.name for path in NOTEBOOKS]
    assert [name for name in names if not re.fullmatch(r"\d\d(-[a-z0-9]+)+\.ipynb", name)] == []
    assert len({name[:2] for name in names}) == len(names)


def test_index_and_links_are_fresh():
    assert stale_links(NOTEBOOKS) == [], "run `make notebooks`"


@pytest.mark.slow
@each_notebook
def test_executed_again_it_puts_out_what_it_stores(path):
    problems = check(path, execute(path))
    assert not problems, "\n".join(problems)


@each_notebook
def test_it_is_small(path):
    assert path.stat().st_size < MAX_BYTES


@each_notebook
def test_it_stores_no_error_and_no_warning(path):
    assert [out.evalue for out in outputs(path) if out.output_type == "error"] == []
    assert [out.text for out in outputs(path) if out.get("name") == "stderr"] == []


@each_notebook
def test_it_stores_a_picture_for_viewers_without_a_kernel(path):
    kinds = {kind for out in outputs(path) for kind in out.get("data", {})}
    assert kinds & {"image/png", "image/svg+xml"}


@each_notebook
def test_its_cells_are_short_and_use_nothing_forbidden(path):
    for cell in code_cells(path):
        lines = cell.source.splitlines()
        assert len(lines) <= MAX_CELL_LINES, f"{len(lines)} lines: {lines[0]} …"
        found = FORBIDDEN.search(cell.source)
        assert not found, f"{found[0]!r} in a cell: {lines[0]} …"
