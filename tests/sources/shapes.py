# SPDX-License-Identifier: GPL-2.0-only
"""Machines of odd shapes, and every form in which people would show them.

The shapes are made up; each has an oddity that real machines and copies of /sys have.
"""

import gzip
import io
import json
import tarfile
from dataclasses import dataclass, replace

from groupcpus.engine.cpuset import CpuSet


@dataclass(frozen=True)
class Shape:
    possible: str
    online: str
    nodes: dict[int, str] | None
    siblings: tuple[str, ...]
    present: str | None = None
    clusters: tuple[str, ...] | None = None
    l2: tuple[str, ...] | None = None
    links: tuple[tuple[int, int], ...] = ()
    """(CPU, node): links of the kind cpu3/node1."""
    possible_nodes: str | None = None
    distances: tuple[str, ...] = ()
    arch: str | None = None

    @property
    def all_present(self) -> str:
        return self.present or self.possible


def pairs(first: int, last: int, stride: int = 0) -> tuple[str, ...]:
    """Siblings: neighbours, or CPUs a stride apart."""
    if stride:
        return tuple(f"{cpu},{cpu + stride}" for cpu in range(first, last - stride + 1))
    return tuple(f"{cpu}-{cpu + 1}" for cpu in range(first, last, 2))


def singles(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(cpu) for cpu in range(first, last + 1))


SHAPES = {
    "16cpu-2nodes-siblings-at-stride-8": Shape(
        "0-15",
        "0-15",
        {0: "0-3,8-11", 1: "4-7,12-15"},
        pairs(0, 15, 8),
        l2=pairs(0, 15, 8),
        distances=("10 21", "21 10"),
        arch="x86_64",
    ),
    "12cpu-sparse-and-cpuless-node-ids": Shape(
        "0-11",
        "0-11",
        {0: "0-3", 5: "4-7", 6: "", 130: "8-11", 131: ""},
        singles(0, 11),
        l2=singles(0, 11),
        possible_nodes="0,5-6,130-133",
    ),
    "8cpu-node-list-beyond-possible": Shape(
        "0-7", "0-7", {0: "0-3", 1: "4-63"}, pairs(0, 7), clusters=pairs(0, 7)
    ),
    "6cpu-no-nodes": Shape("0-5", "0-5", None, singles(0, 5), clusters=("0-2", "3-5")),
    "10cpu-offline-without-files": Shape(
        "0-9",
        "0-6",
        {0: "0-4", 1: "5-6"},
        singles(0, 6),
        clusters=("0-1", "2-3", "4", "5-6"),
        links=((7, 1), (8, 1)),
        arch="x86_64",
    ),
    "14cpu-hybrid-clusters-of-2-and-3": Shape(
        "0-13",
        "0-13",
        {0: "0-13"},
        (*pairs(0, 7), *singles(8, 13)),
        clusters=(*pairs(0, 7), "8-10", "11-13"),
    ),
    "24possible-16present-3nodes": Shape(
        "0-23",
        "0-15",
        {0: "0-5", 2: "6-10", 3: "11-15"},
        singles(0, 15),
        present="0-15",
        l2=singles(0, 15),
        arch="x86_64",
    ),
    "16cpu-8offline-4threads-no-arch": Shape(
        "0-15", "0-3,8-11", {0: "0-7", 8: "8-15"}, ("0-3", "8-11"), l2=("0-3", "8-11")
    ),
    "9cpu-clusters-across-nodes": Shape(
        "0-8", "0-8", {0: "0-2,6-8", 1: "3-5"}, singles(0, 8), clusters=("0-3", "4-8")
    ),
}
REFUSED = {
    "8cpu-in-two-nodes": replace(SHAPES["6cpu-no-nodes"], nodes={0: "0-3", 1: "3-5"}),
    "6cpu-siblings-overlap": replace(
        SHAPES["6cpu-no-nodes"], siblings=("0-1", "1-2", "3", "4", "5")
    ),
    "6cpu-clusters-overlap": replace(SHAPES["6cpu-no-nodes"], clusters=("0-3", "3-5")),
    "6cpu-core-in-two-nodes": replace(
        SHAPES["6cpu-no-nodes"], nodes={0: "0-2", 1: "3-5"}, siblings=("0-1", "2-3", "4", "5")
    ),
    "6cpu-online-not-present": replace(SHAPES["6cpu-no-nodes"], present="0-3"),
}


