# SPDX-License-Identifier: GPL-2.0-only
"""Captures made of recordings and of made-up machines, as capture.py would write them."""

from groupcpus.engine.cpuset import CpuSet
from groupcpus.sources.capture import FLAGS, FORMAT, VERSION

CLASSES = {"nvme": "0x010802", "virtio_blk": "0x010000", "net": "0x020000"}


def distinct(sets):
    return list(dict.fromkeys(map(str, sets)))


def capture(topology, *, arch="x86_64", kernel="6.12.9", **more):
    """Give a capture without interrupts; `more` sets its other fields."""
    # CPUs without siblings are told alone, offline ones not at all.
    told = topology.online
    return {
        "format": FORMAT,
        "version": VERSION,
        "kernel": kernel,
        "arch": arch,
        "topology": {
            "possible": str(topology.possible),
            "present": str(topology.present),
            "online": str(topology.online),
            "isolated": "",
            "nohz_full": None,
            "nodes": {str(node): str(cpus) for node, cpus in topology.nodes.items()},
            "possible_nodes": None,
            "online_nodes": None,
            "cpu_node": {},
            "distances": {},
            "siblings": distinct(topology.siblings_of(cpu) for cpu in told),
            "clusters": [str(cpus) for cpus in topology.clusters],
            "cluster_source": "cluster_cpus_list",
            "no_cluster": str(topology.no_cluster),
            "untold": str(topology.present - told),
        },
        "cmdline": [],
        "nvme": {},
        "irqbalance": False,
        "interrupts": [],
        "devices": [],
        "disks": [],
    } | more


def add_device(document, name, slot, vectors, *, driver, node=0, told_node=None, managed=None):
    """Add a device: vectors are (name, affinity, effective), None as an affinity is not told."""
    first = 24 + len(document["interrupts"])
    for hwirq, (action, affinity, effective) in enumerate(vectors):
        document["interrupts"].append(
            {
                "irq": first + hwirq,
                "chip": f"PCI-MSIX-{slot}" if document["arch"] == "x86_64" else "ITS-MSI",
                "hwirq": hwirq,
                "actions": [action] if action else [],
                "affinity": None if affinity is None else str(affinity),
                "effective": None if effective is None else str(effective),
                "node": node if told_node is None else told_node(CpuSet(str(affinity))),
                "managed": managed(action) if managed else None,
                "shutdown": None,
            }
        )
    kind = "nvme" if driver == "nvme" else "virtio_blk" if driver == "virtio-pci" else "net"
    document["devices"].append(
        {
            "slot": slot,
            "class": CLASSES[kind],
            "driver": driver,
            "node": node,
            "irqs": list(range(first, first + len(vectors))),
            "name": name if driver == "nvme" else None,
            "queue_count": len(vectors) if driver == "nvme" else None,
        }
    )
    return document


def of_recording(recording, *, rebind=False):
    """Give the capture that capture.py would have made where a recording was."""
    document = capture(
        recording.topology,
        arch="aarch64" if recording.arch == "arm64" else recording.arch,
        kernel=recording.kernel,
        cmdline=[word for word in recording.cmdline.split() if FLAGS.fullmatch(word)],
        nvme={
            "write_queues": str(recording.write_queues),
            "poll_queues": str(recording.poll_queues),
        },
    )
    for device in recording.rebind if rebind else recording.devices:
        vectors = [
            (f"{device.name}q{queue}", mask, effective)
            for queue, (mask, effective) in enumerate(
                zip(device.masks, device.effective, strict=True)
            )
        ]
        node = min(node for node, cpus in recording.topology.nodes.items() if cpus)
        add_device(document, device.name, device.pci, vectors, driver="nvme", node=node)
        document["devices"][-1]["queue_count"] = 1 + len(device.maps)
        document["disks"].append(
            {
                "name": f"{device.name}n1",
                "slot": device.pci,
                "queues": {str(at): str(cpus) for at, cpus in enumerate(device.maps)},
            }
        )
    return document
