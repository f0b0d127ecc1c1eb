# SPDX-License-Identifier: GPL-2.0-only
"""Bytes made a text, and lines freed from what mails, terminals, logs and shells put around them.

Nothing that is no printable character gets past this.
"""

import codecs
import re
from collections.abc import Iterator

from groupcpus.errors import FormatError
from groupcpus.sources import limits
from groupcpus.sources.facts import Line

__all__ = ["command_of", "decode", "host_of", "is_ellipsis", "is_noise", "lines_of"]


_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?]{0,64}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)?|[@-Z\\^_])"
)
_BLANKS = str.maketrans({"\t": " ", "\xa0": " ", "\u202f": " ", "\u3000": " ", "\0": None})
_INVISIBLE = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), 0xFEFF])

_QUOTES = re.compile(r"(?:\s{0,8}[>|])+(?: |$)")
_STAMP = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
    r"(?:\S{1,64} [^\s:\[]{1,64}\[\d{1,9}\]: )?"
    r"|\[\d\d:\d\d:\d\d(?:\.\d{1,9})?\] |\[ {0,8}\d{1,10}\.\d{6}\] |\d\d:\d\d:\d\d (?=\S*[/:])"
    r"|[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d (?:\S{1,64} [^\s:]{1,64}: )?",
    re.ASCII,
)
_BULLET = re.compile(r"\s{0,8}[-*+•] (?=/|\S{1,20} )")
_ROW_OF_PIPES = re.compile(r"\s*\|.*\|\s*")

_COMMANDS = "cat|cd|cut|dmesg|echo|find|for|grep|egrep|zgrep|head|less|ls|lscpu|lstopo|more|numactl"
_COMMANDS += "|paste|python3?|sort|sudo|tail|taskset|tuna|uname|watch|while|zcat"
_PROMPT = re.compile(
    r"\s{0,8}(?:\[?[\w.-]{1,64}@[\w.-]{1,64}[^$#%>]{0,80}[$#%>]|[a-z]{0,6}sh-[\d.]{1,8}[$#]"
    rf"|[\w.-]{{0,64}}:?[~/][\w./~-]{{0,80}} ?[$#%]|\$|[#%](?= ?(?:{_COMMANDS})\b))(?: +(.*)|\s*)"
)
_HOST = re.compile(r"\s{0,8}\[?[\w.-]{1,64}@([\w.-]{1,64})")
_BARE_COMMAND = re.compile(rf"\s{{0,8}}(?:{_COMMANDS})(?: [-/~$'\"{{.].*)?")
_SHOWN_FILE = re.compile(r"(?:sudo )?(?:cat|head|tail|more|less)(?: -\S{1,8})* (/\S{1,500})\s*")
_ELLIPSIS = re.compile(
    r"\W{0,8}(?:\.{3,}|…|(?:output |lines? |rest )?(?:omitted|snipped|truncated|cut)|snip|skipped)"
    r"(?: .{0,40})?\W{0,8}",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"\s{0,8}(?:`{3,}\w{0,20}|\{(?:code|noformat|quote)(?::[\w.=|-]{1,60})?\}|\[/?code\]"
    r"|</?(?:pre|code|p|div|br)\b[^<>]{0,80}>|~{3,}|-{3,}|={3,}|Every [\d.,]{1,8}s: .*|\|?[-:| ]+\|"
    r"|(?:\S{1,40}: )?(?:grep|cat|tail|head|find|ls|bash|sh): .{1,400}"
    r"|Script (?:started|done).*|# (?:The following is|programs\. Each|starting usually).*)\s*"
)


def decode(data: bytes) -> str:
    r"""Return the text of a file in UTF-8, UTF-16 (with or without a mark), or Latin-1.

    Examples
    --------
    >>> decode("irq 5".encode("utf-16")), decode(b"N\x9cud".replace(b"\x9c", b"\xe9"))
    ('irq 5', 'Néud')
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    head = data[:2000]
    if len(head) >= 4:
        for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
            if zeros.count(0) > 0.8 * len(zeros) and head.count(0) < 0.6 * len(head):
                return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def lines_of(text: str, where: str = "text") -> Iterator[Line]:
    r"""Yield the lines of a text with their numbers, unwrapped and printable.

    Raises
    ------
    FormatError
        If there are too many of them.

    Examples
    --------
    >>> list(lines_of("> > 40:\x1b[31m 0-3\x1b[m\r\n[12:34:00] irq 5\n| CPU | NODE |\n"))
    [(1, '40: 0-3'), (2, 'irq 5'), (3, ' CPU   NODE ')]
    """
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    number, start = 0, 0
    while start < len(text):
        if number == limits.LINES:
            raise FormatError(f"{where}: line {number}", f"more than {limits.LINES} lines")
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        yield number, _unwrapped(text[start:end])
        start = end + 1


def _unwrapped(line: str) -> str:
    if not line.isprintable():
        line = line.translate(_BLANKS)
        if not line.isprintable():
            line = line.translate(_INVISIBLE)
            line = "".join(char if char.isprintable() else "?" for char in line)
    if "|" in line[:20] and _ROW_OF_PIPES.fullmatch(line):
        line = line.strip()[1:-1].replace("|", " ")
    if ">" in line[:20] or "|" in line[:20]:
        line = line[found.end() :] if (found := _QUOTES.match(line)) else line
    if (":" in line[:40] or line.startswith("[")) and (found := _STAMP.match(line)):
        line = line[found.end() :]
    if found := _BULLET.match(line):
        line = line[found.end() :]
    return line


def command_of(line: str) -> tuple[str, str | None] | None:
    """Return a shell's command behind its prompt, and the one file that it shows.

    None says that the line is no prompt.

    Examples
    --------
    >>> command_of("root@host:~# cat /proc/irq/40/smp_affinity_list")
    ('cat /proc/irq/40/smp_affinity_list', '/proc/irq/40/smp_affinity_list')
    >>> command_of("[root@host ~]# "), command_of("# CPU,Core,Socket")
    (('', None), None)
    """
    found = _PROMPT.fullmatch(line[:2000])
    if found:
        command = (found[1] or "").strip()
    elif _BARE_COMMAND.fullmatch(line[:500]):
        command = line.strip()
    else:
        return None
    shown = _SHOWN_FILE.fullmatch(command)
    return command, shown[1] if shown else None


def host_of(line: str) -> str:
    """Return the machine that a prompt names; empty where it names none.

    Examples
    --------
    >>> host_of("[root@db1 ~]# cat /proc/interrupts"), host_of("# lscpu -e")
    ('db1', '')
    """
    found = _HOST.match(line[:200])
    return found[1] if found else ""


def is_ellipsis(line: str) -> bool:
    """Return whether a line stands for others that were left out.

    Examples
    --------
    >>> [is_ellipsis(line) for line in ("...", "# output omitted ...", "[snip]", "40: 0-3")]
    [True, True, True, False]
    """
    return len(line) < 100 and bool(_ELLIPSIS.fullmatch(line.strip()))


def is_noise(line: str) -> bool:
    """Return whether a line says nothing of the machine: fences, rules, errors of a shell.

    Examples
    --------
    >>> is_noise("grep: /proc/irq/0/spurious: Permission denied"), is_noise("```text")
    (True, True)
    """
    return len(line) < 500 and bool(_NOISE.fullmatch(line))
