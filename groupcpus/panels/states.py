# SPDX-License-Identifier: GPL-2.0-only
"""The state of an explorer as one line of text, to be pasted into a mail or a cell, and back."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import attrs

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, brief
from groupcpus.formats import structured, tables, text
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, data_dir, read_toml

__all__ = [
    "FIELDS",
    "Preset",
    "format_machine",
    "format_state",
    "is_state",
    "load_presets",
    "parse_machine",
    "parse_state",
]

FIELDS = (
    "machine",
    "topology",
    "document",
    "devices",
    "queues",
    "before",
    "after",
    "more",
    "irqchip",
    "probe",
    "requests",
    "spread_start",
    "picture",
    "show",
)
_MAX_TEXT = 1 << 20
_START = re.compile(r"[\s>]*(groupcpus:?[\s>]+)?machine=")
_PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"]+)')
_GAP = re.compile(r"[\s>]*")


@attrs.frozen
class Preset:
    """Settings that show what a claim is about."""

    claim: str = text()
    """The id of the claim."""
    title: str = text()
    state: str = text()
    """As `parse_state` reads it."""

    @property
    def label(self) -> str:
        """What a menu shows."""
        return f"{self.claim}: {self.title}"


@attrs.frozen
class _PresetFile:
    """The contents of ``data/presets.toml``."""

    presets: list[Preset] = tables(1000)


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


_MAX_DEVICES = 1024
_TEXTS = ("name", "title", "arch", "irqchip")


def format_machine(machine: Machine) -> str:
    """Write a machine that no file describes as a document for a state.

    Examples
    --------
    >>> machine = Machine("mine", "", "x86_64", "x86", Topology.uniform(1, 2, 1), ())
    >>> parse_machine(format_machine(machine)) == machine
    True
    """
    document: dict[str, Any] = {name: getattr(machine, name) for name in _TEXTS}
    document["topology"] = machine.topology.to_dict()
    document["devices"] = [asdict(device) for device in machine.devices]
    return json.dumps(document, separators=(",", ":"))


def parse_machine(text: str) -> Machine:
    """Read what `format_machine` wrote.

    Raises
    ------
    FormatError
        If it is none; the message names the field.
    """
    where = "state: document"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # JSONDecodeError, and numbers without end
        raise FormatError(where, f"not a JSON document: {brief(str(error))}") from None
    fields = {*_TEXTS, "topology", "devices"}
    if not isinstance(document, dict) or set(document) != fields:
        raise FormatError(where, f"expected the fields {', '.join(sorted(fields))}")
    for name in _TEXTS:
        if not isinstance(document[name], str) or len(document[name]) > 200:
            raise FormatError(f"{where}.{name}", f"{brief(document[name])}; expected a short text")
    if document["irqchip"] not in IRQCHIPS:
        expected = ", ".join(IRQCHIPS)
        raise FormatError(
            f"{where}.irqchip", f"{brief(document['irqchip'])}; expected one of {expected}"
        )
    devices = document["devices"]
    if not isinstance(devices, list) or len(devices) > _MAX_DEVICES:
        raise FormatError(f"{where}.devices", f"expected a list of at most {_MAX_DEVICES} devices")
    try:
        return Machine(
            **{name: document[name] for name in _TEXTS},
            topology=Topology.from_dict(document["topology"]),
            devices=tuple(Device(**device) for device in devices),
        )
    except TypeError:  # a device that is no table, or has other fields
        raise FormatError(f"{where}.devices", "expected name, kind and queues of each") from None
    except GroupCpusError as error:
        raise FormatError(where, str(error)) from None


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
    presets = structured(read_toml(path), _PresetFile, path.name).presets
    for preset in presets:
        parse_state(preset.state)
    return presets
