# SPDX-License-Identifier: GPL-2.0-only
"""Dumps that people make of affinities and queue maps, by `grep`, `tail` or small scripts.

Read are ``path:value`` lines (``grep . /proc/irq/*/smp_affinity_list``, any file that `sysfs`
knows), ``==> path <==`` before a value (``tail -n +1``), and lines of scripts that print an
interrupt, its affinity and its effective affinity.  Other lines are skipped and counted.
"""

import re
from collections.abc import Callable

from groupcpus.errors import FormatError
from groupcpus.sources.facts import MAX_NAME, Facts, lines, read_cpulist, read_number
from groupcpus.sources.interrupts import split_description
from groupcpus.sources.irqfiles import MAX_IRQ, note_interrupt, read_queue_map
from groupcpus.sources.sysfs import Tree, read_tree

__all__ = ["looks_like_dump", "read_dump"]

_LIST = r"([0-9](?:[0-9,:-]*[0-9])?|)"
# Some shells print the "-e" of `echo -e`, some editors a tab as "^I".
_ECHO = re.compile(r"(?:-e ?)?(?:\^I|[ \t])*")
_IRQ = re.compile(
    rf"irq ([0-9]{{1,10}}),? (?:cpu list|affinity) {_LIST},? ?effective(?: list)? ?{_LIST}"
    r"(?: +is_managed:([01]))?(?: +(\S.*))?",
    re.ASCII,
)
_CONFIGURED = re.compile(
    rf"IRQ=([0-9]{{1,10}}) configured={_LIST} effective={_LIST}(?: +(\S.*))?", re.ASCII
)
_COUNTED = re.compile(r"([0-9]{1,10}):(?: +[0-9]{1,20})+ +([^ 0-9].*) affinity: ?(\S*)", re.ASCII)
_HCTX = re.compile(r"hctx([0-9]{1,5}): (default|read|poll)((?: [0-9]{1,5})*)", re.ASCII)
_DISK = re.compile(r"queue mapping for /dev/([0-9A-Za-z_!-]{1,64})", re.ASCII)
_TAIL = re.compile(r"==> (\S{1,1000}) <==")
_PATH_LIMIT = 1024
# A line of /proc/interrupts for 8192 CPUs has 90,000 characters.
MAX_LINE = 131_072


