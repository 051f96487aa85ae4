"""Makes transaction ids for messages that are kept on disk. Pure.

Each message has one, so that draining it twice stores it once.
"""

from __future__ import annotations

from uuid import UUID

from queenmq.engine.requests import PushItems

#: The bits of a key that count the items.
_COUNTED = (1 << 48) - 1


def name_spooled(items: PushItems, key: UUID) -> list[str]:
    """Return the transaction ids of a request with an idempotency key.

    Items without an id get the same one each time the request is sent.
    """
    given = items.transaction_ids or [None] * len(items.payloads)
    return [_nth(key, at) if one is None else one for at, one in enumerate(given)]


def _nth(key: UUID, at: int) -> str:
    return str(UUID(int=key.int & ~_COUNTED | (key.int + at) & _COUNTED))
