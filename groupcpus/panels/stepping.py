# SPDX-License-Identifier: GPL-2.0-only
"""The stepper: one call of `group_cpus_evenly`, played decision by decision."""

import html
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ipywidgets as widgets

from groupcpus.engine.group_cpus import MAX_GROUPS, explain
from groupcpus.engine.revisions import REVISIONS, Revision, get_revision
from groupcpus.engine.steps import Step
from groupcpus.engine.topology import Topology
from groupcpus.panels.controls import UINT_MAX, NumberField, Panel, narrow
from groupcpus.panels.documents import live_deal, live_machine
from groupcpus.panels.live import LiveView

__all__ = ["Stepper", "stepper"]

# Groups that are listed in the text.
_MAX_LISTED = 16


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
        wide = widgets.Layout(width="40em")
        inputs = {
            "step": widgets.IntSlider(description="step", min=0, max=1, value=0, layout=wide),
            "queues": NumberField("queues", (1, MAX_GROUPS), numgrps, layout=narrow()),
            "revision": widgets.Dropdown(
                description="revision", options=names, value=own, layout=narrow()
            ),
            "spread_offset": NumberField("counter", (0, UINT_MAX), spread_offset, layout=narrow()),
        }
        self._call: tuple[Any, ...] = ()
        self._steps: Sequence[Step] = ()
        self.view = LiveView({"step": inputs["step"]}, (), {}, machine=live_machine(topology))
        self._words = widgets.HTML()
        columns = [["step"], ["queues", "revision"], ["spread_offset"]]
        super().__init__(inputs, columns, [self.view, self._words])

    def shown(self) -> tuple[Callable[[], bytes], str]:
        """Show the groups so far."""
        from groupcpus.engine.progress import progress_of

        value = {name: control.value for name, control in self.controls.items()}
        call = (value["queues"], value["revision"], value["spread_offset"])
        if call != self._call:
            queues, revision, offset = call
            _, self._steps = explain(self.topology, queues, revision=revision, spread_offset=offset)
            self._call = call
            self._limit(len(self._steps))
            self.view.deal = live_deal(self.topology, self._steps)
        upto = self.controls["step"].value
        state = progress_of(self.topology, self._steps[:upto])
        groups = ", ".join(
            f"{group}: {cpus or '-'}" for group, cpus in enumerate(state.groups[:_MAX_LISTED])
        )
        more = ", ..." if len(state.groups) > _MAX_LISTED else ""
        decision = textwrap.fill(f"{upto} of {len(self._steps)}: {state.sentence}", 100)
        text = f"{decision}\ngroups so far: {groups or 'none'}{more}"
        return partial(_png, self.topology, self._steps, upto), text

    def show_error(self) -> None:
        """Say why nothing new is shown."""
        self._words.value = f'<b role="alert">{html.escape(self.error)}</b>' if self.error else ""

    def _limit(self, count: int) -> None:
        """End the slider at the last decision."""
        held, self._held = self._held, True
        self.controls["step"].max = count
        self._held = held


def _png(topology: Topology, steps: Sequence[Step], upto: int) -> bytes:
    from groupcpus.pictures import decision_frame, to_png

    figure = decision_frame(topology, steps, upto).get_figure(root=True)
    assert figure is not None
    return to_png(figure)


def stepper(
    topology: Topology,
    numgrps: int,
    revision: str | Revision = "cluster",
    spread_offset: int = 0,
) -> Stepper:
    """Return a panel that steps through one call of `group_cpus_evenly`.

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
