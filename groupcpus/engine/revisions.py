# SPDX-License-Identifier: GPL-2.0-only
"""The versions of `group_cpus_evenly`: each is data and a few small functions.

All versions share one algorithm (`group_cpus`).  They differ in the sort, in whether they look at
clusters, and in what a call's *offset* rotates:

* ``rotate``: after groups were allotted to nodes or clusters in proportion to their CPUs, which
  of them keep the ones that rounding left over;
* ``deal``: which groups of a node or cluster get one CPU more, and which CPU is assigned first.

A revision that needs more is a subclass of `Revision`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index, le
from typing import Any, ClassVar

from groupcpus.engine.rotations import (
    UINT_MAX,
    Deal,
    always,
    deal_evenly,
    deal_from_rotated_start,
    deal_rotating,
    deal_rotating_fixed,
    never,
    rotate_classes,
    rotate_over_floor,
    rotate_over_smallest,
    unless_one,
)
from groupcpus.engine.sort import VARIANTS
from groupcpus.engine.steps import Step
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, meant

__all__ = ["LEVELS", "REVISIONS", "CheckedRevision", "Revision", "get_revision"]

LEVELS = ("node", "cluster")


@dataclass(frozen=True)
class Revision:
    """A version of `group_cpus_evenly`: data, and functions for what the call counter rotates.

    Parameters
    ----------
    name : str
        As in `REVISIONS`.
    kernel : str
        Which kernels have it, or where it was proposed.
    summary : str
        What it does differently, in a line.
    sort : {"double-pop", "single-pop", "stable"}
        The kernel's sort that it runs on, or one that is in no kernel.
    cluster_aware : bool
        Whether a node's groups are kept within clusters when there are enough of them.
    rotate : callable, optional
        ``f(ncpus, ngroups, offset) -> ngroups``: moves allotted groups between nodes, or between
        the clusters of a node; all in the order of the sort.
    levels : tuple of str
        What `rotate` moves groups between: ``"cluster"``, ``"node"``.  With ``"node"``, equally
        large nodes also take turns being first when there are fewer groups than nodes.
    deal : callable
        ``f(ncpus, ngroups, offset) -> Deal``: how the CPUs of a node or cluster are divided.
    counts : callable
        ``f(numgrps) -> int``: how far a call advances the counter, whose value before it is the
        call's offset.  With 0 the counter stands still and the offset is 0.
    per_device : bool
        Whether a device takes an offset once, for all its calls, and keeps it when it is reset.

    Notes
    -----
    A revision that needs more is a subclass with a `turn`, `share`, `first_node`, `order` or
    `divide` of its own; what they return is checked in each call.

    Examples
    --------
    A revision of one's own is a few arguments:

    >>> from groupcpus import Topology, group_cpus_evenly
    >>> mine = Revision("mine", "nowhere", "the last groups get more",
    ...                 deal=lambda ncpus, ngroups, offset: deal_rotating_fixed(ncpus, ngroups, 2))
    >>> machine = Topology.uniform(nodes=1, cpus_per_node=4, threads=1, cluster=4)
    >>> [str(mask) for mask in group_cpus_evenly(machine, 3, revision=mine).masks]
    ['0', '1-2', '3']
    """

    name: str
    kernel: str
    summary: str
    sort: str = "double-pop"
    cluster_aware: bool = True
    rotate: Callable[[Sequence[int], Sequence[int], int], Sequence[int]] | None = None
    levels: tuple[str, ...] = ("cluster",)
    deal: Callable[[int, int, int], Deal] = deal_evenly
    counts: Callable[[int], int] = never
    per_device: bool = False

    # The room that compiles a kernel's file lies above; `groupcpus` puts its function here.
    from_c: ClassVar[Callable[..., "Revision"]]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise RequestError(f"revision {brief(self.name)}: expected a name")
        where = f"revision {brief(self.name)}"
        if self.sort not in VARIANTS:
            raise RequestError(
                f"{where}: sort {brief(self.sort)}: expected {' or '.join(VARIANTS)}"
            )
        if not isinstance(self.levels, tuple) or any(at not in LEVELS for at in self.levels):
            raise RequestError(
                f"{where}: levels {brief(self.levels)}: expected a tuple of {' and '.join(LEVELS)}"
            )
        # No rotate is none; anything else that is false is a mistake.
        rotate = never if self.rotate is None else self.rotate
        functions = {"rotate": rotate, "deal": self.deal, "counts": self.counts}
        for field, function in functions.items():
            if not callable(function):
                raise RequestError(f"{where}: {field} {brief(function)}: expected a function")

    def advance(self, numgrps: int) -> int:
        """Return how far a call for `numgrps` groups advances the counter.

        Raises
        ------
        RequestError
            If `counts` gives no number.
        """
        (step,) = _whole_numbers(self, "counts", [self.counts(numgrps)], 1)
        return step

    def offset(self, numgrps: int, counter: int) -> int:
        """Return the offset that a call takes when the counter stands at `counter`."""
        return counter & UINT_MAX if self.advance(numgrps) else 0

    def replaced(self, topology: Topology, numgrps: int, counter: int) -> Iterator[Step] | None:
        """Return the steps of a call for which another function stands in; None: there is none."""
        return None

    def turn(self, numgrps: int, offset: int) -> Any:
        """Return what the functions below are given in a call: here its offset."""
        return offset

    def first_node(self, ncpus: Sequence[int], turn: Any) -> int:
        """Return the position of the node where whole nodes start, given their CPU counts."""
        rotates = self.rotate and "node" in self.levels and len(set(ncpus)) == 1
        return turn % len(ncpus) if rotates else 0

    def share(
        self, level: str, ncpus: Sequence[int], ngroups: Sequence[int], turn: Any
    ) -> tuple[Sequence[int], Sequence[Any]]:
        """Return the groups of nodes or clusters after some were moved, and the turn of each."""
        if self.rotate and level in self.levels and len(ncpus) > 1:
            ngroups = self.rotate(ncpus, ngroups, turn)
        return ngroups, [turn] * len(ncpus)

    def order(
        self, topology: Topology, cpus: Sequence[int], ngroups: int
    ) -> tuple[Sequence[int], Mapping[int, Sequence[int]], Hashable]:
        """Return in which order the CPUs of a node or cluster are taken.

        Returns
        -------
        order : sequence of int
            The CPUs, of which any may be the first.
        siblings : mapping of int to sequence of int
            The CPUs that a group takes along with each, while it has room.
        shape : hashable
            What `divide` has to know of them: here their number.
        """
        return cpus, topology.core_cpus, len(cpus)

    def divide(self, shape: Any, ngroups: int, turn: Any) -> Deal:
        """Return how many CPUs each group gets, and the position of the first one."""
        return self.deal(shape, ngroups, turn)


class CheckedRevision:
    """A revision whose answers are checked: those of a reader's own may be anything.

    The engine asks this one, so that what it gets is whole numbers that can be.
    """

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self.sort = revision.sort
        self.cluster_aware = revision.cluster_aware
        self.deals: dict[tuple[Hashable, int, Hashable], tuple[tuple[int, ...], int]] = {}

    def first_node(self, ncpus: Sequence[int], turn: Any) -> int:
        """Return `Revision.first_node`, or refuse a position that is none."""
        given = self.revision.first_node(ncpus, turn)
        (first,) = _whole_numbers(self.revision, "first_node", [given], 1)
        if first >= len(ncpus):
            raise _refused(self.revision, "first_node", first, f"a position below {len(ncpus)}")
        return first

    def share(
        self, level: str, ncpus: Sequence[int], ngroups: Sequence[int], turn: Any
    ) -> tuple[list[int], Sequence[Any]]:
        """Return `Revision.share`; no part may have no group, or more groups than CPUs."""
        shared = self.revision.share(level, ncpus, list(ngroups), turn)
        if not isinstance(shared, tuple) or len(shared) != 2:
            raise _refused(self.revision, "share", shared, "groups and turns")
        given, turns = shared
        numbers = _whole_numbers(self.revision, "rotate", given, len(ncpus))
        fits = min(numbers) > 0 and all(map(le, numbers, ncpus))
        if sum(numbers) != sum(ngroups) or not fits:
            raise _refused(
                self.revision,
                "rotate",
                numbers,
                f"{sum(ngroups)} groups in all, and from 1 to as many as CPUs each: "
                f"{brief(list(ncpus))}",
            )
        if not isinstance(turns, Sequence) or len(turns) != len(ncpus):
            raise _refused(self.revision, "share", turns, f"{len(ncpus)} turns")
        return numbers, turns

    def divide(
        self, topology: Topology, cpus: Sequence[int], ngroups: int, turn: Any
    ) -> tuple[tuple[int, ...], int, Sequence[int], Mapping[int, Sequence[int]]]:
        """Return sizes and first position of `Revision.divide`, order and siblings of `order`."""
        ordered = self.revision.order(topology, cpus, ngroups)
        if not isinstance(ordered, tuple) or len(ordered) != 3:
            raise _refused(self.revision, "order", ordered, "an order, siblings and a shape")
        order, siblings, shape = ordered
        # Equal parts are divided alike.
        key = shape, ngroups, turn
        if key not in self.deals:
            deal = self.revision.divide(shape, ngroups, turn)
            self.deals[key] = self._whole_deal(deal, len(cpus), ngroups)
        return *self.deals[key], order, siblings

    def _whole_deal(self, deal: Deal, ncpus: int, ngroups: int) -> tuple[tuple[int, ...], int]:
        """Return a deal in whole numbers, or refuse it.

        It may ask for more CPUs than there are, as `deal_rotating` does when its sum wraps.
        """
        if not isinstance(deal, Deal):
            raise _refused(self.revision, "deal", deal, "a Deal")
        sizes = _whole_numbers(self.revision, "deal", deal.sizes, ngroups)
        (first,) = _whole_numbers(self.revision, "deal", (deal.first,), 1)
        if sum(sizes) < ncpus or first >= ncpus:
            raise _refused(
                self.revision,
                "deal",
                deal,
                f"sizes that are {ncpus} in all and a first position below it",
            )
        return tuple(sizes), first


def _refused(revision: Revision, function: str, given: object, expected: str) -> RequestError:
    return RequestError(
        f"revision {brief(revision.name)}: {function} gave {brief(given)}; expected {expected}"
    )


def _whole_numbers(revision: Revision, function: str, values: Any, count: int) -> list[int]:
    """Return what a revision's function gave as whole numbers, or refuse it."""
    try:
        numbers = list(map(index, values))
    except TypeError:
        numbers = []
    if len(numbers) != count or min(numbers) < 0:
        raise _refused(revision, function, values, f"{count} whole numbers")
    return numbers


