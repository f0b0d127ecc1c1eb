# SPDX-License-Identifier: GPL-2.0-only
"""A reader's own machine beside the engine: which devices follow `group_cpus_evenly`, which not.

`compare` takes what `groupcpus.sources.load` gives: a capture, or text files together that tell the
topology and the interrupts' affinities.  Masks follow from the topology, so each is predicted and
held against the one that was found.  Effective CPUs depend on the order of requests since boot,
which nothing tells: for these it is said how many managed interrupts each CPU has, and whether any
order explains them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, counted
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import Call, Interrupt, Run, simulate
from groupcpus.observed.effective import EffectiveCpus, find_order, managed_loads
from groupcpus.observed.found import (
    FoundDevice,
    find_devices,
    irqchip_of,
    natural,
    nvme_parameter,
)
from groupcpus.observed.interleaving import Interleaving
from groupcpus.observed.judging import (
    FIXED,
    OFFSETS,
    ROTATING,
    VERDICTS,
    Explanation,
    Judge,
    Judged,
    Row,
    expected_revision,
    offsets_text,
)
from groupcpus.sources import Interrupt as ToldInterrupt
from groupcpus.sources import Loaded

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "OFFSETS",
    "VERDICTS",
    "WIDTH",
    "Comparison",
    "Explanation",
    "Judged",
    "Row",
    "as_found",
    "compare",
    "comparison_text",
    "machine_from_capture",
    "offsets_text",
    "what_if",
]

WIDTH = 100
MAX_OFFSETS = 65536
# Lines about what did not match; JSON has all of them.
MOST_DETAILS = 20


@dataclass(frozen=True)
class Comparison:
    """A machine as it was found, beside what the engine predicts.

    Attributes
    ----------
    loaded : Loaded
        What was found.
    expected : str or None
        The revision that a kernel of this release has; None: not told, or too old for any.
    irqchip : str or None
        The irqchip's name in `IRQCHIPS`; None: not known.
    devices : tuple of Judged
        In the order of their slots.
    others : tuple of Interrupt
        Interrupts of no device with queues.
    loads : dict of int to int
        Managed interrupts that each online CPU handles, by the effective affinities.
    order : Interleaving or None
        Whether an order of requests explains the managed interrupts' effective CPUs; None if
        there are none, or nothing is known of the irqchip.
    offsets_tried : int
        Values of the counter, from 0, that were tried for revisions that rotate.
    unknown : tuple of str
        What cannot be known from what was found, a sentence each.
    """

    loaded: Loaded
    expected: str | None
    irqchip: str | None
    devices: tuple[Judged, ...]
    others: tuple[ToldInterrupt, ...]
    loads: dict[int, int]
    order: Interleaving | None
    offsets_tried: int
    unknown: tuple[str, ...]

    @property
    def topology(self) -> Topology:
        """The machine's CPUs."""
        assert self.loaded.topology is not None  # compare() checks
        return self.loaded.topology

    @property
    def rows(self) -> tuple[Row, ...]:
        """All vectors of all devices."""
        return tuple(row for judged in self.devices for row in judged.rows)

    def __getitem__(self, name: str) -> Judged:
        for judged in self.devices:
            if judged.found.name == name:
                return judged
        names = ", ".join(judged.found.name for judged in self.devices) or "none"
        raise RequestError(f"device {brief(name)}: expected one of {names}")

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a vector.

        Columns: device, verdict, queue, name, irq, kind, affinity, predicted, match, effective,
        managed, why, effective_why.
        """
        import pandas as pd

        rows = [_fields(row) | {"verdict": judged.verdict} for judged, row in self._pairs()]
        columns = ["device", "verdict", "queue", "name", "irq", "kind", "affinity", "predicted"]
        columns += ["match", "effective", "managed", "why", "effective_why"]
        frame = pd.DataFrame(rows, columns=columns)
        return frame.astype({"queue": "Int64", "match": "boolean"})

    def _pairs(self) -> Iterator[tuple[Judged, Row]]:
        for judged in self.devices:
            for row in judged.rows:
                yield judged, row

    @cached_property
    def summary(self) -> "pd.DataFrame":
        """One row a device: device, driver, kind, queues, matched, verdict, revisions, why."""
        import pandas as pd

        columns = ["device", "driver", "kind", "queues", "matched", "verdict", "revisions", "why"]
        return pd.DataFrame(
            [
                (
                    judged.found.name,
                    judged.found.driver or "",
                    judged.found.kind,
                    len(judged.found.queues),
                    sum(row.match is True for row in judged.rows),
                    judged.verdict,
                    ", ".join(judged.revisions),
                    judged.why,
                )
                for judged in self.devices
            ],
            columns=columns,
        )

    def document(self) -> dict[str, Any]:
        """Give the result as JSON knows it."""
        return {
            "kernel": self.loaded.kernel,
            "arch": self.loaded.arch,
            "irqchip": self.irqchip,
            "expected": self.expected,
            "topology": self.topology.to_dict(),
            "cluster_source": self.loaded.cluster_source,
            "notes": list(self.loaded.notes),
            "offsets_tried": self.offsets_tried,
            "devices": [
                {
                    "device": judged.found.name,
                    "driver": judged.found.driver,
                    "slot": judged.found.slot,
                    "kind": judged.found.kind,
                    "verdict": judged.verdict,
                    "why": judged.why,
                    "numgrps": list(judged.numgrps),
                    "revisions": [
                        {
                            "revision": one.revision,
                            "matched": one.matched,
                            "of": one.total,
                            "offsets": [None if of is None else list(of) for of in one.offsets],
                        }
                        for one in judged.explanations
                    ],
                    "queues": [_fields(row) for row in judged.rows],
                }
                for judged in self.devices
            ],
            "other_irqs": [told.irq for told in self.others],
            "managed_per_cpu": dict(self.loads),
            "order": None if self.order is None else str(self.order),
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        return comparison_text(self)


def _fields(row: Row) -> dict[str, Any]:
    """Give a row's fields with CPU sets as cpulists."""
    cpus = {
        name: None if getattr(row, name) is None else str(getattr(row, name))
        for name in ("affinity", "predicted", "effective")
    }
    return {**vars(row), **cpus, "match": row.match}


