# SPDX-License-Identifier: GPL-2.0-only
"""A bound in time for what searches, and a word to those who wait for it."""

from collections.abc import Callable
from time import monotonic, process_time

__all__ = ["Patience"]


class Patience:
    """The seconds that an answer may take, over all its searches.

    They are the process's own: how busy the machine is does not decide what is found.

    Parameters
    ----------
    seconds : float
        How long all of it may take.
    waiting : callable, optional
        Called once with what is being done when two seconds have gone by.

    Examples
    --------
    >>> Patience(60).left("counting"), Patience(0).left("counting")
    (True, False)
    """

    QUIET = 2.0

    def __init__(self, seconds: float, waiting: Callable[[str], None] | None = None) -> None:
        self.start = monotonic()
        self.end = process_time() + seconds
        self.waiting = waiting

    def left(self, doing: str) -> bool:
        """Return whether there is time left; say what is being done if it takes long."""
        if self.waiting is not None and monotonic() - self.start > self.QUIET:
            self.waiting(doing)
            self.waiting = None
        return process_time() < self.end

    def part(self, share: float) -> "Patience":
        """Return the patience for a part, a share of what is left now.

        Examples
        --------
        >>> whole = Patience(60)
        >>> whole.part(0.5).end < whole.end
        True
        """
        some = Patience(max(0.0, self.end - process_time()) * share)
        some.start, some.waiting = self.start, self.waiting
        return some
