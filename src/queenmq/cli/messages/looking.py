"""Owns reading messages without a consumer group, for tokens that may not delete one.

It lists messages and fetches their payloads one by one, so it leaves nothing on the server. It is
slower than a pop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from queenmq import wire
from queenmq.cli.display.times import BEGINNING
from queenmq.cli.session import Session

T = TypeVar("T")

#: Seconds between two tries while the server is away.
_AWAY_S = 1.0
#: Seconds between two lists while nothing new arrives.
_PAUSE_S = 1.0
#: A message gets its time before it is committed. This long after, it is still looked for.
_LATE_S = 10
#: Messages of one list, and those that a server lists at all.
_PAGE = 1_000
_REACH = 20_000


class Looking:
    """Reads a queue, or one of its partitions, without a group."""

    def __init__(self, session: Session, queue: str, partition: str | None) -> None:
        self._session = session
        self._queue = queue
        self._partition = partition
        #: Ids that were printed, with their times; those that cannot be listed again are dropped.
        self._seen: dict[str, str] = {}
        self._is_patient = False

    def since(self, start: str) -> Iterator[dict[str, Any]]:
        """Yield the messages since a time that were not given before, oldest first."""
        yield from self._whole([one for one in self._pages(start) if one.id not in self._seen])

    def last(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the last messages, oldest first. `follow` goes on from there."""
        newest = self._list(BEGINNING, limit=max(count, 1)).messages
        if not newest:
            return
        # The span that `follow` looks at again, so that it prints nothing older.
        near = self._pages(_before(newest[0].created_at, _LATE_S))
        found = {one.id: one for one in [*near, *newest]}
        self._seen = {one.id: one.created_at for one in found.values()}
        yield from self._whole(list(found.values())[:count])

    def follow(self, start: str = BEGINNING) -> Iterator[dict[str, Any]]:
        """Yield messages as they arrive, without an end."""
        self._is_patient = True
        while True:
            if self._seen:
                start = max(start, _before(max(self._seen.values()), _LATE_S))
                self._seen = {name: at for name, at in self._seen.items() if at >= start}
            yield from self.since(start)
            threading.Event().wait(_PAUSE_S)

    def _pages(self, start: str) -> list[wire.MessageSummary]:
        # A message that is pushed meanwhile moves others to the next page.
        found: dict[str, wire.MessageSummary] = {}
        for offset in range(0, _REACH, _PAGE):
            page = self._list(start, limit=_PAGE, offset=offset).messages
            found |= {one.id: one for one in page}
            if len(page) < _PAGE:
                break
        else:
            self._session.out.note(f"queen: only the newest {_REACH} messages can be listed")
        return list(found.values())

    def _list(self, start: str, *, limit: int, offset: int = 0) -> wire.MessageList:
        return self._ask(
            lambda: self._session.queen.admin.list_messages(
                queue=self._queue,
                partition=self._partition,
                limit=limit,
                offset=offset,
                from_=start,
            )
        )

    def _whole(self, newest_first: list[wire.MessageSummary]) -> Iterator[dict[str, Any]]:
        from queenmq.client.errors import ResourceNotFound

        for one in reversed(newest_first):
            try:
                payload = self._ask(partial(self._show, one)).payload
            except ResourceNotFound:
                # Deleted since it was listed.
                continue
            finally:
                self._seen[one.id] = one.created_at
            yield {**one, "data": payload}

    def _show(self, one: wire.MessageSummary) -> wire.MessageDetail:
        return self._session.queen.admin.get_message(one.partition_id, one.transaction_id)

    def _ask(self, call: Callable[[], T]) -> T:
        return insist(self._session, call) if self._is_patient else call()


def insist(session: Session, call: Callable[[], T]) -> T:
    """Repeat a call until the server is back. Both moments are noted."""
    from queenmq.client.errors import ServerBusy, Unreachable

    is_away = False
    while True:
        try:
            found = call()
        except (ServerBusy, Unreachable) as error:
            if not is_away:
                session.out.note(f"queen: {error}; retrying until the server is back")
            is_away = True
            threading.Event().wait(_AWAY_S)
            continue
        if is_away:
            session.out.note("queen: the server is back")
        return found


def _before(time: str, seconds: float) -> str:
    earlier = datetime.fromisoformat(time) - timedelta(seconds=seconds)
    return earlier.isoformat(timespec="milliseconds").replace("+00:00", "Z")
