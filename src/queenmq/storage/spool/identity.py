"""Gives a spool an id that stays with its directory, whichever machine has it mounted."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from uuid import uuid4

from queenmq.storage.spool.private_files import open_private, write_at

_FILE = "id"


def find_identity(home: Path) -> str | None:
    """Return the id of the spools below a directory, if they have one. Raises OSError unchanged."""
    try:
        return (home / _FILE).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def make_identity(home: Path) -> str:
    """Return the id, made by the first process that asks. Raises OSError unchanged."""
    found = find_identity(home)
    if found is None:
        draft = home / f"{_FILE}.{uuid4().hex}"
        descriptor = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_at(descriptor, uuid4().hex.encode(), 0)
            _publish(draft, home / _FILE)
        finally:
            os.close(descriptor)
            # A full disk must not fill up with drafts.
            draft.unlink(missing_ok=True)
        found = find_identity(home)
    assert found is not None
    return found


def _publish(draft: Path, path: Path) -> None:
    """Give a file its name with all of its bytes, unless another process was first."""
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError:
        # A file system without links. Two processes at once may then differ until a restart.
        draft.replace(path)
