# SPDX-License-Identifier: GPL-2.0-only
"""A `Machine` of what was loaded: its topology, its irqchip, and the devices that showed."""

import re
from dataclasses import replace

from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.sources.combine import Loaded
from groupcpus.sources.found import (
    FoundDevice,
    bus_order,
    find_devices,
    find_mapped,
    irqchip_of,
    nvme_parameter,
)

__all__ = ["machine_of"]


def machine_of(
    loaded: Loaded,
    *,
    name: str = "loaded",
    devices: int | None = None,
    queues: int | None = None,
    irqchip: str | None = None,
) -> Machine:
    r"""Return the machine that sources show; what they do not tell is taken, and noted.

    Parameters
    ----------
    loaded : Loaded
        What the sources say.
    name : str
        What the machine is called.
    devices, queues : int, optional
        How many of the main devices, with how many I/O queues each; as found when left out, else
        one NVMe drive with a queue for each CPU.
    irqchip : str, optional
        A name in `IRQCHIPS`; what the sources show when left out.

    Raises
    ------
    RequestError
        If no source names the CPUs, or a number is none that can be.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> machine = machine_of(load("NUMA node0 CPU(s): 0-3\n"), devices=2, queues=3)
    >>> [(device.name, device.io_queues) for device in machine.devices]
    [('nvme0', 3), ('nvme1', 3)]
    """
    if loaded.topology is None:
        raise RequestError(f"{name}: no source names the CPUs: add lscpu -e or -p, for example")
    machine = loaded.machine
    if machine is None:
        machine = _assembled(loaded, loaded.topology, name, irqchip)
    elif irqchip is not None:
        machine = replace(machine, irqchip=irqchip)
    if not any(device.kind != "loop" for device in machine.devices):
        count = len(loaded.topology.possible)
        machine = replace(machine, devices=(*machine.devices, Device("nvme0", "nvme", count)))
        if queues is None:
            machine = _noted(
                machine, f"no source has the devices: one NVMe drive with {count} queues is taken"
            )
    if devices is not None or queues is not None:
        machine = machine.with_devices(count=devices, io_queues=queues)
    return machine


def _noted(machine: Machine, note: str) -> Machine:
    return replace(machine, notes="; ".join(filter(None, (machine.notes, note))))


def _assembled(loaded: Loaded, topology: Topology, name: str, irqchip: str | None) -> Machine:
    chip = irqchip or irqchip_of(loaded)
    notes = list(loaded.notes)
    if chip is None and loaded.arch is None:
        chip = "x86"
        notes.append("no source has the architecture: the irqchip is taken to be x86's")
    elif chip is None:
        chip = "gicv3"
        notes.append(
            f"the irqchip of {loaded.arch} is not known: the first CPU of a mask is taken, as "
            "gicv3 does"
        )
    found, _ = find_devices(loaded)
    found += tuple(find_mapped(loaded, found))
    own = [device for device in (_device(one, loaded) for one in found) if device]
    shown = {device.name for device in own}
    own += [
        Device(name, "nvme", default + read + poll, default if read else 0, poll)
        for name, (default, read, poll) in loaded.nvme_queues.items()
        if name not in shown and default
    ]
    left_out = [one.name for one in found if _device(one, loaded) is None]
    if left_out:
        few = ", ".join(left_out[:5]) + ", ..." * (len(left_out) > 5)
        notes.append(f"without {few}, whose interrupts are not spread like these")
    loops = sorted((disk for disk in loaded.queue_maps if _LOOP.fullmatch(disk)), key=bus_order)
    own = [Device(disk, "loop") for disk in loops] + own
    return Machine(
        name,
        f"{len(topology.possible)} CPUs, {loaded.arch or 'unknown architecture'}",
        "x86_64" if chip == "x86" else "arm64",
        chip,
        topology,
        tuple(own),
        f"loaded; kernel {loaded.kernel or 'not told'}",
        "; ".join(notes),
    )


_LOOP = re.compile("loop[0-9]+", re.ASCII)


def _device(found: FoundDevice, loaded: Loaded) -> Device | None:
    """Return a device with the queues that its interrupts show; None if its driver spreads else."""
    if found.kind == "mana":
        return Device(found.name, "mana", max(1, len(found.queues)))
    if not found.spreads:
        return None
    irqs = len(found.queues) or len(found.vectors)
    if found.kind != "nvme":
        return Device(found.name, found.kind, irqs)
    poll = nvme_parameter(loaded, "poll_queues")
    if found.queue_count is not None:
        poll = min(poll, max(0, found.queue_count - 1 - irqs))
    elif found.maps:
        poll = min(poll, max(0, len(found.maps) - irqs))
    return Device(found.name, "nvme", irqs + poll, nvme_parameter(loaded, "write_queues"), poll)
