# SPDX-License-Identifier: GPL-2.0-only
"""A revision that is the reader's own C: explorers, sweeps and lives take it like any other."""

import functools
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groupcpus.engine.cpuset import CpuSet
from groupcpus.engine.revisions import Revision
from groupcpus.engine.steps import Assigned, Stage, Step, Unfilled
from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError, brief, counted
from groupcpus.studies.review.building import Build, build
from groupcpus.studies.review.reading import Sources, read_patch, read_sources
from groupcpus.studies.review.running import Answer, Child, CrashError, Request

__all__ = ["CompiledRevision", "from_sources", "revision_from_c"]

# Most machines fit, and small masks are cleared faster.
_FEW_CPUS = 512
_MANY_CPUS = 8192

# One child a process and build, and threads take turns; a forked process has its own.
_children: dict[tuple[int, Build], Child] = {}
_locks: dict[int, threading.Lock] = {}


def _no_build() -> Build:
    raise RequestError("a CompiledRevision is made with Revision.from_c()")


@dataclass(frozen=True)
class CompiledRevision(Revision):
    """A revision whose calls are answered by compiled C; make one with `Revision.from_c`."""

    build: Build = field(default_factory=_no_build)

    def ask(self, topology: Topology, requests: Sequence[Request]) -> list[Answer]:
        """Return the answers of the compiled function to some requests, crashes among them."""
        count = topology.possible.mask.bit_length()
        made = self.build
        if count > made.nr_cpus:
            made = build(made.sources, _MANY_CPUS, made.sanitized)
        key = os.getpid(), made
        with _locks.setdefault(key[0], threading.Lock()):
            if key not in _children:
                _children[key] = Child(made)
            return _children[key].ask(topology, requests)

    def advance(self, numgrps: int) -> int:
        """Return how far the C moves its counter in a call, on a machine of four CPUs."""
        return self._answer(_FOUR, Request(numgrps)).advance

    def replaced(self, topology: Topology, numgrps: int, counter: int) -> Iterator[Step] | None:
        """Yield a step for the CPUs of each node in each mask that the C returns.

        Nothing is known of its decisions.

        Raises
        ------
        CrashError
            If it does not return.
        """
        return self._steps(topology, numgrps, counter)

    def _answer(self, topology: Topology, request: Request) -> Answer:
        (answer,) = self.ask(topology, [request])
        if answer.crash:
            raise CrashError(
                f"{self.name}: {counted(request.numgrps, 'group')} at counter "
                f"{request.counter}: {answer.crash}"
            )
        return answer

    def _steps(self, topology: Topology, numgrps: int, counter: int) -> Iterator[Step]:
        answer = self._answer(topology, Request(numgrps, counter & 0xFFFFFFFF))
        if answer.masks is None:
            raise CrashError(
                f"{self.name}: {counted(numgrps, 'group')}: the function returned NULL"
            )
        foreign = functools.reduce(int.__or__, answer.masks, 0) & ~topology.possible.mask
        if foreign:
            cpus = CpuSet.from_mask(foreign)
            raise CrashError(
                f"{self.name}: {counted(numgrps, 'group')}: CPUs {cpus} are not possible ones"
            )
        nodes = {node: cpus for node, cpus in topology.nodes.items() if cpus}
        offset = counter if answer.advance else 0
        yield Stage("compiled C", topology.possible, tuple(nodes), numgrps, 0, offset)
        for group, mask in enumerate(map(CpuSet.from_mask, answer.masks)):
            for node, cpus in nodes.items():
                if mask & cpus:
                    yield Assigned(group, node, None, tuple(mask & cpus))
        if answer.nummasks < numgrps or answer.warnings:
            yield Unfilled(answer.nummasks, numgrps, warns=bool(answer.warnings))


_FOUR = Topology.uniform(nodes=1, cpus_per_node=4, threads=1)


def revision_from_c(
    tree: str | Path,
    *patches: str | Path,
    commit: str | None = None,
    name: str | None = None,
    sanitized: bool = False,
) -> CompiledRevision:
    """Compile lib/group_cpus.c and lib/sort.c of a kernel tree, and make a revision of them.

    It is `Revision.from_c`.

    Parameters
    ----------
    tree : str or Path
        A folder with lib/group_cpus.c and lib/sort.c, such as a kernel tree; nothing is changed in
        it.
    *patches : str or Path
        Files with diffs to apply to a copy: what ``git diff`` writes, or mails.
    commit : str, optional
        Read the files at this commit of the tree.
    name : str, optional
        The revision's name.
    sanitized : bool
        Whether to run with the address and undefined-behaviour sanitizers, at half the speed.

    Raises
    ------
    PatchError, BuildError
        If a file is missing, a patch has no place, or the sources do not compile.
    """
    if not isinstance(tree, str | Path):
        raise RequestError(f"tree {brief(tree)}: expected a folder")
    sources = read_sources(Path(tree), commit)
    for patch in patches:
        sources = sources.patched(read_patch(Path(patch)), Path(patch).name)
    return from_sources(sources, name=name, sanitized=sanitized)


def from_sources(
    sources: Sources, *, name: str | None = None, sanitized: bool = False
) -> CompiledRevision:
    """Compile sources and make a revision of them."""
    return CompiledRevision(
        name or sources.name,
        sources.name,
        "compiled from C",
        cluster_aware=sources.nummasks,
        build=build(sources, _FEW_CPUS, sanitized),
    )
