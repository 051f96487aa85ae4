"""Puts set-aside records back into the spool. All of it blocks.

A record is durable in the spool before it leaves the set-aside area. A process that is killed in
between leaves it in both, and the duplicate check by transaction id then stores it once.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from queenmq.errors import Conflict, QueenError, SpoolFailed
from queenmq.storage.spool.aside import AsideEntry
from queenmq.storage.spool.files import SpoolFiles, failing_as
from queenmq.storage.spool.position import Place

#: Bytes of records that are put back with one sync.
_GROUP_BYTES = 1024 * 1024


class Retried(NamedTuple):
    """The number of records that went back, the number that cannot, and the reason for an early
    end.
    """

    retried: int
    unreadable: int
    stopped_by: QueenError | None


class AsideRetry:
    """One pass over the set-aside area. `is_usable` returns whether a body can be pushed."""

    def __init__(self, files: SpoolFiles, is_usable: Callable[[bytes], bool]) -> None:
        self._files = files
        self._is_usable = is_usable

    @contextmanager
    def retry_alone(self) -> Iterator[None]:
        """Keep other processes from retrying at the same time. Raises Conflict."""
        with _lock(self._files.aside_path):
            yield

    def run_segment(self, number: int) -> Retried:
        """Put the records of one segment of the log back, in their order."""
        self._seal(number)
        entries = [entry for _, entry in self._files.aside.entries_of(number)]
        usable = [not entry.file and self._is_usable(entry.body) for entry in entries]
        waiting = deque(entry for entry, may_go in zip(entries, usable, strict=True) if may_go)
        gone: list[AsideEntry] = []
        stopped_by = None
        while waiting and stopped_by is None:
            group = _next_group(waiting)
            done, stopped_by = self._append(group)
            gone += done
        if gone:
            self._forget(number, entries, gone)
        return Retried(len(gone), usable.count(False), stopped_by)

    def _seal(self, number: int) -> None:
        """Close a segment for appends."""
        with self._files.lock:
            state = self._files.state.load()
            if state.aside_end.segment <= number:
                self._files.state.store(replace(state, aside_end=Place(number + 1, 0)))

    def _append(self, group: list[AsideEntry]) -> tuple[list[AsideEntry], QueenError | None]:
        """Append records to the spool. Return those stored, and the error of the others."""
        try:
            answers = self._files.append([entry.body for entry in group])
        except SpoolFailed as error:
            return [], error
        pairs = list(zip(group, answers, strict=True))
        stopped_by = next((answer for _, answer in pairs if answer is not None), None)
        return [entry for entry, answer in pairs if answer is None], stopped_by

    def _forget(self, number: int, entries: list[AsideEntry], gone: list[AsideEntry]) -> None:
        files, ids = self._files, set(map(id, gone))
        with files.lock, failing_as("what is in the spool again is still set aside as well"):
            files.aside.replace(number, [entry for entry in entries if id(entry) not in ids])
            state = files.state.load()
            files.state.store(
                replace(
                    state,
                    aside_records=max(state.aside_records - len(gone), 0),
                    aside_bytes=max(state.aside_bytes - _size(gone), 0),
                )
            )


def _next_group(waiting: deque[AsideEntry]) -> list[AsideEntry]:
    group = [waiting.popleft()]
    while waiting and _size(group) + waiting[0].size_bytes <= _GROUP_BYTES:
        group.append(waiting.popleft())
    return group


def _size(entries: list[AsideEntry]) -> int:
    return sum(entry.size_bytes for entry in entries)


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    # The directory itself: a lock file of its own could not be made on a full disk.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                "pushes that were set aside are already being retried; wait for that"
            ) from None
        yield
    finally:
        os.close(descriptor)
