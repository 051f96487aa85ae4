"""Small file operations of the spool: private modes, whole writes, durable directory entries.

Raises OSError unchanged. The callers translate it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path


def make_directory(path: Path) -> None:
    """Create a directory that only its owner may enter, durably, and the ones it lies in.

    One that exists keeps the mode its owner chose.
    """
    missing = list(itertools.takewhile(lambda one: not one.is_dir(), (path, *path.parents)))
    for one in reversed(missing):
        one.mkdir(mode=0o700 if one == path else 0o777, exist_ok=True)
        with contextlib.suppress(PermissionError):
            sync_directory(one.parent)


def open_private(path: Path, flags: int) -> int:
    """Open a file that only its owner may read, and follow no link that was put in its place."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of the bytes; the system may take them in pieces."""
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, offset)
        left = left[written:]
        offset += written


def sync_directory(path: Path) -> None:
    """Make created, renamed and removed names of a directory survive a crash."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
