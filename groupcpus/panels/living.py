# SPDX-License-Identifier: GPL-2.0-only
"""The timeline: what happens to a machine after its boot, step by step."""

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.machines.life import Life
from groupcpus.machines.lifesteps import step_text
from groupcpus.machines.machine import Machine
from groupcpus.panels.controls import Panel, narrow, revision_options
from groupcpus.sources import load_machine

__all__ = ["Timeline", "timeline"]


class Timeline(Panel):
    """A life after boot: its events in a field, its steps on a slider.

    Its controls are ``events`` (as `parse_events` reads them), ``step``, ``revision``, ``irqchip``
    and ``what`` (which load the picture shows); its text is what the chosen step did.

    Attributes
    ----------
    life : Life
        What is shown.
    """

    def __init__(self, machine: Machine, revision: Revision, events: str) -> None:
        self.machine = machine
        options = dict(revision_options())
        own = {} if revision.name in options.values() else {revision.name: revision}
        self.life = Life(machine, revision)
        self._shown: tuple[Any, ...] = ()
        controls = {
            "events": widgets.Textarea(
                description="events",
                value=events,
                continuous_update=False,
                layout=widgets.Layout(width="44em", height="4em"),
                tooltip="offline 3; reset nvme0; smt off; online 3; unbind, bind, suspend, resume",
            ),
            "step": widgets.IntSlider(
                description="step", min=0, max=0, layout=widgets.Layout(width="28em")
            ),
            "revision": widgets.Dropdown(
                description="revision",
                options=[*options.items(), *own.items()],
                value=own.get(revision.name, revision.name),
                layout=narrow(),
            ),
            "irqchip": widgets.Dropdown(
                description="irqchip",
                options=list(IRQCHIPS),
                value=machine.irqchip,
                layout=narrow(),
            ),
            "what": widgets.ToggleButtons(
                description="load", options=["irqs", "submitters"], layout=narrow()
            ),
        }
        self.image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self.words = widgets.HTML()
        columns = [["events", "step"], ["revision", "irqchip", "what"]]
        super().__init__(controls, columns, [self.image, self.words])

    def shown(self) -> tuple[Callable[[], bytes], str]:
        """Live through the events; return what draws the steps, and what the chosen one did."""
        from groupcpus.pictures import cpus_over_steps, to_png

        value = {name: control.value for name, control in self.controls.items()}
        asked = value["events"], value["revision"], value["irqchip"]
        if asked != self._shown:
            life = Life(self.machine, value["revision"], value["irqchip"])
            life.then(value["events"])
            self.life, self._shown = life, asked
        steps, step = self.life.steps, self._reach()
        text = step_text(steps, step)
        figure = cpus_over_steps(steps, value["what"], current=step).get_figure(root=True)
        assert figure is not None
        png = to_png(figure)
        self.image.value = png
        self.words.value = f"<pre>{html.escape(text)}</pre>"
        return lambda: png, text

    def _reach(self) -> int:
        """Let the slider reach all steps, the last one first, and return where it stands."""
        slider, last = self.controls["step"], len(self.life.steps) - 1
        if slider.max != last:
            held, self._held = self._held, True
            slider.max = last
            slider.value = last
            self._held = held
        return slider.value

    def show_error(self) -> None:
        """Show why the events cannot happen in place of what they did."""
        if self.error:
            self.words.value = f'<b role="alert">{html.escape(self.error)}</b>'


def timeline(
    machine: Machine | str | Path, revision: str | Revision = "cluster", events: str = ""
) -> Timeline:
    """Return a panel with a machine's life after boot.

    Parameters
    ----------
    machine : Machine, str or Path
        The machine; a name or a file as `load_machine` takes.
    revision : str or Revision
        The version of `group_cpus_evenly`.
    events : str
        What happens, as `parse_events` reads it.

    Examples
    --------
    >>> panel = timeline("D16plds_v6", events="offline 3; reset nvme0")
    >>> panel.controls["step"].value = 1
    >>> print(panel.text.splitlines()[0])
    1. offline 3
    """
    if not isinstance(machine, Machine):
        machine = load_machine(machine)
    return Timeline(machine, get_revision(revision), events)
