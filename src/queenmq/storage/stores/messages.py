"""The engine's MessageStore over PostgreSQL: one method per SQL function, columns in, rows out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

from asyncpg import Record

from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import (
    AckItem,
    AckResult,
    CompletedLease,
    Fetched,
    KnownPush,
    LeaseRelease,
    News,
    PartitionKey,
    PartitionRef,
    PopCandidate,
    PopGrant,
    PushCall,
    Pushed,
    PushItems,
    PushOutcome,
    Renewal,
    RequestKey,
    ResolveAsk,
    Resolved,
    Scope,
    Slice,
    Subscription,
    TransactionItems,
    TransactionOutcome,
    WalkAsk,
)
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries
from queenmq.storage.stores.outcomes import decode_holds, decode_items, decode_pop

F = TypeVar("F", Resolved, Slice)

#: A look-up starts no further search after this part of its time, so that it can return what it has
#: found.
_BEGIN_SHARE = 2
#: A slice of a walk ends after this part of its time: its last step may take as long again.
_SLICE_SHARE = 4
#: A queue with more partitions is walked through. So many are searched in a few milliseconds.
_WHOLE_MAX = 1_000


class PostgresMessageStore:
    """Implements `queenmq.engine.ports.MessageStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("calls")

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        rows = await self._database.fetch(
            self._sql["ensure_partitions"],
            [key.queue for key in keys],
            [key.partition for key in keys],
            lock_timeout_ms,
            priority=OperationType.PUSH,
        )
        return [_partition_ref(row) for row in rows]

    async def find_partitions(
        self, keys: Sequence[PartitionKey], *, limit_ms: int | None = None
    ) -> list[PartitionRef]:
        rows = await self._database.fetch_within(
            self._sql["find_partitions"],
            [key.queue for key in keys],
            [key.partition for key in keys],
            priority=OperationType.POP,
            limit_ms=limit_ms,
        )
        return [_partition_ref(row) for row in rows]

    async def push_messages(
        self, call: PushCall, *, queue_max: int, checks_operations_first: bool, lock_timeout_ms: int
    ) -> Pushed:
        ids, letters, positions = await self._database.fetch_row(
            self._sql["push_messages"],
            *_push_columns(call.items, call.refs),
            call.request_sizes,
            call.queued_ids or None,
            queue_max,
            checks_operations_first,
            call.is_accepted,
            lock_timeout_ms,
            call.are_ids_new,
            *_key_columns(call.request_keys),
            priority=OperationType.PUSH,
        )
        return Pushed(ids, decode_items(letters), positions)

    async def find_push_keys(self, keys: Sequence[UUID]) -> list[KnownPush]:
        rows = await self._database.fetch(
            self._sql["find_push_keys"], keys, priority=OperationType.PUSH
        )
        return [
            KnownPush(key, digest, origin, ids, None if how is None else decode_items(how), places)
            for key, digest, origin, ids, how, places in rows
        ]

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        busy = await self._database.fetch_value(
            self._sql["find_busy_partitions"], partition_ids, priority=OperationType.PUSH
        )
        return set(busy)

    async def find_publishing(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        held = await self._database.fetch_value(
            self._sql["find_publishing"], partition_ids, priority=OperationType.PUSH
        )
        return set(held)

    async def find_busy_cursors(self, keys: Sequence[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
        rows = await self._database.fetch(
            self._sql["find_busy_cursors"], *_columns(keys), priority=OperationType.ACK_BATCH
        )
        return {(row[0], row[1]) for row in rows}

    async def find_busy_leases(self, lease_ids: Sequence[UUID]) -> set[UUID]:
        busy = await self._database.fetch_value(
            self._sql["find_busy_leases"], lease_ids, priority=OperationType.ACK_BATCH
        )
        return set(busy)

    async def subscribe_groups(self, starts: Sequence[tuple[Scope, str, Subscription]]) -> None:
        rows = []
        for scope, group, subscription in starts:
            if scope.queue is not None:
                queues = [scope.queue]
            else:
                found = await self._database.fetch(
                    self._sql["find_queue_names"],
                    scope.namespace,
                    scope.task,
                    priority=OperationType.POP,
                )
                queues = [row[0] for row in found]
            rows += [
                (name, scope.partition or "", group, subscription.start_time) for name in queues
            ]
        if rows:
            await self._database.fetch(
                self._sql["subscribe_groups"], *_columns(rows), priority=OperationType.POP
            )

    async def pop_sm_resolve(
        self, asks: Sequence[ResolveAsk], *, limit: int, limit_ms: int
    ) -> list[Resolved | None]:
        rows = await self._database.fetch_within(
            self._sql["pop_sm_resolve"],
            *_ask_columns(asks),
            limit,
            limit_ms // _BEGIN_SHARE,
            _WHOLE_MAX,
            priority=OperationType.POP,
            limit_ms=limit_ms,
        )
        found: list[Resolved | None] = [None] * len(asks)
        for pair, *columns in rows:
            found[pair - 1] = _decode_whys(Resolved(*columns))
        return found

    async def walk_partitions(
        self, asks: Sequence[WalkAsk], *, limit: int, limit_ms: int
    ) -> list[Slice | None]:
        rows = await self._database.fetch_within(
            self._sql["walk_partitions"],
            *_columns(asks),
            limit,
            limit_ms // _SLICE_SHARE,
            priority=OperationType.POP,
            limit_ms=limit_ms,
        )
        found: list[Slice | None] = [None] * len(asks)
        for pair, *columns in rows:
            found[pair - 1] = _decode_whys(Slice(*columns))
        return found

    async def find_news(
        self, queues: Sequence[str], horizons: Sequence[str], *, limit_ms: int
    ) -> list[News]:
        rows = await self._database.fetch_within(
            self._sql["find_news"],
            queues,
            horizons,
            priority=OperationType.POP,
            limit_ms=limit_ms,
        )
        return [News(*row) for row in rows]

    async def has_pending_messages(
        self, asks: Sequence[ResolveAsk], *, limit_ms: int
    ) -> Sequence[bool]:
        rows = await self._database.fetch_within(
            self._sql["has_pending_messages"],
            *_ask_columns(asks),
            priority=OperationType.POP,
            limit_ms=limit_ms,
        )
        return cast(Sequence[bool], rows[0][0])

    async def pop_messages_batch(
        self, candidates: Sequence[PopCandidate], *, apart_count: int
    ) -> list[PopGrant]:
        rows = await self._database.fetch(
            self._sql["pop_messages_batch"],
            *_columns(candidates),
            apart_count,
            priority=OperationType.POP,
        )
        return [PopGrant(row[0], row[1], decode_pop(row[2]), *row[3:]) for row in rows]

    async def pop_sm_fetch(
        self, consumer_group: str, grants: Sequence[PopGrant]
    ) -> dict[UUID, Fetched]:
        rows = await self._database.fetch(
            self._sql["pop_sm_fetch"],
            [grant.partition_id for grant in grants],
            [consumer_group] * len(grants),
            [grant.lease_id for grant in grants],
            [grant.after_seq for grant in grants],
            [grant.end_seq for grant in grants],
            [grant.attempts for grant in grants],
            priority=OperationType.POP,
        )
        return {row[0]: Fetched(*row[1:]) for row in rows}

    async def return_taken(self, consumer_group: str, grants: Sequence[PopGrant]) -> set[UUID]:
        returned = await self._database.fetch_value(
            self._sql["return_taken"],
            [grant.partition_id for grant in grants],
            consumer_group,
            [grant.after_seq for grant in grants],
            [grant.end_seq for grant in grants],
            priority=OperationType.ACK_BATCH,
        )
        return set(returned)

    async def pop_sm_release(
        self, releases: Sequence[LeaseRelease], *, lock_timeout_ms: int
    ) -> None:
        await self._database.fetch(
            self._sql["pop_sm_release"],
            *_columns(releases),
            lock_timeout_ms,
            priority=OperationType.ACK_BATCH,
        )

    async def ack_messages(
        self, items: Sequence[AckItem], *, lock_timeout_ms: int
    ) -> list[AckResult]:
        rows = await self._database.fetch(
            self._sql["ack_messages"],
            *_columns(items),
            lock_timeout_ms,
            priority=OperationType.ACK_BATCH,
        )
        return [AckResult(*row) for row in rows]

    async def ack_completed(
        self, leases: Sequence[CompletedLease], *, lock_timeout_ms: int
    ) -> list[AckResult | list[AckResult]]:
        row = await self._database.fetch_row(
            self._sql["ack_completed"],
            *_columns(leases),
            lock_timeout_ms,
            priority=OperationType.ACK_BATCH,
        )
        places, *columns = row
        results: list[AckResult | list[AckResult]] = [[] for _ in leases]
        if places is not None:
            for place, queue, partition, is_released, has_more in zip(
                places, *columns[:4], strict=True
            ):
                results[place - 1] = AckResult(
                    True, None, queue, partition, is_released, False, has_more
                )
        if columns[4] is not None:
            rest = zip(*columns[4:], strict=True)
            for place, lease in enumerate(leases):
                if not results[place]:
                    mine = itertools.islice(rest, lease.messages)
                    results[place] = [_rest_result(*one) for one in mine]
        return results

    async def renew_leases(
        self, lease_ids: Sequence[UUID], seconds: Sequence[int], *, lock_timeout_ms: int
    ) -> list[Renewal]:
        rows = await self._database.fetch(
            self._sql["renew_leases"],
            lease_ids,
            seconds,
            lock_timeout_ms,
            priority=OperationType.ACK_SINGLE,
        )
        return [Renewal(*row) for row in rows]

    async def commit_transaction(
        self,
        items: TransactionItems,
        refs: Sequence[PartitionRef],
        *,
        queue_max: int,
        lock_timeout_ms: int,
    ) -> TransactionOutcome:
        acks = items.acks
        is_repeat, *row = await self._database.fetch_row(
            self._sql["commit_transaction"],
            *_push_columns(items.pushes, refs),
            queue_max,
            *(_columns(acks) if acks else [[]] * len(AckItem._fields)),
            items.required_leases,
            lock_timeout_ms,
            items.key,
            items.digest,
            items.is_key_derived,
            priority=OperationType.PUSH,
        )
        pushed = Pushed(row[0] or (), decode_items(row[1] or ""), row[2])
        is_dlq, queues, partitions = (column or () for column in row[3:])
        freed = [
            None if queue is None else PartitionKey(queue, partition)
            for queue, partition in zip(queues, partitions, strict=True)
        ]
        return TransactionOutcome(PushOutcome(refs, *pushed), is_dlq, freed, is_repeat)

    async def notify(self, channel: str, payload: str) -> None:
        """Notify all listeners of the channel."""
        await self._database.fetch(
            self._sql["notify"], channel, payload, priority=OperationType.SYSTEM_EVENT
        )


def _key_columns(keys: Sequence[RequestKey | None] | None) -> list[Any]:
    if keys is None:
        return [None] * len(RequestKey._fields)
    nothing = (None,) * len(RequestKey._fields)
    return _columns([one or nothing for one in keys])


def _rest_result(
    error: str | None,
    queue_name: str | None,
    partition_name: str | None,
    is_released: bool,
    has_more: bool | None,
) -> AckResult:
    # A completed message is refused with a reason, or it has succeeded; it makes no dead letter.
    return AckResult(error is None, error, queue_name, partition_name, is_released, False, has_more)


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _decode_whys(found: F) -> F:
    return found._replace(held_whys=decode_holds(cast(str, found.held_whys)))


def _ask_columns(asks: Sequence[ResolveAsk]) -> list[Any]:
    """Return the arguments that pop_sm_resolve and has_pending_messages share."""
    return [
        [ask.scope.queue for ask in asks],
        [ask.scope.partition for ask in asks],
        [ask.scope.namespace for ask in asks],
        [ask.scope.task for ask in asks],
        [ask.consumer_group for ask in asks],
        [ask.horizon for ask in asks],
        [partition_id for ask in asks for partition_id in ask.known_ids],
        [len(ask.known_ids) for ask in asks],
    ]


def _partition_ref(row: Record) -> PartitionRef:
    key = PartitionKey(row["queue_name"], row["partition_name"])
    partition_id = row["partition_id"]
    return PartitionRef(
        key=key,
        partition_id=partition_id,
        id_text=str(partition_id),
        queue_id=row["queue_id"],
        namespace=row["namespace"],
        task=row["task"],
        is_encrypted=row["is_encrypted"],
        id_digits=_id_digits(row["number"]),
    )


def _id_digits(number: int | None) -> str:
    """Return what the SQL function id_prefix makes of a partition's number: digits 15 to 25."""
    if number is None:
        # Deleted meanwhile. A push to it creates it again.
        return ""
    low = number & 0xFFFFF
    return f"{number >> 20 & 0xFFF:03x}-{8 | number >> 32:x}{low >> 8:03x}-{low & 0xFF:02x}"


def _push_columns(items: PushItems, refs: Sequence[PartitionRef]) -> list[Any]:
    """Return the arguments that push_messages and commit_transaction share."""
    # By the refs themselves: there are few, and hashing a UUID per item is expensive.
    distinct = dict.fromkeys(refs)
    partition_ids = sorted({ref.partition_id for ref in distinct})
    places = {partition_id: place for place, partition_id in enumerate(partition_ids, 1)}
    place_of = {ref: places[ref.partition_id] for ref in distinct}
    return [
        partition_ids,
        [place_of[ref] for ref in refs],
        items.transaction_ids,
        items.trace_ids,
        items.payloads,
        items.producer_subs,
        items.encrypted,
    ]
