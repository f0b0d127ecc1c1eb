# SPDX-License-Identifier: GPL-2.0-only
"""The command line: ``python -m groupcpus COMMAND``.

A command is a row of `COMMANDS`: its help, a function that declares its arguments, and one that
gives the text to print.  An error is one line on stderr, and exit status 2.  What was found, a
device that does not follow for instance, is no error: the status is 0 then too.
"""

import sys
from collections.abc import Sequence

from groupcpus.commands.asking import ISOLATE, MANAGED, MOVED, QUEUES, SUBMITTERS
from groupcpus.commands.command import Command, Parser, complain, print_answer
from groupcpus.commands.comparing import COMPARE
from groupcpus.commands.lists import CLAIMS, MACHINES, REPLAY, REVISION_LIST
from groupcpus.commands.reviewing import KIT, REVIEW
from groupcpus.commands.running import RUN
from groupcpus.errors import GroupCpusError

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, Command] = {
    "run": RUN,
    "compare": COMPARE,
    "managed": MANAGED,
    "isolate": ISOLATE,
    "queues": QUEUES,
    "submitters": SUBMITTERS,
    "moved": MOVED,
    "review": REVIEW,
    "kit": KIT,
    "claims": CLAIMS,
    "machines": MACHINES,
    "replay": REPLAY,
    "revisions": REVISION_LIST,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``python -m groupcpus``; those of the process when left out.

    Returns
    -------
    int
        0, or 2 after an error, which is said on stderr.

    Examples
    --------
    >>> main(["run", "D16plds_v6"])
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
    <BLANKLINE>
    queue of nvme0  cluster  CPU  rotate-v2  CPU
                 1  0-2        0  0-2          0
                 2  3-5        3  3-5          3
                 3  6-8        6  6-8          6
                 4  9-11       9  9-10         9
                 5  12-13     12  11-13       11
                 6  14-15     14  14-15       14
    nvme1: the same masks before, others after (--device nvme1)
    0
    """
    words = sys.argv[1:] if arguments is None else arguments
    parser = Parser(
        prog="groupcpus",
        description="Which CPUs serve a device's interrupts, and why they pile up.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        its = commands.add_parser(name, help=command.help, description=command.help)
        if name in words:  # no other one can be meant
            command.arguments(its)
        its.set_defaults(output=command.output)
    parsed = parser.parse_args(words)
    try:
        return print_answer(parsed.output(parsed))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror}")
        return 2
    except GroupCpusError as error:
        complain(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
