# SPDX-License-Identifier: GPL-2.0-only
"""The rows of a sweep on disk, so that one that was interrupted goes on: one Parquet file a job.

Nothing is believed that cannot be checked.  ``sweep.json`` names the sweep by the fingerprints of
its jobs.  Each part carries which job's rows it has, which rows these are of the whole, and a
checksum of what was computed; a part that does not fit, or that cannot be read, is computed again.
Everything is written under another name and then renamed, so a kill at any moment leaves whole
files.  A lock, which the system takes from a process that ends, keeps a second sweep out.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupcpus.errors import FormatError, InterruptedSweepError

if TYPE_CHECKING:
    import pandas as pd

try:
    import fcntl
except ImportError:  # Windows, where a second sweep is not noticed
    fcntl = None  # type: ignore[assignment]

__all__ = ["Folder", "StoredPart"]

_LABEL = "sweep.json"
_LOCK = "sweep.lock"
_UNFINISHED = ".unfinished"
_KEY = b"groupcpus"


@dataclass(frozen=True)
class StoredPart:
    """What a job's file must be: whose rows, and which of the whole."""

    job: str
    """Fingerprint of everything that the rows depend on."""
    first: int
    rows: int

    def tag(self, frame: "pd.DataFrame") -> dict[str, Any]:
        """Return what is stored beside the rows of a frame."""
        return {**vars(self), "checksum": checksum(frame)}


def checksum(frame: "pd.DataFrame") -> str:
    """Return the SHA-256 of a frame's columns, types and values."""
    from pandas.util import hash_pandas_object

    text = hashlib.sha256(repr([*frame.dtypes.astype(str).items()]).encode())
    for name in frame:
        text.update(hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return text.hexdigest()


class Folder:
    """A folder with the parts of one sweep.

    Parameters
    ----------
    path : Path
        The folder; made if it is not there.
    parts : sequence of StoredPart
        All jobs of the sweep, in order.
    """

    def __init__(self, path: Path, parts: Sequence[StoredPart]) -> None:
        self.path = path
        self.parts = parts
        self.distrusted: dict[int, str] = {}
        """Jobs whose file was there and could not be trusted, and why."""

    @contextmanager
    def opened(self) -> Iterator["Folder"]:
        """Hold the folder's lock; make its label or check it.

        Raises
        ------
        FormatError
            If the folder belongs to another sweep or to something else, or is in use.
        InterruptedSweepError
            If the folder cannot be written.
        """
        with self.writing("the folder"):
            self.path.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self.check_label()
            yield self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock; an error names who else does."""
        # Another one's files are left alone, and not even a lock is put beside them.
        self.check_owner()
        if fcntl is None:
            yield
            return
        with self.writing(_LOCK):
            file = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(file, 100).decode("ascii", "replace").strip()
                raise FormatError(
                    str(self.path),
                    f"another sweep ({holder if holder.isprintable() else '?'}) is writing here; "
                    "wait for it, or choose another folder",
                ) from None
            with self.writing(_LOCK):
                os.ftruncate(file, 0)
                os.pwrite(file, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
            yield
        finally:
            os.close(file)

    def check_owner(self) -> None:
        """Refuse a folder that holds something and no sweep."""
        ours = (_LOCK, _LABEL + _UNFINISHED)
        label = self.path / _LABEL
        if not label.exists() and any(file.name not in ours for file in self.path.iterdir()):
            raise FormatError(
                str(self.path), "is not empty and holds no sweep; choose another folder"
            )

    def check_label(self) -> None:
        """Refuse a folder of another sweep; label one that has no label yet."""
        file = self.path / _LABEL
        jobs = hashlib.sha256("\n".join(part.job for part in self.parts).encode()).hexdigest()
        label = {"format": 2, "jobs": len(self.parts), "sweep": jobs}
        if not file.exists():
            with self.writing(_LABEL), _aside(file) as unfinished:
                unfinished.write_text(json.dumps(label) + "\n", encoding="utf-8")
            return
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise FormatError(
                str(file), f"not a JSON file: {error}; remove this folder or choose another one"
            ) from None
        if found != label:
            raise FormatError(
                str(file),
                "belongs to another sweep, or to the same one before its revisions or groupcpus "
                "changed; remove this folder or choose another one",
            )

    def file(self, at: int) -> Path:
        """Return the file of a job's rows."""
        return self.path / f"part-{at:05}.parquet"

    def read(self, at: int) -> "pd.DataFrame | None":
        """Return the rows of a job; None if they are not there or cannot be trusted."""
        file = self.file(at)
        if not file.exists():
            return None
        try:
            frame, tag = _read(file)
            if tag == self.parts[at].tag(frame):
                return frame
            self.distrusted[at] = "holds other rows than those computed for it"
        except Exception as error:  # any of a library's: the rows can be computed again
            self.distrusted[at] = f"cannot be read ({type(error).__name__})"
        return None

    def write(self, at: int, frame: "pd.DataFrame") -> None:
        """Store the rows of a job.

        Raises
        ------
        InterruptedSweepError
            If they cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(frame, preserve_index=False)
        tag = json.dumps(self.parts[at].tag(frame)).encode()
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: tag})
        with self.writing(self.file(at).name), _aside(self.file(at)) as unfinished:
            pq.write_table(table, unfinished)

    @contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Turn the system's error into one that says how to go on."""
        try:
            yield
        except OSError as error:
            raise InterruptedSweepError(
                f"{self.path}: {what} cannot be written ({error.strerror or error}); finished "
                "parts are kept: make room and start the same sweep again to go on"
            ) from error


def _read(file: Path) -> tuple["pd.DataFrame", dict[str, Any]]:
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    return table.to_pandas(), json.loads((table.schema.metadata or {})[_KEY])


@contextmanager
def _aside(file: Path) -> Iterator[Path]:
    """Write under another name; what has the name is whole."""
    unfinished = file.with_name(file.name + _UNFINISHED)
    try:
        yield unfinished
        unfinished.replace(file)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
