"""One process's hold on a spool: its files, its locks, and appending. All of it blocks.

Every change of the shared state is here or in drain.py, and happens under the append lock.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from queenmq.errors import SpoolFailed, SpoolFull
from queenmq.storage.spool.aside import Aside, AsideEntry
from queenmq.storage.spool.cursor import CursorFile
from queenmq.storage.spool.framing import encode
from queenmq.storage.spool.locks import FileLock
from queenmq.storage.spool.position import Place
from queenmq.storage.spool.private_files import make_directory
from queenmq.storage.spool.recovery import recover
from queenmq.storage.spool.reserve import is_no_room
from queenmq.storage.spool.segments import AppendFailed, SegmentLog
from queenmq.storage.spool.state import SharedState, State

_log = logging.getLogger(__name__)


class SpoolFiles:
    """An open spool. Opening is the constructor; afterwards all parts are there until `close`."""

    def __init__(self, path: Path, *, bytes_max: int, segment_bytes: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._open_parts = contextlib.ExitStack()
        with (
            failing_as(f"spool {path} cannot be opened, choose another spool_dir"),
            contextlib.ExitStack() as parts,
        ):
            make_directory(path)
            self.lock = FileLock(path / "append.lock")
            parts.callback(self.lock.close)
            self.drain_lock = FileLock(path / "drain.lock")
            parts.callback(self.drain_lock.close)
            self._use_lock = FileLock(path / "use.lock")
            parts.callback(self._use_lock.close)
            self.segments = SegmentLog(path, segment_bytes=segment_bytes)
            parts.callback(self.segments.close)
            self.aside_path = path / "aside"
            self.aside = Aside(self.aside_path)
            parts.callback(self.aside.close)
            self.cursor = CursorFile(path / "cursor")
            parts.callback(self.cursor.close)
            self.state = self._join()
            parts.callback(self.state.close)
            self._open_parts = parts.pop_all()

    def close(self) -> None:
        """Release everything. No other call may be running."""
        self._open_parts.close()

    def append(self, bodies: Sequence[bytes]) -> list[SpoolFull | None]:
        """Make records durable with one sync. Return for each whether there was room for it.

        Raises SpoolFailed when the disk took none of them.
        """
        frames = [encode(body) for body in bodies]
        with self.lock, failing_as(f"spool {self._path} cannot be written"):
            state = self.state.load()
            accepted, answers = self._admit(frames, state)
            if not accepted:
                return answers
            data = b"".join(accepted)
            try:
                end = self.segments.append(data, end=state.end)
            except AppendFailed as error:
                self.state.store(replace(state, end=error.end))
                raise
            self.state.store(
                replace(
                    state,
                    end=end,
                    pending=state.pending + len(accepted),
                    pending_bytes=state.pending_bytes + len(data),
                )
            )
        return answers

    def keep_aside(self, body: bytes, reason: str) -> None:
        """Append a record to the set-aside area, durably."""
        with self.lock, failing_as(f"spool {self._path} cannot set a record aside"):
            state = self.state.load()
            try:
                end, size = self.aside.add(body, reason, end=state.aside_end)
            except AppendFailed as error:
                self.state.store(replace(state, aside_end=error.end))
                raise
            self.state.store(_with_aside(state, end, size))

    def list_aside(self, *, limit: int, offset: int) -> list[tuple[Place, AsideEntry]]:
        """Return a page of records set aside, oldest first, each with its place."""
        found = itertools.chain.from_iterable(map(self.aside.entries_of, self.aside.numbers()))
        return list(itertools.islice(found, offset, offset + limit))

    def keep_range_aside(self, place: Place, stop: int, reason: str) -> State:
        """Copy unreadable bytes of a segment to the set-aside area; the caller holds the lock."""
        state = self.state.load()
        source = self.segments.path(place.segment)
        try:
            end, size = self.aside.add_range(
                source, place.offset, stop, reason, end=state.aside_end, may_link=True
            )
        except AppendFailed as error:
            self.state.store(replace(state, aside_end=error.end))
            raise
        state = _with_aside(state, end, size)
        self.state.store(state)
        return state

    def store_cursor(self, place: Place) -> None:
        """Make the cursor durable. Only the process that drains may."""
        try:
            self.cursor.store(place)
        except OSError as error:
            if not is_no_room(error):
                raise
            # A file system that never overwrites in place. Everything before the cursor is stored,
            # so whole segments may go first.
            self.segments.remove_before(place.segment)
            self.aside.reserve.release()
            self.cursor.store(place)

    def refill_reserve(self) -> None:
        """Hold back room for the next drain, after this one has made some."""
        with self.lock:
            self.aside.reserve.refill()

    def _join(self) -> SharedState:
        """Open the shared state, or create it if no other process has it.

        The append lock keeps a second opener away until this one is visible to it.
        """
        with self.lock:
            fresh = None
            if self._use_lock.try_exclusive():
                self._reserve_room()
                fresh = recover(segments=self.segments, cursor=self.cursor, aside=self.aside)
            state = SharedState(self._path / "state", fresh=fresh)
            self._use_lock.share()
            return state

    def _reserve_room(self) -> None:
        """Reserve the room that a drain needs, while there is some."""
        try:
            self.cursor.reserve()
        except OSError as error:
            if not is_no_room(error):
                raise
            facts = {"event": "spool_disk_full"}
            _log.warning("the disk of the spool is full; make room on it", extra=facts)
        self.aside.reserve.refill()

    def _admit(
        self, frames: list[bytes], state: State
    ) -> tuple[list[bytes], list[SpoolFull | None]]:
        """Choose the records that fit. One that does not fit keeps no smaller one out."""
        accepted: list[bytes] = []
        answers: list[SpoolFull | None] = []
        held = state.pending_bytes
        for frame in frames:
            if held + len(frame) > self._bytes_max:
                answers.append(
                    SpoolFull(
                        f"spool holds {held} of {self._bytes_max} bytes and has no room for "
                        f"{len(frame)} more; wait until the database is back",
                        depth=state.pending + len(accepted),
                    )
                )
                continue
            held += len(frame)
            accepted.append(frame)
            answers.append(None)
        return accepted, answers


@contextlib.contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Turn errors of the system or of the spool into SpoolFailed."""
    try:
        yield
    except (OSError, AppendFailed) as error:
        raise SpoolFailed(f"{what}: {error}") from error


def _with_aside(state: State, end: Place, size: int) -> State:
    return replace(
        state,
        aside_end=end,
        aside_records=state.aside_records + 1,
        aside_bytes=state.aside_bytes + size,
    )
