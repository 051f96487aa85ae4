"""The decision to check a push for duplicates."""

from __future__ import annotations

from uuid import UUID

import pytest

from queenmq.engine.push.repeats import Repeats
from queenmq.engine.requests import PartitionKey, PartitionRef, PushCall, PushItems

_PARTITION = UUID("c3c182b7-f2e5-449e-bc21-cc7b1b1f2aaa")
_OTHER = UUID("00000000-f2e5-449e-bc21-cc7b1b1f2aaa")


def make_call(*given: str | None, partition_id: UUID = _PARTITION) -> PushCall:
    key = PartitionKey("orders", "p")
    ref = PartitionRef(
        key,
        partition_id,
        str(partition_id),
        UUID(int=1),
        namespace="",
        task="",
        is_encrypted=False,
        id_digits="001-9203-04" if partition_id == _PARTITION else "001-9203-05",
    )
    items = PushItems(
        keys=[key] * len(given), payloads=["1"] * len(given), transaction_ids=list(given) or None
    )
    return PushCall(items, [ref] * len(given), [len(given)])


@pytest.mark.parametrize(
    ("given", "is_needed"),
    [
        # The id of a message of this partition, as the SQL function message_id makes it.
        ("01a1e15f-36bb-7001-9203-040000000001", True),
        ("01a1e15f-36bb-7001-9203-060000000001", False),
        ("01a1e15f-36bb-7001-a203-040000000001", False),
        # ... and as release 0.1.0 made it.
        ("01a1e15f-36bb-7c3c-8182-b70000000001", True),
        ("01a1e15f-36bb-7c3d-8182-b70000000001", False),
        ("01a1e15f-36bb-7c3c-8183-b70000000001", False),
        ("order-7", False),
        ("", False),
        (None, False),
    ],
)
def test_ids_that_may_be_message_ids_are_looked_for(given: str | None, is_needed: bool) -> None:
    assert Repeats().is_check_needed(make_call("a", given, "b"), 0.0) is is_needed
    assert not Repeats().is_check_needed(make_call(given, partition_id=_OTHER), 0.0)


def test_pushes_without_ids_need_no_look() -> None:
    assert not Repeats().is_check_needed(make_call(), 0.0)


def test_after_a_repeat_all_are_looked_for_until_there_was_none_for_a_minute() -> None:
    repeats = Repeats()
    call = make_call("a")
    assert not repeats.is_check_needed(call, 1_000.0)
    repeats.note_repeat(1_000.0)
    assert repeats.is_check_needed(call, 60_999.0)
    repeats.note_repeat(50_000.0)
    assert repeats.is_check_needed(call, 109_999.0)
    assert not repeats.is_check_needed(call, 110_000.0)
