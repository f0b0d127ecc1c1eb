# SPDX-License-Identifier: GPL-2.0-only
"""The explorer: a machine under two revisions, in the live view and as the text of a mail.

This module has over 450 lines since it is one class, whose controls all change the same few things.
"""

import base64
import html
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, RequestError, brief
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine, machine_names
from groupcpus.machines.mail_text import MOST_RUNS, ORDER, mail_text
from groupcpus.machines.run import Run
from groupcpus.panels import controls
from groupcpus.panels.choices import (
    CUSTOM,
    CUSTOM_CONTROLS,
    PICTURES,
    button,
    control_value,
    machine_controls,
    pasted_topology,
)
from groupcpus.panels.controls import Panel, main_devices, most_queues
from groupcpus.panels.documents import live_machine, live_run, why
from groupcpus.panels.live import LiveView, whole_numbers
from groupcpus.panels.states import (
    FIELDS,
    format_machine,
    format_state,
    is_state,
    parse_machine,
    parse_state,
)
from groupcpus.sources import load_machine

__all__ = ["Explorer", "explorer"]

# What the state of a run consists of, besides the machine: the page makes keys of these.
RUN_CONTROLS = (
    *("devices", "queues", "spread_start", "before", "after", "more"),
    *("irqchip", "probe", "requests"),
)
# States that are kept: the range of two sliders.
_MAX_STATES = 300


