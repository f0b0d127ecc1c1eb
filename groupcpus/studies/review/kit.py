# SPDX-License-Identifier: GPL-2.0-only
"""The kit: tests of lib/group_cpus.c for the kernel's tree, with tables made by the engine.

A userspace test in the manner of tools/testing/memblock, KUnit cases, and the project's own
rotation as C; all of it written here.
"""

from collections.abc import Iterator
from pathlib import Path

from groupcpus.engine.group_cpus import group_cpus_evenly
from groupcpus.engine.revisions import Revision, get_revision
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief
from groupcpus.studies.review.building import stand_in
from groupcpus.studies.review.zoo import zoo

__all__ = ["kit_files", "kit_machines", "write_kit"]

MARK = "Written by groupcpus kit"
MOST_CPUS = 64
_COUNTERS = (0, 1, 7, 12_345, 3_000_000_000, (1 << 32) - 5, (1 << 32) - 1)
_COUNTER_NAMES = {"rotate-tiled": "groups_given", "rotate-v2": "group_spread_cnt"}


def kit_machines() -> Iterator[tuple[str, Topology]]:
    """Yield the machines of the tables: those of the zoo that have at most 64 CPUs, and small ones.

    Examples
    --------
    >>> [name for name, _ in kit_machines()][-2:]
    ['uneven_cores', 'split_cores']
    """
    for machine in zoo():
        topology = machine.topology
        count = len(topology.possible)
        if count <= MOST_CPUS and topology.possible.mask == (1 << count) - 1:
            yield machine.name, topology
    # Seven groups on three nodes: 2**32 is no multiple of three.
    yield "three_nodes", Topology.uniform(3, 4, threads=2, cluster=2)
    document = {"nodes": {"0": "0-8"}, "siblings": ["0-1", "2-4"], "clusters": ["0-4", "5-8"]}
    yield "uneven_cores", Topology.from_dict(document | {"possible": "0-8", "present": "0-6"})
    document = {"nodes": {"0": "0-7"}, "siblings": ["0-1", "2-3", "4-5", "6-7"]}
    clusters = {"clusters": ["0-1", "2", "3", "4-5", "6", "7"], "possible": "0-7", "present": "0-7"}
    yield "split_cores", Topology.from_dict(document | clusters)


def kit_files(revision: str | Revision = "rotate-tiled") -> dict[str, str]:
    """Return the files of the kit by name.

    Parameters
    ----------
    revision : str or Revision
        The one whose answers the tables have.
    """
    chosen = get_revision(revision)
    own = {name: stand_in(f"kit/{name}") for name in ("main.c", "Makefile")}
    shared = ("group_cpus_fixture.h", "group_cpus_kunit.c")
    return {
        **own,
        **{name: stand_in(f"kit/{name}") for name in shared},
        "group_cpus_cases.h": _tables(chosen),
        "group_cpus.c": _marked(stand_in("tiled/lib/group_cpus.c")),
        "sort.c": _marked(stand_in("plain/lib/sort.c")),
        "stand_in.h": _marked(stand_in("stand_in.h")),
    }


def _marked(text: str) -> str:
    return f"/* {MARK}. */\n{text}"


def write_kit(folder: str | Path, revision: str | Revision = "rotate-tiled") -> list[Path]:
    """Write the kit into a folder, which may be new, empty or that of an earlier kit.

    Nothing is removed, and no file is written over that is not of a kit.

    Raises
    ------
    RequestError
        If a file of one of the names is another's.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise RequestError(f"{brief(str(folder))}: expected a folder")
    files = kit_files(revision)
    for name in files:
        there = path / name
        if there.is_symlink() or (there.exists() and not _is_ours(there)):
            raise RequestError(
                f"{there}: not written by groupcpus kit, and not written over; name another folder"
            )
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return [path / name for name in files]


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return MARK in file.read(1000)


def _tables(revision: Revision) -> str:
    machines = list(kit_machines())
    rows = [
        "/* SPDX-License-Identifier: GPL-2.0-only */",
        f"/* {MARK}: what {revision.name} answers.  A CPU's core and cluster are named by the",
        " * lowest CPU in it; -1: not known. */",
        f"#define CASE_CPUS {MOST_CPUS}",
    ]
    if revision.advance(2):
        name = _COUNTER_NAMES.get(revision.name, "group_spread_cnt")
        rows.append(f"#define CASE_COUNTER {name}")
    rows += [
        "",
        "struct case_machine {",
        "\tconst char *name;",
        "\tint ncpus, nodes;",
        "\tsigned char node[CASE_CPUS], present[CASE_CPUS], core[CASE_CPUS], cluster[CASE_CPUS];",
        "};",
        "",
        "struct case_call {",
        "\tunsigned int machine, numgrps, nummasks, counter, advance;",
        "\tsigned char group[CASE_CPUS];",
        "};",
        "",
        "static const struct case_machine case_machines[] = {",
        *(_machine_row(name, topology) for name, topology in machines),
        "};",
        "",
        "static const struct case_call case_calls[] = {",
    ]
    for at, (_, topology) in enumerate(machines):
        for numgrps in _numbers_of_groups(len(topology.possible)):
            for counter in _COUNTERS if revision.advance(2) else (0,):
                rows.append(_call_row(revision, at, topology, numgrps, counter))
    return "\n".join([*rows, "};", ""])


def _numbers_of_groups(count: int) -> list[int]:
    wanted = {1, 2, 3, 5, 7, count // 3, count // 2, count * 2 // 3, count - 1, count, count + 1}
    return sorted(number for number in wanted if 1 <= number <= MOST_CPUS)


def _list(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _machine_row(name: str, topology: Topology) -> str:
    cpus = list(topology.possible)
    cluster = [topology.cluster_ids[cpu] for cpu in cpus]
    fields = (
        [topology.node_ids[cpu] for cpu in cpus],
        [int(cpu in topology.present) for cpu in cpus],
        [topology.core_ids[cpu] for cpu in cpus],
        [-1 if id is None else id for id in cluster],
    )
    lists = ", ".join(map(_list, fields))
    return f'\t{{ "{name}", {len(cpus)}, {max(topology.nodes) + 1}, {lists} }},'


def _call_row(
    revision: Revision, machine: int, topology: Topology, numgrps: int, counter: int
) -> str:
    made = group_cpus_evenly(topology, numgrps, revision=revision, spread_offset=counter)
    group = {cpu: at for at, mask in enumerate(made.masks) for cpu in mask}
    groups = _list([group[cpu] for cpu in topology.possible])
    advance = revision.advance(numgrps)
    return f"\t{{ {machine}, {numgrps}, {made.nummasks}, {counter}u, {advance}, {groups} }},"
