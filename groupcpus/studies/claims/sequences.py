# SPDX-License-Identifier: GPL-2.0-only
"""Every order in which disks can make their calls."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from groupcpus.machines.bounds import takes_first
from groupcpus.studies.claims.trials import (
    PROBES,
    RANDOM_ORDERS,
    Outcome,
    Trial,
    grouping_of,
    in_words,
    machine_named,
    modulo,
    placed,
)

__all__ = ["in_sequences", "named_first", "probe_sequences", "random_share", "sequence_name"]


def probe_sequences(devices: int) -> list[str]:
    """List every order in which disks can make their two calls, as far as it matters.

    Equal disks are exchangeable, so an order is known by which calls are for an admin queue (A) and
    which for I/O queues (I); each I follows an A of its own.  There are as many as the Catalan
    number says, 132 for 6 disks.

    Examples
    --------
    >>> probe_sequences(2)
    ['AAII', 'AIAI']
    """

    def extend(admin: int, io: int) -> Iterator[str]:
        if not admin and not io:
            yield ""
        if admin:
            yield from (f"A{rest}" for rest in extend(admin - 1, io))
        if io > admin:
            yield from (f"I{rest}" for rest in extend(admin, io - 1))

    return list(extend(devices, devices))


def named_first(sequences: list[str]) -> list[str]:
    """Put the sequences that have a name before the others."""
    return sorted(sequences, key=lambda sequence: sequence_name(sequence) not in PROBES)


def sequence_name(sequence: str) -> str:
    """Return what `simulate` calls a sequence, or its calls in words.

    Examples
    --------
    >>> sequence_name("AIAI"), sequence_name("AAIAII")
    ('interleaved', '2 admin, I/O, admin, 2 I/O')
    """
    devices = len(sequence) // 2
    if sequence == "A" * devices + "I" * devices:
        return "admin-first"
    if sequence == "AI" * devices:
        return "interleaved"
    runs = [(call, len(list(calls))) for call, calls in groupby(sequence)]
    words = {"A": "admin", "I": "I/O"}
    return ", ".join(f"{count} {words[call]}" if count > 1 else words[call] for call, count in runs)


def in_sequences(
    machine: str, starts: int, value: Callable[[dict[int, int]], Any], note: str = ""
) -> Outcome:
    """Compute a value of rotate-v2 for every probe sequence and start of the counter.

    Where the order of requests makes a difference, it is tried for the sequences with a name.
    """
    disks = machine_named(machine).devices
    orders = ("device-by-device", "lockstep", *RANDOM_ORDERS)
    if takes_first(machine_named(machine).irqchip):
        orders = orders[:1]
    trials = []
    for order in orders:
        for sequence in named_first(probe_sequences(len(disks))):
            name = sequence_name(sequence)
            if order != "device-by-device" and name not in PROBES:
                break
            for start in range(starts):
                offsets = [start + at for at, call in enumerate(sequence) if call == "I"]
                queues = disks[0].io_queues
                groupings = tuple(grouping_of(machine, "rotate-v2", queues, at) for at in offsets)
                setting = f"order {name}" + (f", {in_words(order)}" if len(orders) > 1 else "")
                trials.append(Trial(setting, value(placed(machine, groupings, order)), start))
    return Outcome(tuple(trials), modulo(starts), note)


def random_share(trials: Iterable[Trial], asserted: Any) -> str:
    """Say in how many of the random orders of requests a value comes out."""
    found = [trial.value == asserted for trial in trials if "random" in trial.setting]
    return f"Of {len(found)} runs with requests in a random order, {sum(found)} give it."
