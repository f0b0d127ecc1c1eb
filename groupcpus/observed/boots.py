# SPDX-License-Identifier: GPL-2.0-only
"""A recorded boot as a run: calls and requests in the order that was recorded."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from groupcpus.errors import RequestError
from groupcpus.machines.devices import Device
from groupcpus.machines.machine import Machine
from groupcpus.machines.probe import simulate
from groupcpus.machines.run import Run
from groupcpus.observed.recorded import RecordedStep, Recording
from groupcpus.observed.recordings import load_recording
from groupcpus.observed.replay import replay

__all__ = ["changes_of_device", "run_as_recorded"]


def run_as_recorded(recording: Recording | str | Path) -> Run:
    """Simulate a recorded boot, its calls and requests in the order in which they were made.

    Parameters
    ----------
    recording : Recording or str or Path
        What to simulate; a name or path as `load_recording` takes.

    Returns
    -------
    Run
        On x86, and where the first CPU of a mask is taken, with the effective CPUs that were
        recorded, unless the command line isolates CPUs.  With the translation service, what a
        device allocates while another one requests makes a difference that an order of requests
        does not tell.

    Raises
    ------
    RequestError
        If no order is known: none was logged, and none was found.

    Examples
    --------
    >>> run_as_recorded("life/x86-48cpu-6nodes-smt2-6x32-rotate-v2-first").summary.histogram
    {3: 10, 4: 28, 5: 10}
    """
    if not isinstance(recording, Recording):
        recording = load_recording(recording)
    found = replay(recording).interleaving
    if not found.found:
        raise RequestError(f"recording {recording.name}: the order of its requests is not known")
    devices = tuple(
        Device(
            device.name,
            "nvme",
            device.io_queues,
            write_queues=recording.write_queues,
            poll_queues=recording.poll_queues,
        )
        for device in recording.devices
    )
    machine = Machine(
        recording.name,
        recording.machine,
        recording.arch,
        recording.irqchip,
        recording.topology,
        devices,
        recording.source,
    )
    # Every logged boot made the calls for admin queues first.
    possible = len(recording.topology.possible)
    offsets = {device.name: device.spread_offset or 0 for device in recording.devices}
    calling = sorted(devices, key=lambda device: offsets[device.name])
    probe = [f"{device.name}:admin" for device in calling]
    for device in calling:
        probe += [f"{device.name}:{one.kind}" for one in device.queue_sets(possible)[1:]]
    return simulate(
        machine,
        revision=recording.revision,
        probe=probe,
        requests=list(_requests(found.steps)),
    )


def _requests(steps: tuple[RecordedStep, ...]) -> Iterator[str]:
    """Yield the device of each request, its admin queue's before the first other one."""
    known = set()
    for step in steps:
        if step.action == "request":
            if step.device not in known:
                known.add(step.device)
                yield step.device
            yield step.device


def changes_of_device(steps: tuple[RecordedStep, ...]) -> int:
    """Return how often a request is another device's than the one before it.

    Examples
    --------
    >>> from groupcpus.observed.recordings import load_recording
    >>> changes_of_device(load_recording("life/x86-96cpu-2nodes-smt2-6x62-rotate-v2").order)
    318
    """
    devices = [step.device for step in steps if step.action == "request"]
    return sum(before != after for before, after in pairwise(devices))
