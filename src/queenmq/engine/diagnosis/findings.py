"""Explains why a queue is not moving: from facts to findings. Pure: no clock, no I/O.

A finding has a code for programs, a sentence for people, and an action. The first finding is the
one to act on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from queenmq.engine.diagnosis.facts import BrokerFacts, PartitionFacts, QueueFacts


class Finding(NamedTuple):
    """One reason, or one thing worth knowing."""

    code: str
    message: str
    action: str
    #: Names of the partitions it concerns; some of them, if there are many.
    partitions: tuple[str, ...] = ()


def diagnose(facts: QueueFacts, broker: BrokerFacts) -> list[Finding]:
    """Return the findings: causes that stop everything first, remarks last."""
    return [
        *_switches(facts, broker),
        *_operations(facts),
        *_partitions(facts),
        *_pushes(facts, broker),
        *_backlog(facts),
        *_consumers(facts, broker),
        *_dead_letters(facts),
    ]


def _switches(facts: QueueFacts, broker: BrokerFacts) -> Iterator[Finding]:
    if broker.is_pop_paused:
        yield Finding(
            "pops_paused",
            "pops are paused on all brokers by maintenance mode: nothing is handed out",
            'POST /api/v1/system/maintenance/pop {"enabled": false} when the work is done',
        )
    if broker.is_group_paused:
        yield Finding(
            "group_paused",
            f"group {facts.consumer_group!r} is paused on all brokers: its pops get nothing",
            f"queen groups resume {facts.consumer_group} when the work is done",
        )
    if broker.is_refusing_pops:
        yield Finding(
            "broker_overloaded",
            "this broker refuses new pops with 429 because of its load",
            "look at queen_load_pressure; add brokers or database connections",
        )
    if broker.unreadable is not None:
        yield Finding(
            "payload_unreadable",
            f"a payload cannot be decrypted, so pops of its partition fail: {broker.unreadable}",
            "add the key to the key files of all brokers and restart them; docs/security.md says"
            " how keys are rotated",
        )


def _operations(facts: QueueFacts) -> Iterator[Finding]:
    line, first = facts.operations, facts.operations.first
    if first is None:
        return
    if line.failed:
        yield Finding(
            "operation_failed",
            f"operation {first.id} of partition {first.partition!r} has failed"
            f" ({first.error or 'no error text'}); pushes to the partition wait behind it",
            f"remove the cause, then queen ops retry {first.id}; or queen ops discard {first.id}",
            (first.partition,),
        )
    if line.pending or line.processing:
        count, age = line.pending + line.processing, _age(facts.now, first.created_at)
        yield Finding(
            "operations_waiting",
            f"{_count(count, 'accepted push', 'accepted pushes')} wait in the operation queue,"
            f" the first since {age}; nothing of them can be popped yet",
            "wait; if the age grows, see queen ops list and the load of the brokers",
            (first.partition,),
        )


def _partitions(facts: QueueFacts) -> Iterator[Finding]:
    """Yield one finding per cause, for the partition that is worst off."""
    found: dict[str, list[PartitionFacts]] = {}
    for one in facts.behind.details:
        found.setdefault(_cause(facts, one), []).append(one)
    for code, describe in (
        ("blocked_by_poison", _explain_blocked),
        ("lease_keeps_expiring", _explain_expiring),
        ("leased", _explain_leased),
        ("retry_delayed", _retry),
        ("window_buffer", _window),
        ("delayed_processing", _explain_delayed),
        ("ready", _ready),
    ):
        if code in found:
            message, action = describe(facts, found[code][0])
            others = len(found[code]) - 1
            more = f"; the same in {_count(others, 'other partition', 'other partitions')}"
            names = tuple(one.partition for one in found[code])
            yield Finding(code, message + (more if others else ""), action, names)


def _cause(facts: QueueFacts, one: PartitionFacts) -> str:
    """Return the cause, checked in the order in which a lease would be refused."""
    now = facts.now
    if one.lease_expires_at is not None and one.lease_expires_at > now:
        return "lease_keeps_expiring" if one.expiry_count else "leased"
    if one.blocked_id is not None and facts.on_poison == "block":
        return "blocked_by_poison"
    if one.retry_at is not None and one.retry_at > now:
        return "retry_delayed"
    if _window_end(facts, one) > now:
        return "window_buffer"
    if _delay_end(facts, one) > now:
        return "delayed_processing"
    return "ready"


def _window_end(facts: QueueFacts, one: PartitionFacts) -> datetime:
    if not facts.window_buffer or one.newest_at is None:
        return facts.now
    return one.newest_at + timedelta(seconds=facts.window_buffer)


def _delay_end(facts: QueueFacts, one: PartitionFacts) -> datetime:
    if not facts.delayed_processing or one.oldest_at is None:
        return facts.now
    return one.oldest_at + timedelta(seconds=facts.delayed_processing)


def _explain_blocked(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    return (
        f"partition {one.partition!r} has stopped at message {one.blocked_id!r}: its consumers died"
        " on it, and onPoison is block",
        f"repair the consumer, then ack, delete or dead-letter message {one.blocked_id!r}; or"
        " configure the queue with another onPoison",
    )


def _explain_leased(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    return (
        f"partition {one.partition!r} is leased: {_lease(facts, one)}{_format_attempts(one)}",
        "wait for its acks or its end; if consumers die often, lower leaseTime",
    )


def _explain_expiring(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    solo = " and its messages are now leased one at a time" if one.is_solo else ""
    return (
        f"partition {one.partition!r} is leased again after its lease ran out"
        f" {_count(one.expiry_count, 'time', 'times')} without an ack{solo}: {_lease(facts, one)}",
        f"look for consumers that die or take longer than leaseTime ({facts.lease_time} s); take"
        " smaller batches or extend the lease",
    )


def _lease(facts: QueueFacts, one: PartitionFacts) -> str:
    assert one.lease_expires_at is not None
    taken = _age(facts.now, one.lease_acquired_at)
    count = _count(one.lease_messages or 0, "message", "messages")
    return (
        f"lease {one.lease_id} over {count}, taken {taken} ago, ends in"
        f" {_age(one.lease_expires_at, facts.now)}"
    )


def _retry(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    assert one.retry_at is not None
    return (
        f"partition {one.partition!r} waits to redeliver message {one.oldest_id!r} after failure"
        f" {one.retry_count} of {facts.retry_limit + 1}; {_age(one.retry_at, facts.now)} are left"
        f"{_format_attempts(one)}",
        "wait, or lower retryDelay; the consumers' logs may say more",
    )


def _format_attempts(one: PartitionFacts) -> str:
    return f"; the last try failed: {one.retry_error}" if one.retry_error else ""


def _window(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    return (
        f"partition {one.partition!r} is collecting messages: its windowBuffer of"
        f" {facts.window_buffer} s restarted with the newest one;"
        f" {_age(_window_end(facts, one), facts.now)} are left",
        "wait; with a steady stream of messages lower windowBuffer, or it never ends",
    )


def _explain_delayed(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    return (
        f"the next message of partition {one.partition!r} is delayed: delayedProcessing is"
        f" {facts.delayed_processing} s; {_age(_delay_end(facts, one), facts.now)} are left",
        "wait, or lower delayedProcessing",
    )


def _ready(facts: QueueFacts, one: PartitionFacts) -> tuple[str, str]:
    since = f", the oldest for {_age(facts.now, one.oldest_at)}" if one.oldest_at else ""
    return (
        f"partition {one.partition!r} has {_count(one.backlog, 'message', 'messages')} that a pop"
        f" would get now{since}{_format_attempts(one)}",
        "nothing holds it: start consumers, or more of them",
    )


def _pushes(facts: QueueFacts, broker: BrokerFacts) -> Iterator[Finding]:
    if broker.is_push_buffered:
        yield Finding(
            "pushes_buffered",
            "maintenance mode is on: new pushes are kept on the brokers' disks",
            'POST /api/v1/system/maintenance {"enabled": false} when the work is done',
        )
    if broker.spool_records:
        count = _count(broker.spool_records, "push request waits", "push requests wait")
        yield Finding(
            "spool_ahead",
            f"{count} on this broker's disk to be stored, of any queue; new pushes go behind them",
            "wait; if the number does not fall, check the database and the broker's log",
        )
    if broker.aside_records:
        yield Finding(
            "spool_aside",
            f"{_count(broker.aside_records, 'push request was', 'push requests were')} set aside"
            " on this broker's disk because the database refused them",
            "see queen ops aside; then run queen ops retry --all",
        )
    if facts.max_size and facts.waiting_messages >= facts.max_size:
        yield Finding(
            "queue_full",
            f"the queue holds {facts.waiting_messages} messages of maxSize {facts.max_size}: pushes"
            " are refused",
            "consume, or raise maxSize; every group of the queue has to pass a message",
        )


def _backlog(facts: QueueFacts) -> Iterator[Finding]:
    if not facts.has_cursor and facts.start is None:
        known = ", ".join(map(repr, facts.groups)) or "none"
        yield Finding(
            "group_unknown",
            f"consumer group {facts.consumer_group!r} has not popped from this queue yet; groups"
            f" of the queue: {known}",
            "check the name of the group, or start its consumers",
        )
    if facts.behind.behind:
        return
    if facts.start is not None and not facts.has_cursor:
        yield Finding(
            "starts_later",
            f"the group begins at {facts.start.at.isoformat()} ({facts.start.mode}); no message is"
            " that new",
            "push something, or POST another start to /api/v1/consumer-groups/{group}/subscription",
        )
        return
    where = "partition" if facts.partition is not None else "queue"
    yield Finding(
        "no_backlog",
        f"the group has passed everything in the {where}",
        "nothing to do; check that producers push to this name",
    )


def _consumers(facts: QueueFacts, broker: BrokerFacts) -> Iterator[Finding]:
    if broker.waiting_pops:
        count = _count(broker.waiting_pops, "pop of the group waits", "pops of the group wait")
        yield Finding(
            "consumers_waiting",
            f"{count} on this broker",
            "nothing to do; the next push wakes them",
        )
    elif facts.behind.ready:
        yield Finding(
            "no_consumer_waiting",
            "no pop of the group waits on this broker, although messages are waiting",
            "start consumers, or check the other brokers and the consumers' logs",
        )


def _dead_letters(facts: QueueFacts) -> Iterator[Finding]:
    last = facts.last_dead_letter
    if last is not None:
        error = "" if last.error is None else f": {last.error}"
        yield Finding(
            "last_dead_letter",
            f"message {last.transaction_id!r} of partition {last.partition!r} became a dead letter"
            f" {_age(facts.now, last.failed_at)} ago{error}",
            "see GET /api/v1/dlq; when the cause is gone, POST /api/v1/dlq/retry",
            (last.partition,),
        )


def _age(later: datetime, earlier: datetime | None) -> str:
    """Return a time span as people say it."""
    seconds = max(0.0, (later - earlier).total_seconds()) if earlier is not None else 0.0
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
