# SPDX-License-Identifier: GPL-2.0-only
"""The errors that groupcpus raises: all are `GroupCpusError`, which is a `ValueError`."""

__all__ = [
    "CpuListError",
    "FormatError",
    "GroupCpusError",
    "RequestError",
    "TopologyError",
    "VectorSpaceError",
    "brief",
    "counted",
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
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural if there are several.

    Examples
    --------
    >>> counted(1, "CPU"), counted(0, "queue")
    ('1 CPU', '0 queues')
    """
    return f"{number} {noun}{'s' * (number != 1)}"
