# SPDX-License-Identifier: GPL-2.0-only
"""Load machines from what people have: copies of /sys, lscpu, hwloc, numactl, /proc, captures.

One module reads one format into `facts.Facts`; `combine` makes a machine of them.  Sizes are
bounded everywhere, and a source is loaded as a whole or not at all.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path

from groupcpus.errors import FormatError, brief
from groupcpus.sources import affinity, captured, hwloc, interrupts, lscpu, numactl, sysfs
from groupcpus.sources.combine import Loaded, LoadedMachine, combine
from groupcpus.sources.facts import MAX_TEXT, Facts, Interrupt

__all__ = ["Interrupt", "Loaded", "LoadedMachine", "load", "load_topology"]

# Python needs up to 27 bytes for a character of JSON; a capture of 9,000 interrupts fits.
MAX_JSON = 2_500_000

# Whose word counts when several sources tell of the same.
_TRUST = ("capture", "sysfs", "hwloc", "dump", "lscpu", "numactl", "interrupts")

_TEXTS: tuple[tuple[str, Callable[[str], bool], Callable[[str, str], Facts]], ...] = (
    ("interrupts", interrupts.looks_like_interrupts, interrupts.read_interrupts),
    ("numactl", numactl.looks_like_numactl, numactl.read_numactl),
    ("lscpu", lscpu.looks_like_values, lscpu.read_values),
    ("lscpu", lscpu.looks_like_table, lscpu.read_table),
    ("dump", affinity.looks_like_dump, affinity.read_dump),
    ("lscpu", lscpu.looks_like_summary, lscpu.read_summary),
)
_EXPECTED = (
    "expected a sysfs tree or a .tar.gz of one, a capture, lscpu (-p, -e, --json or plain), "
    "hwloc's XML, numactl -H, /proc/interrupts, or a dump of affinities"
)


def load(*sources: str | Path, arch: str | None = None) -> Loaded:
    r"""Load what sources say; the format of each is recognised.

    Parameters
    ----------
    *sources : str or Path
        Files, directories, or texts (a str with a line end in it).  Several may tell of parts of
        the same machine, e.g. ``lscpu -p`` and ``numactl -H``.
    arch : str, optional
        The architecture (``uname -m``), where no source tells it.

    Raises
    ------
    FormatError
        If a source is not of a known form, is damaged or too big, or two contradict each other.
    TopologyError
        If no machine can be like what the sources say together.

    Examples
    --------
    >>> loaded = load("/proc/irq/24/smp_affinity_list:0-3\n")
    >>> loaded.topology is None, loaded.interrupts[0].affinity
    (True, CpuSet('0-3'))
    """
    if not sources:
        raise FormatError("sources", _EXPECTED)
    read = [_read(source) for source in sources]
    # sorted() is stable: of two sources of the same kind the first one given counts.
    facts = [told for _, told in sorted(read, key=lambda pair: _TRUST.index(pair[0]))]
    if arch is not None:
        facts.insert(0, Facts("the caller", arch=arch))
    return combine(facts)


def load_topology(*sources: str | Path, arch: str | None = None) -> LoadedMachine:
    r"""Load a machine; as `load`, but an error is raised if no source names its CPUs.

    Examples
    --------
    >>> cpus = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,,,0,0,0,0\n1,1,0,,,1,1,1,0\n"
    >>> nodes = "available: 2 nodes (0-1)\nnode 0 cpus: 0\nnode 1 cpus: 1\n"
    >>> loaded = load_topology(cpus, nodes)
    >>> loaded.topology, loaded.cluster_source
    (<Topology: 2 CPUs, 2 nodes, 2 clusters, 2 cores>, 'l2')
    >>> loaded.origins["siblings"], loaded.origins["nodes"]
    ('lscpu (text)', 'numactl (text)')
    """
    loaded = load(*sources, arch=arch)
    if loaded.topology is None:
        raise FormatError(
            "sources", "none names the CPUs of the machine: add lscpu -p, for example"
        )
    return LoadedMachine(**vars(loaded))


def _read(source: str | Path) -> tuple[str, Facts]:
    """Read one source; give its kind and what it says."""
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith(("{", "<"))):
        if len(source) > MAX_TEXT:
            raise FormatError("text", f"{len(source)} characters: at most {MAX_TEXT} are read")
        return _read_text(source, "text")
    path = Path(source)
    name = path.name or str(path)
    try:
        if path.is_dir():
            return _tree(sysfs.read_directory(path, _where("sysfs", name)))
        if not path.is_file():
            raise FormatError(brief(str(source)), "no such file; " + _EXPECTED)
        with path.open("rb") as file:
            return _read_file(file, name)
    except OSError as error:
        raise FormatError(brief(str(source)), f"cannot be read: {error.strerror}") from None


def _read_file(file: io.BufferedReader, name: str) -> tuple[str, Facts]:
    packed = file.peek(2)[:2] == b"\x1f\x8b"
    try:
        stream: io.BufferedReader = file
        if packed:
            stream = io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 16)
        head = stream.read(512)
        stream.seek(0)
        if _is_tar(head):
            return _tree(sysfs.read_archive(stream, _where("sysfs", name)))
        data = stream.read(MAX_TEXT + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(name, f"cannot be read: {error}") from None
    if len(data) > MAX_TEXT:
        raise FormatError(name, f"more than {MAX_TEXT} bytes of text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return _read_text(text, name)


def _is_tar(head: bytes) -> bool:
    return len(head) == 512 and (head[257:262] == b"ustar" or sysfs.is_header(head))


def _tree(tree: sysfs.Tree) -> tuple[str, Facts]:
    if not tree.files:
        raise FormatError(tree.where, "no file of /sys/devices/system/cpu, /sys/block or /proc/irq")
    return "sysfs", sysfs.read_tree(tree)


def _where(kind: str, name: str) -> str:
    return f"{kind} ({name[:100]})"


def _read_text(text: str, name: str) -> tuple[str, Facts]:
    text = text.removeprefix("\ufeff")
    start = text[:4096].lstrip()[:1]
    if start == "<":
        return "hwloc", hwloc.read_hwloc(text, _where("hwloc", name))
    if start == "{":
        return _read_json(text, name)
    for kind, looks_like, read in _TEXTS:
        if looks_like(text):
            return kind, read(text, _where(kind, name))
    raise FormatError(name, _EXPECTED)


def _read_json(text: str, name: str) -> tuple[str, Facts]:
    if len(text) > MAX_JSON:
        raise FormatError(name, f"{len(text)} characters of JSON: at most {MAX_JSON} are read")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(name, f"no JSON: {error}") from None
    if "format" in document:
        return "capture", captured.read_capture(document, _where("capture", name))
    if "cpus" in document or "lscpu" in document:
        return "lscpu", lscpu.read_json(document, _where("lscpu", name))
    raise FormatError(name, "JSON that is neither a capture nor of lscpu")
