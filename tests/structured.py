# SPDX-License-Identifier: GPL-2.0-only
"""Change real files by their structure: fields of JSON, elements of XML, rows of tables.

What comes out is still JSON, XML or a table, so that readers get to see it; and real texts are put
together, quoted, broken and cut as people do when they paste them.
"""

import copy
import json
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["changed_json", "changed_table", "changed_xml", "pasted", "real_files"]

CASES = Path(__file__).parent / "data" / "cases"
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1 << 31, 1 << 70, 1.5, "", "0", "0-3", "3-0", "0-8191", "0-8191:2", "²"),
    *("\x1b[2J", "é", "\u202e", "x" * 300, [], {}, [[]], {"": ""}, "8192", "yes", "0x3", "a\nb"),
)
WORDS = [str(value) for value in VALUES if isinstance(value, str | int)] + [",", "-", ":", "CPU7"]


def real_files() -> dict[str, list[str]]:
    """Return real texts by their kind: JSON, XML and tables."""
    found: dict[str, list[str]] = {"JSON": [], "XML": [], "table": []}
    data = Path(__file__).parents[1] / "data"
    for path in [*CASES.rglob("*"), *data.glob("captures/*.json"), *data.glob("recordings/x86-8*")]:
        if path.is_file() and path.suffix != ".gz" and path.stat().st_size < 60_000:
            text = path.read_bytes().decode("utf-8", "replace")
            start = text.lstrip()[:1]
            kind = {"{": "JSON", "<": "XML"}.get(start, "table")
            found[kind].append(text)
    return found


def _places(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """List the containers of a document, with each key."""
    if isinstance(node, dict | list):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        for key in keys:
            found.append((node, key))
            _places(node[key], found)
    return found


def changed_json(rng: random.Random, text: str) -> str:
    """Drop, double, swap or replace fields and entries."""
    document = json.loads(text)
    for _ in range(rng.randint(1, 4)):
        places = _places(document, [])
        if not places:
            break
        node, key = rng.choice(places)
        choice = rng.randrange(5)
        if choice == 0:
            del node[key]
        elif choice == 1:
            node[key] = copy.deepcopy(rng.choice(VALUES))
        elif choice == 2:
            other, at = rng.choice(places)
            node[key], other[at] = copy.deepcopy(other[at]), copy.deepcopy(node[key])
        elif choice == 3 and isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), copy.deepcopy(node[key]))
        elif choice == 3:
            node[str(rng.choice(WORDS))] = copy.deepcopy(node[key])
        elif isinstance(node[key], str) and node[key]:
            at = rng.randrange(len(node[key]))
            node[key] = node[key][:at] + rng.choice(WORDS) + node[key][at + 1 :]
    return json.dumps(document)


def changed_xml(rng: random.Random, text: str) -> str:
    """Drop, double, move or rename elements, and change attributes."""
    root = ET.fromstring(text)
    for _ in range(rng.randint(1, 5)):
        parents = [parent for parent in root.iter() if len(parent)]
        if not parents:
            break
        parent = rng.choice(parents)
        child = rng.choice(list(parent))
        choice = rng.randrange(6)
        if choice == 0:
            parent.remove(child)
        elif choice == 1:
            parent.append(copy.deepcopy(child))
        elif choice == 2:
            rng.choice(parents).append(copy.deepcopy(child))
        elif choice == 3:
            child.tag = rng.choice(["object", "info", "distances2", "topology", "u64values"])
        elif child.attrib:
            name = rng.choice(list(child.attrib))
            value = rng.choice([*WORDS, *child.attrib.values(), "0x1,,0xf", "PU", "NUMANode"])
            child.attrib[name] = re.sub(r"[\x00-\x08\x0b-\x1f]", "?", value)
            if choice == 5:
                del child.attrib[name]
    return ET.tostring(root, encoding="unicode")


def changed_table(rng: random.Random, text: str) -> str:
    """Drop, double, swap and cut rows and columns, and change cells."""
    rows = [re.split(r"([ \t,:|]+)", line) for line in text.split("\n")]
    for _ in range(rng.randint(1, 4)):
        if not any(rows):
            break
        at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
        column = rng.randrange(max(map(len, rows)))
        choice = rng.randrange(9)
        if choice == 0:
            rows.insert(other, list(rows[at]))
        elif choice == 1:
            rows[at], rows[other] = rows[other], rows[at]
        elif choice == 2 and len(rows) > 1:
            del rows[at]
        elif choice in (3, 4):
            rest = column + 2 if choice == 3 else len(max(rows, key=len))
            rows = [row[:column] + row[rest:] for row in rows]
        elif choice == 5:
            width = rng.randint(8, 90)
            joined = "".join(rows[at])
            pieces = [joined[start : start + width] for start in range(0, len(joined), width)]
            rows[at : at + 1] = [[piece] for piece in pieces] or [[""]]
        elif choice == 6:
            rows[at] = [rng.choice(["...", "$ lscpu -e", "```", "", "# cat /proc/cmdline", "x: y"])]
        elif column < len(rows[at]):
            rows[at][column] = rng.choice(WORDS)
    return "\n".join("".join(row) for row in rows)


def _quoted(rng: random.Random, text: str) -> str:
    return "\n".join(f"{rng.choice(['> ', '> ', '>> '])}{line}" for line in text.split("\n"))


def _broken(rng: random.Random, text: str) -> str:
    width = rng.choice((40, 72, 80, 80, 132))
    return "\n".join(
        line[at : at + width]
        for line in text.split("\n")
        for at in range(0, max(len(line), 1), width)
    )


def _at_prompts(rng: random.Random, text: str) -> str:
    prompt = rng.choice(("$ ", "root@host:~# ", "[root@host ~]# ", "# "))
    return (
        f"{prompt}{rng.choice(('lscpu -e', 'cat /proc/interrupts', 'grep . x'))}\n{text}\n{prompt}"
    )


_DRESSES: tuple[Callable[[random.Random, str], str], ...] = (
    _quoted,
    _broken,
    _at_prompts,
    lambda rng, text: f"```\n{text}\n```",
    lambda rng, text: "\n".join(
        f"[12:00:0{rng.randrange(10)}] {line}" for line in text.split("\n")
    ),
    lambda rng, text: text[: rng.randrange(len(text) + 1)],
    lambda rng, text: text.replace("\n", rng.choice(("\r\n", "\r", "\n\n"))),
    lambda rng, text: "\x1b[31m" + text.replace(" ", "\x1b[0m ", 5),
)


def pasted(rng: random.Random, texts: list[str]) -> str:
    """Put a few texts together, each in some dress."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(texts)
        for _ in range(rng.randrange(3)):
            text = rng.choice(_DRESSES)(rng, text)
        parts.append(text)
    return rng.choice(("\n", "\n\n", "\nand then\n")).join(parts)
