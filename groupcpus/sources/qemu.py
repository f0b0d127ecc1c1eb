# SPDX-License-Identifier: GPL-2.0-only
"""What the arguments of QEMU tell of a recorded machine."""

import re

__all__ = ["irqchip_of_qemu", "is_before"]


def irqchip_of_qemu(arch: str, release: str, qemu: str) -> str | None:
    """Return the irqchip, a name in `IRQCHIPS`, that a machine in QEMU has.

    Parameters
    ----------
    arch : {"x86_64", "arm64"}
        The architecture; for arm64 the machine's arguments decide.
    release : str
        The kernel's release: before 5.8 the translation service took the first CPU of a mask.
    qemu : str
        QEMU's arguments.

    Returns
    -------
    str or None
        None if they do not tell it.

    Examples
    --------
    >>> irqchip_of_qemu("arm64", "7.3.4", "qemu-system-aarch64 -machine virt,gic-version=2")
    'gicv2m'
    >>> irqchip_of_qemu("arm64", "7.3.4", "qemu-system-aarch64 -machine virt,gic-version=3")
    'its'
    """
    if arch == "x86_64":
        return "x86"
    version = re.search(r"\bgic-version=([0-9])\b", qemu)
    if not version:
        return None
    if version[1] == "2":
        return "gicv2m"
    if re.search(r"\bits=off\b", qemu):
        return "gicv3"
    return "its-first" if is_before(release, (5, 8)) else "its"


def is_before(release: str, version: tuple[int, int]) -> bool:
    """Return whether a kernel's release is known to be before a version.

    Examples
    --------
    >>> is_before("5.4.0-rc1", (5, 8)), is_before("6.12.117", (5, 8)), is_before("mine", (5, 8))
    (True, False, False)
    """
    found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", release)
    return found is not None and (int(found[1]), int(found[2])) < version
