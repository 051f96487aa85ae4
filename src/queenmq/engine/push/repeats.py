"""Decides whether the database checks a push for duplicates before it stores it.

Few pushes repeat a transaction id, and the check is a fifth of the database's work for a push.
Without it a unique index still refuses a repeated id: the whole call fails, and the broker repeats
it with the check. Duplicates come in bursts, so after one the broker checks every push until a
minute passes without another. Pure: no I/O.
"""

from __future__ import annotations

from queenmq.engine.requests import PushCall

_CHECK_MS = 60_000


class Repeats:
    """Remembers when ids were last repeated."""

    def __init__(self) -> None:
        self._check_until_ms = float("-inf")

    def note_repeat(self, now_ms: float) -> None:
        """Note that an id was repeated."""
        self._check_until_ms = now_ms + _CHECK_MS

    def is_check_needed(self, call: PushCall, now_ms: float) -> bool:
        return now_ms < self._check_until_ms or names_message_ids(call)


def names_message_ids(call: PushCall) -> bool:
    """Return whether a transaction id looks like a message id of its partition.

    A message without a transaction id goes by its message id, which is in no index. The layout is
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
