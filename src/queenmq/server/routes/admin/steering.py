"""Partitions one by one: cursors and leases, previews of a seek, groups paused, errors counted."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.identity import Identity
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.news import News
from queenmq.errors import InvalidRequest, NotFound
from queenmq.server.answers.group_answers import group_partition
from queenmq.server.answers.responses import json_answer
from queenmq.server.auth.callers import identity_of, may_read_messages
from queenmq.server.auth.reach import is_within
from queenmq.server.requests.checks import check_name, check_text, quote
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.places import names_partition, parse_place
from queenmq.server.requests.queries import parse_boolean, parse_integer, parse_query
from queenmq.server.requests.seeking import check_seek_seq, parse_target
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.steering import COUNTED_MAX, SeekTarget, SteeringStore

_QUEUE = "/api/v1/resources/queues/{queue:name}"
_GROUP = "/api/v1/consumer-groups/{group:name}"
_ORDERS = ("name", "depth", "newest")
_GROUP_ORDERS = ("lag", "name", "recent")
_PAGE_MAX = 1_000


class SteeringRoutes:
    """Steering of partitions and groups. Publishes where messages may be delivered again."""

    def __init__(
        self,
        store: SteeringStore,
        maintenance: Maintenance,
        settings: Settings,
        *,
        news: News,
    ) -> None:
        self._store = store
        self._maintenance = maintenance
        self._settings = settings
        self._news = news

    @route(
        "GET",
        _QUEUE + "/partitions",
        wire.QueuePartitions,
        query={"search": str, "sort": str, "blocked": bool, **PAGE},
    )
    async def list_partitions(self, request: Request) -> Response:
        """List the partitions of a queue, a page at a time."""
        queue = self._name(request, "queue")
        query = parse_query(request.scope["query_string"])
        order = _order(query, _ORDERS)
        page = parse_page(query, limit_max=_PAGE_MAX)
        rows, total = await self._store.list_partitions(
            queue,
            check_text("search", query.get("search")) or None,
            order=order,
            only_blocked=parse_boolean(query, "blocked"),
            limit=page.limit,
            offset=page.offset,
        )
        found = [_row(row) for row in rows]
        return json_answer(wire.QueuePartitions(found, total, total >= COUNTED_MAX, page))

    @route(
        "GET",
        _QUEUE + "/partitions/{partition:name}",
        wire.PartitionDetail,
        when=names_partition,
    )
    async def show_partition(self, request: Request) -> Response:
        """Show a partition with the cursors of its groups."""
        queue, partition = parse_place(request, length_max=self._settings.max_name_length)
        found = await self._store.show_partition(queue, partition)
        if found is None:
            raise _unknown(queue, partition)
        row, cursors = found
        shows_errors = may_read_messages(request)
        return json_answer(
            wire.PartitionDetail(
                id=row["id"],
                queue=queue,
                name=partition,
                created_at=iso(row["created_at"]),
                first_seq=row["first_seq"],
                last_seq=row["last_seq"],
                newest_message=iso_or_none(row["newest_at"]),
                groups=[_cursor(one, shows_errors=shows_errors) for one in cursors],
            )
        )

    @route(
        "GET",
        _GROUP + "/queues/{queue:name}/partitions",
        wire.GroupPartitions,
        query={"search": str, "sort": str, "leased": bool, **PAGE},
    )
    async def list_group_partitions(self, request: Request) -> Response:
        """List the partitions of a group on a queue, a page at a time."""
        group, queue = self._name(request, "group"), self._name(request, "queue")
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, limit_max=_PAGE_MAX)
        rows, total = await self._store.list_group_partitions(
            group,
            queue,
            check_text("search", query.get("search")) or None,
            order=_order(query, _GROUP_ORDERS),
            only_leased=parse_boolean(query, "leased"),
            limit=page.limit,
            offset=page.offset,
        )
        found = [group_partition(row) for row in rows]
        return json_answer(wire.GroupPartitions(found, total, page))

    @route(
        "GET",
        _GROUP + "/queues/{queue:name}/seek-preview",
        wire.SeekPreview,
        query={"toEnd": bool, "timestamp": str, "partition": str, "seq": int},
    )
    async def preview_seek(self, request: Request) -> Response:
        """Count the messages that a seek would redeliver or skip."""
        group, queue = self._name(request, "group"), self._name(request, "queue")
        query = parse_query(request.scope["query_string"])
        partition = check_text("partition", query.get("partition")) or None
        counted = await self._store.preview_seek(group, queue, partition, _target(query, partition))
        return json_answer(
            wire.SeekPreview(
                group, queue, counted["partitions"], counted["again"], counted["skipped"]
            )
        )

    @route(
        "POST",
        _GROUP + "/queues/{queue:name}/partitions/{partition:name}/release",
        wire.LeaseEnded,
    )
    async def end_lease(self, request: Request) -> Response:
        """End a lease before it expires, so that its messages can be popped again."""
        group, queue = self._name(request, "group"), self._name(request, "queue")
        partition = self._name(request, "partition")
        until = await self._store.end_lease(group, queue, partition)
        if until is None and await self._store.show_partition(queue, partition) is None:
            raise _unknown(queue, partition)
        if until is not None:
            self._news.pushed_elsewhere([queue])
        return json_answer(
            wire.LeaseEnded(True, group, queue, partition, until is not None, iso_or_none(until))
        )

    @route("POST", _GROUP + "/pause", wire.GroupPaused)
    async def pause(self, request: Request) -> Response:
        """Pause a group on all queues and brokers, until it is resumed."""
        return await self._switch(request, is_paused=True)

    @route("POST", _GROUP + "/resume", wire.GroupPaused)
    async def resume(self, request: Request) -> Response:
        """Serve a paused group again."""
        return await self._switch(request, is_paused=False)

    async def _switch(self, request: Request, *, is_paused: bool) -> Response:
        group = self._name(request, "group")
        await self._maintenance.pause_group(group, is_paused)
        return json_answer(wire.GroupPaused(True, group, is_paused))

    @route(
        "GET",
        "/api/v1/dlq/errors",
        wire.DeadLetterErrors,
        query={"queue": str, "consumerGroup": str},
    )
    async def list_errors(self, request: Request) -> Response:
        """Count dead letters by queue, group and error, the most frequent first."""
        query = parse_query(request.scope["query_string"])
        queue = check_text("queue", query.get("queue")) or None
        rows = await self._store.summarize_dead_letters(
            await self._within(identity_of(request), queue),
            check_text("consumerGroup", query.get("consumerGroup")) or None,
        )
        is_cut = bool(rows) and rows[0]["is_cut"]
        return json_answer(wire.DeadLetterErrors([_error(row) for row in rows], is_cut))

    async def _within(self, identity: Identity, queue: str | None) -> list[str] | None:
        """Return which queues a caller asks about, None for all.

        They are chosen before anything is counted: errors of others must neither crowd out the
        caller's own nor show in whether the list is cut.
        """
        if queue is None and not identity.is_limited:
            return None
        named = [queue] if queue else await self._store.list_queues_with_dead_letters()
        return [name for name in named if is_within(identity, name)]

    def _name(self, request: Request, part: str) -> str:
        field = "consumerGroup" if part == "group" else part
        length_max = self._settings.max_name_length
        return check_name(field, request.path_params[part], length_max=length_max)


def _order(query: dict[str, str], orders: tuple[str, ...]) -> str:
    order = query.get("sort") or orders[0]
    if order not in orders:
        raise InvalidRequest(f"sort {quote(order)} is unknown; use one of {', '.join(orders)}")
    return order


def _target(query: dict[str, str], partition: str | None) -> SeekTarget:
    seq = parse_integer(query, "seq", 0) if "seq" in query else None
    body = wire.SeekRequest(
        to_end=parse_boolean(query, "toEnd"), timestamp=query.get("timestamp"), seq=seq
    )
    if seq is None:
        return SeekTarget(time=parse_target(body))
    if partition is None:
        raise InvalidRequest(f"seq {seq} counts inside one partition; send partition as well")
    return SeekTarget(seq=check_seek_seq(seq, body))


def _unknown(queue: str, partition: str) -> NotFound:
    return NotFound(
        f"partition {quote(partition)} of queue {quote(queue)} does not exist; check both names"
    )


def _row(row: Any) -> wire.PartitionRow:
    return wire.PartitionRow(
        id=row["id"],
        name=row["name"],
        created_at=iso(row["created_at"]),
        first_seq=row["first_seq"],
        last_seq=row["last_seq"],
        newest_message=iso_or_none(row["newest_at"]),
        groups=row["groups"],
        leased=row["leased"],
        blocked=row["blocked"],
        lag=row["lag"],
    )


def _cursor(row: Any, *, shows_errors: bool) -> wire.PartitionCursor:
    is_leased = row["leased_until"] is not None
    has_failed = row["retry_seq"] is not None
    return wire.PartitionCursor(
        consumer_group=row["consumer_group"],
        cursor_seq=row["cursor_seq"],
        lag=row["lag"],
        total_consumed=row["total_consumed"],
        last_consumed_at=iso_or_none(row["last_consumed_at"]),
        leased_until=iso_or_none(row["leased_until"]),
        leased_at=iso_or_none(row["lease_acquired_at"]) if is_leased else None,
        lease_end_seq=row["lease_end_seq"] if is_leased else None,
        retry_count=row["retry_count"],
        retry_seq=row["retry_seq"],
        retry_at=iso_or_none(row["retry_at"]),
        retry_error=row["retry_error"] if has_failed and shows_errors else None,
        expired_leases=row["expiry_count"],
        blocked_seq=row["blocked_seq"],
    )


def _error(row: Any) -> wire.DeadLetterError:
    return wire.DeadLetterError(
        row["queue"],
        row["consumer_group"],
        row["error"],
        row["letters"],
        iso(row["first_at"]),
        iso(row["last_at"]),
    )
