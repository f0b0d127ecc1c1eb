# SPDX-License-Identifier: GPL-2.0-only
"""The text of /proc/interrupts (kernel/irq/proc.c, show_interrupts()), wrapped or without a header.

Mails and terminals break its lines, at blanks or anywhere; the pieces are put together again, so
that every line has a count for each CPU, or the text is refused.
"""

import re

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.capture import split_description
from groupcpus.sources.facts import (
    Facts,
    numbered,
    read_cpu,
    read_cpulist,
    read_number,
)
from groupcpus.sources.irqfiles import note_interrupt

__all__ = ["InterruptsReader", "read_interrupts"]

# The kernel counts in 64 bits at most.
MAX_DIGITS = 20
# Terminals are at least so wide; what a mail program breaks is narrower.
_TERMINAL = 80

_HEADER = re.compile(r"\s*CPU[0-9]{1,5}(?:\s+CPU[0-9]{1,5})*\s*", re.ASCII)
_FIRST_PIECE = re.compile(r"\s*CPU[0-9]{1,5}(?:\s+CPU[0-9]{1,5})*(?:\s+C(?:PU?)?)?\s*", re.ASCII)
_NEXT_PIECE = re.compile(
    r"\s*(?:[0-9]{0,5}|U?[0-9]{1,5}|PU[0-9]{1,5})(?:\s*CPU[0-9]{1,5})*(?:\s+C(?:PU?)?)?\s*",
    re.ASCII,
)
_COUNT = re.compile(f"[0-9]{{1,{MAX_DIGITS}}}", re.ASCII)
_LABEL = re.compile(r" *(?:([0-9]{1,9})|[A-Z][A-Z0-9]{2,7}):(?=\s|$)", re.ASCII)
# Without a header, three counts at least and a chip's name are asked for.
_HEADLESS = re.compile(r" *[0-9]{1,9}:((?: +[0-9]{1,20}){2,8192}) +\S*[A-Za-z]", re.ASCII)
_NAME = re.compile(r"(?=.*[A-Za-z])[\w@.:,-]{1,100}", re.ASCII)
_AFFINITY_ALONE = re.compile(r" [0-9]+(?:[,-][0-9]+)+ *", re.ASCII)
_AFFINITY = re.compile(r"(.*?) affinity: ?(\S*)")


def read_interrupts(text: str, where: str) -> Facts:
    """Read the whole of /proc/interrupts, as a file that was copied has it.

    Raises
    ------
    FormatError
        If a line is not what it should be.
    """
    reader = None
    for number, line in numbered(text):
        if reader is None:
            if not line.strip():
                continue
            if not InterruptsReader.starts(line):
                break
            reader = InterruptsReader(where)
        reader.offer(number, line)
    if reader is None:
        raise FormatError(where, "expected a header of CPU0, CPU1, ...")
    return reader.facts()


