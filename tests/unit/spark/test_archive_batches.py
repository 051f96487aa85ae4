"""The next queues and transactions: each queue once, the ones furthest behind first."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from queenmq.spark.jobs.archive.batches import Batch, Waiting, next_batch

ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))


def test_nothing_waits() -> None:
    assert next_batch({}, 100) is None


def test_queues_at_the_same_position_go_together_up_to_the_horizon() -> None:
    waiting = {TWO: Waiting(10, 12), ONE: Waiting(10, 15)}
    assert next_batch(waiting, 100) == Batch((ONE, TWO), 12, 100)


def test_a_queue_that_is_ahead_joins_where_its_position_is() -> None:
    waiting = {ONE: Waiting(0, 3), TWO: Waiting(50, 60)}
    assert next_batch(waiting, 100) == Batch((ONE,), 3, 50)
    waiting = {ONE: Waiting(50, 51), TWO: Waiting(50, 60)}
    assert next_batch(waiting, 100) == Batch((ONE, TWO), 51, 100)


def test_an_old_position_without_messages_holds_nobody_up() -> None:
    waiting = {ONE: Waiting(0, 80), TWO: Waiting(75, 90), THREE: Waiting(80, 81)}
    assert next_batch(waiting, 100) == Batch((ONE, TWO, THREE), 80, 100)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_positions_every_message_is_taken_once(seed: int) -> None:
    chance = random.Random(seed)
    horizon = 60
    messages = {
        key: sorted(chance.sample(range(horizon), chance.randint(0, 12)))
        for key in (ONE, TWO, THREE)
    }
    positions = {key: chance.randint(0, horizon) for key in messages}
    left = {(key, xid) for key, xids in messages.items() for xid in xids if xid >= positions[key]}
    for _ in range(200):
        waiting = {
            key: Waiting(positions[key], min(found))
            for key, xids in messages.items()
            if (found := [xid for xid in xids if xid >= positions[key]])
        }
        batch = next_batch(waiting, horizon)
        if batch is None:
            break
        end = min(batch.end, batch.start + chance.randint(1, 10))
        taken = {
            (key, xid) for key in batch.queues for xid in messages[key] if batch.start <= xid < end
        }
        assert taken and taken <= left, "something, and nothing twice"
        left -= taken
        positions |= dict.fromkeys((key for key, _ in taken), end)
    assert not left
