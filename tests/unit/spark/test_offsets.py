"""Positions: their JSON form, where batches end, and when messages count as lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.source.offsets import (
    Position,
    batch_bounds,
    digest,
    end_of_batch,
    missing_messages,
    parse_offset,
    parse_time,
)

INITIAL = Position(10, count=100, queues="q", query="x", is_initial=True)


@pytest.mark.parametrize(
    "position",
    [
        Position(5),
        INITIAL,
        Position(2**64 - 1, count=0, queues="q", query="x", start=INITIAL),
    ],
)
def test_positions_survive_their_json_form(position: Position) -> None:
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


def test_a_position_is_small_whatever_it_counts() -> None:
    queues = digest(uuid4() for _ in range(10_000))
    position = Position(2**64 - 1, count=2**62, queues=queues, query=uuid4().hex)
    assert len(json.dumps(position.to_json())) < 200


def test_a_damaged_position_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="checkpoint"):
        Position.from_json({"xid": "12a"})


def test_a_repeated_first_batch_begins_where_it_did_before() -> None:
    end = Position(20, start=INITIAL)
    now = Position(50, is_initial=True)
    assert batch_bounds(now.to_json(), end.to_json()) == (INITIAL, end)


def test_later_batches_begin_at_the_end_of_the_one_before() -> None:
    first, end = Position(20, start=INITIAL), Position(30)
    assert batch_bounds(first.to_json(), end.to_json()) == (first, end)


@pytest.mark.parametrize(
    ("first", "following", "horizon", "end"),
    [
        (10, None, 50, 50),  # fewer than the limit
        (10, 30, 50, 30),  # the transaction at the limit is left for later
        (10, 10, 50, 11),  # one transaction is read however large it is
        (49, 49, 50, 50),
    ],
)
def test_batches_end_between_transactions(
    first: int, following: int | None, horizon: int, end: int
) -> None:
    assert end_of_batch(first, following, horizon) == end


def test_missing_messages_are_those_counted_and_not_found() -> None:
    start, end = Position(1, count=100, queues="q"), Position(9, count=130, queues="q")
    assert missing_messages(start, end, "q", 30) == 0
    assert missing_messages(start, end, "q", 18) == 12


def test_nothing_is_missed_where_it_was_not_counted() -> None:
    start, end = Position(1, count=100, queues="q"), Position(9, count=130, queues="q")
    assert missing_messages(start, end, "other", 0) == 0
    assert missing_messages(Position(1), end, "q", 0) == 0
    assert missing_messages(start, Position(9), "q", 0) == 0


def test_places_are_read_as_written() -> None:
    assert parse_offset(" Earliest", "o").kind == "earliest"
    assert parse_offset('{"xid": 7}', "o").xid == 7
    assert parse_offset('{"xid": "7", "count": "2"}', "o").xid == 7
    assert parse_time("1000", "o").time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert parse_time("2026-01-01T00:00:00+00:00", "o").time == datetime(2026, 1, 1, tzinfo=UTC)


def test_the_order_of_queues_does_not_matter() -> None:
    one, two = uuid4(), uuid4()
    assert digest([one, two]) == digest([two, one]) != digest([one])
