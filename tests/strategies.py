# SPDX-License-Identifier: GPL-2.0-only
"""Hypothesis strategies: made-up machines, and the numbers to call the function with."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from groupcpus.engine.topology import Topology
from tests.documents import Masks

WRAP = 1 << 32  # the call counter is an unsigned int

# Revisions whose dealing adds the offset to a group number in 32 bits: the sum may wrap.
SUMMING = ("rotate-v1", "rotate-v2", "rotate-v2-skip1")
ROTATING = (*SUMMING, "rotate-v2-fixed", "rotate-next")
STEADY = ("numa", "numa-single-pop", "cluster")
ALL = (*STEADY, *ROTATING)

revisions = st.sampled_from(ALL)
offsets = st.one_of(
    st.integers(0, 200),
    st.integers(WRAP - 64, WRAP - 1),
    st.integers(0, WRAP - 1),
)


class Made(NamedTuple):
    """One machine: as a document, for the engine, and as plain integers."""

    document: dict[str, Any]
    topology: Topology
    plain: Masks


def cpulist(cpus: Any) -> str:
    return ",".join(map(str, sorted(cpus)))


def split(items: list[Any], labels: list[int]) -> list[list[Any]]:
    """Sort items into lists by their labels."""
    parts: dict[int, list[Any]] = {}
    for item, label in zip(items, labels, strict=True):
        parts.setdefault(label, []).append(item)
    return list(parts.values())


@st.composite
def made(
    draw: st.DrawFn, *, absent: bool = True, clusters: bool = True, max_cpus: int = 40
) -> Made:
    """Draw a machine of up to `max_cpus` CPU numbers, not all of which need to be possible.

    Parameters
    ----------
    absent : bool
        Whether CPUs may be possible and not present.
    clusters : bool
        Whether clusters are drawn; without, every cluster mask is empty.
    """

    def labels(count: int, kinds: int) -> list[int]:
        return draw(st.lists(st.integers(0, kinds - 1), min_size=count, max_size=count))

    def some(cpus: list[int]) -> list[int]:
        # Mostly none, else any of them.
        if draw(st.booleans()):
            return []
        return [cpu for cpu, taken in zip(cpus, labels(len(cpus), 2), strict=True) if taken]

    count = draw(st.integers(1, max_cpus))
    numbers = list(range(count))
    impossible = set(some(numbers)[: count - 1])
    possible = [cpu for cpu in numbers if cpu not in impossible]

    # Cores: neighbours, strided as on many servers, or thrown together.
    threads = draw(st.integers(1, 4))
    numbering = draw(st.sampled_from(["contiguous", "strided", "any"]))
    cores = -(-count // threads)
    if numbering == "contiguous":
        core_of = [cpu // threads for cpu in numbers]
    elif numbering == "strided":
        core_of = [cpu % cores for cpu in numbers]
    else:
        core_of = labels(count, cores)
    siblings = split(numbers, core_of)

    # Nodes: whole cores, even or not, and ids of which some stay empty or are left out.
    ids = draw(st.integers(1, 8))
    if draw(st.booleans()):
        node_of_core = [min(at * ids // len(siblings), ids - 1) for at in range(len(siblings))]
    else:
        node_of_core = labels(len(siblings), ids)
    nodes: dict[int, list[int]] = {node: [] for node in range(ids)}
    for core, node in zip(siblings, node_of_core, strict=True):
        nodes[node] += [cpu for cpu in core if cpu not in impossible]
    unnamed = set(some([node for node, cpus in nodes.items() if not cpus]))

    # Clusters: cores, slices, nodes, or anything, across nodes too; some CPUs without one.
    groups: list[list[int]] = []
    no_cluster = possible
    if clusters:
        kind = draw(st.sampled_from(["cores", "slices", "nodes", "any", "alone"]))
        no_cluster = some(possible)
        if kind == "cores":
            groups = siblings
        elif kind == "slices":
            size = draw(st.integers(1, 9))
            groups = split(numbers, [cpu // size for cpu in numbers])
        elif kind == "nodes":
            groups = list(nodes.values())
        elif kind == "any":
            groups = split(numbers, labels(count, draw(st.integers(1, count))))
    lone = set(no_cluster)
    groups = [[cpu for cpu in group if cpu not in lone] for group in groups]

    missing = set(some(possible)[: len(possible) - 1]) if absent else set()
    present = [cpu for cpu in possible if cpu not in missing]
    offline = set(some(present))

    document = {
        "nodes": {str(node): cpulist(cpus) for node, cpus in nodes.items() if node not in unnamed},
        "siblings": [cpulist(core) for core in siblings if draw(st.integers(0, 9))],
        "clusters": [cpulist(group) for group in groups if group],
        "no_cluster": cpulist(no_cluster),
        "possible": cpulist(possible),
        "present": cpulist(present),
        "online": cpulist(cpu for cpu in present if cpu not in offline),
    }
    return Made(document, Topology.from_dict(document), Masks(document))


def numgrps_for(machine: Made) -> st.SearchStrategy[int]:
    """Draw how many groups to ask for: mostly at most as many as there are CPUs."""
    cpus = machine.plain.cpu_possible_mask.bit_count()
    return st.one_of(st.integers(1, cpus), st.integers(1, cpus + 10))
