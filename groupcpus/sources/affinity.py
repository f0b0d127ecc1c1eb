# SPDX-License-Identifier: GPL-2.0-only
"""Dumps that people make of affinities and queue maps, by `grep`, `cat`, `tail` or small scripts.

Read are ``path:value`` lines (``grep . /proc/irq/*/smp_affinity_list``, any file that `sysfs`
knows), a path before a value (``tail -n +1``, ``# cat FILE``), and lines of scripts that print an
interrupt, its affinity and its effective affinity.
"""

import re

from groupcpus.errors import FormatError
from groupcpus.sources import limits
from groupcpus.sources.facts import Facts, read_cpulist, read_number
from groupcpus.sources.irqfiles import note_interrupt, read_queue_map
from groupcpus.sources.sysfs import Tree, read_tree

__all__ = ["DumpReader"]

_LIST = r"([0-9](?:[0-9,:-]*[0-9])?|)"
# Some shells print the "-e" of `echo -e`, some editors a tab as "^I".
_ECHO = re.compile(r"(?:-e ?)?(?:\^I|[ \t])*")
_OF_SCRIPTS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"irq (?P<irq>[0-9]{{1,10}}),? (?:cpu list|affinity) (?P<affinity>{_LIST}),? ?"
        rf"effective(?: list)? ?(?P<effective>{_LIST})"
        r"(?: +is_managed:(?P<managed>[01]))?(?: +(?P<name>\S.*))?",
        rf"IRQ=(?P<irq>[0-9]{{1,10}}) configured=(?P<affinity>{_LIST}) "
        rf"effective=(?P<effective>{_LIST})(?: +(?P<name>\S.*))?",
        r"(?P<name>\S{1,100}) \(IRQ (?P<irq>[0-9]{1,10})\): "
        rf"(?:smp_affinity_list|affinity|cpus?)[=: ] ?(?P<affinity>{_LIST})"
        rf"(?:,? ?effective(?:_affinity_list)?[=: ] ?(?P<effective>{_LIST}))?",
        r"(?:irq|IRQ|Irq)?[ =]?(?P<irq>[0-9]{1,10})(?: \((?P<name>[^\s()]{1,100})\))?"
        r"(?:: ?| ?[-=]> ?|[ ,:]+(?:smp_)?affinity(?:_list)?[ =:]{1,3})"
        rf"(?=[0-9])(?P<affinity>{_LIST})",
    )
)
_MAY_BE_OF_SCRIPT = re.compile(r"(?:irq|IRQ|Irq)?[ =]?[0-9]|\S{1,100} \(IRQ [0-9]", re.ASCII)
_TUNA_HEADER = re.compile(r"\s*# users\s+affinity\s*")
_TUNA_ROW = re.compile(
    rf" *(?P<irq>[0-9]{{1,10}}) (?P<name>\S{{1,100}}) +(?P<affinity>{_LIST})(?: +[a-z]\S*)? *",
    re.ASCII,
)
_HCTX = re.compile(r"hctx([0-9]{1,5}): (default|read|poll)((?: [0-9]{1,5})*)", re.ASCII)
_DISK = re.compile(r"queue mapping for /dev/([0-9A-Za-z_!-]{1,64})", re.ASCII)
_TAIL = re.compile(r"==> (\S{1,1000}) <==")
_GREP_NUMBER = re.compile(r"1:(?=[^:]*$)")
_BY_NAME = re.compile(r"irq/([0-9]{1,9})/([^/\s]{1,100})/\.\./")


