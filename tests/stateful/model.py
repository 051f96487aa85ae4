"""A model of a queue, in memory and one call at a time: the rules of pop and ack.

Nothing here knows SQL, HTTP or time; an expired lease is a state that somebody sets.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

RETRY_LIMIT = 2


@dataclass(frozen=True)
class Message:
    """A stored message; its seq is its place in the partition, from 1."""

    seq: int
    transaction_id: str
    payload: object


class AckOf(NamedTuple):
    """One item of an ack. A lease of None means that none was given."""

    message: Message
    status: str
    lease: str | None


class Ruling(NamedTuple):
    """The expected result of an ack item. None if either answer is right."""

    success: bool | None
    is_dead: bool


@dataclass
class Pair:
    """The state of one (partition, consumer group)."""

    cursor: int = 0
    lease: str | None = None
    #: none, live or expired.
    lease_state: str = "none"
    lease_end: int = 0
    retry_seq: int | None = None
    retry_count: int = 0
    expiry_count: int = 0
    solo_until: int | None = None
    dead: set[int] = field(default_factory=set)

    @property
    def is_solo(self) -> bool:
        return self.solo_until is not None and self.solo_until > self.cursor

    @property
    def has_poison(self) -> bool:
        """A message ran out of lease alone, after its batch had: the next pop decides about it."""
        return self.lease_state == "expired" and self.is_solo

    def expire(self) -> None:
        if self.lease_state == "live":
            self.lease_state = "expired"

    def preview(self, messages: list[Message], batch: int) -> list[Message]:
        """Return the messages that a pop would deliver now, without delivering them."""
        return copy.deepcopy(self).pop(messages, batch, is_auto_ack=True)

    def pop(self, messages: list[Message], batch: int, *, is_auto_ack: bool) -> list[Message]:
        """Deliver the next messages, unless somebody has them."""
        if self.lease_state == "live":
            return []
        if self.has_poison:
            self._bury_poison()
        has_expired = self.lease_state == "expired"
        solo = self.solo_until
        if has_expired and not self.is_solo and self.expiry_count + 1 >= RETRY_LIMIT:
            solo = self.lease_end
        is_solo = solo is not None and solo > self.cursor
        taken = messages[self.cursor : self.cursor + (1 if is_solo else batch)]
        if not taken:
            return []
        self.lease_end = taken[-1].seq
        if is_auto_ack:
            self.cursor, self.lease_state, self.lease = self.lease_end, "none", None
            self.expiry_count, self.solo_until = 0, None
            self.retry_seq, self.retry_count = None, 0
        else:
            self.lease_state = "live"
            self.expiry_count += has_expired
            self.solo_until = solo if is_solo else None
        return taken

    def attempts(self) -> int:
        """The retry count that the first message of the lease just given must show."""
        return self.retry_count + self.expiry_count

    def _bury_poison(self) -> None:
        self.dead.add(self.lease_end)
        self.cursor, self.lease_state = self.lease_end, "none"
        self.expiry_count = self.retry_count = 0
        self.retry_seq = None
        if not self.is_solo:
            self.solo_until = None

    def ack(self, items: Iterable[AckOf], *, is_final: bool = False) -> list[Ruling]:
        """Settle items in message order, up to the first that asks for a redelivery."""
        items = list(items)
        verdicts = {item: self._judge(item, is_final=is_final) for item in items}
        stops = [item for item in items if verdicts[item] == "stop"]
        stop = min((item.message.seq for item in stops), default=None)
        applied = [
            item
            for item in items
            if verdicts[item] in ("pass", "bury") and (stop is None or item.message.seq < stop)
        ]
        rulings = [
            Ruling(
                None
                if verdicts[item] == "already"
                else item in applied
                or verdicts[item] == "stop"
                or (verdicts[item] == "bury" and item.status == "failed"),
                item in applied and verdicts[item] == "bury",
            )
            for item in items
        ]
        self.dead |= {item.message.seq for item in applied if verdicts[item] == "bury"}
        passed = max((item.message.seq for item in applied), default=None)
        failures = [item.status == "failed" for item in stops if item.message.seq == stop]
        self._move(passed, stop, has_failed=any(failures))
        return rulings

    def _judge(self, item: AckOf, *, is_final: bool) -> str:
        seq, status = item.message.seq, item.status
        is_live = self.lease_state == "live"
        if is_final and status == "retry":
            return "unknown"
        if seq <= self.cursor:
            # Settled before, perhaps under another lease: nothing changes, whatever the answer.
            return "already" if status == "completed" else "refused"
        if item.lease is not None and (item.lease != self.lease or not is_live):
            return "refused"
        if status == "completed" and item.lease is None:
            return "pass"
        if not is_live or seq > self.lease_end:
            return "refused"
        if status == "completed":
            return "pass"
        if status == "dlq" or is_final or (status == "failed" and self._is_last_try(seq)):
            return "bury"
        return "stop"

    def _is_last_try(self, seq: int) -> bool:
        return self._retries(seq) >= RETRY_LIMIT

    def _retries(self, seq: int) -> int:
        return self.retry_count if self.retry_seq == seq else 0

    def _move(self, passed: int | None, stop: int | None, *, has_failed: bool) -> None:
        if passed is None and stop is None:
            return
        if stop is not None:
            self.retry_seq, self.retry_count = stop, self._retries(stop) + has_failed
        elif self.retry_seq is not None and passed is not None and passed >= self.retry_seq:
            self.retry_seq, self.retry_count = None, 0
        if stop is not None or (passed is not None and passed >= self.lease_end):
            self.lease_state = "none"
        if passed is not None:
            self.cursor, self.expiry_count = passed, 0
        if not self.is_solo:
            self.solo_until = None
