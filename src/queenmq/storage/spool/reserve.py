"""Reserves disk space for draining, so that a spool can empty on a full disk.

The cursor and the shared state have their own blocks and are overwritten in place, which takes no
space. Records that a drain sets aside need space, and get this file's blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from queenmq.storage.spool.private_files import open_private

#: Bytes. Enough for hundreds of usual requests; a larger one waits for a drained segment to go.
RESERVE_BYTES = 1024 * 1024

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def is_no_room(error: BaseException | None) -> bool:
    """Return whether an error means a full disk or quota, not a broken disk."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


class Reserve:
    """A file of zeros. It may be missing or short if there was no room to make it."""

    def __init__(self, path: Path, *, size_bytes: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size_bytes = size_bytes

    def refill(self) -> None:
        """Take the room, if there is any."""
        with contextlib.suppress(OSError):
            descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
            try:
                if os.fstat(descriptor).st_blocks * 512 < self._size_bytes:
                    os.posix_fallocate(descriptor, 0, self._size_bytes)
            finally:
                os.close(descriptor)

    def release(self) -> bool:
        """Give the room to others; whether there was any."""
        try:
            descriptor = open_private(self._path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            had_room = os.fstat(descriptor).st_blocks > 0
            os.ftruncate(descriptor, 0)
            # Some file systems give blocks away only once it is on disk that they are free.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return had_room
