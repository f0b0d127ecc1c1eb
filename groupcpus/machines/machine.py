# SPDX-License-Identifier: GPL-2.0-only
"""Machines: a topology, an irqchip and devices, from a file ``data/machines/NAME.toml``."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import attrs

from groupcpus.engine.irqchips import IRQCHIPS
from groupcpus.engine.topology import Topology
from groupcpus.errors import FormatError, GroupCpusError, RequestError, brief, meant
from groupcpus.formats import number, structured, table, tables, text
from groupcpus.machines.devices import DEVICE_KINDS, MAX_QUEUES, Device

__all__ = [
    "Machine",
    "data_dir",
    "machine_from_dict",
    "machine_names",
    "parse_toml",
    "read_machine",
    "read_toml",
]

# Enough to list the cores and clusters of 8192 CPUs one by one.
_MAX_BYTES = 256 << 10
# tomllib's time grows with the square of a dotted key's parts; no machine needs any.
_MAX_DOTS = 2000
_MAX_DEVICES = 1024
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_ARCHES = ("x86_64", "arm64")


@attrs.frozen
class _DeviceEntry:
    """An entry of a machine file's ``devices``."""

    kind: str = text(names=DEVICE_KINDS)
    count: int = number(1, _MAX_DEVICES, default=1)
    io_queues: int = number(1, MAX_QUEUES, default=1)
    write_queues: int = number(0, MAX_QUEUES, default=0)
    poll_queues: int = number(0, MAX_QUEUES, default=0)


@attrs.frozen
class _MachineFile:
    """A machine file; `Topology.from_dict` reads its topology."""

    name: str = text("a name such as L96as_v4", form=_NAME)
    title: str = text()
    arch: str = text(names=_ARCHES)
    irqchip: str = text(names=tuple(IRQCHIPS))
    source: str = text()
    topology: dict[str, Any] = table()
    notes: str = text(default="")
    devices: list[_DeviceEntry] = tables(_MAX_DEVICES)


@dataclass(frozen=True)
class Machine:
    """A machine with its devices.

    Attributes
    ----------
    name, title : str
        The name of its file, and what a heading says.
    arch : {"x86_64", "arm64"}
        The architecture.
    irqchip : str
        A name in `IRQCHIPS`: the chip that it has.
    topology : Topology
        Its CPUs.
    devices : tuple of Device
        In PCI order.
    source : str
        Where its figures come from.
    notes : str
        What is assumed beyond the source.
    """

    name: str
    title: str
    arch: str
    irqchip: str
    topology: Topology
    devices: tuple[Device, ...]
    source: str = ""
    notes: str = ""

    def with_devices(self, count: int | None = None, io_queues: int | None = None) -> "Machine":
        """Give the same machine with another number of its main devices, or of their queues.

        The main devices are those like the first one that has interrupts; others stay.

        Examples
        --------
        >>> read_machine("L96as_v4").with_devices(count=2, io_queues=48).devices
        (Device(name='nvme0', kind='nvme', io_queues=48, write_queues=0, poll_queues=0),
         Device(name='nvme1', kind='nvme', io_queues=48, write_queues=0, poll_queues=0))
        """
        model = next((device for device in self.devices if device.kind != "loop"), None)
        if model is None:
            raise RequestError(f"machine {self.name}: no device with interrupts to change")
        like = [device for device in self.devices if device.kind == model.kind]
        last = max(at for at, device in enumerate(self.devices) if device.kind == model.kind)
        count = len(like) if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MAX_DEVICES:
            raise RequestError(
                f"devices {brief(count)}: expected a whole number from 0 to {_MAX_DEVICES}"
            )
        made = [replace((like[at:] or [model])[0], name=f"{model.kind}{at}") for at in range(count)]
        if io_queues is not None:
            made = [replace(device, io_queues=io_queues) for device in made]
        # The others keep their places: these decide who takes which value of the call counter.
        devices: list[Device] = []
        for at, device in enumerate(self.devices):
            if device.kind != model.kind:
                devices.append(device)
            elif at == last:
                devices += made
            else:
                devices += made[:1]
                del made[:1]
        return replace(self, devices=tuple(devices))


def data_dir() -> Path:
    """Find the project's ``data`` folder, in an installed package or beside a checkout's."""
    package = Path(__file__).parents[1]
    installed = package / "data"
    return installed if installed.is_dir() else package.parent / "data"


