# SPDX-License-Identifier: GPL-2.0-only
"""Explorers for notebooks: controls on top, a picture and its mail text below.

Pictures are put into the value of a widget, never into an ``Output``: nothing flickers, no figure
stays open, and a notebook runs the same without a browser.
"""

import base64
import html
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from groupcpus.devices import PROBE_ORDERS
from groupcpus.errors import GroupCpusError
from groupcpus.grouping import MAX_GROUPS, explain
from groupcpus.irqchip import IRQCHIPS
from groupcpus.machines import Machine, load_machine
from groupcpus.plot import (
    Comparison,
    deal_frame,
    deal_state,
    nested_layout,
    to_png,
    topology_graph,
)
from groupcpus.report import mail_text
from groupcpus.revisions import REVISIONS, Revision, get_revision
from groupcpus.simulate import Run, simulate
from groupcpus.topology import Topology

__all__ = ["Explorer", "Panel", "Stepper", "explorer", "stepper"]

MAX_DEVICES = 24
_UINT_MAX = 0xFFFFFFFF
# Groups that a stepper lists in its text.
_MAX_LISTED = 16


class Panel(widgets.VBox):
    """Controls on top; an error, a picture and a text below, which follow them.

    Parameters
    ----------
    controls : dict of str to Widget
        The inputs.
    columns : list of list of str
        Their names, column by column.

    Attributes
    ----------
    controls : dict of str to Widget
        The inputs.  Setting a ``.value`` redraws at once.
    text : str
        What is shown, in words.
    picture : bytes
        What is shown, as PNG.
    error : str
        Why the last change could not be shown; empty if it could.
    """

    def __init__(self, controls: dict[str, Any], columns: list[list[str]]) -> None:
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
            ]
        )
        for control in controls.values():
            control.observe(self._changed, names="value")
        self.redraw()

    def shown(self) -> tuple[Figure, str, str]:
        """Make what the controls ask for: the picture, its text, and the picture in a sentence."""
        raise NotImplementedError

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Change several controls and redraw once.

        Examples
        --------
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
            figure, text, sentence = self.shown()
        except GroupCpusError as error:
            self.error = str(error)
        else:
            self.error = ""
            self._show(figure, text, sentence)
        shown = f'<b role="alert">{html.escape(self.error)}</b>' if self.error else ""
        self._error_view.value = shown

    def _show(self, figure: Figure, text: str, sentence: str) -> None:
        self.picture = to_png(figure)
        self.text = text
        width, height = figure.get_size_inches() * 100
        self._picture_view.value = (
            f'<img alt="{html.escape(sentence)}" width="{width:.0f}" height="{height:.0f}" '
            f'style="max-width:100%;height:auto" '
            f'src="data:image/png;base64,{_encoded(self.picture)}">'
        )
        self._text_view.value = (
            f'<pre style="line-height:1.3;overflow-x:auto">{html.escape(self.text)}</pre>'
        )

    def _changed(self, change: Any) -> None:
        if not self._held:
            self.redraw()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Offer the live panel, and its picture and text to viewers that know no widgets."""
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        bundle["text/plain"] = self.text
        bundle["image/png"] = _encoded(self.picture)
        return bundle


class Explorer(Panel):
    """Two runs of a machine, before and after, that follow their controls.

    Its controls are ``devices``, ``queues``, ``before``, ``after``, ``irqchip``, ``probe`` and
    ``spread_start``; its text tells what is shown as a mail would.

    Parameters
    ----------
    machine : Machine
        What to explore.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._comparison: Comparison | None = None
        super().__init__(
            _controls(machine),
            [["devices", "queues", "spread_start"], ["before", "after"], ["irqchip", "probe"]],
        )

    def runs(self) -> tuple[Run, Run]:
        """Simulate what the controls ask for: before and after.

        Raises
        ------
        GroupCpusError
            If it cannot be, for instance when the vectors of a CPU run out.
        """
        value = {name: control.value for name, control in self.controls.items()}
        machine = self.machine.with_devices(value["devices"], value["queues"])
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

    def shown(self) -> tuple[Figure, str, str]:
        """Compare the two runs."""
        before, after = self.runs()
        if self._comparison is None:
            self._comparison = Comparison(before, after)
        else:
            self._comparison.draw(before, after)
        sentence = f"IRQs per CPU. Before: {before.summary}. After: {after.summary}."
        return self._comparison.figure, mail_text(before, after), sentence


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
        controls = {
            "step": widgets.IntSlider(description="step", min=0, max=1, value=0, layout=wide),
            "queues": widgets.BoundedIntText(
                description="queues", min=1, max=MAX_GROUPS, value=numgrps, layout=narrow
            ),
            "revision": widgets.Dropdown(
                description="revision", options=names, value=own, layout=narrow
            ),
            "spread_offset": widgets.BoundedIntText(
                description="counter", min=0, max=_UINT_MAX, value=spread_offset, layout=narrow
            ),
        }
        layout = nested_layout(topology_graph(topology))
        inch = min(11 / (layout.width + 0.4), 0.6)
        height = inch * (layout.height + 0.4)
        title = 0.65
        figure = Figure(figsize=(max(6.5, inch * (layout.width + 0.4)), height + title))
        self._ax = figure.add_axes((0.01, 0, 0.98, height / (height + title)))
        super().__init__(controls, [["step"], ["queues", "revision"], ["spread_offset"]])

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
        deal_frame(self.topology, steps, upto, self._ax)
        state = deal_state(self.topology, steps[:upto])
        groups = ", ".join(
            f"{group}: {cpus or '-'}" for group, cpus in enumerate(state.groups[:_MAX_LISTED])
        )
        more = ", ..." if len(state.groups) > _MAX_LISTED else ""
        decision = textwrap.fill(f"{upto} of {len(steps)}: {state.sentence}", 100)
        text = f"{decision}\ngroups so far: {groups or 'none'}{more}"
        figure = self._ax.get_figure(root=True)
        assert figure is not None
        return figure, text, f"CPUs with their groups. {text}"

    def _limit(self, count: int) -> None:
        """End the slider at the last decision, without a redraw if that moves it."""
        held, self._held = self._held, True
        self.controls["step"].max = count
        self._held = held


