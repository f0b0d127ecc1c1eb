# SPDX-License-Identifier: GPL-2.0-only
"""Inputs as large as the bounds allow, or larger, and small ones that unpack to much."""

import gzip
from collections.abc import Callable, Iterator

__all__ = ["large"]


def large() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Give inputs as large as the bounds allow, or larger."""
    yield "lines", lambda: b"\n" * 23_000_000
    yield "one line", lambda: b"CPU0 " * 4_000_000
    yield "spaces", lambda: b"1:" + b" " * 20_000_000
    yield "list", lambda: b"NUMA node0 CPU(s): " + b"0-8191:2," * 7000 + b"0\n"
    yield (
        "listed nodes",
        lambda: b"\n".join(
            b"NUMA node%d CPU(s): %d-%d" % (node, node * 8, node * 8 + 7) for node in range(1024)
        ),
    )
    yield (
        "dump",
        lambda: b"".join(
            b"/proc/irq/%d/smp_affinity_list:8191\n/proc/irq/%d/effective_affinity_list:8191\n"
            % (irq, irq)
            for irq in range(12_288)
        ),
    )
    yield (
        "unknown lines",
        lambda: b"irq 1 affinity 1 effective 1\n" + b"what is this: 1\n" * 99_000,
    )
    yield (
        "queues",
        lambda: b"".join(
            b"/sys/block/nvme0n1/mq/%d/cpu_list:8191\n" % queue for queue in range(16384)
        ),
    )
    yield (
        "interrupts",
        lambda: (
            b" ".join(b"CPU%d" % cpu for cpu in range(8192))
            + b"\n"
            + b"".join(b"%d: %s IO-APIC 1-edge x\n" % (irq, b"0 " * 8192) for irq in range(1400))
        ),
    )
    yield (
        "lscpu -p",
        lambda: (
            b"# CPU,Core,Socket,Node,,L2\n"
            + b"".join(
                b"%d,%d,0,%d,,%d\n" % (cpu, cpu // 2, cpu // 8, cpu // 4) for cpu in range(8192)
            )
        ),
    )
    yield (
        "numactl",
        lambda: (
            b"available: 512 nodes (0-511)\n"
            + b"".join(b"node %d cpus: %d\n" % (node, node) for node in range(512))
            + b"node "
            + b" ".join(b"%d" % node for node in range(512))
            + b"\n"
            + b"".join(b"%d: %s\n" % (node, b"10 " * 512) for node in range(512))
        ),
    )
    yield "JSON", lambda: b'{"cpus": [' + b"[]," * 830_000 + b"[]]}"
    yield "JSON nested", lambda: b'{"cpus": ' + b"[" * 4_000_000
    yield (
        "XML",
        lambda: (
            b"<topology>"
            + b'<object type="PU" os_index="1" cpuset="0x3"/>'
            + b'<object type="Core" cpuset="0x3"/>' * 160_000
            + b"</topology>"
        ),
    )
    yield (
        "XML bitmaps",
        lambda: (
            b"<topology>"
            + b"".join(
                b'<object type="PU" os_index="%d" cpuset="%s"/>'
                % (cpu, b"0xffffffff," * 255 + b"0x1")
                for cpu in range(8192)
            )
            + b"</topology>"
        ),
    )
    yield "XML attribute", lambda: b'<topology a="' + b"x" * 20_000_000 + b'"/>'
    header = b" ".join(b"CPU%d" % cpu for cpu in range(8192)) + b"\n"
    yield "pieces of counts", lambda: header + b"1: 0\n" + b"0\n" * 49_000
    yield "pieces of names", lambda: header + b"1: " + b"0 " * 8192 + b"\n" + b"x\n" * 49_000
    yield (
        "strided masks",
        lambda: b"".join(b"irq %d affinity 0-8191:2 effective 1\n" % irq for irq in range(12_288)),
    )
    yield "empty parts.gz", lambda: gzip.compress(b"") * 390_000
    yield "zeros.gz", lambda: gzip.compress(bytes(250_000_000), 1)
    yield "tar of zeros", lambda: gzip.compress(cheap_tar(1, 250_000_000), 1)
    yield "tar of members", lambda: gzip.compress(cheap_tar(99_000, 0), 1)


def cheap_tar(members: int, size: int) -> bytes:
    """Make a tar of empty or long members, cheaply."""
    header = bytearray(512)
    header[0:4], header[124:136], header[156:157] = b"name", b"%011o\0" % size, b"0"
    header[148:156] = b"%06o\0 " % (sum(header) + 8 * 32)
    return (bytes(header) + bytes(size + -size % 512)) * members + bytes(1024)
