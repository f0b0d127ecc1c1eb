# SPDX-License-Identifier: GPL-2.0-only
"""What a picture's title says of a run: the news, not a list of figures.

The live view has the same in its script, for pages without a kernel; a test compares them.
"""

from groupcpus.errors import counted
from groupcpus.machines.run import Run

__all__ = ["headline", "story"]


def story(run: Run, show: str = "IRQs") -> str:
    """Return what is worth knowing about a run, in a few words.

    Parameters
    ----------
    run : Run
        What happened.
    show : {"IRQs", "submitters"}
        What is counted on each CPU.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> for revision in ("cluster", "rotate-v2"):
    ...     print(story(simulate("L96as_v4", revision=revision)))
    28 CPUs do double duty, 6 IRQs each; nobody needs more than 4
    no CPU has more than 4 IRQs, the best possible
    >>> print(story(simulate("D16plds_v6", revision="cluster")))
    2 IRQs at most, on 6 CPUs where 11 could serve
    """
    if show == "submitters":
        most = counted(max(run.submitters.values(), default=0), "submitter")
        return f"no CPU completes the I/O of more than {most}"
    empty = [irq.label for irq in run.interrupts if not irq.affinity]
    if len(empty) == 1:
        return f"{empty[0]} has no CPU: its mask is empty"
    if empty:
        return f"{empty[0]} and {len(empty) - 1} more have no CPU: empty masks"
    lost = [(device, queues) for device, queues in run.lost.items() if queues]
    if lost:
        return f"{lost[0][0]} does without {counted(lost[0][1], 'queue')}: a mask is empty"
    counts = [run.counts[cpu] for cpu in run.machine.topology.online]
    greatest = max(counts, default=0)
    if not greatest:
        return "no interrupts"
    if greatest > run.best:
        return f"{_most_loaded(counts, greatest)}; nobody needs more than {run.best}"
    irqs, used = counted(greatest, "IRQ"), sum(map(bool, counts))
    if used < run.most_used:
        return f"{irqs} at most, on {counted(used, 'CPU')} where {run.most_used} could serve"
    return f"no CPU has more than {irqs}, the best possible"


def _most_loaded(counts: list[int], greatest: int) -> str:
    """Say how many CPUs have most, and if that is twice as much as any other has."""
    most, irqs = counts.count(greatest), counted(greatest, "IRQ")
    if most == 1:
        return f"one CPU has {irqs}"
    below = max((count for count in counts if count < greatest), default=0)
    if below * 2 == greatest:
        return f"{most} CPUs do double duty, {irqs} each"
    return f"{most} CPUs have {irqs} each"


def headline(run: Run, when: str = "", show: str = "IRQs") -> str:
    """Return a title: when, which revision, and the story.

    Examples
    --------
    >>> from groupcpus import simulate
    >>> headline(simulate("D16plds_v6", revision="cluster"), "before")
    'before, cluster: 2 IRQs at most, on 6 CPUs where 11 could serve'
    """
    return f"{when}{', ' if when else ''}{run.revision.name}: {story(run, show)}"
