"""Single messages: list, show, delete, push a dead one again, move one to the dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.errors import Conflict, InvalidRequest, NotFound
from queenmq.server.answers.opening import Opener
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.requests.checks import check_name, check_text, check_uuid, quote
from queenmq.server.requests.letter_retries import LetterRetries
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso, iso_or_none, parse_span
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.dead_letters import DeadLetterFilter, RetriedMessage
from queenmq.storage.stores.inspection import SCAN_MAX, InspectionStore, MessageFilter

_STATUSES = ("pending", "processing", "completed", "dead_letter")
_LIMIT_MAX = 1_000
#: Dead letters of one message, one per group, that are pushed again as one.
_GROUPS_MAX = 10_000
_ONE = "/api/v1/messages/{partition_id}/{transaction_id:name}"
#: Inside the class `list` is one of its routes.
_HEADS = list[wire.MessageHead]
_BURIED = "Moved to the dead letters by an operator"


class MessageRoutes:
    """Routes of single messages. Publishes which queue's messages changed."""

    def __init__(
        self,
        store: InspectionStore,
        dead_letters: LetterRetries,
        settings: Settings,
        opener: Opener,
        *,
        queue_max: Callable[[], int],
        news: News,
    ) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._opener = opener
        self._settings = settings
        self._queue_max = queue_max
        self._news = news

    @route(
        "GET",
        "/api/v1/messages",
        wire.MessageList,
        query={
            "queue": str,
            "partition": str,
            "ns": str,
            "task": str,
            "status": str,
            "from": str,
            "to": str,
            "transactionId": str,
            "text": str,
            **PAGE,
        },
    )
    async def list(self, request: Request) -> Response:
        """Return a page of messages, newest first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, default=200, limit_max=_LIMIT_MAX)
        which = _filter(query)
        _check_reach(page)
        rows, is_cut = await self._store.list_messages(which, limit=page.limit, offset=page.offset)
        groups = {name for row in rows for name in row["named_groups"]}
        has_default = any(row["queue_status"] is not None for row in rows)
        return json_answer(
            wire.MessageList(
                messages=[wire.MessageSummary(**_message(row)) for row in rows],
                mode=_mode(has_default, groups),
                pagination=page,
                is_cut=is_cut,
            )
        )

    @route(
        "GET",
        "/api/v1/status/queues/{queue:name}/messages",
        _HEADS,
        query=PAGE,
    )
    async def of_queue(self, request: Request) -> Response:
        """Return the newest messages of a queue, without payloads."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, default=50, limit_max=_LIMIT_MAX)
        _check_reach(page)
        name = request.path_params["queue"]
        check_name("queue", name, length_max=self._settings.max_name_length)
        whenever = {"queue": name, "from": "0001-01-02T00:00:00Z", "to": "9999-12-30T00:00:00Z"}
        rows, _ = await self._store.list_messages(
            _filter(whenever), limit=page.limit, offset=page.offset
        )
        return json_answer([_head(row) for row in rows])

    @route("GET", _ONE, wire.MessageDetail)
    async def show(self, request: Request) -> Response:
        """Return one message with its payload."""
        place = self._place(request)
        row = await self._store.show_message(*place)
        if row is None:
            raise _make_unknown(*place)
        return json_answer(_detail(row, self._opener))

    @route("DELETE", _ONE, wire.MessageDeleted)
    async def delete(self, request: Request) -> Response:
        """Remove one message with its dead letters and traces."""
        partition_id, transaction_id = self._place(request)
        queue = await self._store.delete_message(partition_id, transaction_id)
        if queue is None:
            raise _make_unknown(partition_id, transaction_id)
        self._news.pushed_elsewhere([queue])
        return json_answer(
            wire.MessageDeleted(True, str(partition_id), transaction_id, "the message is deleted")
        )

    @route(
        "POST",
        _ONE + "/dlq",
        wire.MessageDeadLettered,
        request=wire.DeadLetterRequest,
        needs_body=False,
    )
    async def dead_letter(self, request: Request) -> Response:
        """Move one message to the dead letters of the groups that have not passed it."""
        partition_id, transaction_id = self._place(request)
        body = await read_request(request, wire.DeadLetterRequest, default=wire.DeadLetterRequest())
        error = check_text("error", body.error) or _BURIED
        moved = await self._store.dead_letter_message(partition_id, transaction_id, error)
        if moved.queue is None:
            raise _make_unknown(partition_id, transaction_id)
        if not moved.consumer_groups:
            raise Conflict(
                f"message {quote(transaction_id)} was passed by every consumer group; delete it"
                " if it is in the way"
            )
        self._news.pushed_elsewhere([moved.queue])
        return json_answer(
            wire.MessageDeadLettered(
                True,
                str(partition_id),
                transaction_id,
                "the message is a dead letter now",
                consumer_groups=list(moved.consumer_groups),
            )
        )

    @route("POST", _ONE + "/retry", wire.MessageRetried)
    async def retry(self, request: Request) -> Response:
        """Push a dead message again at the end of its partition."""
        partition_id, transaction_id = self._place(request)
        retried = await self._dead_letters.retry(
            DeadLetterFilter(),
            partition_id=partition_id,
            transaction_id=transaction_id,
            limit=_GROUPS_MAX,
            queue_max=self._queue_max(),
        )
        if not retried:
            if await self._store.show_message(partition_id, transaction_id) is None:
                raise _make_unknown(partition_id, transaction_id)
            raise Conflict(
                f"message {quote(transaction_id)} is not a dead letter; only those are retried"
            )
        # The newest one, should the id have been used again after its message had left.
        one = retried[-1]
        if one.outcome is ItemOutcome.FULL:
            raise Conflict(
                f"queue {quote(one.queue)} is full; the dead letter stays, retry it when there is"
                " room"
            )
        self._news.pushed_elsewhere([one.queue])
        return json_answer(_make_retried(partition_id, transaction_id, one))

    def _place(self, request: Request) -> tuple[UUID, str]:
        partition_id = check_uuid("partitionId", request.path_params["partition_id"])
        length_max = self._settings.max_name_length
        return partition_id, check_name(
            "transactionId", request.path_params["transaction_id"], length_max=length_max
        )


