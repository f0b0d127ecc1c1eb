# SPDX-License-Identifier: GPL-2.0-only
"""Reads the fields of recordings; every error names the file, the field and what was expected."""

import re
from collections.abc import Mapping
from typing import Any

from groupcpus.engine.cpuset import CpuSet
from groupcpus.errors import CpuListError, FormatError, brief

__all__ = ["MAX_QUEUES", "Fields"]

MAX_QUEUES = 4096

_NUMBER = re.compile("[0-9]{1,9}")
_KINDS: dict[type, str] = {Mapping: "a table", list: "a list", str: "a text"}


class Fields:
    """A table of a JSON document.

    Parameters
    ----------
    doc : object
        What should be a table.
    where : str
        What errors call it: the file, and the way to the table in it.

    Raises
    ------
    FormatError
        If it is none; and from all methods, if a field is not what it should be.
    """

    def __init__(self, doc: object, where: str) -> None:
        if not isinstance(doc, Mapping):
            raise FormatError(where, f"{brief(doc)} is no table of fields")
        self.doc: Mapping[str, Any] = doc
        self.where = where

    def only(self, known: set[str]) -> None:
        """Refuse fields that are not known."""
        if unknown := sorted(map(str, set(self.doc) - known)):
            raise FormatError(self.where, f"unknown field {brief(unknown[0])}")

    def path(self, key: str) -> str:
        """Return what errors call a field: the file, and the way to the field in it."""
        return f"{self.where}{'.' if ': ' in self.where else ': '}{key}"

    def wrong(self, key: str, value: object, expected: str) -> FormatError:
        """Return the error of a field that is not what it should be."""
        found = brief(value) if key.partition("[")[0] in self.doc else "missing"
        return FormatError(self.path(key), f"{found}; expected {expected}")

    def get(self, key: str, kind: Any, default: Any = None) -> Any:
        """Return a field of a kind: Mapping, list or str."""
        value = self.doc.get(key, default)
        if not isinstance(value, kind):
            raise self.wrong(key, value, _KINDS[kind])
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text."""
        return self.get(key, str, default)

    def table(self, key: str, default: Any = None) -> "Fields":
        """Return a table in this one."""
        return Fields(self.get(key, Mapping, default), self.path(key))

    def tables(self, key: str, default: Any = None, most: int = MAX_QUEUES) -> "list[Fields]":
        """Return a list of tables."""
        entries = self.entries(key, default, most)
        return [Fields(entry, self.path(f"{key}[{at}]")) for at, entry in enumerate(entries)]

    def entries(self, key: str, default: Any = None, most: int = MAX_QUEUES) -> list[Any]:
        """Return a list of at most so many entries."""
        entries = self.get(key, list, default)
        if len(entries) > most:
            raise self.wrong(key, len(entries), f"at most {most} entries")
        return entries

    def natural(self, key: str, least: int = 0, most: int = MAX_QUEUES) -> int:
        """Return a whole number."""
        value = self.doc.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            found = brief(value)
            raise FormatError(self.path(key), f"{found} is no whole number from {least} to {most}")
        return value

    def number(self, key: str, value: object) -> int:
        """Return a whole number that is written as a number or a text."""
        if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)[:10]):
            raise self.wrong(key, value, "a number")
        return int(str(value))

    def cpus(self, key: str, value: object) -> CpuSet:
        """Return the CPUs of a list of numbers."""
        if not isinstance(value, list):
            raise self.wrong(key, value, "a list of CPUs")
        try:
            return CpuSet(value)
        except CpuListError as error:
            raise FormatError(self.path(key), str(error)) from None

    def words(self, key: str, default: str | None = None) -> list[str]:
        """Return the words of a text."""
        words = self.text(key, default).split()
        if len(words) > MAX_QUEUES:
            raise self.wrong(key, len(words), f"at most {MAX_QUEUES} words")
        return words

    def numbers(self, key: str, default: str | None = None) -> tuple[int, ...]:
        """Return the numbers in a text."""
        words = self.words(key, default)
        for word in words:
            if not _NUMBER.fullmatch(word):
                raise FormatError(self.path(key), f"{brief(word)} is no whole number")
        return tuple(map(int, words))

    def cpu_numbers(
        self, key: str, possible: CpuSet, default: str | None = None
    ) -> tuple[int, ...]:
        """Return the CPUs in a text, each of which is possible."""
        cpus = self.numbers(key, default)
        for cpu in cpus:
            if cpu not in possible:
                raise FormatError(self.path(key), f"CPU {cpu} is not possible ({possible} are)")
        return cpus

    def cpu_sets(self, key: str, possible: CpuSet) -> tuple[CpuSet, ...]:
        """Return the cpulists in a text, ``-`` for none; each CPU is possible."""
        try:
            sets = tuple(CpuSet("" if word == "-" else word) for word in self.words(key))
        except CpuListError as error:
            raise FormatError(self.path(key), str(error)) from None
        for cpus in sets:
            if beyond := cpus - possible:
                raise FormatError(
                    self.path(key), f"CPUs {beyond} are not possible ({possible} are)"
                )
        return sets