def compare(loaded: Loaded, *, search_offsets: int = OFFSETS) -> Comparison:
    r"""Hold a machine's interrupts against what `group_cpus_evenly` gives on its topology.

    Parameters
    ----------
    loaded : Loaded
        As `groupcpus.sources.load` gives it: a capture, or several sources that tell the topology
        and the affinities of interrupts.
    search_offsets : int
        How many values of the call counter, from 0, to try for the revisions that rotate; 0 leaves
        these out.

    Returns
    -------
    Comparison
        A verdict on each device and on each of its vectors.

    Raises
    ------
    RequestError
        If the sources don't tell the machine's CPUs, or no interrupt, or `search_offsets` is out
        of range.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> comparison = compare(load(
    ...     "/sys/devices/system/cpu/online:0-7\n/sys/devices/system/cpu/possible:0-7\n"
    ...     "irq 30 affinity 0-7 effective 0 nvme0q0\nirq 31 affinity 0-2 effective 2 nvme0q1\n"
    ...     "irq 32 affinity 3-5 effective 5 nvme0q2\nirq 33 affinity 6-7 effective 7 nvme0q3\n",
    ...     arch="x86_64"))
    >>> disk = comparison["nvme0"]
    >>> disk.verdict, disk.revisions[:3]
    ('follows', ('numa', 'numa-single-pop', 'cluster'))
    """
    topology = loaded.topology
    if isinstance(search_offsets, bool) or not 0 <= search_offsets <= MAX_OFFSETS:
        raise RequestError(f"offsets {brief(search_offsets)}: expected 0 to {MAX_OFFSETS}")
    if topology is None:
        raise RequestError("compare: no source tells the CPUs of the machine; add lscpu -p")
    if not loaded.interrupts:
        raise RequestError(
            "compare: no source tells interrupts; add a capture or /proc/irq's files"
        )
    judge = Judge(loaded, topology, search_offsets)
    found, others = find_devices(loaded)
    judged = [judge.judge(device) for device in found]
    chip = irqchip_of(loaded)
    loads = managed_loads(judged, topology)
    effective = EffectiveCpus(topology, chip, judge.isolated, loads, judged)
    judged = [replace(one, rows=tuple(map(effective.explain, one.rows))) for one in judged]
    order = find_order(judged, topology, chip, judge.isolated)
    return Comparison(
        loaded,
        judge.expected,
        chip,
        tuple(judged),
        others,
        loads,
        order,
        search_offsets,
        tuple(_unknown(judged, loaded, chip)),
    )


