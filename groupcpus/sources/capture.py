# SPDX-License-Identifier: GPL-2.0-only
"""Capture what decides where a machine's interrupts go, as one JSON document.

This one file needs nothing but Python 3.6 or newer.  Copy it to a machine and run it there, as
any user::

    python3 capture.py > capture.json
    python3 capture.py -o capture.json

What is written:

* topology: CPUs that are possible, present, online and isolated, NUMA nodes and their distances,
  siblings, clusters;
* interrupts: number, chip, hwirq, names, affinity, effective affinity, node; whether the kernel
  manages the affinity where /sys/kernel/debug may be read (as root);
* devices with message interrupts: slot on the bus, class, driver, node, interrupts; NVMe
  controllers and disks by the kernel's own names, and their queue maps;
* parameters of the nvme module, and those flags of the kernel's command line that matter (see
  FLAGS); whether irqbalance runs;
* the kernel's release and the architecture.

Nothing personal is written: no host, user or file name, no serial number, no network address, no
mount.  Names that a user may have chosen are reduced:

* an interrupt's name is kept if it has a form that a driver gives (see NAMES); a network
  interface in it is kept if it has a name of the kernel's or of systemd's scheme without an
  address (eth0, eno49, enp3s0f1) and is called "net" otherwise; any other name becomes "other";
* an interrupt chip's and a disk's name is kept if it has a form that the kernel gives (see CHIPS
  and DISKS), with no number of more than four digits;
* of the kernel's release only numbers and the words of distributions (see RELEASE_WORDS) are kept,
  any other word becomes "local".

This module has over 450 lines since it has to run alone, copied to another machine.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["capture", "main"]

FORMAT = "groupcpus-capture"
VERSION = 1

# No file of /sys or /proc that is read here is longer on any machine known.
MAX_FILE = 64 * 1024 * 1024

# A flag is kept if its whole text has this form.
LIST = r"[0-9][0-9,:/N-]*"
FLAGS = re.compile(
    rf"isolcpus=(?:(?:managed_irq|domain|nohz),?)*(?:{LIST})?"
    rf"|(?:irqaffinity|nohz_full|rcu_nocbs)={LIST}"
    r"|(?:nr_cpus|maxcpus|possible_cpus|additional_cpus)=[0-9]+"
    r"|nosmt(?:=force)?|nosmp|smt=[0-9]+|mitigations=auto,nosmt"
    r"|numa=(?:off|noacpi|nohmat|on|fake=[0-9]+[MGU]?)"
    r"|threadirqs|acpi_irq_nobalance|noirqbalance|noapic|nolapic|nox2apic|pci=nomsi"
    r"|intremap=(?:on|off|nosid|no_x2apic_optout|nopost)"
    r"|(?:nvme|nvme_core|virtio_blk|null_blk|loop)\.[a-z_]+=[0-9YNyn]+"
)

DISKS = re.compile(
    r"nvme[0-9]{1,4}(?:c[0-9]{1,4})?n[0-9]{1,4}|(?:sd|hd|vd|xvd)[a-z]{1,4}|(?:loop|ram|zram|md|dm-|nbd|sr|pmem"
    r"|nullb|rbd|ublkb|mmcblk|zd|dasd[a-z]?|drbd)[0-9]{1,4}"
)
NVME = re.compile(r"nvme[0-9]{1,4}")
# Not str.isdigit(), which takes "²" too.
NUMBER = re.compile(r"[0-9]{1,18}")
WORD = re.compile(r"[A-Za-z][0-9A-Za-z_-]{0,31}")
PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"

INTERFACE = (
    r"(?:eth[0-9]{1,4}|ib[0-9]{1,4}|en(?:o[0-9]{1,4}|(?:P[0-9]{1,4})?(?:p[0-9]{1,4})?s[0-9]{1,4})(?:f[0-9]{1,4})?"
    r"(?:(?:np|n|d|v|u|i|c)[0-9]{1,4}){0,3}|net)"
)
NET_DRIVER = (
    r"(?:atlantic|be2net|bnx2x|bnxt_en|bnxt|cxgb4|e1000e|enic|fm10k|hns3|i40e|iavf|ice|igb|igc|ionic"
    r"|ixgbe|ixgbevf|liquidio|mlx4|nfp|qede|sfc|tg3|vmxnet3)"
)
QUEUE = (
    r"(?:TxRx|Tx-Rx|txrx|tx-rx|Tx|Rx|tx|rx|TX|RX|fp|q|ring|channel|comp|misc|mgmnt|mgmt|ctrl"
    r"|adminq|async|event|sp|lsc|mbx|aeq|ceq|ceqs)"
)
NAMES = re.compile(
    # Disks and their controllers.
    r"nvme[0-9]{1,4}q[0-9]{1,4}|virtio[0-9]{1,4}(?:-(?:config|virtqueues|control|stats|event|status|(?:req|request|input|output|requests|rx"
    r"|tx|hiprio|inflate|deflate|stats_vq|free_page_vq|reporting_vq)(?:\.[0-9]{1,4})?))?"
    r"|(?:hpsa|megasas|mpt2sas|mpt3sas|aacraid|smartpqi|mpi3mr|pvscsi|pmcraid|arcmsr|ufshcd|nullb"
    r"|hisi_sas_v[0-9]_hw)[0-9]{0,4}"
    r"(?:[-_ ](?:msix|msi|phy|channel|cq|fatal|queue)[-_ ]?[0-9]{0,4})?"
    rf"|ahci(?:\[{PCI}\])?|ahci[0-9]{{1,4}}|lpfc:?[0-9]{{1,4}}"
    r"|qla2xxx(?: ?\((?:default|rsp_q|atio_q|qpair[0-9]{1,4})\))?"
    # Networks.
    rf"|(?:{NET_DRIVER}-)?{INTERFACE}(?:[-_.:]{QUEUE})*(?:[-_.:]?[0-9]{{1,4}})?"
    r"|(?:mlx[45]_(?:comp|async|pages|cmd|ctrl|fw|completion|ib_comp)|mlx4-ib|mlx4)[-_]?[0-9]{0,4}(?:-[0-9]{1,4})?"
    rf"(?:@(?:pci:)?{PCI})?"
    rf"|mana_(?:q|hwc|eq)[0-9]{{0,4}}(?:@pci:{PCI})?"
    rf"|(?:ena-mgmnt|gve-mgmnt|gve-ntfy-blk[0-9]{{1,4}}|idpf-Mailbox-[0-9]{{1,4}})(?:@pci:{PCI})?"
    rf"|(?:{NET_DRIVER}|irdma|bnxt_re|idpf)(?:[-_.:](?:{PCI}|{QUEUE}|[0-9]{{1,4}}))*"
    # The rest of a machine.
    r"|(?:timer|rtc0|acpi|i8042|rtc|floppy|parport0|cascade|dmar[0-9]{1,4}|ttyS[0-9]{1,4}|ttyAMA[0-9]{1,4}"
    r"|ACPI:Ged|ACPI:Event|aerdrv|pciehp|PCIe PME|PCIe bwctrl|PCIe BW notification|dpc|edac_mc"
    r"|arch_timer|arch_mem_timer|arm-pmu|GICv[0-9]|vgic|kvm guest [vp]timer"
    r"|IPI[0-9]{0,4}|smmu|hv_vmbus"
    r"|AMD-Vi(?:[0-9]{1,4})?(?:-(?:Evt|PPR|GA))?|xhci_hcd|[eou]hci_hcd:usb[0-9]{1,4}|snd_hda_intel:card[0-9]{1,4}"
    r"|i801_smbus|mei_me|i915|amdgpu|nouveau|nvidia|ast|mgag200|ioat-msix[0-9]{0,4}|idxd-(?:portal|misc)|ccp-[0-9]|sp5100-tco"
    r"|hpet[0-9]{0,4}|xen-(?:platform-pci|evtchn|pciback|blkback|netback)|blkif|eth|ptp|resamples|intel_ish_ipc|idma64\.[0-9]{1,4}|i2c_designware\.[0-9]{1,4}"
    r"|(?:rtc|uart)-pl[0-9]{1,4}|iwlwifi(?::[a-z_]+ ?[0-9]{0,4})?)"
)

CHIPS = re.compile(
    rf"(?:IR-)?(?:PCI-MSIX?|IO-APIC|HPET-MSI|HPET_MSI)(?:-{PCI})?|DMAR-MSI|AMD-Vi|XT-PIC|VMD-MSI|PCI-HT"
    r"|Hyper-V PCIe MSI|Hyper-V PCIe MSI-X|None|dummy|xen-(?:pirq|dyn|percpu)(?:-[a-z-]{1,16})?"
    rf"|ITS-(?:PCI-)?p?MSIX?(?:-{PCI})?|(?:I|M)BI-(?:PCI-)?MSIX?(?:-{PCI})?|ITS-fMSI|MBI-pMSI"
    r"|GIC-[0-9]|GIC[vV][0-9]m?|GICv2m-(?:PCI-)?MSIX?(?:-[0-9a-f:.]{1,16})?|XICS|XIVE-IRQ|XIVE-IPI|MPIC"
    r"|(?:SiFive |RISC-V )?(?:INTC|PLIC|APLIC|IMSIC)(?:-PCI-MSIX?)?|APLIC-MSI-[0-9A-Za-z:.]{1,16}"
    r"|PCH[ -](?:PIC|MSI)(?:-[0-9a-f:.]{1,16})?|EIOINTC|CPUINTC|LIOINTC|AVEC(?:-PCI-MSIX?.{0,13})?"
    r"|(?:AIRQ|PCI-IRQ|EXT|I/O|zpci)"
)

RELEASE_WORDS = re.compile(
    r"rc[0-9]*|git[0-9]*|g[0-9a-f]{7,12}|generic|lowlatency|server|default|lts|rt[0-9]*|smp|pae"
    r"|amd64|arm64|x86_64|aarch64|i686|ppc64le|ppc64el|s390x|riscv64|64k|16k|4k|cloud|unsigned"
    r"|deb[0-9]+(?:u[0-9]+)?|bpo|bpo[0-9]*|el[0-9]+(?:_[0-9]+)?|el[0-9]+uek|fc[0-9]+|amzn[0-9]*"
    r"|azure|aws|gcp|gke|oracle|ibm|kvm|hwe|oem|raspi|nvidia|tegra|pve|arch[0-9]*|zen[0-9]*|hardened"
    r"|MANJARO|gentoo|std|def|cachyos|xanmod[0-9]*|liquorix|uek|stable|linux|custom|microsoft|WSL2"
    r"|standard|debug|plus|virt|edge|flatcar|cos|fcos|rhel|centos|suse|sle|tlinux[0-9]*|an[0-9]+|oe[0-9]+|al[0-9]+"
)


class Root:
    """The tree that is read: "/", or another for tests; nothing outside of it is."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)

    def resolve(self, name: str) -> "str | None":
        """Give the path of a file with all links followed, or None if it leads out of the tree."""
        path = os.path.realpath(os.path.join(self.path, name.lstrip("/")))
        inside = path == self.path or path.startswith(self.path.rstrip("/") + "/")
        return path if inside else None

    def read(self, name: str) -> "str | None":
        """Read a file; None if it is not there or may not be read."""
        path = self.resolve(name)
        if path is None or not os.path.isfile(path):
            return None
        try:
            with open(path, "rb") as file:
                return file.read(MAX_FILE).decode("utf-8", "replace").strip("\0 \t\r\n")
        except OSError:
            return None

    def entries(self, name: str) -> "list[str]":
        """List a directory; empty if it is not there or may not be read."""
        path = self.resolve(name)
        try:
            return sorted(os.listdir(path), key=natural) if path else []
        except OSError:
            return []

    def link(self, name: str) -> "str | None":
        """Give the last part of what a link points to, or None."""
        path = self.resolve(name)
        return os.path.basename(path) if path and os.path.exists(path) else None


