# SPDX-License-Identifier: GPL-2.0-only
"""Ask compiled sources in a child process, so that what goes wrong in them is an answer."""

import contextlib
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, NamedTuple

from groupcpus.engine.topology import Topology
from groupcpus.errors import GroupCpusError
from groupcpus.studies.review.building import Build

__all__ = ["Answer", "Child", "CrashError", "Request"]

SECONDS = 2
"""Of CPU time that a call may take; on 8,192 CPUs it takes less than a tenth."""

# A child that sleeps: it has no business to.
_WALL_SECONDS = 60

# Bytes of a line: 8,192 masks of as many CPUs have 17 MB.
_LONGEST = 1 << 26


class CrashError(GroupCpusError):
    """A call that did not come back: it looped, or the sanitizers ended it."""


class Request(NamedTuple):
    """A call of the function."""

    numgrps: int
    counter: int = 0
    fail: int = 0
    """Which allocation fails, from 1 on; 0: none."""


@dataclass(frozen=True)
class Answer:
    """What a call came to.

    Attributes
    ----------
    masks : tuple of int, or None
        The masks as integers; None: the function returned NULL.
    nummasks : int
        How many it reports; before Linux 6.17 as many as were asked for.
    allocations, leaks : int
        How often memory was asked for, and how much of it was not freed (below 0: freed twice).
    advance : int
        How far the call counter went.
    warnings : tuple of str
        What the kernel would have warned of, with file and line.
    crash : str
        Why the call did not come back; the other fields say nothing then.
    """

    masks: tuple[int, ...] | None = None
    nummasks: int = 0
    allocations: int = 0
    leaks: int = 0
    advance: int = 0
    warnings: tuple[str, ...] = ()
    crash: str = ""


class Child:
    """A child process that answers requests; a crash ends it, and the next request starts another.

    Use it as a context manager, or `close` it.
    """

    def __init__(self, build: Build, seconds: int = SECONDS) -> None:
        self._build = build
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, self._stderr):
                if pipe:
                    # What was written and not taken cannot be flushed.
                    with contextlib.suppress(OSError):
                        pipe.close()

    def ask(self, topology: Topology, requests: Sequence[Request]) -> list[Answer]:
        """Return the answers to some requests on a machine, in order."""
        answers: list[Answer] = []
        while len(answers) < len(requests):
            left = requests[len(answers) :]
            answers += self._ask(topology, left)
            if len(answers) < len(requests) and not answers[-1:]:
                raise CrashError("the child process does not start")
        return answers

    def _ask(self, topology: Topology, requests: Sequence[Request]) -> list[Answer]:
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [
            machine_text(topology),
            *(f"call {r.numgrps} {r.counter} {r.fail}\n" for r in requests),
            "flush\n",
        ]
        writer = threading.Thread(target=_write, args=(process.stdin, "".join(lines).encode()))
        watch = threading.Timer(_WALL_SECONDS + self._seconds, process.kill)
        watch.daemon = writer.daemon = True
        writer.start()
        watch.start()
        try:
            answers = list(_answers(process.stdout, len(requests)))
            if len(answers) < len(requests):
                answers.append(Answer(crash=self._crash()))
            writer.join()
        finally:
            watch.cancel()
        return answers

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
            self._process = subprocess.Popen(
                [self._build.path(), str(self._seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd=self._build.path().parent,
                env={
                    "ASAN_OPTIONS": "detect_leaks=0:hard_rss_limit_mb=3000:exitcode=6",
                    "UBSAN_OPTIONS": "print_stacktrace=0",
                },
            )
        return self._process

    def _crash(self) -> str:
        process, stderr = self._process, self._stderr
        assert process is not None
        assert stderr is not None
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = -9
        stderr.seek(0)
        said = stderr.read(1 << 20).decode("utf-8", "replace")
        self.close()
        return crash_text(said, code, self._seconds)


_SUMMARY = re.compile(r"SUMMARY: \w+: ([\w-]+) (?:\S*/)?(lib/\S+|\S+) in (\w+)")
_UNDEFINED = re.compile(r"(?:\S*/)?(lib/[\w.]+:\d+)(?::\d+)?: runtime error: (.*)")
_FRAME = re.compile(r"#\d+ \S+ in (\w+) (?:\S*/)?(lib/[\w.]+:\d+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)


def crash_text(said: str, code: int, seconds: int) -> str:
    """Return a sentence on how a child ended."""
    if code == 4:
        return f"it loops: a call was still running after {seconds} s of CPU time"
    if undefined := _UNDEFINED.search(said):
        return f"undefined behaviour at {undefined[1]}: {undefined[2]}"
    if summary := _SUMMARY.search(said):
        frame = _FRAME.search(said)
        function, place = (frame[1], frame[2]) if frame else (summary[3], summary[2])
        access = _ACCESS.search(said)
        what = f", a {access[1].lower()} of {access[2]} bytes" if access else ""
        return f"{summary[1]} in {function}(), {place}{what}"
    if own := re.search(r"^group_cpus_evenly: (.*)$", said, re.MULTILINE):
        return own[1]
    if code == -signal.SIGXFSZ:
        return "it writes without end"
    if code < 0:
        return f"the process was ended by signal {-code}"
    return f"the process ended with status {code}"


def machine_text(topology: Topology) -> str:
    """Return a machine as the child reads it."""
    count = topology.possible.mask.bit_length()
    core, cluster = list(range(count)), list(range(count))
    for labels, sets in ((core, topology.siblings), (cluster, topology.clusters)):
        for cpus in sets:
            known = [cpu for cpu in cpus if cpu < count]
            for cpu in known:
                labels[cpu] = known[0]
    for cpu in topology.no_cluster:
        if cpu < count:
            cluster[cpu] = -1
    rows = [
        f"{cpu in topology.possible:d} {cpu in topology.present:d} {cpu in topology.online:d} "
        f"{topology.node_ids.get(cpu, 0)} {core[cpu]} {cluster[cpu]}\n"
        for cpu in range(count)
    ]
    return f"machine {count} {max(topology.nodes) + 1}\n{''.join(rows)}"


def _write(pipe: IO[bytes], text: bytes) -> None:
    # A child that crashed takes nothing more.
    with contextlib.suppress(OSError, ValueError):
        pipe.write(text)
        pipe.flush()


def _answers(pipe: IO[bytes], count: int) -> Iterator[Answer]:
    for _ in range(count):
        head = pipe.readline(_LONGEST).split()
        if not head or head[0] != b"answer" or len(head) != 7:
            return
        try:
            returned, nummasks, allocations, leaks, advance, warned = map(int, head[1:])
        except ValueError:
            return
        words = pipe.readline(_LONGEST)
        lines = [pipe.readline(_LONGEST) for _ in range(warned)]
        warnings = [line.decode("utf-8", "replace").rstrip("\n") for line in lines]
        if not words.endswith(b"\n"):
            return
        masks = tuple(0 if word == b"-" else int(word, 16) for word in words.split())
        yield Answer(
            masks if returned else None,
            nummasks,
            allocations,
            leaks,
            advance,
            tuple(warnings),
        )
