"""Dead letters: list, push again, delete."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.decision import check_queue, check_verb
from queenmq.auth.identity import Verb
from queenmq.clock import utc_now
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.errors import InvalidRequest
from queenmq.server.answers.opening import Opener
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.requests.checks import check_text, quote
from queenmq.server.requests.letter_retries import LetterRetries
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query, parse_time
from queenmq.server.requests.times import iso
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.dead_letters import DeadLetterFilter, DeadLetterStore

_RETRY_MAX = 1_000
_PURGE_MAX = 10_000
_PURGE_DEFAULT = 1_000
_AGE_MAX_S = 2**31 - 1
_FILTER: dict[str, Any] = {"queue": str, "consumerGroup": str, "partition": str, "error": str}


class DeadLetterRoutes:
    """Routes of dead letters. Publishes in which queue messages were pushed."""

    def __init__(
        self,
        store: DeadLetterStore,
        retries: LetterRetries,
        settings: Settings,
        opener: Opener,
        *,
        queue_max: Callable[[], int],
        news: News,
    ) -> None:
        self._store = store
        self._retries = retries
        self._opener = opener
        self._settings = settings
        self._queue_max = queue_max
        self._news = news

    @route(
        "GET", "/api/v1/dlq", wire.DeadLetterList, query={**_FILTER, "from": str, "to": str, **PAGE}
    )
    async def list(self, request: Request) -> Response:
        """Return a page of dead letters, latest failure first."""
        query = parse_query(request.scope["query_string"])
        which = DeadLetterFilter(
            queue=check_text("queue", query.get("queue")) or None,
            consumer_group=check_text("consumerGroup", query.get("consumerGroup")) or None,
            partition=check_text("partition", query.get("partition")) or None,
            start=_time(query, "from"),
            end=_time(query, "to"),
            error=check_text("error", query.get("error")) or None,
        )
        page = parse_page(query)
        rows, total = await self._store.list_dead_letters(
            which, limit=page.limit, offset=page.offset
        )
        letters = [_dead_letter(row, self._opener) for row in rows]
        return json_answer(wire.DeadLetterList(letters, total, page))

    @route(
        "POST",
        "/api/v1/dlq/retry",
        wire.DeadLettersRetried,
        request=wire.DeadLetterRetryRequest,
        needs_body=False,
    )
    async def retry(self, request: Request) -> Response:
        """Push dead letters again, oldest failure first, as many as one call may."""
        body = await read_request(
            request, wire.DeadLetterRetryRequest, default=wire.DeadLetterRetryRequest()
        )
        check_queue(identity_of(request), body.queue)
        _check_error(request, body.error)
        which = _which(
            body.queue, body.consumer_group, body.partition, body.older_than_seconds, body.error
        )
        limit = _limit(body.limit, _RETRY_MAX)
        retried = await self._retries.retry(which, limit=limit, queue_max=self._queue_max())
        pushed = [one for one in retried if one.outcome is not ItemOutcome.FULL]
        for queue in {one.queue for one in pushed}:
            self._news.pushed_elsewhere([queue])
        refused = len(retried) - len(pushed)
        return json_answer(
            wire.DeadLettersRetried(
                success=True,
                retried=sum(one.dead_letters for one in pushed),
                pushed=len(pushed),
                refused=refused,
                remaining=refused > 0 or any(one.has_more for one in retried),
            )
        )

    @route(
        "DELETE",
        "/api/v1/dlq",
        wire.DeadLettersPurged,
        query={**_FILTER, "olderThanSeconds": int, "limit": int},
    )
    async def purge(self, request: Request) -> Response:
        """Delete dead letters, oldest failure first, as many as one call may."""
        query = parse_query(request.scope["query_string"])
        _check_error(request, query.get("error"))
        which = _which(
            query.get("queue"),
            query.get("consumerGroup"),
            query.get("partition"),
            _natural(query, "olderThanSeconds"),
            query.get("error"),
        )
        given = _natural(query, "limit")
        limit = _limit(_PURGE_DEFAULT if given is None else given, _PURGE_MAX)
        purge = await self._store.purge(which, limit=limit)
        return json_answer(wire.DeadLettersPurged(True, purge.purged, purge.has_more))


def _check_error(request: Request, error: str | None) -> None:
    """Refuse to choose by error text without the verb that reads it: counts would spell it out."""
    if error:
        check_verb(identity_of(request), Verb.POP)


def _which(
    queue: str | None,
    group: str | None,
    partition: str | None,
    older_than_s: int | None,
    error: str | None,
) -> DeadLetterFilter:
    if not (queue or group) and older_than_s is None:
        raise InvalidRequest(
            "queue, consumerGroup or olderThanSeconds is required: say which dead letters"
        )
    if older_than_s is not None and older_than_s > _AGE_MAX_S:
        raise InvalidRequest(
            f"olderThanSeconds {older_than_s} is out of range; use 0 to {_AGE_MAX_S}"
        )
    return DeadLetterFilter(
        queue=check_text("queue", queue) or None,
        consumer_group=check_text("consumerGroup", group) or None,
        partition=check_text("partition", partition) or None,
        end=utc_now() - timedelta(seconds=older_than_s) if older_than_s is not None else None,
        error=check_text("error", error) or None,
    )


def _natural(query: dict[str, str], field: str) -> int | None:
    """Return a number that decides what is removed. Invalid text is refused, not ignored."""
    text = query.get(field)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidRequest(f"{field} {quote(text)} is not a number; use digits")
    return int(text[:20])


def _limit(number: int, largest: int) -> int:
    if not 1 <= number <= largest:
        raise InvalidRequest(f"limit {number} is out of range; use 1 to {largest}")
    return number


def _time(query: dict[str, str], field: str) -> datetime | None:
    return parse_time(field, query[field]) if query.get(field) else None


def _dead_letter(row: Any, opener: Opener) -> wire.StoredDeadLetter[msgspec.Raw | None]:
    data, error = opener.open_row(row, queue=row["queue"], partition=row["partition"])
    return wire.StoredDeadLetter(
        id=row["id"],
        transaction_id=row["transaction_id"],
        partition_id=row["partition_id"],
        queue=row["queue"],
        partition=row["partition"],
        consumer_group=row["consumer_group"],
        error_message=row["error_message"],
        retry_count=row["retry_count"],
        data=data,
        is_encrypted=row["is_encrypted"],
        decryption_error=error,
        producer_sub=row["producer_sub"],
        created_at=iso(row["created_at"]),
        failed_at=iso(row["failed_at"]),
    )
