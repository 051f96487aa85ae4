"""The two locks of a data directory.

`broker.lock` is held by a live broker, or by a command that runs the server for its own length, so
a start that cannot get it fails at once.
`cluster.lock` is handed on to each process that works on the cluster for that broker (initdb, then
the keeper) and so outlives a killed broker until postgres is really down. A process that holds the
first and waits for the second waits for its predecessor to shut down, which is short. Both are
flock locks: the kernel releases them however their holder ends. Always taken in the order broker,
cluster.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from queenmq.storage.embedded.errors import DataDirInUse
from queenmq.storage.embedded.layout import Layout, open_private

#: Seconds to wait for a keeper that is stopping postgres, a little more than it gives postgres.
CLUSTER_WAIT_SECONDS_MAX = 35.0

_POLL_SECONDS = 0.05


def lock_broker(layout: Layout) -> int:
    """Take the broker's lock or fail at once, naming its holder. Return the open descriptor."""
    descriptor = open_private(layout.broker_lock, os.O_RDWR | os.O_CREAT)
    if not _try_lock(descriptor):
        os.close(descriptor)
        raise DataDirInUse(
            f"data directory {layout.data_dir} is in use by process "
            f"{_holder(layout.broker_lock)}, a broker or a queen db command; stop it or wait for "
            "its end, or name another data directory"
        )
    note_holder(descriptor, os.getpid())
    return descriptor


def lock_cluster(layout: Layout, *, wait_seconds: float = CLUSTER_WAIT_SECONDS_MAX) -> int:
    """Take the cluster's lock. Waits while an earlier keeper shuts down."""
    descriptor = open_private(layout.cluster_lock, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + wait_seconds
    while not _try_lock(descriptor):
        if time.monotonic() >= deadline:
            os.close(descriptor)
            raise DataDirInUse(
                f"data directory {layout.data_dir} is still held by process "
                f"{_holder(layout.cluster_lock)}, which has not stopped postgres within "
                f"{wait_seconds:.0f} s; wait for it or end it, then start again"
            )
        time.sleep(_POLL_SECONDS)
    return descriptor


def note_holder(descriptor: int, pid: int) -> None:
    """Write the process id of the holder, for the error message of the next process."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{pid}\n".encode(), 0)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> str:
    try:
        return path.read_text().strip() or "unknown"
    except OSError:
        return "unknown"