def natural(name: str) -> "list[tuple[int, str]]":
    """Sort nvme2 before nvme10."""
    return [
        (int(part), "") if NUMBER.fullmatch(part) else (-1, part)
        for part in re.split(r"([0-9]+)", name)
    ]


def parse_list(text: "str | None") -> "list[int] | None":
    """Read a cpulist into a list of numbers; None if it is none."""
    if text is None:
        return None
    cpus = set()  # type: set[int]
    for part in text.replace(" ", "").split(","):
        found = re.match(r"([0-9]{1,5})(?:-([0-9]{1,5})(?::([0-9]{1,5}))?)?$", part)
        if found:
            first, last, step = (int(number) if number else 0 for number in found.groups())
            cpus.update(range(first, max(first, last) + 1, max(step, 1)))
        elif part:
            return None
    return sorted(cpus)


def print_list(cpus: "list[int]") -> str:
    """Print numbers as the kernel prints a cpulist."""
    ranges = []  # type: list[list[int]]
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def parse_mask(text: "str | None") -> "list[int] | None":
    """Read a cpumask such as "00,00000003" into a list of numbers; None if it is none."""
    if text is None or not re.match(r"[0-9a-f]{1,8}(?:,[0-9a-f]{8}){0,255}$", text):
        return None
    mask = int(text.replace(",", ""), 16)
    return [cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1]


