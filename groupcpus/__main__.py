# SPDX-License-Identifier: GPL-2.0-only
"""The command line: ``python -m groupcpus COMMAND``.

A command is a row of `COMMANDS`: its help, a function that declares its arguments, and one that
gives the text to print.  An error is one line on stderr, and exit status 2.  What was found, a
device that does not follow for instance, is no error: the status is 0 then too.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import GroupCpusError, RequestError, brief
from groupcpus.machines.machine import load_machine, machine_names
from groupcpus.machines.mail_text import mail_text, run_document
from groupcpus.machines.probe import Run, simulate
from groupcpus.observed.compare import OFFSETS, compare, comparison_text
from groupcpus.observed.replay import KINDS, recording_names, replay
from groupcpus.sources import load
from groupcpus.studies.claims import check_claims, claims_document, claims_table, claims_text

__all__ = ["COMMANDS", "Command", "main"]


@dataclass(frozen=True)
class Command:
    """A command: what it is for, which arguments it has, and how its output comes about."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    output: Callable[[argparse.Namespace], str]


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        _complain(message)
        sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``python -m groupcpus``; those of the process when left out.

    Returns
    -------
    int
        0, or 2 after an error, which is told on stderr.

    Examples
    --------
    >>> main(["run", "D16plds_v6", "--revision", "rotate-v2"])
    D16plds_v6: 16 CPUs in 1 node; 2 nvme with 6 queues
    <BLANKLINE>
    Before (cluster, irqchip gicv3):
      10 CPUs serve none: 1-2,4-5,7-8,10-11,13,15
      6 CPUs serve 2 IRQs: 0,3,6,9,12,14
      node 0: 12 IRQs, on 6 of 16 CPUs
    <BLANKLINE>
    After (rotate-v2, irqchip gicv3, admin-first, counter from 0):
      8 CPUs serve none: 1,4-5,7-8,10,13,15
      4 CPUs serve 1 IRQ: 2-3,11-12
      4 CPUs serve 2 IRQs: 0,6,9,14
      node 0: 12 IRQs, on 8 of 16 CPUs
    <BLANKLINE>
                                      before   after
    IRQs                                  12      12
    CPUs that serve any                    6       8
      most possible, any grouping         11      11
    fewest IRQs on a CPU                   0       0
    most IRQs on a CPU                     2       2
      best with any grouping               2       2
      distance from it                     0       0
      best with any irqchip                1       1
    single-CPU IRQs                        0       0
      most of them on a CPU                0       0
    0
    """
    parser = _Parser(
        prog="groupcpus",
        description="Which CPUs serve a device's interrupts, and why they pile up.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        own = commands.add_parser(name, help=command.help, description=command.help)
        command.arguments(own)
        own.set_defaults(output=command.output)
    parsed = parser.parse_args(arguments)
    try:
        text = parsed.output(parsed)
        return _print(text)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror}")
        return 2
    except GroupCpusError as error:
        _complain(str(error))
        return 2


def _print(text: str) -> int:
    if hasattr(sys.stdout, "reconfigure"):
        # Titles may hold what the terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, flush=True)
    except OSError as error:
        # Nothing is left to flush when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # After a broken pipe the reader has seen enough (`| head`).
        if not isinstance(error, BrokenPipeError):
            raise
    return 0


def _complain(message: str) -> None:
    line = " ".join(message.split())
    print(f"groupcpus: {line}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)


def _whole(text: str) -> int:
    """Read a number of the command line, decimal or in another base such as 0x10."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{brief(text)} is no whole number") from None


def _counter(text: str) -> int:
    value = _whole(text)
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
    return path


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a text")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "machine", metavar="MACHINE", help="a name that `machines` lists, or a file"
    )
    parser.add_argument(
        "--revision", required=True, metavar="R", help="the revision after; see `revisions`"
    )
    parser.add_argument(
        "--before", default="cluster", metavar="R", help="the revision before (%(default)s)"
    )
    parser.add_argument(
        "--irqchip", metavar="C", help=f"{', '.join(IRQCHIPS)}; the machine's own if left out"
    )
    parser.add_argument(
        "--probe",
        type=_probe,
        default="admin-first",
        metavar="P",
        help="admin-first, interleaved, or every call: nvme0:admin,nvme0:default,... (%(default)s)",
    )
    parser.add_argument(
        "--spread-start",
        type=_counter,
        default=0,
        metavar="N",
        help="the call counter before the first call (%(default)s)",
    )
    parser.add_argument("--devices", type=_whole, metavar="N", help="this many of the main devices")
    parser.add_argument("--queues", type=_whole, metavar="N", help="this many I/O queues on each")
    parser.add_argument(
        "--picture",
        type=_picture_file,
        metavar="FILE",
        help="also draw both, as FILE.png or FILE.svg (needs the lab extra)",
    )
    _add_json(parser)


