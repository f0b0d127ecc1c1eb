# SPDX-License-Identifier: GPL-2.0-only
"""Recordings of real boots: what a kernel showed, and what its release and arguments imply.

A recording (``data/recordings/NAME.json``, one line a field) has two phases.  At boot, devices
probe in parallel and the order of their requests is not recorded, unless the kernel logged it.
Then the probes are repeated one at a time (``rebind``).  Two other forms are read too: the long
form of such a recording, with a list entry a CPU (`groupcpus.observed.longform`), and recordings
of life after boot, with a phase for each event (`groupcpus.observed.lifeform`).
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import FormatError, RequestError, brief
from groupcpus.machines.machine import data_dir
from groupcpus.observed.fields import MAX_QUEUES, Fields
from groupcpus.observed.kernels import revision_of_release
from groupcpus.observed.lifeform import (
    check_apart,
    life_recording,
    read_irqchip,
    read_topology,
)
from groupcpus.observed.longform import compact_document, is_long_form
from groupcpus.observed.recorded import RecordedDevice, RecordedStep, Recording

__all__ = ["load_recording", "recording_from_dict", "recording_names"]

# The longest recording so far, of 96 CPUs and 372 queues, has 0.25 MB.
_MAX_BYTES = 4 << 20
_MAX_DEVICES = 256
_TEXTS = ("name", "kernel", "package", "arch", "machine", "qemu", "cmdline", "source")
_FIELDS = {*_TEXTS, "notes", "irqchip", "topology", "nvme", "other_irqs", "devices", "order"} | {
    "rebind"
}
_DEVICE_FIELDS = {"name", "pci", "io_queues", "irqs", "masks", "effective", "maps"}


def recording_names(life: bool = False) -> list[str]:
    """Return the names of the recordings that ship with the project.

    Parameters
    ----------
    life : bool
        Those of life after boot instead of those of boots.

    Examples
    --------
    >>> "x86-8cpu-4nodes-1x3-7.3" in recording_names()
    True
    >>> "life/arm64-8cpu-1node-gicv2m-2x3-7.3" in recording_names(life=True)
    True
    """
    folder = data_dir() / "recordings"
    if life:
        return sorted(f"life/{_stem(path)}" for path in (folder / "life").glob("*.json*"))
    return sorted(_stem(path) for path in folder.glob("*.json"))


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".json")


def load_recording(name_or_path: str | Path) -> Recording:
    """Load a recording that ships with the project by its name, or any other from its file.

    Raises
    ------
    FormatError
        If the file is not a recording; the message names the field.
    RequestError
        If there is no such recording.

    Examples
    --------
    >>> recording = load_recording("x86-8cpu-4nodes-1x3-7.3")
    >>> recording.kernel, recording.revision.name, [str(mask) for mask in recording.devices[0].maps]
    ('7.3.4+deb13-cloud-amd64', 'cluster', ['0-1,6-7', '2-3', '4-5'])
    """
    if not isinstance(name_or_path, str | Path):
        raise RequestError(f"recording {brief(name_or_path)}: expected a name or a path")
    path = Path(name_or_path)
    if isinstance(name_or_path, str):
        folder = data_dir() / "recordings"
        if name_or_path in recording_names():
            path = folder / f"{name_or_path}.json"
        elif name_or_path in recording_names(life=True):
            path = folder / f"{name_or_path}.json.gz"
    try:
        data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None
    except (OSError, ValueError):  # a name that is too long, or has a NUL in it
        raise RequestError(
            f"recording {brief(str(name_or_path))}: neither a file nor one of "
            f"{', '.join(recording_names()[:3])}, ... (`replay --all` lists them)"
        ) from None
    if data is None:
        raise FormatError(path.name, f"{path.stat().st_size} bytes, at most {_MAX_BYTES} are read")
    return recording_from_dict(_json(data, path.name), path.name)


def _json(data: bytes, where: str) -> object:
    """Return what a file holds, unpacked if it is a gzip one."""
    if data.startswith(b"\x1f\x8b"):
        unpack = zlib.decompressobj(wbits=31)
        try:
            data = unpack.decompress(data, _MAX_BYTES + 1)
        except zlib.error as error:
            raise FormatError(where, f"not a gzip file: {error}") from None
        if len(data) > _MAX_BYTES:
            raise FormatError(where, f"more than {_MAX_BYTES} bytes when unpacked")
        if not unpack.eof:
            raise FormatError(where, "a gzip file that is cut short")
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(where, f"not a JSON file: {error}") from None


def recording_from_dict(doc: object, where: str = "recording") -> Recording:
    """Read a recording from the contents of its file.

    Raises
    ------
    FormatError
        If a field is missing, unknown or not what it should be; the message names it after `where`.
    """
    fields = Fields(doc, where)
    if is_long_form(fields.doc):
        fields = Fields(compact_document(fields.doc, where), where)
    elif "phases" in fields.doc:
        return life_recording(fields)
    fields.only(_FIELDS)
    topology = read_topology(fields)
    nvme = fields.table("nvme")
    if set(nvme.doc) != {"write_queues", "poll_queues"}:
        raise FormatError(nvme.where, "expected write_queues and poll_queues")
    devices = _devices(fields, "devices", topology.possible)
    try:
        revision = revision_of_release(fields.text("kernel"))
    except RequestError as error:
        raise FormatError(f"{where}: kernel", str(error)) from None
    texts: dict[str, Any] = {key: fields.text(key) for key in _TEXTS}
    return Recording(
        **texts,
        notes=fields.text("notes", ""),
        irqchip=read_irqchip(fields),
        topology=topology,
        write_queues=nvme.natural("write_queues"),
        poll_queues=nvme.natural("poll_queues"),
        other_irqs=fields.cpu_numbers("other_irqs", topology.possible, ""),
        devices=devices,
        order=_order(fields, devices),
        rebind=_devices(fields, "rebind", topology.possible, []),
        revision=revision,
    )


def _devices(
    fields: Fields, key: str, possible: CpuSet, default: Any = None
) -> tuple[RecordedDevice, ...]:
    tables = fields.tables(key, default, _MAX_DEVICES)
    devices = tuple(_device(table, possible) for table in tables)
    check_apart(fields.path(key), [(device.name, device.irqs) for device in devices])
    return devices


def _device(fields: Fields, possible: CpuSet) -> RecordedDevice:
    if set(fields.doc) - {"charged"} != _DEVICE_FIELDS:
        raise FormatError(fields.where, f"expected the fields {', '.join(sorted(_DEVICE_FIELDS))}")
    masks = fields.cpu_sets("masks", possible)
    irqs = fields.numbers("irqs")
    effective = fields.cpu_numbers("effective", possible)
    if not len(irqs) == len(masks) == len(effective) > 0:
        raise FormatError(
            fields.where, f"{len(irqs)} irqs, {len(masks)} masks, {len(effective)} effective CPUs"
        )
    charged = fields.cpu_numbers("charged", possible, "")
    if charged and len(charged) != len(masks) - 1:
        raise FormatError(
            fields.path("charged"), f"{len(charged)} CPUs for {len(masks) - 1} queues"
        )
    return RecordedDevice(
        fields.text("name"),
        fields.text("pci"),
        fields.natural("io_queues", least=1),
        irqs,
        masks,
        effective,
        fields.cpu_sets("maps", possible),
        charged,
    )


def _order(fields: Fields, devices: Sequence[RecordedDevice]) -> tuple[RecordedStep, ...]:
    """Read runs such as ``nvme0 1-6``: queues when first named are allocated, then requested."""
    steps: list[RecordedStep] = []
    known = {(device.name, q) for device in devices for q in range(1, len(device.irqs))}
    seen: Counter[tuple[str, int]] = Counter()
    for run in fields.entries("order", [], 2 * MAX_QUEUES):
        match = isinstance(run, str) and re.fullmatch(
            "([a-z0-9]{1,32}) ([0-9]{1,4})(?:-([0-9]{1,4}))?", run
        )
        if not match:
            raise fields.wrong("order", run, "a text such as 'nvme0 1-6'")
        for queue in range(int(match[2]), int(match[3] or match[2]) + 1):
            vector = match[1], queue
            seen[vector] += 1
            if vector not in known or seen[vector] > 2:
                raise FormatError(
                    fields.path("order"), f"{brief(run)}: no such queue, or named a third time"
                )
            steps.append(RecordedStep(*vector, "allocate" if seen[vector] == 1 else "request"))
    if steps and len(steps) < 2 * len(known):
        raise FormatError(
            fields.path("order"), f"{len(steps)} steps; expected two a queue, {2 * len(known)}"
        )
    return tuple(steps)
