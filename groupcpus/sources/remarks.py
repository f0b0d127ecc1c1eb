# SPDX-License-Identifier: GPL-2.0-only
"""Lines that say what no file of a topology does: the kernel, its command line, NVMe's queues."""

import re

from groupcpus.sources import limits
from groupcpus.sources.capture import FLAGS
from groupcpus.sources.facts import Facts
from groupcpus.sources.summary import ARCHITECTURES

__all__ = ["RemarksReader", "flags_of"]

_RELEASE = r"[0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,4})?[-.+~\w]{0,100}"
_VERSION = re.compile(rf"(?:.{{0,40}}: )?Linux version ({_RELEASE}) .*", re.ASCII)
_UNAME = re.compile(rf"Linux \S{{1,64}} ({_RELEASE}) #.*", re.ASCII)
_ALONE = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,4}|-rc[0-9])[-.+~\w]{0,100}", re.ASCII)
_NAMED = re.compile(rf"kernel(?: release| version)? ?[:=] ?({_RELEASE})", re.ASCII | re.IGNORECASE)
_CMDLINE = re.compile(r"(?:.{0,40}kernel command line: |cmdline ?[:=] ?)?(.*)", re.IGNORECASE)
_NVME = re.compile(
    r".{0,80}?\b(nvme[0-9]{1,6}): ([0-9]{1,5})/([0-9]{1,5})/([0-9]{1,5}) default/read/poll queues",
    re.ASCII,
)


def flags_of(text: str) -> tuple[str, ...]:
    """Return the flags of a command line that matter here.

    Examples
    --------
    >>> flags_of("BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet isolcpus=managed_irq,2-9 nosmt")
    ('isolcpus=managed_irq,2-9', 'nosmt')
    """
    return tuple(word for word in text[:20_000].split() if FLAGS.fullmatch(word))


class RemarksReader:
    """Takes single lines, wherever in a text they are.

    Examples
    --------
    >>> remarks = RemarksReader("text")
    >>> remarks.offer(1, "Linux host 6.8.0-31-generic #31-Ubuntu SMP x86_64 GNU/Linux")
    True
    >>> remarks.offer(2, "nvme nvme2: 11/0/20 default/read/poll queues")
    True
    >>> remarks.facts().kernel, remarks.facts().arch, remarks.facts().nvme_queues
    ('6.8.0-31-generic', 'x86_64', {'nvme2': (11, 0, 20)})
    """

    kind = "remarks"

    def __init__(self, where: str) -> None:
        self._facts = Facts(where)
        self.known = 0

    def offer(self, number: int, line: str) -> bool:
        """Take a line, if it is one of these."""
        text = line.strip()[:20_000]
        known = (
            (("Linux" in text or "ernel" in text or text[:1].isdigit()) and self._kernel(text))
            or (("=" in text or text.startswith("no")) and self._flags(text))
            or ("default/read/poll" in text and self._queues(text))
        )
        self.known += known
        return known

    def _kernel(self, text: str) -> bool:
        for pattern in (_VERSION, _UNAME, _NAMED):
            if found := pattern.fullmatch(text):
                self._facts.kernel = self._facts.kernel or found[1][: limits.NAME]
                archs = [word for word in text.split() if ARCHITECTURES.fullmatch(word)]
                self._facts.arch = self._facts.arch or next(iter(archs), None)
                return True
        if _ALONE.fullmatch(text):
            self._facts.kernel = self._facts.kernel or text[: limits.NAME]
            return True
        return False

    def _flags(self, text: str) -> bool:
        command_line = _CMDLINE.fullmatch(text)
        flags = flags_of(command_line[1]) if command_line else ()
        if not flags and not text.startswith("BOOT_IMAGE="):
            return False
        self._facts.cmdline += flags
        return True

    def _queues(self, text: str) -> bool:
        found = _NVME.match(text)
        if found:
            default, read, poll = map(int, found.groups()[1:])
            self._facts.nvme_queues[found[1]] = (default, read, poll)
        return bool(found)

    def facts(self) -> Facts:
        """Return what the lines say."""
        return self._facts
