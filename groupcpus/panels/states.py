# SPDX-License-Identifier: GPL-2.0-only
"""The state of an explorer as one line of text, to be pasted into a mail or a cell, and back."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from groupcpus.errors import FormatError, brief
from groupcpus.machines.machine import data_dir, read_toml

__all__ = ["FIELDS", "Preset", "format_state", "is_state", "load_presets", "parse_state"]

FIELDS = (
    "machine",
    "topology",
    "devices",
    "queues",
    "before",
    "after",
    "irqchip",
    "probe",
    "spread_start",
    "picture",
)
_MAX_TEXT = 1 << 18
_START = re.compile(r"[\s>]*(groupcpus:?[\s>]+)?machine=")
_PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"]+)')
_GAP = re.compile(r"[\s>]*")


@dataclass(frozen=True)
class Preset:
    """Settings that show what a claim is about."""

    claim: str
    """The id of the claim."""
    title: str
    state: str
    """As `parse_state` reads it."""

    @property
    def label(self) -> str:
        """What a menu shows."""
        return f"{self.claim}: {self.title}"


def format_state(values: Mapping[str, object]) -> str:
    """Write a state in one line.

    Examples
    --------
    >>> format_state({"machine": "custom", "topology": "node:2 pu:4", "queues": 3})
    'groupcpus machine=custom topology="node:2 pu:4" queues=3'
    """
    parts = ["groupcpus"]
    for key, value in values.items():
        text = str(value)
        bare = re.fullmatch(r"[A-Za-z0-9_.,:/+-]+", text)
        parts.append(f"{key}={text if bare else json.dumps(text)}")
    return " ".join(parts)


def is_state(text: str) -> bool:
    """Tell whether a text is meant as a state.

    Examples
    --------
    >>> is_state("groupcpus machine=L96as_v4 devices=2"), is_state("L96as_v4")
    (True, False)
    """
    return _START.match(text) is not None


def parse_state(text: str) -> dict[str, str]:
    r"""Read a state, also one that a mail has wrapped or quoted.

    Raises
    ------
    FormatError
        If it is none, or a field is unknown or there twice.

    Examples
    --------
    >>> parse_state("> groupcpus machine=L96as_v4\n> devices=2")
    {'machine': 'L96as_v4', 'devices': '2'}
    """
    if len(text) > _MAX_TEXT:
        raise FormatError("state", f"{len(text)} characters, at most {_MAX_TEXT} are read")
    start = _START.match(text)
    if start is None:
        raise FormatError("state", f"{brief(text)} does not begin with 'groupcpus machine='")
    at = start.end() - len("machine=")
    values: dict[str, str] = {}
    while at < len(text):
        found = _PAIR.match(text, at)
        if found is None:
            raise FormatError("state", f"{brief(text[at:])}; expected fields such as devices=6")
        key, value = found.groups()
        if key not in FIELDS:
            raise FormatError("state", f"unknown field {brief(key)}; expected {', '.join(FIELDS)}")
        if key in values:
            raise FormatError("state", f"the field {key} is there twice")
        if value.startswith('"'):
            # A mail may have broken the line, and quoted it.
            value = re.sub(r"\r?\n(>\s*)*", " ", value)
            try:
                value = json.loads(value)
            except json.JSONDecodeError as error:
                raise FormatError(f"state: {key}", f"{brief(value)}: {error.msg}") from None
        values[key] = value
        gap = _GAP.match(text, found.end())
        assert gap is not None
        at = gap.end()
    return values


def load_presets() -> list[Preset]:
    """Read ``data/presets.toml``: settings that show what the claims are about.

    Raises
    ------
    FormatError
        If it is not what it should be.

    Examples
    --------
    >>> load_presets()[0].claim
    'R2'
    """
    path = data_dir() / "presets.toml"
    doc = read_toml(path)
    presets = []
    for at, entry in enumerate(doc.get("presets", [])):
        where = f"{path.name}: presets[{at}]"
        if set(entry) != {"claim", "title", "state"}:
            raise FormatError(where, f"{brief(sorted(entry))}; expected claim, title and state")
        if not all(isinstance(value, str) for value in entry.values()):
            raise FormatError(where, "expected texts")
        parse_state(entry["state"])
        presets.append(Preset(**entry))
    return presets