def sysfs(shape: Shape) -> dict[str, str]:
    """Give the files of the shape's /sys, by path; a value of "->" is a link."""
    cpu_dir, node_dir = "sys/devices/system/cpu", "sys/devices/system/node"
    files = {
        f"{cpu_dir}/possible": shape.possible,
        f"{cpu_dir}/present": shape.all_present,
        f"{cpu_dir}/online": shape.online,
        f"{cpu_dir}/kernel_max": "8191",
    }
    if shape.arch == "x86_64":
        files[f"{cpu_dir}/modalias"] = "cpu:type:x86,ven0000fam0006mod0055:feature:,0000,0001"
    for name, sets in (("thread_siblings", shape.siblings), ("cluster_cpus", shape.clusters or ())):
        for cpus in sets:
            for cpu in CpuSet(cpus):
                files[f"{cpu_dir}/cpu{cpu}/topology/{name}_list"] = cpus
                files[f"{cpu_dir}/cpu{cpu}/topology/{name}"] = hexmask(cpus)
    for cpus in shape.l2 or ():
        for cpu in CpuSet(cpus):
            for index, level in ((0, "1"), (1, "1"), (2, "2"), (3, "3")):
                here = f"{cpu_dir}/cpu{cpu}/cache/index{index}"
                files[f"{here}/level"] = level
                files[f"{here}/type"] = ("Data", "Instruction", "Unified", "Unified")[index]
                files[f"{here}/shared_cpu_list"] = cpus if level == "2" else str(cpu)
    for node, cpus in (shape.nodes or {}).items():
        files[f"{node_dir}/node{node}/cpulist"] = cpus
    for (node, _), row in zip(sorted((shape.nodes or {}).items()), shape.distances, strict=False):
        files[f"{node_dir}/node{node}/distance"] = row
    if shape.possible_nodes:
        files[f"{node_dir}/possible"] = shape.possible_nodes
    for cpu, node in shape.links:
        files[f"{cpu_dir}/cpu{cpu}/node{node}"] = "->"
    return files


def hexmask(cpus: str) -> str:
    """Print a mask as the kernel does: words of 32 bits."""
    digits = f"{CpuSet(cpus).mask:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def directory(files: dict[str, str], path):
    """Write files below a directory."""
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text == "->":
            file.symlink_to("../../node/" + file.name)
        else:
            file.write_text(text + "\n", encoding="utf-8")
    return path


def archive(files: dict[str, str], *, prefix: str = "", padded: bool = False) -> bytes:
    """Make a .tar.gz; `padded`: as tar pads a real /sys, whose files all claim 4096 bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(prefix + name)
            data = text.encode() + b"\n"
            if text == "->":
                member.type, member.linkname, data = tarfile.SYMTYPE, "../../node/x", b""
            elif padded:
                data = data.ljust(4096, b"\0")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def grep(files: dict[str, str]) -> str:
    """Give what ``grep . FILES`` prints: no line for an empty file, none for a link."""
    return "".join(f"/{name}:{text}\n" for name, text in files.items() if text not in ("", "->"))


def tail(files: dict[str, str]) -> str:
    """Give what ``tail -n +1 FILES`` prints."""
    return "\n".join(f"==> /{name} <==\n{text}\n" for name, text in files.items() if text != "->")


def _rows(shape: Shape) -> list[dict[str, str]]:
    """Give the cells of lscpu's table for the online CPUs."""
    rows = []
    for cpu in CpuSet(shape.online):
        nodes = [node for node, cpus in (shape.nodes or {}).items() if cpu in CpuSet(cpus)]
        l2 = [at for at, cpus in enumerate(shape.l2 or ()) if cpu in CpuSet(cpus)]
        core = next(at for at, cpus in enumerate(shape.siblings) if cpu in CpuSet(cpus))
        rows.append(
            {
                "CPU": str(cpu),
                "NODE": str(nodes[0]) if nodes else "",
                "SOCKET": "0",
                "CORE": str(core),
                "L2": str(l2[0]) if l2 else "",
            }
        )
    return rows