def machine_names() -> list[str]:
    """List the machines that ship with the project.

    Examples
    --------
    >>> "L96as_v4" in machine_names()
    True
    """
    return sorted(path.stem for path in (data_dir() / "machines").glob("*.toml"))


def read_machine(name_or_path: str | Path) -> Machine:
    """Load a machine that ships with the project by its name, or any other from its file.

    Raises
    ------
    FormatError
        If the file is not a machine file; the message names the field.
    RequestError
        If there is no such machine.

    Examples
    --------
    >>> machine = read_machine("L96as_v4")
    >>> machine.irqchip, len(machine.devices), machine.topology
    ('x86', 6, <Topology: 96 CPUs, 2 nodes, 48 clusters, 48 cores>)
    """
    if not isinstance(name_or_path, str | Path):
        raise RequestError(f"machine {brief(name_or_path)}: expected a name or a path")
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in machine_names():
        path = data_dir() / "machines" / f"{name_or_path}.toml"
    elif not _is_file(path):
        raise RequestError(
            f"machine {brief(str(name_or_path))}: neither a file nor one of "
            f"{', '.join(machine_names())}{meant(name_or_path, machine_names())}"
        )
    return machine_from_dict(read_toml(path), path.name)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of bounded cost.

    Raises
    ------
    FormatError
        If it is too large, cannot be read, or is not TOML.

    Examples
    --------
    >>> read_toml(data_dir() / "machines" / "D16plds_v6.toml")["arch"]
    'arm64'
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            size = path.stat().st_size
            raise FormatError(path.name, f"{size} bytes, at most {_MAX_BYTES} are read")
        return parse_toml(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise FormatError(path.name, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FormatError(path.name, f"not a TOML file: {error}") from None


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Read a TOML document of bounded cost.

    Raises
    ------
    FormatError
        If it is too large, or is not TOML.
    """
    if len(text) > _MAX_BYTES:
        raise FormatError(where, f"{len(text)} characters, at most {_MAX_BYTES} are read")
    if text.count(".") > _MAX_DOTS:
        raise FormatError(where, f"more than {_MAX_DOTS} dots; expected fewer")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and numbers without end
        raise FormatError(where, f"not a TOML file: {error}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, for instance
        return False


def machine_from_dict(doc: Mapping[str, Any], where: str = "machine") -> Machine:
    """Read a machine from the contents of its file.

    Parameters
    ----------
    doc : mapping
        The fields of a machine file.
    where : str
        What errors call the file.

    Raises
    ------
    FormatError
        If a field is missing, unknown or not what it should be.
    """
    form = structured(doc, _MachineFile, where)
    return Machine(
        form.name,
        form.title,
        form.arch,
        form.irqchip,
        _topology(where, form.topology),
        _devices(where, form.devices),
        form.source,
        form.notes,
    )


def _topology(where: str, doc: Mapping[str, Any]) -> Topology:
    try:
        if "uniform" not in doc:
            return Topology.from_dict(doc)
        rest = {key: value for key, value in doc.items() if key != "uniform"}
        uniform = doc["uniform"]
        if not isinstance(uniform, Mapping):
            raise FormatError(f"{where}: topology.uniform", f"{brief(uniform)} is no table")
        expected = ("nodes", "cpus_per_node", "threads", "cluster")
        if unknown := sorted([*set(uniform) - set(expected), *rest]):
            raise FormatError(f"{where}: topology", f"unknown field {brief(unknown[0])}")
        # TOML has no null: a machine file says "alone" where Python says None.
        arguments = dict(uniform)
        if arguments.get("cluster") == "alone":
            arguments["cluster"] = None
        return Topology.uniform(**arguments)
    except FormatError:
        raise
    except GroupCpusError as error:
        raise FormatError(f"{where}: topology", str(error)) from None


def _devices(where: str, entries: Sequence[_DeviceEntry]) -> tuple[Device, ...]:
    devices: list[Device] = []
    for at, entry in enumerate(entries):
        field = f"{where}: devices[{at}]"
        if len(devices) + entry.count > _MAX_DEVICES:
            raise FormatError(field, f"more than {_MAX_DEVICES} devices in all")
        first = sum(device.kind == entry.kind for device in devices)
        queues = (entry.io_queues, entry.write_queues, entry.poll_queues)
        try:
            devices += [
                Device(f"{entry.kind}{first + i}", entry.kind, *queues) for i in range(entry.count)
            ]
        except RequestError as error:
            raise FormatError(field, str(error)) from None
    return tuple(devices)
