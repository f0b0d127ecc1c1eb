# SPDX-License-Identifier: GPL-2.0-only
"""Answers as text of a bounded width."""

import re
from collections.abc import Iterable

__all__ = ["WIDTH", "fold", "folded"]

WIDTH = 100


def fold(text: str, indent: int = 4) -> list[str]:
    """Break a line at blanks, and cpulists behind their commas."""
    lines = [""]
    for piece in re.split(r"(?<= )|(?<=,)(?=[0-9])", text):
        while lines[-1].strip() and len(lines[-1]) + len(piece.rstrip()) > WIDTH:
            lines.append(" " * indent)
        lines[-1] += piece
        while len(lines[-1].rstrip()) > WIDTH:
            # A name that somebody made up, longer than a line.
            lines[-1], rest = lines[-1][:WIDTH], lines[-1][WIDTH:]
            lines.append(" " * indent + rest)
    return [line.rstrip() for line in lines]


def folded(lines: Iterable[str]) -> str:
    """Return lines as one text, each broken where it is too long and indented from there.

    Examples
    --------
    >>> print(folded(["  " + "word " * 25]))  # doctest: +ELLIPSIS
      word word ...
          word word word word word word
    """
    pieces = (fold(line, 4 + len(line) - len(line.lstrip())) for line in lines)
    return "\n".join(piece for several in pieces for piece in several)
