"""Numbers in memory that several processes share, found by name.

The memory has a place for each worker. A place starts with a head (bytes of the index in use,
numbers in use, process id), then comes the index (names and where their numbers are), then the
numbers. Only the worker of a place writes there. A name is added before the head says so, so a
reader never sees half of one, not even of a worker that was killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

#: Of the place of one worker. Pages that are never touched take no memory.
PLACE_BYTES = 1024 * 1024
_HEAD = struct.Struct("=QQQ")
_HEAD_BYTES = 64
_INDEX_END = 384 * 1024
_NUMBERS_MAX = (PLACE_BYTES - _INDEX_END) // 8
#: Of an entry: length of its name, place of its first number, how many it has.
_ENTRY = struct.Struct("=HIH")
_NAME_BYTES_MAX = 1_000


#: Quoted: the class takes no parameter before Python 3.14.
Numbers: TypeAlias = "memoryview[float]"


class Entry(NamedTuple):
    """A name and its numbers."""

    name: str
    at: int
    width: int


def make_shared(places: int) -> int:
    """Return the descriptor of memory for so many workers. It lives as long as one of them."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("queen-metrics")
    else:
        with tempfile.TemporaryFile(prefix="queen-metrics-") as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, places * PLACE_BYTES)
    os.set_inheritable(fd, True)
    return fd


class Memory:
    """The places of all workers of a broker."""

    def __init__(self, fd: int | None = None) -> None:
        """Map the shared memory, or make memory for one worker alone."""
        size = PLACE_BYTES if fd is None else os.fstat(fd).st_size
        self._map = mmap.mmap(-1 if fd is None else fd, size)
        self._bytes = memoryview(self._map)
        self.places = size // PLACE_BYTES

    def cells(self, place: int) -> Cells:
        """Return the numbers of one place, for its only writer."""
        start = place * PLACE_BYTES
        return Cells(self._bytes[start : start + PLACE_BYTES])

    def reader(self, place: int) -> Reader:
        """Return a reader of what the worker of a place has counted."""
        start = place * PLACE_BYTES
        return Reader(self._bytes[start : start + PLACE_BYTES])


class Reader:
    """The numbers of a place, for one of its readers."""

    def __init__(self, part: memoryview) -> None:
        self._part = part
        self._read = _HEAD_BYTES

    def read_names(self) -> list[Entry]:
        """Return the names that are new since the last call. None ever goes away."""
        used, _, _ = _HEAD.unpack_from(self._part)
        found = list(_entries(self._part, self._read, used))
        self._read = max(self._read, used)
        return found

    def read_numbers(self) -> tuple[int, Numbers]:
        """Return the worker's process id and a copy of its numbers."""
        _, count, pid = _HEAD.unpack_from(self._part)
        copied = bytes(self._part[_INDEX_END : _INDEX_END + 8 * count])
        return pid, memoryview(copied).cast("d")


class Cells:
    """The numbers of a place. What an earlier worker has counted here is still there."""

    def __init__(self, part: memoryview) -> None:
        self._part = part
        #: All numbers. To count is to add to one of them.
        self.numbers = part[_INDEX_END:].cast("d")
        index_used, numbers_used, _ = _HEAD.unpack_from(part)
        self._index_used = max(int(index_used), _HEAD_BYTES)
        self._numbers_used = int(numbers_used)
        self._places = {
            (entry.name, entry.width): entry.at
            for entry in _entries(part, _HEAD_BYTES, self._index_used)
        }
        self._save_head()

    def find(self, name: str, count: int = 1) -> int | None:
        """Return where these numbers are, made if need be, or None when there is no room for
        them.
        """
        at = self._places.get((name, count))
        return self._add(name, count) if at is None else at

    def _add(self, name: str, count: int) -> int | None:
        text = name.encode("utf-8", "surrogateescape")
        end = self._index_used + _ENTRY.size + len(text)
        at = self._numbers_used
        if len(text) > _NAME_BYTES_MAX or end > _INDEX_END or at + count > _NUMBERS_MAX:
            return None
        _ENTRY.pack_into(self._part, self._index_used, len(text), at, count)
        self._part[self._index_used + _ENTRY.size : end] = text
        self._index_used, self._numbers_used = end, at + count
        self._save_head()
        self._places[name, count] = at
        return at

    def clear(self, name: str, separator: str) -> None:
        """Set the numbers of a name to 0, also where more follows behind the separator."""
        for (found, count), at in self._places.items():
            if found.partition(separator)[0] == name:
                self.numbers[at : at + count] = _zeros(count)

    def _save_head(self) -> None:
        _HEAD.pack_into(self._part, 0, self._index_used, self._numbers_used, os.getpid())


def _zeros(count: int) -> Numbers:
    return memoryview(bytes(8 * count)).cast("d")


def _entries(part: memoryview, at: int, used: int) -> Iterator[Entry]:
    while at + _ENTRY.size <= used:
        length, first, count = _ENTRY.unpack_from(part, at)
        at += _ENTRY.size
        name = bytes(part[at : at + length]).decode("utf-8", "surrogateescape")
        at += length
        yield Entry(name, first, count)
