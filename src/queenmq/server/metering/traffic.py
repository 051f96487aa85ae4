"""Counts messages as clients see them: pushed, delivered, acked, and failures.

Counted right before the answer leaves, so that a scrape agrees with the counts of clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from queenmq.clock import unix_ms
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.requests import (
    AckItem,
    AckResult,
    CompletedLease,
    PopGrant,
    PopRequest,
    PushItems,
)
from queenmq.metrics.registry import Registry
from queenmq.metrics.text import MetricFamily, Sample
from queenmq.server.metering.minutes import Minutes

#: Of the lag of messages: seconds to days.
_LAG_SECONDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0,
)  # fmt: skip
_COMPLETED = ("completed", "success")
#: A message as SQL writes it: the digit behind this is 0 unless it was delivered before.
_COUNT_AT = len('{"retryCount":')
_BEFORE_ID = '"id":"'
#: Where the id is in a message that was not delivered before.
_ID_AT = len('{"retryCount":0,"id":"')

_STORED = ItemOutcome.STORED
_DUPLICATE = ItemOutcome.DUPLICATE


class Traffic:
    """The messages of one process, and what its current minute has so far."""

    def __init__(self, registry: Registry) -> None:
        self.minutes = Minutes()
        prefix = "queen_messages_"
        #: By the way they came: push, transaction, spool, operation, stream.
        self.stored = registry.counters(
            prefix + "stored", "Messages stored, by the way they came.", "path"
        )
        self._pushed = self.stored.of("push")
        self._in_transaction = self.stored.of("transaction")
        registry.derive(_derive_pushed)
        self._duplicates = registry.counter(
            prefix + "duplicate", "Items whose transaction id was stored already."
        )
        self._buffered = registry.counter(
            prefix + "buffered", "Items that were accepted to be stored later."
        )
        self._full = registry.counter(prefix + "refused_full", "Items refused by maxSize.")
        self._delivered = registry.counter(prefix + "delivered", "Messages in answers to pops.")
        self._acked = registry.counter(prefix + "acked", "Messages acked as completed.")
        self._failed = registry.counter(prefix + "failed", "Messages acked as failed.")
        self._retried = registry.counter(
            prefix + "retried", "Messages that acks have sent back for another delivery."
        )
        self._dead = registry.counter(
            prefix + "dead_lettered", "Messages that acks have made dead letters."
        )
        self._refused = registry.counter("queen_acks_refused", "Acks that changed nothing.")
        self._redelivered = registry.counter(
            "queen_redeliveries", "Batches whose first message had been delivered before."
        )
        self._lag_s = registry.histogram(
            "queen_delivery_lag_seconds",
            "From storing the first message of a batch to its delivery.",
            bounds=_LAG_SECONDS,
        )

    def note_push(self, items: PushItems, outcomes: Sequence[ItemOutcome]) -> None:
        """Count a push that is answered."""
        if len(outcomes) == 1 and outcomes[0] is _STORED:
            # One message, as most pushes have: every step here is a share of all pushes.
            self._pushed.inc()
            queue = items.keys[0].queue
            minute = self.minutes.queues.get(queue) or self.minutes.of(queue)
            minute.push_requests += 1
            minute.push_messages += 1
            minute.push_bytes += len(items.payloads[0])
            return
        stored = outcomes.count(_STORED)
        self._pushed.inc(stored)
        if stored < len(outcomes):
            self._count_not_stored(outcomes)
        self._count_push(items, outcomes)

    def note_committed_pushes(self, items: PushItems, outcomes: Sequence[ItemOutcome]) -> None:
        """Count the pushes of a transaction."""
        self._in_transaction.inc(outcomes.count(_STORED))
        self._count_push(items, outcomes)
        for queue in {key.queue for key in items.keys}:
            self.minutes.of(queue).transactions += 1

    def _count_not_stored(self, outcomes: Sequence[ItemOutcome]) -> None:
        duplicates, full = outcomes.count(_DUPLICATE), outcomes.count(ItemOutcome.FULL)
        self._duplicates.inc(duplicates)
        self._full.inc(full)
        self._buffered.inc(len(outcomes) - outcomes.count(_STORED) - duplicates - full)

    def _count_push(self, items: PushItems, outcomes: Sequence[ItemOutcome]) -> None:
        keys = items.keys
        queues = {key.queue for key in dict.fromkeys(keys)}
        if len(queues) == 1:
            minute = self.minutes.of(keys[0].queue)
            minute.push_requests += 1
            minute.push_messages += outcomes.count(_STORED)
            minute.duplicates += outcomes.count(_DUPLICATE)
            minute.push_bytes += sum(map(len, items.payloads))
            return
        for key, payload, outcome in zip(keys, items.payloads, outcomes, strict=True):
            minute = self.minutes.of(key.queue)
            minute.push_messages += outcome is _STORED
            minute.duplicates += outcome is _DUPLICATE
            minute.push_bytes += len(payload)
        for queue in queues:
            self.minutes.of(queue).push_requests += 1

    def note_delivery(self, request: PopRequest, grants: Sequence[PopGrant]) -> None:
        """Count the answer to a pop, with these grants or empty."""
        if not grants:
            if request.scope.queue is not None:
                minute = self.minutes.of(request.scope.queue)
                minute.pop_requests += 1
                minute.pop_empty += 1
            return
        now = unix_ms()
        queues = self.minutes.queues
        for grant in grants:
            count, text, queue = grant.message_count or 0, grant.messages or "", grant.queue_name
            self._delivered.inc(count)
            if text[_COUNT_AT : _COUNT_AT + 1] != "0":
                self._redelivered.inc()
            lag_ms = max(0, now - stored_at_ms(text))
            self._lag_s.observe(lag_ms / 1000)
            minute = queues.get(queue or "") or self.minutes.of(queue or "")
            minute.pop_messages += count
            minute.lag_ms += lag_ms
            minute.lag_count += 1
            if lag_ms > minute.lag_ms_max:
                minute.lag_ms_max = lag_ms
        self.minutes.of(grants[0].queue_name or "").pop_requests += 1

    def note_acks(
        self, acks: Sequence[AckItem] | Sequence[CompletedLease], results: Sequence[AckResult]
    ) -> None:
        """Count acks that are answered."""
        first = results[0] if results else None
        if first is not None and first.success and isinstance(acks[0], CompletedLease):
            if results.count(first) == len(results):
                # One lease, as most acks have.
                self._acked.inc(len(results))
                minute = self.minutes.of(first.queue_name or "")
                minute.ack_success += len(results)
                minute.ack_requests += 1
                return
        self._count_acks(_list_statuses(acks), results)

    def _count_acks(self, statuses: Iterable[str], results: Sequence[AckResult]) -> None:
        queues = set()
        for status, result in zip(statuses, results, strict=True):
            queue = result.queue_name or ""
            minute = self.minutes.of(queue)
            queues.add(queue)
            if not result.success:
                self._refused.inc()
                minute.errors += 1
            elif status in _COMPLETED:
                self._acked.inc()
                minute.ack_success += 1
            else:
                self._count_not_completed(status, queue, is_dead=result.dlq)
        for queue in queues:
            self.minutes.of(queue).ack_requests += 1

    def note_committed_acks(self, items: Sequence[AckItem], is_dead: Sequence[bool]) -> None:
        """Count the acks of a transaction. Their queues are unknown."""
        for item, dead in zip(items, is_dead, strict=True):
            if item.status in _COMPLETED:
                self._acked.inc()
            else:
                self._count_not_completed(item.status, "", is_dead=dead)

    def count_cycle(self, queue: str, status: str, count: int, *, is_dead: bool) -> None:
        """Count the ack of a stream cycle; `count` is how many messages it settles."""
        minute = self.minutes.of(queue)
        minute.ack_requests += 1
        if status in _COMPLETED:
            self._acked.inc(count)
            minute.ack_success += count
        else:
            self._count_not_completed(status, queue, is_dead=is_dead)

    def _count_not_completed(self, status: str, queue: str, *, is_dead: bool) -> None:
        minute = self.minutes.of(queue)
        if status == "failed":
            self._failed.inc()
            minute.ack_failed += 1
        if is_dead:
            self._dead.inc()
            minute.dead_lettered += 1
        elif status in ("failed", "retry"):
            self._retried.inc()
            minute.retried += 1


def _list_statuses(acks: Sequence[AckItem] | Sequence[CompletedLease]) -> Iterator[str]:
    for ack in acks:
        if isinstance(ack, CompletedLease):
            yield from ("completed",) * ack.messages
        else:
            yield ack.status


def stored_at_ms(messages: str) -> int:
    """Return when the first of these messages was stored: its id starts with that time."""
    at = _ID_AT
    if messages[at - 1 : at] != '"':
        at = messages.find(_BEFORE_ID, 0, 64) + len(_BEFORE_ID)
    try:
        return int(messages[at : at + 8] + messages[at + 9 : at + 13], 16)
    except ValueError:
        return unix_ms()


def _derive_pushed(families: Mapping[str, MetricFamily]) -> MetricFamily:
    stored = families["queen_messages_stored"]
    total = sum(sample.value for sample in stored.samples)
    return MetricFamily(
        "queen_messages_pushed", "Messages stored.", "counter", [Sample("", {}, total)]
    )
