# SPDX-License-Identifier: GPL-2.0-only
"""Predictions beside what real kernels did."""