def read_cpus(root: "Root", list_file: str, map_file: str) -> "list[int] | None":
    """Read a set of CPUs from the file that lists them, or from the one that has their mask."""
    cpus = parse_list(root.read(list_file))
    return parse_mask(root.read(map_file)) if cpus is None else cpus


def clean_list(text: "str | None") -> "str | None":
    """Give a cpulist as the kernel prints it; None if the text is none."""
    cpus = parse_list(text)
    return None if cpus is None else print_list(cpus)


def clean_number(text: "str | None") -> "int | None":
    """Give a number; None if the text is none."""
    return int(text) if text is not None and re.match(r"-?[0-9]{1,18}$", text) else None


def clean_name(name: str, interfaces: "Sequence[str]" = ()) -> str:
    """Reduce an interrupt's name to what its driver made of it; see the top of this file."""
    if NAMES.fullmatch(name):
        return name
    for interface in sorted(interfaces, key=len, reverse=True):
        place = rf"(?<![0-9A-Za-z_]){re.escape(interface)}(?![0-9A-Za-z_])"
        if re.search(place, name):
            kept = kept_interface(interface)
            reduced = re.sub(place, kept, name)
            return reduced if NAMES.fullmatch(reduced) else kept
    # An interface of another network namespace is not known here: its queue is what matters.
    found = re.match(rf"(.+?)[-.]({QUEUE}(?:[-.]?[0-9]+)?)$", name[:64])
    return "net-" + found.group(2) if found else "other"


