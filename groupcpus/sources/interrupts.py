# SPDX-License-Identifier: GPL-2.0-only
"""The text of /proc/interrupts (kernel/irq/proc.c, show_interrupts())."""

import re

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources.facts import MAX_NAME, Facts, lines, read_cpu, read_number
from groupcpus.sources.irqfiles import MAX_IRQ, note_interrupt

__all__ = ["looks_like_interrupts", "read_interrupts", "split_description"]

# 8192 columns of 11 characters.
MAX_HEADER = 100_000
# The kernel counts in 64 bits at most.
MAX_DIGITS = 20

_HEADER = re.compile(r"\s*CPU[0-9]{1,5}(?:\s+CPU[0-9]{1,5})*\s*", re.ASCII)
_HWIRQ = re.compile(r"([0-9]{1,20})(?:-[A-Za-z]\S*)?", re.ASCII)
_COUNT = re.compile(f"[0-9]{{1,{MAX_DIGITS}}}", re.ASCII)
_LINE = re.compile(r" *([0-9]{1,9}):", re.ASCII)


def looks_like_interrupts(text: str) -> bool:
    """Tell whether a text is of this form."""
    first = next((line for _, line in lines(text[: MAX_HEADER + 1]) if line.strip()), "")
    return bool(_HEADER.fullmatch(first))


def split_description(words: str) -> tuple[str, int | None, tuple[str, ...]]:
    """Split what follows the counts: the chip's name, the hwirq, the names of the actions.

    Chip names have blanks in them, some chips have no hwirq, an interrupt may have no action.

    Examples
    --------
    >>> split_description("Hyper-V PCIe MSI 4138200989697-edge      mana_q0")
    ('Hyper-V PCIe MSI', 4138200989697, ('mana_q0',))
    >>> split_description("nwl_pcie:msi 524288 Edge      nvme0q0, nvme0q1")
    ('nwl_pcie:msi', 524288, ('nvme0q0', 'nvme0q1'))
    >>> split_description("xen-pirq-msi-x     eth0-Tx-Rx-0")
    ('xen-pirq-msi-x', None, ('eth0-Tx-Rx-0',))
    """
    tokens = words.split()
    if not tokens:
        return "", None, ()
    for at, token in enumerate(tokens[1:], start=1):
        if found := _HWIRQ.fullmatch(token):
            chip, hwirq, rest = " ".join(tokens[:at]), int(found[1]), tokens[at + 1 :]
            break
    else:
        chip, hwirq, rest = tokens[0], None, tokens[1:]
        if rest and rest[0].startswith("-"):
            # The flow handler's name without a number: "xen-dyn    -event     eth0".
            rest = rest[1:]
    if rest and rest[0] in ("Edge", "Level"):
        rest = rest[1:]
    return chip, hwirq, tuple(name for name in " ".join(rest).split(", ") if name)


def read_interrupts(text: str, where: str) -> Facts:
    """Read the numbered lines; those of the architecture (NMI, LOC, ...) are left out.

    Raises
    ------
    FormatError
        If a line is not what it should be.
    """
    facts = Facts(where)
    cpus: list[int] = []
    for number, line in lines(text):
        at = f"{where}: line {number}"
        if not cpus:
            if line.strip():
                if len(line) > MAX_HEADER or not _HEADER.fullmatch(line):
                    raise FormatError(at, f"{brief(line)}: expected a header of CPU0, CPU1, ...")
                cpus = [read_cpu(at, column.strip()[3:]) for column in line.split()]
                facts.online = CpuSet(cpus)
                if len(facts.online) != len(cpus):
                    raise FormatError(at, "a CPU has two columns")
            continue
        found = _LINE.match(line)
        if not found:
            continue
        irq = read_number(at, found[1], MAX_IRQ)
        if irq in facts.interrupts:
            raise FormatError(at, f"interrupt {irq} has two lines")
        counts, description = _counts(at, line[found.end() :], len(cpus))
        chip, hwirq, actions = split_description(description)
        note_interrupt(
            facts,
            at,
            irq,
            chip=chip[:MAX_NAME],
            hwirq=hwirq,
            actions=tuple(name[:MAX_NAME] for name in actions[:64]),
            counts={cpu: int(n) for cpu, n in zip(cpus, counts, strict=True) if n.strip("0")},
        )
    if not cpus:
        raise FormatError(where, "expected a header of CPU0, CPU1, ...")
    return facts


def _counts(where: str, line: str, cpus: int) -> tuple[list[str], str]:
    """Return the counts, one a CPU, and what stands behind them."""
    parts = line.split(maxsplit=cpus)
    counts, description = parts[:cpus], parts[cpus] if len(parts) > cpus else ""
    if len(counts) < cpus:
        raise FormatError(where, f"{len(counts)} counts for {cpus} CPUs")
    digits = "".join(counts)
    if not (digits.isascii() and digits.isdigit()) or max(map(len, counts)) > MAX_DIGITS:
        odd = next(count for count in counts if not _COUNT.fullmatch(count))
        raise FormatError(where, f"{brief(odd)}: expected {cpus} counts, one a CPU")
    return counts, description[:4096]