def _filter(query: dict[str, str]) -> MessageFilter:
    status = query.get("status") or None
    if status is not None and status not in _STATUSES:
        raise InvalidRequest(f"status {quote(status)} is unknown; use one of {_STATUSES}")
    names = {
        name: check_text(name, query.get(name)) or None
        for name in ("queue", "ns", "task", "partition", "transactionId", "text")
    }
    if names["partition"] is not None and names["queue"] is None:
        raise InvalidRequest(
            f"partition {quote(names['partition'])} needs its queue; send queue as well"
        )
    # A minute more: the clock that gave the messages their times may be ahead of ours.
    span = parse_span(query, default=timedelta(hours=1), ahead=timedelta(minutes=1))
    return MessageFilter(
        names["queue"],
        names["ns"],
        names["task"],
        names["partition"],
        status,
        *span,
        names["transactionId"],
        names["text"],
    )


def _check_reach(page: wire.Pagination) -> None:
    if page.limit + page.offset > SCAN_MAX:
        raise InvalidRequest(
            f"offset {page.offset} reaches beyond the newest {SCAN_MAX} messages; narrow the list"
            " by partition, from and to instead"
        )


def _make_unknown(partition_id: UUID, transaction_id: str) -> NotFound:
    return NotFound(
        f"Message not found: partition {partition_id} has no message {quote(transaction_id)};"
        " check both ids"
    )


def _make_retried(
    partition_id: UUID, transaction_id: str, one: RetriedMessage
) -> wire.MessageRetried:
    is_stored = one.outcome is ItemOutcome.STORED
    return wire.MessageRetried(
        True,
        str(partition_id),
        transaction_id,
        "the message was pushed again",
        new_message_id=one.new_id if is_stored else None,
        new_transaction_id=one.new_transaction_id,
        operation_id=None if is_stored else one.new_id,
    )


def _mode(
    has_default: bool, groups: Iterable[str], consumed_by: list[str] | None = None
) -> wire.Mode:
    count = len(set(groups))
    kind = {
        (False, False): "none",
        (True, False): "queue",
        (False, True): "bus",
        (True, True): "hybrid",
    }[has_default, count > 0]
    return wire.Mode(has_default, count, kind, consumed_by)


def _head(row: Any) -> wire.MessageHead:
    fields = _message(row)
    return wire.MessageHead(**{name: fields[name] for name in wire.MessageHead.__struct_fields__})


def _message(row: Any) -> dict[str, Any]:
    """Return the fields of a message that lists have too."""
    return {
        "id": row["id"],
        "transaction_id": row["transaction_id"],
        "partition_id": row["partition_id"],
        "queue_path": f"{row['queue_name']}/{row['partition_name']}",
        "queue": row["queue_name"],
        "partition": row["partition_name"],
        "namespace": row["namespace"],
        "task": row["task"],
        "status": row["status"],
        "queue_status": row["queue_status"],
        "bus_status": wire.GroupCounts(len(row["passed_groups"]), len(row["named_groups"])),
        "trace_id": row["trace_id"],
        "producer_sub": row["producer_sub"],
        "queue_priority": row["priority"],
        "created_at": iso(row["created_at"]),
        "lease_expires_at": iso_or_none(row["lease_expires_at"]),
        "seq": row["seq"],
    }


def _detail(row: Any, opener: Opener) -> wire.MessageDetail:
    payload, error = opener.open_row(row, queue=row["queue_name"], partition=row["partition_name"])
    groups = zip(
        row["group_names"] or (), row["have_passed"] or (), row["leased_until"] or (), strict=True
    )
    has_default = row["queue_status"] is not None
    return wire.MessageDetail(
        **_message(row),
        payload=payload,
        decryption_error=error,
        is_encrypted=row["is_encrypted"],
        error_message=row["error_message"],
        retry_count=row["retry_count"],
        queue_config=wire.MessageQueueConfig(
            lease_time=row["lease_time"],
            retry_limit=row["retry_limit"],
            retry_delay=row["retry_delay"],
            ttl=row["ttl"],
            priority=row["priority"],
        ),
        mode=_mode(has_default, row["named_groups"], row["passed_groups"]),
        consumer_groups=[
            wire.MessageGroup(name, consumed, iso_or_none(until))
            for name, consumed, until in groups
        ],
    )
