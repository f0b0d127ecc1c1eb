# SPDX-License-Identifier: GPL-2.0-only
"""A run in figures, and as a line of text."""

from dataclasses import dataclass

from groupcpus.machines.requests import Parallel

__all__ = ["Summary"]


@dataclass(frozen=True)
class Summary:
    """A run in figures; ``str()`` is what one would paste into a mail.

    Attributes
    ----------
    irqs : int
        Interrupts that some CPU handles.
    cpus, used : int
        Online CPUs, and those that handle any.
    most_used : int
        The greatest possible `used` with this irqchip, whatever the grouping.
    least, greatest : int
        Interrupts on the least and on the most loaded online CPU.
    best : int
        The least possible `greatest` with this irqchip, whatever the grouping.
    best_with_masks : int
        The least possible `greatest` with these masks, whatever the irqchip.
    histogram : dict of int to int
        How many online CPUs handle each number of interrupts.
    hot : int
        CPUs that handle an interrupt whose mask is that CPU alone.
    single : int
        Such interrupts.
    submitters, best_submitters : int
        The most submitters that a CPU completes for, and the least possible of that.
    parallel : Parallel
        What becomes of `greatest` and `submitters` when disks probe in parallel.
    per_node : dict of int to int
        Interrupts handled in each node.
    """

    title: str
    irqs: int
    cpus: int
    used: int
    most_used: int
    least: int
    greatest: int
    best: int
    best_with_masks: int
    histogram: dict[int, int]
    hot: int
    single: int
    submitters: int
    best_submitters: int
    parallel: Parallel
    per_node: dict[int, int]

    @property
    def excess(self) -> int:
        """How far the most loaded CPU is above the best possible."""
        return self.greatest - self.best

    def __str__(self) -> str:
        spread = ", ".join(f"{cpus} CPUs x {irqs}" for irqs, cpus in self.histogram.items())
        distance = f"{self.excess} above it" if self.excess else "reached"
        nodes = "/".join(map(str, self.per_node.values()))
        reach = f" ({self.most_used} possible)" if self.used < self.most_used else ""
        return (
            f"{self.title}: {self.irqs} IRQs on {self.used} of {self.cpus} CPUs{reach}, "
            f"max {self.greatest} (best possible {self.best}, {distance}; with these masks "
            f"{self.best_with_masks}); {spread}; "
            f"{self.single} single-CPU IRQs on {self.hot} CPUs; per node {nodes}; "
            f"max {self.submitters} submitters (best possible {self.best_submitters}); "
            f"in parallel, {self.parallel}"
        )
