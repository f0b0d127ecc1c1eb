# SPDX-License-Identifier: GPL-2.0-only
"""Decide whether a device that was found follows `group_cpus_evenly`, and of which revision."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, counted
from groupcpus.observed.completeness import missing_topology, with_usual_siblings
from groupcpus.observed.explaining import (
    FIXED,
    ROTATING,
    Evidence,
    Explainer,
    Explanation,
    Guess,
    Place,
    guesses,
)
from groupcpus.observed.kernels import isolated_cpus, revision_of_release
from groupcpus.observed.patience import Patience
from groupcpus.observed.spreading import default_affinities, other_function, spread_at_once
from groupcpus.observed.verdicts import Judged, JudgedRow
from groupcpus.sources import Loaded
from groupcpus.sources.found import FoundDevice, FoundVector, nvme_parameter, release_version

__all__ = [
    "FIXED",
    "OFFSETS",
    "ROTATING",
    "Judge",
    "expected_revision",
    "offsets_text",
]

OFFSETS = 512
"""Values of the call counter, from 0, that are tried for revisions that rotate."""


@dataclass(frozen=True)
class _Case:
    """A device whose vectors the kernel spreads, and the best guess of what it asked for."""

    found: FoundDevice
    queues: tuple[FoundVector, ...]
    guess: Guess
    explanations: tuple[Explanation, ...]
    gave_up: bool
    evidence: tuple[Evidence, ...]

    @property
    def revisions(self) -> tuple[str, ...]:
        return tuple(one.revision for one in self.explanations if one.explains)

    @property
    def by_counts(self) -> bool:
        return all(one.mask is None for one in self.evidence)


class Judge:
    """Decides about one device after another; remembers what revisions give."""

    def __init__(
        self, loaded: Loaded, topology: Topology, search_offsets: int, patience: Patience
    ) -> None:
        self.loaded = loaded
        self.topology = topology
        self.version = release_version(loaded.kernel)
        self.expected = expected_revision(loaded.kernel)
        self.isolated, domain = isolated_cpus(" ".join(loaded.cmdline), topology.possible)
        # Queue maps leave these out: blk_mq_map_swqueue(), block/blk-mq.c, Linux 6.12.
        self.unmapped = (loaded.isolated or CpuSet()) | domain
        self.patience = patience
        self.explainer = Explainer(topology, search_offsets, patience)
        self.missing = missing_topology(loaded, self.expected, topology)
        self.best: dict[object, tuple[Guess, tuple[Explanation, ...], bool]] = {}
        self.defaults: dict[int | None, dict[CpuSet, str]] = {}

    def judge(self, found: FoundDevice) -> Judged:
        """Decide about a device."""
        if found.spreads and found.kind == "irqs":
            # Names of such drivers have numbers of other things, or none: hwirqs have the order.
            vectors = tuple(replace(one, role="queue") for one in found.vectors)
            found = replace(found, vectors=vectors)
        queues = found.queues
        shown = [one for one in queues or found.vectors if self._evidence(found, one)]
        if not shown:
            return self._plain(found, "not known", "no source has an affinity of its interrupts")
        if all(one.told.affinity is None for one in shown) and not found.spreads:
            return self._plain(found, "not known", "counts alone, and it need not be managed")
        if not queues:
            return self._unmanaged(found, "none of them is known to be a queue's")
        flags = {vector.told.managed for vector in shown} - {None}
        if flags == {False}:
            return self._unmanaged(found, "the kernel says so itself (debugfs)")
        at_once = spread_at_once(self.loaded, self.topology, found)
        managed = flags == {True} or found.spreads is True or at_once is True
        if not managed and (found.spreads is False or at_once is False):
            return self._unmanaged(found, "")
        case = self._case(found, managed)
        if not managed and not (case.revisions and sum(case.guess.numgrps) > 1):
            return self._unmanaged(found, "")
        if not managed and (other := other_function(self.topology, found)):
            also = f"{other}; group_cpus_evenly() would give the same masks"
            return self._plain(found, "other function", also)
        return self._spread(case, at_once is True)

    # --- devices whose vectors the kernel spreads

    def _evidence(self, found: FoundDevice, vector: FoundVector) -> Evidence:
        shown = vector.told
        if shown.affinity is not None:
            hidden = self.unmapped.mask if found.from_maps else 0
            return Evidence(shown.affinity.mask, hidden=hidden)
        return Evidence(None, CpuSet(shown.counts or ()).mask if found.spreads else 0)

    def _case(self, found: FoundDevice, managed: bool) -> _Case:
        """Find what explains all masks; revisions that rotate only for the likeliest guess."""
        if found.kind == "irqs":
            queues = found.queues
        else:
            queues = tuple(
                sorted(found.queues, key=lambda one: (one.queue is None, one.queue or 0, one.irq))
            )
        evidence = tuple(self._evidence(found, one) for one in queues)
        numbers = tuple(one.queue for one in queues)
        # Disks of a kind mostly have the same masks.
        key = found.kind, found.map_kinds, managed, numbers, evidence
        if key not in self.best:
            self.best[key] = self._explained(found, queues, managed, evidence)
        return _Case(found, queues, *self.best[key], evidence)

    def _explained(
        self,
        found: FoundDevice,
        queues: Sequence[FoundVector],
        managed: bool,
        evidence: Sequence[Evidence],
    ) -> tuple[Guess, tuple[Explanation, ...], bool]:
        by_vector = dict(zip(map(id, queues), evidence, strict=True))
        first: tuple[Guess, list[Place]] | None = None
        gave_up = False
        for guess in guesses(found, queues, self.loaded, managed):
            places: list[Place] = [
                (place, by_vector[id(one)]) for place, one in guess.places(queues)
            ]
            if first is not None and not self.patience.left("guessing calls", len(places)):
                gave_up = True
                break
            first = first or (guess, places)
            if any(self.explainer.fits(guess, places, name) for name in FIXED):
                return guess, self.explainer.explanations(guess, places), False
        assert first is not None  # there is always one
        # Half-right guesses mislead: what the device surely asked for is the better base.
        explanations = self.explainer.explanations(*first)
        return first[0], explanations, gave_up or not all(one.complete for one in explanations)

    def _spread(self, case: _Case, at_once: bool) -> Judged:
        """Decide of a device that the kernel spreads whether a revision explains it."""
        best = self._choose(case.explanations)
        verdict, why = self._verdict(case, best, at_once)
        predicted: dict[int, CpuSet] = {}
        kinds: dict[int, str] = {}
        first = 0
        places = list(case.guess.places(case.queues))
        sets = zip(case.guess.numgrps, best.offsets, ("default", "read"), strict=False)
        for numgrps, offsets, kind in sets:
            masks = self.explainer.masks(best.revision, numgrps)[offsets[0] if offsets else 0]
            for place, one in places:
                if first <= place < first + numgrps:
                    predicted[one.irq] = CpuSet.from_mask(masks[place - first])
                    kinds[one.irq] = kind if case.found.kind == "nvme" else "default"
            first += numgrps
        if verdict == "cannot be judged":
            predicted = {}
        rows = [
            self._row(case.found, one, predicted.get(one.irq), kinds.get(one.irq, "default"))
            for one in _in_order(case.found)
        ]
        if verdict == "cannot be judged":
            known = not case.found.from_maps
            rows = [
                replace(row, managed=row.managed or (known and row.kind != "other")) for row in rows
            ]
        return Judged(
            case.found,
            verdict,
            why,
            case.revisions,
            case.explanations,
            case.guess.numgrps,
            tuple(rows),
        )

    def _choose(self, explanations: Sequence[Explanation]) -> Explanation:
        """Choose the revision to show: the kernel's own if it explains, else the best."""
        explaining = [one for one in explanations if one.explains]
        return max(
            explaining or [one for one in explanations if one.revision in FIXED],
            key=lambda one: (one.matched, one.revision == self.expected, one.revision in FIXED),
        )

    def _verdict(self, case: _Case, best: Explanation, at_once: bool) -> tuple[str, str]:
        note = self._note(case)
        old = self.version is not None and self.version < (6, 3)
        what = "counted CPU" if case.by_counts else "mask"
        if case.revisions:
            return "follows", self._follows(case, best, note, at_once)
        text = f"{best.matched} of {counted(best.total, what)} as in {best.revision}, the closest"
        if not best.matched:
            text = f"none of {counted(best.total, what)} as in any revision"
        text += note
        if self.missing:
            usual = self._with_usual_siblings(case)
            return "cannot be judged", f"{self.missing}{usual}"
        if old:
            release = self.loaded.kernel
            return "older kernel", f"{release} has no group_cpus_evenly() (6.3 on); {text}"
        if case.gave_up:
            calls = counted(self.explainer.calls, "call")
            return "cannot be judged", f"{text}; nothing more was found in {calls}, where it ends"
        if case.by_counts:
            return "cannot be judged", f"no masks are known; {text}, by counts"
        if cut := self._cut(case, best):
            return "cannot be judged", f"{text}; {cut}"
        return "differs", f"{text}; {self._partition(case)}"

    def _note(self, case: _Case) -> str:
        note = f"; {case.guess.note}" if case.guess.note else ""
        if any(one.mask is None for one in case.evidence) and not case.by_counts:
            note += "; not all affinities are known"
        polled = len(case.found.maps) - sum(case.guess.numgrps)
        is_nvme = case.found.kind == "nvme"
        if is_nvme and polled > 0 and nvme_parameter(self.loaded, "poll_queues"):
            note += f"; {polled} more to be polled, without interrupts"
        return note

    def _follows(self, case: _Case, best: Explanation, note: str, at_once: bool) -> str:
        if case.guess.numgrps == (1,):
            evidence = "; spread when they were allocated, as the nodes of the interrupts show"
            return f"one queue: all CPUs, under every revision{evidence if at_once else ''}"
        offset = ""
        if (of := best.offsets) != (None,) * len(of):
            shown = " and ".join(offsets_text(one, best.tried) for one in of)
            offset = f" of {best.revision} with the counter at {shown}"
        text = f"{best.total} of {counted(best.total, 'mask')}{offset}{note}"
        if case.by_counts:
            silent = sum(not one for one in case.evidence)
            text = f"{best.total} of {counted(best.total, 'queue')} by counts{offset}{note}"
            text += f"; {silent} never counted" if silent else ""
        elif case.found.from_maps:
            text += ", by queue maps, which are made of them"
        release = self.loaded.kernel
        if self.version is not None and self.version < (6, 3):
            text += f"; kernel {release} deals so in irq_build_affinity_masks()"
        elif self.expected and self.expected not in case.revisions:
            text += f"; but kernel {release} should have {self.expected}"
        return text

    def _cut(self, case: _Case, best: Explanation) -> str:
        """Say that a mask looks cut off, if it is the only one that does not fit."""
        if best.matched != best.total - 1 or len(best.offsets) > 1 or best.offsets[0] is not None:
            return ""
        masks = self.explainer.masks(best.revision, case.guess.numgrps[0])[0]
        for place, vector in case.guess.places(case.queues):
            found, whole = vector.told.affinity, CpuSet.from_mask(masks[place])
            if found and found != whole and f"{whole}".startswith(f"{found}"):
                return f"the mask of {vector.name or vector.irq}, {found}, may be cut off: {whole}"
        return ""

    def _with_usual_siblings(self, case: _Case) -> str:
        """Say what the siblings that are usual would explain, where they are not known."""
        for words, topology in with_usual_siblings(self.loaded):
            explainer = Explainer(topology, 0, self.patience)
            places = [
                (place, self._evidence(case.found, one))
                for place, one in case.guess.places(case.queues)
            ]
            names = [name for name in FIXED if explainer.fits(case.guess, places, name)]
            if names:
                return f"; with siblings {words}, as is usual, it follows {', '.join(names)}"
        return ""

    def _partition(self, case: _Case) -> str:
        """Say whether the masks could be anybody's even grouping."""
        shared = every = CpuSet()
        for one in case.queues[case.guess.skipped :]:
            mask = one.told.affinity or CpuSet()
            shared |= every & mask
            every |= mask
        left = self.topology.possible - every
        if sum(case.guess.numgrps) > len([one for one in case.evidence if one.mask is not None]):
            left = CpuSet()  # they may be in masks that are not known
        if len(case.guess.numgrps) == 1 and (shared or left):
            parts = [f"CPUs {shared} are in several masks"] if shared else []
            parts += [f"CPUs {left} are in none"] if left else []
            return " and ".join(parts) + ", so this is no grouping of these CPUs"
        hint = "the CPUs or nodes may have been others when it probed, or the kernel is patched"
        if self.loaded.cluster_source == "unknown":
            hint = "the clusters are not known, and from 7.0 on they matter"
        return f"each CPU is in a mask: an even grouping of another kind; {hint}"

    # --- devices whose vectors the kernel does not spread

    def _defaults(self, node: int | None) -> dict[CpuSet, str]:
        if node not in self.defaults:
            self.defaults[node] = default_affinities(self.loaded, self.topology, node)
        return self.defaults[node]

    def _unmanaged(self, found: FoundDevice, evidence: str) -> Judged:
        """Say who set the affinities of a device that the kernel does not spread."""
        defaults = self._defaults(found.node)
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
        defaults = self._defaults(found.node)
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

    def _row(
        self, found: FoundDevice, vector: FoundVector, predicted: CpuSet | None, kind: str
    ) -> JudgedRow:
        shown = vector.told
        is_queue = vector.role == "queue"
        managed = shown.managed if shown.managed is not None else predicted is not None
        managed = managed and not found.from_maps
        handled = None if shown.counts is None else CpuSet(shown.counts)
        # The effective CPU of a managed interrupt stays what it is, so the only one is it.
        by_counts = managed and shown.effective is None and handled is not None
        by_counts = by_counts and handled is not None and len(handled) == 1
        row = JudgedRow(
            found.name,
            vector.queue if is_queue else None,
            vector.name,
            None if found.from_maps else vector.irq,
            kind if is_queue else "other",
            shown.affinity,
            predicted,
            handled if by_counts else shown.effective,
            managed,
            shown.shutdown is True,
            counted=handled,
            by_counts=by_counts,
        )
        if row.match is False:
            what = "mask than predicted" if row.affinity is not None else "CPU than predicted"
            return replace(row, why=f"another {what}")
        if predicted is None and is_queue and shown.affinity is not None:
            return replace(row, why=self._defaults(found.node).get(shown.affinity, ""))
        if predicted is None and not is_queue:
            return replace(row, why="not a queue's, so not managed" if not managed else "")
        return row


def _in_order(found: FoundDevice) -> Iterator[FoundVector]:
    """Put a device's vectors in the order of a listing: others first, then queue by queue."""
    if found.kind == "irqs" and found.spreads:
        yield from found.vectors
    else:
        yield from sorted(
            found.vectors, key=lambda one: (one.role == "queue", one.queue or 0, one.irq)
        )


def expected_revision(release: str | None) -> str | None:
    """Return the revision of a kernel release; None if it is not known, or has none known here."""
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
