# SPDX-License-Identifier: GPL-2.0-only
"""``run``: a machine under two revisions, queue by queue and CPU by CPU."""

import argparse
import os
from pathlib import Path

from groupcpus.commands.command import Command, add_json, json_text, whole_number
from groupcpus.commands.opening import OpenedMachine, open_machine
from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.errors import RequestError, brief
from groupcpus.machines.life import Life
from groupcpus.machines.mail_text import mail_text, run_document
from groupcpus.machines.probe import simulate
from groupcpus.machines.queue_table import queue_table
from groupcpus.machines.requests import REQUEST_ORDERS
from groupcpus.machines.run import Run

__all__ = ["RUN"]

PATCH = "rotate-v2"
"""The revision of the patch under discussion."""


def _counter(text: str) -> int:
    value = whole_number(text)
    if not 0 <= value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{brief(value)}: expected 0 to 4294967295")
    return value


def _probe(text: str) -> str | list[str]:
    return text.split(",") if ":" in text else text


def _picture_file(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".png", ".svg"):
        raise argparse.ArgumentTypeError(
            f"{brief(text)}: expected a name that ends in .png or .svg"
        )
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{brief(text)}: there is no folder for such a file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{brief(text)}: may not be written")
    return path


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "machine",
        nargs="+",
        metavar="MACHINE",
        help="a name that `machines` lists; a capture or other files of a machine, together; a "
        "line such as 'node:2 core:24 pu:2'; - for stdin",
    )
    parser.add_argument(
        "--revision", default=PATCH, metavar="R", help="the revision after (%(default)s)"
    )
    parser.add_argument(
        "--before", metavar="R", help="the revision before; the kernel's own if left out"
    )
    parser.add_argument(
        "--irqchip", metavar="C", help=f"{', '.join(IRQCHIPS)}; the machine's own if left out"
    )
    parser.add_argument("--arch", metavar="A", help="the architecture, where no file says it")
    parser.add_argument(
        "--probe",
        type=_probe,
        default="admin-first",
        metavar="P",
        help="admin-first, interleaved, or every call: nvme0:admin,nvme0:default,... (%(default)s)",
    )
    parser.add_argument(
        "--requests",
        default="device-by-device",
        metavar="R",
        help=f"the order in which interrupts are placed: {', '.join(REQUEST_ORDERS)} (%(default)s)",
    )
    parser.add_argument(
        "--spread-start",
        type=_counter,
        default=0,
        metavar="N",
        help="the call counter before the first call (%(default)s)",
    )
    parser.add_argument(
        "--devices", type=whole_number, metavar="N", help="this many of the main devices"
    )
    parser.add_argument(
        "--queues", type=whole_number, metavar="N", help="this many I/O queues on each"
    )
    parser.add_argument("--device", metavar="NAME", help="list all queues of this device")
    parser.add_argument(
        "--then",
        metavar="EVENTS",
        help="what happens after boot: 'offline 3; reset nvme0; smt off; online 3', also unbind, "
        "bind, suspend, resume",
    )
    parser.add_argument(
        "--picture",
        type=_picture_file,
        metavar="FILE",
        help="also draw both, as FILE.png or FILE.svg (needs the lab extra)",
    )
    add_json(parser)


def _run(args: argparse.Namespace) -> str:
    opened = open_machine(
        args.machine,
        arch=args.arch,
        irqchip=args.irqchip,
        devices=args.devices,
        queues=args.queues,
    )
    machine = opened.machine
    before, after = (
        simulate(
            machine,
            revision=revision,
            irqchip=args.irqchip,
            probe=args.probe,
            requests=args.requests,
            spread_start=args.spread_start,
        )
        for revision in (args.before or opened.revision, args.revision)
    )
    lives = [] if args.then is None else [_live(run, args.then) for run in (before, after)]
    if args.picture:
        _draw(args.picture, before, after)
    if args.json:
        runs = {"before": run_document(before), "after": run_document(after)}
        for name, life in zip(runs, lives, strict=False):
            runs[name]["then"] = life.document()["steps"]
        said = {"assumed": list(opened.assumed), "doubts": list(opened.doubts)}
        return json_text({"machine": machine.name, **said, **runs})
    return "\n\n".join([_text(opened, before, after, args.device), *map(str, lives)])


def _live(run: Run, events: str) -> Life:
    life = Life.after(run)
    life.then(events)
    return life


def _text(opened: OpenedMachine, before: Run, after: Run, device: str | None) -> str:
    doubts = "\n".join(f"In doubt: {text.rstrip('.')}." for text in opened.doubts)
    assumed = "\n".join(f"Assumed: {text.rstrip('.')}." for text in opened.assumed)
    parts = [doubts, mail_text(before, after), queue_table(before, after, device), assumed]
    return "\n\n".join(filter(None, parts))


def _draw(path: Path, before: Run, after: Run) -> None:
    try:
        from groupcpus import pictures
    except ImportError as error:
        raise RequestError(f"--picture needs the lab extra: {error}") from None
    figure = pictures.compare_runs(before, after)
    path.write_bytes(pictures.to_svg(figure) if path.suffix == ".svg" else pictures.to_png(figure))


RUN = Command(
    "Which CPU handles which queue of a machine, under two revisions.",
    _arguments,
    _run,
)
