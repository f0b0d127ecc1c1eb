# SPDX-License-Identifier: GPL-2.0-only
"""Explorers for notebooks: controls on top, a picture and its mail text below."""

import base64
import html
import json
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets
import pandas as pd
from matplotlib.figure import Figure

from groupcpus.engine.group_cpus import MAX_GROUPS, explain
from groupcpus.engine.revisions import REVISIONS, Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, brief
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, machine_names
from groupcpus.machines.mail_text import mail_text
from groupcpus.machines.probe import Run
from groupcpus.panels import controls
from groupcpus.panels.states import FIELDS, format_state, is_state, load_presets, parse_state
from groupcpus.pictures import (
    Comparison,
    DealPicture,
    DistributionComparison,
    MapComparison,
    MatrixComparison,
    Picture,
    SharingComparison,
    to_png,
)
from groupcpus.sources import load_machine
from groupcpus.sources.synthetic import parse_synthetic

__all__ = ["Explorer", "Panel", "Stepper", "explorer", "stepper"]

# Groups that a stepper lists in its text.
_MAX_LISTED = 16
# What a machine of the reader's own is called.
CUSTOM = "custom"
CUSTOM_CONTROLS = ("nodes", "cpus", "threads", "cluster", "topology")
_CHOICES = ["machine", "preset", "picture"]
_MAX_DOCUMENT = 200_000

PICTURES: dict[str, Callable[[Run, Run], Any]] = {
    "bars": Comparison,
    "map": MapComparison,
    "matrix": MatrixComparison,
    "distribution": DistributionComparison,
    "sharing": SharingComparison,
}
_SENTENCES = {
    "bars": "IRQs per CPU.",
    "map": "The machine's nodes, clusters and CPUs with their IRQs.",
    "matrix": "The masks of all queues over the CPUs.",
    "distribution": "How many CPUs have how many IRQs.",
    "sharing": "Which devices share the most loaded CPUs.",
}


class Panel(controls.Panel):
    """A panel whose picture is a Figure, shown as PNG."""

    def shown(self) -> tuple[Figure, str, str]:
        """Make what the controls ask for: the picture, its text, and the picture in a sentence."""
        raise NotImplementedError

    def render(self, picture: Figure) -> tuple[bytes, float, float]:
        """Render the Figure, 100 pixels an inch."""
        width, height = picture.get_size_inches() * 100
        return to_png(picture), width, height