def lscpu_p(shape: Shape) -> str:
    lines = ["# The following is the parsable format, which can be fed to other"]
    lines += ["# programs.", "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3"]
    for row in _rows(shape):
        cpu, core, node, l2 = row["CPU"], row["CORE"], row["NODE"], row["L2"]
        caches = f",,{core},{core},{l2},0" if l2 else ""
        lines.append(f"{cpu},{core},{row['SOCKET']},{node}{caches}")
    return "\n".join(lines) + "\n"


def lscpu_e(shape: Shape, *, yes: str = "yes", left: bool = False) -> str:
    names = ["CPU", "NODE", "SOCKET", "CORE", "L1d:L1i:L2:L3", "ONLINE", "MAXMHZ"]
    if shape.nodes is None:
        names.remove("NODE")
    if shape.l2 is None:
        names.remove("L1d:L1i:L2:L3")
    table = [names]
    for row in _rows(shape):
        cells = {
            **row,
            "L1d:L1i:L2:L3": f"{row['CORE']}:{row['CORE']}:{row['L2']}:0",
            "ONLINE": yes,
            "MAXMHZ": "4100,0000",
        }
        table.append([cells[name] or "-" for name in names])
    widths = [max(len(row[at]) for row in table) for at in range(len(names))]
    return "".join(
        " ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        + "\n"
        for row in table
    )


def lscpu_json(shape: Shape) -> str:
    rows = []
    for row in _rows(shape):
        cells = {
            name.lower(): int(row[name]) if row[name] else None for name in row if name != "L2"
        }
        caches = f"{row['CORE']}:{row['CORE']}:{row['L2']}:0" if row["L2"] else "-"
        rows.append({**cells, "l1d:l1i:l2:l3": caches, "online": True})
    return json.dumps({"cpus": rows})


def numactl(shape: Shape) -> str:
    nodes = shape.nodes or {0: shape.online}
    lines = [f"available: {len(nodes)} nodes ({CpuSet(nodes)})"]
    for node, cpus in nodes.items():
        numbers = " ".join(map(str, CpuSet(cpus)))
        lines += [f"node {node} cpus: {numbers}".rstrip(" ") if numbers else f"node {node} cpus:"]
        lines += [f"node {node} size: 1024 MB", f"node {node} free: 1000 MB"]
    if shape.distances:
        lines += ["node distances:", "node " + " ".join(f"{node:3}" for node in nodes)]
        for node, row in zip(nodes, shape.distances, strict=True):
            lines.append(f"{node:3}: " + " ".join(f"{number:>3}" for number in row.split()))
    return "\n".join(lines) + "\n"


def summary(shape: Shape, *, key: str = "NUMA node{} CPU(s):") -> str:
    lines = [
        f"Architecture:        {shape.arch or 'x86_64'}",
        f"On-line CPU(s) list: {shape.online}",
    ]
    lines += ["Model name:          Some CPU: of a kind"]
    lines += [key.format(node).ljust(21) + cpus for node, cpus in (shape.nodes or {}).items()]
    return "\n".join(lines) + "\n"


