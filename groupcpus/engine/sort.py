# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's ``sort()`` (lib/sort.c): a bottom-up heapsort that is *not stable*.

`group_cpus_evenly` visits nodes and clusters in the order that this sort leaves them in, so the
order of equal keys decides which queue gets which CPUs.  There are two variants:

``single-pop``
    Up to Linux 6.8 or so: the root of the heap is taken off one at a time.
``double-pop``
    From Linux 6.9 or so on: the two greatest elements are taken off together.

A third one, ``stable``, is in no kernel: it keeps equal keys in order, for comparison.
"""

from collections.abc import Sequence
from operator import index

from groupcpus.errors import RequestError, brief

__all__ = ["VARIANTS", "heapsort_order"]

VARIANTS = ("double-pop", "single-pop", "stable")


def heapsort_order(keys: Sequence[int], variant: str = "double-pop") -> list[int]:
    """Sort positions by their keys as the kernel's ``sort()`` does.

    Parameters
    ----------
    keys : sequence of int
        The key of each element; compared by their difference.
    variant : {"double-pop", "single-pop", "stable"}
        Which of the kernel's two sorts, or one that keeps equal keys in order.

    Returns
    -------
    list of int
        The positions in `keys`, in the order the sort leaves them.

    Raises
    ------
    RequestError
        If the keys are no whole numbers, or there is no such variant.

    Notes
    -----
    Source: ``sort_r()`` in lib/sort.c, Linux 6.12 (double-pop) and 6.1 (single-pop).

    Examples
    --------
    Equal keys don't keep their order, and the two sorts differ:

    >>> heapsort_order([8, 8, 8, 8, 8, 8])
    [1, 3, 4, 5, 2, 0]
    >>> heapsort_order([8, 8, 8, 8, 8, 8], "single-pop")
    [1, 2, 3, 4, 5, 0]
    >>> heapsort_order([3, 1, 2])
    [1, 2, 0]
    """
    if variant not in VARIANTS:
        raise RequestError(f"sort {brief(variant)}: expected {' or '.join(VARIANTS)}")
    try:
        numbers = tuple(map(index, keys))
    except TypeError:
        raise RequestError(f"keys {brief(keys)}: expected whole numbers") from None
    heap = list(range(len(numbers)))
    if variant == "stable":
        return sorted(heap, key=numbers.__getitem__)
    for root in reversed(range(len(heap) // 2)):
        _sift_down(heap, numbers, root, len(heap), variant)
    if variant == "single-pop":
        _pop_one_by_one(heap, numbers)
    else:
        _pop_in_pairs(heap, numbers)
    return heap


def _sift_down(heap: list[int], keys: Sequence[int], root: int, size: int, variant: str) -> None:
    """Move the element at `root` down to its place in ``heap[root:size]``.

    Bottom-up: first follow the greater children to a leaf, then climb to where it belongs.
    """
    left_wins_ties = variant == "single-pop"
    path = root
    while (right := 2 * path + 2) < size:
        difference = keys[heap[right - 1]] - keys[heap[right]]
        left = difference > 0 or (left_wins_ties and difference == 0)
        path = right - 1 if left else right
    if right == size:
        path = right - 1  # the last leaf has no sibling
    key = keys[heap[root]]
    while path != root and key >= keys[heap[path]]:
        path = (path - 1) // 2
    moving = heap[root]
    place = path
    while place != root:
        heap[place], moving = moving, heap[place]
        place = (place - 1) // 2
    heap[root] = moving


def _pop_one_by_one(heap: list[int], keys: Sequence[int]) -> None:
    for last in reversed(range(1, len(heap))):
        heap[0], heap[last] = heap[last], heap[0]
        _sift_down(heap, keys, 0, last, "single-pop")


def _pop_in_pairs(heap: list[int], keys: Sequence[int]) -> None:
    size = len(heap)
    while size > 3:
        size -= 1
        heap[0], heap[size] = heap[size], heap[0]
        second = 2 if keys[heap[1]] <= keys[heap[2]] else 1
        size -= 1
        heap[second], heap[size] = heap[size], heap[second]
        _sift_down(heap, keys, second, size, "double-pop")
        _sift_down(heap, keys, 0, size, "double-pop")
    if size > 1:
        size -= 1
        heap[0], heap[size] = heap[size], heap[0]
        if size == 2 and keys[heap[0]] > keys[heap[1]]:
            heap[0], heap[1] = heap[1], heap[0]
