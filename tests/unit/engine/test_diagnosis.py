"""From facts to findings: what stops a group, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queenmq.engine.diagnosis.facts import (
    Behind,
    BrokerFacts,
    DeadLetterFacts,
    OperationFacts,
    Operations,
    PartitionFacts,
    QueueFacts,
    Start,
)
from queenmq.engine.diagnosis.findings import Finding, diagnose

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
BROKER = BrokerFacts()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def place(**known: Any) -> PartitionFacts:
    """A partition with three messages, the first of which is five minutes old."""
    given = {
        "partition": "p",
        "partition_id": "00000000-0000-0000-0000-000000000001",
        "state": "ready",
        "backlog": 3,
        "has_cursor": True,
        "oldest_id": "m1",
        "oldest_at": ago(300),
        "newest_at": ago(1),
    }
    return PartitionFacts(**{**given, **known})


def queue(*places: PartitionFacts, **known: Any) -> QueueFacts:
    ready = sum(one.state == "ready" for one in places)
    behind = Behind(behind=len(places), ready=ready, backlog=3 * len(places), details=places)
    given = {
        "now": NOW,
        "queue": "orders",
        "consumer_group": "g",
        "groups": ["g"],
        "has_cursor": True,
        "partitions": max(1, len(places)),
        "behind": behind,
    }
    return QueueFacts(**{**given, **known})


def codes(facts: QueueFacts, broker: BrokerFacts = BROKER) -> list[str]:
    return [one.code for one in diagnose(facts, broker)]


def finding(code: str, facts: QueueFacts, broker: BrokerFacts = BROKER) -> Finding:
    (found,) = [one for one in diagnose(facts, broker) if one.code == code]
    return found


LEASE = {
    "state": "leased",
    "lease_id": "lease-1",
    "lease_acquired_at": ago(20),
    "lease_expires_at": ago(-40),
    "lease_messages": 2,
}


def test_group_that_has_everything_has_no_backlog() -> None:
    assert codes(queue()) == ["no_backlog"]
    assert "queue" in finding("no_backlog", queue()).message
    assert "partition" in finding("no_backlog", queue(partition="p")).message


def test_messages_that_nobody_waits_for_are_ready() -> None:
    facts = queue(place())
    assert codes(facts) == ["ready", "no_consumer_waiting"]
    found = finding("ready", facts)
    assert found.partitions == ("p",)
    assert "3 messages" in found.message and "5.0 min" in found.message


def test_waiting_pops_are_told() -> None:
    broker = BrokerFacts(waiting_pops=2)
    assert codes(queue(), broker) == ["no_backlog", "consumers_waiting"]
    assert "2 pops" in finding("consumers_waiting", queue(), broker).message


def test_lease_names_its_holder_its_size_and_its_end() -> None:
    facts = queue(place(**LEASE))
    assert codes(facts) == ["leased"]
    message = finding("leased", facts).message
    for part in ("'p'", "lease-1", "2 messages", "20.0 s ago", "40.0 s"):
        assert part in message


def test_lease_after_leases_that_ran_out_points_at_the_consumer() -> None:
    facts = queue(place(**LEASE, expiry_count=2, is_solo=True), lease_time=60)
    found = finding("lease_keeps_expiring", facts)
    assert "2 times" in found.message and "one at a time" in found.message
    assert "leaseTime (60 s)" in found.action


def test_lease_that_is_over_holds_nothing() -> None:
    facts = queue(place(**{**LEASE, "state": "ready", "lease_expires_at": ago(1)}))
    assert codes(facts)[0] == "ready"


def test_partition_blocked_by_poison_names_the_message() -> None:
    blocked = place(state="blocked", blocked_id="m1")
    found = finding("blocked_by_poison", queue(blocked, on_poison="block"))
    assert "'m1'" in found.message and "onPoison" in found.action
    assert "blocked_by_poison" not in codes(queue(blocked, on_poison="skip"))


def test_retry_names_message_failures_and_time_left() -> None:
    facts = queue(place(state="waiting", retry_at=ago(-30), retry_count=2), retry_limit=3)
    message = finding("retry_delayed", facts).message
    assert "'m1'" in message and "failure 2 of 4" in message and "30.0 s" in message


@pytest.mark.parametrize("state", ["waiting", "leased", "ready"])
def test_the_last_error_is_told_wherever_a_message_comes_again(state: str) -> None:
    until = {"waiting": {"retry_at": ago(-30)}, "leased": {"lease_expires_at": ago(-30)}}
    facts = queue(place(state=state, retry_error="disk full", **until.get(state, {})))
    assert "the last try failed: disk full" in diagnose(facts, BROKER)[0].message


def test_window_runs_from_the_newest_message() -> None:
    facts = queue(place(state="waiting", newest_at=ago(4)), window_buffer=10)
    assert "6.0 s are left" in finding("window_buffer", facts).message
    over = queue(place(newest_at=ago(11)), window_buffer=10)
    assert "window_buffer" not in codes(over)


def test_delay_runs_from_the_next_message() -> None:
    facts = queue(place(state="waiting", oldest_at=ago(4)), delayed_processing=10)
    assert "6.0 s are left" in finding("delayed_processing", facts).message
    over = queue(place(oldest_at=ago(11)), delayed_processing=10)
    assert "delayed_processing" not in codes(over)


def test_causes_are_told_once_with_all_their_partitions() -> None:
    names = ("a", "b", "c")
    facts = queue(*(place(partition=name, **LEASE) for name in names), place(partition="d"))
    assert codes(facts) == ["leased", "ready", "no_consumer_waiting"]
    found = finding("leased", facts)
    assert found.partitions == names
    assert "2 other partitions" in found.message


def test_failed_operation_comes_first_and_says_how_to_settle_it() -> None:
    first = OperationFacts(
        id="op-1", partition="p", status="failed", created_at=ago(60), error="bad row"
    )
    facts = queue(operations=Operations(failed=1, pending=2, first=first))
    assert codes(facts) == ["operation_failed", "operations_waiting", "no_backlog"]
    found = finding("operation_failed", facts)
    assert "op-1" in found.message and "bad row" in found.message
    assert "queen ops retry op-1" in found.action


def test_operations_that_wait_are_counted() -> None:
    first = OperationFacts(id="op-1", partition="p", status="pending", created_at=ago(7))
    facts = queue(operations=Operations(pending=1, processing=1, first=first))
    message = finding("operations_waiting", facts).message
    assert "2 accepted pushes" in message and "7.0 s" in message


def test_switches_come_before_everything_else() -> None:
    broker = BrokerFacts(is_pop_paused=True, is_push_buffered=True, is_refusing_pops=True)
    assert codes(queue(place(**LEASE)), broker) == [
        "pops_paused", "broker_overloaded", "leased", "pushes_buffered"
    ]  # fmt: skip


def test_spool_is_told_with_its_size() -> None:
    broker = BrokerFacts(spool_records=1, aside_records=3)
    assert codes(queue(), broker) == ["spool_ahead", "spool_aside", "no_backlog"]
    assert finding("spool_ahead", queue(), broker).message.startswith("1 push request waits")
    assert "3 push requests were" in finding("spool_aside", queue(), broker).message


@pytest.mark.parametrize(("waiting", "is_told"), [(9, False), (10, True), (11, True)])
def test_full_queue_is_told_from_its_bound_on(waiting: int, is_told: bool) -> None:
    facts = queue(max_size=10, waiting_messages=waiting)
    assert ("queue_full" in codes(facts)) is is_told


def test_group_that_never_popped_is_told_with_those_that_did() -> None:
    facts = queue(place(), has_cursor=False, groups=["billing"])
    assert codes(facts) == ["ready", "group_unknown", "no_consumer_waiting"]
    assert "'billing'" in finding("group_unknown", facts).message


def test_group_that_starts_after_all_messages_is_told_when() -> None:
    start = Start(mode="timestamp", at=ago(-3600))
    facts = queue(has_cursor=False, groups=[], start=start)
    assert codes(facts) == ["starts_later"]
    assert "2030-01-01T13:00:00" in finding("starts_later", facts).message


def test_last_dead_letter_is_told_last() -> None:
    letter = DeadLetterFacts(partition="p", transaction_id="m0", error="boom", failed_at=ago(7200))
    facts = queue(last_dead_letter=letter)
    assert codes(facts) == ["no_backlog", "last_dead_letter"]
    message = finding("last_dead_letter", facts).message
    assert "'m0'" in message and "boom" in message and "2.0 h ago" in message


def test_every_finding_has_a_code_a_sentence_and_something_to_do() -> None:
    first = OperationFacts(id="o", partition="p", status="failed", created_at=NOW)
    facts = queue(
        place(**LEASE),
        place(partition="b", blocked_id="m"),
        on_poison="block",
        operations=Operations(failed=1, pending=1, first=first),
        max_size=1,
        waiting_messages=2,
        has_cursor=False,
        last_dead_letter=DeadLetterFacts(
            partition="p", transaction_id="m", error="e", failed_at=NOW
        ),
    )
    broker = BrokerFacts(True, True, 1, 1, 1, True)
    found = diagnose(facts, broker)
    assert len({one.code for one in found}) == len(found) >= 11
    for one in found:
        assert one.code.replace("_", "").isalpha() and one.message and one.action