class _Dump:
    """The state of a reading: what was found, and what a later line refers to."""

    def __init__(self, where: str) -> None:
        self.facts = Facts(where)
        self.tree = Tree(where)
        self.disk: str | None = None
        self.pending: str | None = None
        self.skipped = 0

    def read(self, where: str, line: str) -> bool:
        """Take in a line; tell whether it was known."""
        if len(line) > MAX_LINE:
            return False
        if self.pending is not None:
            self.tree.add_line(self.pending, line)
            self.pending = None
            return True
        text = line[_ECHO.match(line).end() :].rstrip()  # type: ignore[union-attr]
        for reader in (self._path, self._irq, self._configured, self._queue, self._counted):
            if reader(where, text):
                return True
        return False

    def _path(self, where: str, text: str) -> bool:
        if found := _TAIL.fullmatch(text):
            self.pending = Tree.key(found[1])
            return self.pending is not None
        # Paths of PCI devices have colons themselves; words before a path are of error messages.
        at = text.find(":", 0, _PATH_LIMIT)
        while at > 0 and " " not in text[:at]:
            if key := Tree.key(text[:at]):
                self.tree.add_line(key, text[at + 1 :])
                return True
            at = text.find(":", at + 1, _PATH_LIMIT)
        return False

    def _irq(self, where: str, text: str) -> bool:
        found = _IRQ.fullmatch(text)
        if found:
            managed = None if found[4] is None else found[4] == "1"
            self._note(where, found[1], found[2], found[3], found[5], managed)
        return bool(found)

    def _configured(self, where: str, text: str) -> bool:
        found = _CONFIGURED.fullmatch(text)
        if found:
            self._note(where, found[1], found[2], found[3], found[4], None)
        return bool(found)

    def _note(
        self,
        where: str,
        irq: str,
        affinity: str,
        effective: str,
        name: str | None,
        managed: bool | None,
    ) -> None:
        number = read_number(where, irq, MAX_IRQ)
        if not affinity and not effective:
            self.facts.notes.append(f"{where}: interrupt {number} has no affinity to read")
            return
        told: dict[str, object] = {
            "affinity": read_cpulist(where, affinity),
            "effective": read_cpulist(where, effective),
        }
        if name:
            told["actions"] = (name[:MAX_NAME],)
        if managed is not None:
            told["managed"] = managed
        note_interrupt(self.facts, where, number, **told)

    def _counted(self, where: str, text: str) -> bool:
        """Read a line of /proc/interrupts with the affinity put behind it."""
        found = _COUNTED.fullmatch(text)
        if found:
            chip, hwirq, actions = split_description(found[2])
            note_interrupt(
                self.facts,
                where,
                read_number(where, found[1], MAX_IRQ),
                chip=chip[:MAX_NAME],
                hwirq=hwirq,
                actions=tuple(name[:MAX_NAME] for name in actions[:64]),
                affinity=read_cpulist(where, found[3]),
            )
        return bool(found)

    def _queue(self, where: str, text: str) -> bool:
        if found := _DISK.fullmatch(text):
            self.disk = found[1]
            return True
        found = _HCTX.fullmatch(text)
        if not found:
            return False
        if self.disk is None:
            raise FormatError(where, "a queue's map before any 'queue mapping for /dev/...'")
        read_queue_map(self.facts, where, self.disk, found[1], ",".join(found[3].split()))
        self.facts.queue_kinds.setdefault(self.disk, {})[int(found[1])] = found[2]
        return True


def looks_like_dump(text: str) -> bool:
    """Tell whether one of a text's first lines is of a known form."""
    return _first_known(text, lambda number, _: number < 1000)


def _first_known(text: str, go_on: Callable[[int, str], bool]) -> bool:
    for number, line in lines(text[:500_000]):
        try:
            if _Dump("").read("", line):
                return True
        except FormatError:
            return True
        if not go_on(number, line):
            return False
    return False


def read_dump(text: str, where: str) -> Facts:
    r"""Read a dump.

    Raises
    ------
    FormatError
        If a known line does not say what it should, or two contradict each other.

    Examples
    --------
    >>> text = "/proc/irq/43/smp_affinity:00,00100001\nirq 58 affinity 4-5 effective 4 nvme0q1"
    >>> for irq, told in read_dump(text, "dump").interrupts.items():
    ...     print(irq, told.affinity, told.effective, told.actions)
    43 0,20 None ()
    58 4-5 4 ('nvme0q1',)
    """
    dump = _Dump(where)
    known = 0
    for number, line in lines(text):
        if dump.read(f"{where}: line {number}", line):
            known += 1
        elif line.strip():
            dump.skipped += 1
    if not known:
        raise FormatError(where, "no line that tells an affinity, a queue map or a sysfs file")
    return _merged(dump)


def _merged(dump: _Dump) -> Facts:
    """Join what the paths said and what the other lines said."""
    facts = read_tree(dump.tree)
    for irq, told in dump.facts.interrupts.items():
        values = {name: value for name, value in vars(told).items() if value not in (None, "", ())}
        values.pop("irq")
        note_interrupt(facts, dump.tree.where, irq, **values)
    for disk, queues in dump.facts.queue_maps.items():
        if disk in facts.queue_maps:
            raise FormatError(dump.tree.where, f"the queues of {disk} are mapped twice")
        facts.queue_maps[disk] = queues
    facts.queue_kinds = dump.facts.queue_kinds
    facts.notes += dump.facts.notes
    if dump.skipped:
        facts.notes.append(f"{dump.tree.where}: {dump.skipped} lines were not known and skipped")
    return facts
