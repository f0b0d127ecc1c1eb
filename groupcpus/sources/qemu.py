# SPDX-License-Identifier: GPL-2.0-only
"""What the arguments of QEMU tell of a recorded machine."""

import re

from groupcpus.sources.found import release_version

__all__ = ["irqchip_of_qemu", "translation_service"]


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
    return translation_service(release)


def translation_service(release: str) -> str:
    """Return what the translation service of a kernel does, a name in `IRQCHIPS`.

    Examples
    --------
    >>> [translation_service(release) for release in ("5.4.0-rc1", "6.12.117", "built here")]
    ['its-first', 'its', 'its']
    """
    version = release_version(release)
    return "its-first" if version and version < (5, 8) else "its"
