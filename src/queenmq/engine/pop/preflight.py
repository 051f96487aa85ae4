"""Asks the questions of look-ups. The board decides what to ask and what answers mean."""

from __future__ import annotations

import logging
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
    WalkOn,
)
from queenmq.engine.ports import MessageStore
from queenmq.errors import CallTimedOut

logger = logging.getLogger(__name__)

#: Log at most once in this time that look-ups run out of theirs.
_WARN_EVERY_MS = 60_000


class Preflight:
    """Carries out one look-up after the other."""

    def __init__(self, store: MessageStore, catalogue: Catalogue, *, page: int) -> None:
        self._store = store
        self._catalogue = catalogue
        self._page = page
        self._warn_at_ms = 0.0

    async def run(self, look_up: LookUp) -> None:
        """Ask until there is nothing left to ask. The first error ends it, as CallTimedOut does
        when a question takes longer than the look-up may.
        """
        questions = look_up.questions()
        question = next(questions, None)
        while question is not None:
            asked_at_ms = now_ms()
            try:
                value = await self._ask(question, look_up.limit_ms)
            except CallTimedOut:
                if look_up.is_apart:
                    self._warn(look_up, left=len(look_up.unanswered), how="was cancelled")
                raise
            if isinstance(question, Resolve) and None in value:
                self._warn(look_up, left=value.count(None), how="stopped early")
            try:
                question = questions.send(Reply(value, asked_at_ms, now_ms()))
            except StopIteration:
                return

    async def _ask(self, question: Question, limit_ms: int) -> Any:
        match question:
            case FindNews(queues, horizons):
                return await self._store.find_news(queues, horizons, limit_ms=limit_ms)
            case FindPartitions(keys):
                return await self._catalogue.find(keys, limit_ms=limit_ms)
            case HasPending(asks):
                return await self._store.has_pending_messages(asks, limit_ms=limit_ms)
            case WalkOn(asks):
                return await self._store.walk_partitions(asks, limit=self._page, limit_ms=limit_ms)
            case Resolve(asks):
                return await self._store.pop_sm_resolve(asks, limit=self._page, limit_ms=limit_ms)

    def _warn(self, look_up: LookUp, *, left: int, how: str) -> None:
        if now_ms() < self._warn_at_ms:
            return
        self._warn_at_ms = now_ms() + _WARN_EVERY_MS
        logger.warning(
            "A look-up for waiting pops %s because it takes longer than its %d ms, and left %d of"
            " %d places for a later one. Look at the load and the locks of the database, or raise"
            " smart_poll_preflight_timeout_ms.",
            how,
            look_up.limit_ms,
            left,
            len(look_up.pools),
            extra={"event": "preflight_timeout"},
        )