def hwloc(shape: Shape) -> str:
    def bitmap(cpus: str) -> str:
        words = hexmask(cpus).split(",")
        return ",".join("0x" + word if int(word, 16) else "" for word in words) or "0x0"

    def node(kind: str, cpus: str, more: str = "") -> str:
        return (
            f'<object type="{kind}" cpuset="{bitmap(cpus)}" complete_cpuset="{bitmap(cpus)}"{more}>'
        )

    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">']
    lines += ['<topology version="2.0">']
    machine = bitmap(shape.all_present)
    lines += [
        f'<object type="Machine" os_index="0" cpuset="{bitmap(shape.online)}" '
        f'complete_cpuset="{machine}">'
    ]
    if shape.arch:
        lines += [f'<info name="Architecture" value="{shape.arch}"/>']
    for number, cpus in (shape.nodes or {}).items():
        lines += [node("NUMANode", cpus, f' os_index="{number}"'), "</object>"]
    for cpus in shape.clusters or ():
        lines += [node("Group", cpus, ' subtype="Cluster"'), "</object>"]
    for cpus in shape.l2 or ():
        lines += [node("L2Cache", cpus), "</object>"]
    for cpus in shape.siblings:
        lines.append(node("Core", cpus))
        for cpu in CpuSet(cpus):
            lines.append(node("PU", str(cpu), f' os_index="{cpu}"')[:-1] + "/>")
        lines.append("</object>")
    lines += ["</object>"]
    if shape.distances:
        ids = " ".join(map(str, shape.nodes or {}))
        lines += [
            f'<distances2 type="NUMANode" nbobjs="{len(shape.distances)}" kind="5" '
            'name="NUMALatency" indexing="os">',
            f'<indexes length="8">{ids} </indexes>',
            *(f'<u64values length="8">{row} </u64values>' for row in shape.distances),
            "</distances2>",
        ]
    return "\n".join([*lines, "</topology>"]) + "\n"


INTERRUPTS = """\
            CPU0       CPU1       CPU2       CPU5
  1:          0          9          0          0   IO-APIC   1-edge      i8042
 24:         25          0          0          0  soc_pcie:msi 524288 Edge      nvme0q0
 25:          0          0    1523653          0  IR-PCI-MSIX-0000:02:00.0 1-edge nvme0q1
 26:          0          0          0         68  IR-PCI-MSI 1048577-edge      nvme1q1, shared thing
 27:          1        103          0    2989138  Hyper-V PCIe MSI 4138200989697-edge      mana_q0
 28:     133098          0          0          0   ITS-MSI 134742017 Edge      nvme0q2
 29:       6374          0          0          0  xen-pirq-msi-x     eth0-Tx-Rx-0
 30:          0          0          1          0  xen-dyn    -event     blkif
 31:          0          0          1          0  IR-PCI-MSI 18874369-edge
NMI:          0          0          0          0   Non-maskable interrupts
ERR:          1
MIS:          0
"""

DUMP = """\
== interrupts of a disk ==
-eirq 101, cpu list 7, effective list 7
-e ^Iirq 102, cpu list 32-38,40, effective list 35
irq 103, cpu list 0-3, effective list 0
    irq 65, cpu list , effective list
cat: /proc/irq/65/smp_affinity_list: No such file or directory
        irq 104 affinity 4 effective 4 is_managed:1 nvme0q1
        irq 105 affinity 0 effective 0  nvme0q2
67: 0 0 0 0 24 0 0 0 PCI-MSIX-0000:00:05.0 5-edge nvme0q5 affinity: 4
IRQ=109 configured=0-5,12-17 effective=2  eno49-TxRx-5
/proc/irq/119/effective_affinity_list:42
/proc/irq/119/smp_affinity:400,00000000
/sys/block/nvme0n1/mq/0/cpu_list:0, 20
/sys/devices/pci0000:00/0000:00:05.0/nvme/nvme0/nvme0n1/block/nvme1n1/mq/3/cpu_list:1, 21
queue mapping for /dev/nvme2n1
        hctx0: default 4 5
        hctx1: read 6
        hctx2: poll 4 5 6
"""


def gz(text: str) -> bytes:
    return gzip.compress(text.encode())