def kept_interface(interface: str) -> str:
    """Keep the name of an interface if a user has not chosen it and no address is in it."""
    return interface if re.match(INTERFACE + "$", interface) else "net"


def clean_chip(chip: str) -> str:
    """Keep the name of an interrupt chip if it has a form that the kernel gives (see CHIPS)."""
    return chip if CHIPS.fullmatch(chip) else "other"


def clean_release(release: "str | None") -> "str | None":
    """Reduce a kernel's release to its numbers and the words of distributions."""
    parts = re.split(r"([-+.~])", release or "")
    kept = []
    for part in parts:
        known = re.match(r"[-+.~]?$|[0-9]{1,10}$", part) or RELEASE_WORDS.fullmatch(part)
        kept.append(part if known else "local")
    return "".join(kept)[:128] or None


def capture_topology(root: Root) -> "dict[str, Any]":
    """Capture CPUs, nodes, siblings and clusters."""
    cpu_dir = "sys/devices/system/cpu"
    doc = {}  # type: dict[str, Any]
    for name in ("possible", "present", "online", "isolated", "nohz_full"):
        doc[name] = clean_list(root.read(f"{cpu_dir}/{name}"))
    present = parse_list(doc["present"]) or []
    doc.update(capture_nodes(root))
    siblings, clusters, caches, empty, untold = {}, {}, {}, [], []
    for cpu in present:
        here = f"{cpu_dir}/cpu{cpu}"
        own = first_list(root, here, ("thread_siblings", "core_cpus"))
        if not own:
            untold.append(cpu)
            continue
        siblings[cpu] = print_list(own)
        cluster = first_list(root, here, ("cluster_cpus",))
        if cluster is not None:
            clusters[cpu] = print_list(cluster)
            empty += [] if cluster else [cpu]
        cache = l2_of(root, here)
        if cache:
            caches[cpu] = print_list(cache)
    x86 = is_x86(root)
    source = "cluster_cpus_list" if clusters else "l2" if caches and x86 else "unknown"
    chosen = {"cluster_cpus_list": clusters, "l2": caches, "unknown": {}}[source]
    doc["siblings"] = distinct(siblings)
    doc["clusters"] = distinct(chosen)
    doc["cluster_source"] = source
    doc["no_cluster"] = print_list(empty)
    doc["untold"] = print_list(untold)
    return doc


