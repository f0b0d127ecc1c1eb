# SPDX-License-Identifier: GPL-2.0-only
"""Machines and helpers of the measurements; a table of ratios at the end of the run."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest

RATIOS = pytest.StashKey[list[str]]()


def uniform(nodes: int, cpus_per_node: int, strided: bool = False) -> dict[str, Any]:
    """Describe equal nodes of cores with two threads, which are clusters too.

    The two threads of a core are neighbours, or (`strided`) half a machine apart; then the cores,
    not the CPUs, are numbered node by node.
    """
    cpus = nodes * cpus_per_node
    if strided:
        cores = [f"{core},{core + cpus // 2}" for core in range(cpus // 2)]
        half = cpus_per_node // 2
        runs = [(at * half, (at + 1) * half - 1) for at in range(nodes)]
        spans = [f"{a}-{b},{a + cpus // 2}-{b + cpus // 2}" for a, b in runs]
    else:
        cores = [f"{cpu}-{cpu + 1}" for cpu in range(0, cpus, 2)]
        spans = [f"{at * cpus_per_node}-{(at + 1) * cpus_per_node - 1}" for at in range(nodes)]
    return {
        "nodes": {str(node): span for node, span in enumerate(spans)},
        "siblings": cores,
        "clusters": cores,
        "possible": f"0-{cpus - 1}",
        "present": f"0-{cpus - 1}",
    }


def forget() -> None:
    """Empty every cache of functions in the engine, so that each round starts cold."""
    for name, module in list(sys.modules.items()):
        if name == "groupcpus" or name.startswith("groupcpus."):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keep a line for the end of the run."""
    return request.config.stash.setdefault(RATIOS, []).append


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(RATIOS, [])
    if lines:
        terminalreporter.section("medians")
        for line in lines:
            terminalreporter.write_line(line)
