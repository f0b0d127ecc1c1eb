# SPDX-License-Identifier: GPL-2.0-only
"""Every word once: a public name stands for one thing in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

import groupcpus

HERE = Path(groupcpus.__file__).parent
# The compiled twin has the engine's functions under the engine's names, on purpose;
# `main` is what a file that is run begins with.
TWIN = HERE / "studies" / "twin.py"
STARTS = {"main"}


def test_no_public_name_is_defined_twice():
    where = defaultdict(list)
    for path in sorted(HERE.rglob("*.py")):
        if path != TWIN:
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith(
                    "_"
                ):
                    where[node.name].append(str(path.relative_to(HERE)))
    assert len(where) > 500
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in STARTS} == {}


def test_a_long_module_says_why_it_is_one():
    silent = []
    for path in sorted(HERE.rglob("*.py")):
        text = path.read_text("utf-8")
        if text.count("\n") > 450 and "450 lines" not in (ast.get_docstring(ast.parse(text)) or ""):
            silent.append(str(path.relative_to(HERE)))
    assert silent == []
