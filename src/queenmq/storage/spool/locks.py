"""Locks between the processes that share a spool. The system frees those of a dead process."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType

from queenmq.storage.spool.private_files import open_private


class FileLock:
    """A lock on a file, for one thread of one process at a time.

    The file's lock belongs to the process as a whole, so the threads need one of their own.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def try_exclusive(self) -> bool:
        """Take the lock for this process, unless another one has it in any way."""
        return self._try(fcntl.LOCK_EX)

    def share(self) -> None:
        """Take the lock, or weaken it, so that other processes can share it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, which releases the lock."""
        os.close(self._descriptor)

    def _try(self, mode: int) -> bool:
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
