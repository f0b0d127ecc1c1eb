# SPDX-License-Identifier: GPL-2.0-only
"""What may happen to a machine in use, and how it is written: ``offline 3; reset nvme0``."""

from collections.abc import Iterable
from typing import NamedTuple

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import CpuListError, RequestError, brief

__all__ = ["EVENTS", "Event", "cpus_in_order", "parse_events"]

_MAX_EVENTS = 1000
_MAX_TEXT = 1 << 16

# Each event, and what stands behind it.
EVENTS = {
    "offline": "CPUS",
    "online": "CPUS",
    "smt": "off|on",
    "reset": "DEVICE",
    "unbind": "DEVICE",
    "bind": "DEVICE",
    "suspend": "",
    "resume": "",
}


class Event(NamedTuple):
    """Something that happens to a machine in use."""

    action: str
    """A name in `EVENTS`."""
    cpus: tuple[int, ...] = ()
    """The CPUs of ``offline`` and ``online``, in the order in which they go."""
    argument: str = ""
    """The device, or ``off`` or ``on`` for ``smt``."""

    def __str__(self) -> str:
        ascending = list(self.cpus) == sorted(set(self.cpus))
        cpus = str(CpuSet(self.cpus)) if ascending else " ".join(map(str, self.cpus))
        return " ".join(word for word in (self.action, cpus, self.argument) if word)


def parse_events(text: str) -> tuple[Event, ...]:
    """Read events from a text.

    Parameters
    ----------
    text : str
        Events apart by semicolons, or on lines of their own.  CPUs are cpulists; several of them
        go in the order in which they stand.

    Raises
    ------
    RequestError
        If a part of the text is no event.

    Examples
    --------
    >>> [str(event) for event in parse_events("offline 4-7; reset nvme0; online 6 4 5 7")]
    ['offline 4-7', 'reset nvme0', 'online 6 4 5 7']
    """
    if not isinstance(text, str):
        raise RequestError(f"events {brief(text)}: expected a text such as 'offline 3; online 3'")
    if len(text) > _MAX_TEXT:
        raise RequestError(f"events: {len(text)} characters, at most {_MAX_TEXT} are read")
    parts = [part.strip() for part in text.replace("\n", ";").split(";") if part.strip()]
    if len(parts) > _MAX_EVENTS:
        raise RequestError(f"events: {len(parts)} events, at most {_MAX_EVENTS} are read")
    return tuple(map(_parse_event, parts))


def _parse_event(part: str) -> Event:
    action, *words = part.split()
    need = EVENTS.get(action)
    if need == "CPUS" and words:
        try:
            return Event(action, cpus_in_order(" ".join(words)))
        except RequestError as error:
            raise RequestError(f"event {brief(part)}: {error}") from None
    if need == "DEVICE" and len(words) == 1:
        return Event(action, argument=words[0])
    if need == "off|on" and words in (["off"], ["on"]):
        return Event(action, argument=words[0])
    if need == "" and not words:
        return Event(action)
    expected = ", ".join(f"{name} {needs}".strip() for name, needs in EVENTS.items())
    raise RequestError(f"event {brief(part)}: expected one of {expected}")


def cpus_in_order(cpus: int | str | Iterable[int]) -> tuple[int, ...]:
    """Return CPUs in the order in which they are named.

    Parameters
    ----------
    cpus : int, str, or iterable of int
        A CPU, several, or cpulists apart by spaces; each cpulist is ascending.

    Raises
    ------
    RequestError
        If they are no CPUs, none, or one is named twice.

    Examples
    --------
    >>> cpus_in_order("7 0-2"), cpus_in_order([3, 1]), cpus_in_order(5)
    ((7, 0, 1, 2), (3, 1), (5,))
    """
    order: tuple[int, ...]
    try:
        if isinstance(cpus, str):
            order = tuple(cpu for word in cpus.split() for cpu in CpuSet(word))
        else:
            order = (cpus,) if isinstance(cpus, int) else tuple(cpus)
        every = CpuSet(order)
    except CpuListError as error:
        raise RequestError(str(error)) from None
    except TypeError:
        raise RequestError(f"cpus {brief(cpus)}: expected CPUs") from None
    if not order or len(every) < len(order):
        raise RequestError(f"cpus {brief(cpus)}: expected at least one CPU, and each once")
    return order