class Explorer(controls.Panel):
    """Two runs of a machine, before and after, that follow their controls.

    Its controls are ``machine`` (one that ships with the project, the given one, or ``custom``:
    then ``topology``, a synthetic line or a topology document, or ``nodes``, ``cpus``, ``threads``
    and ``cluster`` count), ``devices``, ``queues``, ``before``, ``after``, ``irqchip``, ``probe``,
    ``spread_start``, ``picture``, ``preset`` (a claim to look at) and ``state`` (all of this as a
    line; paste one to go back).  Its text tells what is shown as a mail would.

    Parameters
    ----------
    machine : Machine
        What to explore first.
    state : mapping of str to str
        Settings to start with, as `parse_state` gives them.
    """

    def __init__(self, machine: Machine, state: Mapping[str, str] | None = None) -> None:
        self.machine = machine
        self._given = machine
        self._given_ships = _ships(machine)
        self._pictures: dict[str, Any] = {}
        self._shown: tuple[Run, Run] | None = None
        self._exports = widgets.HTML()
        inputs = _machine_controls(machine) | controls.run_controls(machine)
        self._custom = [inputs[name] for name in CUSTOM_CONTROLS]
        if state:
            # Applied to the inputs before anything is drawn.
            self.controls, self._held = inputs, True
            self._apply(state)
        self._show_custom(inputs["machine"].value)
        button = widgets.Button(
            description="Make downloads",
            tooltip="Offer the picture, the interrupts and the text as files",
        )
        button.on_click(lambda _: self.export())
        columns = [_CHOICES, *controls.COLUMNS, list(CUSTOM_CONTROLS)]
        downloads = widgets.HBox([button, self._exports])
        super().__init__(inputs, columns, [inputs["state"], downloads])

    def runs(self) -> tuple[Run, Run]:
        """Simulate what the controls ask for: before and after.

        Raises
        ------
        GroupCpusError
            If it cannot be, for instance when the vectors of a CPU run out.
        """
        names = ("devices", "queues", "before", "after", "irqchip", "probe", "spread_start")
        return controls.chosen_runs(self.machine, {name: self.controls[name] for name in names})

    def shown(self) -> tuple[Picture, str, str]:
        """Compare the two runs."""
        if self.controls["machine"].value == CUSTOM:
            self.machine = self._custom_machine()
            self._limit_queues()
        before, after = self.runs()
        kind = self.controls["picture"].value
        if kind in self._pictures:
            self._pictures[kind].draw(before, after)
        else:
            self._pictures[kind] = PICTURES[kind](before, after)
        self._shown = before, after
        self._exports.value = ""
        self.controls["state"].value = self.state
        sentence = f"{_SENTENCES[kind]} Before: {before.summary}. After: {after.summary}."
        return self._pictures[kind], mail_text(before, after), sentence

    def render(self, picture: Picture) -> tuple[bytes, float, float]:
        """Render the picture, 100 pixels an inch."""
        width, height = picture.figure.get_size_inches() * 100
        return picture.png(), width, height

    @property
    def state(self) -> str:
        """What the controls are set to, as one line; `explorer` takes it back."""
        value = {name: control.value for name, control in self.controls.items()}
        own = value["machine"] == self._given.name and not self._given_ships
        if own or value["machine"] == CUSTOM:
            value["machine"] = CUSTOM
            value["topology"] = _document(self._given.topology) if own else self._custom_text()
        else:
            del value["topology"]
        return format_state({name: value[name] for name in FIELDS if name in value})

    def export(self) -> None:
        """Offer what is shown as files: the picture (PNG, SVG), all interrupts (CSV), the text."""
        if self._shown is None:
            return
        before, after = self._shown
        frames = {"before": before.irqs, "after": after.irqs}
        table = pd.concat(frames, names=["run"]).reset_index(level="run")
        files = {
            ("png", "image/png"): self.picture,
            ("svg", "image/svg+xml"): self._pictures[self.controls["picture"].value].svg(),
            ("csv", "text/csv"): table.to_csv(index=False).encode(),
            ("txt", "text/plain"): self.text.encode(),
        }
        name = html.escape(f"groupcpus-{self.machine.name}")
        self._exports.value = " ".join(
            f'<a download="{name}.{suffix}" style="margin-left:1em;text-decoration:underline" '
            f'href="data:{mime};base64,{base64.b64encode(content).decode()}">{suffix.upper()}</a>'
            for (suffix, mime), content in files.items()
        )

    def _changed(self, change: Any) -> None:
        """Let choices that set other controls do so first."""
        owner, value = change["owner"], change["new"]
        held, self._held = self._held, True
        try:
            if owner is self.controls["machine"]:
                self._take_machine()
            elif owner is self.controls["preset"] and value:
                self._apply(parse_state(value))
            elif owner is self.controls["state"]:
                if not value.strip() or value == self.state:
                    return
                self._apply(parse_state(value))
            elif owner is not self.controls["preset"] and not held:
                # What a preset promised is not shown any more.
                self.controls["preset"].value = ""
        except GroupCpusError as error:
            self.error = str(error)
            self._error_view.value = f'<b role="alert">{html.escape(self.error)}</b>'
            return
        finally:
            self._held = held
        if owner is not self.controls["preset"] or value:
            super()._changed(change)

    def _take_machine(self) -> None:
        """Set the controls to what the chosen machine has."""
        name = self.controls["machine"].value
        self._show_custom(name)
        if name == CUSTOM:
            return
        self.machine = self._given if name == self._given.name else load_machine(name)
        count, queues = controls.main_devices(self.machine)
        self._limit_queues()
        self.controls["devices"].value = count or 1
        self.controls["queues"].value = queues
        self.controls["irqchip"].value = self.machine.irqchip

    def _limit_queues(self) -> None:
        """Let the slider of queues reach as far as the machine has CPUs or queues."""
        _, queues = controls.main_devices(self.machine)
        held, self._held = self._held, True
        self.controls["queues"].max = max(queues, len(self.machine.topology.possible))
        self._held = held

    def _show_custom(self, name: str) -> None:
        for control in self._custom:
            control.layout.display = None if name == CUSTOM else "none"

    def _custom_machine(self) -> Machine:
        return Machine(
            CUSTOM,
            "custom machine",
            "x86_64",
            "x86",
            read_topology(self._custom_text()),
            (Device("nvme0", "nvme", 1),),
        )

    def _custom_text(self) -> str:
        """Give the custom machine as a line, the one made of the numbers if none was typed."""
        value = {name: control.value for name, control in self.controls.items()}
        if text := value["topology"].strip():
            return text
        nodes, cpus, threads, cluster = (
            value[name] for name in ("nodes", "cpus", "threads", "cluster")
        )
        if cluster % threads or cpus % cluster:
            return _document(Topology.uniform(nodes, cpus, threads, cluster))
        return f"node:{nodes} cluster:{cpus // cluster} core:{cluster // threads} pu:{threads}"

    def _apply(self, state: Mapping[str, str]) -> None:
        """Set all controls to a state, or none of them if it cannot be."""
        name = state["machine"]
        if name not in self.controls["machine"].options:
            expected = ", ".join(self.controls["machine"].options)
            raise FormatError("state: machine", f"{brief(name)}; expected one of {expected}")
        if name == CUSTOM:
            topology = read_topology(state.get("topology", ""))
            most = len(topology.possible)
        else:
            machine = self._given if name == self._given.name else load_machine(name)
            _, queues = controls.main_devices(machine)
            most = max(queues, len(machine.topology.possible))
        values = {
            key: _control_value(self.controls[key], key, value, most)
            for key, value in state.items()
            if key not in ("machine", "topology")
        }
        if name == CUSTOM:
            self.controls["topology"].value = state["topology"]
            self.controls["queues"].max = most
        self.controls["machine"].value = name
        self._take_machine()
        for key, value in values.items():
            self.controls[key].value = value


