# SPDX-License-Identifier: GPL-2.0-only
"""``review``: a patch of lib/group_cpus.c on every machine; ``kit``: what goes into a tree."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from groupcpus.commands.command import Command, add_json, json_text, whole_number
from groupcpus.errors import RequestError

# What these commands alone need takes as long to load as everything else: each loads its own.
if TYPE_CHECKING:
    from groupcpus.studies.review.report import Review

__all__ = ["KIT", "REVIEW"]


def _arguments(parser: argparse.ArgumentParser) -> None:
    from groupcpus.studies.review.predicates import PREDICATES

    parser.add_argument(
        "what", nargs="*", metavar="PATCH", help="files with diffs or mails; or a range A..B"
    )
    parser.add_argument("--tree", metavar="LINUX", help="the kernel tree that they are for")
    parser.add_argument("--revision", metavar="R", help="review this one instead, by its name")
    parser.add_argument(
        "--base", default="cluster", metavar="R", help="beside a revision by name (%(default)s)"
    )
    parser.add_argument(
        "--can-it-happen",
        metavar="P",
        help=f"only search the smallest case of: {', '.join(PREDICATES)}",
    )
    parser.add_argument(
        "--most-cpus",
        type=whole_number,
        metavar="N",
        help="search all machines of up to so many CPUs (5; 4 for a tree)",
    )
    parser.add_argument(
        "--seconds",
        type=whole_number,
        default=60,
        metavar="N",
        help="at most so long (%(default)s)",
    )
    parser.add_argument(
        "--random",
        type=whole_number,
        default=0,
        metavar="N",
        help="with --can-it-happen: then larger machines at random for N seconds (%(default)s)",
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the worst machine as FILE.png or .svg"
    )
    add_json(parser)


def _review(args: argparse.Namespace) -> str:
    from groupcpus.studies.review.report import review
    from groupcpus.studies.review.tree import Walk, review_tree, walk

    if (args.tree is None) == (args.revision is None):
        raise RequestError("review: expected either --tree or --revision")
    if args.picture and args.picture.suffix not in (".png", ".svg"):
        raise RequestError(f"--picture {args.picture}: expected a name that ends in .png or .svg")
    if args.can_it_happen:
        return _search(args)
    how = {"most_cpus": args.most_cpus or (4 if args.tree else 5), "seconds": args.seconds}
    made: Review | Walk
    if args.revision is not None:
        made = review(args.revision, args.base, **how)
    elif len(args.what) == 1 and ".." in args.what[0] and not Path(args.what[0]).exists():
        made = walk(args.tree, args.what[0], **how)
    else:
        made = review_tree(args.tree, args.what, **how)
    if args.picture:
        _draw(args.picture, made.whole if isinstance(made, Walk) else made)
    return json_text(made.document()) if args.json else str(made)


def _search(args: argparse.Namespace) -> str:
    from groupcpus.studies.review.compiled import revision_from_c
    from groupcpus.studies.review.search import can_it_happen

    revision = args.revision
    if args.tree is not None:
        revision = revision_from_c(args.tree, *args.what)
    found = can_it_happen(
        args.can_it_happen,
        revision,
        most_cpus=args.most_cpus or 7,
        seconds=(args.seconds, args.random),
    )
    if args.json:
        case = found.case
        return json_text(
            {
                "question": found.predicate.sentence,
                "revision": found.revision,
                "machines": found.machines,
                "calls": found.calls,
                "all_up_to": found.all_up_to,
                "counters": found.counters,
                "case": case
                and {
                    "topology": case.topology.to_dict(),
                    "numgrps": case.numgrps,
                    "counter": case.counter,
                    "masks": [str(mask) for mask in case.masks],
                },
            }
        )
    parts = [str(found)]
    if found.case:
        parts += ["A machine file:", found.case.machine_file(), "To boot it:", found.case.qemu()]
    return "\n\n".join(parts)


def _draw(path: Path, made: "Review") -> None:
    worst = next((c for c in made.changes if c.verdict == "worse"), None) or next(
        (c for c in made.changes if c.machine in made.runs), None
    )
    if worst is None:
        raise RequestError("--picture: no mask changes on any machine, there is nothing to draw")
    try:
        from groupcpus import pictures
    except ImportError as error:
        raise RequestError(f"--picture needs the lab extra: {error}") from None
    figure = pictures.compare_runs(
        *made.runs[worst.machine], labels=(f"{worst.machine}, before", f"{worst.machine}, after")
    )
    path.write_bytes(pictures.to_svg(figure) if path.suffix == ".svg" else pictures.to_png(figure))


REVIEW = Command(
    "A patch of lib/group_cpus.c: what it breaks, and which machines it changes.",
    _arguments,
    _review,
)


def _kit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", dest="folder", required=True, metavar="DIR", help="the folder to write"
    )
    parser.add_argument(
        "--revision",
        default="rotate-tiled",
        metavar="R",
        help="whose answers the tables have (%(default)s)",
    )


def _kit(args: argparse.Namespace) -> str:
    from groupcpus.studies.review.kit import write_kit

    return "\n".join(map(str, write_kit(args.folder, args.revision)))


KIT = Command(
    "Write tests of lib/group_cpus.c for the kernel's tree, and a rotation in C.",
    _kit_arguments,
    _kit,
)
