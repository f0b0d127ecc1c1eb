# SPDX-License-Identifier: GPL-2.0-only
"""A copy of /sys (and of some files of /proc): a directory, a tar archive, a `grep .` dump.

Only names that are known are read.  Archives are not unpacked; links are not followed, but the
*name* of a link such as cpu3/node1 is read, as that is how the kernel says that CPU 3 is of node 1
while it is offline (drivers/base/node.c, register_cpu_under_node()).
"""

import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources.facts import (
    MAX_NAME,
    Facts,
    distinct,
    read_cpu,
    read_cpulist,
    read_distances,
    read_mask,
    read_node,
)
from groupcpus.sources.interrupts import read_interrupts
from groupcpus.sources.irqfiles import read_irq_file, read_queue_map

__all__ = ["Tree", "read_archive", "read_directory", "read_tree"]

# A tar of cpu and node in /sys/devices/system has some 200 members a CPU, padded to a page.
MAX_MEMBERS = 100_000
MAX_UNPACKED = 256_000_000
MAX_FILES = 100_000
MAX_KEPT = 16_000_000
MAX_FILE = 65536

_KEY = re.compile(
    r"(?:^|/)(devices/system/cpu/(?:possible|present|online|isolated|modalias)"
    r"|devices/system/cpu/cpu[0-9]{1,5}/(?:node[0-9]{1,5}|online|regs/identification/midr_el1"
    r"|topology/(?:(?:thread_siblings|core_cpus|cluster_cpus)(?:_list)?|book_id)"
    r"|cache/index[0-9]{1,2}/(?:level|type|shared_cpu_list|shared_cpu_map))"
    r"|devices/system/node/(?:possible|online|node[0-9]{1,5}/(?:cpulist|cpumap|distance))"
    r"|block/[^/]{1,64}/mq/[0-9]{1,5}/cpu_list"
    r"|proc/(?:interrupts|cpuinfo|sys/kernel/osrelease)"
    r"|proc/irq/[0-9]{1,9}/(?:(?:smp|effective)_affinity(?:_list)?|node))$",
    re.ASCII,
)
_NODE_LINK = re.compile(r"/cpu[0-9]{1,5}/node[0-9]{1,5}$", re.ASCII)
# The directories on the way to such files: the walk stays out of the rest of a real /sys and /proc.
_ON_THE_WAY = re.compile(
    r"sys|(?:sys/)?devices(?:/system(?:/node(?:/node[0-9]{1,5})?|/cpu(?:/cpu[0-9]{1,5}"
    r"(?:/topology|/cache(?:/index[0-9]{1,2})?|/regs(?:/identification)?)?)?)?)?"
    r"|(?:sys/)?block(?:/[^/]{1,64}(?:/mq(?:/[0-9]{1,5})?)?)?"
    r"|proc(?:/sys(?:/kernel)?|/irq(?:/[0-9]{1,9})?)?",
    re.ASCII,
)


@dataclass
class Tree:
    """The files of a tree that are known, by their path from ``devices``, ``block`` or ``proc``."""

    where: str
    files: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def add(self, path: str, data: bytes) -> None:
        """Keep a file if its path is known."""
        key = self.key(path)
        if key is None:
            return
        if key in self.files:
            raise FormatError(self.where, f"{brief(path)}: there are two files {key}")
        self._keep(key, data.decode("utf-8", "replace").strip("\0 \t\r\n"))

    def add_line(self, key: str, line: str) -> None:
        """Keep a line of a file, behind those before it."""
        line = line.strip("\0 \t\r\n")
        before = self.files.get(key)
        self._keep(key, line if before in (None, line) else f"{before}\n{line}")

    def _keep(self, key: str, text: str) -> None:
        self.size += len(text) + len(key)
        if len(self.files) >= MAX_FILES or self.size > MAX_KEPT:
            raise FormatError(self.where, f"more than {MAX_FILES} files or {MAX_KEPT} bytes")
        self.files[key] = text

    @staticmethod
    def key(path: str) -> str | None:
        """Give the path from ``devices``, ``block`` or ``proc`` on, or None for other files."""
        found = _KEY.search(path) if len(path) < 1024 else None
        return found[1] if found else None


