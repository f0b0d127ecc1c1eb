# SPDX-License-Identifier: GPL-2.0-only
"""The one door: whatever can be loaded comes in here, its form is recognised, its size bounded."""

import io
import re
import tarfile
from pathlib import Path

from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, RequestError, brief, meant, printable
from groupcpus.machines.machine import (
    Machine,
    data_dir,
    machine_from_dict,
    machine_names,
    parse_toml,
    read_machine,
)
from groupcpus.sources import captured, limits, sysfs
from groupcpus.sources.archives import is_tar, is_zip, read_tar, read_zip, unpacked
from groupcpus.sources.assembled import machine_of
from groupcpus.sources.capture import capture
from groupcpus.sources.cleaned import decode
from groupcpus.sources.combine import Loaded, LoadedMachine, combine
from groupcpus.sources.facts import Facts
from groupcpus.sources.found import valid_name
from groupcpus.sources.hwloc import read_hwloc
from groupcpus.sources.pasted import read_json, read_pasted
from groupcpus.sources.synthetic import parse_synthetic

__all__ = ["HERE", "load", "load_machine", "load_topology"]

HERE = ("this machine", "here")
"""What stands for the machine that this runs on, which nothing else makes anybody read."""

_MACHINE_FILE = re.compile(r"^ *(?:\[topology\]|topology(?:\.\w+)? *=)", re.MULTILINE | re.ASCII)

# Whose word counts when several sources tell of the same.
_TRUST = (
    "machine",
    "capture",
    "sysfs",
    "synthetic",
    "hwloc",
    "dump",
    "lscpu",
    "numactl",
    "interrupts",
    "remarks",
)

