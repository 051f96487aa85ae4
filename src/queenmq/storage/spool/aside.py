"""The set-aside area: records that could not be drained, until an operator handles them.

A record that was refused is a whole entry of the log here, and can be put back into the spool. A
range of bytes that cannot be read is copied to a file of its own, and its entry names that file; it
stays. Nothing here counts against the bound of the spool.

On a full disk an entry takes the room of the reserve, and a range is linked instead of copied.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from queenmq.clock import unix_ms
from queenmq.storage.spool.framing import encode
from queenmq.storage.spool.position import Place
from queenmq.storage.spool.private_files import (
    make_directory,
    open_private,
    sync_directory,
    write_at,
)
from queenmq.storage.spool.reserve import Reserve, is_no_room
from queenmq.storage.spool.segments import CHUNK_BYTES, AppendFailed, SegmentLog, Unreadable

#: Characters of a reason that are kept.
REASON_LENGTH_MAX = 2000
#: Bytes that an entry may add to the body it holds.
ENTRY_BYTES_EXTRA = 16 * 1024

_SEGMENT_BYTES = 16 * 1024 * 1024


class AsideEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing set aside: a body, or the name of the file that holds a range that was unreadable.

    The range begins at byte `start` of that file.
    """

    reason: str
    size_bytes: int
    body: bytes = b""
    file: str = ""
    start: int = 0
    #: When, in milliseconds since 1970; 0 in entries of versions that did not note it.
    at_ms: int = 0


class Aside:
    """The area of one spool. The caller holds the append lock for everything that writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        make_directory(directory)
        self._log = SegmentLog(directory, segment_bytes=_SEGMENT_BYTES)
        self.reserve = Reserve(directory / "reserve")

    def close(self) -> None:
        self._log.close()

    def add(self, body: bytes, reason: str, *, end: Place) -> tuple[Place, int]:
        """Append a refused record; return the log's new end and what counts as its bytes."""
        entry = AsideEntry(
            reason=reason[:REASON_LENGTH_MAX], size_bytes=len(body), body=body, at_ms=unix_ms()
        )
        return self._write(entry, end), entry.size_bytes

    def add_range(
        self, source: Path, start: int, stop: int, reason: str, *, end: Place, may_link: bool
    ) -> tuple[Place, int]:
        """Copy bytes of a file that cannot be read as records. Doing it twice leaves one copy.

        With `may_link` the file itself is kept when there is no room for a copy. It must not be
        cut afterwards.
        """
        target = self._directory / f"{source.stem}-{start}.bin"
        # One of an earlier try may be the source itself, which must not be overwritten.
        target.unlink(missing_ok=True)
        try:
            copied, at = _copy(source, start, stop, target), 0
        except OSError as error:
            target.unlink(missing_ok=True)
            if not (may_link and is_no_room(error)):
                raise
            os.link(source, target)
            copied, at = stop - start, start
        sync_directory(self._directory)
        entry = AsideEntry(
            reason=reason[:REASON_LENGTH_MAX],
            size_bytes=copied,
            file=target.name,
            start=at,
            at_ms=unix_ms(),
        )
        return self._write(entry, end), entry.size_bytes

    def numbers(self) -> list[int]:
        """List the segments of the log, oldest first."""
        return self._log.numbers()

    def entries(self) -> Iterator[AsideEntry]:
        """Return the readable records that were set aside."""
        for number in self._log.numbers():
            for _, entry in self.entries_of(number):
                yield entry

    def entries_of(self, number: int) -> Iterator[tuple[Place, AsideEntry]]:
        """Yield the entries of one segment, each with its place, up to the first unreadable one."""
        at = 0
        try:
            for body, end in self._log.records(number, start=0, stop=self._log.size(number)):
                yield Place(number, at), msgspec.msgpack.decode(body, type=AsideEntry)
                at = end
        except (Unreadable, msgspec.DecodeError, FileNotFoundError):
            return

    def replace(self, number: int, kept: Sequence[AsideEntry]) -> None:
        """Leave only these entries in a segment, durably, and whatever is unreadable behind them.

        Stopped anywhere, it leaves the segment as it was.
        """
        path = self._log.path(number)
        rest = self._unreadable_rest(number)
        if kept or rest:
            new = path.with_suffix(".new")
            descriptor = open_private(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                frames = [encode(msgspec.msgpack.encode(entry)) for entry in kept]
                write_at(descriptor, b"".join([*frames, rest]), 0)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            new.replace(path)
        else:
            path.unlink(missing_ok=True)
        sync_directory(self._directory)

    def recount(self) -> tuple[Place, int, int]:
        """Find the log's end, its entries and their bytes, after a start.

        A log whose end is torn is left as it is, and the next entry opens a new file.
        """
        found = [entry.size_bytes for entry in self.entries()]
        last = max(self._log.numbers(), default=0)
        return Place(last + 1, 0), len(found), sum(found)

    def _write(self, entry: AsideEntry, end: Place) -> Place:
        frame = encode(msgspec.msgpack.encode(entry))
        try:
            return self._log.append(frame, end=end)
        except AppendFailed as error:
            if not (error.is_no_room and self.reserve.release()):
                raise
            return self._log.append(frame, end=error.end)

    def _unreadable_rest(self, number: int) -> bytes:
        """Return the bytes after the last readable entry."""
        start = 0
        with contextlib.suppress(Unreadable, FileNotFoundError):
            for _, end in self._log.records(number, start=0, stop=self._log.size(number)):
                start = end
        with contextlib.suppress(FileNotFoundError):
            return self._log.path(number).read_bytes()[start:]
        return b""


def _copy(source: Path, start: int, stop: int, target: Path) -> int:
    """Copy a range durably, and return how many bytes there were."""
    reading = open_private(source, os.O_RDONLY)
    try:
        writing = open_private(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            at = start
            while piece := os.pread(reading, min(CHUNK_BYTES, stop - at), at):
                write_at(writing, piece, at - start)
                at += len(piece)
            os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return at - start
