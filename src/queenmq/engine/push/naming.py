"""Makes transaction ids for messages that are kept on disk. Pure.

Each message has one, so that draining it twice stores it once.
"""

from __future__ import annotations

from uuid import UUID, uuid5

from queenmq.engine.requests import PushItems, RequestKey

#: The bits of an id that count the items.
_COUNTED = (1 << 48) - 1


def name_spooled(items: PushItems, request_key: RequestKey) -> list[str]:
    """Return the transaction ids of a request with an idempotency key.

    Items without an id get the same one each time the request is sent. Once Queen has forgotten the
    key, it may come with another body, whose items get other ids.
    """
    base = uuid5(request_key.key, str(request_key.digest))
    given = items.transaction_ids or [None] * len(items.payloads)
    return [_nth(base, at) if one is None else one for at, one in enumerate(given)]


def _nth(base: UUID, at: int) -> str:
    return str(UUID(int=base.int & ~_COUNTED | (base.int + at) & _COUNTED))
