"""One push request on its way through a call, and how several become one call."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from queenmq.engine.calls.entry import Answerable
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.push.naming import name_spooled
from queenmq.engine.queued_pushes.accepted_row import AcceptedRow
from queenmq.engine.requests import (
    KnownPush,
    PartitionRef,
    PushCall,
    PushItems,
    PushOutcome,
    RequestKey,
)
from queenmq.errors import KeyReused, PartitionBusy, QueenError, StorageRejected

V = TypeVar("V")


class PushEntry(Answerable[PushOutcome]):
    """One push request on its way through a call."""

    __slots__ = (
        "attempts",
        "deadline_ms",
        "diverts",
        "is_queued",
        "items",
        "keys",
        "refs",
        "row",
        "weight",
    )

    def __init__(
        self,
        items: PushItems,
        refs: list[PartitionRef],
        future: asyncio.Future[PushOutcome],
        deadline_ms: float,
        *,
        is_queued: bool = False,
        row: AcceptedRow | None = None,
    ) -> None:
        self.items = items
        self.future = future
        self.deadline_ms = deadline_ms
        #: To be queued as an operation instead of stored.
        self.is_queued = is_queued
        #: Whether it was answered before, so that it can no longer be refused.
        self.row = row
        self.weight = len(items.payloads)
        self.attempts = 0
        self.diverts = 0
        self.set_refs(refs)

    def set_refs(self, refs: list[PartitionRef]) -> None:
        self.refs = refs
        # Most requests have one partition, and the hash of a UUID is expensive.
        distinct = refs if len(refs) == 1 else dict.fromkeys(refs)
        self.keys: set[UUID] = {ref.partition_id for ref in distinct}

    def fail(self, error: QueenError) -> None:
        if self.row is not None and not self.future.done():
            self.row.note(self.items.keys, error)
        super().fail(error)

    def fail_reused(self, found: KnownPush, digest: UUID) -> bool:
        """Refuse a request whose key belongs to another body. Return whether it does."""
        if found.digest != digest:
            text = (
                "the idempotency key of this push was used for a request with another body; "
                "use a new key for each request"
            )
        elif self.row is not None and ItemOutcome.FULL in (found.outcomes or ()):
            text = (
                "some messages of this push found no room when it was sent before under its"
                " idempotency key, and the others were stored; push the missing ones again"
            )
        else:
            return False
        # What was accepted before is set aside, where an operator sees it.
        self.fail(KeyReused(text) if self.row is None else StorageRejected(text, public=text))
        return True

    def still_held(self, key: UUID) -> PartitionBusy:
        held = next(ref.key for ref in self.refs if ref.partition_id == key)
        return PartitionBusy(
            f"partition {held.partition!r} of queue {held.queue!r} is held by another transaction;"
            " nothing was stored, try again"
        )

    def is_stopped(self) -> bool:
        """Return whether it would overtake a failed request. If so, fail it with the same error."""
        error = self.row.error_of(self.items.keys) if self.row is not None else None
        if error is not None:
            self.fail(error)
        return error is not None


def split_accepted(entries: Sequence[PushEntry]) -> list[list[PushEntry]]:
    """Split requests that were accepted before from the others, in order.

    A call has only one of the two, because no bounds apply to accepted requests.
    """
    if not any([entry.row is not None for entry in entries]):
        return [list(entries)]
    groups = itertools.groupby(entries, lambda entry: entry.row is not None)
    return [list(group) for _, group in groups]


def merge(entries: Sequence[PushEntry]) -> PushCall:
    """Merge several requests into one call, in order. All of them were accepted before, or none."""
    return PushCall(
        items=merge_items(entries),
        refs=[ref for entry in entries for ref in entry.refs],
        request_sizes=[entry.weight for entry in entries],
        # To keep the order, one queued request of a partition makes the others queued, too.
        queued_ids={key for entry in entries if entry.is_queued for key in entry.keys},
        is_accepted=entries[0].row is not None,
        request_keys=_request_keys(entries),
    )


def _request_keys(entries: Sequence[PushEntry]) -> list[RequestKey | None] | None:
    keys = [entry.items.request_key for entry in entries]
    return keys if any(keys) else None


def merge_items(entries: Sequence[PushEntry]) -> PushItems:
    """Return the items of several requests as one, in order."""
    if len(entries) == 1:
        return entries[0].items
    parts = [entry.items for entry in entries]
    return PushItems(
        keys=[key for one in parts for key in one.keys],
        payloads=[payload for one in parts for payload in one.payloads],
        transaction_ids=_merge_column(entries, [one.transaction_ids for one in parts]),
        trace_ids=_merge_column(entries, [one.trace_ids for one in parts]),
        producer_subs=_merge_column(entries, [one.producer_subs for one in parts]),
        encrypted=_merge_column(entries, [one.encrypted for one in parts]),
    )


def _merge_column(
    entries: Sequence[PushEntry], columns: Sequence[list[V | None] | None]
) -> list[V | None] | None:
    """Return a column of all items; None if no request has it."""
    if not any(columns):
        return None
    merged: list[V | None] = []
    for entry, column in zip(entries, columns, strict=True):
        merged.extend(column or [None] * entry.weight)
    return merged


def answer_known(entries: Sequence[PushEntry], known: Iterable[KnownPush]) -> list[PushEntry]:
    """Answer repeated requests as they were answered before. Return the others."""
    by_key = {one.key: one for one in known}
    left = []
    for entry in entries:
        key = entry.items.request_key
        found = None if key is None else by_key.get(key.key)
        if key is None or found is None or (key.origin and found.origin == key.origin):
            left.append(entry)
        elif not entry.fail_reused(found, key.digest):
            entry.answer(_repeat_outcome(entry, key, found))
    return left


def split_copies(entries: Sequence[PushEntry]) -> tuple[list[PushEntry], list[PushEntry]]:
    """Split later requests with the key of an earlier one from the others. Parts of one record of
    the spool share their key and are no copies.
    """
    origins: dict[UUID, UUID | None] = {}
    firsts: list[PushEntry] = []
    copies: list[PushEntry] = []
    for entry in entries:
        key = entry.items.request_key
        is_first = key is None or key.key not in origins
        if key is not None and is_first:
            origins[key.key] = key.origin
        is_part = key is not None and key.origin is not None and key.origin == origins[key.key]
        (firsts if is_first or is_part else copies).append(entry)
    return firsts, copies


def _repeat_outcome(entry: PushEntry, key: RequestKey, found: KnownPush) -> PushOutcome:
    if entry.row is not None:
        # It came from the spool, so no caller waits for the details.
        outcomes = [ItemOutcome.DUPLICATE] * entry.weight
        return PushOutcome(entry.refs, [None] * entry.weight, outcomes, is_repeat=True)
    if found.outcomes is None or found.message_ids is None:
        outcomes = [ItemOutcome.SPOOLED] * entry.weight
        return PushOutcome(entry.refs, name_spooled(entry.items, key), outcomes, is_repeat=True)
    return PushOutcome(entry.refs, found.message_ids, found.outcomes, found.positions, True)


def select_unanswered(entries: Iterable[PushEntry]) -> list[PushEntry]:
    """Return the requests that are neither stored nor refused. Only they may be retried."""
    return [entry for entry in entries if not entry.future.done()]
