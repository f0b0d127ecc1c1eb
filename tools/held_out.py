# SPDX-License-Identifier: GPL-2.0-only
"""Judge the revisions by the held-out machines and write data/held-out.csv.

    python tools/held_out.py [--machines 1500] [--workers N]

A row is a family, a hundred of its machines and a revision, with the columns of
`groupcpus.studies.families.scores`: device by device, and over three random orders of requests.
It takes a minute with the extra `batch`, and some ten without.
"""

import argparse

import pandas as pd

from groupcpus.machines.machine import data_dir
from groupcpus.studies.families import FAMILIES, draw_machines, scores
from groupcpus.studies.sweeps import sweep

BLOCK = 100
ORDERS = ("device-by-device", "random-0", "random-1", "random-2")


def judge(family: str, first: int, machines: int = BLOCK, workers: int = 0) -> pd.DataFrame:
    """Return the scores of some machines of a family, a row a revision."""
    drawn = draw_machines(family, machines, first=first)
    frames = [
        sweep(drawn, irqchips=["x86"], requests=ORDERS, workers=workers, progress=False),
        sweep(drawn, irqchips=["gicv3"], workers=workers, progress=False),
    ]
    table = scores(pd.concat(frames))
    table.columns = pd.Index([" ".join(column) for column in table.columns])
    table = table.reset_index()
    table.insert(0, "machines", machines)
    table.insert(0, "first", first)
    table.insert(0, "family", family)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--machines", type=int, default=1500, help="of each family")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0: none")
    arguments = parser.parse_args()
    tables = []
    for family in FAMILIES:
        for first in range(0, arguments.machines, BLOCK):
            count = min(BLOCK, arguments.machines - first)
            tables.append(judge(family, first, count, arguments.workers))
        print(family, flush=True)
    whole = pd.concat(tables, ignore_index=True)
    whole.to_csv(data_dir() / "held-out.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
