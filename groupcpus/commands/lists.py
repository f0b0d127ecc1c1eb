# SPDX-License-Identifier: GPL-2.0-only
"""Commands that list or check what ships: machines, revisions, claims, recordings."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from groupcpus.commands.command import Command, add_json, columns, json_text, say_waiting
from groupcpus.engine.revisions import REVISIONS
from groupcpus.errors import RequestError
from groupcpus.machines.machine import machine_names, read_machine
from groupcpus.observed.patience import Patience
from groupcpus.observed.replay import KINDS, LIFE_KINDS, Replay, recording_names, replay
from groupcpus.studies.claims import check_claims, claims_document, claims_table, claims_text

__all__ = ["CLAIMS", "MACHINES", "REPLAY", "REVISION_LIST"]

# How long the search for an order may take, for each recording.
_SECONDS = 20


def _machines(args: argparse.Namespace) -> str:
    machines = [read_machine(name) for name in machine_names()]
    if args.json:
        return json_text(
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
    return columns([(machine.name, machine.title) for machine in machines])


def _revisions(args: argparse.Namespace) -> str:
    rows = [
        {"name": revision.name, "kernel": revision.kernel, "summary": revision.summary}
        for revision in REVISIONS.values()
    ]
    if args.json:
        return json_text(rows)
    return columns([(row["name"], f"{row['summary']}; {row['kernel']}") for row in rows])


def _claims_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="ID", help="one claim in full, such as R5 or R5b")
    add_json(parser)


def _claims(args: argparse.Namespace) -> str:
    results = check_claims(args.id)
    if args.json:
        return json_text(claims_document(results))
    return claims_text(results) if args.id else claims_table(results)


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings", nargs="*", metavar="NAME", help="a recording's name, or a file"
    )
    parser.add_argument("--all", action="store_true", help="replay all that ship, and list them")
    add_json(parser)


def _replay(args: argparse.Namespace) -> str:
    # The boots last, whose sum is the last line.
    names = [*recording_names(life=True), *recording_names()] if args.all else args.recordings
    if not names:
        raise RequestError("replay: expected --all or recordings by name; --all lists them")
    replays = [replay(name, patience=Patience(0, say_waiting, _SECONDS)) for name in names]
    if args.json:
        return json_text([replayed.document() for replayed in replays])
    lines = []
    for replayed in replays:
        lines.append(str(replayed))
        lines += [f"  {row}" for row in replayed.rows if not row.match]
    lives = [replayed for replayed in replays if replayed.recording.phases]
    boots = [replayed for replayed in replays if not replayed.recording.phases]
    if len(lives) > 1:
        phases = sum(len(replayed.recording.phases) for replayed in lives)
        lines.append(f"{len(lives)} recordings of life after boot, {phases} phases: {_sums(lives)}")
    if len(boots) > 1:
        lines.append(f"{len(boots)} recordings: {_sums(boots)}")
    return "\n".join(lines)


def _sums(replays: Sequence[Replay]) -> str:
    kinds = [*KINDS, *(LIFE_KINDS[:2] if replays[0].recording.phases else ())]
    counts = {kind: [replayed.count(kind) for replayed in replays] for kind in kinds}
    return ", ".join(
        f"{kind} {sum(right for right, _ in pairs)}/{sum(all_ for _, all_ in pairs)}"
        for kind, pairs in counts.items()
    )


CLAIMS = Command("Compute what the mails assert, and judge each claim.", _claims_arguments, _claims)
MACHINES = Command("List the machines.", add_json, _machines)
REPLAY = Command("Predict what recorded kernels did.", _replay_arguments, _replay)
REVISION_LIST = Command("List the versions of group_cpus_evenly().", add_json, _revisions)