def _unknown(judged: Sequence[Judged], loaded: Loaded, chip: str | None) -> Iterator[str]:
    """List what cannot be known."""
    managed = [row for one in judged for row in one.rows if row.managed]
    if managed:
        yield (
            "the history: in which order interrupts were requested since boot, and what was "
            "removed or went offline in between; effective CPUs depend on it"
        )
        flags = {told.managed for told in loaded.interrupts}
        if flags == {None}:
            yield (
                "whether interrupts are managed: only root may read that, so it is inferred from "
                "drivers' names and masks"
            )
    if any(set(one.revisions) & set(ROTATING) and one.numgrps != (1,) for one in judged):
        yield "the counter of revisions that rotate: offsets that give the same masks look alike"
    if chip is None:
        yield f"the irqchip of {loaded.arch or 'this architecture'}, so who picks effective CPUs"
    if loaded.cluster_source == "unknown":
        yield "the clusters: revisions that look at them are computed without any"
    if any(one.verdict == "moved" for one in judged) and loaded.irqbalance is None:
        yield "whether irqbalance runs"


def comparison_text(comparison: Comparison) -> str:
    r"""Tell the comparison in at most 100 columns: a line a device, then what did not match.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> text = comparison_text(compare(load(
    ...     "/sys/devices/system/cpu/online:0-3\n"
    ...     "irq 31 affinity 0-1 effective 1 nvme0q1\nirq 32 affinity 2-3 effective 3 nvme0q2\n")))
    >>> "nvme0" in text, max(map(len, text.splitlines())) <= WIDTH
    (True, True)
    """
    lines = [*_head(comparison), ""]
    lines += _device_lines(comparison)
    details = list(_details(comparison))
    if details:
        lines += ["", "What did not match:"]
        for text in details[:MOST_DETAILS]:
            lines += _fold(text)
        if more := len(details) - MOST_DETAILS:
            lines += [f"  and {more} more"] if more > 0 else []
    if any(row.managed and row.effective for row in comparison.rows):
        lines += ["", *_effective_lines(comparison)]
    if comparison.unknown:
        lines += ["", "What cannot be known from this:"]
        for text in comparison.unknown:
            lines += _fold(f"  {text}")
    return "\n".join(line.encode("ascii", "backslashreplace").decode() for line in lines)


def _head(comparison: Comparison) -> Iterator[str]:
    loaded, topology = comparison.loaded, comparison.topology
    nodes = sum(bool(cpus) for cpus in topology.nodes.values())
    expected = comparison.expected or "no revision known here"
    yield from _fold(
        f"{counted(len(topology.online), 'CPU')} online of {len(topology.possible)} possible, "
        f"{counted(nodes, 'node')}, clusters: {loaded.cluster_source}; "
        f"{loaded.arch or 'architecture not told'}, "
        f"irqchip {comparison.irqchip or 'not known'}; kernel {loaded.kernel or 'not told'}"
    )
    if loaded.kernel:
        yield from _fold(f"A kernel of this release should have {expected}.")
    if loaded.cmdline:
        yield from _fold(f"Command line: {' '.join(loaded.cmdline)}")
    for note in loaded.notes:
        yield from _fold(f"Note: {note}.")


def _device_lines(comparison: Comparison) -> Iterator[str]:
    devices = comparison.devices
    if not devices:
        yield "No device with queues was found."
    width = min(32, max((len(one.found.name) for one in devices), default=0))
    for one in devices:
        name = one.found.name
        verdict = one.verdict
        if verdict == "follows" and one.numgrps != (1,):
            fixed = [name for name in one.revisions if name in FIXED]
            verdict = f"follows {', '.join(fixed or one.revisions)}"
        queues = counted(len(one.found.queues), "queue")
        yield from _fold(f"{name:<{width}}  {queues:>10}  {verdict}: {one.why}", width + 16)
    rotating = [one for one in devices if one.explanations and one.numgrps != (1,)]
    if comparison.offsets_tried and rotating:
        yield ""
        yield f"Revisions that rotate, counter 0-{comparison.offsets_tried - 1}:"
        for one in rotating:
            for names, text in _rotations(one, comparison.offsets_tried):
                yield from _fold(f"{one.found.name:<{width}}  {names}: {text}", width + 4)
    if comparison.others:
        yield ""
        yield from _fold(
            f"{counted(len(comparison.others), 'more interrupt')} of no device with queues: "
            f"{CpuSet(told.irq for told in comparison.others if told.irq < 8192)}"
        )


