# SPDX-License-Identifier: GPL-2.0-only
"""A text as people paste it: outputs of several commands, one after the other, wrapped or not.

Each form has a reader that knows its first line and takes its lines; what no reader takes is
counted and named, so that nobody believes it was read.
"""

import json
import re
from typing import Any, Protocol

from groupcpus.errors import FormatError, brief, counted
from groupcpus.sources import limits
from groupcpus.sources.affinity import DumpReader
from groupcpus.sources.captured import read_capture
from groupcpus.sources.cleaned import command_of, host_of, is_ellipsis, is_noise, lines_of
from groupcpus.sources.facts import Facts, Line
from groupcpus.sources.hwloc import read_hwloc
from groupcpus.sources.interrupts import InterruptsReader
from groupcpus.sources.lscpu import TableReader, ValuesReader, read_json_table
from groupcpus.sources.numactl import NumactlReader
from groupcpus.sources.recorded import is_recording, read_recording
from groupcpus.sources.remarks import RemarksReader
from groupcpus.sources.summary import SummaryReader, read_json_summary

__all__ = ["read_json", "read_pasted"]


_FORMS: tuple[type["Reader"], ...] = ()
_HINTS = (
    (r"\s*[0-9]+ +[0-9-]+ +[0-9-]+ .*\b(?:yes|no)\b.*", "rows of lscpu -e need the header above"),
    (r"\s*[0-9]+,[0-9]*,[0-9]*,.*", "rows of lscpu -p need the line '# CPU,Core,...' above them"),
    (r"\s*[0-9]+(?:[,-][0-9]+)+\s*", "CPU lists need the interrupt before them, as grep . prints"),
    (r"\s*CPU[0-9]+: .*", "names by CPU do not say an interrupt's affinity or counts"),
    (
        r"\s*[0-9]+\s+[0-9]+(?:[,-][0-9]+)*\s*",
        "which file each value is of must be there, as grep . /proc/irq/*/smp_affinity_list prints",
    ),
    (r".*-> CPUs .*", "an interrupt needs its number: irq 40 affinity 0-3 effective 1 nvme0q1"),
)


class Reader(Protocol):
    """Takes the lines of one form."""

    kind: str

    def __init__(self, where: str) -> None: ...

    @staticmethod
    def starts(line: str) -> bool:
        """Return whether a line is this form's first."""

    def offer(self, number: int, line: str) -> bool:
        """Take a line; return whether it is one of this form."""

    def facts(self) -> Facts:
        """Return what the lines say."""