def capture_nodes(root: Root) -> "dict[str, Any]":
    """Capture NUMA nodes, the nodes of CPUs that no node lists, and distances."""
    node_dir = "sys/devices/system/node"
    nodes, distances, cpu_node = {}, {}, {}
    for name in root.entries(node_dir):
        if not re.match(r"node[0-9]{1,4}$", name):
            continue
        cpus = read_cpus(root, f"{node_dir}/{name}/cpulist", f"{node_dir}/{name}/cpumap")
        if cpus is not None:
            nodes[name[4:]] = print_list(cpus)
        row = (root.read(f"{node_dir}/{name}/distance") or "").split()
        if row and all(NUMBER.fullmatch(number) for number in row):
            distances[name[4:]] = [int(number) for number in row]
    listed = {cpu for cpus in nodes.values() for cpu in parse_list(cpus) or []}
    for cpu in parse_list(root.read("sys/devices/system/cpu/present")) or []:
        if cpu not in listed:
            for name in root.entries(f"sys/devices/system/cpu/cpu{cpu}"):
                if re.match(r"node[0-9]{1,4}$", name):
                    cpu_node[str(cpu)] = int(name[4:])
    return {
        "nodes": nodes,
        "possible_nodes": clean_list(root.read(node_dir + "/possible")),
        "online_nodes": clean_list(root.read(node_dir + "/online")),
        "cpu_node": cpu_node,
        "distances": distances,
    }


def first_list(root: Root, cpu_dir: str, names: "Sequence[str]") -> "list[int] | None":
    """Read the first of a CPU's topology files that is there."""
    for name in names:
        here = f"{cpu_dir}/topology/{name}"
        cpus = read_cpus(root, here + "_list", here)
        if cpus is not None:
            return cpus
    return None


def l2_of(root: Root, cpu_dir: str) -> "list[int] | None":
    """Give the CPUs that share a CPU's L2; None if it tells of none."""
    for index in root.entries(cpu_dir + "/cache"):
        here = f"{cpu_dir}/cache/{index}"
        if root.read(here + "/level") == "2" and root.read(here + "/type") != "Instruction":
            return read_cpus(root, here + "/shared_cpu_list", here + "/shared_cpu_map")
    return None


def is_x86(root: Root) -> bool:
    """Tell whether the tree is of an x86 machine."""
    modalias = root.read("sys/devices/system/cpu/modalias")
    if modalias is not None or root.path != "/":
        return "type:x86" in (modalias or "")
    return os.uname().machine in ("x86_64", "i686", "i586", "i486", "i386")


def distinct(by_cpu: "dict[int, str]") -> "list[str]":
    """List each set once, in the order of the CPUs."""
    return list(dict.fromkeys(by_cpu[cpu] for cpu in sorted(by_cpu)))


