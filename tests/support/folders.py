"""Folders for servers and spools of tests."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 8 << 30


@functools.cache
def _place() -> str | None:
    """Memory, where there is plenty: a run copies a thousand databases. None: the disk."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    return str(_MEMORY) if shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES else None


def make_folder(prefix: str = "queen-test-") -> Path:
    """A new folder.

    Not pytest's own directory: its path is too long for a socket and closed to other users.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_place()))


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A folder that is removed at the end."""
    home = make_folder()
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
