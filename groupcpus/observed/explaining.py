# SPDX-License-Identifier: GPL-2.0-only
"""What a device may have asked `group_cpus_evenly` for, and which revisions explain what it got."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.machines.devices import Device
from groupcpus.observed.patience import Patience
from groupcpus.sources import Loaded
from groupcpus.sources.found import FoundDevice, FoundVector, nvme_parameter

__all__ = ["FIXED", "ROTATING", "Evidence", "Explainer", "Explanation", "Guess", "guesses"]

FIXED = tuple(name for name, revision in REVISIONS.items() if not revision.advance(2))
ROTATING = tuple(name for name in REVISIONS if name not in FIXED)

# Bounds for what is guessed and kept, whatever a source says.
MOST_GUESSES = 512
MOST_MASKS = 500_000
# CPUs that counters are tried for, over all values of one revision, where it is not needed.
MOST_CPUS = 20_000
# Vectors before those that are spread: admin queue, events, ...; hisi_sas_v3_hw has 16.
MOST_PRE_VECTORS = 16


@dataclass(frozen=True)
class Evidence:
    """What a source says of the mask of a queue, as bits.

    Attributes
    ----------
    mask : int or None
        The mask; None: not known.
    counted : int
        CPUs that have handled the interrupt: they are in the mask.
    hidden : int
        CPUs that the source may leave out: queue maps leave out isolated ones (from 6.10 on).
    """

    mask: int | None
    counted: int = 0
    hidden: int = 0

    def __bool__(self) -> bool:
        return self.mask is not None or self.counted > 0

    def fits(self, mask: int) -> bool:
        """Return whether a queue with this mask can look like that."""
        if self.mask is None:
            return not self.counted & ~mask
        return self.mask in (mask, mask & ~self.hidden)


Place = tuple[int, Evidence]


@dataclass(frozen=True)
class Explanation:
    """How well a revision explains the masks of a device.

    Attributes
    ----------
    revision : str
        Its name.
    matched, total : int
        Masks that are as predicted, and all of which something is known.
    offsets : tuple of (tuple of int, or None)
        For each call: the values of the counter that give its masks, of those tried; None where
        the revision has none.
    tried : int
        Values of the counter that were tried, from 0.
    complete : bool
        Whether these are as many as were asked for, or the revision has no counter.
    """

    revision: str
    matched: int
    total: int
    offsets: tuple[tuple[int, ...] | None, ...]
    tried: int = 0
    complete: bool = True

    @property
    def explains(self) -> bool:
        """Whether all masks are as predicted."""
        return self.matched == self.total > 0


@dataclass(frozen=True)
class Guess:
    """What a device may have asked for: vectors left out in front, then a call a set.

    Attributes
    ----------
    numgrps : tuple of int
        Groups that each call asks for; together they may be more than there are queues.
    skipped : int
        Vectors in front that are not spread.
    note : str
        Why this was guessed.
    first_number : int or None
        The number of the first group's queue, where queues' names have numbers to go by.
    """

    numgrps: tuple[int, ...]
    skipped: int = 0
    note: str = ""
    first_number: int | None = None

    def places(self, queues: Sequence[FoundVector]) -> Iterator[tuple[int, FoundVector]]:
        """Give each queue the number of its group, over all calls."""
        for index, vector in enumerate(queues[self.skipped :]):
            if self.first_number is not None and vector.queue is not None:
                yield vector.queue - self.first_number, vector
            else:
                yield index, vector

    def sets(self, places: Sequence[Place]) -> Iterator[tuple[int, list[Place]]]:
        """Give each call's groups, and what is known of them, numbered within the call."""
        first = 0
        for numgrps in self.numgrps:
            inside = [
                (place - first, told) for place, told in places if first <= place < first + numgrps
            ]
            yield numgrps, inside
            first += numgrps


