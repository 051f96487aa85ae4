"""Pushes that were set aside on this broker's disk: list and retry."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.engine.news import News
from queenmq.engine.reports import report
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso_or_none
from queenmq.server.routing.spec import route
from queenmq.storage.spool import SpoolStats
from queenmq.storage.spool.push_journal import AsidePush, SpoolJournal
from queenmq.storage.stores.operations import PostgresOperationStore

#: Failed operations that one request retries; repeat it for more.
_OPERATIONS_MAX = 10_000


class AsideRoutes:
    """Routes of set-aside pushes. Publishes when they are retried."""

    def __init__(
        self,
        journal: SpoolJournal,
        store: PostgresOperationStore,
        *,
        spool_stats: Callable[[], SpoolStats],
        news: News,
    ) -> None:
        self._journal = journal
        self._store = store
        self._spool_stats = spool_stats
        self._news = news

    @route("GET", "/api/v1/operations/aside", wire.AsideList, query=PAGE)
    async def list(self, request: Request) -> Response:
        """Return a page of set-aside pushes, oldest first."""
        page = parse_page(parse_query(request.scope["query_string"]))
        found = await self._journal.list_aside(limit=page.limit, offset=page.offset)
        stats = self._spool_stats()
        records = [_record(one) for one in found]
        return json_answer(
            wire.AsideList(records, stats.aside_records, stats.aside_bytes, pagination=page)
        )

    @route("POST", "/api/v1/operations/retry", wire.OperationsRetried)
    async def retry(self, _: Request) -> Response:
        """Retry all pushes set aside on this broker, and all failed operations."""
        aside = await self._journal.retry_aside()
        self._news.retried()
        operations = await self._store.retry_failed(limit=_OPERATIONS_MAX)
        self._news.retried()
        stopped_by = aside.stopped_by
        return json_answer(
            wire.OperationsRetried(
                operations=operations,
                retried=aside.retried,
                unreadable=aside.unreadable,
                remaining=self._spool_stats().aside_records,
                error=None
                if stopped_by is None
                else report(stopped_by, "a retry stopped early", {"event": "retry_stopped"}),
            )
        )


def _record(one: AsidePush) -> wire.AsideRecord:
    return wire.AsideRecord(
        id=one.id,
        queues=list(one.queues),
        partitions=list(one.partitions),
        item_count=one.item_count,
        size=one.size_bytes,
        reason=one.reason,
        set_aside_at=iso_or_none(one.set_aside_at),
        is_readable=one.item_count is not None,
        file=one.file,
    )
