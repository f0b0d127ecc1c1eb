# SPDX-License-Identifier: GPL-2.0-only
"""The errors that groupcpus raises: all are `GroupCpusError`, which is a `ValueError`."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "CpuListError",
    "FormatError",
    "GroupCpusError",
    "InterruptedSweepError",
    "RequestError",
    "TopologyError",
    "VectorSpaceError",
    "brief",
    "counted",
    "meant",
    "printable",
]


class GroupCpusError(ValueError):
    """Base of every error that groupcpus raises on purpose; its text is one sentence."""


class CpuListError(GroupCpusError):
    """A text or a collection of numbers that is no set of CPUs."""


class TopologyError(GroupCpusError):
    """A machine that cannot be: the parts of its topology contradict each other."""


class RequestError(GroupCpusError):
    """A question that cannot be asked: an unknown name, or a number out of its range."""


class VectorSpaceError(GroupCpusError):
    """A CPU has no interrupt vector left for a managed interrupt (the kernel's ``-ENOSPC``)."""


class InterruptedSweepError(GroupCpusError):
    """A sweep that could not be finished: a worker was killed, or the disk is full."""


class FormatError(GroupCpusError):
    """A file or text that does not have the form it should have.

    Parameters
    ----------
    where : str
        The file, and the line or field in it.
    what : str
        The value found and what was expected.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what

    def __reduce__(self) -> tuple[type["FormatError"], tuple[str, str]]:
        # BaseException would be rebuilt from the joined text alone.
        return type(self), (self.where, self.what)


def brief(value: object) -> str:
    """Return a value as an error's text shows it: on one line, printable, and short.

    Examples
    --------
    >>> brief("nvme0"), brief(1 << 99), len(brief("x" * 1000))
    ("'nvme0'", 'an integer of 100 bits', 62)
    """
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:57]}...")
    try:
        text = repr(value)
    except RecursionError:  # deeper than Python's stack
        text = f"a deeply nested {type(value).__name__}"
    except ValueError:  # an integer of more digits than Python prints is in it
        text = f"a {type(value).__name__} with a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural if there are several.

    Examples
    --------
    >>> counted(1, "CPU"), counted(0, "queue")
    ('1 CPU', '0 queues')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def meant(value: object, names: Iterable[str]) -> str:
    """Return a question to end an error with if a value is nearly one of the names, else nothing.

    Examples
    --------
    >>> meant("L96", ["L48s_v2", "L96as_v4"]), meant("rotatev2", ["numa", "rotate-v2"])
    ("; did you mean 'L96as_v4'?", "; did you mean 'rotate-v2'?")
    >>> meant("x" * 10_000, ["numa"]), meant(None, ["numa"])
    ('', '')
    """
    if not isinstance(value, str) or not 1 < len(value) <= 100:
        return ""
    known = {name.casefold(): name for name in names}
    word = value.casefold()
    begun = [name for name in known if name.startswith(word)]
    close = begun if len(begun) == 1 else get_close_matches(word, known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else ""


def printable(text: str) -> str:
    r"""Return a text as a terminal may get it: what is no printable character is escaped.

    Line ends stay.  Names from files may hold anything, and terminals obey control characters.

    Examples
    --------
    >>> printable("nvme0\x1b[2J\n\u202egood"), printable("caf\xe9")
    ('nvme0\\x1b[2J\n\\u202egood', 'caf\xe9')
    """
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )
