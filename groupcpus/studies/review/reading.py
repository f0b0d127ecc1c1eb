# SPDX-License-Identifier: GPL-2.0-only
"""The C files of a reader's kernel tree, at a commit or with a patch applied to a copy."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from groupcpus.errors import GroupCpusError, brief

__all__ = [
    "FILES",
    "GROUP_CPUS",
    "PatchError",
    "Sources",
    "apply_patch",
    "commits",
    "read_patch",
    "read_sources",
]

GROUP_CPUS = "lib/group_cpus.c"
FILES = (GROUP_CPUS, "lib/sort.c")
"""What is read of a tree."""

# The file has 20 kB; a thread with its mails, a hundred.
MAX_BYTES = 4 << 20
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class PatchError(GroupCpusError):
    """A tree, a commit or a patch that cannot be read or applied."""


@dataclass(frozen=True)
class Sources:
    """The texts of `FILES`, and where they come from."""

    name: str
    group_cpus: str = field(repr=False)
    sort: str = field(repr=False)

    @property
    def nummasks(self) -> bool:
        """Whether the function reports how many masks it filled (Linux 6.17 on)."""
        return bool(re.search(r"\bgroup_cpus_evenly\s*\([^)]*\*\s*\w+\s*\)", self.group_cpus))

    def patched(self, patch: str, name: str) -> "Sources":
        """Return the sources with a patch applied."""
        texts = {GROUP_CPUS: self.group_cpus, "lib/sort.c": self.sort}
        changed = apply_patch(texts, patch, name)
        return replace(
            self,
            name=f"{self.name} with {name}",
            group_cpus=changed[GROUP_CPUS],
            sort=changed["lib/sort.c"],
        )


def read_sources(tree: Path, commit: str | None = None) -> Sources:
    """Read `FILES` of a kernel tree, as they stand in the folder or at a commit.

    Raises
    ------
    PatchError
        If the tree has no such file.
    """
    texts = []
    for file in FILES:
        text = _read(tree / file) if commit is None else _git(tree, "show", f"{commit}:{file}")
        texts.append(text)
    return Sources(commit or tree.name or str(tree), *texts)


def _read(path: Path) -> str:
    if not path.is_file():
        older = ""
        if path.name == "group_cpus.c" and (path.parents[1] / "kernel/irq/affinity.c").is_file():
            older = (
                "; up to Linux 6.2 the function is irq_build_affinity_masks() in "
                "kernel/irq/affinity.c, which is not read"
            )
        raise PatchError(f"{path}: there is no such file{older}")
    if path.stat().st_size > MAX_BYTES:
        raise PatchError(f"{path}: more than {MAX_BYTES >> 20} MiB")
    return path.read_text(encoding="utf-8", errors="replace")


def _git(tree: Path, *arguments: str) -> str:
    command = ["git", "-C", str(tree), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PatchError(f"{tree}: git did not answer: {brief(str(error))}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise PatchError(f"{tree}: git {arguments[0]} {arguments[-1]}: {(said or ['failed'])[0]}")
    return done.stdout.decode("utf-8", "replace")


def commits(tree: Path, span: str) -> list[tuple[str, str]]:
    """Return the commits of ``A..B`` that touch `FILES`, oldest first, after A itself.

    Returns
    -------
    list of (commit, subject)
    """
    start, dots, end = span.partition("..")
    if not dots or not start or start.startswith("-") or end.startswith("-"):
        raise PatchError(f"range {brief(span)}: expected A..B")
    base = _git(tree, "rev-parse", "--verify", "--short", f"{start}^{{commit}}").strip()
    log = _git(
        tree, "log", "--reverse", "--format=%h %s", f"{start}..{end or 'HEAD'}", "--", *FILES
    )
    touched = [(line.split(" ", 1)[0], line.partition(" ")[2]) for line in log.splitlines()]
    return [(base, "the base"), *touched]


def read_patch(path: Path) -> str:
    """Read a patch from a file: a diff, or a mail or thread that has one."""
    if not path.is_file():
        raise PatchError(f"{path}: there is no such file")
    return _read(path)


@dataclass
class _Hunk:
    line: int
    old: list[str]
    new: list[str]


def apply_patch(texts: dict[str, str], patch: str, name: str = "the patch") -> dict[str, str]:
    r"""Apply the parts of a diff that concern some files.

    Text around the diff is passed over, and so are quoted diffs in answers to a mail.  A hunk may
    have moved; its lines must all be there.

    Parameters
    ----------
    texts : dict of str to str
        The files by their path in the tree.
    patch : str
        A diff as ``git diff`` and ``git format-patch`` write it.
    name : str
        What errors call it.

    Raises
    ------
    PatchError
        If nothing in it concerns the files, or a hunk has no place.

    Examples
    --------
    >>> patch = "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    >>> apply_patch({"x.c": "zero\none\ntwo\n"}, patch)
    {'x.c': 'zero\none\n2\n'}
    """
    changed = dict(texts)
    found = False
    for file, hunks in _hunks(patch.splitlines(), name):
        if file in changed:
            found = True
            changed[file] = _apply(changed[file], hunks, f"{name}: {file}")
    if not found:
        flat = " @@ " in patch and not _HUNK.search("\n".join(patch.splitlines()[1:]))
        why = "its line ends are lost" if flat else "no diff of one of them"
        raise PatchError(f"{name}: expected a diff of {' or '.join(texts)}; found {why}")
    return changed


def _hunks(lines: Sequence[str], name: str) -> Iterable[tuple[str, list[_Hunk]]]:
    at = 0
    while at < len(lines) - 1:
        if not (lines[at].startswith("--- ") and lines[at + 1].startswith("+++ ")):
            at += 1
            continue
        file = re.sub(r"^[ab]/", "", lines[at + 1][4:].split("\t")[0].strip())
        at += 2
        hunks = []
        while at < len(lines) and (head := _HUNK.match(lines[at])):
            hunk, at = _hunk(lines, at, head, f"{name}: {file}")
            hunks.append(hunk)
        yield file, hunks


def _hunk(lines: Sequence[str], at: int, head: re.Match[str], where: str) -> tuple[_Hunk, int]:
    start, old_left, new_left = int(head[1]), int(head[2] or 1), int(head[4] or 1)
    hunk = _Hunk(start, [], [])
    at += 1
    while old_left > 0 or new_left > 0:
        line = lines[at] if at < len(lines) else "?"
        mark, text = line[:1] or " ", line[1:]
        if mark not in " +-\\":
            raise PatchError(
                f"{where}: the hunk at line {start} is cut short at {brief(line)}; expected a "
                "line that begins with a space, + or -"
            )
        if mark in " -":
            hunk.old.append(text)
            old_left -= 1
        if mark in " +":
            hunk.new.append(text)
            new_left -= 1
        at += 1
    return hunk, at


def _apply(text: str, hunks: list[_Hunk], where: str) -> str:
    lines = text.splitlines()
    moved, least = 0, 0
    for hunk in hunks:
        place = _find(lines, hunk.old, hunk.line - 1 + moved, least)
        if place is None:
            shown = next((line for line in hunk.old if line.strip()), "")
            raise PatchError(
                f"{where}: the hunk at line {hunk.line} has no place; "
                f"its lines, from {brief(shown.strip())} on, are not in the file"
            )
        lines[place : place + len(hunk.old)] = hunk.new
        moved = place - (hunk.line - 1) + len(hunk.new) - len(hunk.old)
        least = place + len(hunk.new)
    return "\n".join(lines) + "\n"


def _find(lines: list[str], wanted: list[str], near: int, least: int) -> int | None:
    """Return where some lines stand, nearest to where they are said to."""
    count = len(wanted)
    places = [at for at in range(least, len(lines) - count + 1) if lines[at : at + count] == wanted]
    return min(places, key=lambda at: abs(at - near), default=None)
