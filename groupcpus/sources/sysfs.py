# SPDX-License-Identifier: GPL-2.0-only
"""A copy of /sys (and of some files of /proc): a directory, an archive, a `grep .` dump.

Only names that are known are read.  Archives are not unpacked; links are not followed, but the
*name* of a link such as cpu3/node1 is read, as that is how the kernel says that CPU 3 is of node 1
while it is offline (drivers/base/node.c, register_cpu_under_node()).
"""

import os
import re
import stat
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.facts import (
    Facts,
    distinct_sets,
    few,
    read_cpu,
    read_cpulist,
    read_distances,
    read_mask,
    read_node,
)
from groupcpus.sources.interrupts import read_interrupts
from groupcpus.sources.irqfiles import read_irq_file, read_queue_map
from groupcpus.sources.remarks import flags_of

__all__ = ["Tree", "read_directory", "read_tree"]


_OF_CPU = (
    r"node[0-9]{1,5}|online|regs/identification/midr_el1"
    r"|topology/(?:(?:thread_siblings|core_cpus|cluster_cpus)(?:_list)?|book_id)"
    r"|cache/index[0-9]{1,2}/(?:level|type|shared_cpu_list|shared_cpu_map)"
)
_NAMES = (
    rf"(?:devices/system/cpu/)?(?P<cpu>cpu[0-9]{{1,5}}/(?:{_OF_CPU}))"
    r"|(?P<cpus>devices/system/cpu/(?:possible|present|online|isolated|modalias))"
    r"|(?:devices/system/node/)?(?P<node>node[0-9]{1,5}/(?:cpulist|cpumap|distance))"
    r"|(?P<nodes>devices/system/node/(?:possible|online))"
    r"|(?:(?P<disk>[^/\s]{1,64})/)?mq/(?P<queue>[0-9]{1,5})/cpu_list"
    r"|(?P<proc>proc/(?:interrupts|cpuinfo|cmdline|version|sys/kernel/osrelease))"
    r"|(?:proc/irq/)?(?P<irq>[0-9]{1,9})/(?:[^/\s]{1,100}/\.\./)?"
    r"(?P<affinity>(?:smp|effective)_affinity(?:_list)?)"
    r"|proc/irq/(?P<of_irq>[0-9]{1,9})/node"
)
_KEY = re.compile(rf"(?:^|/)(?:{_NAMES})$", re.ASCII)
_KEY_IN_LINE = re.compile(rf"(?:^|(?<=/))(?:{_NAMES})(?=[:=\s]|$)", re.ASCII)
_SEPARATOR = re.compile(r"[:=] ?|\s+")
_NODE_LINK = re.compile(r"(?:^|/)cpu[0-9]{1,5}/node[0-9]{1,5}$", re.ASCII)
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

    LONG = frozenset({"proc/interrupts", "proc/cpuinfo"})
    """Files of more than one line."""

    def add(self, path: str, data: bytes) -> None:
        """Keep a file if its path is known."""
        key = self.key(path)
        if key is None:
            return
        text = data.decode("utf-8", "replace").strip("\0 \t\r\n")
        if self.files.get(key, text) != text:
            raise FormatError(self.where, f"{brief(path)}: there are two files {key}")
        self._keep(key, text)

    def add_link(self, path: str) -> None:
        """Keep the name of a link, if it is one from a CPU to its node."""
        if _NODE_LINK.search(path):
            self.add(path, b"")

    def add_line(self, key: str, line: str) -> None:
        """Keep a line of a file, behind those before it if it has more than one.

        Raises
        ------
        FormatError
            If the file has another value already.
        """
        if key in self.LONG:
            self._keep(key, line, self.files.get(key))
            return
        line = line.strip()
        before = self.files.get(key, line)
        if before != line:
            raise FormatError(
                self.where,
                f"{key} is {brief(line)} here and {brief(before)} before: two states of one "
                "machine are loaded one by one",
            )
        self._keep(key, line)

    def _keep(self, key: str, text: str, before: str | None = None) -> None:
        self.size += len(text) + len(key)
        if len(self.files) >= limits.FILES or self.size > limits.TEXT:
            raise FormatError(self.where, f"more than {limits.FILES} files or {limits.TEXT} bytes")
        self.files[key] = text if before is None else f"{before}\n{text}"

    @staticmethod
    def key(path: str) -> str | None:
        """Return the path from ``devices``, ``block`` or ``proc`` on, or None for other files."""
        found = _KEY.search(path) if len(path) < 1024 and path.isprintable() else None
        return _key_of(found) if found else None

    @staticmethod
    def key_and_value(line: str) -> tuple[str, str, str] | None:
        """Split a line such as ``path:value``; return the key, the value and the path."""
        found = _KEY_IN_LINE.search(line, 0, 1024)
        if found is None or any(map(str.isspace, line[: found.end()])):
            return None
        between = _SEPARATOR.match(line, found.end())
        # The lines of a long file keep their blanks.
        start = between.end() if between else len(line)
        return _key_of(found), line[start:], line[: found.end()]

    @staticmethod
    def limit(key: str) -> int:
        """Return how many bytes of a file are read."""
        return limits.TEXT if key == "proc/interrupts" else limits.FILE


