"""Remembers which groups have a stored start, so that only their first pop stores one."""

from __future__ import annotations

from collections import OrderedDict

from queenmq.clock import now_ms
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import PopRequest, Scope

#: Another broker may delete a queue or group with its start, so entries expire.
_TRUST_MS = 30_000
_ENTRIES_MAX = 50_000


class Subscriptions:
    """Stores the start of a group with its first pop on a scope. Later pops find it stored."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._known: OrderedDict[tuple[Scope, str], float] = OrderedDict()
        self._forgotten = 0

    def is_fixed(self, request: PopRequest) -> bool:
        """Return whether the group needs no start, or is remembered to have one."""
        key = (request.scope, request.consumer_group)
        return request.subscription is None or now_ms() < self._known.get(key, 0)

    async def ensure(self, request: PopRequest) -> None:
        """Store the start of the request's group, unless it has one."""
        if self.is_fixed(request):
            return
        assert request.subscription is not None
        key = (request.scope, request.consumer_group)
        while True:
            forgotten = self._forgotten
            await self._store.subscribe_groups([(*key, request.subscription)])
            # The start may have been removed again before the store's answer arrived.
            if forgotten == self._forgotten:
                break
        self._known[key] = now_ms() + _TRUST_MS
        if len(self._known) > _ENTRIES_MAX:
            self._known.popitem(last=False)

    def forget(self, *_: str) -> None:
        """Forget all starts, because those of the queue or group named may have been removed."""
        self._known.clear()
        self._forgotten += 1
