# SPDX-License-Identifier: GPL-2.0-only
"""What tests count to see that nothing is left behind."""

import gc

from matplotlib.figure import Figure


def figures() -> int:
    """Return how many figures are alive once all that can go has gone.

    One pass isn't enough: if a finalizer revives anything of what a pass has found, Python keeps
    all the rest of it for the next.
    """
    while gc.collect():
        pass
    return sum(isinstance(thing, Figure) for thing in gc.get_objects())
