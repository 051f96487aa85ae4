"""Consumer groups: lag, seek, delete, change of a stored start."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.engine.news import News
from queenmq.errors import InvalidRequest, NotFound
from queenmq.server.answers.group_answers import group_partition
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.reach import is_within
from queenmq.server.requests.checks import check_name, quote
from queenmq.server.requests.queries import parse_boolean, parse_integer, parse_query, parse_time
from queenmq.server.requests.seeking import check_seek_seq, parse_target
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.groups import GroupStore

#: A group whose oldest message waits longer than this is lagging.
_LAGGING_S = 300
_LAG_DEFAULT_S = 3600
_LAG_MAX_S = 2**31 - 1
#: Partitions in one answer, worst first.
_LAGGING_MAX = 10_000
_TOP = "/api/v1/consumer-groups"
#: Inside the class `list` is one of its routes.
_GROUPS, _LAGS = list[wire.ConsumerGroup], list[wire.LaggingPartition]
_ON_QUEUE = _TOP + "/{group:name}/queues/{queue:name}"


class GroupRoutes:
    """Consumer groups and their cursors. Publishes where messages may be delivered again, and on
    which queue a group's start is forgotten.
    """

    def __init__(
        self,
        store: GroupStore,
        settings: Settings,
        *,
        paused_groups: Callable[[], Collection[str]],
        news: News,
    ) -> None:
        self._store = store
        self._settings = settings
        self._paused_groups = paused_groups
        self._news = news

    @route("GET", _TOP, _GROUPS)
    async def list(self, request: Request) -> Response:
        """Return an element per group and queue, including Spark streams."""
        paused = self._paused_groups()
        groups = [_group(row, paused) for row in await self._store.list_groups()]
        streams = [_stream_group(row) for row in await self._store.list_streams()]
        identity = identity_of(request)
        found = [one for one in groups + streams if is_within(identity, one.queue_name)]
        return json_answer(sorted(found, key=lambda one: (one.name, one.queue_name)))

    @route("GET", _TOP + "/lagging", _LAGS, query={"minLagSeconds": int})
    async def lagging(self, request: Request) -> Response:
        """Return the partitions in which a group is behind, worst first."""
        query = parse_query(request.scope["query_string"])
        lag_s = parse_integer(query, "minLagSeconds", _LAG_DEFAULT_S)
        if not 0 <= lag_s <= _LAG_MAX_S:
            raise InvalidRequest(f"minLagSeconds {lag_s} is out of range; use 0 to {_LAG_MAX_S}")
        rows = await self._store.list_lagging(lag_s, limit=_LAGGING_MAX)
        identity = identity_of(request)
        return json_answer(
            [_encode_lagging(row) for row in rows if is_within(identity, row["queue_name"])]
        )

    @route("GET", _TOP + "/{group:name}", dict[str, wire.GroupQueue], query={"partitions": bool})
    async def show(self, request: Request) -> Response:
        """Return a group's partitions by queue. Nothing for an unknown group."""
        group = self._name(request, "group")
        query = parse_query(request.scope["query_string"])
        has_partitions = query.get("partitions") not in ("false", "0")
        queues: dict[str, wire.GroupQueue] = {}
        for row in await self._store.show_group(group) if has_partitions else ():
            queue = queues.setdefault(row["queue_name"], wire.GroupQueue([]))
            queue.partitions.append(group_partition(row))
        for row in await self._store.show_streams(group):
            queue = queues.setdefault(row["queue_name"], wire.GroupQueue([]))
            queue.streams = [*(queue.streams or ()), _stream(row)]
        identity = identity_of(request)
        return json_answer(
            {name: queue for name, queue in queues.items() if is_within(identity, name)}
        )

    @route("DELETE", _TOP + "/{group:name}", wire.GroupDeleted, query={"deleteMetadata": bool})
    async def delete(self, request: Request) -> Response:
        """Delete a group on all queues. One transaction per queue: repeat it after an error."""
        group, deletes_start = self._name(request, "group"), _deletes_start(request)
        removed = 0
        for queue in await self._store.find_group_queues(group):
            removed += await self._delete(group, queue, deletes_start)
        return json_answer(
            wire.GroupDeleted(
                success=True,
                consumer_group=group,
                deleted_partitions=removed,
                deleted_streams=await self._store.delete_streams(group),
                metadata_deleted=deletes_start,
            )
        )

    @route("DELETE", _ON_QUEUE, wire.GroupDeleted, query={"deleteMetadata": bool})
    async def delete_on_queue(self, request: Request) -> Response:
        """Delete a group on one queue."""
        if b"/partitions/" in request.scope["raw_path"]:
            # Taken as a queue name, it would succeed and do nothing.
            raise NotFound(
                "a group cannot be deleted on one partition; delete it on the queue,"
                " or escape the slashes of the queue's name"
            )
        group, queue = self._name(request, "group"), self._name(request, "queue")
        deletes_start = _deletes_start(request)
        removed = await self._delete(group, queue, deletes_start)
        return json_answer(
            wire.GroupDeleted(
                success=True,
                consumer_group=group,
                queue_name=queue,
                deleted_partitions=removed,
                metadata_deleted=deletes_start,
            )
        )

    async def _delete(self, group: str, queue: str, deletes_start: bool) -> int:
        removed = await self._store.delete(group, queue, deletes_start=deletes_start)
        if deletes_start:
            self._news.group_deleted(queue, group)
        self._news.pushed_elsewhere([queue])
        return removed

    @route(
        "POST",
        _TOP + "/{group:name}/subscription",
        wire.GroupStartChanged,
        request=wire.GroupStartRequest,
    )
    async def set_start(self, request: Request) -> Response:
        """Change the stored start of a group. Its cursors stay."""
        group = self._name(request, "group")
        body = await read_request(request, wire.GroupStartRequest)
        time = parse_time("subscriptionTimestamp", body.subscription_timestamp)
        changed = await self._store.set_start(group, time)
        for queue in await self._store.find_group_queues(group) if changed else ():
            self._news.pushed_elsewhere([queue])
        return json_answer(
            wire.GroupStartChanged(
                success=True, consumer_group=group, new_timestamp=iso(time), rows_updated=changed
            )
        )

    @route(
        "POST",
        _ON_QUEUE + "/seek",
        wire.GroupMoved,
        request=wire.SeekRequest,
        needs_body=False,
    )
    async def seek(self, request: Request) -> Response:
        """Move a group on a queue to a time or to the end."""
        group, queue = self._name(request, "group"), self._name(request, "queue")
        body = await read_request(request, wire.SeekRequest, default=wire.SeekRequest())
        if body.seq is not None:
            raise InvalidRequest(
                f"seq {body.seq} counts inside one partition; seek in a partition instead"
            )
        time = parse_target(body)
        moved = await self._store.seek(group, queue, None, time)
        if not moved and not (await self._store.find_place(queue, None))[0]:
            raise NotFound(f"queue {quote(queue)} does not exist; check its name")
        self._news.pushed_elsewhere([queue])
        return json_answer(
            wire.GroupMoved(
                success=True,
                consumer_group=group,
                queue_name=queue,
                seek_to_end=time is None,
                target_timestamp=iso_or_none(time),
                partitions_updated=len(moved),
            )
        )

    @route(
        "POST",
        _ON_QUEUE + "/partitions/{partition:name}/seek",
        wire.GroupMovedInPartition,
        request=wire.SeekRequest,
        needs_body=False,
    )
    async def seek_partition(self, request: Request) -> Response:
        """Move a group on one partition to the end, or to a time if the body has one."""
        group, queue = self._name(request, "group"), self._name(request, "queue")
        partition = self._name(request, "partition")
        body = await read_request(request, wire.SeekRequest, default=wire.SeekRequest())
        answer = wire.GroupMovedInPartition(True, group, queue, partition, False, None)
        if body.seq is not None:
            seq = check_seek_seq(body.seq, body)
            answer.next_seq = await self._store.move_cursor(group, queue, partition, seq)
            answer.updated = answer.next_seq is not None
        else:
            time = None if body.timestamp is None else parse_target(body)
            moved = await self._store.seek(group, queue, partition, time)
            answer.updated = bool(moved)
            answer.cursor_moved_to = iso_or_none(moved[0][1]) if moved else None
        if not answer.updated and not (await self._store.find_place(queue, partition))[1]:
            raise NotFound(
                f"partition {quote(partition)} of queue {quote(queue)} does not exist;"
                " check both names"
            )
        self._news.pushed_elsewhere([queue])
        return json_answer(answer)

    def _name(self, request: Request, part: str) -> str:
        field = "consumerGroup" if part == "group" else part
        length_max = self._settings.max_name_length
        return check_name(field, request.path_params[part], length_max=length_max)


