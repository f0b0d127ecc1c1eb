# SPDX-License-Identifier: GPL-2.0-only
"""Millions of calls: the compiled twin of the engine, with arrays in and arrays out.

It needs the extra ``batch`` (Numba) and knows the revisions of `COMPILED`; everything else in
groupcpus works without it.  A call takes 2 to 6 microseconds on machines of 100 CPUs.  When it is
first used on a computer it is compiled, which takes 15 to 30 seconds and is said; the result is
kept beside the module, or in Numba's folder of the user (``NUMBA_CACHE_DIR``).

Many machines, numbers of groups, revisions and offsets go in at once, the machine being one axis of
the batch like the others:

>>> from groupcpus import Topology
>>> machines = Machines.of([Topology.uniform(1, 4, threads=2), Topology.uniform(2, 3, threads=1)])
>>> made = group_many(machines, numgrps=3, revisions="rotate-v2", spread_offsets=1)
>>> made.groups
array([[ 1,  2,  0,  0, -1, -1],
       [ 2,  2,  1,  0,  0,  0]], dtype=int32)
>>> made.nummasks
array([3, 3], dtype=int32)

Machines need no `Topology`.  An exhaustive search makes its arrays itself, a row a machine and a
column a CPU: its node (-1: no such CPU), the lowest CPU of its core, a number for its cluster
(-1: an empty mask), whether it is present, and online.

>>> node = np.zeros((2, 4), np.int32)
>>> core = np.array([[0, 0, 2, 2], [0, 1, 0, 1]])
>>> machines = Machines(node, core, cluster=core)
>>> group_many(machines, numgrps=[1, 2, 3], machine=1).groups
array([[0, 0, 0, 0],
       [1, 0, 1, 0],
       [1, 0, 2, 0]], dtype=int32)

`place_many` goes on to irqchips, and counts what each CPU handles.

This module has over 450 lines since half of it is documentation and checks: the compiled code looks
at nothing twice.
"""

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupcpus.engine.topology import MAX_CPUS, MAX_NODES, Topology
from groupcpus.errors import RequestError, brief

__all__ = [
    "COMPILED",
    "Counts",
    "Groups",
    "Machines",
    "Plan",
    "get_ready",
    "group_many",
    "installed",
    "place_many",
]

COMPILED = (
    "numa",
    "numa-single-pop",
    "cluster",
    "rotate-v1",
    "rotate-v2",
    "rotate-v2-fixed",
    "rotate-v2-skip1",
    "rotate-next",
    "rotate-tiled",
    "rotate-kept",
)
"""Names in `REVISIONS` that the batch knows."""

_MAX_GROUPS = 65536
_UINT_MAX = 0xFFFFFFFF

Ints = NDArray[np.int32]


def installed() -> bool:
    """Return whether the extra ``batch`` is there."""
    return find_spec("numba") is not None


