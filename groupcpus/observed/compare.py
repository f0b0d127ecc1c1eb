# SPDX-License-Identifier: GPL-2.0-only
"""A reader's own machine beside the engine: which devices follow `group_cpus_evenly`, which not.

`compare` takes what `groupcpus.sources.load` gives: a capture, or text files together that have the
topology and the interrupts' affinities.  Masks follow from the topology, so each is predicted and
held against the one that was found.  Effective CPUs depend on the order of requests since boot,
which nothing shows: for these it is said how many managed interrupts each CPU has, and whether any
order explains them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief
from groupcpus.observed.completeness import stray_cpus
from groupcpus.observed.effective import EffectiveCpus, find_order, managed_loads
from groupcpus.observed.interleaving import Interleaving
from groupcpus.observed.judging import OFFSETS, ROTATING, Judge
from groupcpus.observed.patience import Patience
from groupcpus.observed.verdicts import Judged, JudgedRow
from groupcpus.sources import Loaded, ShownInterrupt
from groupcpus.sources.found import find_devices, find_mapped, irqchip_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SECONDS", "WORK", "Comparison", "compare"]

MAX_OFFSETS = 65536
WORK = 1_000_000
"""How much work the search for what devices asked for may take, if nothing else is said."""
SECONDS = 4.0
"""A guard of all searches: WORK and the order's states take half of it on a slow machine."""


@dataclass(frozen=True)
class Comparison:
    """A machine as it was found, beside what the engine predicts.

    Attributes
    ----------
    loaded : Loaded
        What was found.
    expected : str or None
        The revision that a kernel of this release has; None: not known, or too old for any.
    irqchip : str or None
        The irqchip's name in `IRQCHIPS`; None: not known.
    devices : tuple of Judged
        In the order of their slots.
    others : tuple of ShownInterrupt
        Interrupts of no device with queues.
    loads : dict of int to int
        Managed interrupts that each online CPU handles, by the effective affinities.
    order : Interleaving or None
        Whether an order of requests explains the managed interrupts' effective CPUs; None if
        there are none, or nothing is known of the irqchip.
    offsets_tried : int
        Values of the counter, from 0, that were tried for revisions that rotate.
    unknown : tuple of str
        What cannot be known from what was found, a sentence each.
    unmapped : CpuSet
        Isolated CPUs that queue maps leave out, though they may submit.
    """

    loaded: Loaded
    expected: str | None
    irqchip: str | None
    devices: tuple[Judged, ...]
    others: tuple[ShownInterrupt, ...]
    loads: dict[int, int]
    order: Interleaving | None
    offsets_tried: int
    unknown: tuple[str, ...]
    unmapped: CpuSet = field(default_factory=CpuSet)

    @property
    def topology(self) -> Topology:
        """The machine's CPUs."""
        assert self.loaded.topology is not None  # compare() checks
        return self.loaded.topology

    @property
    def rows(self) -> tuple[JudgedRow, ...]:
        """All vectors of all devices."""
        return tuple(row for judged in self.devices for row in judged.rows)

    def __getitem__(self, name: str) -> Judged:
        for judged in self.devices:
            if judged.found.name == name:
                return judged
        names = ", ".join(judged.found.name for judged in self.devices) or "none"
        raise RequestError(f"device {brief(name)}: expected one of {names}")

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a vector.

        Columns: device, verdict, queue, name, irq, kind, affinity, predicted, match, effective,
        managed, why, effective_why.
        """
        import pandas as pd

        frame = pd.DataFrame(map(vars, self.rows), columns=[one.name for one in fields(JudgedRow)])
        frame["verdict"] = [judged.verdict for judged in self.devices for _ in judged.rows]
        frame["match"] = [row.match for row in self.rows]
        for name in ("affinity", "predicted", "effective"):
            frame[name] = frame[name].map(str, na_action="ignore")
        columns = ["device", "verdict", "queue", "name", "irq", "kind", "affinity", "predicted"]
        columns += ["match", "effective", "managed", "why", "effective_why"]
        return frame[columns].astype({"queue": "Int64", "irq": "Int64", "match": "boolean"})

    @cached_property
    def summary(self) -> "pd.DataFrame":
        """One row a device: device, driver, kind, queues, matched, verdict, revisions, why."""
        import pandas as pd

        columns = ["device", "driver", "kind", "queues", "matched", "verdict", "revisions", "why"]
        return pd.DataFrame(
            [
                (
                    judged.found.name,
                    judged.found.driver or "",
                    judged.found.kind,
                    len(judged.found.queues),
                    sum(row.match is True for row in judged.rows),
                    judged.verdict,
                    ", ".join(judged.revisions),
                    judged.why,
                )
                for judged in self.devices
            ],
            columns=columns,
        )

    def document(self) -> dict[str, Any]:
        """Return the result as JSON knows it."""
        return {
            "kernel": self.loaded.kernel,
            "arch": self.loaded.arch,
            "irqchip": self.irqchip,
            "expected": self.expected,
            "topology": self.topology.to_dict(),
            "cluster_source": self.loaded.cluster_source,
            "notes": list(self.loaded.notes),
            "offsets_tried": self.offsets_tried,
            "devices": [
                {
                    "device": judged.found.name,
                    "driver": judged.found.driver,
                    "slot": judged.found.slot,
                    "kind": judged.found.kind,
                    "verdict": judged.verdict,
                    "why": judged.why,
                    "numgrps": list(judged.numgrps),
                    "revisions": [
                        {
                            "revision": one.revision,
                            "matched": one.matched,
                            "of": one.total,
                            "tried": one.tried,
                            "offsets": [None if of is None else list(of) for of in one.offsets],
                        }
                        for one in judged.explanations
                    ],
                    "queues": [_fields(row) for row in judged.rows],
                }
                for judged in self.devices
            ],
            "other_irqs": [told.irq for told in self.others],
            "managed_per_cpu": dict(self.loads),
            "order": None if self.order is None else str(self.order),
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        from groupcpus.observed.report import comparison_text  # which needs this module

        return comparison_text(self)


def _fields(row: JudgedRow) -> dict[str, Any]:
    """Return a row's fields with CPU sets as cpulists."""
    cpus = {
        name: None if getattr(row, name) is None else str(getattr(row, name))
        for name in ("affinity", "predicted", "effective")
    }
    rest = {key: value for key, value in vars(row).items() if key != "counted"}
    return {**rest, **cpus, "match": row.match}