def _deletes_start(request: Request) -> bool:
    query = parse_query(request.scope["query_string"])
    return "deleteMetadata" not in query or parse_boolean(query, "deleteMetadata")


def _group(row: Any, paused: Collection[str]) -> wire.ConsumerGroup:
    lag_s = row["max_time_lag"]
    state = "Lagging" if lag_s > _LAGGING_S else "Stable"
    return wire.ConsumerGroup(
        name=row["consumer_group"],
        topics=[row["queue_name"]],
        queue_name=row["queue_name"],
        members=row["members"],
        partitions_with_lag=row["partitions_with_lag"],
        total_lag=row["total_lag"],
        max_time_lag=lag_s,
        state=state if row["members"] or row["has_partitions"] else "Dead",
        subscription_mode=row["subscription_mode"],
        subscription_timestamp=iso_or_none(row["subscription_timestamp"]),
        subscription_created_at=iso_or_none(row["subscription_created_at"]),
        kind="consumer",
        is_paused=row["consumer_group"] in paused,
    )


def _stream_group(row: Any) -> wire.ConsumerGroup:
    """Build the row of a stream.

    Its checkpoint has its position, so it has no cursors and no start.
    """
    lag_s = row["max_time_lag"]
    return wire.ConsumerGroup(
        name=row["consumer_group"],
        topics=[row["queue_name"]],
        queue_name=row["queue_name"],
        members=row["members"],
        partitions_with_lag=None,
        total_lag=row["total_lag"],
        max_time_lag=lag_s,
        state="Lagging" if lag_s > _LAGGING_S else "Stable",
        subscription_mode=None,
        subscription_timestamp=None,
        subscription_created_at=None,
        kind="spark",
        updated_at=iso_or_none(row["updated_at"]),
    )


def _stream(row: Any) -> wire.GroupStream:
    return wire.GroupStream(
        query_id=row["query_id"],
        position=row["position"],
        offset_lag=row["offset_lag"],
        time_lag_seconds=row["time_lag_seconds"],
        updated_at=iso(row["updated_at"]),
    )


def _encode_lagging(row: Any) -> wire.LaggingPartition:
    # Leases do not name their consumer, so there is no worker.
    return wire.LaggingPartition(
        consumer_group=row["consumer_group"],
        queue_name=row["queue_name"],
        partition_name=row["partition_name"],
        partition_id=row["partition_id"],
        offset_lag=row["offset_lag"],
        time_lag_seconds=row["time_lag_seconds"],
        lag_hours=round(row["time_lag_seconds"] / 3600, 2),
        oldest_unconsumed_at=iso_or_none(row["oldest_at"]),
        last_consumed_at=iso_or_none(row["last_consumed_at"]),
        kind=row["kind"],
    )
