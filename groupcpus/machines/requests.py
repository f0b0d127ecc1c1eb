# SPDX-License-Identifier: GPL-2.0-only
"""The order in which the devices' interrupts are requested, which decides where they are placed.

A device allocates all its vectors, then requests them in turn: vector 0 first, then its queues'.
Disks probe in parallel, so the requests of several devices mix.  In logged boots they mixed
irregularly, differently each time; a random merge of the disks' own sequences does the same.  The
masks do not depend on it: they are made when vectors are allocated, see `groupcpus.machines.probe`.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from statistics import median_low
from typing import NamedTuple

from groupcpus.engine.cpuset import CpuSet, cpus_of
from groupcpus.engine.irqchips import Irqchip, Vector, VectorMatrix
from groupcpus.errors import RequestError, brief

__all__ = [
    "ORDERS",
    "REQUEST_ORDERS",
    "Allocation",
    "Parallel",
    "VectorWanted",
    "place",
    "place_at_random",
    "request_order",
]

REQUEST_ORDERS = ("device-by-device", "lockstep", "random-SEED")

# Random orders behind each figure for parallel probing: odd, so that the median is one of them.
ORDERS = 31

_RANDOM = re.compile(r"random(?:-([0-9]{1,9}))?", re.ASCII)


class VectorWanted(NamedTuple):
    """A vector that a device allocates: what for, on which CPUs, by which call."""

    kind: str
    """``admin`` or ``config`` before the queues' own, then ``default`` or ``read``."""
    mask: CpuSet
    spread_offset: int
    managed: bool


@dataclass(frozen=True)
class Allocation:
    """The vectors that a device allocates at once, in the order in which it requests them."""

    device: str
    vectors: tuple[VectorWanted, ...]


@dataclass(frozen=True)
class Parallel:
    """The same masks, their interrupts requested in many random orders.

    Attributes
    ----------
    irqs, submitters : tuple of int
        The most that a CPU handles, in each order; ascending.
    """

    irqs: tuple[int, ...]
    submitters: tuple[int, ...]

    def share(self, most: int) -> float:
        """Return the share of the orders in which no CPU handles more than `most` interrupts."""
        return sum(irqs <= most for irqs in self.irqs) / len(self.irqs)

    @property
    def orders(self) -> str:
        """How many orders they are, in words."""
        return f"{len(self.irqs)} random orders" if len(self.irqs) > 1 else "a random order"

    def __str__(self) -> str:
        return (
            f"{self.orders} of requests: max {_spread(self.irqs)} IRQs, "
            f"{_spread(self.submitters)} submitters"
        )

    @property
    def spread(self) -> tuple[str, str]:
        """Return the median of IRQs and of submitters, each with its range if it has one."""
        return _spread(self.irqs), _spread(self.submitters)


def _spread(figures: Sequence[int]) -> str:
    """Print a median, and the range around it."""
    middle, least, greatest = median_low(figures), min(figures), max(figures)
    return str(middle) if least == greatest else f"{middle} ({least}-{greatest})"


def request_order(requests: str | Iterable[str], vectors: Mapping[str, int]) -> list[str]:
    """Put the requests of several devices in order.

    Parameters
    ----------
    requests : {"device-by-device", "lockstep", "random-SEED"} or iterable of str
        One device after the other; all first vectors, then all second ones, and so on; a random
        merge of the devices' sequences, every merge being as likely; or the device of each request.
    vectors : mapping of str to int
        How many vectors each device requests; in the order in which they allocated them.

    Returns
    -------
    list of str
        Whose next vector is requested.

    Raises
    ------
    RequestError
        If there is no such order, or the devices named are not those that request.

    Notes
    -----
    Source: ``nvme_setup_irqs()`` and ``queue_request_irq()`` in drivers/nvme/host/pci.c, whose
    probe is asynchronous (``PROBE_PREFER_ASYNCHRONOUS``); Linux 6.12.

    Examples
    --------
    >>> request_order("device-by-device", {"nvme0": 2, "nvme1": 3})
    ['nvme0', 'nvme0', 'nvme1', 'nvme1', 'nvme1']
    >>> request_order("lockstep", {"nvme0": 2, "nvme1": 3})
    ['nvme0', 'nvme1', 'nvme0', 'nvme1', 'nvme1']
    >>> request_order("random-7", {"nvme0": 2, "nvme1": 3})
    ['nvme1', 'nvme0', 'nvme1', 'nvme0', 'nvme1']
    """
    own = [[device] * count for device, count in vectors.items()]
    if requests == "lockstep":
        return [device for device in chain(*zip_longest(*own)) if device is not None]
    order = list(chain(*own))
    if requests == "device-by-device":
        return order
    if isinstance(requests, str):
        found = _RANDOM.fullmatch(requests)
        if not found:
            raise RequestError(
                f"requests {brief(requests)}: expected {', '.join(REQUEST_ORDERS)}, "
                "or the device of each request"
            )
        names = list(vectors)
        merged = _random_merge(int(found[1] or 0), tuple(vectors.values()))
        return [names[at] for at in merged]
    if not isinstance(requests, Iterable):
        raise RequestError(f"requests {brief(requests)}: expected a name or a sequence of devices")
    given = list(requests)
    for device, count in vectors.items():
        if given.count(device) != count:
            raise RequestError(
                f"requests: {device} is named {given.count(device)} times, it has {count} vectors"
            )
    if len(given) != len(order):
        strangers = [device for device in given if device not in vectors]
        raise RequestError(f"requests: {brief(strangers[0])} requests no vectors")
    return given