class _Block:
    """Takes a document of JSON or XML that stands between other lines."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.kind = "hwloc"
        self.end = "</topology>"
        self.text: list[str] = []
        self.done = False

    @staticmethod
    def starts(line: str) -> bool:
        return line.rstrip() == "{" or line.startswith(("<?xml", "<topology", "<!DOCTYPE topology"))

    def offer(self, number: int, line: str) -> bool:
        if self.done:
            return False
        if not self.text and line.rstrip() == "{":
            self.kind, self.end = "JSON", "}"
        self.text.append(line)
        self.done = line.rstrip() == self.end
        return True

    def facts(self) -> Facts:
        text = "\n".join(self.text)
        if self.kind == "hwloc":
            return read_hwloc(text, self.where)
        self.kind, facts = read_json(text, self.where)
        return facts


_FORMS = (_Block, InterruptsReader, ValuesReader, TableReader, NumactlReader)


class _Text:
    """The reading of one text: whose lines are being read, and what was left."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.readers: list[Reader] = []
        self.current: Reader | None = None
        self.dump = DumpReader(f"dump ({name})")
        self.remarks = RemarksReader(f"text ({name})")
        self.unread: list[Line] = []
        self.left_out: list[Line] = []
        self.number = 0
        """The line that says whose the next one is."""
        self.inside = False
        """Whether the last line was one of a listing."""
        self.host = ""
        self.hosts: dict[str, int] = {}
        """Of the prompts, those whose outputs were read, and where."""

    def take(self, number: int, line: str) -> None:
        """Hand a line to the reader whose it is."""
        if len(line) > limits.LINE:
            self._leave(number, line)
        elif not self._stands_between(number, line):
            noise = is_noise(line)
            self.inside = self._go_on(number, line)
            if self.inside:
                self.number = number
                self.hosts.setdefault(self.host, number)
            elif not noise and self.dump.takes_value(line):
                self.inside = True
            elif not (
                (isinstance(self.current, SummaryReader) and self.current.offer(number, line))
                or self.remarks.offer(number, line)
                or (SummaryReader.starts(line) and self._begin(SummaryReader, number, line))
                or noise
            ):
                self._leave(number, line)

    def _stands_between(self, number: int, line: str) -> bool:
        """Take a line that is of no output: a blank one, an ellipsis, a prompt."""
        if not line.strip():
            # The affinity of an interrupt may be empty, and so is its file.
            if self.number + 1 == number:
                self.dump.takes_value(line)
            return True
        if is_ellipsis(line):
            self._ellipsis(number, line)
            return True
        prompt = command_of(line)
        if prompt is None:
            return False
        self.current = None
        self.inside = False
        if host := host_of(line):
            self.host = host
        self.dump.expect(prompt[1])
        self.number = number if line.strip() != prompt[0] else 0
        return True

    def _leave(self, number: int, line: str) -> None:
        """Keep a line that nobody reads, to say so."""
        self.unread.append((number, line[:500]))
        if len(self.unread) > limits.UNREAD:
            raise FormatError(
                f"{self.name}: line {number}", f"more than {limits.UNREAD} lines of no known form"
            )

    def _go_on(self, number: int, line: str) -> bool:
        """Hand the line to whom it surely belongs."""
        own = self.current is not None and not isinstance(self.current, SummaryReader)
        if own and self.current.offer(number, line):  # type: ignore[union-attr]
            return True
        for form in _FORMS:
            if form.starts(line):
                self.dump.expect(None)
                return self._begin(form, number, line)
        return self.dump.offer(number, line)

    def _begin(self, form: type[Reader], number: int, line: str) -> bool:
        if len(self.readers) >= limits.OUTPUTS:
            raise FormatError(f"{self.name}: line {number}", f"more than {limits.OUTPUTS} outputs")
        where = f"{getattr(form, 'kind', 'text')} ({self.name})"
        self.current = form(where)
        self.readers.append(self.current)
        return self.current.offer(number, line)

    def _ellipsis(self, number: int, line: str) -> None:
        if self.inside or isinstance(self.current, TableReader | ValuesReader | NumactlReader):
            raise FormatError(
                f"{self.name}: line {number}",
                f"{brief(line.strip())}: lines were left out here, give the whole output",
            )
        self.left_out.append((number, line))

    def facts(self) -> list[tuple[str, Facts]]:
        if len(hosts := [host for host in self.hosts if host]) > 1:
            raise FormatError(
                f"{self.name}: line {self.hosts[hosts[1]]}",
                f"outputs of {brief(hosts[0])} and of {brief(hosts[1])}: give each machine's alone",
            )
        found = [(reader.facts(), reader) for reader in self.readers]
        result = [(reader.kind, facts) for facts, reader in found]
        result += [
            (reader.kind, reader.facts()) for reader in (self.dump, self.remarks) if reader.known
        ]
        if not result:
            raise FormatError(self.name, self._refusal())
        rest = Facts(f"text ({self.name})")
        if self.unread:
            named = ", ".join(f"line {at} {brief(line[:40])}" for at, line in self.unread[:3])
            more = ", ..." if len(self.unread) > 3 else ""
            rest.notes.append(
                f"{self.name}: {counted(len(self.unread), 'line')} not read: {named}{more}"
            )
        if self.left_out:
            at = self.left_out[0][0]
            rest.doubts.append(f"{self.name}: line {at}: lines were left out there")
        return [*result, ("remarks", rest)]

    def _refusal(self) -> str:
        for number, line in self.unread[:20]:
            for pattern, hint in _HINTS:
                if re.fullmatch(pattern, line[:500], re.ASCII):
                    return f"line {number}: {brief(line.strip())}: {hint}"
        return ""


def read_pasted(text: str, name: str, expected: str) -> list[tuple[str, Facts]]:
    """Read a text of one or more outputs; return the kind of each and what it says.

    Raises
    ------
    FormatError
        If there is no known form in it, or one of them is damaged.
    """
    reading = _Text(name)
    for number, line in lines_of(text, name):
        reading.take(number, line)
    try:
        return reading.facts()
    except FormatError as error:
        if error.where == name and not error.what:
            raise FormatError(name, expected) from None
        raise


def read_json(text: str, name: str) -> tuple[str, Facts]:
    """Read a document of JSON: a capture, a recording, or lscpu's.

    Raises
    ------
    FormatError
        If it is none of them, or damaged.
    """
    if len(text) > limits.DOCUMENT:
        raise FormatError(
            name, f"{len(text)} characters of JSON: at most {limits.DOCUMENT} are read"
        )
    try:
        document: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(name, f"no JSON: {error}") from None
    if "format" in document:
        return "capture", read_capture(document, f"capture ({name})")
    if is_recording(document):
        return "machine", read_recording(document, f"recording ({name})")
    if "cpus" in document:
        return "lscpu", read_json_table(document["cpus"], f"lscpu ({name})")
    if "lscpu" in document:
        return "lscpu", read_json_summary(document["lscpu"], f"lscpu ({name})")
    raise FormatError(name, "JSON that is neither a capture, a recording nor of lscpu")