@dataclass(frozen=True)
class Machines:
    """Machines as arrays, a row a machine and a column a CPU number.

    Parameters
    ----------
    node : array of int
        Node id of each CPU; -1: not possible.
    core : array of int
        A number for each core: CPUs with the same one are threads of it.  From 0 on, less than the
        number of columns; the lowest CPU of the core, say.
    cluster : array of int
        The same for clusters; -1: the CPU's cluster mask is empty.
    present, online : array of bool, optional
        All possible CPUs, and all present ones, when left out.
    node_ids : array of int, optional
        One more than each machine's highest node id, of nodes without CPUs too (``nr_node_ids``);
        that of its CPUs when left out.
    llc : array of int, optional
        As `cluster`, for last-level caches; -1, and everywhere when left out: not known.

    Raises
    ------
    RequestError
        If the arrays are no machines.
    """

    node: Ints
    core: Ints
    cluster: Ints
    present: Ints = None  # type: ignore[assignment]
    online: Ints = None  # type: ignore[assignment]
    node_ids: Ints = None  # type: ignore[assignment]
    llc: Ints = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        # The compiled code looks at nothing twice, so that everything is looked at here.
        shape = np.shape(self.node)
        if len(shape) != 2 or not 0 < shape[1] <= MAX_CPUS:
            raise RequestError(
                f"node: expected a row a machine and up to {MAX_CPUS} columns, not shape {shape}"
            )
        self._set("node", shape, -1, MAX_NODES - 1)
        self._set("core", shape, 0, shape[1] - 1)
        self._set("cluster", shape, -1, shape[1] - 1)
        self._default("llc", np.full(shape, -1))
        self._set("llc", shape, -1, shape[1] - 1)
        possible = self.node >= 0
        self._default("present", possible)
        self._set("present", shape, 0, 1)
        self._default("online", self.present)
        self._set("online", shape, 0, 1)
        highest = self.node.max(axis=1) + 1
        self._default("node_ids", highest)
        self._set("node_ids", shape[:1], 1, MAX_NODES)
        for field_name, wrong in (
            ("present", (self.present > possible).any()),
            ("online", (self.online > self.present).any()),
            ("present", not self.present.any(axis=1).all()),
            ("node_ids", (self.node_ids < highest).any()),
        ):
            if wrong:
                raise RequestError(
                    f"{field_name}: expected at least one present CPU a machine, present ones "
                    "among the possible, online ones among the present, and no node id beyond "
                    "node_ids"
                )

    def _default(self, name: str, value: NDArray[Any]) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def _set(self, name: str, shape: tuple[int, ...], least: int, most: int) -> None:
        object.__setattr__(self, name, _ints(name, getattr(self, name), shape, least, most))

    def __len__(self) -> int:
        return len(self.node)

    @classmethod
    def of(cls, topologies: Iterable[Topology]) -> "Machines":
        """Return the arrays of some topologies; columns go up to the highest CPU of any.

        Raises
        ------
        RequestError
            If there is none, or something else among them.
        """
        every = list(topologies)
        for at, topology in enumerate(every):
            if not isinstance(topology, Topology):
                raise RequestError(f"topologies[{at}] {brief(topology)}: expected a Topology")
        if not every:
            raise RequestError("topologies: expected at least one")
        shape = len(every), max(topology.possible.mask.bit_length() for topology in every)
        node = np.full(shape, -1, np.int32)
        core = np.tile(np.arange(shape[1], dtype=np.int32), (shape[0], 1))
        cluster, llc = core.copy(), np.full(shape, -1, np.int32)
        present, online = np.zeros((2, *shape), np.int32)
        for at, topology in enumerate(every):
            for number, cpus in topology.nodes.items():
                node[at, [*cpus]] = number
            for labels, sets in (
                (core, topology.siblings),
                (cluster, topology.clusters),
                (llc, topology.llcs),
            ):
                for cpus in sets:
                    known = [*(cpus & topology.possible)]
                    labels[at, known] = known[:1]
            cluster[at, [*topology.no_cluster & topology.possible]] = -1
            present[at, [*topology.present]] = 1
            online[at, [*topology.online]] = 1
        node_ids = np.array([max(topology.nodes) + 1 for topology in every])
        return cls(node, core, cluster, present, online, node_ids, llc)


class Groups(NamedTuple):
    """What calls answered, a row a call."""

    groups: Ints
    """The group of each CPU; -1: not possible."""
    nummasks: Ints
    """How many groups count as filled."""

    def masks(self, call: int, numgrps: int) -> list[int]:
        """Return the masks of a call as integers, in group order."""
        masks = [0] * numgrps
        for cpu, group in enumerate(self.groups[call].tolist()):
            if group >= 0:
                masks[group] |= 1 << cpu
        return masks