class Explorer(Panel):
    """Runs of a machine, before and after and more, that follow their controls.

    Its controls are ``machine`` (one that ships with the project, the given one, or ``custom``:
    then ``topology``, a synthetic line or a topology document, or ``nodes``, ``cpus``, ``threads``
    and ``cluster`` count), ``topology`` (which takes all else that `load_machine` does, too),
    ``file``, ``devices``, ``queues``, ``before``, ``after``, ``more`` (further revisions),
    ``irqchip``, ``probe``, ``requests``, ``spread_start``, ``picture``, ``show``,
    ``preset`` (a claim to look at) and ``state`` (all of this as a line; paste one to go back).
    Its text says what is shown as a mail would.

    Parameters
    ----------
    machine : Machine
        What to explore first.
    state : mapping of str to str
        Settings to start with, as `parse_state` returns them.
    """

    def __init__(self, machine: Machine, state: Mapping[str, str] | None = None) -> None:
        self.machine = machine
        self._states: dict[str, dict[str, Any]] = {}
        self._runs: dict[str, tuple[Run, ...]] = {}
        self._epoch = 0
        self._promised = ""
        self._held = False
        self._exports = widgets.HTML()
        inputs = machine_controls() | controls.run_controls(machine)
        self.controls = inputs
        self._custom = [inputs[name] for name in CUSTOM_CONTROLS]
        self._give(machine)
        inputs["machine"].value = self._given_name
        watched = {name: inputs[name] for name in (*RUN_CONTROLS, "picture", "show")}
        answers = {"states": self._fetch, "why": self._why}
        self.view = LiveView(watched, RUN_CONTROLS, answers)
        self._announce()
        if state:
            self._held = True
            self._apply(state)
        self._show_custom()
        downloads = button("Make downloads", "Offer what is shown as files", self.export)
        reset = button("Reset", "Set everything to what the machine has", self.reset)
        last = widgets.HBox([downloads, self._exports, reset])
        columns = [["machine", "preset", "picture", "show"], *controls.COLUMNS]
        columns += [[*CUSTOM_CONTROLS], ["topology", "file"]]
        super().__init__(inputs, columns, [self.view, inputs["state"], last])

    # --- what is shown

    def runs(self) -> tuple[Run, ...]:
        """Return the runs that the controls ask for: before, after and more.

        Raises
        ------
        GroupCpusError
            If there are none, for instance when the vectors of a CPU run out.
        """
        return self._runs_of(self._values())

    def _values(self) -> dict[str, Any]:
        return {name: self.controls[name].value for name in RUN_CONTROLS}

    def _runs_of(self, values: Mapping[str, Any]) -> tuple[Run, ...]:
        key = self._key(values)
        if key not in self._runs:
            while len(self._runs) >= _MAX_STATES:
                del self._runs[next(iter(self._runs))]
            self._runs[key] = controls.chosen_runs(self.machine, values)
        return self._runs[key]

    def _key(self, values: Mapping[str, Any]) -> str:
        """Return what the page calls a state: the epoch, and menus by their place."""
        parts = [str(self._epoch)]
        for name in RUN_CONTROLS:
            options = getattr(self.controls[name], "_options_values", None)
            value = values[name]
            if options is None:
                parts.append(str(value))
            else:
                several = value if isinstance(value, tuple) else (value,)
                parts.append(",".join(str(options.index(one)) for one in several))
        return "|".join(parts)

    def _state_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state for the page: its runs, or why there are none."""
        key = self._key(values)
        try:
            runs = self._runs_of(values)
        except GroupCpusError as error:
            return {"key": key, "error": str(error)}
        named = zip(ORDER, runs, strict=False)
        return {"key": key, "runs": [live_run(run, when) for when, run in named]}

    def shown(self) -> tuple[Callable[[], bytes], str]:
        """Show the runs in the live view."""
        if self.controls["machine"].value == CUSTOM:
            self._take(self._custom_machine())
        values = self._values()
        runs = self._runs_of(values)
        state = self._state_of(values)
        self.view.state = state
        # The text takes longer than the picture, which is on its way.
        text = mail_text(*runs)
        self.view.words = {"key": state["key"], "text": text}
        self._exports.value = ""
        self._leave_preset()
        self.controls["state"].value = self.state
        picture, show = self.controls["picture"].value, self.controls["show"].value
        return partial(_png, runs, picture, show), text

    def _leave_preset(self) -> None:
        """Empty the menu of presets when what one promised is not shown any more."""
        menu = self.controls["preset"]
        if menu.value and self.state != self._promised:
            held, self._held = self._held, True
            menu.value = ""
            self._held = held

    def show_error(self) -> None:
        """Show the error over the last picture, which is then pale."""
        if self.error:
            self.view.state = {"key": "", "error": self.error}

    def _fetch(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the states of some values of a slider; the page asks before it needs them."""
        name = message.get("name")
        if name not in RUN_CONTROLS or not isinstance(self.controls[name], widgets.IntSlider):
            return []
        slider = self.controls[name]
        wanted = whole_numbers(message.get("values"))
        found = []
        for value in wanted:
            if slider.min <= value <= slider.max:
                try:
                    found.append(self._state_of(self._values() | {name: value}))
                except Exception:  # said when the slider gets there
                    break
        return found

    def _why(self, message: Mapping[str, Any]) -> list[str]:
        """Return why an interrupt of the shown runs is where it is."""
        number, irq = (message.get(name) for name in ("run", "irq"))
        if type(number) is not int or type(irq) is not int:
            return []
        try:
            runs = self.runs()
        except GroupCpusError:
            return []
        return why(runs[number], irq) if 0 <= number < len(runs) else []

    # --- going elsewhere and back

    @property
    def state(self) -> str:
        """What the controls are set to, as one line; `explorer` takes it back."""
        value = {name: control.value for name, control in self.controls.items()}
        del value["topology"]
        if more := value.pop("more"):
            value["more"] = ",".join(more)
        if value["machine"] == CUSTOM:
            value["topology"] = self._custom_text()
        elif value["machine"] == self._given_name and not self._given_ships:
            value["machine"] = CUSTOM
            value["document"] = format_machine(self._given)
        return format_state({name: value[name] for name in FIELDS if name in value})

    @property
    def kept(self) -> dict[str, str]:
        """The state, for pages without a kernel."""
        return {"state": self.state}

    def show_revisions(self, revisions: Sequence[str | Revision]) -> None:
        """Show revisions side by side: before, after, and further ones.

        Raises
        ------
        RequestError
            If they are not two to six that the menus have.
        """
        if isinstance(revisions, str) or not 2 <= len(revisions) <= MOST_RUNS:
            raise RequestError(f"revisions {brief(str(revisions))}: expected a list of 2 to 6")
        names = [get_revision(revision).name for revision in revisions]
        for name in names:
            if name not in dict(self.controls["after"].options).values():
                raise RequestError(f"revision {brief(name)}: expected one that REVISIONS has")
        with self.hold():
            self.controls["before"].value, self.controls["after"].value = names[:2]
            self.controls["more"].value = tuple(names[2:])

    def reset(self) -> None:
        """Set every control to what the machine has."""
        with self.hold():
            for name, control in controls.run_controls(self.machine).items():
                self.controls[name].value = control.value
                control.layout.close()
                control.style.close()
                control.close()
            self.controls["preset"].value = ""
            self.controls["picture"].value = PICTURES[0]
            self.controls["show"].value = "IRQs"

    def export(self) -> None:
        """Offer what is shown as files: the picture as PNG and SVG, the interrupts as CSV."""
        import pandas as pd

        from groupcpus.pictures import to_svg

        runs = self.runs()
        frames = {when: run.irqs for when, run in zip(ORDER, runs, strict=False)}
        table = pd.concat(frames, names=["run"]).reset_index(level="run")
        picture, show = self.controls["picture"].value, self.controls["show"].value
        files = {
            ("png", "image/png"): self.picture,
            ("svg", "image/svg+xml"): to_svg(_figure(runs, picture, show)),
            ("csv", "text/csv"): table.to_csv(index=False).encode(),
            ("txt", "text/plain"): self.text.encode(),
        }
        name = html.escape(f"groupcpus-{self.machine.name}")
        self._exports.value = " ".join(
            f'<a download="{name}.{suffix}" style="margin-left:1em;text-decoration:underline" '
            f'href="data:{mime};base64,{base64.b64encode(content).decode()}">{suffix.upper()}</a>'
            for (suffix, mime), content in files.items()
        )

    # --- what controls do to others

    def _changed(self, change: Any) -> None:
        """Let choices that set other controls do so first."""
        owner, value = change["owner"], change["new"]
        name = next(name for name, control in self.controls.items() if control is owner)
        if self._held:
            # Only what other controls depend on; the caller shows the rest.
            if name == "machine":
                self._take_machine()
            return
        if name == "state" and (not value.strip() or value == self.state):
            return
        if name == "preset" and not value:
            return
        takers: dict[str, Callable[[Any], None]] = {
            "machine": lambda _: self._take_machine(),
            "preset": self._take_preset,
            "topology": self._take_text,
            "file": self._take_files,
            "state": lambda text: self._apply(parse_state(text)),
        }
        self._held = True
        try:
            if name in takers:
                takers[name](value)
        except Exception as error:
            ours = isinstance(error, GroupCpusError)
            self.fail(str(error) if ours else f"{type(error).__name__}: {error}")
            return
        finally:
            self._held = False
        self.redraw()

    def _take_preset(self, state: str) -> None:
        self._apply(parse_state(state))
        self._promised = self.state

    def _give(self, machine: Machine) -> None:
        """Put a machine into the menu, beside those that ship."""
        names = machine_names()
        self._given, self._given_ships = machine, False
        self._given_name = machine.name
        if machine.name in names:
            self._given_ships = load_machine(machine.name) == machine
        if not self._given_ships and machine.name in (*names, CUSTOM):
            self._given_name = f"{machine.name} (given)"
        options = list(dict.fromkeys([self._given_name, *names, CUSTOM]))
        menu = self.controls["machine"]
        if tuple(menu.options) != tuple(options):
            held, self._held = self._held, True
            menu.options = options
            self._held = held

    def _take_machine(self) -> None:
        """Set the controls to what the chosen machine has."""
        name = self.controls["machine"].value
        self._show_custom()
        if name is None:
            return
        if name == CUSTOM:
            self._take(self._custom_machine())
            return
        self._take(self._given if name == self._given_name else load_machine(name))
        count, queues = main_devices(self.machine)
        held, self._held = self._held, True
        self.controls["devices"].value = count or 1
        self.controls["queues"].value = queues
        self.controls["irqchip"].value = self.machine.irqchip
        self._held = held

    def _take(self, machine: Machine) -> None:
        """Explore another machine: the sliders reach as far as it goes."""
        if machine == self.machine:
            return
        self.machine = machine
        self._epoch += 1
        self._runs.clear()
        self._announce()
        held, self._held = self._held, True
        self.controls["queues"].max = most_queues(machine)
        self.controls["devices"].max = max(controls.MAX_DEVICES, main_devices(machine)[0])
        self._held = held

    def _announce(self) -> None:
        document = live_machine(self.machine.topology)
        self.view.machine = {**document, "epoch": self._epoch, "name": self.machine.name}

    def _take_text(self, text: str) -> None:
        """Take a pasted text: a custom machine, or all that `load_machine` can read."""
        if not text.strip():
            return
        try:
            pasted_topology(text)
        except GroupCpusError:
            if "\n" not in text.strip() and not text.lstrip().startswith(("{", "<")):
                raise
            self._take_given(load_machine(text if "\n" in text else f"{text}\n"))
            return
        self.controls["machine"].value = CUSTOM
        self._show_custom()

    def _take_files(self, uploads: Iterable[Mapping[str, Any]]) -> None:
        """Take uploaded files, which together tell of a machine."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, upload in enumerate(uploads):
                name = "".join(c for c in str(upload["name"]) if c.isalnum() or c in "._-")
                path = Path(folder) / str(number) / (name.lstrip(".")[-80:] or "upload")
                path.parent.mkdir()
                path.write_bytes(bytes(upload["content"]))
                paths.append(path)
            self._take_given(load_machine(*paths))

    def _take_given(self, machine: Machine) -> None:
        self._give(machine)
        self.controls["machine"].value = self._given_name
        self._take_machine()

    def _show_custom(self) -> None:
        shown = None if self.controls["machine"].value == CUSTOM else "none"
        for control in self._custom:
            control.layout.display = shown

    def _custom_machine(self) -> Machine:
        topology = pasted_topology(self._custom_text())
        drive = (Device("nvme0", "nvme", 1),)
        return Machine(CUSTOM, "custom machine", "x86_64", "x86", topology, drive)

    def _custom_text(self) -> str:
        """Return the custom machine as a line, the one made of the numbers if none was typed."""
        value = {name: control.value for name, control in self.controls.items()}
        if text := value["topology"].strip():
            return text
        nodes, cpus, threads, cluster = (value[name] for name in CUSTOM_CONTROLS)
        if cluster % threads or cpus % cluster:
            topology = Topology.uniform(nodes, cpus, threads, cluster)
            return json.dumps(topology.to_dict(), separators=(",", ":"))
        return f"node:{nodes} cluster:{cpus // cluster} core:{cluster // threads} pu:{threads}"

    def _apply(self, state: Mapping[str, str]) -> None:
        """Set all controls to a state, or none of them if it cannot be."""
        name = state["machine"]
        if name == CUSTOM and "document" in state:
            machine = parse_machine(state["document"])
        elif name == CUSTOM:
            machine = Machine(CUSTOM, "", "", "", pasted_topology(state.get("topology", "")), ())
        elif name in self.controls["machine"].options or name in machine_names():
            machine = self._given if name == self._given_name else load_machine(name)
        else:
            expected = ", ".join(self.controls["machine"].options)
            raise FormatError("state: machine", f"{brief(name)}; expected one of {expected}")
        limits = {
            "queues": most_queues(machine),
            "devices": max(controls.MAX_DEVICES, main_devices(machine)[0]),
        }
        values = {
            key: control_value(self.controls[key], key, value, limits.get(key))
            for key, value in state.items()
            if key not in ("machine", "topology", "document")
        }
        if "document" in state:
            self._take_given(machine)
        else:
            if name == CUSTOM:
                self.controls["topology"].value = state["topology"]
            self.controls["machine"].value = name
            self._take_machine()
        # What a state leaves out is as it is at first.
        defaults = {"spread_start": 0, "probe": "admin-first", "requests": controls.REQUESTS[0]}
        defaults |= {"picture": PICTURES[0], "show": "IRQs", "more": ()}
        for key, value in (defaults | values).items():
            self.controls[key].value = value


def _figure(runs: Sequence[Run], picture: str, show: str) -> Any:
    """Draw the chosen picture, `all` as bars; maps, matrices and sharing of the first two runs."""
    from groupcpus import pictures

    draw = {
        "map": pictures.compare_maps,
        "matrix": pictures.compare_masks,
        "sharing": pictures.compare_sharing,
    }
    if picture == "distribution":
        return pictures.compare_distributions(*runs)
    if picture in draw:
        return draw[picture](*runs[:2])
    return pictures.compare_runs(*runs, show=show)


def _png(runs: Sequence[Run], picture: str, show: str) -> bytes:
    from groupcpus.pictures import to_png

    return to_png(_figure(runs, picture, show))


def explorer(
    machine_or_name: Machine | str | Path, revisions: Sequence[str | Revision] = ()
) -> Explorer:
    """Return the explorer of a machine.

    Parameters
    ----------
    machine_or_name : Machine, str or Path
        The machine, anything that `load_machine` takes, or the line that another explorer showed
        as its ``state``.
    revisions : sequence of str or Revision
        What is shown before, after, and further on the same scale, two to six; without any
        as the state says, or ``cluster`` and ``rotate-v2``.

    Returns
    -------
    Explorer
        A widget; as the last expression of a cell it shows itself.

    Raises
    ------
    GroupCpusError
        If there is no such machine or revision, or the state is none.

    Examples
    --------
    >>> panel = explorer("L96as_v4", revisions=["numa", "cluster", "rotate-next"])
    >>> panel.controls["more"].value
    ('rotate-next',)
    >>> panel.error, panel.picture[1:4]
    ('', b'PNG')
    >>> explorer(panel.state).text == panel.text
    True
    """
    state: dict[str, str] = {}
    if isinstance(machine_or_name, Machine):
        machine = machine_or_name
    elif isinstance(machine_or_name, str) and is_state(machine_or_name):
        state = parse_state(machine_or_name)
        first = state["machine"]
        machine = load_machine(first if first in machine_names() else machine_names()[0])
    else:
        machine = load_machine(machine_or_name)
    panel = Explorer(machine, state)
    if revisions:
        panel.show_revisions(revisions)
    return panel
