# SPDX-License-Identifier: GPL-2.0-only
"""Machines with devices, probed: every interrupt on its CPU, and how good that can be."""