def read_directory(path: Path, where: str) -> Tree:
    """Read a directory that holds ``sys`` (and ``proc``), or ``devices``, or ``cpu`` and ``node``.

    Raises
    ------
    FormatError
        If there is too much of it, or it cannot be read.
    """
    tree = Tree(where)
    prefix = ""
    if not any((path / name).is_dir() for name in ("sys", "devices", "proc")):
        prefix = "devices/" if (path / "system").is_dir() else "devices/system/"
    try:
        _walk(tree, path, prefix, [MAX_MEMBERS])
    except OSError as error:
        raise FormatError(where, f"cannot be read: {error.strerror}") from None
    return tree


def _walk(tree: Tree, directory: Path, prefix: str, budget: list[int]) -> None:
    with os.scandir(directory) as scan:
        entries = sorted(islice(scan, budget[0] + 1), key=lambda entry: entry.name)
    budget[0] -= len(entries)
    if budget[0] < 0:
        raise FormatError(tree.where, f"more than {MAX_MEMBERS} files")
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if _ON_THE_WAY.fullmatch(path):
                _walk(tree, Path(entry.path), path + "/", budget)
        elif entry.is_symlink():
            if _NODE_LINK.search(path):
                tree.add(path, b"")
        elif Tree.key(path) is not None:
            data = _read_file(entry.path)
            if data is not None:
                tree.add(path, data)