class Explainer:
    """Holds what is known of a device's masks against revisions; remembers what these give."""

    def __init__(self, topology: Topology, search_offsets: int, patience: Patience) -> None:
        self.topology = topology
        self.search_offsets = search_offsets
        self.patience = patience
        self.cache: dict[tuple[str, int], list[tuple[int, ...]]] = {}
        self.calls = 0

    def masks(self, revision: str, numgrps: int, least: int = 1) -> list[tuple[int, ...]]:
        """Return the masks as bits, for values of the counter from 0.

        Parameters
        ----------
        revision, numgrps
            What the call is.
        least : int
            How many values are wanted, if there is a counter and patience; more may be known.
        """
        found = self.cache.setdefault((revision, numgrps), [])
        wanted = least if REVISIONS[revision].advance(numgrps) else 1
        for offset in range(len(found), wanted):
            # Two at least: a revision that rotates is known by them.
            work = len(self.topology.possible) + numgrps
            if not self.patience.left("trying counters", work) and offset > 1:
                break
            self.calls += 1
            grouping = group_cpus_evenly(
                self.topology, numgrps, revision=revision, spread_offset=offset
            )
            found.append(grouping.bits)
        return found

    def _offsets(self, numgrps: int, explained: bool) -> int:
        """Return how many values of the counter to try, by the work that each is."""
        most = MOST_MASKS // numgrps
        if explained:
            # By a revision without a counter: the others are there for comparison alone.
            most = min(most, MOST_CPUS // len(self.topology.possible))
        return min(self.search_offsets, max(2, most))

    def fits(self, guess: Guess, places: Sequence[Place], revision: str) -> bool:
        """Return whether a revision that does not rotate gives all that is known."""
        return any(told for _, told in places) and all(
            told.fits(self.masks(revision, numgrps)[0][place])
            for numgrps, inside in guess.sets(places)
            for place, told in inside
        )

    def explain(
        self, guess: Guess, places: Sequence[Place], revision: str, explained: bool = False
    ) -> Explanation:
        """Count what a revision explains, at the counter that explains most."""
        matched = tried = 0
        complete = True
        offsets: list[tuple[int, ...] | None] = []
        for numgrps, inside in guess.sets(places):
            told = [(place, evidence) for place, evidence in inside if evidence]
            wanted = self._offsets(numgrps, explained)
            counts = [
                sum(evidence.fits(masks[place]) for place, evidence in told)
                for masks in self.masks(revision, numgrps, wanted)
            ]
            self.patience.left("comparing masks", len(told) * len(counts) // 4)
            matched += max(counts)
            full = tuple(at for at, count in enumerate(counts) if count == len(told))
            offsets.append(full if len(counts) > 1 else None)
            tried = max(tried, len(counts))
            if REVISIONS[revision].advance(numgrps):
                complete = complete and len(counts) >= self.search_offsets
        total = sum(bool(evidence) for _, evidence in places)
        return Explanation(revision, matched, total, tuple(offsets), tried, complete)

    def explanations(self, guess: Guess, places: Sequence[Place]) -> tuple[Explanation, ...]:
        """Return what each revision explains of a guess."""
        fixed = [self.explain(guess, places, name) for name in FIXED]
        explained = any(one.explains for one in fixed)
        names = ROTATING if self.search_offsets else ()
        rotating = [self.explain(guess, places, name, explained) for name in names]
        return (*fixed, *rotating)


def guesses(
    found: FoundDevice, queues: Sequence[FoundVector], loaded: Loaded, managed: bool
) -> Iterator[Guess]:
    """Guess what a device asked for, the likeliest first."""
    assert loaded.topology is not None  # compare() checks
    possible = len(loaded.topology.possible)
    extra = sum(nvme_parameter(loaded, f"{kind}_queues") for kind in ("write", "poll"))
    first = _first_number(found.kind, queues, possible + extra)
    count = len(queues)
    if first is not None:
        # Queues whose numbers are missing are not known.
        count = max((one.queue or 0) + 1 - first for one in queues)
    if found.kind == "nvme":
        yield from _known_sets(found, count, loaded, first)
    yield Guess((count,), 0, "", first)
    if found.kind == "nvme":
        for default in _splits(queues, count, loaded.topology.possible.mask):
            or_more = " or more" if count - default == 1 else ""
            note = f"as write_queues={default}{or_more} would give"
            yield Guess((default, count - default), 0, note, first)
    elif found.kind == "irqs":
        # Where counts alone speak, a few CPUs would fit a few groups by chance.
        least = 2 if all(one.told.affinity is not None for one in queues) else (count + 1) // 2
        for pre in range(1, min(MOST_PRE_VECTORS, count - least) + 1):
            note = f"the first {pre} of its vectors are not spread"
            yield Guess((count - pre,), pre, note)
    if not managed:
        return  # a few single CPUs would fit some number of groups by chance
    for more in range(count + 1, min(possible, count + MOST_GUESSES) + 1):
        note = f"{more} masks were made, these queues have the first {count}"
        yield Guess((more,), 0, note, first)


def _known_sets(
    found: FoundDevice, count: int, loaded: Loaded, first: int | None
) -> Iterator[Guess]:
    """Return the queue sets of an NVMe drive that a source shows, if any does."""
    assert loaded.topology is not None
    write, poll = (nvme_parameter(loaded, f"{kind}_queues") for kind in ("write", "poll"))
    if logged := loaded.nvme_queues.get(found.name):
        yield Guess(tuple(filter(None, logged[:2])), 0, "by the driver's log", first)
    elif found.map_kinds:
        sizes = Counter(found.map_kinds)
        sets = tuple(sizes[kind] for kind in ("default", "read") if sizes[kind])
        yield Guess(sets, 0, "by the kinds of its queue maps", first)
    elif write:
        known = Device("nvme", "nvme", count + poll, write, poll)
        asked = known.queue_sets(max(count, len(loaded.topology.possible)))
        sets = tuple(one.queues for one in asked if one.interrupts)
        yield Guess(sets, 0, f"by write_queues={write}", first)


def _splits(queues: Sequence[FoundVector], count: int, possible: int) -> Iterator[int]:
    """Guess after how many queues a second set begins: the first one's masks have every CPU."""
    masks = [one.told.affinity for one in queues]
    known = [mask.mask for mask in masks if mask is not None]
    if len(known) < count:
        yield from range(1, min(count, MOST_GUESSES))
        return
    covered = 0
    for at, mask in enumerate(known[:-1], start=1):
        if covered & mask:
            return
        covered |= mask
        if covered == possible:
            yield at


def _first_number(kind: str, queues: Sequence[FoundVector], most: int) -> int | None:
    """Return at which number a driver's queues begin, if all have distinct and likely ones."""
    first = {"nvme": 1, "virtio": 0}.get(kind)
    numbers = {one.queue for one in queues}
    if first is None or None in numbers or len(numbers) < len(queues):
        return None
    fits = all(first <= number < first + most for number in numbers if number is not None)
    return first if fits else None
