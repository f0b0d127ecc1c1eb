# SPDX-License-Identifier: GPL-2.0-only
"""Record a boot of a Debian kernel in QEMU, as a file that ``groupcpus.observed.replay`` reads.

Needs QEMU, a kernel image with the NVMe driver built in (Debian's cloud kernels) and a static
busybox; see README.md beside this file.
"""

import argparse
import gzip
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.observed.longform import deal_absent
from groupcpus.observed.recorded import Recording
from groupcpus.observed.recordings import recording_from_dict
from groupcpus.observed.replay import replay

INIT = Path(__file__).with_name("init")
# Nothing here changes what is recorded; it only makes an emulated boot quicker and quieter.
CMDLINE = (
    "console=ttyS0,115200 quiet loglevel=1 rdinit=/init panic=5 mitigations=off nowatchdog "
    "rcupdate.rcu_expedited=1 random.trust_cpu=on tsc=unstable"
)
SOURCE = (
    "Debian's kernel package booted under QEMU (TCG) by tools/record: its init read /proc/irq and "
    "sysfs, then unbound all NVMe functions and bound them one at a time in PCI order"
)

Files = dict[str, str]


def initramfs(busybox: Path) -> bytes:
    """Pack busybox and the init into a compressed cpio archive ("newc")."""
    entries: list[tuple[str, int, bytes, tuple[int, int]]] = [
        (name, 0o040755, b"", (0, 0)) for name in ("bin", "dev", "proc", "sys")
    ]
    entries += [
        ("dev/console", 0o020600, b"", (5, 1)),
        ("bin/busybox", 0o100755, busybox.read_bytes(), (0, 0)),
        ("init", 0o100755, INIT.read_bytes(), (0, 0)),
        ("TRAILER!!!", 0, b"", (0, 0)),
    ]
    archive = b""
    for number, (name, mode, data, device) in enumerate(entries, start=1):
        # Inode, mode, owner, group, links, time, size, the device it is on, the device it is,
        # length of the name, checksum.
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        archive += head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
    return gzip.compress(archive, mtime=0)


def machine_arguments(smp: str, nodes: Sequence[str], nvme: Sequence[int], cpu: str) -> list[str]:
    """Describe the machine to QEMU: what is recorded as the way to build it again."""
    megabytes = 512 * max(1, len(nodes))
    words = ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", smp]
    words += ["-m", f"{megabytes}M", "-display", "none", "-no-reboot", "-nodefaults"]
    words += ["-serial", "stdio", "-monitor", "none"]
    for node, cpus in enumerate(nodes):
        words += ["-object", f"memory-backend-ram,id=m{node},size=512M"]
        words += ["-numa", f"node,nodeid={node},memdev=m{node},cpus={cpus}"]
    for disk, queues in enumerate(nvme):
        words += ["-blockdev", f"driver=null-co,node-name=n{disk},size=16777216,read-zeroes=on"]
        options = f"max_ioqpairs={queues},msix_qsize={queues + 1}"
        words += ["-device", f"nvme,serial=s{disk},drive=n{disk},{options}"]
    return words


def in_words(smp: str, nodes: Sequence[str], nvme: Sequence[int]) -> str:
    """Say what the machine is.

    Examples
    --------
    >>> in_words("8,sockets=2,cores=2,threads=2", ["0-3", "4-7"], [3, 3])
    'QEMU q35, 8 CPUs (sockets=2, cores=2, threads=2); 2 nodes; 2 NVMe with 3 and 3 I/O queues'
    """
    cpus, *shape = smp.split(",")
    parts = [f"QEMU q35, {cpus} CPUs" + (f" ({', '.join(shape)})" if shape else "")]
    parts.append(f"{len(nodes)} nodes" if len(nodes) > 1 else "1 node")
    disks = f"{len(nvme)} NVMe" if len(nvme) > 1 else "NVMe"
    return "; ".join([*parts, f"{disks} with {' and '.join(map(str, nvme))} I/O queues"])


