"""Asks the questions of look-ups. What to ask, and what the answers mean, is the board's."""

from __future__ import annotations

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


class Preflight:
    """Carries out one look-up after the other."""

    def __init__(
        self, store: MessageStore, catalogue: Catalogue, *, page: int, budget_ms: int
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._page = page
        self._budget_ms = budget_ms

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
                return await self._store.pop_sm_resolve(
                    asks, limit=self._page, budget_ms=self._budget_ms
                )
