# SPDX-License-Identifier: GPL-2.0-only
"""``compare``: a machine's interrupts against what is predicted."""

import argparse
from dataclasses import asdict

from groupcpus.commands.command import Command, add_json, json_text, say_waiting, whole_number
from groupcpus.commands.opening import load_sources
from groupcpus.observed.compare import SECONDS, WORK, compare
from groupcpus.observed.judging import OFFSETS
from groupcpus.observed.patience import Patience
from groupcpus.observed.problem import find_problem
from groupcpus.observed.report import comparison_text

__all__ = ["COMPARE"]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="FILE",
        help="a capture; or lscpu, hwloc, sysfs, /proc/interrupts, dumps of affinities, together",
    )
    parser.add_argument("--arch", metavar="A", help="the architecture, where no file says it")
    parser.add_argument(
        "--offsets",
        type=whole_number,
        default=OFFSETS,
        metavar="N",
        help="values of the call counter to try for revisions that rotate (%(default)s)",
    )
    add_json(parser)


def _compare(args: argparse.Namespace) -> str:
    loaded = load_sources(args.sources, args.arch)
    patience = Patience(WORK, say_waiting, SECONDS)
    comparison = compare(loaded, search_offsets=args.offsets, patience=patience)
    if not args.json:
        return comparison_text(comparison)
    problem = find_problem(comparison)
    shown = asdict(problem) | {"verdict": problem.verdict} if problem else None
    return json_text(comparison.document() | {"problem": shown})


COMPARE = Command("Hold a machine's interrupts against what is predicted.", _arguments, _compare)