_PREFIXES = {
    "cpu": "devices/system/cpu/",
    "cpus": "",
    "node": "devices/system/node/",
    "nodes": "",
    "proc": "",
}


def _key_of(found: re.Match[str]) -> str:
    for name, prefix in _PREFIXES.items():
        if found[name]:
            return prefix + found[name]
    if found["queue"]:
        disk = found["disk"] if found["disk"] not in (None, ".", "..") else "disk"
        return f"block/{disk}/mq/{found['queue']}/cpu_list"
    if found["irq"]:
        return f"proc/irq/{found['irq']}/{found['affinity']}"
    return f"proc/irq/{found['of_irq']}/node"


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
        _walk(tree, path, prefix, [limits.FILES])
    except OSError as error:
        raise FormatError(where, f"cannot be read: {error.strerror}") from None
    return tree


def _walk(tree: Tree, directory: Path, prefix: str, budget: list[int]) -> None:
    with os.scandir(directory) as scan:
        entries = sorted(islice(scan, budget[0] + 1), key=lambda entry: entry.name)
    budget[0] -= len(entries)
    if budget[0] < 0:
        raise FormatError(tree.where, f"more than {limits.FILES} files")
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if _ON_THE_WAY.fullmatch(path):
                _walk(tree, Path(entry.path), path + "/", budget)
        elif entry.is_symlink():
            tree.add_link(path)
        elif Tree.key(path) is not None:
            data = _read_file(entry.path, Tree.limit(Tree.key(path) or ""))
            if data is not None:
                tree.add(path, data)


