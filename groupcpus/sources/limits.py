# SPDX-License-Identifier: GPL-2.0-only
"""How much is read of anything: what strangers made is bounded, in time and in memory.

CPUs and nodes have their bounds in `groupcpus.engine`.
"""

TEXT = 24_000_000
"""Characters: /proc/interrupts of 512 CPUs and 4,000 interrupts has about as many."""

DOCUMENT = 4_000_000
"""Characters of JSON or XML, which take up to 27 times as many bytes when parsed."""

PACKED = 8_000_000
UNPACKED = 256_000_000

PARTS = 1000
"""Of a packed file: what ``cat a.gz b.gz`` makes."""

MEMBERS = 32_000
"""Of an archive; reading a tar's takes 25 µs each.  A CPU has some 200 in /sys."""

FILES = 100_000
"""Of a directory, or kept of a tree."""

FILE = 65_536
"""Bytes of a file of the kernel, of a list in a capture, or of a member's header."""

LINES = 100_000
UNREAD = 50_000
OUTPUTS = 64
"""Of commands, in one text."""

LINE = 131_072
"""A line of /proc/interrupts of 8,192 CPUs has 90,000 characters."""

NAME = 256
COLUMNS = 64
INTERRUPTS = 12_288
IRQ = 1 << 31
QUEUES = 16_384

DISTANCES = 512
"""Nodes whose distances are read, which are a square of this; no machine has half as many."""
