"""Keeps pushes on disk that cannot go to the database now.

While anything is on disk, every push goes behind it, so no push overtakes another. Pushes wait only
near the end of a drain, and then go to the database. `engine/queued_pushes/spool_drain.py` stores
these pushes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.ports import PushJournal
from queenmq.engine.requests import PushItems, PushOutcome
from queenmq.errors import QueenError, SpoolFailed, SpoolFull, StorageFault, StorageUnavailable

#: Poll interval of a push that waits for the drain to end.
_CLOSING_S = 0.005
#: ... and after which time it stops waiting and is kept behind the rest.
_CLOSING_S_MAX = 5.0
#: How many requests in doubt are remembered, the newest.
_DOUBTS_MAX = 10_000


class PushSpool:
    """One broker process's entry to the spool. Publishes kept pushes.

    The files of the journal are open before the first push; other processes may share them.
    """

    def __init__(
        self,
        journal: PushJournal,
        *,
        is_down: Callable[[], bool],
        news: News,
        seal: Callable[[PushItems], None] = lambda items: None,
    ) -> None:
        self._journal = journal
        self._is_down = is_down
        self._news = news
        #: Encrypts payloads that must not be on the disk in clear.
        self._seal = seal
        #: Maintenance mode: keep everything, drain nothing.
        self.is_buffering = False
        #: The error of the last write, or None.
        self.keep_error: QueenError | None = None
        #: Keys of requests that may have been stored. A dict, because it is ordered.
        self._in_doubt: dict[UUID, None] = {}

    def set_buffering(self, is_on: bool) -> None:
        """Keep every push from now on, or only those that have to be kept."""
        self.is_buffering = is_on

    def note_room(self) -> None:
        """Note that something was drained, so that the next write may succeed."""
        self.keep_error = None

    def note_doubt(self, items: PushItems) -> None:
        """Note that a request may have been stored, so that no copy of it is kept."""
        if items.request_key is not None:
            self._in_doubt[items.request_key.key] = None
            if len(self._in_doubt) > _DOUBTS_MAX:
                del self._in_doubt[next(iter(self._in_doubt))]

    @property
    def is_blocked(self) -> bool:
        """Return whether the database gets no push now."""
        return self.is_buffering or self._is_down()

    @property
    def is_needed(self) -> bool:
        """Return whether a push may have to wait or be kept. Cheap, because every push asks."""
        return self.is_blocked or self._journal.pending > 0

    async def take(self, items: PushItems) -> PushOutcome | None:
        """Keep the items if they must not go to the database now. Return None if they may."""
        deadline = asyncio.get_running_loop().time() + _CLOSING_S_MAX
        while self.is_needed:
            is_over = asyncio.get_running_loop().time() > deadline
            if self.is_blocked:
                return await self.keep(items)
            if self._journal.is_stuck:
                raise StorageFault(
                    "Pushes of an outage are still on this broker's disk, because the database"
                    " cannot store them, and this push would overtake them. Nothing was done."
                    " Retry later; /health names the fault."
                )
            if not self._journal.is_closing or is_over:
                return await self.keep(items)
            await asyncio.sleep(_CLOSING_S)
        return None

    def check_order(self, what: str) -> None:
        """Raise StorageUnavailable if a push now would overtake pushes that were accepted before.

        A database that is merely down raises nothing here. The call itself fails then.
        """
        if self.is_buffering:
            text = (
                f"Pushes are buffered for maintenance, and this {what} would overtake them."
                " Nothing was done. Retry when maintenance has ended."
            )
        elif self._journal.pending:
            text = (
                f"Pushes that were accepted before are still on this broker's disk, and this"
                f" {what} would overtake them. Nothing was done. Retry later."
            )
        else:
            return
        raise StorageUnavailable(text, public=text)

    async def keep(self, items: PushItems) -> PushOutcome:
        """Write the items to disk. They are durable when this returns.

        Raises StorageUnavailable for a copy of a request that may have been stored: the copy could
        wait here until Queen has forgotten the key, and then be stored a second time.
        """
        if items.request_key is not None and items.request_key.key in self._in_doubt:
            text = (
                "An outage cut off an earlier try of this push, which may have been stored. Only"
                " the database knows. Send the push again until the database is back."
            )
            raise StorageUnavailable(text, public=text)
        spooled = ItemOutcome.SPOOLED
        if self.is_buffering:
            spooled = ItemOutcome.SPOOLED_FOR_MAINTENANCE
        self._seal(items)
        try:
            transaction_ids = await self._journal.append(items)
        except (SpoolFull, SpoolFailed) as error:
            self.keep_error = error
            raise
        self.keep_error = None
        self._news.spooled()
        return PushOutcome((), transaction_ids, [spooled] * len(transaction_ids))
