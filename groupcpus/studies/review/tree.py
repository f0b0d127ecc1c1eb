# SPDX-License-Identifier: GPL-2.0-only
"""Review what a reader has: patches for a kernel tree, or the commits of one."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupcpus.errors import RequestError, brief, counted
from groupcpus.studies.review.building import BuildError
from groupcpus.studies.review.compiled import CompiledRevision, from_sources
from groupcpus.studies.review.reading import Sources, commits, read_patch, read_sources
from groupcpus.studies.review.report import Finding, Review, changed_machines, review

__all__ = ["Walk", "review_tree", "walk"]


def review_tree(tree: str | Path, patches: Sequence[str | Path], **how: Any) -> Review:
    """Review patches against the kernel tree that they are for.

    Parameters
    ----------
    tree : str or Path
        The tree, or a folder with its lib/group_cpus.c and lib/sort.c.
    patches : sequence of str or Path
        Files with diffs or mails, applied one after the other to a copy.
    **how
        Passed on to `review`.

    Returns
    -------
    Review
        With what does not compile as its only finding.

    Raises
    ------
    PatchError, BuildError
        If the tree cannot be read or compiled without the patches, or a patch has no place.
    """
    if not patches:
        raise RequestError("review: expected a patch, a range A..B or a revision beside the tree")
    sources = read_sources(Path(tree))
    patched = sources
    for patch in patches:
        patched = patched.patched(read_patch(Path(patch)), Path(patch).name)
    return _review(sources, patched, how)


def _review(old: Sources, new: Sources, how: dict[str, Any]) -> Review:
    began = time.monotonic()
    base = from_sources(old, sanitized=True)
    try:
        revision = from_sources(new, sanitized=True)
    except BuildError as error:
        what = "it needs what is not there" if error.symbols else "it does not compile"
        finding = Finding(what, str(error).removeprefix(f"{new.name}: "))
        return Review(new.name, base.name, (finding,), (), (), (), time.monotonic() - began)
    return review(revision, base, **how)


@dataclass(frozen=True)
class Walk:
    """A range of commits, reviewed as a whole, and which commit changed which machine."""

    whole: Review
    steps: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Commit, subject, and the machines whose masks it changed; or why it has none."""

    def document(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        rows = [
            {"commit": commit, "subject": subject, "changes": list(changes)}
            for commit, subject, changes in self.steps
        ]
        return self.whole.document() | {"commits": rows}

    def __str__(self) -> str:
        rows = [str(self.whole), "", f"{counted(len(self.steps), 'commit')} that touch the files:"]
        for commit, subject, changes in self.steps:
            rows.append(f"  {commit} {subject}")
            rows.append(f"    {', '.join(changes) or 'changes no mask'}")
        return "\n".join(rows)


def walk(tree: str | Path, span: str, **how: Any) -> Walk:
    """Review the commits ``A..B`` of a tree that touch the files.

    Raises
    ------
    PatchError
        If git does not know the range, or a commit lacks a file.
    """
    path = Path(tree)
    named = commits(path, span)
    if len(named) < 2:
        raise RequestError(f"range {brief(span)}: no commit in it touches the files")
    every = [read_sources(path, commit) for commit, _ in named]
    whole = _review(every[0], every[-1], how)
    built: list[tuple[str, CompiledRevision]] = [(named[0][0], from_sources(every[0]))]
    steps: list[tuple[str, str, tuple[str, ...]]] = []
    for (commit, subject), sources in zip(named[1:], every[1:], strict=True):
        try:
            revision = from_sources(sources)
        except BuildError as error:
            steps.append((commit, subject, (str(error),)))
            continue
        ((_, changes),) = changed_machines([built[-1], (commit, revision)])
        built.append((commit, revision))
        steps.append((commit, subject, tuple(changes)))
    return Walk(whole, tuple(steps))