def read_console(text: str) -> dict[str, Files]:
    """Give what the init printed: for each phase, the content of every file by its path.

    Raises
    ------
    SystemExit
        If the init did not come to its end.
    """
    phases: dict[str, Files] = {}
    files: Files = {}
    lines = [line[1:] for line in text.splitlines() if line.startswith("@")]
    for line in lines:
        path, _, content = line.partition(" ")
        if path == "error:":
            raise SystemExit(f"record: {content}")
        if path == "phase":
            files = phases.setdefault(content, {})
        else:
            files[path] = content.strip()
    if lines[-1:] != ["end"]:
        raise SystemExit("record: the boot did not come to its end; see --console")
    return phases


def matching(files: Mapping[str, str], pattern: str) -> dict[tuple[int, ...], str]:
    """Select files by a pattern of their paths, under the numbers in its brackets."""
    found = {}
    for path, content in files.items():
        if match := re.fullmatch(pattern, path):
            found[tuple(map(int, match.groups()))] = content
    return dict(sorted(found.items()))


def topology_document(files: Mapping[str, str]) -> dict[str, Any]:
    """Read the topology, as the kernel's masks have it, into a document for `Topology`."""
    system = "/sys/devices/system"
    possible, present, online = (
        CpuSet(files[f"{system}/cpu/{name}"]) for name in ("possible", "present", "online")
    )
    nodes = {
        node: CpuSet(cpus)
        for (node,), cpus in matching(files, f"{system}/node/node(.*)/cpulist").items()
    } or {0: possible}
    for cpu, node in matching(files, rf"{system}/cpu/cpu(\d+)/node(\d+)"):
        nodes[node] |= CpuSet([cpu])
    nodes = deal_absent(nodes, possible)
    document: dict[str, Any] = {
        "nodes": {str(node): str(cpus) for node, cpus in sorted(nodes.items())},
        "siblings": sharing(files, "thread_siblings_list"),
        "clusters": sharing(files, "cluster_cpus_list"),
        "possible": str(possible),
        "present": str(present),
    }
    if online != present:
        document["online"] = str(online)
    if possible != online:
        document["no_cluster"] = str(possible - online)  # their masks were never filled
    return document


def sharing(files: Mapping[str, str], name: str) -> list[str]:
    """List the CPUs that share a core or a cluster, where more than one do."""
    lists = matching(files, rf"/sys/devices/system/cpu/cpu(\d+)/topology/{name}").values()
    return [cpus for cpus in dict.fromkeys(lists) if len(CpuSet(cpus)) > 1]


def device_entries(files: Mapping[str, str], nvme: Sequence[int]) -> list[dict[str, Any]]:
    """Read the NVMe devices with their interrupts and queue maps, in the order of their names."""
    addresses = matching(files, r"/sys/class/nvme/nvme(\d+)/address")
    actions = {
        name: irq for (irq,), name in matching(files, r"/sys/kernel/irq/(\d+)/actions").items()
    }
    queues_at = dict(zip(sorted(addresses.values()), nvme, strict=True))
    entries = []
    for (number,), address in addresses.items():
        name = f"nvme{number}"
        names = [f"{name}q{queue}" for queue in range(len(actions)) if f"{name}q{queue}" in actions]
        irqs = [actions[name] for name in names]
        maps = matching(files, rf"/sys/block/{name}n1/mq/(\d+)/cpu_list").values()
        entries.append(
            {
                "name": name,
                "pci": address,
                "io_queues": queues_at[address],
                "irqs": " ".join(map(str, irqs)),
                "masks": " ".join(files[f"/proc/irq/{irq}/smp_affinity_list"] for irq in irqs),
                "effective": " ".join(
                    files[f"/proc/irq/{irq}/effective_affinity_list"] for irq in irqs
                ),
                "maps": " ".join(str(CpuSet(cpus.replace(" ", ""))) or "-" for cpus in maps),
            }
        )
    return entries