def _rotations(judged: Judged, tried: int) -> Iterator[tuple[str, str]]:
    """Tell which counters explain a device, revisions that say the same together."""
    said: dict[str, list[str]] = {}
    for one in judged.explanations:
        if one.revision in ROTATING:
            if one.explains:
                text = "explained by " + " and ".join(offsets_text(of, tried) for of in one.offsets)
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
            yield f"{where}: mask {row.affinity}, predicted {predicted}"
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
    yield from _fold(f"Managed interrupts a CPU: {shares}")
    if comparison.order is not None:
        found = {
            True: "there is an order of requests since boot that gives all effective CPUs",
            False: "no order of requests since boot gives them all; devices that were removed, or "
            "CPUs that were offline for a time, could explain the rest",
            None: "the search for an order of requests that gives them all was given up",
        }[comparison.order.found]
        yield from _fold(f"Effective CPUs: {found}.")
    for row in comparison.rows:
        special = row.effective_why.startswith(("shut down", "off the isolated"))
        if special and not row.odd:
            yield from _fold(f"  {row.name}: effective {row.effective}, {row.effective_why}")


def _fold(text: str, indent: int = 4) -> list[str]:
    """Break a line at blanks, and cpulists behind their commas."""
    lines = [""]
    for piece in re.split(r"(?<= )|(?<=,)(?=[0-9])", text):
        while lines[-1].strip() and len(lines[-1]) + len(piece.rstrip()) > WIDTH:
            lines.append(" " * indent)
        lines[-1] += piece
        while len(lines[-1].rstrip()) > WIDTH:
            # A name that somebody made up, longer than a line.
            lines[-1], rest = lines[-1][:WIDTH], lines[-1][WIDTH:]
            lines.append(" " * indent + rest)
    return [line.rstrip() for line in lines]


def machine_from_capture(
    source: Comparison | Loaded, *, name: str = "capture", irqchip: str | None = None
) -> Machine:
    r"""Make a `Machine` of what was loaded, with the devices that call `group_cpus_evenly`.

    These are NVMe drives, virtio disks, MANA cards, loop devices, and others whose masks were
    found to follow; devices that spread in another way are left out.

    Parameters
    ----------
    source : Comparison or Loaded
        The machine.
    name : str
        What the machine is called.
    irqchip : str, optional
        A name in `IRQCHIPS`; the machine's own when left out.

    Raises
    ------
    RequestError
        If there is no topology, or the irqchip is neither known nor given.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> loaded = load("/sys/devices/system/cpu/online:0-3\n"
    ...     "irq 31 affinity 0-1 effective 1 nvme0q1\nirq 32 affinity 2-3 effective 3 nvme0q2\n")
    >>> machine_from_capture(loaded, irqchip="x86").devices
    (Device(name='nvme0', kind='nvme', io_queues=2, write_queues=0, poll_queues=0),)
    """
    comparison = source if isinstance(source, Comparison) else compare(source, search_offsets=0)
    loaded = comparison.loaded
    chip = irqchip or irqchip_of(loaded)
    if chip is None:
        raise RequestError(
            f"irqchip of {loaded.arch or 'an unknown architecture'}: not known, pass irqchip="
        )
    # Loop devices exist before disks are probed; in which order is not known from outside.
    loops = (disk for disk in loaded.queue_maps if re.fullmatch("loop[0-9]+", disk))
    devices = [Device(disk, "loop") for disk in sorted(loops, key=natural)]
    left_out = []
    for judged in comparison.devices:
        device = _as_device(judged.found, judged.numgrps, judged.calls_grouping, loaded)
        if device is None:
            left_out.append(judged.found.name)
        else:
            devices.append(device)
    notes = f"without {', '.join(left_out)}, which spread in another way" if left_out else ""
    return Machine(
        name,
        f"{len(comparison.topology.possible)} CPUs, {loaded.arch or 'unknown architecture'}",
        "arm64" if chip != "x86" else "x86_64",
        chip,
        comparison.topology,
        tuple(devices),
        f"loaded; kernel {loaded.kernel or 'not told'}",
        notes,
    )


