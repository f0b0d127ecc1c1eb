# SPDX-License-Identifier: GPL-2.0-only
"""What is measured end to end; each figure is noted and printed at the end of the run."""

from collections.abc import Callable
from typing import Any

import pytest

NOTES = pytest.StashKey[list[str]]()


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keep a line for the end of the run."""
    return request.config.stash.setdefault(NOTES, []).append


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(NOTES, [])
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
