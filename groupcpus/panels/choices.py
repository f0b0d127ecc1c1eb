# SPDX-License-Identifier: GPL-2.0-only
"""The explorer's choices: which machine, which picture, and how a state's words set controls."""

import json
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, brief
from groupcpus.panels.controls import NumberField, narrow
from groupcpus.panels.states import load_presets
from groupcpus.sources.synthetic import parse_synthetic

__all__ = [
    "CUSTOM",
    "CUSTOM_CONTROLS",
    "PICTURES",
    "button",
    "control_value",
    "machine_controls",
    "pasted_topology",
]

PICTURES = ("bars", "map", "matrix", "distribution", "sharing", "all")
# What a machine that is typed or counted is called, and what belongs to it.
CUSTOM = "custom"
CUSTOM_CONTROLS = ("nodes", "cpus", "threads", "cluster")
_MAX_DOCUMENT = 200_000


def pasted_topology(text: str) -> Topology:
    """Read a machine typed or pasted: a synthetic line, or a topology document in JSON.

    Raises
    ------
    GroupCpusError
        If it is neither.

    Examples
    --------
    >>> pasted_topology("node:2 core:2 pu:2")
    <Topology: 8 CPUs, 2 nodes, 4 clusters, 4 cores>
    >>> pasted_topology('{"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-3"}')
    <Topology: 4 CPUs, 1 node, 4 clusters, 4 cores>
    """
    if not text.lstrip().startswith("{"):
        return parse_synthetic(text)
    if len(text) > _MAX_DOCUMENT:
        raise FormatError("topology", f"{len(text)} characters, at most {_MAX_DOCUMENT} are read")
    try:
        return Topology.from_dict(json.loads(text))
    except GroupCpusError:
        raise
    except (ValueError, RecursionError) as error:  # JSONDecodeError, and numbers without end
        raise FormatError("topology", f"not a JSON document: {error}") from None


def control_value(control: Any, key: str, value: str, most: int | None) -> Any:
    """Read the value that a state has for a control, and check that it takes it."""
    if (options := getattr(control, "_options_values", None)) is not None:
        several = isinstance(control, widgets.SelectMultiple)
        names = value.split(",") if several else [value]
        for name in names:
            if name not in options:
                expected = ", ".join(options)
                raise FormatError(f"state: {key}", f"{brief(name)}; expected one of {expected}")
        return tuple(names) if several else value
    most = control.max if most is None else most
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 12 else -1
    if not control.min <= number <= most:
        raise FormatError(
            f"state: {key}", f"{brief(value)}; expected a whole number, {control.min} to {most}"
        )
    return number


def button(label: str, tooltip: str, call: Callable[[], None]) -> widgets.Button:
    """Return a button that does something."""
    made = widgets.Button(description=label, tooltip=tooltip)
    made.on_click(lambda _: call())
    return made


def machine_controls() -> dict[str, Any]:
    """Return the inputs that choose what is shown and of which machine."""
    presets = [("claims ...", "")] + [(preset.label, preset.state) for preset in load_presets()]

    def choice(label: str, options: Any, tooltip: str) -> widgets.Dropdown:
        return widgets.Dropdown(
            description=label, options=options, layout=narrow(), tooltip=tooltip
        )

    return {
        "machine": choice("machine", [CUSTOM], "one that ships, the given one, or a custom one"),
        "preset": choice("preset", presets, "set everything to show what a claim is about"),
        "picture": choice("picture", list(PICTURES), "what is drawn of both runs"),
        "show": choice("show", ["IRQs", "submitters"], "what is counted on each CPU"),
        "nodes": NumberField("nodes", (1, 64), 2, layout=narrow()),
        "cpus": NumberField("CPUs/node", (1, 1024), 24, layout=narrow()),
        "threads": NumberField("threads", (1, 8), 2, layout=narrow()),
        "cluster": NumberField("in a cluster", (1, 1024), 2, layout=narrow()),
        "topology": widgets.Textarea(
            description="or as text",
            placeholder="node:2 core:24 pu:2, a topology document (JSON), lscpu -p, a capture ...",
            continuous_update=False,
            rows=2,
            layout=widgets.Layout(width="32em"),
        ),
        "file": widgets.FileUpload(
            description="or from files",
            multiple=True,
            tooltip="what load_machine takes: a machine file, a capture, lscpu, hwloc's XML ...",
        ),
        "state": widgets.Textarea(
            description="state",
            placeholder="paste a line from a mail and press Tab to get back to what it shows",
            continuous_update=False,
            # Two lines hold all but the topology of a machine of one's own.
            rows=2,
            layout=widgets.Layout(width="auto"),
        ),
    }
