# SPDX-License-Identifier: GPL-2.0-only
"""Load machines from what people have: copies of /sys, lscpu, hwloc, numactl, /proc, captures.

One module reads one format into `facts.Facts`; `combine` makes a machine of them; everything comes
in by one `door`.
"""

from groupcpus.sources.combine import Loaded, LoadedMachine
from groupcpus.sources.door import load, load_machine, load_topology
from groupcpus.sources.facts import ShownInterrupt

__all__ = ["Loaded", "LoadedMachine", "ShownInterrupt", "load", "load_machine", "load_topology"]
