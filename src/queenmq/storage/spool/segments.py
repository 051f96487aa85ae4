"""Numbered append-only files of records in one directory.

Takes no lock and keeps no position: the caller says where the records end, under its lock, and
bytes beyond that are what a dead process or a failed write left behind.

Numbers only grow. One may be missing: its file was drained, or given up before it held a record.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from queenmq.storage.spool.framing import Ending, scan
from queenmq.storage.spool.position import Place
from queenmq.storage.spool.private_files import open_private, sync_directory, write_at
from queenmq.storage.spool.reserve import is_no_room

#: Bytes per read. A record that is longer is read in one piece.
CHUNK_BYTES = 1024 * 1024

_NAME = re.compile(r"(\d{20})\.log")
_log = logging.getLogger(__name__)


class AppendFailed(Exception):
    """Records could not be made durable; `end` is where the next ones have to go."""

    def __init__(self, error: OSError, end: Place) -> None:
        super().__init__(str(error))
        self.end = end
        self.is_no_room = is_no_room(error)


class Unreadable(Exception):
    """No record begins at `offset`, although one should."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class SegmentLog:
    """The segments of one directory."""

    def __init__(self, directory: Path, *, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        #: The segment last written to stays open; number and descriptor.
        self._open: tuple[int, int] | None = None

    def close(self) -> None:
        if self._open:
            os.close(self._open[1])
            self._open = None

    def path(self, number: int) -> Path:
        return self._directory / f"{number:020}.log"

    def numbers(self) -> list[int]:
        """List the segments there are, oldest first."""
        found = map(_NAME.fullmatch, os.listdir(self._directory))
        return sorted(int(match[1]) for match in found if match)

    def size(self, number: int) -> int:
        """Return a segment's bytes; a missing one has none."""
        try:
            return self.path(number).stat().st_size
        except FileNotFoundError:
            return 0

    def remove_before(self, number: int) -> None:
        """Delete the segments in front of one. They come back after a crash, and then go again."""
        for old in self.numbers():
            if old < number:
                self.path(old).unlink(missing_ok=True)

    def cut(self, place: Place) -> None:
        """Truncate a segment after a place, durably."""
        descriptor = open_private(self.path(place.segment), os.O_RDWR)
        try:
            if os.fstat(descriptor).st_size > place.offset:
                os.ftruncate(descriptor, place.offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # Writing.

    def append(self, data: bytes, *, end: Place) -> Place:
        """Write whole records behind `end` with one sync; return the new end, or AppendFailed.

        What was durable before stays so: a failed write is cut off again.
        """
        at = end
        try:
            # First the old one, even to leave it: a dead process may have torn its end.
            descriptor, at = self._open_at(at)
            if at.offset and at.offset + len(data) > self._segment_bytes:
                descriptor, at = self._open_at(Place(at.segment + 1, 0))
            write_at(descriptor, data, at.offset)
        except OSError as error:
            self._take_back(at)
            raise AppendFailed(error, end) from error
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            # The system may have dropped the pages and forgotten about it: a later sync of this
            # file would prove nothing, so it gets no more records.
            self._take_back(at)
            raise AppendFailed(error, Place(at.segment + 1, 0)) from error
        return Place(at.segment, at.offset + len(data))

    def _open_at(self, at: Place) -> tuple[int, Place]:
        """Open the segment and cut what is behind `at`; or a new one, if that one is damaged."""
        descriptor = self._descriptor(at)
        status = os.fstat(descriptor) if descriptor is not None else None
        if descriptor is None or status is None or status.st_size < at.offset:
            _log.error(
                "spool segment is gone or too short; going on in a new one",
                extra={"event": "spool_segment_lost", "segment": at.segment, "offset": at.offset},
            )
            return self._open_at(Place(at.segment + 1, 0))
        if status.st_size > at.offset:
            os.ftruncate(descriptor, at.offset)
            os.fsync(descriptor)
        return descriptor, at

    def _descriptor(self, at: Place) -> int | None:
        if self._open and self._open[0] == at.segment and os.fstat(self._open[1]).st_nlink:
            return self._open[1]
        self.close()
        try:
            flags = os.O_RDWR | (0 if at.offset else os.O_CREAT)
            descriptor = open_private(self.path(at.segment), flags)
        except FileNotFoundError:
            if not at.offset:
                raise
            return None
        self._open = (at.segment, descriptor)
        if not at.offset:
            # Also when the file was there: the process that made it may have died before this.
            sync_directory(self._directory)
        return descriptor

    def _take_back(self, at: Place) -> None:
        """Remove what a failed append wrote. Failing here too is harmless: the next one cuts."""
        with contextlib.suppress(OSError):
            if not at.offset:
                self.path(at.segment).unlink(missing_ok=True)
            elif self._open and self._open[0] == at.segment:
                os.ftruncate(self._open[1], at.offset)
        self.close()

    # Reading.

    def records(
        self, number: int, *, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[tuple[bytes, int]]:
        """Yield each body between two offsets of a segment, with the offset behind it."""
        descriptor = open_private(self.path(number), os.O_RDONLY)
        try:
            at, wanted = start, chunk_bytes
            while at < stop:
                data = os.pread(descriptor, min(wanted, stop - at), at)
                found = scan(data)
                for body, end in zip(found.bodies, found.ends, strict=True):
                    yield body, at + end
                at += found.valid_bytes
                is_all = len(data) < wanted or at + found.needed_bytes > stop
                if found.ending is Ending.DAMAGED or (found.ending is Ending.SHORT and is_all):
                    raise Unreadable(at, found.ending.value)
                if not data:
                    raise Unreadable(at, "the file ends before its records do")
                wanted = max(chunk_bytes, found.needed_bytes)
        finally:
            os.close(descriptor)

    def spans(self, start: Place, end: Place) -> Iterator[tuple[int, int, int]]:
        """Yield number, first and last offset of each segment's part between two places."""
        for number in self.numbers():
            if start.segment <= number <= end.segment:
                first = start.offset if number == start.segment else 0
                last = end.offset if number == end.segment else self.size(number)
                if first < last:
                    yield number, first, last

    def count(self, start: Place, end: Place) -> tuple[int, int]:
        """Count the records, and their bytes with framing, that can be read between two places."""
        records = total = 0
        for number, first, last in self.spans(start, end):
            valid_end = first
            with contextlib.suppress(Unreadable):
                for _, end_offset in self.records(number, start=first, stop=last):
                    records, valid_end = records + 1, end_offset
            total += valid_end - first
        return records, total

    def skip_to_next(self, place: Place, end: Place) -> Place:
        """Move a place at the end of its segment to where the next record is or will be."""
        if place.segment >= end.segment:
            return place
        following = next(self.spans(place, end), None)
        return Place(following[0], following[1]) if following else end
