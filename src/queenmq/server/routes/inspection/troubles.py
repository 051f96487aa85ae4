"""GET /api/v1/why: one answer to "is everything fine, and if not, why?"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.clock import now_ms, utc_now
from queenmq.engine.diagnosis.facts import BrokerFacts, QueueFacts, hide_error_texts
from queenmq.engine.diagnosis.findings import diagnose
from queenmq.engine.diagnosis.overall import (
    LateGroup,
    OverallFacts,
    Trouble,
    find_troubles,
    select_troubles,
    summarize,
)
from queenmq.errors import QueenError
from queenmq.server.answers.responses import json_answer
from queenmq.server.auth.callers import identity_of, may_read_messages
from queenmq.server.requests.times import iso
from queenmq.server.routing.spec import route
from queenmq.storage.stores.inspection import InspectionStore
from queenmq.storage.stores.observation.troubles import TroubleStore

#: Late groups that are asked why.
_EXPLAINED_MAX = 3
#: How long an answer is cached for all callers.
_AGE_MS = 5_000.0
#: And for this many times as long as it took: with millions of partitions it takes seconds, and
#: the database must not spend more than a twentieth of a core on it.
_REST = 20.0


class _Look(NamedTuple):
    """A diagnosis, the time until which it holds, and whether the database was asked."""

    troubles: list[Trouble]
    #: The same for callers that may not read messages, without error texts of consumers.
    plain: list[Trouble]
    is_complete: bool
    at: str
    good_until_ms: float


class TroubleRoutes:
    """Shows troubles. `broker` has facts without a query, `queue_broker` facts about a queue."""

    def __init__(
        self,
        store: TroubleStore,
        queues: InspectionStore,
        *,
        broker: Callable[[], Awaitable[OverallFacts]],
        queue_broker: Callable[[QueueFacts], BrokerFacts],
    ) -> None:
        self._store = store
        self._queues = queues
        self._broker = broker
        self._queue_broker = queue_broker
        self._last: _Look | None = None
        self._lock = asyncio.Lock()

    @route("GET", "/api/v1/why", wire.OverallDiagnosis)
    async def show(self, request: Request) -> Response:
        """Return current problems on all queues, each with its reason and a remedy."""
        async with self._lock:
            if self._last is None or self._last.good_until_ms <= now_ms():
                self._last = await self._look()
            look = self._last
        identity = identity_of(request)
        troubles = look.troubles if may_read_messages(request) else look.plain
        within = select_troubles(troubles, identity.reaches if identity.is_limited else None)
        return json_answer(
            wire.OverallDiagnosis(
                summary=summarize(within, is_complete=look.is_complete),
                is_well=look.is_complete and not within,
                is_complete=look.is_complete,
                troubles=[wire.Trouble(*one) for one in within],
                timestamp=look.at,
            )
        )

    async def _look(self) -> _Look:
        began = now_ms()
        facts, is_complete = await self._broker(), True
        plain = facts
        try:
            explained = await self._explain(await self._store.late_groups())
            letters = await self._store.dead_letters()
            facts = facts._replace(
                late_groups=[one for one, _ in explained],
                dead_letters=letters,
                xmin_holders=await self._store.xmin_holders(),
            )
            plain = facts._replace(
                late_groups=[one for _, one in explained],
                dead_letters=[one._replace(error=None) for one in letters],
            )
        except QueenError:
            # What is wrong with the database is among the capabilities.
            is_complete = False
        ended = now_ms()
        good_ms = max(_AGE_MS, _REST * (ended - began)) if is_complete else _AGE_MS
        troubles, others = find_troubles(facts), find_troubles(plain)
        return _Look(troubles, others, is_complete, iso(utc_now()), ended + good_ms)

    async def _explain(self, groups: list[LateGroup]) -> list[tuple[LateGroup, LateGroup]]:
        """Return each group with its reason: with error texts, and without."""
        explained = []
        for index, one in enumerate(groups):
            full = plain = one
            if index < _EXPLAINED_MAX:
                facts = await self._queues.queue_facts(one.queue, None, one.consumer_group)
                if facts is not None:
                    broker = self._queue_broker(facts)
                    full = one._replace(finding=diagnose(facts, broker)[0])
                    plain = one._replace(finding=diagnose(hide_error_texts(facts), broker)[0])
            explained.append((full, plain))
        return explained
