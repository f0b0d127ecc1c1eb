# SPDX-License-Identifier: GPL-2.0-only
"""``import groupcpus`` is light, and offers every revision whichever module comes first."""

import subprocess
import sys

import pytest

HEAVY = ("pandas", "numpy", "networkx", "matplotlib", "seaborn", "ipywidgets", "numba")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_package_imports_nothing_heavy():
    assert run(f"import groupcpus, sys; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


@pytest.mark.parametrize(
    "module", ["groupcpus", "groupcpus.engine.revisions", "groupcpus.studies.rotation"]
)
def test_every_revision_is_there_whatever_is_imported_first(module):
    code = f"import {module}; from groupcpus.engine.revisions import REVISIONS; print(*REVISIONS)"
    assert run(code) == (
        "numa numa-single-pop cluster rotate-v1 rotate-v2 rotate-v2-fixed rotate-v2-skip1 "
        "rotate-next rotate-tiled rotate-kept"
    )
