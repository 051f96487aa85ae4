"""Counts the current minute of this process, by queue. Pure, and bounded."""

from __future__ import annotations

import msgspec

#: Queues with their own counts in a minute. Later ones share one series.
QUEUES_MAX = 5_000
#: The name of all others together. No queue has it.
REST = ""


class QueueMinute(msgspec.Struct):
    """One queue in one minute. The names are those of the columns."""

    push_requests: int = 0
    push_messages: int = 0
    push_bytes: int = 0
    duplicates: int = 0
    pop_requests: int = 0
    pop_messages: int = 0
    pop_empty: int = 0
    ack_requests: int = 0
    ack_success: int = 0
    ack_failed: int = 0
    retried: int = 0
    dead_lettered: int = 0
    transactions: int = 0
    errors: int = 0
    lag_ms: float = 0.0
    lag_ms_max: float = 0.0
    lag_count: int = 0


class Minutes:
    """The current minute."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueMinute] = {}

    def of(self, queue: str) -> QueueMinute:
        """Return the minute of a queue."""
        found = self.queues.get(queue)
        if found is None:
            name = queue if len(self.queues) < QUEUES_MAX else REST
            found = self.queues.setdefault(name, QueueMinute())
        return found

    def take(self) -> dict[str, QueueMinute]:
        """Return the counts and reset them."""
        taken, self.queues = self.queues, {}
        return taken

    def put_back(self, minutes: dict[str, QueueMinute]) -> None:
        """Add a minute that could not be stored to the next one."""
        for queue, minute in minutes.items():
            add(self.of(queue), minute)


def add(into: QueueMinute, more: QueueMinute) -> None:
    """Add one minute to another."""
    for name in QueueMinute.__struct_fields__:
        before, value = getattr(into, name), getattr(more, name)
        setattr(into, name, max(before, value) if name.endswith("_max") else before + value)
