# SPDX-License-Identifier: GPL-2.0-only
"""What all panels share: controls on top, and below the live view that follows them.

Pictures for viewers without a kernel are drawn when they are asked for, and never into an
``Output``: nothing flickers, no figure stays open, and a notebook runs the same without a browser.
"""

import base64
import html
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ipywidgets as widgets

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS, Revision
from groupcpus.errors import GroupCpusError, RequestError, brief
from groupcpus.machines.devices import PROBE_ORDERS
from groupcpus.machines.machine import Machine
from groupcpus.machines.mail_text import MOST_RUNS
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.panels.saving import PANEL

__all__ = ["COLUMNS", "NumberField", "Panel", "chosen_runs", "main_devices", "run_controls"]

MAX_DEVICES = 24
# Runs beside before and after.
MAX_MORE = MOST_RUNS - 2
UINT_MAX = 0xFFFFFFFF
# Real boots mix irregularly: some orders to compare, each the same every time.
REQUESTS = ("device-by-device", "lockstep", "random-1", "random-2", "random-3", "random-4")
# The controls of two runs, column by column.
COLUMNS = [["devices", "queues", "spread_start"], ["before", "after", "more"]]
COLUMNS += [["irqchip", "probe", "requests"]]


class NumberField(widgets.IntText):
    """A field for a whole number that refuses what is out of range instead of changing it.

    Parameters
    ----------
    description : str
        What stands before it.
    bounds : tuple of int
        The least and the greatest number that it takes.
    value : int
        What it shows first.
    """

    def __init__(self, description: str, bounds: tuple[int, int], value: int, **more: Any) -> None:
        self.min, self.max = bounds
        # Each call carries on where the last one stopped: the browser need not wait for Enter.
        super().__init__(description=description, value=value, **more)

    @property
    def refusal(self) -> str:
        """Why the number cannot be taken; empty if it can."""
        if self.min <= self.value <= self.max:
            return ""
        return f"{self.description} {brief(self.value)}: expected {self.min} to {self.max}"