def _run(args: argparse.Namespace) -> str:
    machine = load_machine(args.machine)
    if args.devices is not None or args.queues is not None:
        machine = machine.with_devices(count=args.devices, io_queues=args.queues)
    before, after = (
        simulate(
            machine,
            revision=revision,
            irqchip=args.irqchip,
            probe=args.probe,
            spread_start=args.spread_start,
        )
        for revision in (args.before, args.revision)
    )
    if args.picture:
        _draw(args.picture, before, after)
    if args.json:
        runs = {"before": run_document(before), "after": run_document(after)}
        return _json({"machine": machine.name, **runs})
    return mail_text(before, after)


def _draw(path: Path, before: Run, after: Run) -> None:
    try:
        from groupcpus import pictures
    except ImportError as error:
        raise RequestError(f"--picture needs the lab extra: {error}") from None
    figure = pictures.compare(before, after)
    path.write_bytes(pictures.to_svg(figure) if path.suffix == ".svg" else pictures.to_png(figure))


def _machines(args: argparse.Namespace) -> str:
    machines = [load_machine(name) for name in machine_names()]
    if args.json:
        return _json(
            [
                {
                    "name": machine.name,
                    "title": machine.title,
                    "arch": machine.arch,
                    "irqchip": machine.irqchip,
                    "cpus": len(machine.topology.possible),
                    "nodes": len(machine.topology.nodes),
                    "devices": [asdict(device) for device in machine.devices],
                    "source": machine.source,
                    "notes": machine.notes.strip(),
                }
                for machine in machines
            ]
        )
    return _table([(machine.name, machine.title) for machine in machines])


def _revisions(args: argparse.Namespace) -> str:
    rows = [
        {"name": revision.name, "kernel": revision.kernel, "summary": revision.summary}
        for revision in REVISIONS.values()
    ]
    if args.json:
        return _json(rows)
    return _table([(row["name"], f"{row['summary']}; {row['kernel']}") for row in rows])


def _claims_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="ID", help="one claim in full, such as R5 or R5b")
    _add_json(parser)


def _claims(args: argparse.Namespace) -> str:
    results = check_claims(args.id)
    if args.json:
        return _json(claims_document(results))
    return claims_text(results) if args.id else claims_table(results)


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings", nargs="*", metavar="NAME", help="a recording's name, or a file"
    )
    parser.add_argument("--all", action="store_true", help="replay all that ship, and list them")
    _add_json(parser)


def _replay(args: argparse.Namespace) -> str:
    names = recording_names() if args.all else args.recordings
    if not names:
        raise RequestError("replay: expected --all or recordings by name; --all lists them")
    replays = [replay(name) for name in names]
    if args.json:
        return _json([replayed.document() for replayed in replays])
    lines = []
    for replayed in replays:
        lines.append(str(replayed))
        lines += [f"  {row}" for row in replayed.rows if not row.match]
    if len(replays) > 1:
        totals = {kind: [replayed.count(kind) for replayed in replays] for kind in KINDS}
        sums = (
            f"{kind} {sum(right for right, _ in pairs)}/{sum(all_ for _, all_ in pairs)}"
            for kind, pairs in totals.items()
        )
        lines.append(f"{len(replays)} recordings: {', '.join(sums)}")
    return "\n".join(lines)


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="FILE",
        help="a capture; or lscpu, hwloc, sysfs, /proc/interrupts, dumps of affinities, together",
    )
    parser.add_argument("--arch", metavar="A", help="the architecture, where no file tells it")
    parser.add_argument(
        "--offsets",
        type=_whole,
        default=OFFSETS,
        metavar="N",
        help="values of the call counter to try for revisions that rotate (%(default)s)",
    )
    _add_json(parser)


def _compare(args: argparse.Namespace) -> str:
    comparison = compare(load(*args.sources, arch=args.arch), search_offsets=args.offsets)
    return _json(comparison.document()) if args.json else comparison_text(comparison)


def _json(document: Any) -> str:
    return json.dumps(document, indent=1)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


COMMANDS: dict[str, Command] = {
    "run": Command("Probe a machine under two revisions and compare.", _run_arguments, _run),
    "claims": Command(
        "Compute what the mails assert, and judge each claim.", _claims_arguments, _claims
    ),
    "compare": Command(
        "Hold a machine's interrupts against what is predicted.",
        _compare_arguments,
        _compare,
    ),
    "machines": Command("List the machines.", _add_json, _machines),
    "replay": Command("Predict what recorded kernels did.", _replay_arguments, _replay),
    "revisions": Command("List the versions of group_cpus_evenly().", _add_json, _revisions),
}


if __name__ == "__main__":
    sys.exit(main())
