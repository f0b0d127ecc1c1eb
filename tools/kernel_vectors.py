# SPDX-License-Identifier: GPL-2.0-only
"""Compile a kernel's lib/group_cpus.c and hold it against every vector of its revision.

Without a tree, Debian's package of the kernel's source is fetched and two files of it unpacked.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from groupcpus import CpuSet, Topology  # noqa: E402
from groupcpus.studies.review.compiled import revision_from_c  # noqa: E402
from groupcpus.studies.review.running import Request  # noqa: E402
from tests.vectors import machines  # noqa: E402

PACKAGE = "linux-source-6.1"


def fetch(folder: Path) -> Path:
    """Fetch the package with apt-get and unpack what is read of it."""
    subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=folder, check=True)
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), "."], cwd=folder, check=True)
    (archive,) = folder.glob("usr/src/*.tar.xz")
    top = archive.name.removesuffix(".tar.xz")
    names = [f"{top}/lib/group_cpus.c", f"{top}/lib/sort.c"]
    subprocess.run(["tar", "-xJf", str(archive), *names], cwd=folder, check=True)
    return folder / top


def main() -> int:
    """Compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, help=f"a kernel tree; {PACKAGE} when left out")
    parser.add_argument("--patch", type=Path, action="append", default=[])
    parser.add_argument("--revision", help="whose vectors; found by the files when left out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = args.tree or fetch(Path(folder))
        revision = revision_from_c(tree, *args.patch, sanitized=True)
        pops = "else if (n -= size)" not in revision.build.sources.sort
        known = "cluster" if revision.cluster_aware else "numa" if pops else "numa-single-pop"
        name = args.revision or ("rotate-v2" if revision.advance(1) else known)
        count = wrong = 0
        for document, cases in machines():
            asked = [case for case in cases if case.revision == name]
            requests = [Request(case.numgrps, case.spread_offset) for case in asked]
            answers = revision.ask(Topology.from_dict(document), requests)
            for case, answer in zip(asked, answers, strict=True):
                masks = tuple(str(CpuSet.from_mask(mask)) for mask in answer.masks or ())
                count += 1
                differs = (masks, answer.nummasks) != (case.masks, case.nummasks)
                wrong += differs or bool(answer.leaks or answer.crash)
    print(f"{revision.name} against the vectors of {name}: {count} cases, {wrong} differ")
    return int(wrong > 0 or not count)


if __name__ == "__main__":
    sys.exit(main())
