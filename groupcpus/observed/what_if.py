# SPDX-License-Identifier: GPL-2.0-only
"""A machine that was compared as one to compute with: as it was found, and what if."""

import re
from dataclasses import replace
from typing import Any

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import get_revision
from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Call, Interrupt, Run
from groupcpus.observed.compare import Comparison, compare
from groupcpus.observed.judging import expected_revision
from groupcpus.observed.verdicts import Judged
from groupcpus.sources import Loaded
from groupcpus.sources.found import FoundDevice, bus_order, irqchip_of, nvme_parameter

__all__ = ["as_found", "machine_from_capture", "what_if"]


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
    loaded = source.loaded if isinstance(source, Comparison) else source
    if loaded.topology is None:
        raise RequestError("no source says which CPUs the machine has; add lscpu -p, for example")
    chip = irqchip or irqchip_of(loaded)
    if chip is None:
        raise RequestError(
            f"irqchip of {loaded.arch or 'an unknown architecture'}: not known, pass irqchip="
        )
    # Loop devices exist before disks are probed; in which order is not known from outside.
    loops = (disk for disk in loaded.queue_maps if re.fullmatch("loop[0-9]+", disk))
    devices = [Device(disk, "loop") for disk in sorted(loops, key=bus_order)]
    left_out = []
    for judged in _judged(source):
        device = _as_device(judged.found, judged.numgrps, judged.calls_grouping, loaded)
        if device is None:
            left_out.append(judged.found.name)
        else:
            devices.append(device)
    notes = f"without {', '.join(left_out)}, which spread in another way" if left_out else ""
    return Machine(
        name,
        f"{len(loaded.topology.possible)} CPUs, {loaded.arch or 'unknown architecture'}",
        "arm64" if chip != "x86" else "x86_64",
        chip,
        loaded.topology,
        tuple(devices),
        f"loaded; kernel {loaded.kernel or 'not known'}",
        notes,
    )


def _judged(source: Comparison | Loaded) -> tuple[Judged, ...]:
    if isinstance(source, Comparison):
        return source.devices
    return compare(source, search_offsets=0).devices if source.interrupts else ()


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
    """Return the managed interrupts as they were found as a `Run`, for pictures and figures.

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
            if row.mask is None:
                continue
            cpu = row.effective.first if row.effective and row.mask & online else None
            queue = at if row.queue is None else row.queue
            interrupts.append(Interrupt(name, queue, row.kind, row.mask, cpu, 0))
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
