# SPDX-License-Identifier: GPL-2.0-only
"""The algorithm: CPU sets, topologies, ``group_cpus_evenly()``, the irqchips, ``irq_setup()``."""
