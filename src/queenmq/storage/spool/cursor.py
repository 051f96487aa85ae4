"""The durable cursor: how far draining has come.

Two slots are written in turn, each a checksummed record with a number that grows. A write that
stops anywhere leaves the other slot as it was, so at least the cursor before is found. The slots
lie in pages of their own, because a disk may spoil the whole sector it was writing. Both have
their blocks from the start: a store overwrites them in place, which a full disk allows.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from queenmq.storage.spool.framing import encode, scan
from queenmq.storage.spool.position import Place
from queenmq.storage.spool.private_files import open_private, sync_directory, write_at

#: Bytes from one slot to the next.
SLOT_BYTES = 4096

#: Name and version of the format, number of the write, segment, offset.
_SLOT = struct.Struct("<8sQQQ")
_FORMAT = b"QNSPOOL1"


class CursorFile:
    """The cursor of one spool. Only the process that drains, or opens alone, may store."""

    def __init__(self, path: Path) -> None:
        is_new = not path.exists()
        self._descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        if is_new:
            sync_directory(path.parent)

    def reserve(self) -> None:
        """Give both slots their blocks. Raises OSError when there is no room for that.

        The caller has the spool for itself: a slot that is there is written again as it is.
        """
        if os.fstat(self._descriptor).st_size < 2 * SLOT_BYTES:
            there = os.pread(self._descriptor, 2 * SLOT_BYTES, 0)
            write_at(self._descriptor, there.ljust(2 * SLOT_BYTES, b"\0"), 0)
            os.fsync(self._descriptor)

    def load(self) -> Place | None:
        """Return the cursor stored last, or None when no slot can be read."""
        return self._newest()[1]

    def store(self, place: Place) -> None:
        """Write the cursor over the older slot, and return when it is on disk."""
        number = self._newest()[0] + 1
        slot = encode(_SLOT.pack(_FORMAT, number, place.segment, place.offset))
        write_at(self._descriptor, slot, number % 2 * SLOT_BYTES)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _newest(self) -> tuple[int, Place | None]:
        slots = (self._read(0), self._read(SLOT_BYTES))
        return max((slot for slot in slots if slot), default=(0, None))

    def _read(self, offset: int) -> tuple[int, Place] | None:
        bodies = scan(os.pread(self._descriptor, SLOT_BYTES, offset)).bodies
        if not bodies or len(bodies[0]) != _SLOT.size:
            return None
        form, number, segment, place_offset = _SLOT.unpack(bodies[0])
        return (number, Place(segment, place_offset)) if form == _FORMAT else None