def capture_interrupts(root: Root) -> "list[dict[str, Any]]":
    """Capture the lines of /proc/interrupts and the files of /proc/irq."""
    lines = (root.read("proc/interrupts") or "").splitlines()
    columns = len(lines[0].split()) if lines else 0
    described = {}
    for line in lines[1:]:
        parts = line.split(None, columns + 1)
        if re.match(r"[0-9]{1,9}:$", parts[0] if parts else ""):
            described[int(parts[0][:-1])] = parts[columns + 1] if len(parts) > columns + 1 else ""
    interfaces = root.entries("sys/class/net")
    numbers = {int(name) for name in root.entries("proc/irq") if re.match(r"[0-9]{1,9}$", name)}
    return [
        capture_interrupt(root, irq, described.get(irq, ""), interfaces)
        for irq in sorted(numbers | set(described))
    ]


def capture_interrupt(
    root: Root, irq: int, description: str, interfaces: "Sequence[str]"
) -> "dict[str, Any]":
    """Capture one interrupt."""
    chip, hwirq, names = split_description(description)
    here = f"proc/irq/{irq}"
    managed, shutdown = managed_state(root, irq)
    return {
        "irq": irq,
        "chip": clean_chip(chip) if chip else "",
        "hwirq": hwirq,
        "actions": [clean_name(name, interfaces) for name in names],
        "affinity": clean_list(root.read(here + "/smp_affinity_list")),
        "effective": clean_list(root.read(here + "/effective_affinity_list")),
        "node": clean_number(root.read(here + "/node")),
        "managed": managed,
        "shutdown": shutdown,
    }


def split_description(words: str) -> "tuple[str, int | None, list[str]]":
    """Split what follows the counts into chip, hwirq and the names of the actions."""
    tokens = words.split()
    # "xen-dyn -event eth0": no hwirq; what follows is a name, whatever numbers are in it.
    ends = next((at for at, token in enumerate(tokens) if token.startswith("-")), len(tokens))
    for at in range(1, ends):
        found = re.match(r"([0-9]{1,20})(?:-[A-Za-z]\S*)?$", tokens[at])
        if found:
            chip, hwirq, rest = " ".join(tokens[:at]), int(found.group(1)), tokens[at + 1 :]
            break
    else:
        chip, hwirq, rest = " ".join(tokens[:1]), None, tokens[1:]
        if rest and rest[0].startswith("-"):
            rest = rest[1:]
    if rest and rest[0] in ("Edge", "Level"):
        rest = rest[1:]
    return chip, hwirq, [name for name in " ".join(rest).split(", ") if name]


def managed_state(root: Root, irq: int) -> "tuple[bool | None, bool | None]":
    """Tell whether an interrupt is managed, and shut down; None where only root may know."""
    text = root.read(f"sys/kernel/debug/irq/irqs/{irq}")
    if text is None:
        return None, None
    return "IRQD_AFFINITY_MANAGED" in text, "IRQD_MANAGED_SHUTDOWN" in text


def capture_devices(root: Root) -> "list[dict[str, Any]]":
    """Capture the PCI devices that have message interrupts, in the order of their slots."""
    nvme = {}
    for name in root.entries("sys/class/nvme"):
        slot = root.link(f"sys/class/nvme/{name}/device")
        if NVME.match(name) and slot:
            nvme[slot] = name
    devices = []
    for slot in root.entries("sys/bus/pci/devices"):
        here = "sys/bus/pci/devices/" + slot
        irqs = [int(irq) for irq in root.entries(here + "/msi_irqs") if NUMBER.fullmatch(irq)]
        if not re.match(PCI + "$", slot) or not irqs:
            continue
        driver = root.link(here + "/driver")
        pci_class = root.read(here + "/class") or ""
        device = {
            "slot": slot,
            "class": pci_class if re.match(r"0x[0-9a-f]{6}$", pci_class) else None,
            "driver": driver if driver and WORD.fullmatch(driver) else None,
            "node": clean_number(root.read(here + "/numa_node")),
            "irqs": sorted(irqs),
            "name": nvme.get(slot),
            "queue_count": None,
        }
        if slot in nvme:
            count = root.read(f"sys/class/nvme/{nvme[slot]}/queue_count")
            device["queue_count"] = clean_number(count)
        devices.append(device)
    return devices