EXPECTED = (
    "expected a sysfs tree or a .tar.gz of one, a capture, lscpu (-p, -e, --json or plain), "
    "hwloc's XML, numactl -H, /proc/interrupts, a dump of affinities, a machine file, a recording, "
    "or a line such as 'node:2 core:24 pu:2'"
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
    RequestError
        If a name is none that is known, or a whole machine is not alone.
    TopologyError
        If no machine can be like what the sources say together.

    Examples
    --------
    >>> loaded = load("/proc/irq/24/smp_affinity_list:0-3\n")
    >>> loaded.topology is None, loaded.interrupts[0].affinity
    (True, CpuSet('0-3'))
    """
    if not sources:
        raise FormatError("sources", EXPECTED)
    read = [part for source in sources for part in _read(source)]
    if len(sources) > 1 and (whole := [facts.source for _, facts in read if facts.machine]):
        raise RequestError(f"{whole[0]}: a whole machine, expected no other source beside it")
    # sorted() is stable: of two sources of the same kind the first one given counts.
    facts = [told for _, told in sorted(read, key=lambda pair: _TRUST.index(pair[0]))]
    if not isinstance(arch, str | None):
        raise RequestError(f"arch {brief(arch)}: expected a text such as x86_64")
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


def load_machine(
    *sources: str | Path,
    devices: int | None = None,
    queues: int | None = None,
    irqchip: str | None = None,
    arch: str | None = None,
) -> Machine:
    """Load a machine from anything that tells one.

    Parameters
    ----------
    *sources : str or Path
        The name of a machine or recording that ships with the project, "this machine" for the one
        that this runs on, a line such as ``node:2 core:24 pu:2``, or what `load` takes.
    devices, queues : int, optional
        How many of the main devices, with how many I/O queues each; as the source tells when left
        out, else one NVMe drive with a queue for each CPU.
    irqchip : str, optional
        A name in `IRQCHIPS`; the machine's own when left out.
    arch : str, optional
        The architecture (``uname -m``), where no source tells it.

    Returns
    -------
    Machine
        What the source cannot tell is said in its `notes`.

    Raises
    ------
    GroupCpusError
        If the source is of no known form, tells no CPUs, or a number is none that can be.

    Examples
    --------
    >>> load_machine("L96as_v4").topology
    <Topology: 96 CPUs, 2 nodes, 48 clusters, 48 cores>
    >>> machine = load_machine("node:2 core:24 pu:2", devices=6, queues=62)
    >>> len(machine.devices), machine.devices[5].io_queues
    (6, 62)
    """
    loaded = load(*sources, arch=arch)
    name = next((Path(source).stem for source in sources if _is_name(source)), "loaded")
    return machine_of(
        loaded, name=valid_name(name), devices=devices, queues=queues, irqchip=irqchip
    )


def _is_name(source: str | Path) -> bool:
    return isinstance(source, Path) or not (_is_text(source) or ":" in source)


def _is_text(source: str) -> bool:
    return "\n" in source or source.lstrip().startswith(("{", "<"))


def _read(source: str | Path) -> list[tuple[str, Facts]]:
    """Read one source; return the kind of each of its parts and what it says."""
    if not isinstance(source, str | Path):
        raise RequestError(f"source {brief(source)}: expected a path, a name or a text")
    if isinstance(source, str) and _is_text(source):
        if len(source) > limits.TEXT:
            raise FormatError("text", f"{len(source)} characters: at most {limits.TEXT} are read")
        return _read_text(source, "text")
    if isinstance(source, str) and (named := _named(source)):
        return [named]
    try:
        return _read_path(Path(source)) or _without_file(source)
    except OSError as error:
        raise FormatError(brief(str(source)), f"cannot be read: {error.strerror}") from None
    except GroupCpusError:
        raise
    except ValueError as error:
        raise FormatError(brief(str(source)), f"no path: {error}") from None


def _read_path(path: Path) -> list[tuple[str, Facts]]:
    """Read a directory or a file, if there is one."""
    name = printable(path.name or str(path))[:100]
    if path.is_dir():
        return _tree(sysfs.read_directory(path, _where("sysfs", name)))
    if not path.is_file():
        return []
    if path.suffix == ".toml":
        return [("machine", _of_machine(read_machine(path)))]
    with path.open("rb") as file:
        return _read_file(file, name)


def _without_file(source: str | Path) -> list[tuple[str, Facts]]:
    """Read what is no file as a line of text, if it has more than a word."""
    if isinstance(source, Path):
        raise FormatError(brief(str(source)), "no such file")
    if " " in source or ":" in source:
        return _read_text(source, "text")
    raise RequestError(
        f"machine {brief(source)}: neither a file nor one of "
        f"{', '.join(machine_names())}{meant(source, machine_names())}"
    )


def _named(source: str) -> tuple[str, Facts] | None:
    """Read a source that is no file: this machine, one that ships, a synthetic line."""
    if source in HERE:
        return "capture", captured.read_capture(capture("/"), "this machine")
    if source in machine_names():
        return "machine", _of_machine(read_machine(source))
    if re.fullmatch("[A-Za-z0-9][A-Za-z0-9+._-]{0,100}", source):
        recording = data_dir() / "recordings" / f"{source}.json"
        if recording.is_file():
            return read_json(recording.read_text("utf-8"), source)
    if re.fullmatch(r"(?:\w+:[0-9]+ +)*\w+:[0-9]+ *", source, re.ASCII):
        topology: Topology = parse_synthetic(source)
        every = topology.possible
        return "synthetic", Facts(
            "synthetic",
            possible=every,
            present=every,
            online=every,
            nodes=dict(topology.nodes),
            siblings=list(topology.siblings),
            clusters=list(topology.clusters),
            no_cluster=topology.no_cluster,
        )
    return None


def _of_machine(machine: Machine) -> Facts:
    arch = "aarch64" if machine.arch == "arm64" else machine.arch
    return Facts(f"machine {machine.name}", arch=arch, machine=machine)


def _read_file(file: io.BufferedReader, name: str) -> list[tuple[str, Facts]]:
    where = _where("sysfs", name)
    stream = unpacked(file, name)
    head = stream.peek(tarfile.BLOCKSIZE)[: tarfile.BLOCKSIZE]
    if is_zip(head) and stream is file:
        return _tree(read_zip(file, where))
    if is_tar(head):
        return _tree(read_tar(stream, where))
    data = stream.read(limits.TEXT + 1)
    if len(data) > limits.TEXT:
        raise FormatError(name, f"more than {limits.TEXT} bytes of text")
    return _read_text(decode(data), name)


def _tree(tree: sysfs.Tree) -> list[tuple[str, Facts]]:
    if not tree.files:
        raise FormatError(tree.where, "no file of /sys/devices/system/cpu, /sys/block or /proc/irq")
    return [("sysfs", sysfs.read_tree(tree))]


def _where(kind: str, name: str) -> str:
    return f"{kind} ({name[:100]})"


def _read_text(text: str, name: str) -> list[tuple[str, Facts]]:
    name = printable(name[:100])
    text = text.removeprefix("\ufeff")
    start = text[:4096].lstrip()[:1]
    if start == "<" and not text.lstrip().startswith(("<<", "< ", "<pre", "<code", "<p", "<div")):
        return [("hwloc", read_hwloc(text, _where("hwloc", name)))]
    if start == "{" and not text.lstrip().startswith(("{code", "{noformat", "{quote")):
        return [read_json(text, name)]
    if _MACHINE_FILE.search(text[:10_000]):
        machine = machine_from_dict(parse_toml(text, name), name)
        return [("machine", _of_machine(machine))]
    return read_pasted(text, name, EXPECTED)