def recording_document(
    phases: Mapping[str, Files], name: str, machine: str, qemu: str, notes: str, nvme: Sequence[int]
) -> dict[str, Any]:
    """Put a recording together, in the order of its file's lines."""
    boot, rebind = phases["boot"], phases["rebind"]
    package = re.search(r"Debian \S+", boot["/proc/sys/kernel/version"])
    others = [
        boot[f"/proc/irq/{irq}/effective_affinity_list"]
        for (irq,), action in matching(boot, r"/sys/kernel/irq/(\d+)/actions").items()
        if action and not action.startswith("nvme")
    ]
    parameters = "/sys/module/nvme/parameters"
    document = {
        "name": name,
        "kernel": boot["/proc/sys/kernel/osrelease"],
        "package": package[0] if package else boot["/proc/sys/kernel/version"],
        "arch": "x86_64",
        "machine": machine,
        "qemu": qemu,
        "cmdline": boot["/proc/cmdline"],
        "source": SOURCE,
        "notes": notes,
        "topology": topology_document(boot),
        "nvme": {
            "write_queues": int(boot[f"{parameters}/write_queues"]),
            "poll_queues": int(boot[f"{parameters}/poll_queues"]),
        },
        "other_irqs": " ".join(cpu for cpu in others if cpu.isdigit()),
        "devices": device_entries(boot, nvme),
        "rebind": device_entries(rebind, nvme),
    }
    return {key: value for key, value in document.items() if value != ""}


def dump(document: Mapping[str, Any]) -> str:
    """Write a recording as JSON with a line for each field, so that two can be compared."""

    def block(fields: Mapping[str, Any], indent: str) -> str:
        lines = [
            f"{indent} {json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"

    lines = []
    for key, value in document.items():
        if key == "topology":
            text = block(value, " ")
        elif key in ("devices", "rebind"):
            text = "[\n  " + ",\n  ".join(block(device, "  ") for device in value) + "\n ]"
        else:
            text = json.dumps(value)
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def boot(words: Sequence[str], kernel: Path, busybox: Path, cmdline: str, seconds: float) -> str:
    """Run QEMU until the machine powers off, and give what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "initramfs.gz")
        archive.write_bytes(initramfs(busybox))
        command = [*words, "-kernel", str(kernel), "-initrd", str(archive), "-append", cmdline]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=seconds, check=False
        )
    return done.stdout.decode("utf-8", "replace")


def main() -> int:
    """Record a boot and say how well it is predicted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="the recording's name, by its shape: x86-8cpu-2nodes-…-6.1")
    parser.add_argument("--kernel", type=Path, required=True, help="a vmlinuz")
    parser.add_argument("--busybox", type=Path, required=True, help="a static busybox")
    parser.add_argument(
        "--qemu", default="qemu-system-x86_64", help="the QEMU to run, with options"
    )
    parser.add_argument("--smp", default="8,sockets=2,cores=2,threads=2", help="as QEMU's -smp")
    parser.add_argument("--cpu", default="max,vendor=GenuineIntel", help="as QEMU's -cpu")
    parser.add_argument("--node", action="append", default=[], help="CPUs of a node; repeat")
    parser.add_argument("--nvme", type=int, action="append", help="I/O queues of a disk; repeat")
    parser.add_argument("--append", default="", help="more for the kernel's command line")
    parser.add_argument("--notes", default="", help="what else there is to say")
    parser.add_argument("--output", type=Path, help="the file to write; NAME.json if left out")
    parser.add_argument("--console", type=Path, help="also keep what the boot printed, here")
    parser.add_argument("--seconds", type=float, default=300, help="stop after (%(default)s)")
    args = parser.parse_args()
    nvme = args.nvme or [3, 3]
    machine = machine_arguments(args.smp, args.node, nvme, args.cpu)
    cmdline = f"{CMDLINE} {args.append}".strip()
    command = [*shlex.split(args.qemu), *machine]
    console = boot(command, args.kernel, args.busybox, cmdline, args.seconds)
    if args.console:
        args.console.write_text(console, encoding="utf-8")
    words = in_words(args.smp, args.node, nvme)
    qemu = shlex.join(["qemu-system-x86_64", *machine])
    document = recording_document(read_console(console), args.name, words, qemu, args.notes, nvme)
    recording: Recording = recording_from_dict(document, args.name)
    (args.output or Path(f"{args.name}.json")).write_text(dump(document), encoding="utf-8")
    print(replay(recording))
    return 0


if __name__ == "__main__":
    sys.exit(main())
