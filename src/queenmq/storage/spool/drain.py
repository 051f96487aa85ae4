"""The front of a spool: leading, reading and advancing, by one process at a time. All of it blocks.

An advance is durable before the shared state shows it, so no process sees an empty spool too early.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from queenmq.storage.spool.files import SpoolFiles, failing_as
from queenmq.storage.spool.position import Phase, Place, Position, SpoolBatch
from queenmq.storage.spool.segments import CHUNK_BYTES, Unreadable
from queenmq.storage.spool.state import State

_log = logging.getLogger(__name__)


class Drain:
    """Draining by this process, while it leads."""

    def __init__(self, files: SpoolFiles) -> None:
        self._files = files
        self._is_leading = False

    def try_lead(self) -> bool:
        """Become the process that drains, unless another one is; until released, or death."""
        if not self._is_leading and self._files.drain_lock.try_exclusive():
            self._is_leading = True
            # A dead leader may have left the spool closing, and pushes would wait forever. The
            # record at which it was stuck is still in front, so the stuck state stays until a
            # record gets through.
            if self._files.state.phase is Phase.CLOSING:
                self.set_phase(Phase.OPEN)
        return self._is_leading

    def release_lead(self) -> None:
        if self._is_leading:
            self._is_leading = False
            self._files.drain_lock.release()

    def read(self, *, records_max: int, bytes_max: int) -> SpoolBatch:
        """Return records from the cursor on: at least one if there is one, else within limits.

        Unreadable bytes at the cursor are set aside first.
        """
        self._must_lead()
        with failing_as("spool cannot be read"):
            while True:
                state = self._files.state.load()
                batch, damage = self._read(state, records_max, bytes_max)
                if batch.bodies or damage is None:
                    return batch
                self._skip(damage)

    def advance(self, position: Position) -> None:
        """Mark everything before a position as drained, and delete the segments before it.

        To advance to a position that was passed already changes nothing.
        """
        self._must_lead()
        state = self._files.state.load()
        if position.place > state.end:
            raise ValueError(
                f"cannot advance to {position.place}, the spool ends at {state.end}; "
                "use positions of a batch read since it was opened"
            )
        if position.place <= state.cursor.place:
            return
        with failing_as("spool cannot store its cursor"):
            self._files.store_cursor(position.place)
            with self._files.lock:
                self._store(self._files.state.load(), position)
            self._free(self._files.state.load().cursor.place)

    def set_phase(self, phase: Phase) -> None:
        """Announce the phase of the drain to all processes."""
        if self._files.state.phase is not phase:
            with self._files.lock:
                state = self._files.state
                state.store(replace(state.load(), phase=phase))

    def _free(self, cursor: Place) -> None:
        """Delete drained segments. After the last one, reserve room for the next drain."""
        self._files.segments.remove_before(cursor.segment)
        if not cursor.offset:
            self._files.refill_reserve()

    def _must_lead(self) -> None:
        if not self._is_leading:
            raise RuntimeError("only the process that leads may drain; call try_lead first")

    def _read(
        self, state: State, records_max: int, bytes_max: int
    ) -> tuple[SpoolBatch, tuple[Place, int, str] | None]:
        """Read up to the limits or to damage. Return its place, its segment's end, its kind."""
        batch = SpoolBatch([], [], start=state.cursor)
        taken, total = 0, 0
        # Room for the framing of small records; what is read too much is read again.
        chunk_bytes = min(CHUNK_BYTES, max(4096, 2 * bytes_max))
        segments = self._files.segments
        for number, first, last in segments.spans(state.cursor.place, state.end):
            at = first
            records = segments.records(number, start=first, stop=last, chunk_bytes=chunk_bytes)
            try:
                for body, end in records:
                    if taken and (taken >= records_max or total + len(body) > bytes_max):
                        return batch, None
                    taken, total = taken + 1, total + len(body)
                    before = batch.end
                    place = Place(number, end)
                    batch.positions.append(
                        Position(place, before.records_total + 1, before.bytes_total + end - at)
                    )
                    batch.bodies.append(body)
                    at = end
            except Unreadable as error:
                return batch, (Place(number, error.offset), last, str(error))
        return batch, None

    def _skip(self, damage: tuple[Place, int, str]) -> None:
        """Set the unreadable rest of a segment aside and continue behind it."""
        place, stop, reason = damage
        files = self._files
        facts = {"event": "spool_unreadable", "segment": place.segment, "offset": place.offset}
        _log.error("spool segment is unreadable; set aside to its end", extra=facts)
        text = f"segment {place.segment} from byte {place.offset} to {stop}: {reason}"
        behind = Place(place.segment, stop)
        with files.lock:
            files.keep_range_aside(place, stop, text)
        files.store_cursor(behind)
        with files.lock:
            state = files.state.load()
            # How many records that were is unknown, so the rest is counted again.
            records, total = files.segments.count(behind, state.end)
            position = replace(state.cursor, place=behind)
            self._store(replace(state, pending=records, pending_bytes=total), position)
        self._free(files.state.load().cursor.place)

    def _store(self, state: State, position: Position) -> None:
        """Show a durable cursor to all; the caller holds the lock."""
        place = self._files.segments.skip_to_next(position.place, state.end)
        is_empty = place == state.end
        if is_empty and place.offset:
            # What is drained goes as a whole, so the next record begins a segment.
            place = Place(place.segment + 1, 0)
            state = replace(state, end=place)
        drained = max(position.records_total - state.cursor.records_total, 0)
        drained_bytes = max(position.bytes_total - state.cursor.bytes_total, 0)
        self._files.state.store(
            replace(
                state,
                cursor=replace(position, place=place),
                # Whatever was counted: empty means that the cursor is at the end, nothing else.
                pending=0 if is_empty else max(state.pending - drained, 1),
                pending_bytes=0 if is_empty else max(state.pending_bytes - drained_bytes, 0),
            )
        )
