# SPDX-License-Identifier: GPL-2.0-only
"""All small machines, up to what changes no mask but by its name, as arrays for the batch.

What is left out, because another machine gives the same masks up to the numbers of CPUs:

* CPUs are numbered node by node, the present ones first: within a node only their order counts,
  and absent ones are assigned apart;
* a cluster's CPUs are neighbours: where a node's groups are kept within clusters, only the order in
  a cluster counts, and where they are not, nothing asks for clusters;
* a node with one cluster stands for one whose clusters are not known: both are dealt as a whole;
* cores are told apart by who shares one, not by names.

Clusters and cores that cross a node, or join present CPUs and absent ones, ask nothing more: the
function sees what of them lies in one node and stage.  Node ids without any CPU are not among the
machines; they change the order of equal nodes.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupcpus.studies.batch import Machines

__all__ = ["Shape", "count_machines", "machines_of", "random_machines", "shapes"]


class Shape(NamedTuple):
    """How many present and absent CPUs each node has."""

    present: tuple[int, ...]
    absent: tuple[int, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """The sizes of what is assigned apart, in the order of CPU numbers."""
        return tuple(size for size in (*self.present, *self.absent) if size)


def shapes(ncpus: int, absent: bool = True) -> list[Shape]:
    """Return all ways to divide CPUs among nodes, with some absent or without.

    Examples
    --------
    >>> [shape for shape in shapes(2, absent=False)]
    [Shape(present=(2,), absent=(0,)), Shape(present=(1, 1), absent=(0, 0))]
    >>> len(shapes(2)), sum(count_machines(shape) for shape in shapes(3))
    (5, 45)
    """
    found = []
    for sizes in _compositions(ncpus):
        for away in _below(sizes) if absent else [(0,) * len(sizes)]:
            here = tuple(size - gone for size, gone in zip(sizes, away, strict=True))
            if any(here):
                found.append(Shape(here, away))
    return sorted(found, key=lambda shape: (len(shape.present), sum(shape.absent), shape))


def _compositions(total: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for first in range(1, total + 1):
        for rest in _compositions(total - first):
            yield (first, *rest)


def _below(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield from (tuple(map(int, row)) for row in np.ndindex(*(size + 1 for size in sizes)))


class _Structures(NamedTuple):
    """Every way that some CPUs form clusters and cores: a row each, the lowest CPU as the name."""

    cluster: NDArray[np.int32]
    core: NDArray[np.int32]


@cache
def _partitions(count: int) -> list[tuple[int, ...]]:
    """Return all ways to divide some CPUs into cores."""
    rows: list[tuple[int, ...]] = [()]
    for at in range(count):
        rows = [(*row, name) for row in rows for name in (*sorted(set(row)), at)]
    return rows


@cache
def _structures(count: int) -> _Structures:
    clusters, cores = [], []
    for sizes in _compositions(count):
        rows: list[tuple[int, ...]] = [()]
        names: list[int] = []
        for size in sizes:
            begin = len(names)
            names += [begin] * size
            blocks = [tuple(begin + name for name in block) for block in _partitions(size)]
            rows = [(*row, *block) for row in rows for block in blocks]
        clusters += [names] * len(rows)
        cores += rows
    return _Structures(np.array(clusters, np.int32), np.array(cores, np.int32))


def count_machines(shape: Shape) -> int:
    """Return how many machines have a shape."""
    count = 1
    for size in shape.parts:
        count *= len(_structures(size).core)
    return count


def machines_of(shape: Shape, start: int, stop: int) -> Machines:
    """Return some of the machines of a shape, by position."""
    rows = np.arange(start, min(stop, count_machines(shape)))
    sizes = [len(_structures(size).core) for size in shape.parts]
    picks = np.unravel_index(rows, sizes)
    clusters, cores = [], []
    begin = 0
    for size, pick in zip(shape.parts, picks, strict=True):
        made = _structures(size)
        clusters.append(made.cluster[pick] + begin)
        cores.append(made.core[pick] + begin)
        begin += size
    ids = np.arange(len(shape.present))
    node = np.repeat(np.concatenate([ids, ids]), [*shape.present, *shape.absent])
    present = np.arange(begin) < sum(shape.present)
    shaped = (len(rows), begin)
    return Machines(
        np.broadcast_to(node, shaped),
        np.concatenate(cores, axis=1),
        np.concatenate(clusters, axis=1),
        present=np.broadcast_to(present, shaped),
    )


def random_machines(
    ncpus: int, count: int, rng: np.random.Generator, absent: bool = True
) -> Machines:
    """Return machines of any shape: nodes, cores and clusters of one size or of several."""
    node, core, cluster = (np.empty((count, ncpus), np.int32) for _ in range(3))
    present = np.ones((count, ncpus), np.int32)
    for row in range(count):
        nodes = rng.integers(1, min(ncpus, 8) + 1)
        cuts = np.sort(rng.choice(np.arange(1, ncpus), nodes - 1, replace=False))
        sizes = np.diff([0, *cuts, ncpus])
        node[row] = np.repeat(np.arange(nodes), sizes)
        threads = rng.choice([1, 2, 2, 4, 8])
        width = rng.choice([1, 2, 4, 8, 16])
        for begin, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
            if rng.random() < 0.3:
                width = rng.integers(1, size + 1)
            within = np.arange(size)
            cluster[row, begin : begin + size] = begin + within // width * width
            core[row, begin : begin + size] = begin + within // threads * threads
        if absent and ncpus > 1 and rng.random() < 0.5:
            gone = rng.choice(ncpus, rng.integers(1, ncpus), replace=False)
            present[row, gone] = 0
    return Machines(node, core, cluster, present=present)
