# SPDX-License-Identifier: GPL-2.0-only
"""The commands of ``python -m groupcpus``, a module a kind of question."""
