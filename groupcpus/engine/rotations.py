# SPDX-License-Identifier: GPL-2.0-only
"""What the call counter rotates in the revisions that have one: small functions of numbers.

``rotate`` functions move groups between nodes or clusters after these were allotted in proportion
to their CPUs; ``deal`` functions say which groups of a node or cluster get one CPU more, and which
CPU is assigned first; ``counts`` functions how far a call advances the counter.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

__all__ = [
    "UINT_MAX",
    "Deal",
    "always",
    "deal_evenly",
    "deal_from_rotated_start",
    "deal_rotating",
    "deal_rotating_fixed",
    "never",
    "place_extras",
    "rotate_classes",
    "rotate_over_floor",
    "rotate_over_smallest",
    "unless_one",
]

UINT_MAX = 0xFFFFFFFF


class Deal(NamedTuple):
    """How the CPUs of one node or cluster are divided among its groups."""

    sizes: Sequence[int]
    """CPUs that each group gets, in group order."""
    first: int = 0
    """Position of the CPU that is assigned first."""


def deal_evenly(ncpus: int, ngroups: int, offset: int) -> Deal:
    """Give the first ``ncpus % ngroups`` groups one CPU more; the offset changes nothing.

    Source: ``assign_cpus_to_groups()``, lib/group_cpus.c, Linux 7.0; the same loop stands in
    ``__group_cpus_evenly()`` before.

    Examples
    --------
    >>> deal_evenly(8, 3, 0)
    Deal(sizes=[3, 3, 2], first=0)
    """
    share, extra = divmod(ncpus, ngroups)
    return Deal([share + 1] * extra + [share] * (ngroups - extra))


def deal_rotating(ncpus: int, ngroups: int, offset: int) -> Deal:
    """Rotate which groups get one CPU more, in 32-bit arithmetic that may wrap.

    When ``v + offset`` wraps inside a loop, the wrong number of groups may get one more.
    Source: "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking".

    Examples
    --------
    >>> deal_rotating(8, 3, 1).sizes
    [3, 2, 3]
    >>> deal_rotating(4, 3, 2**32 - 1).sizes  # 5 CPUs asked of 4
    [2, 2, 1]
    """
    share, extra = divmod(ncpus, ngroups)
    return Deal([share + ((v + offset & UINT_MAX) % ngroups < extra) for v in range(ngroups)])


def deal_rotating_fixed(ncpus: int, ngroups: int, offset: int) -> Deal:
    """Rotate which groups get one CPU more, the offset reduced first so that nothing wraps.

    Examples
    --------
    >>> deal_rotating_fixed(4, 3, 2**32 - 1).sizes
    [2, 1, 1]
    """
    return deal_rotating(ncpus, ngroups, offset % ngroups)


def deal_from_rotated_start(ncpus: int, ngroups: int, offset: int) -> Deal:
    """Rotate which groups get one CPU more and, when some do, the CPU that is assigned first.

    The first CPU moves by a little more than half the set a call, a step that meets every CPU
    before it repeats.

    Examples
    --------
    >>> deal_from_rotated_start(8, 3, 1)
    Deal(sizes=[3, 2, 3], first=5)
    >>> deal_from_rotated_start(8, 4, 1)
    Deal(sizes=[2, 2, 2, 2], first=0)
    """
    deal = deal_rotating_fixed(ncpus, ngroups, offset)
    if ncpus % ngroups == 0:
        return deal
    stride = ncpus // 2 + 1
    if ncpus % 2 == 0 and stride % 2 == 0:
        stride += 1
    return Deal(deal.sizes, offset % ncpus * stride % ncpus)


def rotate_over_floor(ncpus: Sequence[int], ngroups: Sequence[int], offset: int) -> list[int]:
    """Take back what exceeds each cluster's proportional floor and place it from a rotated start.

    Parameters
    ----------
    ncpus, ngroups : sequence of int
        CPUs and allotted groups of each cluster, in the order of the sort.
    offset : int
        The position where placing starts, modulo the number of clusters.

    Returns
    -------
    list of int
        The groups of each cluster, as many in all as before.

    Notes
    -----
    Source: "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking".

    Examples
    --------
    >>> [rotate_over_floor([4] * 5, [1, 1, 1, 2, 2], n) for n in (0, 1)]
    [[2, 1, 2, 1, 1], [1, 2, 1, 2, 1]]
    """
    numgrps, total = sum(ngroups), sum(ncpus)
    floor = [
        min(groups, max(1, numgrps * cpus // total))
        for cpus, groups in zip(ncpus, ngroups, strict=True)
    ]
    return place_extras(ncpus, ngroups, floor, offset)


def rotate_over_smallest(ncpus: Sequence[int], ngroups: Sequence[int], offset: int) -> list[int]:
    """Do the same over the smallest allotment of any cluster, as the first patch is said to.

    Source: rebuilt from the change log of "[PATCH v2] lib/group_cpus: rotate extra groups to avoid
    IRQ stacking".

    Examples
    --------
    Unequal clusters lose their proportions:

    >>> rotate_over_smallest([2, 8], [1, 4], 0)
    [2, 3]
    """
    return place_extras(ncpus, ngroups, [min(ngroups)] * len(ngroups), offset)


def place_extras(
    ncpus: Sequence[int],
    ngroups: Sequence[int],
    base: list[int],
    offset: int,
    stride: int | None = None,
) -> list[int]:
    """Place the groups that `base` leaves over: first in strides, then wherever there is room."""
    count = len(base)
    placed = list(base)
    extras = sum(ngroups) - sum(base)
    if stride is None:
        stride = count // extras if 0 < extras < count else 1
    start = offset % count
    for i in range(count):
        if not extras:
            break
        at = (start + i * stride) % count
        if placed[at] < ncpus[at]:
            placed[at] += 1
            extras -= 1
    while extras and any(map(int.__lt__, placed, ncpus)):
        for at in range(count):
            if extras and placed[at] < ncpus[at]:
                placed[at] += 1
                extras -= 1
    return placed


def rotate_classes(ncpus: Sequence[int], ngroups: Sequence[int], offset: int) -> list[int]:
    """Split what equally large nodes (or clusters) got evenly, the remainder from a rotated start.

    Examples
    --------
    >>> rotate_classes([8] * 6, [5, 5, 5, 5, 6, 6], 1)
    [5, 6, 5, 5, 6, 5]
    """
    spread = list(ngroups)
    for _, same in groupby(range(len(ncpus)), key=lambda at: ncpus[at]):
        places = list(same)
        count = len(places)
        share, left = divmod(sum(ngroups[at] for at in places), count)
        for at in places:
            spread[at] = share
        for i in range(left):
            spread[places[(offset % count + i * (count // left)) % count]] += 1
    return spread


def never(numgrps: int) -> int:
    """Return 0: a revision that has no counter."""
    return 0


def always(numgrps: int) -> int:
    """Return 1: every call counts."""
    return 1


def unless_one(numgrps: int) -> int:
    """Return 1, or 0 for a call with one group, which is no reason to rotate anything."""
    return int(numgrps != 1)