class Panel(widgets.VBox):
    """Controls on top, and below what follows them.

    Parameters
    ----------
    controls : dict of str to Widget
        The inputs.
    columns : list of list of str
        Their names, column by column.
    below : sequence of Widget
        What comes under them: the view first.

    Attributes
    ----------
    controls : dict of str to Widget
        The inputs.  Setting a ``.value`` shows what it asks for at once.
    text : str
        What is shown, in words.
    error : str
        Why the last change could not be shown; empty if it could.
    """

    def __init__(
        self, controls: dict[str, Any], columns: list[list[str]], below: Sequence[Any] = ()
    ) -> None:
        self.controls = controls
        self.text = ""
        self.error = ""
        self._held = False
        self._picture: bytes | None = None
        self._draw: Callable[[], bytes] | None = None
        self._refusals: dict[str, widgets.HTML] = {}
        boxes = [widgets.VBox(list(self._rows(column))) for column in columns]
        super().__init__([widgets.HBox(boxes, layout=widgets.Layout(flex_flow="row wrap")), *below])
        for control in controls.values():
            control.observe(self._changed, names="value")
        self.redraw()
        _remember(self)

    def _rows(self, names: Sequence[str]) -> Iterator[widgets.Widget]:
        """Yield the controls of a column, each number field with room for a refusal beside it."""
        for name in names:
            control = self.controls[name]
            yield control
            if isinstance(control, NumberField):
                self._refusals[name] = widgets.HTML(layout=widgets.Layout(display="none"))
                yield self._refusals[name]

    def shown(self) -> tuple[Callable[[], bytes], str]:
        """Show what the controls ask for; return what draws its PNG, and its text."""
        raise NotImplementedError

    def show_error(self) -> None:
        """Show `error`, or that there is none any more."""

    @property
    def kept(self) -> dict[str, str]:
        """What a stored notebook keeps, so that a page can bring the panel to life."""
        return {}

    @property
    def picture(self) -> bytes:
        """What is shown, as a PNG that is drawn when it is asked for; empty without matplotlib."""
        if self._picture is None and self._draw is not None:
            with suppress(ModuleNotFoundError):
                self._picture = self._draw()
        return self._picture or b""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Change several controls and show them at once.

        Examples
        --------
        >>> from groupcpus.panels import explorer
        >>> panel = explorer("L96as_v4")
        >>> with panel.hold():
        ...     panel.controls["devices"].value = 2
        ...     panel.controls["queues"].value = 48
        >>> panel.text.splitlines()[0]
        'L96as_v4: 96 CPUs in 2 nodes; 2 nvme with 48 queues'
        """
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.redraw()

    def redraw(self) -> None:
        """Show what the controls ask for; when it cannot be, say why."""
        try:
            self._refuse()
            draw, text = self.shown()
        except GroupCpusError as error:
            self.fail(str(error))
        except Exception as error:  # a reader's own revision may raise anything
            self.fail(f"{type(error).__name__}: {error}")
        else:
            self.error, self.text = "", text
            self._draw, self._picture = draw, None
            self.show_error()

    def fail(self, error: str) -> None:
        """Say why the controls' wish could not be shown."""
        printable = "".join(letter if letter.isprintable() else " " for letter in error)
        self.error = printable[:500]
        self.show_error()

    def _refuse(self) -> None:
        """Say beside each number field what it does not take, and raise the first of that."""
        first = ""
        for name, place in self._refusals.items():
            refusal = self.controls[name].refusal
            place.value = f'<b role="alert">{html.escape(refusal)}</b>' if refusal else ""
            place.layout.display = None if refusal else "none"
            first = first or refusal
        if first:
            raise RequestError(first)

    def _changed(self, change: Any) -> None:
        if not self._held:
            self.redraw()

    def close(self) -> None:
        """Close the panel and every widget that it made: nothing of it stays in the kernel."""
        closing: list[widgets.Widget] = [self]
        met: set[int] = set()
        while closing:
            widget = closing.pop()
            if id(widget) in met:
                continue
            met.add(id(widget))
            closing += getattr(widget, "children", ())
            parts = (getattr(widget, part, None) for part in ("layout", "style"))
            closing += [part for part in parts if isinstance(part, widgets.Widget)]
            widget.unobserve_all()
            if widget is not self:
                widget.close()
        super().close()
        self._draw, self._refusals = None, {}

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Offer the live panel, and its picture and text to viewers that know no widgets."""
        bundle = dict(super()._repr_mimebundle_(**kwargs) or {})
        bundle["text/plain"] = self.text
        bundle[PANEL] = self.kept
        if self.picture:
            bundle["image/png"] = base64.b64encode(self.picture).decode("ascii")
        return bundle


# The panels that each cell made when it ran last.
_panels: dict[str, tuple[str, list["weakref.ref[Panel]"]]] = {}


def _remember(panel: Panel) -> None:
    """Keep in mind which cell made a panel; close those that the cell made when it ran before."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    try:
        request = shell.kernel.get_parent()
        run = request["header"]["msg_id"]
        cell = request["metadata"].get("cellId") or request["content"]["code"]
    except (AttributeError, KeyError, TypeError):  # not in a cell of a notebook
        return
    before, panels = _panels.get(cell, (run, []))
    if before != run:
        for old in panels:
            if (found := old()) is not None:
                found.close()
        panels = []
    _panels[cell] = run, [*panels, weakref.ref(panel)]


def main_devices(machine: Machine) -> tuple[int, int]:
    """Return how many devices `Machine.with_devices` changes, and the queues of the first.

    Examples
    --------
    >>> from groupcpus import load_machine
    >>> main_devices(load_machine("L96as_v4"))
    (6, 62)
    """
    kinds = [device.kind for device in machine.devices if device.kind != "loop"]
    like = [device for device in machine.devices if device.kind in kinds[:1]]
    return len(like), like[0].io_queues if like else 1


def most_queues(machine: Machine) -> int:
    """Return how far the slider of queues reaches: to the machine's CPUs, or to what it has."""
    return max(main_devices(machine)[1], len(machine.topology.possible))


