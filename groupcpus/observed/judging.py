# SPDX-License-Identifier: GPL-2.0-only
"""Decide whether a device that was found follows `group_cpus_evenly`, and of which revision."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import REVISIONS
from groupcpus.engine.topology import Topology
from groupcpus.errors import CpuListError, RequestError
from groupcpus.machines.devices import Device
from groupcpus.observed.recordings import isolated_cpus, revision_of_release
from groupcpus.observed.spreading import MOST_PRE_VECTORS, other_function
from groupcpus.sources import Loaded
from groupcpus.sources.found import FoundDevice, Vector, nvme_parameter, release_version

__all__ = [
    "FIXED",
    "OFFSETS",
    "ROTATING",
    "VERDICTS",
    "Explanation",
    "Judge",
    "Judged",
    "Row",
    "expected_revision",
    "offsets_text",
]

OFFSETS = 512
"""Values of the call counter, from 0, that are tried for revisions that rotate."""

VERDICTS = {
    "follows": "its masks are those of group_cpus_evenly()",
    "not managed": "its interrupts have the default affinity, or one node's CPUs",
    "moved": "irqbalance, a user or the driver has set other affinities",
    "other function": "another function of the kernel has spread its interrupts",
    "older kernel": "a kernel before 6.3 has spread them in its own way",
    "differs": "the kernel has spread them, and no revision known here gives these masks",
    "not told": "no source tells the affinities",
}

FIXED = tuple(name for name, revision in REVISIONS.items() if not revision.ticks(2))
ROTATING = tuple(name for name in REVISIONS if name not in FIXED)


# Bounds for what is guessed and kept, whatever a source says.
_MOST_GUESSES = 512
_MOST_MASKS = 500_000


@dataclass(frozen=True)
class Explanation:
    """How well a revision explains the masks of a device.

    Attributes
    ----------
    revision : str
        Its name.
    matched, total : int
        Masks that are as predicted, and all that were told.
    offsets : tuple of (tuple of int, or None)
        For each call: the values of the counter that give its masks, of those tried; None where
        the revision has none.
    """

    revision: str
    matched: int
    total: int
    offsets: tuple[tuple[int, ...] | None, ...]

    @property
    def explains(self) -> bool:
        """Whether all masks are as predicted."""
        return self.matched == self.total > 0


@dataclass(frozen=True)
class Row:
    """A vector of a device.

    Attributes
    ----------
    device : str
        Whose.
    queue : int or None
        The queue's number, as its name has it; None for other vectors.
    name : str
        The interrupt's name.
    irq : int
        Its number.
    kind : str
        ``default``, ``read`` or ``other`` (no queue's).
    affinity : CpuSet or None
        As found; None: not told.
    predicted : CpuSet or None
        What `group_cpus_evenly` gives; None where there is nothing to predict.
    effective : CpuSet or None
        As found.
    managed : bool
        Whether it is taken to be managed: the kernel owns its affinity.
    shutdown : bool
        Whether the kernel says that it is shut down (to root).
    why : str
        What there is to say of the mask; empty where it is as predicted.
    effective_why : str
        What there is to say of the effective CPU.
    odd : bool
        Whether the effective CPU contradicts what is known of the kernel.
    """

    device: str
    queue: int | None
    name: str
    irq: int
    kind: str
    affinity: CpuSet | None
    predicted: CpuSet | None
    effective: CpuSet | None
    managed: bool
    shutdown: bool = False
    why: str = ""
    effective_why: str = ""
    odd: bool = False

    @property
    def match(self) -> bool | None:
        """Whether the mask is as predicted; None if there is nothing to compare."""
        if self.predicted is None or self.affinity is None:
            return None
        return self.predicted == self.affinity


@dataclass(frozen=True)
class Judged:
    """A device and what was found out about it.

    Attributes
    ----------
    found : FoundDevice
        The device.
    verdict : str
        A key of `VERDICTS`.
    why : str
        The evidence, in a sentence or two.
    revisions : tuple of str
        The revisions that explain all its masks.
    explanations : tuple of Explanation
        One a revision.
    numgrps : tuple of int
        The groups that its calls asked for, those with interrupts.
    rows : tuple of Row
        Vector by vector.
    """

    found: FoundDevice
    verdict: str
    why: str
    revisions: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    numgrps: tuple[int, ...]
    rows: tuple[Row, ...]

    @property
    def calls_grouping(self) -> bool:
        """Whether its masks come of `group_cpus_evenly`, or of what stood there before it."""
        return self.verdict in ("follows", "differs", "older kernel")


@dataclass(frozen=True)
class _Hypothesis:
    """What a device may have asked for: vectors left out in front, then a call a set."""

    queues: tuple[Vector, ...]
    numgrps: tuple[int, ...]
    """Groups that each call asks for; together they may be more than there are queues."""
    note: str = ""
    first_number: int | None = None
    """The number of the first group's queue, where queues' names have numbers to go by."""

    @property
    def told(self) -> int:
        """How many masks there are to explain."""
        return sum(one.told.affinity is not None for one in self.queues)

    def places(self) -> Iterator[tuple[int, Vector]]:
        """Give each queue the number of its group, over all calls."""
        for at, vector in enumerate(self.queues):
            by_name = self.first_number is not None and vector.queue is not None
            yield (vector.queue - self.first_number if by_name else at), vector  # type: ignore[operator]


class Judge:
    """Decides about one device after another; remembers what revisions give."""

    def __init__(self, loaded: Loaded, topology: Topology, search_offsets: int) -> None:
        self.loaded = loaded
        self.topology = topology
        self.search_offsets = search_offsets
        self.version = release_version(loaded.kernel)
        self.expected = expected_revision(loaded.kernel)
        self.isolated, _ = isolated_cpus(" ".join(loaded.cmdline), topology.possible)
        self.cache: dict[tuple[str, int], list[tuple[int, ...]]] = {}

    def judge(self, found: FoundDevice) -> Judged:
        """Decide about a device."""
        queues = found.queues
        told = [vector for vector in queues or found.vectors if vector.told.affinity is not None]
        if not told:
            return self._plain(found, "not told", "no affinity is told of its interrupts")
        if not queues:
            return self._unmanaged(found, "none of them is known to be a queue's")
        flags = {vector.told.managed for vector in told} - {None}
        if flags == {False}:
            return self._unmanaged(found, "the kernel says so itself (debugfs)")
        at_once = self._at_once(found)
        managed = flags == {True} or found.spreads is True or at_once is True
        if not managed and (found.spreads is False or at_once is False):
            return self._unmanaged(found, "")
        hypothesis, explanations = self._best(found, managed)
        revisions = tuple(one.revision for one in explanations if one.explains)
        telling = sum(hypothesis.numgrps) > 1
        if not managed and not (revisions and telling):
            return self._unmanaged(found, "")
        if not managed and (other := other_function(self.topology, found)):
            also = f"{other}; group_cpus_evenly() would give the same masks"
            return self._plain(found, "other function", also)
        return self._spread(found, hypothesis, explanations, revisions)

    # --- devices whose vectors the kernel spreads

    def _hypotheses(self, found: FoundDevice, managed: bool) -> Iterator[_Hypothesis]:
        """Guess what a device asked for, the likeliest first."""
        queues = tuple(
            sorted(found.queues, key=lambda one: (one.queue is None, one.queue or 0, one.irq))
        )
        count = len(queues)
        write, poll = (nvme_parameter(self.loaded, f"{kind}_queues") for kind in ("write", "poll"))
        possible = len(self.topology.possible)
        first = _first_number(found, possible + write + poll)
        if first is not None:
            # Queues whose numbers are missing were not told.
            count = max((one.queue or 0) + 1 - first for one in queues)
        guess = partial(_Hypothesis, first_number=first)
        if found.kind == "nvme":
            if found.map_kinds:
                sizes = Counter(found.map_kinds)
                sets = tuple(sizes[kind] for kind in ("default", "read") if sizes[kind])
                yield guess(queues, sets, "by the kinds of its queue maps")
            elif write:
                known = Device(found.name, "nvme", count + poll, write, poll)
                sets = tuple(
                    one.queues for one in known.queue_sets(max(count, possible)) if one.interrupts
                )
                yield guess(queues, sets, f"by write_queues={write}")
        yield guess(queues, (count,))
        if found.kind == "nvme":
            for default in range(1, min(count, _MOST_GUESSES)):
                sets = (default, count - default)
                yield guess(queues, sets, f"as write_queues={default} would give")
        elif found.kind == "irqs":
            for pre in range(1, min(MOST_PRE_VECTORS, count - 1) + 1):
                note = f"the first {pre} of its vectors are not spread"
                yield guess(queues[pre:], (count - pre,), note)
        if not managed:
            return  # a few single CPUs would fit some number of groups by chance
        for more in range(count + 1, min(possible, count + _MOST_GUESSES) + 1):
            note = f"{more} masks were made, these queues have the first {count}"
            yield guess(queues, (more,), note)

    def _best(
        self, found: FoundDevice, managed: bool
    ) -> tuple[_Hypothesis, tuple[Explanation, ...]]:
        """Find what explains most masks; revisions that rotate only for the likeliest guess."""
        best: tuple[int, _Hypothesis] | None = None
        first = None
        for hypothesis in self._hypotheses(found, managed):
            first = first or hypothesis
            matched = max(self._explain(hypothesis, name).matched for name in FIXED)
            if matched == hypothesis.told:
                return hypothesis, self._explanations(hypothesis)
            if hypothesis is first:
                explanations = self._explanations(hypothesis)
                if any(one.explains for one in explanations):
                    return hypothesis, explanations
            if best is None or matched > best[0]:
                best = matched, hypothesis
        assert first is not None  # there is always one
        # Half-right guesses mislead: what the device surely asked for is the better base.
        return first, self._explanations(first)

    def _explanations(self, hypothesis: _Hypothesis) -> tuple[Explanation, ...]:
        names = FIXED + (ROTATING if self.search_offsets else ())
        return tuple(self._explain(hypothesis, name) for name in names)

    def _masks(self, revision: str, numgrps: int) -> list[tuple[int, ...]]:
        """Give the masks as bits, for each value of the counter that is tried."""
        key = revision, numgrps
        if key not in self.cache:
            ticks = REVISIONS[revision].ticks(numgrps)
            offsets = min(self.search_offsets, max(2, _MOST_MASKS // numgrps)) if ticks else 1
            self.cache[key] = [
                group_cpus_evenly(
                    self.topology, numgrps, revision=revision, spread_offset=offset
                ).bits
                for offset in range(offsets)
            ]
        return self.cache[key]

    def _explain(self, hypothesis: _Hypothesis, revision: str) -> Explanation:
        matched = 0
        offsets: list[tuple[int, ...] | None] = []
        for numgrps, vectors in self._sets(hypothesis):
            told = {
                at: one.told.affinity.mask for at, one in vectors if one.told.affinity is not None
            }
            counts = [
                sum(masks[at] == mask for at, mask in told.items())
                for masks in self._masks(revision, numgrps)
            ]
            matched += max(counts)
            full = tuple(at for at, count in enumerate(counts) if count == len(told))
            offsets.append(full if len(counts) > 1 else None)
        return Explanation(revision, matched, hypothesis.told, tuple(offsets))

    def _sets(self, hypothesis: _Hypothesis) -> Iterator[tuple[int, list[tuple[int, Vector]]]]:
        """Give each call's groups, and the vectors with the group that each should have."""
        places = list(hypothesis.places())
        first = 0
        for numgrps in hypothesis.numgrps:
            inside = [(at - first, one) for at, one in places if first <= at < first + numgrps]
            yield numgrps, inside
            first += numgrps

    def _predicted(self, hypothesis: _Hypothesis, best: Explanation) -> dict[int, int]:
        """Give the predicted mask of each interrupt under a revision, at its best offset."""
        predicted: dict[int, int] = {}
        for (numgrps, vectors), offsets in zip(self._sets(hypothesis), best.offsets, strict=True):
            masks = self._masks(best.revision, numgrps)[offsets[0] if offsets else 0]
            predicted |= {one.irq: masks[at] for at, one in vectors}
        return predicted

    def _spread(
        self,
        found: FoundDevice,
        hypothesis: _Hypothesis,
        explanations: tuple[Explanation, ...],
        revisions: tuple[str, ...],
    ) -> Judged:
        """Tell of a device that the kernel spreads whether a revision explains it."""
        best = self._choose(explanations)
        predicted = self._predicted(hypothesis, best)
        kinds = self._kinds(hypothesis) if found.kind == "nvme" else {}
        verdict, why = self._verdict(found, hypothesis, best, revisions)
        rows = []
        for vector in _in_order(found):
            mask = predicted.get(vector.irq)
            spread = None if mask is None else CpuSet.from_mask(mask)
            rows.append(self._row(found, vector, spread, kinds.get(vector.irq, "default")))
        return Judged(found, verdict, why, revisions, explanations, hypothesis.numgrps, tuple(rows))

    def _choose(self, explanations: Sequence[Explanation]) -> Explanation:
        """Choose the revision to show: the kernel's own if it explains, else the best."""
        explaining = [one for one in explanations if one.explains]
        return max(
            explaining or [one for one in explanations if one.revision in FIXED],
            key=lambda one: (one.matched, one.revision == self.expected, one.revision in FIXED),
        )

    def _kinds(self, hypothesis: _Hypothesis) -> dict[int, str]:
        kinds: dict[int, str] = {}
        sets = zip(self._sets(hypothesis), ("default", "read"), strict=False)
        for (_, vectors), kind in sets:
            kinds |= {one.irq: kind for _, one in vectors}
        return kinds

    def _verdict(
        self,
        found: FoundDevice,
        hypothesis: _Hypothesis,
        best: Explanation,
        revisions: tuple[str, ...],
    ) -> tuple[str, str]:
        total = best.total
        evidence = ""
        if self._at_once(found):
            evidence = "; spread when they were allocated, as the nodes of the interrupts show"
        note = f"; {hypothesis.note}" if hypothesis.note else ""
        if hypothesis.told < len(hypothesis.queues):
            note += "; not all affinities are told"
        polled = len(found.maps) - sum(hypothesis.numgrps)
        if found.kind == "nvme" and polled > 0 and nvme_parameter(self.loaded, "poll_queues"):
            note += f"; {polled} more to be polled, without interrupts"
        old = self.version is not None and self.version < (6, 3)
        release = self.loaded.kernel
        if revisions:
            if hypothesis.numgrps == (1,):
                return "follows", f"one queue: all CPUs, under every revision{evidence}"
            offset = ""
            if (of := best.offsets) != (None,) * len(of):
                shown = " and ".join(offsets_text(one, self.search_offsets) for one in of)
                offset = f" of {best.revision} with the counter at {shown}"
            text = f"{total} of {_masks(total)}{offset}{note}"
            if old:
                text += f"; kernel {release} deals so in irq_build_affinity_masks()"
            elif self.expected and self.expected not in revisions:
                text += f"; but kernel {release} should have {self.expected}"
            return "follows", text
        text = f"{best.matched} of {_masks(total)} as in {best.revision}, the closest{note}"
        if not best.matched:
            text = f"none of {_masks(total)} as in any revision{note}"
        if old:
            return "older kernel", f"{release} has no group_cpus_evenly() (6.3 on); {text}"
        return "differs", f"{text}; {self._partition(hypothesis)}"

    def _partition(self, hypothesis: _Hypothesis) -> str:
        """Tell whether the masks could be anybody's even grouping."""
        masks = [one.told.affinity or CpuSet() for one in hypothesis.queues]
        twice = Counter(cpu for mask in masks for cpu in mask)
        shared = CpuSet(cpu for cpu, count in twice.items() if count > 1)
        left = self.topology.possible - CpuSet(twice)
        if sum(hypothesis.numgrps) > hypothesis.told:
            left = CpuSet()  # they may be in masks that were not told
        if len(hypothesis.numgrps) == 1 and (shared or left):
            parts = [f"CPUs {shared} are in several masks"] if shared else []
            parts += [f"CPUs {left} are in none"] if left else []
            return " and ".join(parts) + ", so this is no grouping of these CPUs"
        hint = "the CPUs or nodes may have been others when it probed, or the kernel is patched"
        if self.loaded.cluster_source == "unknown":
            hint = "the clusters are not known, and from 7.0 on they matter"
        return f"each CPU is in a mask: an even grouping of another kind; {hint}"

    # --- devices whose vectors the kernel does not spread

    def _at_once(self, found: FoundDevice) -> bool | None:
        """Tell whether vectors were spread when they were allocated, by the nodes they are of.

        An interrupt that is spread is of the node of its mask's first CPU, any other one of its
        device's (``alloc_descs()``, kernel/irq/irqdesc.c, Linux 6.12).
        """
        told = [one.told for one in found.queues]
        if not self.loaded.devices or any(one.affinity is None for one in told):
            return None
        nodes = {one.node for one in told}
        first = [next(iter(one.affinity or ()), -1) for one in told]
        homes = [self.topology.node_of(cpu) for cpu in first if cpu in self.topology.possible]
        if nodes != {found.node} and [one.node for one in told] == homes:
            return True
        return False if nodes == {found.node} and set(homes) != nodes else None

    def _defaults(self, found: FoundDevice) -> dict[CpuSet, str]:
        """List the affinities that an interrupt gets if nobody spreads or moves it."""
        topology = self.topology
        defaults = {topology.online: "all online CPUs", topology.possible: "all CPUs"}
        for node, cpus in topology.nodes.items():
            if (here := cpus & topology.online) and here not in defaults:
                whose = "the device's node" if node == found.node else "node"
                defaults[here] = f"the online CPUs of {whose} {node}"
                defaults.setdefault(cpus, f"the CPUs of {whose} {node}")
        for flag in self.loaded.cmdline:
            name, _, value = flag.partition("=")
            if name == "irqaffinity":
                try:
                    defaults[CpuSet(value) & topology.online] = f"the default of {flag}"
                except CpuListError:
                    continue  # the kernel ignores it too
        return defaults

    def _unmanaged(self, found: FoundDevice, evidence: str) -> Judged:
        """Tell who set the affinities of a device that the kernel does not spread."""
        defaults = self._defaults(found)
        vectors = found.queues or found.vectors
        masks = [one.told.affinity for one in vectors if one.told.affinity is not None]
        what = "queues" if found.queues else "interrupts"
        if evidence:
            evidence = f" ({evidence})"
        if all(mask in defaults for mask in masks):
            kinds = ", ".join(dict.fromkeys(f"{defaults[mask]} ({mask})" for mask in masks))
            return self._plain(found, "not managed", f"its {what} have {kinds}{evidence}")
        if other := other_function(self.topology, found):
            return self._plain(found, "other function", other + evidence)
        moved = sum(mask not in defaults for mask in masks)
        who = "irqbalance runs"
        if self.loaded.irqbalance is not True:
            seen = self.loaded.irqbalance is False
            who = f"by {'' if seen else 'irqbalance, '}a user or the driver"
            who += "; irqbalance does not run" if seen else ""
        why = f"not managed, and {moved} of {len(masks)} {what} have other CPUs than the default"
        return self._plain(found, "moved", f"{why}: {who}{evidence}")

    def _plain(self, found: FoundDevice, verdict: str, why: str) -> Judged:
        defaults = self._defaults(found)
        rows = []
        for vector in _in_order(found):
            row = self._row(found, vector, None, "default")
            if verdict == "moved" and row.queue is not None:
                usual = row.affinity in defaults
                row = replace(row, why="as by default" if usual else "set after it was requested")
            elif verdict == "other function" and row.queue is not None:
                row = replace(row, why="as that function gives it")
            rows.append(row)
        return Judged(found, verdict, why, (), (), (), tuple(rows))

    def _row(self, found: FoundDevice, vector: Vector, predicted: CpuSet | None, kind: str) -> Row:
        told = vector.told
        is_queue = vector.role == "queue"
        managed = told.managed if told.managed is not None else predicted is not None
        row = Row(
            found.name,
            vector.queue if is_queue else None,
            vector.name,
            vector.irq,
            kind if is_queue else "other",
            told.affinity,
            predicted,
            told.effective,
            managed,
            told.shutdown is True,
        )
        if row.match is False:
            return replace(row, why="another mask than predicted")
        if predicted is None and is_queue and told.affinity is not None:
            return replace(row, why=self._defaults(found).get(told.affinity, ""))
        if predicted is None and not is_queue:
            return replace(row, why="not a queue's, so not managed" if not managed else "")
        return row


def _in_order(found: FoundDevice) -> list[Vector]:
    """Put a device's vectors in the order of a listing: others first, then queue by queue."""
    return sorted(found.vectors, key=lambda one: (one.role == "queue", one.queue or 0, one.irq))


def _first_number(found: FoundDevice, most: int) -> int | None:
    """Tell at which number a driver's queues begin, if all have distinct and likely ones."""
    first = {"nvme": 1, "virtio": 0}.get(found.kind)
    numbers = {one.queue for one in found.queues}
    if first is None or None in numbers or len(numbers) < len(found.queues):
        return None
    fits = all(first <= number < first + most for number in numbers if number is not None)
    return first if fits else None


def _masks(count: int) -> str:
    return "1 mask" if count == 1 else f"{count} masks"


def expected_revision(release: str | None) -> str | None:
    """Name the revision of a kernel release; None if it is not told, or has none known here."""
    try:
        return revision_of_release(release or "").name
    except RequestError:
        return None


def offsets_text(offsets: Sequence[int] | None, tried: int) -> str:
    """Put the offsets that explain masks into words: a residue where they repeat.

    Examples
    --------
    >>> offsets_text(range(5, 512, 31), 512), offsets_text(range(512), 512), offsets_text((), 512)
    ('5 mod 31', 'any value', 'none of 0-511')
    >>> offsets_text((3, 400), 512), offsets_text(None, 512)
    ('3, 400 of 0-511', 'any value')
    """
    if offsets is None or len(offsets) == tried > 0:
        return "any value"
    if not offsets:
        return f"none of 0-{tried - 1}"
    found = set(offsets)
    for period in range(1, tried // 2 + 1):
        residues = {offset % period for offset in found}
        if len(residues) <= 4 and found == {n for n in range(tried) if n % period in residues}:
            return f"{', '.join(map(str, sorted(residues)))} mod {period}"
    shown = ", ".join(map(str, sorted(found)[:4]))
    more = ", ..." if len(found) > 4 else ""
    return f"{shown}{more} of 0-{tried - 1}"
