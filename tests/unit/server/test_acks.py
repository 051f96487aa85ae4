"""Acks of a request as the engine takes them: whole leases where nothing else is said."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from queenmq import wire
from queenmq.engine.requests import CompletedLease
from queenmq.errors import InvalidRequest
from queenmq.server.requests.acks import NO_SUCH_LEASE, to_acks

_A, _B, _LEASE = (UUID(int=number) for number in (1, 2, 3))


def ack(name: str, partition: UUID | str = _A, **more: Any) -> wire.AckItem:
    fields = {"lease_id": str(_LEASE), **more}
    return wire.AckItem(transaction_id=name, partition_id=str(partition), **fields)


def converted(*acks: wire.AckItem) -> list[Any]:
    return list(to_acks(acks, "g", length_max=255))


def test_completed_messages_of_a_lease_stay_together() -> None:
    found = converted(ack("a"), ack("b", status="success"), ack("c", _B, status="completed"))
    assert found == [
        CompletedLease(_A, "g", _LEASE, 2, "a\nb"),
        CompletedLease(_B, "g", _LEASE, 1, "c"),
    ]
    assert converted() == []


@pytest.mark.parametrize(
    "acks",
    [
        pytest.param([ack("a"), ack("b", status="failed")], id="failed"),
        pytest.param([ack("a", status="unheard-of")], id="unknown-status"),
        pytest.param([ack("a", lease_id=None)], id="no-lease"),
        pytest.param([ack("a", lease_id="x")], id="lease-is-no-uuid"),
        pytest.param([ack("a", error="why")], id="error-text"),
        pytest.param([ack("a\nb")], id="line-feed"),
        pytest.param([ack("a"), ack("b", _B), ack("c")], id="interleaved"),
        pytest.param([ack("ä" * 200)], id="long-name"),
    ],
)
def test_anything_else_goes_item_by_item(acks: list[wire.AckItem]) -> None:
    found = converted(*acks)
    assert [one.transaction_id for one in found] == [one.transaction_id for one in acks]
    if acks[0].lease_id == "x":
        assert found[0].lease_id == NO_SUCH_LEASE


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        pytest.param(ack(""), "transactionId must not be empty", id="empty"),
        pytest.param(ack("a\x00"), "contains a NUL character", id="nul"),
        pytest.param(ack("a" * 256), "has 256 characters", id="too-long"),
        pytest.param(ack("a", "nowhere"), "partitionId 'nowhere' is not a UUID", id="no-uuid"),
    ],
)
def test_what_is_wrong_is_said_as_ever(bad: wire.AckItem, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        converted(ack("fine"), bad)