def capture_disks(root: Root) -> "list[dict[str, Any]]":
    """Capture the queue maps of the disks that have some, and the slot each lies behind."""
    disks = []
    for name in root.entries("sys/block"):
        here = "sys/block/" + name
        queues = {}
        for queue in root.entries(here + "/mq"):
            cpus = clean_list(root.read(f"{here}/mq/{queue}/cpu_list"))
            if NUMBER.fullmatch(queue) and cpus is not None:
                queues[queue] = cpus
        if queues and DISKS.fullmatch(name):
            path = root.resolve(here) or ""
            slots = re.findall(f"/({PCI})(?=/)", path)
            disks.append({"name": name, "slot": slots[-1] if slots else None, "queues": queues})
    return disks


def capture_nvme(root: Root) -> "dict[str, str]":
    """Capture the parameters of the nvme module."""
    values = {}
    for name in root.entries("sys/module/nvme/parameters"):
        text = root.read("sys/module/nvme/parameters/" + name) or ""
        if re.match(r"[a-z_]{1,40}$", name) and re.match(r"[0-9YN]{1,20}$", text):
            values[name] = text
    return values


def capture_cmdline(root: Root) -> "list[str]":
    """Keep the flags of the command line that matter."""
    words = (root.read("proc/cmdline") or "").split()
    if "--" in words:
        words = words[: words.index("--")]
    return [word for word in words if len(word) < 4096 and FLAGS.fullmatch(word)]


def irqbalance_runs(root: Root) -> "bool | None":
    """Tell whether irqbalance runs; None if other users' processes cannot be seen."""
    seen = [
        root.read(f"proc/{name}/comm") for name in root.entries("proc") if NUMBER.fullmatch(name)
    ]
    if "irqbalance" in seen:
        return True
    return False if root.read("proc/1/comm") is not None else None


def capture(path: str = "/") -> "dict[str, Any]":
    """Capture the machine, or a copy of its /sys and /proc under `path`."""
    root = Root(path)
    release = root.read("proc/sys/kernel/osrelease")
    arch = "x86_64" if is_x86(root) else None  # type: str | None
    if root.path == "/":
        release, arch = os.uname().release, os.uname().machine
    return {
        "format": FORMAT,
        "version": VERSION,
        "kernel": clean_release(release),
        "arch": arch,
        "topology": capture_topology(root),
        "cmdline": capture_cmdline(root),
        "nvme": capture_nvme(root),
        "irqbalance": irqbalance_runs(root),
        "interrupts": capture_interrupts(root),
        "devices": capture_devices(root),
        "disks": capture_disks(root),
    }


def main(arguments: "list[str] | None" = None) -> int:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE, not to the screen")
    parser.add_argument("--root", default="/", metavar="DIR", help="a copy of / to read instead")
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.root):
        parser.error(f"--root {options.root!r}: there is no such folder")
    document = capture(options.root)
    if not document["topology"]["possible"]:
        parser.error(f"--root {options.root!r}: there is no sys/devices/system/cpu/possible in it")
    text = json.dumps(document, indent=1, sort_keys=False) + "\n"
    try:
        if options.output:
            write_whole(options.output, text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as error:
        where = repr(options.output or "standard output")
        print(f"capture: {where} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def write_whole(path: str, text: str) -> None:
    """Write a file aside and rename it, so that a full disk leaves no half of one behind."""
    if os.path.exists(path) and not os.path.isfile(path):  # a terminal, a pipe
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    aside = f"{path}.{os.getpid()}.part"
    try:
        with open(aside, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(aside, path)
    except OSError:
        if os.path.exists(aside):
            os.remove(aside)
        raise


if __name__ == "__main__":
    sys.exit(main())