def compare(
    loaded: Loaded, *, search_offsets: int = OFFSETS, patience: Patience | None = None
) -> Comparison:
    r"""Hold a machine's interrupts against what `group_cpus_evenly` gives on its topology.

    Parameters
    ----------
    loaded : Loaded
        As `groupcpus.sources.load` gives it: a capture, or several sources that have the topology
        and the affinities of interrupts.
    search_offsets : int
        How many values of the call counter, from 0, to try for the revisions that rotate; 0 leaves
        these out.
    patience : Patience, optional
        How much work all searches together may take; `WORK` and `SECONDS` when left out.

    Returns
    -------
    Comparison
        A verdict on each device and on each of its vectors.

    Raises
    ------
    RequestError
        If no source has the machine's CPUs, or an interrupt, or `search_offsets` is out
        of range.

    Examples
    --------
    >>> from groupcpus.sources import load
    >>> comparison = compare(load(
    ...     "/sys/devices/system/cpu/online:0-7\n/sys/devices/system/cpu/possible:0-7\n"
    ...     "irq 30 affinity 0-7 effective 0 nvme0q0\nirq 31 affinity 0-2 effective 2 nvme0q1\n"
    ...     "irq 32 affinity 3-5 effective 5 nvme0q2\nirq 33 affinity 6-7 effective 7 nvme0q3\n",
    ...     arch="x86_64"))
    >>> disk = comparison["nvme0"]
    >>> disk.verdict, disk.revisions[:3]
    ('follows', ('numa', 'numa-single-pop', 'cluster'))
    """
    topology = loaded.topology
    if isinstance(search_offsets, bool) or not 0 <= search_offsets <= MAX_OFFSETS:
        raise RequestError(f"offsets {brief(search_offsets)}: expected 0 to {MAX_OFFSETS}")
    if topology is None:
        raise RequestError("compare: no source names the CPUs of the machine; add lscpu -e or -p")
    if not loaded.interrupts and not loaded.queue_maps:
        raise RequestError("compare: no source has interrupts; add a capture or /proc/irq's files")
    patience = patience or Patience(WORK, seconds=SECONDS)
    judge = Judge(loaded, topology, search_offsets, patience.part(WORK))
    found, others = find_devices(loaded)
    judged = [judge.judge(device) for device in (*found, *find_mapped(loaded, found))]
    chip = irqchip_of(loaded)
    loads = managed_loads(judged, topology)
    effective = EffectiveCpus(topology, chip, judge.isolated, loads, judged)
    judged = [replace(one, rows=tuple(map(effective.explain, one.rows))) for one in judged]
    order = None
    if not stray_cpus(loaded, topology):
        order = find_order(judged, topology, chip, judge.isolated, patience)
    return Comparison(
        loaded,
        judge.expected,
        chip,
        tuple(judged),
        others,
        loads,
        order,
        search_offsets,
        tuple(_unknown(judged, loaded, chip)),
        judge.unmapped,
    )


def _unknown(judged: Sequence[Judged], loaded: Loaded, chip: str | None) -> Iterator[str]:
    """List what cannot be known."""
    managed = [row for one in judged for row in one.rows if row.managed]
    if managed:
        yield (
            "the history: in which order interrupts were requested since boot, and what was "
            "removed or went offline in between; effective CPUs depend on it"
        )
        flags = {told.managed for told in loaded.interrupts}
        if flags == {None}:
            yield (
                "whether interrupts are managed: only root may read that, so it is inferred from "
                "drivers' names and masks"
            )
    if any(set(one.revisions) & set(ROTATING) and one.numgrps != (1,) for one in judged):
        yield "the counter of revisions that rotate: offsets that give the same masks look alike"
    if chip is None:
        yield f"the irqchip of {loaded.arch or 'this architecture'}, so who picks effective CPUs"
    if loaded.cluster_source == "unknown":
        yield "the clusters: revisions that look at them are computed without any"
    if any(one.verdict == "moved" for one in judged) and loaded.irqbalance is None:
        yield "whether irqbalance runs"
