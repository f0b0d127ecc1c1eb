# SPDX-License-Identifier: GPL-2.0-only
"""Sets of OS CPU numbers, read and printed as the kernel does (lib/bitmap-str.c)."""

import re
from collections.abc import Iterable, Iterator

from groupcpus.errors import CpuListError, brief

__all__ = ["MAX_CPUS", "CpuSet"]

# The greatest NR_CPUS that a distribution's x86 kernel is built with (CONFIG_MAXSMP).
MAX_CPUS = 8192

# A cpulist of every other CPU of 8192 has 19,000 characters; nothing sensible is longer.
_MAX_TEXT = 65536

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5})(?::([0-9]{1,5}))?)?", re.ASCII)


class CpuSet:
    """An immutable set of CPUs.

    Parameters
    ----------
    cpus : str or iterable of int, optional
        A *cpulist* such as ``"0-3,8"`` (strides such as ``"0-62:2"`` are accepted, a final
        newline as in sysfs too, ``""`` is the empty set), or CPU numbers from 0 to 8191.

    Raises
    ------
    CpuListError
        If a text is no cpulist, or a number is no CPU.

    Notes
    -----
    Iteration is ascending.  ``<=`` and ``<`` mean *subset*, as for `set`.  ``str()`` is the
    cpulist as the kernel prints it: ranges, never strides (``bitmap_print_to_pagebuf()``,
    lib/bitmap-str.c, Linux 6.12).

    Examples
    --------
    >>> CpuSet("0-3,8")
    CpuSet('0-3,8')
    >>> list(CpuSet("0-62:31")), len(CpuSet([5, 1])), 1 in CpuSet([5, 1])
    ([0, 31, 62], 2, True)
    >>> str(CpuSet("0-3") | CpuSet("4,5") - CpuSet("4")), CpuSet("0-1") <= CpuSet("0-3")
    ('0-3,5', True)
    >>> CpuSet("3-1")
    Traceback (most recent call last):
    groupcpus.errors.CpuListError: cpulist '3-1': the range 3-1 runs backwards
    """

    __slots__ = ("_mask",)

    _mask: int

    def __init__(self, cpus: "str | Iterable[int]" = ()) -> None:
        if isinstance(cpus, CpuSet):
            self._mask = cpus.mask
        elif isinstance(cpus, str):
            self._mask = _parse(cpus)
        else:
            self._mask = _collect(cpus)

    @classmethod
    def from_mask(cls, mask: int) -> "CpuSet":
        """Return the set of the CPUs whose bits are set in `mask`.

        Examples
        --------
        >>> CpuSet.from_mask(0b1011)
        CpuSet('0-1,3')
        """
        if type(mask) is not int or mask < 0 or mask.bit_length() > MAX_CPUS:
            raise CpuListError(f"{brief(mask)} is no mask of CPUs 0 to {MAX_CPUS - 1}")
        return _wrap(mask)

    @property
    def mask(self) -> int:
        """The set as an integer: bit ``n`` stands for CPU ``n``."""
        return self._mask

    @property
    def first(self) -> int | None:
        """The lowest CPU, or None for the empty set (``cpumask_first()``)."""
        return (self._mask & -self._mask).bit_length() - 1 if self._mask else None

    def isdisjoint(self, other: "CpuSet") -> bool:
        """Return whether no CPU is in both sets."""
        if not isinstance(other, CpuSet):
            raise CpuListError(f"{brief(other)} is no CpuSet")
        return not self._mask & other.mask

    def runs(self) -> list[range]:
        """Return the runs of CPUs that follow one another without a gap, ascending.

        Examples
        --------
        >>> CpuSet("0-3,8,10-11").runs()
        [range(0, 4), range(8, 9), range(10, 12)]
        """
        return runs_of(self._mask)

    def __iter__(self) -> Iterator[int]:
        return iter(cpus_of(self._mask))

    def __len__(self) -> int:
        return self._mask.bit_count()

    def __bool__(self) -> bool:
        return self._mask != 0

    def __contains__(self, cpu: object) -> bool:
        # CPUs out of a DataFrame are NumPy's integers.
        number = cpu.__index__() if hasattr(cpu, "__index__") else -1
        return number >= 0 and bool(self._mask >> number & 1)

    def __and__(self, other: "CpuSet") -> "CpuSet":
        return _wrap(self._mask & other._mask) if isinstance(other, CpuSet) else NotImplemented

    def __or__(self, other: "CpuSet") -> "CpuSet":
        return _wrap(self._mask | other._mask) if isinstance(other, CpuSet) else NotImplemented

    def __xor__(self, other: "CpuSet") -> "CpuSet":
        return _wrap(self._mask ^ other._mask) if isinstance(other, CpuSet) else NotImplemented

    def __sub__(self, other: "CpuSet") -> "CpuSet":
        return _wrap(self._mask & ~other._mask) if isinstance(other, CpuSet) else NotImplemented

    def __le__(self, other: "CpuSet") -> bool:
        return not self._mask & ~other._mask if isinstance(other, CpuSet) else NotImplemented

    def __lt__(self, other: "CpuSet") -> bool:
        return self <= other and self != other

    def __ge__(self, other: "CpuSet") -> bool:
        return other <= self

    def __gt__(self, other: "CpuSet") -> bool:
        return other < self

    def __eq__(self, other: object) -> bool:
        return self._mask == other._mask if isinstance(other, CpuSet) else NotImplemented

    def __hash__(self) -> int:
        return hash((CpuSet, self._mask))

    def __str__(self) -> str:
        return cpulist(self._mask)

    def __repr__(self) -> str:
        return f"CpuSet({str(self)!r})"

    def __reduce__(self) -> tuple[type["CpuSet"], tuple[str]]:
        return CpuSet, (str(self),)


