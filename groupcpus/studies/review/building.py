# SPDX-License-Identifier: GPL-2.0-only
"""Compile a tree's files against the stand-in, and say what they lack."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from groupcpus.errors import GroupCpusError, brief
from groupcpus.studies.review.reading import Sources

__all__ = ["CFLAGS", "Build", "BuildError", "build", "compiler", "stand_in"]

# The kernel's dialect, and what it says of overflow and aliasing.
CFLAGS = (
    "-std=gnu11",
    "-O1",
    "-g",
    "-w",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
)
SANITIZERS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)
_SECONDS = 60
# A patch may make the compiler write or take without end: 4 GiB of memory, 256 MiB a file.
_LIMITS = ("/bin/sh", "-c", 'ulimit -v 4194304; ulimit -f 524288; exec "$@"', "sh")
_INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([\w./-]+)[>\"]", re.MULTILINE)
# A counter of a plain type, of the file's own; an atomic_t needs no name (see stand_in.h).
_PLAIN = re.compile(
    r"^static\s+(?:volatile\s+)?(?:unsigned(?:\s+int)?|u32|int)\s+(\w+)\s*(?:=\s*\w+\s*)?;",
    re.MULTILINE,
)
_LACKS = re.compile(
    r"(?:implicit declaration of function|call to undeclared function|unknown type name|"
    r"undefined reference to|use of undeclared identifier) [`'](\w+)'|"
    r"[`'](\w+)' undeclared|undefined symbol: (\w+)"
)
_ERROR = re.compile(r"^(?:.*?/)??(lib/[\w.]+|[\w.]+\.[ch]):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$")


class BuildError(GroupCpusError):
    """Sources that do not compile, or need what the stand-in has not.

    Attributes
    ----------
    symbols : tuple of str
        What they need and neither they nor the stand-in have.
    """

    def __init__(self, text: str, symbols: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.symbols = symbols


@dataclass(frozen=True)
class Build:
    """How sources are compiled: for how many CPUs, and whether sanitized."""

    sources: Sources
    nr_cpus: int
    sanitized: bool

    def path(self) -> Path:
        """Return the program, which is made once a process."""
        return _program(self)


def stand_in(name: str) -> str:
    """Return a file of the stand-in."""
    return files("groupcpus.studies.review").joinpath("c", name).read_text(encoding="utf-8")


@cache
def compiler() -> str:
    """Return the system's C compiler: ``$CC``, cc, gcc or clang.

    Raises
    ------
    BuildError
        If there is none.
    """
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise BuildError("review needs a C compiler: found no cc, gcc or clang on the PATH")


@cache
def can_sanitize() -> bool:
    """Return whether the compiler has the address and undefined-behaviour sanitizers."""
    with tempfile.TemporaryDirectory(prefix="groupcpus-") as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
        program = Path(folder, "empty")
        made = _run([compiler(), *SANITIZERS, str(source), "-o", str(program)])
        # The sanitizers keep terabytes of addresses for themselves.
        return made.returncode == 0 and _run([str(program)], limits=()).returncode == 0


def build(sources: Sources, nr_cpus: int = 8192, sanitized: bool = True) -> Build:
    """Compile sources; with sanitizers where the compiler has them.

    Raises
    ------
    BuildError
        If they do not compile; with the names of what they lack.
    """
    made = Build(sources, nr_cpus, sanitized and can_sanitize())
    made.path()
    return made


_FOLDERS: dict[int, tempfile.TemporaryDirectory[str]] = {}
_MADE: dict[tuple[int, Build], Path] = {}


def _program(build: Build) -> Path:
    key = os.getpid(), build
    if key not in _MADE:
        if os.getpid() not in _FOLDERS:
            _FOLDERS[os.getpid()] = tempfile.TemporaryDirectory(prefix="groupcpus-")
        folder = Path(tempfile.mkdtemp(dir=_FOLDERS[os.getpid()].name))
        _compile(build, folder)
        _MADE[key] = folder / "child"
    return _MADE[key]


def _compile(build: Build, folder: Path) -> None:
    sources = build.sources
    texts = {"lib/group_cpus.c": sources.group_cpus, "lib/sort.c": sources.sort}
    for header in {name for text in texts.values() for name in _INCLUDE.findall(text)}:
        path = folder / "include" / header
        # What the compiler would read of the reader's own files, it would quote in its errors.
        if ".." in header or header.startswith("/"):
            raise BuildError(f"{sources.name}: includes {brief(header)}, which is no kernel header")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#include "stand_in.h"\n', encoding="utf-8")
    plain = _PLAIN.findall(sources.group_cpus)
    sets = "".join(f"\t{name} = value;\n" for name in plain)
    reads = plain[0] if plain else "0"
    texts["counters.c"] = (
        '#include "lib/group_cpus.c"\n'
        "void stand_in_set_plain(unsigned int value);\n"
        "unsigned int stand_in_read_plain(void);\n"
        f"void stand_in_set_plain(unsigned int value)\n{{\n{sets}}}\n"
        f"unsigned int stand_in_read_plain(void) {{ return (unsigned int){reads}; }}\n"
    )
    # The file calls a member of that name, and asks for no header that has the macro.
    texts["sorting.c"] = '#undef swap\n#include "lib/sort.c"\n'
    texts |= {name: stand_in(name) for name in ("stand_in.h", "child.c")}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    options = [f"-DNR_CPUS={build.nr_cpus}", *CFLAGS, *(SANITIZERS if build.sanitized else ())]
    if sources.nummasks:
        options.append("-DSTAND_IN_NUMMASKS")
    units = ["counters.c", "sorting.c", "child.c"]
    command = [compiler(), *options, "-I.", "-Iinclude", "-include", "stand_in.h", *units]
    made = _run([*command, "-o", "child"], folder)
    if made.returncode:
        raise _failed(sources.name, made.stderr.decode("utf-8", "replace"))


def _failed(name: str, said: str) -> BuildError:
    lacking = dict.fromkeys(word for found in _LACKS.findall(said) for word in found if word)
    if lacking:
        names = ", ".join(lacking)
        return BuildError(
            f"{name}: needs {names}, which neither the file nor the stand-in for the kernel's "
            "headers has",
            tuple(lacking),
        )
    for line in said.splitlines():
        if error := _ERROR.match(line):
            return BuildError(f"{name}: {error[1]}:{error[2]}: does not compile: {error[3]}")
    return BuildError(f"{name}: does not compile: {brief(said.strip())}")


def _run(
    command: list[str], folder: Path | None = None, limits: tuple[str, ...] = _LIMITS
) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
    with subprocess.Popen(
        [*limits, *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            outputs = process.communicate(timeout=_SECONDS)
        except BaseException as error:
            # The compiler's own children as well: it would leave them.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise BuildError(f"{command[0]}: still compiling after {_SECONDS} s") from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, *outputs)
