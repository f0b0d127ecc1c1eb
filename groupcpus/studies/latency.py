# SPDX-License-Identifier: GPL-2.0-only
"""What stacking costs: disks that wait for completions to be handled on few CPUs.

A small closed model.  A request spends a while in the disk, then waits for the CPU that handles the
queue's interrupt, and is completed there in `service` time on average; at once the next one is
sent.  A CPU completes one request at a time, and takes its disks either *in turn*, all alike, or
*in order*: a disk that was probed earlier first.

The load is equal in one of two ways: each *queue* of a disk has `depth` requests in flight, or each
*submitter* has, a CPU that submits to the disk.  A queue that two CPUs submit to then has twice as
many.  Which of the two a benchmark is depends on its jobs and on where they run.

What it leaves out: everything that CPUs do besides (the jobs that send the requests among it), the
limits of the disks and of the path to them, interrupts that bring several completions, polling,
and the scheduler.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from groupcpus.errors import RequestError, brief
from groupcpus.machines.run import Interrupt, Run

__all__ = [
    "LOADS",
    "SERVED",
    "disk_rates",
    "fitted_service",
    "handlers",
    "throughput",
    "worst_disk_loss",
]

SERVED = ("in order", "in turn")
LOADS = ("queue", "submitter")


def throughput(requests: int, service: float, device: float = 1.0) -> float:
    """Return the completions a time unit of a CPU that `requests` requests come back to.

    Parameters
    ----------
    requests : int
        Requests in flight that this CPU completes.
    service : float
        Mean time that it takes for one, exponentially distributed.
    device : float
        Mean time in the disk.

    Raises
    ------
    RequestError
        If a value is negative, or no time passes.

    Notes
    -----
    The machine repairman's model, by exact mean value analysis: a request that comes back finds
    what is there on average with one request less.  About ``requests / (service + device)`` when
    there are few, never above ``1 / service``.

    Examples
    --------
    >>> [round(throughput(requests, service=1, device=9), 3) for requests in (1, 2, 10, 40)]
    [0.1, 0.198, 0.832, 1.0]
    """
    if requests < 0 or service < 0 or device < 0 or not service + device:
        raise RequestError(
            f"requests {requests}, service {service}, device {device}: expected none below 0, and "
            "some time to pass"
        )
    waiting = rate = 0.0
    for count in range(1, requests + 1):
        response = service * (1 + waiting)
        rate = count / (response + device)
        waiting = rate * response
    return rate


def handlers(
    run: Run, queues: int | None = None, seed: int = 0, load: str = "queue"
) -> dict[str, list[int]]:
    """Return the CPUs that handle each disk's busy queues, disks in the order of probing.

    Parameters
    ----------
    run : Run
        What `simulate` gave.
    queues : int, optional
        How many queues of each disk are busy, drawn at random; all when left out.
    seed : int
        Another number draws others.
    load : {"queue", "submitter"}
        Whether a CPU is listed once for each queue, or for each CPU that submits to the queue.

    Raises
    ------
    RequestError
        If there is no disk, or one with fewer queues.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> run = simulate("D16plds_v6", revision="cluster", irqchip="x86")
    >>> handlers(run)["nvme0"], len(handlers(run, load="submitter")["nvme0"])
    ([2, 5, 8, 11, 13, 15], 16)
    """
    if load not in LOADS:
        raise RequestError(f"load {brief(load)}: expected one of {', '.join(LOADS)}")
    own: dict[str, list[Interrupt]] = {}
    for irq in run.interrupts:
        if irq.effective is not None:
            own.setdefault(irq.device, []).append(irq)
    if not own:
        raise RequestError(f"machine {run.machine.name}: no interrupts, no disks")
    if queues is not None:
        fewest = min(map(len, own.values()))
        if not 1 <= queues <= fewest:
            raise RequestError(f"queues {brief(queues)}: expected 1 to {fewest}")
        rng = random.Random(seed)
        own = {disk: rng.sample(irqs, queues) for disk, irqs in own.items()}
    return {
        disk: [
            cpu
            for irq in irqs
            if (cpu := irq.effective) is not None
            for _ in range(irq.submitters if load == "submitter" else 1)
        ]
        for disk, irqs in own.items()
    }


def disk_rates(
    handled: Mapping[str, Sequence[int]],
    *,
    depth: int,
    service: float,
    device: float = 1.0,
    served: str = "in order",
) -> dict[str, float]:
    """Return the completions a time unit of each disk.

    Parameters
    ----------
    handled : mapping of str to sequence of int
        For each disk, in the order of probing, the CPUs that handle its busy queues, as `handlers`
        returns them.
    depth : int
        Requests in flight for each of them.
    service, device : float
        As `throughput` takes them.
    served : {"in order", "in turn"}
        Whether a CPU prefers the disks probed earlier, or treats all alike.

    Notes
    -----
    *In turn* is exact.  *In order* takes the usual short cut: to a disk, the CPU seems slower by
    what the disks before it keep it busy.

    Examples
    --------
    Two disks on CPUs of their own, and on the same one:

    >>> disk_rates({"a": [0], "b": [1]}, depth=1, service=1)
    {'a': 0.5, 'b': 0.5}
    >>> disk_rates({"a": [0], "b": [0]}, depth=1, service=1, served="in turn")
    {'a': 0.4, 'b': 0.4}
    >>> rates = disk_rates({"a": [0], "b": [0]}, depth=1, service=1, served="in order")
    >>> {disk: round(rate, 3) for disk, rate in rates.items()}
    {'a': 0.5, 'b': 0.333}
    """
    if served not in SERVED:
        raise RequestError(f"served {served!r}: expected one of {', '.join(SERVED)}")
    on_cpu: dict[int, Counter[str]] = {}
    for disk, cpus in handled.items():
        for cpu in cpus:
            on_cpu.setdefault(cpu, Counter())[disk] += 1
    rates = dict.fromkeys(handled, 0.0)
    known: dict[tuple[int, ...], list[float]] = {}
    for queues in on_cpu.values():
        counts = tuple(queues.values())
        if counts not in known:
            known[counts] = _shares(counts, depth, service, device, served)
        for disk, rate in zip(queues, known[counts], strict=True):
            rates[disk] += rate
    return rates


def _shares(
    queues: Sequence[int], depth: int, service: float, device: float, served: str
) -> list[float]:
    """Return the completions of each disk on one CPU, on which it has so many queues."""
    if served == "in turn":
        each = throughput(sum(queues) * depth, service, device) / sum(queues)
        return [count * each for count in queues]
    rates = []
    idle = 1.0
    for count in queues:
        rate = throughput(count * depth, service / idle, device) if idle > 1e-12 else 0.0
        rates.append(rate)
        idle -= rate * service
    return rates


def worst_disk_loss(
    run: Run,
    *,
    depth: int,
    service: float,
    served: str = "in order",
    load: str = "queue",
    drawn: tuple[int, int] | None = None,
) -> float:
    """Return how far the slowest disk falls behind the average of all disks.

    Parameters
    ----------
    run : Run
        What `simulate` gave.
    depth, service, served
        As `disk_rates` takes them; times are in units of what a disk takes for a request.
    load : {"queue", "submitter"}
        What has `depth` requests in flight, see `handlers`.
    drawn : tuple of int, optional
        That many queues of each disk are busy; the mean of so many draws.  All when left out.

    Examples
    --------
    The sign of the patch's effect depends on the load:

    >>> from groupcpus import simulate
    >>> for load, depth, service in (("queue", 2, 0.093), ("submitter", 1, 0.16)):
    ...     for revision in ("cluster", "rotate-v2"):
    ...         run = simulate("L96as_v4", revision=revision)
    ...         loss = worst_disk_loss(run, depth=depth, service=service, load=load)
    ...         print(f"{load}, {revision}: {loss:.1%}")
    queue, cluster: 11.0%
    queue, rotate-v2: 5.5%
    submitter, cluster: 10.9%
    submitter, rotate-v2: 12.7%
    """
    queues, draws = (None, 1) if drawn is None else drawn
    losses = []
    for seed in range(draws):
        handled = handlers(run, queues, seed, load)
        rates = disk_rates(handled, depth=depth, service=service, served=served).values()
        losses.append(1 - min(rates) / fmean(rates))
    return fmean(losses)


def fitted_service(
    run: Run,
    loss: float,
    *,
    depth: int,
    served: str = "in order",
    load: str = "queue",
    most: float = 1.0,
) -> float | None:
    """Return the least service time, in device times, with which the slowest disk loses so much.

    Returns
    -------
    float or None
        None if no service time up to `most` does.
    """

    def lost(service: float) -> float:
        return worst_disk_loss(run, depth=depth, service=service, served=served, load=load)

    low, high = 0.0, 1e-3
    while lost(high) < loss:
        if high >= most:
            return None
        low, high = high, min(most, high * 1.1)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if lost(middle) < loss else (low, middle)
    return high