_V2 = "[PATCH v2] lib/group_cpus: rotate extra groups to avoid IRQ stacking"

REVISIONS: dict[str, Revision] = {
    revision.name: revision
    for revision in (
        Revision(
            "numa",
            "6.3 to 6.19",
            "nodes assign their CPUs directly",
            cluster_aware=False,
        ),
        Revision(
            "numa-single-pop",
            "6.3 to 6.8 or so",
            "numa on the older sort",
            sort="single-pop",
            cluster_aware=False,
        ),
        Revision(
            "cluster",
            "7.0 on (commit 89802ca36c96)",
            "a node's groups stay within clusters when there are enough of them",
        ),
        Revision(
            "rotate-v1",
            "proposed in March 2026",
            "cluster, with extras over the smallest allotment rotated with each call",
            rotate=rotate_over_smallest,
            deal=deal_rotating,
            counts=always,
        ),
        Revision(
            "rotate-v2",
            f"proposed as {_V2!r}",
            "cluster, with extras over the proportional floor rotated with each call",
            rotate=rotate_over_floor,
            deal=deal_rotating,
            counts=always,
        ),
        Revision(
            "rotate-v2-fixed",
            f"remedy in a reply to {_V2!r}",
            "rotate-v2 with the offset reduced before the sum, so that nothing wraps",
            rotate=rotate_over_floor,
            deal=deal_rotating_fixed,
            counts=always,
        ),
        Revision(
            "rotate-v2-skip1",
            f"tweak in a reply to {_V2!r}",
            "rotate-v2 whose counter stands still for calls with one group",
            rotate=rotate_over_floor,
            deal=deal_rotating,
            counts=unless_one,
        ),
        Revision(
            "rotate-next",
            "a later tree of the patch's author",
            "rotates over equally large nodes too, and the CPU that is assigned first",
            rotate=rotate_classes,
            levels=LEVELS,
            deal=deal_from_rotated_start,
            counts=unless_one,
        ),
    )
}
"""By name; `groupcpus` adds the project's own (`groupcpus.studies.rotation`)."""


def get_revision(revision: str | Revision) -> Revision:
    """Return the revision of a name; a `Revision` is returned as it is.

    Raises
    ------
    RequestError
        If there is no revision of that name.
    """
    if isinstance(revision, Revision):
        return revision
    if not isinstance(revision, str) or revision not in REVISIONS:
        names = ", ".join(REVISIONS)
        raise RequestError(
            f"revision {brief(revision)}: expected one of {names[:300]}{meant(revision, REVISIONS)}"
        )
    return REVISIONS[revision]