def _read_file(path: str) -> bytes | None:
    """Read a regular file that is no link; None if it may not be read (some are root's)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        limit = MAX_KEPT if path.endswith("/interrupts") else MAX_FILE
        try:
            return file.read(limit)
        except OSError:
            return None


def read_archive(stream: io.BufferedReader, where: str) -> Tree:
    """Read a tar archive member by member, without unpacking it to disk.

    Raises
    ------
    FormatError
        If it is damaged, holds a path that leaves it, or is too big.
    """
    tree = Tree(where)
    try:
        for path, data in _members(stream, where):
            tree.add(path, data)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(where, f"the archive is damaged: {error}") from None
    return tree


# The standard library's tarfile collects extended headers of any size in memory, and so cannot
# be bounded; what is read here of the format (POSIX ustar, with GNU and pax long names) is little.
_BLOCK = 512
_CHUNK = 1 << 16
_REGULAR, _LINKS, _LONG_NAME, _PAX = (b"0", b"\0", b"7"), (b"1", b"2"), b"L", b"x"


def _members(stream: io.BufferedReader, where: str) -> Iterator[tuple[str, bytes]]:
    unpacked = 0
    long_name = None
    for _ in range(MAX_MEMBERS):
        header = _exactly(stream, _BLOCK, where)
        if header.count(0) == _BLOCK:
            # To the end, so that gzip checks its sum.
            while padding := len(stream.read(_CHUNK)):
                unpacked += padding
                _bound(unpacked, where)
            return
        name, size, kind = _header(header, where)
        unpacked += _BLOCK + size
        _bound(unpacked, where)
        padding = -size % _BLOCK
        if kind in (_LONG_NAME, _PAX):
            if size > MAX_FILE:
                raise FormatError(where, f"a member's name has {size} bytes")
            data = _exactly(stream, size, where)
            _skip(stream, padding, where)
            long_name = _pax_path(data) if kind == _PAX else data.rstrip(b"\0")
            continue
        name = long_name if long_name is not None else name
        long_name = None
        if name[:1] == b"/" or (b".." in name and b".." in name.split(b"/")):
            raise FormatError(where, f"{brief(name)}: a member may not leave the archive")
        path = name.decode("utf-8", "replace")
        if kind in _REGULAR and Tree.key(path) is not None:
            limit = MAX_KEPT if path.endswith("/interrupts") else MAX_FILE
            data = _exactly(stream, min(size, limit), where)
            _skip(stream, size - len(data) + padding, where)
            yield path, data
        elif kind in _LINKS:
            _skip(stream, size + padding, where)
            if _NODE_LINK.search(path):
                yield path, b""
        else:
            _skip(stream, size + padding, where)
    raise FormatError(where, f"more than {MAX_MEMBERS} members")


def _bound(unpacked: int, where: str) -> None:
    if unpacked > MAX_UNPACKED:
        raise FormatError(where, f"more than {MAX_UNPACKED} bytes unpacked")


def is_header(block: bytes) -> bool:
    """Tell whether a block is a tar header: its check sum says so."""
    try:
        total = int(block[148:156].rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        return False
    # The sum of all bytes, its own field taken as blanks.  Adler-32 has 1 more than that, modulo
    # 65521, in its lower half, and is many times as fast as sum().
    summed = zlib.adler32(block[:148] + b" " * 8 + block[156:])
    return (total + 1) % 65521 == summed & 0xFFFF


def _header(header: bytes, where: str) -> tuple[bytes, int, bytes]:
    """Take name, size and type out of a tar header."""
    try:
        size = int(header[124:136].rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        size = -1
    if not is_header(header) or size < 0:
        raise FormatError(where, "the archive is damaged: expected the header of a member")
    name = header[:100].rstrip(b"\0")
    if header[257:263] == b"ustar\0" and header[345]:
        name = header[345:500].rstrip(b"\0") + b"/" + name
    return name, size, header[156:157]


def _pax_path(data: bytes) -> bytes | None:
    """Find the path in a pax header, whose records are "length key=value" and a line end."""
    at = 0
    path = None
    while at < len(data):
        head, blank, _ = data[at : at + 10].partition(b" ")
        if not blank or not head.isdigit() or int(head) <= len(head):
            break
        key, _, value = data[at + len(head) + 1 : at + int(head)].partition(b"=")
        if key == b"path":
            path = value.removesuffix(b"\n")
        at += int(head)
    return path


def _exactly(stream: io.BufferedReader, size: int, where: str) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise FormatError(where, "the archive ends too early")
    return data


def _skip(stream: io.BufferedReader, size: int, where: str) -> None:
    while size > 0:
        size -= len(_exactly(stream, min(size, _CHUNK), where))


def read_tree(tree: Tree) -> Facts:
    """Take what the files of a tree say.

    Raises
    ------
    FormatError
        If a file does not say what it should, or two contradict each other.
    """
    files = tree.files
    facts = Facts(tree.where)
    for name in ("possible", "present", "online", "isolated"):
        path = f"devices/system/cpu/{name}"
        if path in files:
            setattr(facts, name, read_cpulist(f"{tree.where}: cpu/{name}", files[path]))
    _read_nodes(tree, facts)
    _read_cpus(tree, facts)
    facts.arch = _architecture(files)
    facts.kernel = files.get("proc/sys/kernel/osrelease", "")[:MAX_NAME] or None
    if "proc/interrupts" in files:
        told = read_interrupts(files["proc/interrupts"], f"{tree.where}: proc/interrupts")
        facts.interrupts = told.interrupts
    for path, text in files.items():
        parts = path.split("/")
        if parts[0] == "block":
            read_queue_map(facts, f"{tree.where}: {path}", parts[1], parts[3], text)
        elif path.startswith("proc/irq/"):
            read_irq_file(facts, f"{tree.where}: {path}", parts[2], parts[3], text)
    return facts


def _read_nodes(tree: Tree, facts: Facts) -> None:
    nodes: dict[int, CpuSet] = {}
    masks: dict[int, CpuSet] = {}
    rows: dict[int, list[int]] = {}
    online: frozenset[int] = frozenset()
    for path, text in tree.files.items():
        if not path.startswith("devices/system/node/"):
            continue
        parts = path.split("/")[3:]
        where = f"{tree.where}: {'/'.join(['node', *parts])}"
        if parts == ["possible"]:
            facts.node_ids = _node_ids(where, text)
        elif parts == ["online"]:
            online = _node_ids(where, text)
        else:
            node = read_node(where, parts[0].removeprefix("node"))
            if parts[1] == "cpulist":
                nodes[node] = read_cpulist(where, text)
            elif parts[1] == "cpumap":
                masks[node] = read_mask(where, text)
            else:
                rows[node] = read_distances(where, text.split())
    # Where both are there and differ (the map leaves out offline CPUs), the list says more.
    nodes = masks | nodes
    if nodes:
        facts.nodes = nodes
    # A row has a column for each node that is online; a partial copy may have lost some.
    candidates = (online, nodes, rows, facts.node_ids)
    for node, row in rows.items():
        existing = next((sorted(ids) for ids in candidates if len(ids) == len(row)), None)
        if existing is None:
            facts.notes.append(
                f"distances are left out: node{node} has {len(row)}, of which nodes is not told"
            )
            facts.distances = {}
            return
        facts.distances[node] = dict(zip(existing, row, strict=True))


def _node_ids(where: str, text: str) -> frozenset[int]:
    ids = read_cpulist(where, text)
    for node in ids:
        read_node(where, str(node))
    return frozenset(ids)


def _read_cpus(tree: Tree, facts: Facts) -> None:
    """Take siblings, clusters and L2s, a CPU at a time."""
    siblings: dict[int, CpuSet] = {}
    clusters: dict[int, CpuSet] = {}
    caches: dict[tuple[int, str], dict[str, str]] = {}
    online: dict[int, bool] = {}
    for path, text in tree.files.items():
        if not path.startswith("devices/system/cpu/cpu"):
            continue
        parts = path.split("/")[3:]
        where = f"{tree.where}: {'/'.join(parts)}"
        cpu = read_cpu(where, parts[0].removeprefix("cpu"))
        name = parts[-1]
        if parts[1].startswith("node"):
            facts.cpu_node[cpu] = read_node(where, parts[1].removeprefix("node"))
        elif name in ("thread_siblings_list", "core_cpus_list"):
            siblings[cpu] = read_cpulist(where, text)
        elif name == "cluster_cpus_list":
            clusters[cpu] = read_cpulist(where, text)
        elif parts[1] == "cache":
            caches.setdefault((cpu, parts[2]), {})[name] = text
        elif name == "online":
            online[cpu] = text == "1"
    _read_masks(tree, siblings, clusters)
    if online and facts.online is None:
        facts.online = CpuSet(cpu for cpu, up in online.items() if up)
        facts.present = facts.present or CpuSet(online)
    # Each CPU is in its own; a CPU that was never brought up has an empty list, or no files.
    told = CpuSet(siblings)
    siblings = {cpu: cpus for cpu, cpus in siblings.items() if cpus}
    if siblings:
        facts.siblings = distinct(f"{tree.where}: thread_siblings_list", siblings)
        facts.untold = (facts.possible or told) - told
    if clusters:
        facts.no_cluster = CpuSet(cpu for cpu, cpus in clusters.items() if not cpus)
        clusters = {cpu: cpus for cpu, cpus in clusters.items() if cpus}
        facts.clusters = distinct(f"{tree.where}: cluster_cpus_list", clusters)
    _read_l2(tree, facts, caches, told)


def _read_masks(tree: Tree, siblings: dict[int, CpuSet], clusters: dict[int, CpuSet]) -> None:
    """Take hexadecimal masks for CPUs whose lists are not there."""
    for path, text in tree.files.items():
        name = path.rpartition("/")[2]
        if name in ("thread_siblings", "core_cpus", "cluster_cpus"):
            where = f"{tree.where}: {path.removeprefix('devices/system/cpu/')}"
            cpu = read_cpu(where, path.split("/")[3].removeprefix("cpu"))
            into = clusters if name == "cluster_cpus" else siblings
            if cpu not in into:
                into[cpu] = read_mask(where, text)


def _read_l2(
    tree: Tree, facts: Facts, caches: dict[tuple[int, str], dict[str, str]], told: CpuSet
) -> None:
    shared: dict[int, CpuSet] = {}
    for (cpu, index), cache in caches.items():
        # The cache directory of a CPU may outlive its topology files when it goes offline;
        # the kernel's own mask is emptied then (arch/x86/kernel/smpboot.c, remove_siblinginfo()).
        if cache.get("level") != "2" or cache.get("type") == "Instruction" or cpu not in told:
            continue
        if "shared_cpu_list" in cache:
            where = f"{tree.where}: cpu{cpu}/cache/{index}/shared_cpu_list"
            shared[cpu] = read_cpulist(where, cache["shared_cpu_list"])
    if shared:
        facts.l2 = distinct(f"{tree.where}: shared_cpu_list of the L2", shared)


def _architecture(files: dict[str, str]) -> str | None:
    """Tell the architecture by what only one of them has."""
    cpuinfo = files.get("proc/cpuinfo", "")
    if "type:x86" in files.get("devices/system/cpu/modalias", "") or "vendor_id\t: " in cpuinfo:
        return "x86_64"
    if "CPU implementer" in cpuinfo:
        return "aarch64"
    names = {path.rpartition("/")[2] for path in files}
    if "midr_el1" in names:
        return "aarch64"
    if "book_id" in names:
        return "s390x"
    # Only powerpc had caches' CPUs as masks alone (arch/powerpc/kernel/cacheinfo.c before 5.9).
    if "shared_cpu_map" in names and "shared_cpu_list" not in names:
        return "ppc64"
    return None
