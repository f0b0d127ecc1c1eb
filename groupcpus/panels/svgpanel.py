# SPDX-License-Identifier: GPL-2.0-only
"""The explorer for places without matplotlib, such as a Python that runs in a browser.

Its picture is SVG, written by hand.  Nothing here needs more than ipywidgets.
"""

from html import escape
from itertools import groupby

from groupcpus.machines.machine import Machine
from groupcpus.machines.mail_text import mail_text
from groupcpus.machines.probe import Run
from groupcpus.panels.controls import COLUMNS, Panel, chosen_runs, run_controls
from groupcpus.sources import load_machine

__all__ = ["SvgExplorer", "compare_svg", "explorer"]

# As in the other pictures: told apart by colour-blind readers, and by their place.
_NODE_COLOURS = ("#0072B2", "#56B4E9")
_WIDTH, _HEIGHT = 1000, 250  # of one run's picture, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 56, 46, 36
_MAX_LABELS = 24
_MAX_NODES_NAMED = 16


def compare_svg(before: Run, after: Run) -> str:
    """Draw the interrupts per CPU of two runs, one above the other on the same scale.

    Parameters
    ----------
    before, after : Run
        What to draw: a bar a CPU, hatched for the interrupts whose mask is that CPU alone, and a
        dashed line at the best possible maximum.

    Returns
    -------
    str
        An ``<svg>`` element.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> before, after = (simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2"))
    >>> compare_svg(before, after).count("<rect class='bar'")
    192
    """
    top = max(1, before.best, after.best, *before.counts.values(), *after.counts.values())
    pictures = [_bars(before, "before", top), _bars(after, "after", top)]
    placed = [
        f"<g transform='translate(0 {at * _HEIGHT})'>{p}</g>" for at, p in enumerate(pictures)
    ]
    height = len(placed) * _HEIGHT
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' "
        f"viewBox='0 0 {_WIDTH} {height}' font-family='sans-serif' font-size='12'>"
        "<defs><pattern id='single' width='6' height='6' patternUnits='userSpaceOnUse' "
        "patternTransform='rotate(45)'><path d='M0 0V6' stroke='white' stroke-width='3'/>"
        f"</pattern></defs><rect width='100%' height='100%' fill='white'/>{''.join(placed)}</svg>"
    )


def _bars(run: Run, when: str, top: int) -> str:
    """Draw one run; `top` is the count at the top of the scale."""
    topology = run.machine.topology
    cpus = list(run.counts)
    step = (_WIDTH - _LEFT - _RIGHT) / len(cpus)
    unit = (_HEIGHT - _TOP - _BOTTOM) / top
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []

    nodes = [topology.node_of(cpu) for cpu in cpus]
    order = list(dict.fromkeys(nodes))
    for at, cpu in enumerate(cpus):
        colour = _NODE_COLOURS[order.index(nodes[at]) % 2]
        for name, count, fill in (
            ("bar", run.counts[cpu], colour),
            ("single", run.single[cpu], "url(#single)"),
        ):
            if count or name == "bar":
                parts.append(
                    f"<rect class='{name}' x='{_LEFT + (at + 0.07) * step:.1f}' "
                    f"y='{floor - count * unit:.1f}' width='{0.86 * step:.1f}' "
                    f"height='{count * unit:.1f}' fill='{fill}'/>"
                )
    at = 0
    spans = [(node, len(list(same))) for node, same in groupby(nodes)]
    for node, count in spans:
        if at:
            x = f"{_LEFT + at * step:.1f}"
            parts.append(f"<path d='M{x} {_TOP - 16}V{floor}' stroke='#999999'/>")
        # Interleaved numbering makes too many to be named one by one.
        if len(spans) <= _MAX_NODES_NAMED:
            parts.append(_text(_LEFT + (at + count / 2) * step, _TOP - 6, f"node {node}"))
        at += count

    parts.append(f"<path d='M{_LEFT} {floor}H{right}' stroke='black'/>")
    for at in range(0, len(cpus), -(-len(cpus) // _MAX_LABELS)):
        parts.append(_text(_LEFT + (at + 0.5) * step, floor + 14, str(cpus[at])))
    for irqs in range(0, top + 1, -(-top // 6)):
        parts.append(_text(_LEFT - 6, floor - irqs * unit + 4, str(irqs), "end"))
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 6, "CPU"))
    parts.append(
        f"<text transform='translate(12 {(_TOP + floor) / 2:.0f}) rotate(-90)' "
        "text-anchor='middle'>IRQs</text>"
    )

    best = floor - run.best * unit
    parts.append(f"<path d='M{_LEFT} {best:.1f}H{right}' stroke='black' stroke-dasharray='5 3'/>")
    parts.append(_text(right + 4, best + 4, f"best {run.best}", "start"))
    summary = run.summary
    title = (
        f"{when}, {run.revision.name}: max {summary.greatest} (best possible {summary.best}), "
        f"{summary.used} CPUs used; hatched: masks of this CPU alone"
    )
    parts.append(_text(_WIDTH / 2, 16, title))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


class SvgExplorer(Panel):
    """Two runs of a machine, before and after, that follow their controls.

    The same controls and the same text as `groupcpus.panels.explorer.Explorer`; a plainer picture.

    Parameters
    ----------
    machine : Machine
        What to explore.
    """

    mime = "image/svg+xml"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        super().__init__(run_controls(machine), COLUMNS)

    def runs(self) -> tuple[Run, Run]:
        """Simulate what the controls ask for: before and after."""
        return chosen_runs(self.machine, self.controls)

    def shown(self) -> tuple[str, str, str]:
        """Compare the two runs."""
        before, after = self.runs()
        sentence = f"IRQs per CPU. Before: {before.summary}. After: {after.summary}."
        return compare_svg(before, after), mail_text(before, after), sentence

    def render(self, picture: str) -> tuple[bytes, float, float]:
        """Encode the picture."""
        return picture.encode(), _WIDTH, 2 * _HEIGHT


def explorer(machine_or_name: Machine | str) -> SvgExplorer:
    """Make the explorer of a machine.

    Parameters
    ----------
    machine_or_name : Machine or str
        The machine, or a name as `load_machine` takes.

    Returns
    -------
    SvgExplorer
        A widget; as the last expression of a cell it shows itself.

    Examples
    --------
    >>> panel = explorer("L96as_v4")
    >>> panel.controls["devices"].value = 2
    >>> panel.text.splitlines()[0]
    'L96as_v4: 96 CPUs in 2 nodes; 2 nvme with 62 queues'
    """
    machine = machine_or_name
    return SvgExplorer(load_machine(machine) if isinstance(machine, str) else machine)
