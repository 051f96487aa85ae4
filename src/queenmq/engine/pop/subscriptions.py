"""Remembers which groups have been told to the store where they start, so that a pop asks only
once.
"""

from __future__ import annotations

from collections import OrderedDict

from queenmq.clock import now_ms
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import PopRequest, Scope

#: Another broker may delete a queue or group, and with it the start; so memory does not last.
_TRUST_MS = 30_000
_ENTRIES_MAX = 50_000


class Subscriptions:
    """The first pop of a group on a scope fixes its start; later ones find it fixed."""

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
            # What was fixed may have been removed again before we heard that it was fixed.
            if forgotten == self._forgotten:
                break
        self._known[key] = now_ms() + _TRUST_MS
        if len(self._known) > _ENTRIES_MAX:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Starts may have been removed."""
        self._known.clear()
        self._forgotten += 1