class InterruptsReader:
    """Takes the lines of one output, and puts those together that were broken."""

    kind = "interrupts"

    def __init__(self, where: str) -> None:
        self.where = where
        self.header: list[str] = []
        self.rows: list[tuple[int, list[str]]] = []
        self.columns = 0
        self.whole = False
        self.held = 0
        """How many words the last row has behind its label, if any piece went on with it."""

    @staticmethod
    def starts(line: str) -> bool:
        """Return whether a line begins such a text, with its header or without."""
        return bool(_FIRST_PIECE.fullmatch(line) or _HEADLESS.match(line))

    def offer(self, number: int, line: str) -> bool:
        """Take a line, if it is one of this text."""
        if found := _LABEL.match(line):
            if found[1] and _AFFINITY_ALONE.fullmatch(line, found.end()):
                return False  # of a list of affinities
            self.rows.append((number, [line]))
            self.held, self.whole = 0, False
            return True
        if not self.rows:
            if not self.header and _FIRST_PIECE.fullmatch(line):
                self.header = [line]
                return True
            if self.header and line.strip() and _NEXT_PIECE.fullmatch(line):
                self.header.append(line)
                return True
            return False
        return self._continues(line)

    def _count(self) -> int:
        """Return how many CPUs the header names, or the first line has counts for."""
        if not self.columns:
            self.columns = len(self._cpus()) if self.header else self._headless_count()
        return self.columns

    def _headless_count(self) -> int:
        found = _HEADLESS.match(self.rows[0][1][0]) if self.rows else None
        return len(found[1].split()) if found else 0

    def _continues(self, line: str) -> bool:
        """Take a line that goes on with the one before, which lacks counts or a name."""
        _, pieces = self.rows[-1]
        tokens = line.split(maxsplit=64)
        if self.whole or not tokens or not _LABEL.match(pieces[0])[1]:  # type: ignore[index]
            return False
        if not self.held:
            self.held = len(pieces[0].partition(":")[2].split())
        enough = self._count()
        lacking = self.held < enough
        if lacking and not (tokens[0].isdigit() and tokens[0].isascii()):
            return False
        if not lacking and not self._lacks_a_name(pieces, tokens):
            self.whole = True
            return False
        pieces.append(line)
        self.held += len(line.split())
        return True

    def _lacks_a_name(self, pieces: list[str], tokens: list[str]) -> bool:
        """Return whether the last row has no name yet, and these words may be the rest of it."""
        if len(tokens) > 6 or not _NAME.fullmatch(tokens[0]):
            return False
        words = " ".join(pieces).partition(":")[2].split()[self._count() :]
        _, hwirq, actions = split_description(" ".join(words))
        return not actions and (hwirq is not None or len(words) < 2)

    def _cpus(self) -> list[int]:
        for joint in ("", " ") if self._broken_anywhere() else (" ", ""):
            text = joint.join(self.header)
            if _HEADER.fullmatch(text):
                return [read_cpu(self.where, column[3:]) for column in text.split()]
        raise FormatError(self.where, f"{brief(self.header[-1])}: expected CPU0, CPU1, ...")

    def _broken_anywhere(self) -> bool:
        """Return whether lines were broken at a width, not at blanks.

        At blanks, the pieces of the header and those of the rows differ in their widths.
        """
        widths = {len(piece) for _, pieces in self.rows for piece in pieces[:-1]}
        widths |= {len(piece) for piece in self.header[:-1]}
        return len(widths) == 1 and (min(widths) >= _TERMINAL or len(self.header) > 1)

    def facts(self) -> Facts:
        """Return what was read: the numbered lines; the architecture's (NMI, LOC) are left out.

        Raises
        ------
        FormatError
            If a line has not a count for each CPU.
        """
        facts = Facts(self.where)
        cpus = self._cpus() if self.header else []
        if cpus:
            facts.online = CpuSet(cpus)
            if len(facts.online) != len(cpus):
                raise FormatError(self.where, "a CPU has two columns")
        joint = "" if self._broken_anywhere() else " "
        named = False
        for number, pieces in self.rows:
            at = f"{self.where}: line {number}"
            label = _LABEL.match(pieces[0])
            if label is None or not label[1]:
                continue
            irq = read_number(at, label[1], limits.IRQ)
            row = joint.join(pieces)[label.end() :] if len(pieces) > 1 else pieces[0][label.end() :]
            counts, description = _counts(at, row, self._count())
            named = named or bool(description)
            if irq in facts.interrupts:
                raise FormatError(at, f"interrupt {irq} has two lines")
            told: dict[str, object] = {}
            if found := _AFFINITY.fullmatch(description):
                description = found[1]
                told["affinity"] = read_cpulist(at, found[2])
            chip, hwirq, names = split_description(description)
            if cpus:
                told["counts"] = {
                    cpu: int(text)
                    for cpu, text in zip(cpus, counts, strict=True)
                    if text != "0" and int(text)
                }
            else:
                facts.columns[irq] = {at: int(text) for at, text in enumerate(counts) if int(text)}
            told |= {"chip": chip[: limits.NAME], "hwirq": hwirq}
            told["actions"] = tuple(name[: limits.NAME] for name in names[:64])
            note_interrupt(facts, at, irq, **told)
        if facts.interrupts and not named:
            raise FormatError(
                self.where, "no line has a name behind its counts: the text is cut off at the right"
            )
        facts.arch = _architecture(facts)
        if not cpus:
            facts.column_count = self._count()
            facts.notes.append(f"{self.where}: its header of CPU0, CPU1, ... is missing")
        return facts


# What only one architecture's chips are called (kernel/irq and drivers/irqchip).
_CHIPS = (
    ("x86_64", ("IO-APIC", "IR-IO-APIC", "DMAR-MSI", "HPET-MSI", "IR-HPET-MSI")),
    ("aarch64", ("GIC", "ITS-")),
    ("riscv64", ("RISC-V", "SiFive", "APLIC", "IMSIC", "riscv")),
    ("loongarch64", ("EIOINTC", "LIOINTC", "CPUINTC", "PCH-")),
    ("ppc64le", ("XIVE", "XICS")),
)


def _architecture(facts: Facts) -> str | None:
    """Return the architecture, by the chips; 32-bit ones are taken for their 64-bit kin."""
    names = {told.chip for told in facts.interrupts.values()}
    found = [arch for arch, chips in _CHIPS if any(name.startswith(chips) for name in names)]
    return found[0] if len(found) == 1 else None


def _counts(where: str, line: str, cpus: int) -> tuple[list[str], str]:
    """Return the counts, one a CPU, and what stands behind them."""
    parts = line.split(maxsplit=cpus)
    counts, description = parts[:cpus], parts[cpus] if len(parts) > cpus else ""
    if len(counts) < cpus:
        raise FormatError(
            where, f"{len(counts)} counts for {cpus} CPUs: the line is cut off or wrapped"
        )
    digits = "".join(counts)
    longest = len(digits) - len(counts) + 1  # if all others have one digit
    if longest > MAX_DIGITS:
        longest = max(map(len, counts))
    if not (digits.isascii() and digits.isdigit()) or longest > MAX_DIGITS:
        odd = next(count for count in counts if not _COUNT.fullmatch(count))
        raise FormatError(where, f"{brief(odd)}: expected {cpus} counts, one a CPU")
    if _COUNT.fullmatch(description.split(maxsplit=1)[0]) if description else False:
        raise FormatError(where, f"more than {cpus} counts for {cpus} CPUs: is the header whole?")
    return counts, description[:4096]
