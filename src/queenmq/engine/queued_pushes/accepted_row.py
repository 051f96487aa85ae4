"""Keeps pushes in order that were answered before they are stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from queenmq.engine.requests import PartitionKey, PushItems
from queenmq.errors import QueenError, StorageRejected

V = TypeVar("V")


class AcceptedRow:
    """Requests that were answered before, in the order in which they are to be stored.

    Once a request cannot be stored, later ones of its partition must wait, or they would overtake
    it. A request that is refused for its content no longer blocks the others.
    """

    def __init__(self) -> None:
        self._errors: dict[PartitionKey, QueenError] = {}

    def note(self, keys: Iterable[PartitionKey], error: QueenError) -> None:
        """Note that a request for these partitions failed."""
        if not isinstance(error, StorageRejected):
            self._errors.update(dict.fromkeys(keys, error))

    def error_of(self, keys: Iterable[PartitionKey]) -> QueenError | None:
        """Return the reason why a request for these partitions must not be stored now, or None."""
        return next((self._errors[key] for key in keys if key in self._errors), None)


def split_items(items: PushItems) -> list[PushItems]:
    """Split the items of a request by partition, each part in order."""
    places: dict[PartitionKey, list[int]] = {}
    for at, key in enumerate(items.keys):
        places.setdefault(key, []).append(at)
    if len(places) == 1:
        return [items]

    def pick(column: list[V] | None, wanted: list[int]) -> list[V] | None:
        return None if column is None else [column[at] for at in wanted]

    return [
        PushItems(
            keys=[key] * len(wanted),
            payloads=[items.payloads[at] for at in wanted],
            transaction_ids=pick(items.transaction_ids, wanted),
            trace_ids=pick(items.trace_ids, wanted),
            producer_subs=pick(items.producer_subs, wanted),
            encrypted=pick(items.encrypted, wanted),
            request_key=items.request_key,
        )
        for key, wanted in places.items()
    ]
