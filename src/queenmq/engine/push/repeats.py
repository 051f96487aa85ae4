"""Whether the transaction ids of a push have to be looked for before it is stored.

Hardly any push repeats an id, and the look is a fifth of the database's work for it. Without a look
a repeated id is still refused, by a unique index: the whole call fails, and is made again with one.
Who repeats ids does so more than once, so all pushes are looked at for a while then. Pure: no I/O.
"""

from __future__ import annotations

from queenmq.engine.requests import PushCall

_LOOK_MS = 60_000


class Repeats:
    """What a broker remembers of repeated ids."""

    def __init__(self) -> None:
        self._look_until_ms = float("-inf")

    def seen(self, now_ms: float) -> None:
        """An id was repeated."""
        self._look_until_ms = now_ms + _LOOK_MS

    def is_look_needed(self, call: PushCall, now_ms: float) -> bool:
        return now_ms < self._look_until_ms or names_message_ids(call)


def names_message_ids(call: PushCall) -> bool:
    """Whether an id looks like that of a message of its partition.

    A message without a transaction id goes by its message id, which no index knows. The layout is
    that of the SQL function message_id; ids of release 0.1.0 held bits of the partition's id.
    """
    return any(
        given is not None
        and given != ""
        and (
            given[15:26] == ref.id_digits
            or (given[15:18] == ref.id_text[:3] and given[20:23] == ref.id_text[3:6])
        )
        for given, ref in zip(call.items.transaction_ids or (), call.refs, strict=False)
    )