def group_many(
    machines: Machines,
    numgrps: ArrayLike,
    *,
    revisions: str | Sequence[str] = "cluster",
    spread_offsets: ArrayLike = 0,
    machine: ArrayLike | None = None,
) -> Groups:
    """Call `group_cpus_evenly` many times.

    Parameters
    ----------
    machines : Machines
        The machines.
    numgrps, spread_offsets : array of int
        What each call asks for, and the offset that it takes.
    revisions : str or sequence of str
        Names in `COMPILED`.
    machine : array of int, optional
        Which machine each call is made on; each in turn when left out.  Calls of one machine that
        follow one another share the work of laying it out.

    Returns
    -------
    Groups
        A row a call.  The arguments are broadcast against one another, as NumPy does; with two
        axes or more the rows go through them in order, the last one fastest.

    Raises
    ------
    RequestError
        If an argument is none that can be, or Numba is not installed.
    """
    if not isinstance(machines, Machines):
        raise RequestError(f"machines {brief(machines)}: expected Machines")
    twin = _twin()
    names = np.array(revisions, dtype=object)
    for name in names.flat:
        if not isinstance(name, str) or name not in COMPILED:
            raise RequestError(f"revisions: {brief(name)} is none of {', '.join(COMPILED)}")
    codes = np.array([twin.CODES[name] for name in names.flat], np.int64).reshape(names.shape)
    which = np.arange(len(machines)) if machine is None else machine
    axes = (
        _ints("machine", which, None, 0, len(machines) - 1),
        codes,
        _ints("numgrps", numgrps, None, 1, _MAX_GROUPS),
        _ints("spread_offsets", spread_offsets, None, 0, _UINT_MAX, np.int64),
    )
    try:
        calls = np.broadcast_arrays(*axes)
    except ValueError:
        shapes = ", ".join(str(axis.shape) for axis in axes)
        raise RequestError(
            f"machine, revisions, numgrps and spread_offsets of shapes {shapes} cannot be "
            "broadcast together"
        ) from None
    flat = tuple(np.array(axis, np.int64).reshape(-1) for axis in calls)
    groups = np.empty((len(flat[0]), machines.node.shape[1]), np.int32)
    nummasks = np.empty(len(flat[0]), np.int32)
    with _compiling():
        twin.group_many(_arrays(machines, twin), _layout(machines, twin), flat, groups, nummasks)
    return Groups(groups, nummasks)


class Plan(NamedTuple):
    """A run of some devices, and where it is to be counted."""

    machine: int
    """Which of the machines."""
    revision: str
    irqchip: str
    devices: Sequence[Sequence[tuple[int, int]]]
    """As they request; of each the numgrps and offset of its calls that make interrupts."""
    rows: Mapping[int, int]
    """After so many devices, from 1 on, which row to fill."""
    requests: Sequence[int] = ()
    """Whose next vector is requested, of the devices above; nothing: device by device."""
    pre_vectors: Sequence[int] = ()
    """How many vectors each device requests before those of its queues; none when left out."""


class Counts(NamedTuple):
    """What runs came to, a row where one was counted."""

    loads: NDArray[np.int32]
    """[row, CPU]: queue interrupts that each CPU handles."""
    submitters: NDArray[np.int32]
    """[row, CPU]: possible CPUs that submit to the queues of these, one by one."""
    hot: NDArray[np.int8]
    """[row, CPU]: whether it handles one whose mask has no other CPU."""
    crossing: NDArray[np.int32]
    """[row]: masks with CPUs of several nodes, and of several clusters."""

    @classmethod
    def zeros(cls, rows: int, cpus: int) -> "Counts":
        """Return counts of nothing."""
        return cls(
            np.zeros((rows, cpus), np.int32),
            np.zeros((rows, cpus), np.int32),
            np.zeros((rows, cpus), np.int8),
            np.zeros((rows, 2), np.int32),
        )

    def part(self, rows: slice) -> "Counts":
        """Return a view of some rows."""
        return Counts(self.loads[rows], self.submitters[rows], self.hot[rows], self.crossing[rows])

    def set(self, row: int, one: "Counts") -> None:
        """Copy the only row of other counts."""
        self.loads[row], self.submitters[row] = one.loads, one.submitters
        self.hot[row], self.crossing[row] = one.hot, one.crossing