@lru_cache(maxsize=256)
def _random_merge(seed: int, counts: tuple[int, ...]) -> tuple[int, ...]:
    """Merge as many sequences of these lengths at random: whose turn it is."""
    order = [at for at, count in enumerate(counts) for _ in range(count)]
    random.Random(seed).shuffle(order)
    return tuple(order)


def place(
    chip: Irqchip, allocations: Sequence[Allocation], order: Iterable[str]
) -> list[list[int | None]]:
    """Let an irqchip place the vectors of several devices, requested in this order.

    Returns
    -------
    list of list of int or None
        The effective CPUs of each allocation; a device allocates right before its first request.
    """
    at = {allocation.device: n for n, allocation in enumerate(allocations)}
    vectors = [_allocated(chip, allocation) for allocation in allocations]
    return _request(chip, vectors, [at[device] for device in order])


def place_at_random(
    chip: Irqchip, allocations: Sequence[Allocation], orders: int
) -> Iterator[list[list[int | None]]]:
    """Yield what `place` returns for each of the random orders from seed 0 on.

    An irqchip whose choice of managed interrupts does not depend on who has allocated what is asked
    to allocate once only; interrupts that are not managed may then go elsewhere than `place` says,
    or nowhere.
    """
    counts = tuple(len(allocation.vectors) for allocation in allocations)
    merges = (_random_merge(seed, counts) for seed in range(orders))
    if isinstance(chip, VectorMatrix):
        yield from _on_matrix(chip, allocations, merges)
        return
    allocated = []
    if not chip.charges_when_allocated:
        allocated = [list(_allocated(chip, allocation)) for allocation in allocations]
    for merge in merges:
        fork = chip.fork()
        vectors = [iter(own) for own in allocated] or [
            _allocated(fork, allocation) for allocation in allocations
        ]
        yield _request(fork, vectors, merge)


def _on_matrix(
    chip: VectorMatrix, allocations: Sequence[Allocation], merges: Iterable[Sequence[int]]
) -> Iterator[list[list[int | None]]]:
    """Place managed interrupts by `VectorMatrix`'s rule, with the candidates listed once.

    The orders stand beside every summary: 31 of them for 378 vectors take a third of the time that
    they take request by request, which halves what a mail text takes.  The tests hold both equal.
    """
    candidates = [
        [
            # The last one on a tie: min() takes the first of equals.
            tuple(reversed(cpus_of(chip.candidates(one.mask.mask, True)))) if one.managed else ()
            for one in allocation.vectors
        ]
        for allocation in allocations
    ]
    for merge in merges:
        handled = chip.managed_allocated[:]
        fewest = handled.__getitem__
        todo = [iter(own) for own in candidates]
        placed: list[list[int | None]] = [[] for _ in candidates]
        for at in merge:
            among = next(todo[at])
            if not among:
                placed[at].append(None)
                continue
            cpu = among[0] if len(among) == 1 else min(among, key=fewest)
            handled[cpu] += 1
            placed[at].append(cpu)
        yield placed


def _allocated(chip: Irqchip, allocation: Allocation) -> Iterator[Vector]:
    """Allocate a device's vectors when the first of them is asked for."""
    masks = [vector.mask for vector in allocation.vectors]
    yield from chip.allocate(masks, [vector.managed for vector in allocation.vectors])


def _request(
    chip: Irqchip, vectors: Sequence[Iterator[Vector]], order: Iterable[int]
) -> list[list[int | None]]:
    placed: list[list[int | None]] = [[] for _ in vectors]
    for at in order:
        placed[at].append(chip.request(next(vectors[at])))
    return placed