def _as_device(
    found: FoundDevice, numgrps: tuple[int, ...], groups: bool, loaded: Loaded
) -> Device | None:
    """Turn what was found into a device that asks for as many groups."""
    if found.kind == "mana":
        return Device(found.name, "mana", max(1, len(found.queues)))
    if not groups:
        return None
    if found.kind != "nvme":
        return Device(found.name, found.kind, max(1, sum(numgrps)))
    poll = nvme_parameter(loaded, "poll_queues")
    if found.queue_count is not None:
        poll = min(poll, max(0, found.queue_count - 1 - sum(numgrps)))
    elif found.maps:
        poll = min(poll, max(0, len(found.maps) - sum(numgrps)))
    write = numgrps[0] if len(numgrps) > 1 else 0
    return Device(found.name, "nvme", sum(numgrps) + poll, write, poll)


def as_found(comparison: Comparison, *, irqchip: str | None = None) -> Run:
    """Give the managed interrupts as they were found as a `Run`, for pictures and figures.

    Parameters
    ----------
    comparison : Comparison
        The machine.
    irqchip : str, optional
        A name in `IRQCHIPS`; the machine's own when left out.

    Returns
    -------
    Run
        Its masks and effective CPUs are those that were found, not computed.
    """
    online = comparison.topology.online
    revision = get_revision(comparison.expected or "cluster")
    calls, interrupts = [], []
    for judged in comparison.devices:
        name = judged.found.name
        if not judged.calls_grouping:
            continue
        for kind, numgrps in zip(("default", "read"), judged.numgrps, strict=False):
            grouping = group_cpus_evenly(comparison.topology, numgrps, revision=revision)
            calls.append(Call(name, kind, numgrps, False, 0, grouping))
        for at, row in enumerate((row for row in judged.rows if row.managed), start=1):
            if row.affinity is None:
                continue
            cpu = row.effective.first if row.effective and row.affinity & online else None
            queue = at if row.queue is None else row.queue
            interrupts.append(Interrupt(name, queue, row.kind, row.affinity, cpu, 0))
    machine = machine_from_capture(comparison, name="as found", irqchip=irqchip)
    return Run(
        machine, revision, machine.irqchip, "as found", 0, 0, tuple(calls), tuple(interrupts), ()
    )


def what_if(
    source: Comparison | Loaded,
    *,
    revision: str | None = None,
    devices: int | None = None,
    queues: int | None = None,
    irqchip: str | None = None,
    **more: Any,
) -> Run:
    r"""Probe the same machine under another revision, with more disks or other queue counts.

    Parameters
    ----------
    source : Comparison or Loaded
        The machine.
    revision : str, optional
        The version of `group_cpus_evenly`; the kernel's own when left out, `cluster` if that is
        not known.
    devices, queues : int, optional
        How many of the main devices, with how many I/O queues each; as found when left out.  A
        machine that has none gets NVMe drives.
    irqchip : str, optional
        A name in `IRQCHIPS`; the machine's own when left out.
    **more
        What else `simulate` takes: ``probe``, ``spread_start``.

    Returns
    -------
    Run
        As if all devices had been probed at boot.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> loaded = load("/sys/devices/system/cpu/online:0-3\n"
    ...     "irq 31 affinity 0-1 effective 1 nvme0q1\nirq 32 affinity 2-3 effective 3 nvme0q2\n")
    >>> what_if(loaded, revision="rotate-v2", devices=3, queues=3, irqchip="x86").counts
    {0: 2, 1: 2, 2: 2, 3: 3}
    """
    loaded = source.loaded if isinstance(source, Comparison) else source
    machine = machine_from_capture(source, irqchip=irqchip)
    if devices is not None or queues is not None:
        if all(device.kind == "loop" for device in machine.devices):
            drive = Device("nvme0", "nvme", queues or len(machine.topology.possible))
            machine = replace(machine, devices=(*machine.devices, drive))
        machine = machine.with_devices(count=devices, io_queues=queues)
    if revision is None:
        revision = expected_revision(loaded.kernel) or "cluster"
    return simulate(machine, revision=revision, irqchip=irqchip, **more)
