"""Counts messages as clients are told of them: pushed, delivered, acked and what went wrong.

Counted right before the answer leaves, so that what clients have counted is what a scrape tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from queenmq.clock import unix_ms
from queenmq.engine.requests import AckItem, AckResult, PopGrant, PopRequest, PushItems
from queenmq.metrics.registry import Registry
from queenmq.metrics.text import Sample, Told
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
        registry.derive(_tell_pushed)
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

    def pushed(self, items: PushItems, outcomes: str) -> None:
        """A push is answered; see PushOutcome for the letters."""
        if outcomes == "q":
            # One message, as most pushes have: every step here is a share of all pushes.
            self._pushed.inc()
            queue = items.keys[0].queue
            minute = self.minutes.queues.get(queue) or self.minutes.of(queue)
            minute.push_requests += 1
            minute.push_messages += 1
            minute.push_bytes += len(items.payloads[0])
            return
        stored = outcomes.count("q")
        self._pushed.inc(stored)
        if stored < len(outcomes):
            self._not_stored(outcomes)
        self._count_push(items, outcomes)

    def committed(self, items: PushItems, outcomes: str) -> None:
        """The pushes of a transaction are answered."""
        self._in_transaction.inc(outcomes.count("q"))
        self._count_push(items, outcomes)
        for queue in {key.queue for key in items.keys}:
            self.minutes.of(queue).transactions += 1

    def _not_stored(self, outcomes: str) -> None:
        duplicates, full = outcomes.count("d"), outcomes.count("f")
        self._duplicates.inc(duplicates)
        self._full.inc(full)
        self._buffered.inc(len(outcomes) - outcomes.count("q") - duplicates - full)

    def _count_push(self, items: PushItems, outcomes: str) -> None:
        keys = items.keys
        for key, payload, letter in zip(keys, items.payloads, outcomes, strict=True):
            minute = self.minutes.of(key.queue)
            minute.push_messages += letter == "q"
            minute.duplicates += letter == "d"
            minute.push_bytes += len(payload)
        for queue in {key.queue for key in keys}:
            self.minutes.of(queue).push_requests += 1

    def delivered(self, request: PopRequest, grants: Sequence[PopGrant]) -> None:
        """A pop is answered with these, or with nothing."""
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

    def acked(self, items: Sequence[AckItem], results: Sequence[AckResult]) -> None:
        """Acks are answered."""
        queues = set()
        for item, result in zip(items, results, strict=True):
            queue = result.queue_name or ""
            minute = self.minutes.of(queue)
            queues.add(queue)
            if not result.success:
                self._refused.inc()
                minute.errors += 1
            elif item.status in _COMPLETED:
                self._acked.inc()
                minute.ack_success += 1
            else:
                self._not_completed(item.status, queue, is_dead=result.dlq)
        for queue in queues:
            self.minutes.of(queue).ack_requests += 1

    def settled(self, items: Sequence[AckItem], is_dead: Sequence[bool]) -> None:
        """The acks of a transaction are answered. Their queues are not known."""
        for item, dead in zip(items, is_dead, strict=True):
            if item.status in _COMPLETED:
                self._acked.inc()
            else:
                self._not_completed(item.status, "", is_dead=dead)

    def _not_completed(self, status: str, queue: str, *, is_dead: bool) -> None:
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


def stored_at_ms(messages: str) -> int:
    """Return when the first of these messages was stored: its id starts with that time."""
    at = _ID_AT
    if messages[at - 1 : at] != '"':
        at = messages.find(_BEFORE_ID, 0, 64) + len(_BEFORE_ID)
    try:
        return int(messages[at : at + 8] + messages[at + 9 : at + 13], 16)
    except ValueError:
        return unix_ms()


def _tell_pushed(families: Mapping[str, Told]) -> Told:
    stored = families["queen_messages_stored"]
    total = sum(sample.value for sample in stored.samples)
    return Told("queen_messages_pushed", "Messages stored.", "counter", [Sample("", {}, total)])
