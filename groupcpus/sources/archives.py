# SPDX-License-Identifier: GPL-2.0-only
"""Packed files: gzip, bzip2 and xz of anything, and tar and zip of trees, never unpacked to disk.

What a file unpacks to is bounded, and so are its parts: a small file may unpack to terabytes, or
consist of a million empty ones.
"""

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from groupcpus.errors import FormatError, brief
from groupcpus.sources import limits
from groupcpus.sources.sysfs import Tree

__all__ = ["is_tar", "is_zip", "read_tar", "read_zip", "unpacked"]

_MEMORY = 100_000_000
_CHUNK = 1 << 16
_EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


class _Gzip:
    """A decompressor of gzip with the interface that those of bz2 and lzma have."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    def decompress(self, data: bytes, most: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, most)


_FORMS: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", _Gzip),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY)),
)


class _Unpacking(io.RawIOBase):
    """A stream of what a packed file holds, part by part."""

    def __init__(self, data: bytes, make: Callable[[], Any], where: str) -> None:
        self._make, self._where = make, where
        self._data, self._at = data, 0
        self._decoder = make()
        self._parts = 1
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._decoder.eof and not self._next_part():
                return 0
            # A piece at a time: a part's rest is copied when the part ends.
            data = self._data[self._at : self._at + _CHUNK] if self._decoder.needs_input else b""
            self._at += len(data)
            try:
                found = self._decoder.decompress(data, len(buffer))
            except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
                raise FormatError(self._where, f"cannot be unpacked: {error}") from None
            if found:
                self._size += len(found)
                if self._size > limits.UNPACKED:
                    raise FormatError(self._where, f"more than {limits.UNPACKED} bytes unpacked")
                buffer[: len(found)] = found
                return len(found)
            if not self._decoder.eof and self._decoder.needs_input and self._at == len(self._data):
                raise FormatError(self._where, "cannot be unpacked: it ends too early")

    def _next_part(self) -> bool:
        self._at -= len(self._decoder.unused_data)
        if not self._data[self._at : self._at + _CHUNK].strip(b"\0"):
            return False
        self._parts += 1
        if self._parts > limits.PARTS:
            raise FormatError(self._where, f"more than {limits.PARTS} packed parts")
        self._decoder = self._make()
        return True


def unpacked(file: io.BufferedReader, where: str) -> io.BufferedReader:
    """Return a stream of what a file holds if it is packed, else the file.

    Raises
    ------
    FormatError
        If it is packed and too big; later, when read, if it is damaged.
    """
    head = file.peek(8)
    for magic, make in _FORMS:
        if head.startswith(magic):
            data = file.read(limits.PACKED + 1)
            if len(data) > limits.PACKED:
                raise FormatError(where, f"more than {limits.PACKED} packed bytes")
            return io.BufferedReader(_Unpacking(data, make, where), _CHUNK)
    return file


def is_tar(head: bytes) -> bool:
    """Return whether a file begins as a tar archive does."""
    try:
        return len(head) == tarfile.BLOCKSIZE and bool(
            head[257:262] == b"ustar" or tarfile.TarInfo.frombuf(head, "utf-8", "replace").name
        )
    except tarfile.TarError:
        return False


class _Member(tarfile.TarInfo):
    """A member whose header is whole, and whose extended headers, kept in memory, are small."""

    # Not frombuf(): from some patch releases on (3.14.8 is one) tarfile no longer calls it.
    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> "_Member":
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise  # blocks of zeros are the archive's end
        except tarfile.HeaderError as error:
            # tarfile would take this as its end, too.
            raise FormatError("archive", f"the archive is damaged: {error}") from None

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        kept = self.type in _EXTENDED or self.type not in tarfile.SUPPORTED_TYPES
        if kept and self.size > limits.FILE:
            raise FormatError("archive", f"a member's header has {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


class _Bounded(io.RawIOBase):
    """A stream that refuses to go on for ever."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream, self._where, self._left = stream, where, limits.UNPACKED

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise FormatError(self._where, f"more than {limits.UNPACKED} bytes")
        return data


def read_tar(stream: BinaryIO, where: str) -> Tree:
    """Read the members of a tar archive that are known, in one pass.

    Raises
    ------
    FormatError
        If it is damaged, holds a path that leaves it, or is too big.
    """
    tree = Tree(where)
    bounded: Any = _Bounded(stream, where)
    try:
        with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Member, bufsize=_CHUNK) as archive:
            _read_members(archive, tree)
        while stream.read(_CHUNK):
            pass  # to the end, so that a packed file's sum is checked
    except (tarfile.TarError, OSError, EOFError, ValueError, IndexError) as error:
        if isinstance(error, FormatError):
            raise FormatError(where, error.what) from None
        raise FormatError(where, f"the archive is damaged: {error}") from None
    return tree


def _read_members(archive: tarfile.TarFile, tree: Tree) -> None:
    for _ in range(limits.MEMBERS):
        member = archive.next()
        if member is None:
            return
        # Of a stream that is read once nothing has to be remembered.
        archive.members = []  # type: ignore[attr-defined]
        _check_path(tree.where, member.name)
        if member.issym() or member.islnk():
            tree.add_link(member.name)
        elif member.isfile() and (key := Tree.key(member.name)):
            size = min(Tree.limit(key), member.size)
            file = archive.extractfile(member)
            data = file.read(size) if file else b""
            if len(data) < size:
                raise FormatError(tree.where, "the archive ends too early")
            tree.add(member.name, data)
    raise FormatError(
        tree.where,
        f"more than {limits.MEMBERS} members: pack but cpu*/topology, cpu*/cache and node, "
        "or run capture.py there",
    )


def _check_path(where: str, name: str) -> None:
    if name.startswith("/") or (".." in name and ".." in name.split("/")):
        raise FormatError(where, f"{brief(name)}: a member may not leave the archive")


def is_zip(head: bytes) -> bool:
    """Return whether a file begins as a zip archive does."""
    return head.startswith(b"PK\x03\x04")


def read_zip(file: BinaryIO, where: str) -> Tree:
    """Read the members of a zip archive that are known.

    Raises
    ------
    FormatError
        If it is damaged, encrypted or too big.
    """
    tree = Tree(where)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > limits.MEMBERS:
                raise FormatError(where, f"more than {limits.MEMBERS} members")
            for member in members:
                _check_path(where, member.filename)
                if key := Tree.key(member.filename):
                    with archive.open(member) as packed:
                        tree.add(member.filename, packed.read(Tree.limit(key)))
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FormatError(where, f"the archive is damaged: {error}") from None
    except (RuntimeError, NotImplementedError) as error:
        raise FormatError(where, f"the archive cannot be read: {error}") from None
    return tree
