# SPDX-License-Identifier: GPL-2.0-only
"""The errors that groupcpus raises: all are `GroupCpusError`, which is a `ValueError`."""

__all__ = [
    "CpuListError",
    "FormatError",
    "GroupCpusError",
    "RequestError",
    "TopologyError",
    "VectorSpaceError",
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
