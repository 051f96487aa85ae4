"""The lock wait of one try of a lock queue."""

from __future__ import annotations

from queenmq.engine.calls.lock_queues import next_try_ms


def try_ms(
    *, queues: int = 1, calls_max: int = 2, left_ms: float = 60_000, is_shared: bool = False
) -> int:
    return next_try_ms(queues=queues, calls_max=calls_max, left_ms=left_ms, is_shared=is_shared)


def test_a_lone_lane_waits_longest() -> None:
    assert try_ms(queues=1) == 1_000


def test_lanes_that_find_a_free_connection_each_wait_longest() -> None:
    assert try_ms(queues=2, calls_max=2) == 1_000


def test_many_lanes_share_the_connections() -> None:
    assert try_ms(queues=8, calls_max=2) == 250


def test_a_try_never_outlasts_the_deadline() -> None:
    assert try_ms(left_ms=300.7) == 300


def test_a_try_is_never_too_short_to_succeed() -> None:
    assert try_ms(queues=10_000) == 50
    assert try_ms(left_ms=0) == 50
    assert try_ms(left_ms=-5) == 50


def test_a_try_that_locks_partitions_of_other_lanes_is_short() -> None:
    assert try_ms(is_shared=True) == 50


def test_no_lane_counts_as_one() -> None:
    assert try_ms(queues=0) == 1_000
