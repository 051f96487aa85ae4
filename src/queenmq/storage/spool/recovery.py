"""Makes the shared state from the files, when no other process has the spool open.

The files are the truth: the durable cursor says where to begin, the checksums where to stop. The
caller holds the append lock and has the spool for itself.
"""

from __future__ import annotations

import logging

from queenmq.storage.spool.aside import Aside
from queenmq.storage.spool.cursor import CursorFile
from queenmq.storage.spool.position import Phase, Place, Position
from queenmq.storage.spool.reserve import is_no_room
from queenmq.storage.spool.segments import AppendFailed, SegmentLog, Unreadable
from queenmq.storage.spool.state import State

_log = logging.getLogger(__name__)


def recover(*, segments: SegmentLog, cursor: CursorFile, aside: Aside) -> State:
    """Cut a torn end, count what is pending, and return the state of a spool that was idle."""
    start = _start(segments, cursor)
    segments.remove_before(start.segment)
    aside_end, aside_records, aside_bytes = aside.recount()
    last = max(segments.numbers(), default=0)
    end, damage = _end(segments, start, last)
    if damage:
        size = segments.size(last)
        reason = (
            f"end of segment {last} from byte {end.offset}: {damage}; "
            "a write that was never answered, or a damaged file"
        )
        facts = {"event": "spool_end_cut", "segment": last, "offset": end.offset}
        try:
            aside_end, copied = aside.add_range(
                segments.path(last), end.offset, size, reason, end=aside_end, may_link=False
            )
        except (OSError, AppendFailed) as error:
            if not is_no_room(error) and not is_no_room(error.__cause__):
                raise
            # Left to the drain, which may have freed a segment when it comes to this one.
            _log.warning("spool ended in a broken record; no room to set it aside", extra=facts)
            segments.cut(Place(last, size))
            end = Place(last + 1, 0)
        else:
            aside_records, aside_bytes = aside_records + 1, aside_bytes + copied
            _log.warning("spool ended in a broken record; cut and set aside", extra=facts)
    if end.segment == last:
        # Also syncs whole records of a process that died before its own sync.
        segments.cut(end)
    start = segments.skip_to_next(start, end)
    records, total = segments.count(start, end)
    return State(
        end=end,
        cursor=Position(start, records_total=0, bytes_total=0),
        # Something unreadable in front of the end still has to be set aside by draining.
        pending=0 if start == end else max(records, 1),
        pending_bytes=total,
        phase=Phase.OPEN,
        aside_end=aside_end,
        aside_records=aside_records,
        aside_bytes=aside_bytes,
    )


def _start(segments: SegmentLog, cursor: CursorFile) -> Place:
    start = cursor.load()
    if start is not None:
        return start
    first = min(segments.numbers(), default=None)
    if first is None:
        return Place(1, 0)
    _log.warning(
        "spool has no readable cursor; draining all of its segments again",
        extra={"event": "spool_cursor_lost", "segment": first},
    )
    return Place(first, 0)


def _end(segments: SegmentLog, start: Place, last: int) -> tuple[Place, str]:
    """Find where the records end, and what is wrong with the bytes behind, if anything."""
    if last < start.segment:
        # An offset means that the segment existed; its number is not used a second time.
        return (Place(start.segment + 1, 0) if start.offset else start), ""
    at = start.offset if last == start.segment else 0
    size = segments.size(last)
    if size < at:
        return Place(last + 1, 0), ""
    try:
        for _ in segments.records(last, start=at, stop=size):
            pass
    except Unreadable as error:
        return Place(last, error.offset), str(error)
    return Place(last, size), ""