def revision_options() -> list[tuple[str, str]]:
    """Return the revisions for a menu: what each is called and where it is, and its name.

    Examples
    --------
    >>> revision_options()[2]
    ('cluster (Linux 7.0+)', 'cluster')
    """
    return [(_revision_label(revision), name) for name, revision in REVISIONS.items()]


def _revision_label(revision: Revision) -> str:
    where = re.split(r" \(| as | in | of | or so", revision.kernel)[0]
    if where[:1].isdigit():
        where = f"Linux {where.replace(' on', '+')}"
    return f"{revision.name} ({brief(where)[1:-1]})" if where else revision.name


def run_controls(machine: Machine) -> dict[str, Any]:
    """Return the inputs of runs, before and after and more, set to what the machine has.

    Examples
    --------
    >>> from groupcpus import load_machine
    >>> controls = run_controls(load_machine("L96as_v4"))
    >>> [controls[name].value for name in ("devices", "queues", "irqchip")]
    [6, 62, 'x86']
    """
    count, queues = main_devices(machine)
    revisions = revision_options()
    whys = "\n".join(f"{name}: {revision.summary}" for name, revision in REVISIONS.items())

    def slider(label: str, most: int, value: int, tooltip: str) -> widgets.IntSlider:
        wide = widgets.Layout(width="28em")
        return widgets.IntSlider(
            description=label, min=1, max=most, value=value, layout=wide, tooltip=tooltip
        )

    def choice(label: str, options: Any, value: str, tooltip: str) -> widgets.Dropdown:
        return widgets.Dropdown(
            description=label, options=options, value=value, layout=narrow(), tooltip=tooltip
        )

    return {
        "devices": slider(
            "devices", max(MAX_DEVICES, count), count or 1, "devices like the machine's first"
        ),
        "queues": slider("queues", most_queues(machine), queues, "I/O queues of each of them"),
        "spread_start": NumberField(
            "counter",
            (0, UINT_MAX),
            0,
            layout=narrow(),
            tooltip="the call counter of revisions that rotate, before the first call",
        ),
        "before": choice("before", revisions, "cluster", whys),
        "after": choice("after", revisions, "rotate-v2", whys),
        "more": widgets.SelectMultiple(
            description="and also",
            options=revisions,
            rows=3,
            layout=narrow(),
            tooltip=f"more revisions on the same scale, with Ctrl or Shift; at most {MAX_MORE}",
        ),
        "irqchip": choice(
            "irqchip", list(IRQCHIPS), machine.irqchip, "what picks one CPU of each mask"
        ),
        "probe": choice(
            "probe", list(PROBE_ORDERS), "admin-first", "in which order drivers call the function"
        ),
        "requests": choice(
            "requests",
            list(REQUESTS),
            REQUESTS[0],
            "in which order disks that probe in parallel request their interrupts",
        ),
    }


def narrow() -> widgets.Layout:
    """Return a layout for a menu or a field: one each, as some are hidden by theirs."""
    return widgets.Layout(width="20em")


def chosen_runs(machine: Machine, value: Mapping[str, Any]) -> tuple[Run, ...]:
    """Return the runs that values of `run_controls` ask for: before, after and more.

    Raises
    ------
    GroupCpusError
        If it cannot be, for instance when the vectors of a CPU run out.
    """
    if len(value["more"]) > MAX_MORE:
        chosen = len(value["more"])
        raise RequestError(f"and also {chosen} revisions: expected at most {MAX_MORE}")
    count, queues = main_devices(machine)
    if (value["devices"], value["queues"]) != (count or 1, queues):
        # Devices keep queues of their own until the slider of queues is moved.
        asked = None if value["queues"] == queues else value["queues"]
        machine = machine.with_devices(value["devices"], asked)
    return tuple(
        simulate(
            machine,
            revision=revision,
            irqchip=value["irqchip"],
            probe=value["probe"],
            requests=value["requests"],
            spread_start=value["spread_start"],
        )
        for revision in (value["before"], value["after"], *value["more"])
    )
