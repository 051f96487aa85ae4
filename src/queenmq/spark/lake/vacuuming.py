"""Deletes files and folders of a table that no reader can need."""

from __future__ import annotations

import contextlib
import os

from deltalake import DeltaTable

from queenmq.clock import unix_ms

#: Files that the log does not know may belong to a job that is running.
STRAY_HOURS = 24


def vacuum(delta: DeltaTable, hours: int, *, is_dry: bool = False) -> int:
    """Remove old files, and those of killed jobs that no version ever knew.

    A job that is running writes such files, too, so they are kept for a day at least.
    """

    def removed(hours: int, *, is_full: bool) -> set[str]:
        return set(
            delta.vacuum(
                retention_hours=hours,
                dry_run=is_dry,
                enforce_retention_duration=False,
                full=is_full,
            )
        )

    known = removed(hours, is_full=False)
    return len(known | removed(max(hours, STRAY_HOURS), is_full=True))


def remove_empty_folders(path: str) -> None:
    """Remove empty folders that are old enough. A running job creates folders, too."""
    latest = unix_ms() / 1000 - STRAY_HOURS * 3600
    for folder, folders, files in os.walk(path, topdown=False):
        if files or folder == path or "_delta_log" in folder:
            continue
        with contextlib.suppress(OSError):  # a folder is left in it
            if os.stat(folder).st_mtime < latest:
                os.rmdir(folder)
        del folders[:]
