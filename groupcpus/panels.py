# SPDX-License-Identifier: GPL-2.0-only
"""Explorers for notebooks: controls on top, a picture and its mail text below."""

import textwrap

import ipywidgets as widgets
from matplotlib.figure import Figure

from groupcpus import controls
from groupcpus.grouping import MAX_GROUPS, explain
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
from groupcpus.simulate import Run
from groupcpus.topology import Topology

__all__ = ["Explorer", "Panel", "Stepper", "explorer", "stepper"]

# Groups that a stepper lists in its text.
_MAX_LISTED = 16


class Panel(controls.Panel):
    """A panel whose picture is a Figure, shown as PNG."""

    def shown(self) -> tuple[Figure, str, str]:
        """Make what the controls ask for: the picture, its text, and the picture in a sentence."""
        raise NotImplementedError

    def render(self, picture: Figure) -> tuple[bytes, float, float]:
        """Render the Figure, 100 pixels an inch."""
        width, height = picture.get_size_inches() * 100
        return to_png(picture), width, height


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
        super().__init__(controls.run_controls(machine), controls.COLUMNS)

    def runs(self) -> tuple[Run, Run]:
        """Simulate what the controls ask for: before and after.

        Raises
        ------
        GroupCpusError
            If it cannot be, for instance when the vectors of a CPU run out.
        """
        return controls.chosen_runs(self.machine, self.controls)

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
        layout = nested_layout(topology_graph(topology))
        inch = min(11 / (layout.width + 0.4), 0.6)
        height = inch * (layout.height + 0.4)
        title = 0.65
        figure = Figure(figsize=(max(6.5, inch * (layout.width + 0.4)), height + title))
        self._ax = figure.add_axes((0.01, 0, 0.98, height / (height + title)))
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
