# SPDX-License-Identifier: GPL-2.0-only
"""Commands that answer one question each about a machine of the reader's own."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from groupcpus.commands.command import Command, add_json, json_text, say_waiting, whole_number
from groupcpus.commands.opening import load_sources, open_machine
from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import CpuListError, FormatError, brief
from groupcpus.observed.folding import folded
from groupcpus.observed.isolating import can_isolate
from groupcpus.observed.managing import Refusal, read_refusals, which_managed
from groupcpus.observed.moving import find_moves
from groupcpus.observed.patience import Patience
from groupcpus.observed.queue_counts import WORK, count_queues
from groupcpus.observed.submitting import submissions

__all__ = ["ISOLATE", "MANAGED", "MOVED", "QUEUES", "SUBMITTERS"]

MAX_LOG = 8 << 20


def _cpulist(text: str) -> CpuSet:
    try:
        return CpuSet(text)
    except CpuListError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_sources(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("sources", nargs="+", metavar="FILE", help=what)
    parser.add_argument("--arch", metavar="A", help="the architecture, where no file says it")
    add_json(parser)


def _plain(value: Any) -> Any:
    """Return a value of an answer as JSON knows it: CPU sets are cpulists."""
    if isinstance(value, CpuSet):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return _plain(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


# --- which interrupts are managed?


def _managed_arguments(parser: argparse.ArgumentParser) -> None:
    _add_sources(parser, "/proc/interrupts, a capture, ...: files of the machine, together")
    parser.add_argument(
        "--log", action="append", default=[], metavar="FILE", help="irqbalance's, perftune's, ..."
    )
    parser.add_argument("--irq", type=whole_number, action="append", metavar="N", help="this one")


def _managed(args: argparse.Namespace) -> str:
    refusals = [one for name in args.log for one in _refusals(name)]
    if args.log and not refusals:
        raise FormatError(
            brief(args.log[0]), "no line says that the affinity of an interrupt was refused"
        )
    answer = which_managed(load_sources(args.sources, args.arch), args.irq, refusals)
    return json_text(_plain(answer)) if args.json else folded(answer.lines())


def _refusals(name: str) -> Sequence[Refusal]:
    with Path(name).open(encoding="utf-8", errors="replace") as file:
        text = file.read(MAX_LOG + 1)
    if len(text) > MAX_LOG:
        raise FormatError(brief(name), f"a log of at most {MAX_LOG} characters is read")
    return read_refusals(text)


# --- can they be kept off isolated CPUs?


def _isolate_arguments(parser: argparse.ArgumentParser) -> None:
    _add_sources(parser, "a capture, or other files of a machine, together")
    parser.add_argument(
        "--cpus", type=_cpulist, metavar="LIST", help="the CPUs; as the command line has them"
    )
    parser.add_argument(
        "--flags",
        default="managed_irq,domain",
        metavar="F",
        help="managed_irq, domain or both (%(default)s)",
    )


def _isolate(args: argparse.Namespace) -> str:
    flags = tuple(args.flags.split(","))
    answer = can_isolate(load_sources(args.sources, args.arch), args.cpus, flags)
    return json_text(_plain(answer)) if args.json else folded(answer.lines())


# --- how many queues?


def _queues_arguments(parser: argparse.ArgumentParser) -> None:
    _add_sources(parser, "whatever `run` takes for a machine")
    parser.add_argument("--devices", type=whole_number, metavar="N", help="this many devices")
    parser.add_argument("--revision", metavar="R", help="the kernel's own if left out")
    parser.add_argument("--irqchip", metavar="C", help="the machine's own if left out")
    parser.add_argument(
        "--isolated", type=_cpulist, metavar="LIST", help="CPUs of isolcpus=managed_irq"
    )
    parser.add_argument(
        "--counts", type=_cpulist, metavar="LIST", help="numbers to try, such as 1-16,24,32"
    )


def _queues(args: argparse.Namespace) -> str:
    opened = open_machine(args.sources, arch=args.arch, irqchip=args.irqchip, devices=args.devices)
    answer = count_queues(
        opened.machine,
        args.counts,
        revision=args.revision or opened.revision,
        isolated=args.isolated,
        patience=Patience(WORK, waiting=say_waiting),
    )
    if not args.json:
        return folded(answer.lines())
    return json_text(
        {"verdict": answer.verdict, "good": answer.good, "rows": _plain(list(answer.rows))}
    )


# --- who submits where?


def _submitters_arguments(parser: argparse.ArgumentParser) -> None:
    _add_sources(parser, "a capture, or other files of a machine, together")
    parser.add_argument("--cpu", type=whole_number, metavar="N", help="both directions of one CPU")


def _submitters(args: argparse.Namespace) -> str:
    answer = submissions(load_sources(args.sources, args.arch))
    if not args.json:
        return folded(answer.lines(args.cpu))
    rows = answer.rows
    if args.cpu is not None:
        found = answer.of_cpu(args.cpu), answer.interrupting(args.cpu)
        return json_text({"submits": _plain(found[0]), "interrupted": _plain(found[1])})
    return json_text(_plain(rows))


# --- is someone moving them?


def _moved_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="a capture, or /proc/interrupts")
    parser.add_argument("after", metavar="AFTER", help="the same, later")
    parser.add_argument("--arch", metavar="A", help="the architecture, where no file says it")
    add_json(parser)


def _moved(args: argparse.Namespace) -> str:
    before, after = (load_sources([name], args.arch) for name in (args.before, args.after))
    answer = find_moves(before, after)
    if args.json:
        return json_text({"verdict": answer.verdict, **_plain(answer)})
    return folded(answer.lines())


MANAGED = Command(
    "Which interrupts are managed, so that a write error is normal?", _managed_arguments, _managed
)
ISOLATE = Command("Can these interrupts be kept off isolated CPUs?", _isolate_arguments, _isolate)
QUEUES = Command("How many queues should each device have?", _queues_arguments, _queues)
SUBMITTERS = Command(
    "Which CPU submits to which queue, and who is interrupted?", _submitters_arguments, _submitters
)
MOVED = Command("Is someone moving interrupts? Two looks compared.", _moved_arguments, _moved)
