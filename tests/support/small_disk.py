"""A file system of a few pages that can really be full, for root and for anybody else.

It is mounted in a namespace of a process of its own, and reached through that process's root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

#: In the namespace only; outside nothing is mounted.
_PLACE = "/mnt"


class SmallDisk:
    """Its directory, and what else takes room on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def take(self, size_bytes: int) -> None:
        """Take some room, until it is made again."""
        self._filler.write_bytes(bytes(size_bytes))

    def fill(self) -> None:
        """Leave no page free."""
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(_NoRoom):
            while True:
                _write(file.fileno(), bytes(self.free_bytes or 1))

    def make_room(self) -> None:
        self._filler.unlink()


class _NoRoom(Exception):
    """Nothing fits any more."""


def _write(descriptor: int, data: bytes) -> None:
    try:
        os.write(descriptor, data)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        raise _NoRoom from error


@contextlib.contextmanager
def small_disk(size_bytes: int) -> Iterator[SmallDisk]:
    """A disk of this size, gone at the end."""
    script = f"mount -t tmpfs -o size={size_bytes},mode=777 tmpfs {_PLACE} && echo ready && cat"
    keeper = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        assert keeper.stdout.readline() == "ready\n", "unshare and mount are needed"
        yield SmallDisk(Path(f"/proc/{keeper.pid}/root{_PLACE}"))
    finally:
        keeper.stdin.close()
        keeper.wait()
        keeper.stdout.close()
