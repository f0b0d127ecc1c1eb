# SPDX-License-Identifier: GPL-2.0-only
"""A bound for what searches, counted in work done, and a word to those who wait for it."""

from collections.abc import Callable
from time import monotonic, process_time

__all__ = ["Patience"]


class Patience:
    """The work that an answer may take, over all its searches.

    Work is counted, so that what is found does not depend on how fast a machine is: about one unit
    for each CPU and each group of a call, a microsecond or two.  The time is a guard alone, for
    machines that are much slower; a search that it ends says so like any other that gives up.

    Parameters
    ----------
    work : int
        How much all of it may take.
    waiting : callable, optional
        Called once with what is being done when two seconds have gone by.
    seconds : float
        The guard, in the process's own time.

    Examples
    --------
    >>> patience = Patience(20)
    >>> patience.left("counting", 15), patience.left("counting", 15)
    (True, False)
    """

    QUIET = 2.0

    def __init__(
        self, work: int, waiting: Callable[[str], None] | None = None, seconds: float = 60.0
    ) -> None:
        self.work = work
        self.waiting = waiting
        self.start = monotonic()
        self.end = process_time() + seconds

    def left(self, doing: str, work: int = 0) -> bool:
        """Spend work and return whether there was enough; say what is done if it takes long."""
        self.work -= work
        if self.waiting is not None and monotonic() - self.start > self.QUIET:
            self.waiting(doing)
            self.waiting = None
        return self.work >= 0 and process_time() < self.end

    def part(self, work: int) -> "Patience":
        """Return the patience for a part with a bound of its own, within the same time.

        Examples
        --------
        >>> whole = Patience(60)
        >>> whole.part(10).work, whole.work
        (10, 60)
        """
        some = Patience(min(work, self.work), self.waiting)
        some.start, some.end = self.start, self.end
        return some