class DumpReader:
    r"""Takes such lines, wherever in a text they are.

    Examples
    --------
    >>> dump = DumpReader("dump")
    >>> dump.offer(1, "/proc/irq/43/smp_affinity:00,00100001")
    True
    >>> dump.offer(2, "irq 58 affinity 4-5 effective 4 nvme0q1"), dump.offer(3, "anything")
    (True, False)
    >>> for irq, told in dump.facts().interrupts.items():
    ...     print(irq, told.affinity, told.effective, told.actions)
    43 0,20 None ()
    58 4-5 4 ('nvme0q1',)
    """

    kind = "dump"

    def __init__(self, where: str) -> None:
        self.where = where
        self.scripts = Facts(where)
        self.tree = Tree(where)
        self.disk: str | None = None
        self.pending: str | None = None
        self.tuna = False
        self.known = 0

    def expect(self, path: str | None) -> bool:
        """Take the lines that follow as those of this file; return whether it is known."""
        key = Tree.key(path) if path else None
        # The lines of interrupts are known when they are seen.
        self.pending = key if key != "proc/interrupts" else None
        return key is not None

    def takes_value(self, line: str) -> bool:
        """Take a line as the value of the file that is expected, if there is one."""
        if self.pending is None:
            return False
        self.known += 1
        self.tree.add_line(self.pending, line)
        if self.pending not in Tree.LONG:
            self.pending = None
        return True

    def offer(self, number: int, line: str) -> bool:
        """Take a line of a known form."""
        text = line[_ECHO.match(line).end() :].rstrip()  # type: ignore[union-attr]
        where = f"{self.where}: line {number}"
        known = self._path(where, text) or self._script(where, text) or self._queue(where, text)
        self.known += known
        return known

    def _path(self, where: str, text: str) -> bool:
        if "/" not in text[:1024]:
            return False
        if text.startswith("==> "):
            shown = _TAIL.fullmatch(text)
            return shown is not None and self.expect(shown[1])
        found = Tree.key_and_value(text)
        if found is None:
            return False
        key, value, path = found
        if not value and text.strip() == path:
            # Printed ahead of the file, as in: for f in ...; do echo $f; cat $f; done.
            return self.expect(path)
        if key not in Tree.LONG and (numbered := _GREP_NUMBER.match(value)):
            value = value[numbered.end() :]
        if name := _BY_NAME.search(path):
            irq = read_number(where, name[1], limits.IRQ)
            note_interrupt(self.scripts, where, irq, actions=(name[2][: limits.NAME],))
        try:
            self.tree.add_line(key, value)
        except FormatError as error:
            raise FormatError(where, error.what) from None
        return True

    def _script(self, where: str, text: str) -> bool:
        if "# users" in text and _TUNA_HEADER.fullmatch(text[:200]):
            self.tuna = True
            return True
        found = _TUNA_ROW.fullmatch(text) if self.tuna else None
        if _MAY_BE_OF_SCRIPT.match(text):
            for pattern in _OF_SCRIPTS:
                found = found or pattern.fullmatch(text)
        if not found:
            return False
        told: dict[str, str | None] = found.groupdict()
        irq = read_number(where, found["irq"], limits.IRQ)
        affinity, effective = told.get("affinity"), told.get("effective")
        if not affinity and not effective:
            self.scripts.notes.append(f"{where}: interrupt {irq} has no affinity to read")
            return True
        values: dict[str, object] = {}
        if affinity is not None:
            values["affinity"] = read_cpulist(where, affinity)
        if effective is not None:
            values["effective"] = read_cpulist(where, effective)
        if told.get("name"):
            values["actions"] = (str(told["name"])[: limits.NAME],)
        if told.get("managed") is not None:
            values["managed"] = told["managed"] == "1"
        note_interrupt(self.scripts, where, irq, **values)
        return True

    def _queue(self, where: str, text: str) -> bool:
        if not text.startswith(("hctx", "queue mapping")):
            return False
        if found := _DISK.fullmatch(text):
            self.disk = found[1]
            return True
        found = _HCTX.fullmatch(text)
        if not found:
            return False
        if self.disk is None:
            raise FormatError(where, "a queue's map before any 'queue mapping for /dev/...'")
        read_queue_map(self.scripts, where, self.disk, found[1], ",".join(found[3].split()))
        self.scripts.queue_kinds.setdefault(self.disk, {})[int(found[1])] = found[2]
        return True

    def facts(self) -> Facts:
        """Return what the paths said and what the other lines said.

        Raises
        ------
        FormatError
            If a value is not what it should be, or two contradict each other.
        """
        facts = read_tree(self.tree)
        for irq, told in self.scripts.interrupts.items():
            known = {name: value for name, value in vars(told).items() if value not in _UNTOLD}
            known.pop("irq")
            note_interrupt(facts, self.where, irq, **known)
        for disk, queues in self.scripts.queue_maps.items():
            if disk in facts.queue_maps:
                raise FormatError(self.where, f"the queues of {disk} are mapped twice")
            facts.queue_maps[disk] = queues
        facts.queue_kinds = self.scripts.queue_kinds
        facts.notes += self.scripts.notes
        return facts


_UNTOLD: tuple[object, ...] = (None, "", ())
