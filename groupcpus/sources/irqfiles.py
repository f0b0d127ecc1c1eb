# SPDX-License-Identifier: GPL-2.0-only
"""The files of /proc/irq/N and /sys/block/DISK/mq/N, wherever they were copied from."""

from typing import Any

from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.facts import (
    Facts,
    ShownInterrupt,
    read_cpulist,
    read_mask,
    read_number,
)

__all__ = ["note_interrupt", "read_irq_file", "read_queue_map"]


def note_interrupt(facts: Facts, where: str, irq: int, **told: Any) -> None:
    """Add what is told of an interrupt to what is known of it already.

    Raises
    ------
    FormatError
        If the same was told before, and differently.
    """
    known = facts.interrupts.get(irq) or ShownInterrupt(irq)
    if irq not in facts.interrupts and len(facts.interrupts) >= limits.INTERRUPTS:
        raise FormatError(where, f"more than {limits.INTERRUPTS} interrupts")
    for name, value in told.items():
        before = getattr(known, name)
        if before not in (None, "", ()) and before != value:
            raise FormatError(
                where,
                f"{name} of interrupt {irq} is {brief(str(value))} here, "
                f"{brief(str(before))} before",
            )
    facts.interrupts[irq] = ShownInterrupt(**(vars(known) | told))


_FILES = {
    "smp_affinity_list": ("affinity", read_cpulist),
    "smp_affinity": ("affinity", read_mask),
    "effective_affinity_list": ("effective", read_cpulist),
    "effective_affinity": ("effective", read_mask),
}


def read_irq_file(facts: Facts, where: str, irq: str, name: str, text: str) -> None:
    """Take in one file of /proc/irq/N."""
    number = read_number(where, irq, limits.IRQ)
    if name in _FILES:
        field, read = _FILES[name]
        note_interrupt(facts, where, number, **{field: read(where, text)})
    elif name == "node" and text != "-1":
        note_interrupt(facts, where, number, node=read_number(where, text, 1023))


def read_queue_map(facts: Facts, where: str, disk: str, queue: str, text: str) -> None:
    """Take in one cpu_list of a disk's hardware queue."""
    queues = facts.queue_maps.setdefault(disk, {})
    number = read_number(where, queue, limits.QUEUES - 1)
    if number in queues:
        raise FormatError(where, f"queue {number} of {disk} is mapped twice")
    facts.mapped_queues += 1
    if facts.mapped_queues > limits.QUEUES:
        raise FormatError(where, f"more than {limits.QUEUES} queues")
    queues[number] = read_cpulist(where, text)
