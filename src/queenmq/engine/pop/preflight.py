"""Asks the questions of look-ups. The board decides what to ask and what answers mean."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from queenmq.clock import now_ms
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.pop.board.look_up import (
    FindNews,
    FindPartitions,
    HasPending,
    LookUp,
    Question,
    Reply,
    Resolve,
    SearchOnwards,
)
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import Resolved

logger = logging.getLogger(__name__)

#: Log at most once in this time that look-ups run out of theirs.
_WARN_EVERY_MS = 60_000


class Preflight:
    """Carries out one look-up after the other."""

    def __init__(
        self, store: MessageStore, catalogue: Catalogue, *, page: int, budget_ms: int
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._page = page
        self._budget_ms = budget_ms
        self._warn_at_ms = 0.0

    async def run(self, look_up: LookUp) -> None:
        """Ask until there is nothing left to ask. The first error ends it."""
        questions = look_up.questions()
        question = next(questions, None)
        while question is not None:
            asked_at_ms = now_ms()
            value = await self._ask(question)
            try:
                question = questions.send(Reply(value, asked_at_ms, now_ms()))
            except StopIteration:
                return

    async def _ask(self, question: Question) -> Any:
        match question:
            case FindNews(queues, horizons):
                return await self._store.find_news(queues, horizons)
            case FindPartitions(keys):
                unknown = {key for key in keys if self._catalogue.get(key) is None}
                return await self._catalogue.find(unknown) if unknown else None
            case HasPending(asks):
                return await self._store.has_pending_messages(asks)
            case SearchOnwards(asks):
                return await self._store.search_onwards(
                    asks, limit=self._page, budget_ms=self._budget_ms
                )
            case Resolve(asks):
                results = await self._store.pop_sm_resolve(
                    asks, limit=self._page, budget_ms=self._budget_ms
                )
                self._warn_of_timeout(results)
                return results

    def _warn_of_timeout(self, results: Sequence[Resolved | None]) -> None:
        left = sum(result is None for result in results)
        if left and now_ms() >= self._warn_at_ms:
            self._warn_at_ms = now_ms() + _WARN_EVERY_MS
            logger.warning(
                "A look-up for waiting pops ran out of its %d ms and left %d of %d places for the"
                " next one. Raise smart_poll_preflight_timeout_ms, or look at the load of the"
                " database.",
                self._budget_ms,
                left,
                len(results),
                extra={"event": "preflight_timeout"},
            )
