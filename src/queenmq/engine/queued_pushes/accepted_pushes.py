"""Stores pushes that were answered before: those from the spool."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.queued_pushes.accepted_row import AcceptedRow, split_items
from queenmq.engine.requests import PartitionKey, PartitionRef, PushItems, PushOutcome
from queenmq.errors import PartitionBusy, StorageRejected


class Send(Protocol):
    """The entry into the push path; see PushService.send."""

    def __call__(
        self, items: PushItems, refs: list[PartitionRef], *, is_queued: bool, row: AcceptedRow
    ) -> asyncio.Future[PushOutcome]: ...


class AcceptedPushes:
    """The push path for requests that can no longer be refused."""

    def __init__(self, catalogue: Catalogue, send: Send) -> None:
        self._catalogue = catalogue
        self._send = send
        #: Messages stored so far.
        self.messages = 0

    async def store(self, requests: Sequence[PushItems]) -> list[BaseException | None]:
        """Store requests that were answered before, in order.

        None is refused for lack of room. Requests for a held partition are queued.

        The result has the reason for each request that is not stored, and None for the others.
        Requests are split by partition, so that one held partition does not delay the others.
        """
        parts = [(at, part) for at, one in enumerate(requests) for part in split_items(one)]
        refs = await self._find_all({part.keys[0] for _, part in parts})
        results = await self._store_parts([part for _, part in parts], refs, is_queued=False)
        held = [n for n, error in enumerate(results) if isinstance(error, PartitionBusy)]
        again = await self._store_parts([parts[n][1] for n in held], refs, is_queued=True)
        for n, error in zip(held, again, strict=True):
            results[n] = error
        errors: list[BaseException | None] = [None] * len(requests)
        for (at, _), error in zip(parts, results, strict=True):
            # A request with a part to retry is not done, whatever else failed.
            if errors[at] is None or isinstance(errors[at], StorageRejected):
                errors[at] = error or errors[at]
        return errors

    async def _store_parts(
        self,
        parts: Sequence[PushItems],
        refs: Mapping[PartitionKey, PartitionRef | BaseException],
        *,
        is_queued: bool,
    ) -> list[BaseException | None]:
        row = AcceptedRow()

        async def store(part: PushItems) -> None:
            ref = refs[part.keys[0]]
            if isinstance(ref, BaseException):
                raise ref
            sent = self._send(part, [ref] * len(part.keys), is_queued=is_queued, row=row)
            outcome = await sent
            self.messages += outcome.outcomes.count(ItemOutcome.STORED)

        # Start all of them in this order before waiting for any.
        results = await asyncio.gather(*map(store, parts), return_exceptions=True)
        return [one if isinstance(one, BaseException) else None for one in results]

    async def _find_all(
        self, keys: Collection[PartitionKey]
    ) -> dict[PartitionKey, PartitionRef | BaseException]:
        """Return each partition, created if needed, or the error."""

        async def find(key: PartitionKey) -> PartitionRef:
            return (await self._catalogue.ensure([key]))[0]

        found = await asyncio.gather(*map(find, keys), return_exceptions=True)
        return dict(zip(keys, found, strict=True))
