# SPDX-License-Identifier: GPL-2.0-only
"""What all panels share: controls on top, and below what follows them.

Nothing here draws, so that a panel can be had without matplotlib.  Pictures are put into the value
of a widget, never into an ``Output``: nothing flickers, no figure stays open, and a notebook runs
the same without a browser.
"""

import base64
import html
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import ipywidgets as widgets

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import GroupCpusError
from groupcpus.machines.devices import PROBE_ORDERS
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import Run, simulate

__all__ = ["COLUMNS", "Panel", "chosen_runs", "main_devices", "run_controls"]

MAX_DEVICES = 24
UINT_MAX = 0xFFFFFFFF
# Voilà's pages would set it in the letters of prose, and the columns apart.
_TEXT_STYLE = "font-family:monospace;line-height:1.3;overflow-x:auto"
# The controls of two runs, column by column.
COLUMNS = [["devices", "queues", "spread_start"], ["before", "after"], ["irqchip", "probe"]]


class Panel(widgets.VBox):
    """Controls on top; an error, a picture and a text below, which follow them.

    Parameters
    ----------
    controls : dict of str to Widget
        The inputs.
    columns : list of list of str
        Their names, column by column.
    below : sequence of Widget
        What else to put at the end.

    Attributes
    ----------
    controls : dict of str to Widget
        The inputs.  Setting a ``.value`` redraws at once.
    text : str
        What is shown, in words.
    picture : bytes
        What is shown, in the format `mime`.
    error : str
        Why the last change could not be shown; empty if it could.
    """

    mime: ClassVar[str] = "image/png"

    def __init__(
        self, controls: dict[str, Any], columns: list[list[str]], below: Sequence[Any] = ()
    ) -> None:
        self.controls = controls
        self.text = ""
        self.picture = b""
        self.error = ""
        self._held = False
        self._picture_view = widgets.HTML()
        self._text_view = widgets.HTML()
        self._error_view = widgets.HTML(layout=widgets.Layout(min_height="1.6em"))
        boxes = [widgets.VBox([controls[name] for name in column]) for column in columns]
        super().__init__(
            [
                widgets.HBox(boxes, layout=widgets.Layout(flex_flow="row wrap")),
                self._error_view,
                self._picture_view,
                self._text_view,
                *below,
            ]
        )
        for control in controls.values():
            control.observe(self._changed, names="value")
        self.redraw()

    def shown(self) -> tuple[Any, str, str]:
        """Make what the controls ask for: the picture, its text, and the picture in a sentence."""
        raise NotImplementedError

    def render(self, picture: Any) -> tuple[bytes, float, float]:
        """Turn a picture into a file in the format `mime`; give its width and height too."""
        raise NotImplementedError

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Change several controls and redraw once.

        Examples
        --------
        >>> from groupcpus.panels.explore import explorer
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
        """Show what the controls ask for; when it cannot be, say why and keep the last picture."""
        try:
            picture, text, sentence = self.shown()
        except GroupCpusError as error:
            self.error = str(error)
        else:
            self.error = ""
            self._show(picture, text, sentence)
        shown = f'<b role="alert">{html.escape(self.error)}</b>' if self.error else ""
        self._error_view.value = shown

    def _show(self, picture: Any, text: str, sentence: str) -> None:
        self.picture, width, height = self.render(picture)
        self.text = text
        self._picture_view.value = (
            f'<img alt="{html.escape(sentence)}" width="{width:.0f}" height="{height:.0f}" '
            f'style="max-width:100%;height:auto" '
            f'src="data:{self.mime};base64,{_encoded(self.picture)}">'
        )
        self._text_view.value = f'<pre style="{_TEXT_STYLE}">{html.escape(self.text)}</pre>'

    def _changed(self, change: Any) -> None:
        if not self._held:
            self.redraw()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Offer the live panel, and its picture and text to viewers that know no widgets."""
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        bundle["text/plain"] = self.text
        # By Jupyter's rules only SVG goes as text.
        as_text = self.mime == "image/svg+xml"
        bundle[self.mime] = self.picture.decode() if as_text else _encoded(self.picture)
        return bundle


def _encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode("ascii")


def main_devices(machine: Machine) -> tuple[int, int]:
    """Count the devices that `Machine.with_devices` changes, and the queues of each.

    Examples
    --------
    >>> from groupcpus import load_machine
    >>> main_devices(load_machine("L96as_v4"))
    (6, 62)
    """
    kinds = [device.kind for device in machine.devices if device.kind != "loop"]
    like = [device for device in machine.devices if device.kind in kinds[:1]]
    return len(like), like[0].io_queues if like else 1


def run_controls(machine: Machine) -> dict[str, Any]:
    """Make the inputs of two runs, before and after, set to what the machine has.

    Examples
    --------
    >>> from groupcpus import load_machine
    >>> controls = run_controls(load_machine("L96as_v4"))
    >>> [controls[name].value for name in ("devices", "queues", "irqchip")]
    [6, 62, 'x86']
    """
    wide = widgets.Layout(width="28em")
    narrow = widgets.Layout(width="20em")
    count, queues = main_devices(machine)
    most_queues = max(queues, len(machine.topology.possible))

    def choice(label: str, options: Any, value: str) -> widgets.Dropdown:
        return widgets.Dropdown(
            description=label, options=list(options), value=value, layout=narrow
        )

    return {
        "devices": widgets.IntSlider(
            description="devices", min=1, max=max(MAX_DEVICES, count), value=count or 1, layout=wide
        ),
        "queues": widgets.IntSlider(
            description="queues", min=1, max=most_queues, value=queues, layout=wide
        ),
        "spread_start": widgets.BoundedIntText(
            description="counter", min=0, max=UINT_MAX, value=0, layout=narrow
        ),
        "before": choice("before", REVISIONS, "cluster"),
        "after": choice("after", REVISIONS, "rotate-v2"),
        "irqchip": choice("irqchip", IRQCHIPS, machine.irqchip),
        "probe": choice("probe", PROBE_ORDERS, "admin-first"),
    }


def chosen_runs(machine: Machine, controls: Mapping[str, Any]) -> tuple[Run, Run]:
    """Simulate what `run_controls` ask for: before and after.

    Raises
    ------
    GroupCpusError
        If it cannot be, for instance when the vectors of a CPU run out.
    """
    value = {name: control.value for name, control in controls.items()}
    machine = machine.with_devices(value["devices"], value["queues"])
    before, after = (
        simulate(
            machine,
            revision=value[side],
            irqchip=value["irqchip"],
            probe=value["probe"],
            spread_start=value["spread_start"],
        )
        for side in ("before", "after")
    )
    return before, after
