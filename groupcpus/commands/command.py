# SPDX-License-Identifier: GPL-2.0-only
"""What all commands share: their form, their arguments' types, and how answers are printed."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from groupcpus.errors import brief, meant, printable

__all__ = [
    "Command",
    "Parser",
    "add_json",
    "columns",
    "complain",
    "json_text",
    "print_answer",
    "say_waiting",
    "whole_number",
]

# An error is a sentence, not a page.
MOST_CHARACTERS = 500


@dataclass(frozen=True)
class Command:
    """A command: what it is for, which arguments it has, and how its output comes about."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    output: Callable[[argparse.Namespace], str]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which guesses what a command was meant to be."""

    names: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Print one line and end with status 2."""
        complain(message)
        sys.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.nargs == argparse.PARSER and value not in (action.choices or ()):
            names = list(action.choices or ())
            raise argparse.ArgumentError(
                action,
                f"invalid choice: {brief(value)} (choose from {', '.join(names)})"
                f"{meant(value, names)}",
            )
        super()._check_value(action, value)


def print_answer(text: str) -> int:
    """Print a command's answer and return its exit status."""
    if hasattr(sys.stdout, "reconfigure"):
        # Titles may hold what the terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(printable(text), flush=True)
    except OSError as error:
        # Nothing is left to flush when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # After a broken pipe the reader has seen enough (`| head`).
        if not isinstance(error, BrokenPipeError):
            raise
    return 0


def complain(message: str) -> None:
    """Print an error on stderr: one line of printable ASCII, not too long."""
    line = printable(" ".join(message.split())).encode("ascii", "backslashreplace").decode()
    if len(line) > MOST_CHARACTERS:
        line = f"{line[: MOST_CHARACTERS - 3]}..."
    print(f"groupcpus: {line}", file=sys.stderr)


def say_waiting(doing: str) -> None:
    """Say on stderr what takes long."""
    print(f"groupcpus: {printable(doing)} ...", file=sys.stderr, flush=True)


def whole_number(text: str) -> int:
    """Read a number of the command line, decimal or in another base such as 0x10."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{brief(text)} is no whole number") from None


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a text")


def json_text(document: Any) -> str:
    """Return a document as JSON."""
    return json.dumps(document, indent=1)


def columns(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and what there is to say of each, in two columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