def _wrap(mask: int) -> CpuSet:
    """Return the set of a mask that is known to be good."""
    made = object.__new__(CpuSet)
    made._mask = mask
    return made


def cpus_of(mask: int) -> list[int]:
    """Return the CPUs of a mask, ascending."""
    if mask.bit_count() * 16 > mask.bit_length():
        return [cpu for cpu, bit in enumerate(bin(mask)[:1:-1]) if bit == "1"]
    # A core or cluster of high numbers: its few bits are found faster than its zeros passed.
    cpus = []
    while mask:
        cpus.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return cpus


def cpulist(mask: int) -> str:
    """Return a mask as the kernel prints a cpulist."""
    return ",".join(
        f"{run.start}" if len(run) == 1 else f"{run.start}-{run.stop - 1}" for run in runs_of(mask)
    )


def runs_of(mask: int) -> list[range]:
    """Return the runs of a mask, see `CpuSet.runs`."""
    runs = []
    stop = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        length = (~mask & mask + 1).bit_length() - 1
        mask >>= length
        runs.append(range(stop + gap, stop + gap + length))
        stop += gap + length
    return runs


def _parse(text: str) -> int:
    """Return the mask of a cpulist."""
    if len(text) > _MAX_TEXT:
        raise CpuListError(f"cpulist of {len(text)} characters: at most {_MAX_TEXT} are read")
    text = text.removesuffix("\n")
    if not text:
        return 0
    mask = 0
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if not found:
            raise CpuListError(
                f"cpulist {brief(text)}: {brief(part)} is neither a CPU nor a range such as 0-3"
            )
        first = int(found[1])
        last = int(found[2] or first)
        step = int(found[3] or 1)
        if last < first:
            raise CpuListError(f"cpulist {brief(text)}: the range {part} runs backwards")
        if step < 1:
            raise CpuListError(f"cpulist {brief(text)}: the stride of {part} must be at least 1")
        if last >= MAX_CPUS:
            raise CpuListError(
                f"cpulist {brief(text)}: CPU {last} is above the highest, {MAX_CPUS - 1}"
            )
        count = (last - first) // step + 1
        # A geometric series: bits 0, step, 2 * step, ...
        mask |= (((1 << step * count) - 1) // ((1 << step) - 1)) << first
    return mask


def _collect(cpus: Iterable[int]) -> int:
    """Return the mask of CPU numbers."""
    try:
        if isinstance(cpus, bytes | bytearray):
            raise TypeError  # a text that was not decoded, not a collection of small numbers
        numbers = iter(cpus)
    except TypeError:
        raise CpuListError(
            f"{brief(cpus)} is neither a cpulist nor a collection of CPU numbers"
        ) from None
    mask = 0
    for cpu in numbers:
        if isinstance(cpu, bool) or not hasattr(cpu, "__index__"):
            raise CpuListError(f"{brief(cpu)} is no CPU number")
        number = cpu.__index__()
        if not 0 <= number < MAX_CPUS:
            raise CpuListError(f"{brief(number)} is no CPU from 0 to {MAX_CPUS - 1}")
        mask |= 1 << number
    return mask