def _encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode("ascii")


def _controls(machine: Machine) -> dict[str, Any]:
    """Make the inputs, set to what the machine has."""
    wide = widgets.Layout(width="28em")
    narrow = widgets.Layout(width="20em")
    main = [device for device in machine.devices if device.kind != "loop"]
    queues = main[0].io_queues if main else 1
    most_queues = max(queues, len(machine.topology.possible))

    def choice(label: str, options: Any, value: str) -> widgets.Dropdown:
        return widgets.Dropdown(
            description=label, options=list(options), value=value, layout=narrow
        )

    return {
        "devices": widgets.IntSlider(
            description="devices", min=1, max=MAX_DEVICES, value=len(main) or 1, layout=wide
        ),
        "queues": widgets.IntSlider(
            description="queues", min=1, max=most_queues, value=queues, layout=wide
        ),
        "spread_start": widgets.BoundedIntText(
            description="counter", min=0, max=_UINT_MAX, value=0, layout=narrow
        ),
        "before": choice("before", REVISIONS, "cluster"),
        "after": choice("after", REVISIONS, "rotate-v2"),
        "irqchip": choice("irqchip", IRQCHIPS, machine.irqchip),
        "probe": choice("probe", PROBE_ORDERS, "admin-first"),
    }


def explorer(machine_or_name: Machine | str) -> Explorer:
    """Make the explorer of a machine.

    Parameters
    ----------
    machine_or_name : Machine or str
        The machine, or a name as `load_machine` takes.

    Returns
    -------
    Explorer
        A widget; as the last expression of a cell it shows itself.

    Examples
    --------
    >>> panel = explorer("L96as_v4")
    >>> panel.controls["after"].value = "rotate-next"
    >>> panel.error, panel.picture[1:4]
    ('', b'PNG')
    """
    machine = machine_or_name
    return Explorer(load_machine(machine) if isinstance(machine, str) else machine)


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