def read_topology(text: str) -> Topology:
    """Read a machine typed or pasted: a synthetic line, or a topology document in JSON.

    Raises
    ------
    GroupCpusError
        If it is neither.

    Examples
    --------
    >>> read_topology("node:2 core:2 pu:2")
    <Topology: 8 CPUs, 2 nodes, 4 clusters, 4 cores>
    >>> read_topology('{"nodes": {"0": "0-3"}, "possible": "0-3", "present": "0-3"}')
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


def _document(topology: Topology) -> str:
    return json.dumps(topology.to_dict(), separators=(",", ":"))


def _ships(machine: Machine) -> bool:
    return machine.name in machine_names() and load_machine(machine.name) == machine


def _control_value(control: Any, key: str, value: str, most_queues: int) -> Any:
    """Read the value that a state has for a control, and check that it takes it."""
    if hasattr(control, "options"):
        if value not in control.options:
            expected = ", ".join(control.options)
            raise FormatError(f"state: {key}", f"{brief(value)}; expected one of {expected}")
        return value
    most = most_queues if key == "queues" else control.max
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 12 else -1
    if not control.min <= number <= most:
        raise FormatError(
            f"state: {key}", f"{brief(value)}; expected a whole number, {control.min} to {most}"
        )
    return number


def _machine_controls(machine: Machine) -> dict[str, Any]:
    """Make the inputs that choose what is shown and of which machine."""
    names = list(dict.fromkeys([machine.name, *machine_names(), CUSTOM]))
    presets = [("claims ...", "")] + [(preset.label, preset.state) for preset in load_presets()]

    def number(label: str, most: int, value: int) -> widgets.BoundedIntText:
        return widgets.BoundedIntText(
            description=label, min=1, max=most, value=value, layout=_narrow()
        )

    return {
        "machine": widgets.Dropdown(
            description="machine", options=names, value=machine.name, layout=_narrow()
        ),
        "preset": widgets.Dropdown(
            description="preset", options=presets, value="", layout=_narrow()
        ),
        "picture": widgets.Dropdown(
            description="picture", options=list(PICTURES), value="bars", layout=_narrow()
        ),
        "nodes": number("nodes", 64, 2),
        "cpus": number("CPUs/node", 1024, 24),
        "threads": number("threads", 8, 2),
        "cluster": number("in a cluster", 1024, 2),
        "topology": widgets.Textarea(
            description="or as text",
            placeholder="node:2 core:24 pu:2, or a topology document (JSON)",
            continuous_update=False,
            layout=widgets.Layout(width="44em", height="5em"),
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


def _narrow() -> widgets.Layout:
    # One each: those of a custom machine are hidden by theirs.
    return widgets.Layout(width="20em")


class Stepper(Panel):
    """One call of `group_cpus_evenly`, decision by decision.

    Its controls are ``step`` (how many decisions have been made), ``queues``, ``revision`` and
    ``spread_offset``; its text is the last decision and the groups so far.

    Parameters
    ----------
    topology : Topology
        The machine.
    numgrps : int
        How many groups are asked for first.
    revision : str or Revision
        Which version of the function; one of your own is added to the choices.
    spread_offset : int
        The value of the call counter.
    """

    def __init__(
        self, topology: Topology, numgrps: int, revision: str | Revision, spread_offset: int
    ) -> None:
        self.topology = topology
        own = get_revision(revision)
        names = {**REVISIONS, own.name: own}
        wide, narrow = widgets.Layout(width="40em"), widgets.Layout(width="20em")
        inputs = {
            "step": widgets.IntSlider(description="step", min=0, max=1, value=0, layout=wide),
            "queues": widgets.BoundedIntText(
                description="queues", min=1, max=MAX_GROUPS, value=numgrps, layout=narrow
            ),
            "revision": widgets.Dropdown(
                description="revision", options=names, value=own, layout=narrow
            ),
            "spread_offset": widgets.BoundedIntText(
                description="counter",
                min=0,
                max=controls.UINT_MAX,
                value=spread_offset,
                layout=narrow,
            ),
        }
        self._frame = DealPicture(topology)
        super().__init__(inputs, [["step"], ["queues", "revision"], ["spread_offset"]])

    def shown(self) -> tuple[Figure, str, str]:
        """Draw the groups so far."""
        value = {name: control.value for name, control in self.controls.items()}
        _, steps = explain(
            self.topology,
            value["queues"],
            revision=value["revision"],
            spread_offset=value["spread_offset"],
        )
        self._limit(len(steps))
        upto = self.controls["step"].value
        state = self._frame.show(steps, upto)
        groups = ", ".join(
            f"{group}: {cpus or '-'}" for group, cpus in enumerate(state.groups[:_MAX_LISTED])
        )
        more = ", ..." if len(state.groups) > _MAX_LISTED else ""
        decision = textwrap.fill(f"{upto} of {len(steps)}: {state.sentence}", 100)
        text = f"{decision}\ngroups so far: {groups or 'none'}{more}"
        figure = self._frame.ax.get_figure(root=True)
        assert figure is not None
        return figure, text, f"CPUs with their groups. {text}"

    def _limit(self, count: int) -> None:
        """End the slider at the last decision, without a redraw if that moves it."""
        held, self._held = self._held, True
        self.controls["step"].max = count
        self._held = held


def explorer(machine_or_name: Machine | str) -> Explorer:
    """Make the explorer of a machine.

    Parameters
    ----------
    machine_or_name : Machine or str
        The machine, a name as `load_machine` takes, or the line that another explorer showed as
        its ``state``.

    Returns
    -------
    Explorer
        A widget; as the last expression of a cell it shows itself.

    Raises
    ------
    GroupCpusError
        If there is no such machine, or the state is none.

    Examples
    --------
    >>> panel = explorer("L96as_v4")
    >>> panel.controls["after"].value = "rotate-next"
    >>> panel.error, panel.picture[1:4]
    ('', b'PNG')
    >>> explorer(panel.state).text == panel.text
    True
    """
    if isinstance(machine_or_name, Machine):
        return Explorer(machine_or_name)
    if not is_state(machine_or_name):
        return Explorer(load_machine(machine_or_name))
    state = parse_state(machine_or_name)
    first = state["machine"]
    return Explorer(load_machine(machine_names()[0] if first == CUSTOM else first), state)


def stepper(
    topology: Topology,
    numgrps: int,
    revision: str | Revision = "cluster",
    spread_offset: int = 0,
) -> Stepper:
    """Make a panel that steps through one call of `group_cpus_evenly`.

    Parameters
    ----------
    topology : Topology
        The machine.
    numgrps : int
        How many groups are asked for.
    revision : str or Revision
        Which version of the function.
    spread_offset : int
        The value of the call counter, for revisions that rotate.

    Returns
    -------
    Stepper
        A widget; as the last expression of a cell it shows itself.

    Raises
    ------
    RequestError
        If there is no such revision.

    Examples
    --------
    >>> panel = stepper(Topology.uniform(nodes=1, cpus_per_node=6, threads=2, cluster=4), 2)
    >>> panel.controls["step"].value = 5
    >>> print(panel.text)
    5 of 6: group 0: CPUs 4, 5 of cluster 4-5
    groups so far: 0: 4-5, 1: -
    """
    return Stepper(topology, numgrps, revision, spread_offset)
