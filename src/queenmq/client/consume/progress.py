"""Keeps the order inside one leased batch: what to handle next, and what is not acked yet.

Pure bookkeeping. The messages of a partition are handled one after the other. When one is to be
redelivered, nothing after it in its partition may be handled or acked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from queenmq.client.message import Message


class BatchProgress:
    """The messages of one pop. At most one of them is current."""

    def __init__(self, messages: Sequence[Message[Any]]) -> None:
        self._waiting = deque(messages)
        #: The lease that all of them are under.
        self.lease_id = messages[0].lease_id if messages else ""
        self._blocked: set[str] = set()
        self._in_hand: Message[Any] | None = None
        self._is_lost = False
        #: How many were started.
        self.taken = 0
        #: Messages skipped, because an earlier one is redelivered.
        self.skipped: list[Message[Any]] = []
        self._last = {message.partition_id: message.id for message in messages}

    @property
    def partition_ids(self) -> Collection[str]:
        return self._last.keys()

    @property
    def in_hand(self) -> Message[Any] | None:
        return self._in_hand

    @property
    def is_done(self) -> bool:
        """Return whether all messages were handled and none is redelivered."""
        is_over = not self._waiting and self._in_hand is None
        return is_over and not self._blocked and not self._is_lost

    def is_last(self, message: Message[Any]) -> bool:
        """Return whether it is the last message of its partition."""
        return self._last.get(message.partition_id) == message.id

    def next(self) -> Message[Any] | None:
        """Return the next message that may be handled, or None. It becomes the current one."""
        assert self._in_hand is None, "the current message is not acked"
        while self._waiting and not self._is_lost:
            message = self._waiting.popleft()
            if message.partition_id in self._blocked:
                self.skipped.append(message)
                continue
            self._in_hand = message
            self.taken += 1
            return message
        return None

    def finish(self) -> None:
        """Finish the current message: it was handled, or it became a dead letter."""
        self._in_hand = None

    def block(self) -> None:
        """Return the current message and the rest of its partition for redelivery."""
        assert self._in_hand is not None
        self._blocked.add(self._in_hand.partition_id)
        self._in_hand = None

    def lose(self) -> None:
        """Drop the batch. The lease is lost, and another consumer may have the messages."""
        self._is_lost = True

    def rest(self) -> list[Message[Any]]:
        """Return the messages to release: current or waiting ones, while the lease is live."""
        if self._is_lost:
            return []
        held = [] if self._in_hand is None else [self._in_hand]
        return [
            one for one in [*held, *self._waiting] if one.partition_id not in self._blocked
        ]  # fmt: skip


class Budget:
    """The messages that a consumer may still take, shared by its workers. None: no limit."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self._asked = 0

    @property
    def is_spent(self) -> bool:
        """Return whether nothing is left and nothing can come back."""
        return self._left is not None and self._left <= 0 and self._asked == 0

    def take(self, wanted: int) -> int:
        """Reserve up to `wanted` messages for a pop. Return 0 if others have reserved the rest."""
        if self._left is None:
            return wanted
        share = max(0, min(wanted, self._left))
        self._left -= share
        self._asked += share
        return share

    def give_back(self, share: int, used: int) -> None:
        """Return the unused part of a share after a pop."""
        if self._left is not None:
            self._asked -= share
            self._left += share - used
