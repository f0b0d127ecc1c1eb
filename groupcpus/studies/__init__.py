# SPDX-License-Identifier: GPL-2.0-only
"""Questions asked of many machines: claims, sweeps, a better rotation, latency, lessons."""
