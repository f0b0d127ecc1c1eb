# SPDX-License-Identifier: GPL-2.0-only
"""A comparison as text: a line a device, then what did not match, and what cannot be known."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import counted
from groupcpus.observed.compare import Comparison
from groupcpus.observed.folding import fold
from groupcpus.observed.judging import FIXED, ROTATING, offsets_text
from groupcpus.observed.problem import find_problem
from groupcpus.observed.verdicts import Judged
from groupcpus.sources.found import bus_order

__all__ = ["comparison_text"]

# Lines about what did not match; JSON has all of them.
MOST_DETAILS = 20

Text = TypeVar("Text", bound=Hashable)


def comparison_text(comparison: Comparison) -> str:
    r"""Return the comparison in at most 100 columns: is there a problem, and a line a device.

    Examples
    --------
    >>> from groupcpus.observed.compare import compare
    >>> from groupcpus.sources import load
    >>> text = comparison_text(compare(load(
    ...     "/sys/devices/system/cpu/online:0-3\n"
    ...     "irq 31 affinity 0-1 effective 1 nvme0q1\nirq 32 affinity 2-3 effective 3 nvme0q2\n")))
    >>> "nvme0" in text, max(map(len, text.splitlines())) <= 100
    (True, True)
    """
    lines = []
    if problem := find_problem(comparison):
        for text in problem.lines():
            lines += fold(text, len(text) - len(text.lstrip()) + 4)
        lines += [""]
    lines += [*_head(comparison), "", *_device_lines(comparison)]
    details = list(_details(comparison))
    if details:
        lines += ["", "What did not match:"]
        for text in details[:MOST_DETAILS]:
            lines += fold(text)
        if more := len(details) - MOST_DETAILS:
            lines += [f"  and {more} more"] if more > 0 else []
    if any(row.managed and row.effective for row in comparison.rows):
        lines += ["", *_effective_lines(comparison)]
    if comparison.unknown:
        lines += ["", "What cannot be known from this:"]
        for text in comparison.unknown:
            lines += fold(f"  {text}")
    return "\n".join(line.encode("ascii", "backslashreplace").decode() for line in lines)


def _head(comparison: Comparison) -> Iterator[str]:
    loaded, topology = comparison.loaded, comparison.topology
    nodes = sum(bool(cpus) for cpus in topology.nodes.values())
    expected = comparison.expected or "no revision known here"
    yield from fold(
        f"{counted(len(topology.online), 'CPU')} online of {len(topology.possible)} possible, "
        f"{counted(nodes, 'node')}, clusters: {loaded.cluster_source}; "
        f"{loaded.arch or 'architecture not known'}, "
        f"irqchip {comparison.irqchip or 'not known'}; kernel {loaded.kernel or 'not known'}"
    )
    if loaded.kernel:
        yield from fold(f"Kernels of this release have {expected}.")
    if loaded.cmdline:
        yield from fold(f"Command line: {' '.join(loaded.cmdline)}")
    for note in loaded.notes:
        yield from fold(f"Note: {note}.")


def _device_lines(comparison: Comparison) -> Iterator[str]:
    devices = comparison.devices
    if not devices:
        yield "No device with queues was found."
    alike = list(_alike(devices, _device_text))
    width = min(32, max((len(names) for names, _ in alike), default=0))
    for names, text in alike:
        yield from fold(f"{names:<{width}}  {text}", width + 16)
    rotating = [
        one
        for one in devices
        if one.verdict != "cannot be judged" and one.numgrps != (1,) and any(_rotations(one))
    ]
    if comparison.offsets_tried and rotating:
        tried = max(one.tried for device in rotating for one in device.explanations)
        yield ""
        yield f"Revisions that rotate, counter 0-{tried - 1}:"
        for names, lines in _alike(rotating, lambda one: tuple(_rotations(one))):
            for revisions, text in lines:
                yield from fold(f"{names:<{width}}  {revisions}: {text}", width + 4)
    if not devices and not any(one.actions for one in comparison.others):
        yield "No source names the interrupts: add /proc/interrupts."
    if comparison.others:
        yield ""
        yield from fold(
            f"{counted(len(comparison.others), 'more interrupt')} of no device with queues: "
            f"{CpuSet(told.irq for told in comparison.others if told.irq < 8192)}"
        )


def _device_text(judged: Judged) -> str:
    verdict = judged.verdict
    if verdict == "follows" and judged.numgrps != (1,):
        fixed = [name for name in judged.revisions if name in FIXED]
        verdict = f"follows {', '.join(fixed or judged.revisions)}"
    queues = counted(len(judged.found.queues), "queue")
    return f"{queues:>10}  {verdict}: {judged.why}"


def _alike(devices: Iterable[Judged], say: Callable[[Judged], Text]) -> Iterator[tuple[str, Text]]:
    """Put devices of which the same is to be said together."""
    names: dict[Text, list[str]] = {}
    for one in devices:
        names.setdefault(say(one), []).append(one.found.name)
    for text, several in names.items():
        several.sort(key=bus_order)
        if len(several) > 2:
            yield f"{several[0]} ... {several[-1]} ({len(several)})", text
        else:
            yield ", ".join(several), text


def _rotations(judged: Judged) -> Iterator[tuple[str, str]]:
    """Say which counters explain a device, revisions that say the same together."""
    said: dict[str, list[str]] = {}
    for one in judged.explanations:
        if one.revision in ROTATING:
            if one.explains:
                shown = (offsets_text(of, one.tried) for of in one.offsets)
                text = "explained by " + " and ".join(shown)
            elif set(judged.revisions) & set(FIXED):
                continue
            else:
                text = f"by none (at most {one.matched} of {one.total} masks)"
            said.setdefault(text, []).append(one.revision)
    for text, names in said.items():
        yield ", ".join(names), text


def _details(comparison: Comparison) -> Iterator[str]:
    """List masks and effective CPUs that are not as predicted."""
    for row in comparison.rows:
        where = f"  {row.name or f'irq {row.irq}'} (irq {row.irq})"
        if row.match is False:
            predicted = str(row.predicted) or "none"
            shown = f"mask {row.affinity}"
            if row.affinity is None:
                shown = f"handled by CPUs {row.counted}, so not with the mask"
            yield f"{where}: {shown}, predicted {predicted}"
        if row.odd:
            yield f"{where}: effective {row.effective}, {row.effective_why}"


def _effective_lines(comparison: Comparison) -> Iterator[str]:
    by_count: dict[int, list[int]] = {}
    for cpu, count in comparison.loads.items():
        by_count.setdefault(count, []).append(cpu)
    shares = "; ".join(
        f"{count} on {counted(len(cpus), 'CPU')} ({CpuSet(cpus)})"
        for count, cpus in sorted(by_count.items())
    )
    yield from fold(f"Managed interrupts a CPU: {shares}")
    if comparison.order is not None:
        found = {
            True: "there is an order of requests since boot that gives all effective CPUs",
            False: "no order of requests since boot gives them all; devices that were removed, or "
            "CPUs that were offline for a time, could explain the rest",
            None: "whether an order of requests since boot gives them all cannot be judged in "
            f"{counted(comparison.order.states, 'state')}",
        }[comparison.order.found]
        yield from fold(f"Effective CPUs: {found}.")
    for row in comparison.rows:
        special = row.effective_why.startswith(("shut down", "off the isolated"))
        if special and not row.odd:
            yield from fold(f"  {row.name}: effective {row.effective}, {row.effective_why}")