def place_many(machines: Machines, plans: Sequence[Plan], counts: Counts) -> None:
    """Group the CPUs of many runs and place their interrupts.

    Parameters
    ----------
    machines : Machines
        The machines.
    plans : sequence of Plan
        What to run; revisions and irqchips by name.
    counts : Counts
        Where to write; rows that no plan names stay as they are.

    Raises
    ------
    RequestError
        If something in a plan is none that can be, or Numba is not installed.

    Examples
    --------
    Two disks of two queues on four CPUs:

    >>> machines = Machines.of([Topology.uniform(1, 4, threads=1, cluster=4)])
    >>> counts = Counts.zeros(2, 4)
    >>> disk = [(2, 0)]
    >>> place_many(machines, [Plan(0, "cluster", "x86", [disk, disk], {1: 0, 2: 1})], counts)
    >>> counts.loads
    array([[0, 1, 0, 1],
           [1, 1, 1, 1]], dtype=int32)
    """
    twin = _twin()
    for at, plan in enumerate(plans):
        for field, value, known in (
            ("revision", plan.revision, twin.CODES),
            ("irqchip", plan.irqchip, twin.CHIPS),
        ):
            if value not in known:
                raise RequestError(
                    f"plans[{at}]: {field} {brief(value)}: expected one of {', '.join(known)}"
                )
        few = len(plan.devices)
        if len(plan.pre_vectors) not in (0, few) or not all(
            0 <= one < few for one in plan.requests
        ):
            raise RequestError(f"plans[{at}]: requests and pre_vectors do not fit {few} devices")
    devices = [device for plan in plans for device in plan.devices]
    calls = [call for device in devices for call in device]
    if not calls:
        return
    rows = [plan.rows.get(at + 1, -1) for plan in plans for at in range(len(plan.devices))]
    cpus = machines.node.shape[1]
    if counts.loads.shape[1] != cpus:
        raise RequestError(f"counts: expected {cpus} columns, not {counts.loads.shape[1]}")
    runs = twin.Runs(
        _ints("machine", [plan.machine for plan in plans], None, 0, len(machines) - 1),
        np.array([twin.CODES[plan.revision] for plan in plans], np.int64),
        np.array([twin.CHIPS[plan.irqchip] for plan in plans], np.int64),
        _begins(len(plan.devices) for plan in plans),
        _begins(map(len, devices)),
        _ints("numgrps", [numgrps for numgrps, _ in calls], None, 1, _MAX_GROUPS, np.int64),
        _ints("offsets", [offset for _, offset in calls], None, 0, _UINT_MAX, np.int64),
        _ints("rows", rows, None, -1, len(counts.loads) - 1),
        np.array(
            [one for plan in plans for one in plan.pre_vectors or [0] * len(plan.devices)], np.int64
        ),
        _begins(len(plan.requests) for plan in plans),
        np.array([at for plan in plans for at in plan.requests], np.int64),
    )
    with _compiling():
        twin.place_many(_arrays(machines, twin), _layout(machines, twin), runs, counts)


def _begins(sizes: Iterable[int]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.array([0, *accumulate(sizes)], np.int64)


def _arrays(machines: Machines, twin: Any) -> Any:
    return twin.Machine(
        machines.node,
        machines.core,
        machines.cluster,
        machines.present,
        machines.online,
        machines.node_ids,
        machines.llc,
    )


def _layout(machines: Machines, twin: Any) -> Any:
    return twin.new_layout(machines.node.shape[1], int(machines.node_ids.max()))


def _ints(
    name: str,
    values: Any,
    shape: tuple[int, ...] | None,
    least: int,
    most: int,
    kind: type = np.int32,
) -> NDArray[Any]:
    """Return a copy of an array, of whole numbers in a range and of one type."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise RequestError(f"{name} {brief(values)}: expected an array of numbers") from None
    if array.dtype.kind not in "biu" or (shape is not None and array.shape != shape):
        expected = "" if shape is None else f" of shape {shape}"
        raise RequestError(
            f"{name}: expected an array of whole numbers{expected}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    if array.size and not least <= array.min() <= array.max() <= most:
        raise RequestError(
            f"{name}: expected numbers from {least} to {most}, "
            f"not from {array.min()} to {array.max()}"
        )
    return np.array(array, kind, order="C")


@cache
def _twin() -> Any:
    if not installed():
        raise RequestError("the batch needs Numba: pip install 'groupcpus[batch]'")
    from groupcpus.studies import twin

    return twin


def get_ready() -> None:
    """Compile the batch, or load it from the cache, if it is installed."""
    if installed():
        machines = Machines.of([Topology.uniform(1, 2)])
        place_many(machines, [Plan(0, "cluster", "x86", [[(1, 0)]], {1: 0})], Counts.zeros(1, 2))


@contextmanager
def _compiling() -> Iterator[None]:
    """Say in a terminal that something is being compiled, if it takes long.

    From the cache it does not; and in a notebook or a log it would stay for good, in one run and
    not in the next.
    """
    said = threading.Timer(
        2, print, ["groupcpus: compiling the batch, once; 15 to 30 seconds …"], {"file": sys.stderr}
    )
    said.daemon = True
    if sys.stderr.isatty() and not _COMPILED_HERE:
        said.start()
    try:
        yield
        _COMPILED_HERE.add("group_many")
    finally:
        said.cancel()


_COMPILED_HERE: set[str] = set()
