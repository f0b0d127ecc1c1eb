# SPDX-License-Identifier: GPL-2.0-only
"""A run, or two side by side, as the text one would paste into a mail: plain ASCII, 72 columns."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import counted
from groupcpus.machines.run import Run

__all__ = ["WIDTH", "mail_text", "run_document"]

WIDTH = 72


def mail_text(before: Run, after: Run) -> str:
    """Tell what two runs do to the CPUs: a histogram with cpulists for each, then both compared.

    Parameters
    ----------
    before, after : Run
        Mostly the same machine under two revisions.

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
    lines = []
    same = before.machine == after.machine
    for name, run in (("Before", before), ("After", after)):
        if name == "Before" or not same:
            lines += [*_machine(run), ""]
        lines += [*_fold(f"{name} ({_setting(run)}):"), *_load(run), ""]
    lines += _comparison(before, after)
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


def _comparison(before: Run, after: Run) -> list[str]:
    """Put both runs' figures side by side, the bound and the distance from it last."""
    old, new = before.summary, after.summary
    rows: list[tuple[str, object, object]] = [
        ("IRQs", old.irqs, new.irqs),
        ("CPUs that serve any", old.used, new.used),
        ("  most possible, any grouping", old.most_used, new.most_used),
        ("fewest IRQs on a CPU", old.least, new.least),
        ("most IRQs on a CPU", old.greatest, new.greatest),
        ("  best with any grouping", old.best, new.best),
        ("  distance from it", old.excess, new.excess),
        ("  best with any irqchip", old.best_with_masks, new.best_with_masks),
        ("single-CPU IRQs", old.single, new.single),
        ("  most of them on a CPU", _most_single(before), _most_single(after)),
        ("most submitters a CPU completes for", old.submitters, new.submitters),
        ("  best with any grouping", old.best_submitters, new.best_submitters),
    ]
    mixed = zip(old.parallel.spread, new.parallel.spread, strict=True)
    rows += [
        (name, *figures)
        for name, figures in zip(("most IRQs on a CPU", "most submitters"), mixed, strict=True)
    ]
    lines = [f"{name:<36}{was:>10}{is_now:>10}" for name, was, is_now in rows]
    return [
        f"{'':<36}{'before':>10}{'after':>10}",
        *lines[:-2],
        f"disks in parallel, median of {new.parallel.orders} (range):",
        *(f"  {line[:34]}{line[36:]}" for line in lines[-2:]),
    ]


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
