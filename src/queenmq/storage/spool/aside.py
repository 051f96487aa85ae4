"""The set-aside area: what draining could not use, kept for a person to look at.

A record that was refused is a whole entry of the log here. A range of bytes that cannot be read is
copied to a file of its own, and its entry names that file. Nothing here is ever deleted by us, and
it does not count against the bound of the spool.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from queenmq.storage.spool.framing import encode
from queenmq.storage.spool.position import Place
from queenmq.storage.spool.private_files import (
    make_directory,
    open_private,
    sync_directory,
    write_at,
)
from queenmq.storage.spool.segments import CHUNK_BYTES, SegmentLog, Unreadable

#: Characters of a reason that are kept.
REASON_LENGTH_MAX = 2000
#: Bytes that an entry may add to the body it holds.
ENTRY_BYTES_EXTRA = 16 * 1024

_SEGMENT_BYTES = 16 * 1024 * 1024


class AsideEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing set aside: a body, or the name of the file that holds a copied range."""

    reason: str
    size_bytes: int
    body: bytes = b""
    file: str = ""


class Aside:
    """The area of one spool. The caller holds the append lock for everything but `entries`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        make_directory(directory)
        self._log = SegmentLog(directory, segment_bytes=_SEGMENT_BYTES)

    def close(self) -> None:
        self._log.close()

    def add(self, body: bytes, reason: str, *, end: Place) -> tuple[Place, int]:
        """Append a refused record; return the log's new end and what counts as its bytes."""
        entry = AsideEntry(reason=reason[:REASON_LENGTH_MAX], size_bytes=len(body), body=body)
        return self._write(entry, end), entry.size_bytes

    def add_range(
        self, source: Path, start: int, stop: int, reason: str, *, end: Place
    ) -> tuple[Place, int]:
        """Copy bytes of a file that cannot be read as records. Doing it twice leaves one copy."""
        name = f"{source.stem}-{start}.bin"
        copied = _copy(source, start, stop, self._directory / name)
        sync_directory(self._directory)
        entry = AsideEntry(reason=reason[:REASON_LENGTH_MAX], size_bytes=copied, file=name)
        return self._write(entry, end), entry.size_bytes

    def entries(self) -> Iterator[AsideEntry]:
        """Read back what was set aside and can be read."""
        for number in self._log.numbers():
            yield from self._entries_of(number)

    def recount(self) -> tuple[Place, int, int]:
        """Find the log's end, its entries and their bytes, after a start.

        A log whose end is torn is left as it is, and the next entry opens a new file.
        """
        found = [entry.size_bytes for entry in self.entries()]
        last = max(self._log.numbers(), default=0)
        return Place(last + 1, 0), len(found), sum(found)

    def _write(self, entry: AsideEntry, end: Place) -> Place:
        return self._log.append(encode(msgspec.msgpack.encode(entry)), end=end)

    def _entries_of(self, number: int) -> Iterator[AsideEntry]:
        try:
            for body, _ in self._log.records(number, start=0, stop=self._log.size(number)):
                yield msgspec.msgpack.decode(body, type=AsideEntry)
        except (Unreadable, msgspec.DecodeError):
            return


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
