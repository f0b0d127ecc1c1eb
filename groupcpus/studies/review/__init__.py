# SPDX-License-Identifier: GPL-2.0-only
"""Review a patch of lib/group_cpus.c: the kernel's own C on every machine.

`reading` finds the file in the reader's tree and applies a patch to a copy of it, `building`
compiles it against a stand-in for the kernel's headers (``c/``, written here), `running` asks it in
a child process, and `compiled` makes a `Revision` of it.  No kernel code is in the project.
"""
