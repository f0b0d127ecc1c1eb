# SPDX-License-Identifier: GPL-2.0-only
"""Runs side by side, as the text one would paste into a mail: plain ASCII, 72 columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import RequestError, counted
from groupcpus.machines.run import Run

__all__ = ["MOST_RUNS", "ORDER", "WIDTH", "mail_text", "run_document"]

WIDTH = 72
ORDER = ("before", "after", "third", "fourth", "fifth", "sixth")
"""What runs side by side are called."""
MOST_RUNS = len(ORDER)
# Columns that fit beside what they are about.
_COLUMNS = 3


def mail_text(*runs: Run) -> str:
    """Return what runs do to the CPUs: a histogram with cpulists for each, then all compared.

    Parameters
    ----------
    *runs : Run
        Mostly the same machine under two revisions, at most six.

    Returns
    -------
    str
        Lines of at most 72 ASCII characters; the last one ends without a newline.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> runs = [simulate("L96as_v4", revision=name) for name in ("cluster", "rotate-v2")]
    >>> print(mail_text(*runs))  # doctest: +ELLIPSIS
    L96as_v4: 96 CPUs in 2 nodes; 6 nvme with 62 queues
    <BLANKLINE>
    Before (cluster, irqchip x86):
      68 CPUs serve 3 IRQs: ...
      28 CPUs serve 6 IRQs: ...
      nodes 0-1: 186 IRQs each, on 48 of 48 CPUs
      168 single-CPU IRQs on 28 CPUs: ...
    ...
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise RequestError(f"{counted(len(runs), 'run')}: expected 1 to {MOST_RUNS}")
    lines = []
    named = list(zip(ORDER, runs, strict=False))
    same = all(run.machine == runs[0].machine for run in runs)
    for at, (name, run) in enumerate(named):
        if not at or not same:
            lines += [*_machine(run), ""]
        lines += [*_fold(f"{name.capitalize()} ({_setting(run)}):"), *_load(run), ""]
    # Tables of about as many columns each.
    tables = -(-len(named) // _COLUMNS)
    for first in range(0, len(named), columns := -(-len(named) // tables)):
        lines += [*([""] if first else []), *_comparison(dict(named[first : first + columns]))]
    return "\n".join(lines)


def run_document(run: Run) -> dict[str, Any]:
    """Give a run as a document for JSON: its setting, its figures and every interrupt.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> document = run_document(simulate("D16plds_v6", revision="rotate-v2"))
    >>> document["summary"]["histogram"], document["irqs"][0]["affinity"]
    ({0: 8, 1: 4, 2: 4}, '0-2')
    """
    summary = asdict(run.summary)
    return {
        "revision": run.revision.name,
        "irqchip": run.irqchip,
        "probe": run.probe if isinstance(run.probe, str) else list(run.probe),
        "requests": run.requests if isinstance(run.requests, str) else list(run.requests),
        "spread_start": run.spread_start,
        "summary": {key: value for key, value in summary.items() if key != "title"},
        "irqs_per_cpu": dict(run.counts),
        "submitters_per_cpu": dict(run.submitters),
        "irqs": [
            {
                "device": irq.device,
                "queue": irq.queue,
                "kind": irq.kind,
                "affinity": str(irq.affinity),
                "effective": irq.effective,
                "spread_offset": irq.spread_offset,
            }
            for irq in run.interrupts
        ],
    }


def _machine(run: Run) -> list[str]:
    """Head a report: the machine, and how many devices of which kind it has."""
    machine = run.machine
    nodes = [cpus for cpus in machine.topology.nodes.values() if cpus]
    kinds: dict[tuple[str, int], int] = {}
    for device in machine.devices:
        kind = (device.kind, device.io_queues)
        kinds[kind] = kinds.get(kind, 0) + 1
    devices = ", ".join(
        f"{count} {kind} with {counted(queues, 'queue')}" for (kind, queues), count in kinds.items()
    )
    cpus = counted(len(machine.topology.online), "CPU")
    offline = len(machine.topology.possible - machine.topology.online)
    more = f" ({offline} more offline)" if offline else ""
    where = counted(len(nodes), "node")
    return _fold(f"{machine.name}: {cpus}{more} in {where}; {devices or 'no devices'}")


def _setting(run: Run) -> str:
    """Tell what a run assumes; probe order and counter only when some call took an offset."""
    parts = [run.revision.name, f"irqchip {run.irqchip}"]
    if any(call.ticked for call in run.calls):
        parts.append(run.probe if isinstance(run.probe, str) else "explicit probe order")
        parts.append(f"counter from {run.spread_start}")
    if run.requests != "device-by-device":
        parts.append(f"requests {run.requests if isinstance(run.requests, str) else 'as given'}")
    return ", ".join(parts)


def _load(run: Run) -> Iterator[str]:
    """List who serves how many interrupts: CPUs, nodes, and those that had no choice."""
    topology = run.machine.topology
    by_irqs: dict[int, list[int]] = {}
    for cpu in topology.online:
        by_irqs.setdefault(run.counts[cpu], []).append(cpu)
    for irqs, cpus in sorted(by_irqs.items()):
        serve = "serves" if len(cpus) == 1 else "serve"
        what = counted(irqs, "IRQ") if irqs else "none"
        yield from _fold(f"  {counted(len(cpus), 'CPU')} {serve} {what}:", CpuSet(cpus))

    alike: dict[tuple[int, int, int], list[int]] = {}
    for node, members in topology.nodes.items():
        counts = [run.counts[cpu] for cpu in members & topology.online]
        if counts:
            key = (sum(counts), sum(map(bool, counts)), len(counts))
            alike.setdefault(key, []).append(node)
    for (irqs, used, total), nodes in alike.items():
        # Node ids make ranges as CPU numbers do.
        which, each = ("nodes", " each") if len(nodes) > 1 else ("node", "")
        yield from _fold(
            f"  {which} {CpuSet(nodes)}: {counted(irqs, 'IRQ')}{each}, on {used} of "
            f"{counted(total, 'CPU')}"
        )

    hot = [irq.effective for irq in run.interrupts if len(irq.affinity) == 1]
    hot_cpus = CpuSet(cpu for cpu in set(hot) if cpu is not None)
    if hot_cpus:
        yield from _fold(
            f"  {counted(sum(cpu is not None for cpu in hot), 'single-CPU IRQ')} on "
            f"{counted(len(hot_cpus), 'CPU')}:",
            hot_cpus,
        )
    for device, queues in run.lost.items():
        yield from _fold(
            f"  {device} goes without {counted(queues, 'queue')}: a mask was empty, so its vector "
            "was refused, and the driver asked for fewer"
        )
    down = sum(irq.effective is None for irq in run.interrupts)
    if down:
        yield f"  {counted(down, 'IRQ')} shut down: no CPU of the mask is online"


def _comparison(runs: Mapping[str, Run]) -> list[str]:
    """Put the figures of runs side by side, the bound and the distance from it last."""
    found = [(run, run.summary) for run in runs.values()]
    rows: list[tuple[str, list[object]]] = [
        ("IRQs", [one.irqs for _, one in found]),
        ("CPUs that serve any", [one.used for _, one in found]),
        ("  most possible, any grouping", [one.most_used for _, one in found]),
        ("fewest IRQs on a CPU", [one.least for _, one in found]),
        ("most IRQs on a CPU", [one.greatest for _, one in found]),
        ("  best with any grouping", [one.best for _, one in found]),
        ("  distance from it", [one.excess for _, one in found]),
        ("  best with any irqchip", [one.best_with_masks for _, one in found]),
        ("single-CPU IRQs", [one.single for _, one in found]),
        ("  most of them on a CPU", [_most_single(run) for run, _ in found]),
        ("most submitters a CPU completes for", [one.submitters for _, one in found]),
        ("  best with any grouping", [one.best_submitters for _, one in found]),
    ]
    parallel = [one.parallel for _, one in found]
    mixed = zip(*(one.spread for one in parallel), strict=True)
    return [
        _row("", list(runs)),
        *(_row(name, figures) for name, figures in rows),
        f"disks in parallel, median of {parallel[-1].orders} (range):",
        *(
            _row(f"  {name}"[:36], figures)
            for name, figures in zip(("most IRQs on a CPU", "most submitters"), mixed, strict=True)
        ),
    ]


def _row(name: str, figures: Sequence[object]) -> str:
    return f"{name:<36}" + "".join(f"{figure!s:>10}" for figure in figures)


def _most_single(run: Run) -> int:
    singles: dict[int | None, int] = {}
    for irq in run.interrupts:
        if len(irq.affinity) == 1 and irq.effective is not None:
            singles[irq.effective] = singles.get(irq.effective, 0) + 1
    return max(singles.values(), default=0)


def _fold(text: str, cpus: Iterable[int] | None = None) -> list[str]:
    """Break a line at spaces, and a cpulist that follows it behind its commas."""
    # Names of a reader's own machines and revisions may be anything.
    text = text.encode("ascii", "backslashreplace").decode()
    indent = " " * (len(text) - len(text.lstrip()))
    lines = wrap(text, WIDTH, subsequent_indent=indent + "    ") or [""]
    if cpus is None:
        return lines
    ranges = str(CpuSet(cpus)).split(",")
    pieces = [f"{piece}," for piece in ranges[:-1]] + ranges[-1:]
    lines[-1] += " "
    for piece in pieces:
        if len(lines[-1]) + len(piece) > WIDTH:
            lines.append(indent + "    ")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
