"""Lets a stream that has nothing to read wait inside the database, in one statement a second.

A full poll takes several statements. After one that found nothing, the next runs when messages have
arrived, or after some seconds for everything else: warnings, the lag of the consumer group, deleted
queues.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from queenmq.clock import now_ms
from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import load
from queenmq.spark.source.options import Scope

#: Of one statement. A query that is stopped waits for its end.
WAIT_MS = 1_000
#: Between two looks at everything.
POLL_MS = 10_000
#: Where messages are there but cannot be read yet, or are too few for a batch: the first pause.
#: Each one that follows is twice as long, up to WAIT_MS.
HELD_S = 0.1
#: A stream that asks less often has a trigger with an interval, which is pause enough.
_PACED_MS = 250


class Idle:
    """The waits of one stream."""

    def __init__(self, scope: Scope, clock_ms: Callable[[], float] = now_ms) -> None:
        self._clock_ms = clock_ms
        self._scope = json.loads(scope.to_json()) | {"partitions": scope.partitions}
        #: Where the last look found nothing, and when that was.
        self._xid: int | None = None
        self._polled_ms = 0.0
        self._answered_ms = 0.0
        self._is_woken = False
        self._held_s = HELD_S

    def reset(self) -> None:
        """Forget what the last look found: the database may be another one."""
        self._xid = None

    def is_poll_needed(self, database: Database, xid: int) -> bool:
        """Return whether to poll now. Wait first if the last poll found nothing."""
        now = self._clock_ms()
        is_paced = now - self._answered_ms > _PACED_MS
        self._is_woken = False
        if self._xid != xid or now >= self._polled_ms + POLL_MS:
            return True
        wait_ms = 0 if is_paced else WAIT_MS
        parameter = {"scope": self._scope, "xid": str(xid), "wait": wait_ms}
        self._is_woken = database.rows(load("read")["wait"], parameter)[0]["is_found"]
        self._answered_ms = self._clock_ms()
        return self._is_woken

    def note_poll(self, xid: int, *, is_empty: bool) -> None:
        """Remember what a look from this transaction on has found."""
        self._answered_ms = self._polled_ms = self._clock_ms()
        self._xid = xid if is_empty else None
        if not (is_empty and self._is_woken):
            self._held_s = HELD_S
            return
        pause(self._held_s)
        self._held_s = min(2 * self._held_s, WAIT_MS / 1_000)


def pause(seconds: float) -> None:
    """Wait for a short time."""
    threading.Event().wait(seconds)
