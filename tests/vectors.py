# SPDX-License-Identifier: GPL-2.0-only
"""Reads the answers of the kernel's own code from tests/data (its README has the format)."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).with_name("data")


class Case(NamedTuple):
    """One call of the kernel's function, and what it answered."""

    revision: str
    numgrps: int
    spread_offset: int
    masks: tuple[str, ...]  # cpulists
    nummasks: int


def machines() -> Iterator[tuple[dict[str, Any], list[Case]]]:
    """Give each machine's topology document and its cases."""
    with lzma.open(DATA / "vectors.jsonl.xz", "rt", encoding="ascii") as lines:
        for line in lines:
            machine = json.loads(line)
            cases = []
            for request in machine["requests"]:
                numgrps = request["numgrps"]
                answers = [
                    (tuple(masks.split(" ")), numgrps if nummasks is None else nummasks)
                    for masks, nummasks in request["answers"]
                ]
                for asked in request["asked"]:
                    revision, spread_offset, answer = asked.split(" ")
                    masks, nummasks = answers[int(answer)]
                    cases.append(Case(revision, numgrps, int(spread_offset), masks, nummasks))
            yield machine["topology"], cases


def sorts() -> list[dict[str, list[Any]]]:
    """Give the sorted key lists: `ncpus`, and the order after `double-pop` and `single-pop`."""
    with lzma.open(DATA / "sort.json.xz", "rt", encoding="ascii") as file:
        return json.load(file)