def _read_file(path: str, limit: int) -> bytes | None:
    """Read a regular file that is no link; None if it may not be read (some are root's)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        try:
            return file.read(limit)
        except OSError:
            return None


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
    _read_kernel(files, facts)
    if "proc/interrupts" in files:
        told = read_interrupts(files["proc/interrupts"], f"{tree.where}: proc/interrupts")
        facts.interrupts, facts.columns = told.interrupts, told.columns
        facts.column_count = told.column_count
        if facts.online is None:
            facts.online = told.online
    for path, text in files.items():
        parts = path.split("/")
        if parts[0] == "block":
            read_queue_map(facts, f"{tree.where}: {path}", parts[1], parts[3], text)
        elif path.startswith("proc/irq/"):
            read_irq_file(facts, f"{tree.where}: {path}", parts[2], parts[3], text)
    return facts


def _read_kernel(files: dict[str, str], facts: Facts) -> None:
    release = files.get("proc/sys/kernel/osrelease", "")
    if not release and (found := re.match(r"Linux version (\S+)", files.get("proc/version", ""))):
        release = found[1]
    facts.kernel = release[: limits.NAME] if release and release.isprintable() else None
    facts.cmdline = flags_of(files.get("proc/cmdline", ""))


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
    _read_cpu_files(tree, facts, siblings, clusters, caches, online)
    _read_masks(tree, siblings, clusters)
    if online and facts.online is None:
        _read_online(online, {*siblings, *(cpu for cpu, _ in caches)}, facts)
    # Each CPU is in its own; a CPU that was never brought up has an empty list, or no files.
    told = CpuSet(siblings)
    siblings = {cpu: cpus for cpu, cpus in siblings.items() if cpus}
    if siblings:
        facts.siblings = distinct_sets(f"{tree.where}: thread_siblings_list", siblings)
        facts.untold = (facts.possible or told) - told
    if clusters:
        facts.no_cluster = CpuSet(cpu for cpu, cpus in clusters.items() if not cpus)
        clusters = {cpu: cpus for cpu, cpus in clusters.items() if cpus}
        facts.clusters = distinct_sets(f"{tree.where}: cluster_cpus_list", clusters)
    if facts.online is None and facts.present is None and facts.possible is None and told:
        # CPUs that are offline lose these files.
        facts.online = told
    _read_l2(tree, facts, caches, told)


def _read_cpu_files(
    tree: Tree,
    facts: Facts,
    siblings: dict[int, CpuSet],
    clusters: dict[int, CpuSet],
    caches: dict[tuple[int, str], dict[str, str]],
    online: dict[int, bool],
) -> None:
    """Sort the files of the CPUs by what they say."""
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


def _read_online(online: dict[int, bool], others: set[int], facts: Facts) -> None:
    """Take the CPUs' own files; one that cannot go offline, as CPU 0 of x86, has none."""
    without = sorted({0, *others} - set(online))
    facts.online = CpuSet([*without, *(cpu for cpu, up in online.items() if up)])
    facts.present = facts.present or CpuSet([*without, *online])
    if without:
        named = f"{few(CpuSet(without))} {'has' if len(without) == 1 else 'have'}"
        facts.notes.append(f"{facts.source}: CPU {named} no file online: taken as online")


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
        for name, read in (("shared_cpu_list", read_cpulist), ("shared_cpu_map", read_mask)):
            if name in cache and cpu not in shared:
                shared[cpu] = read(f"{tree.where}: cpu{cpu}/cache/{index}/{name}", cache[name])
    if shared:
        facts.l2 = distinct_sets(f"{tree.where}: shared_cpu_list of the L2", shared)
    _read_last_level(tree, facts, caches, told)


def _read_last_level(
    tree: Tree, facts: Facts, caches: dict[tuple[int, str], dict[str, str]], told: CpuSet
) -> None:
    """Take the CPUs that share the last-level caches; nothing is decided by them."""
    levels = {
        cache.get("level", "")
        for cache in caches.values()
        if cache.keys() & {"shared_cpu_list", "shared_cpu_map"} and cache.get("level", "0") in "234"
    }
    shared: dict[int, CpuSet] = {}
    for (cpu, _), cache in caches.items():
        if cache.get("level") == max(levels, default="") and cpu in told:
            if "shared_cpu_list" in cache:
                shared[cpu] = read_cpulist(tree.where, cache["shared_cpu_list"])
            elif "shared_cpu_map" in cache:
                shared[cpu] = read_mask(tree.where, cache["shared_cpu_map"])
    try:
        facts.llcs = distinct_sets(f"{tree.where}: last-level caches", shared) or None
    except FormatError as error:
        facts.notes.append(f"{error}; the last-level caches are left out")


_CPU_TYPES = {"x86": "x86_64", "aarch64": "aarch64", "loongarch": "loongarch64", "ppc64": "ppc64"}
_CPUINFO = (
    ("vendor_id\t: ", "x86_64"),
    ("CPU implementer", "aarch64"),
    ("mmu\t\t: sv", "riscv64"),
    ("isa\t\t: rv", "riscv64"),
    ("Loongson", "loongarch64"),
    ("POWER", "ppc64le"),
)


def _architecture(files: dict[str, str]) -> str | None:
    """Return the architecture, by what only one of them has."""
    found = re.search("type:([a-z0-9]{1,16})", files.get("devices/system/cpu/modalias", ""))
    if found and found[1] in _CPU_TYPES:
        return _CPU_TYPES[found[1]]
    cpuinfo = files.get("proc/cpuinfo", "")
    for word, arch in _CPUINFO:
        if word in cpuinfo:
            return arch
    names = {path.rpartition("/")[2] for path in files}
    if "midr_el1" in names:
        return "aarch64"
    if "book_id" in names:
        return "s390x"
    # Of whole copies only powerpc's had caches' CPUs as masks alone (arch/powerpc/kernel/
    # cacheinfo.c before 5.9).
    if "shared_cpu_map" in names and not {"shared_cpu_list", "modalias"} & names:
        return "ppc64" if "possible" in names else None
    return None
