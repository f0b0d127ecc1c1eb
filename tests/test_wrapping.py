# SPDX-License-Identifier: GPL-2.0-only
"""Texts that lost their line ends, or lines: never a smaller machine without a word."""

import textwrap

import pytest

from groupcpus.errors import GroupCpusError
from groupcpus.sources import load, load_topology
from tests.sources import shapes
from tests.sources.shapes import SHAPES
from tests.test_cases import CASES, case

SHAPE = SHAPES["16cpu-2nodes-siblings-at-stride-8"]
NUMACTL = (
    "available: 2 nodes (0-1)\n"
    f"node 0 cpus: {' '.join(map(str, range(0, 96, 2)))}\nnode 0 size: 1 MB\nnode 0 free: 1 MB\n"
    f"node 1 cpus: {' '.join(map(str, range(1, 96, 2)))}\nnode 1 size: 1 MB\nnode 1 free: 1 MB\n"
    "node distances:\nnode   0   1 \n  0:  10  21 \n  1:  21  10 \n"
)
TEXTS = {
    "interrupts of 16 CPUs": (case("01") / "interrupts.txt").read_text("utf-8"),
    "interrupts of 14 CPUs": (case("08") / "interrupts.txt").read_text("utf-8"),
    "interrupts of a disk": (case("26") / "interrupts.txt").read_text("utf-8"),
    "lscpu -e": (case("01") / "lscpu-e.txt").read_text("utf-8"),
    "lscpu -e with more": (CASES / "formats" / "lscpu-e.hybrid-missing-cache-fields.txt").read_text(
        "utf-8"
    ),
    "lscpu -p": (case("06") / "lscpu-p.txt").read_text("utf-8"),
    "lscpu": (case("01") / "lscpu.txt").read_text("utf-8"),
    "numactl": NUMACTL,
    "paths": (CASES / "forms" / "00-ok.paths.txt").read_text("utf-8"),
}


def anywhere(text, width):
    """Break lines at a width, as terminals do."""
    return "\n".join(
        line[at : at + width]
        for line in text.split("\n")
        for at in range(0, max(len(line), 1), width)
    )


def at_blanks(text, width):
    """Break lines at blanks, as mail programs do."""
    return "\n".join(
        piece
        for line in text.split("\n")
        for piece in (
            textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
            if len(line) > width
            else [line]
        )
        or [""]
    )


def machine(loaded):
    shown = [
        (told.irq, told.chip, told.hwirq, told.actions, told.affinity, told.effective, told.counts)
        for told in loaded.interrupts
    ]
    return loaded.topology, shown


@pytest.mark.parametrize("broken", [anywhere, at_blanks])
@pytest.mark.parametrize("name", TEXTS)
def test_lines_broken_at_any_width(name, broken):
    expected = machine(load(TEXTS[name]))
    same = 0
    for width in range(20, 200, 3):
        try:
            loaded = load(broken(TEXTS[name], width))
        except GroupCpusError:
            continue
        if machine(loaded) == expected:
            same += 1
        else:
            assert loaded.doubts or any("not read" in note for note in loaded.notes), width
    assert same or name == "paths"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (shapes.lscpu_e(SHAPE), 1),
        (shapes.lscpu_p(SHAPE), 4),
        (shapes.summary(SHAPE), 1),
        (NUMACTL, 1),
    ],
    ids=["lscpu -e", "lscpu -p", "lscpu", "numactl"],
)
def test_a_line_is_lost(text, start):
    whole = load_topology(text)
    lines = text.rstrip("\n").split("\n")
    for at in range(start, len(lines) - 1):
        try:
            loaded = load("\n".join(lines[:at] + lines[at + 1 :]) + "\n")
        except GroupCpusError:
            continue
        lost = loaded.topology is None or loaded.topology.online != whole.topology.online
        assert not lost or loaded.doubts, lines[at]
