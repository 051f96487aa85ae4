"""Laws of the wait for a held partition."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from queenmq.engine.calls.lock_queues import next_try_ms

TRY_MS_MIN, TRY_MS_MAX = 50, 1_000

queues = st.integers(0, 100_000)
calls = st.integers(1, 64)
left = st.floats(-1e6, 1e6)


@given(queues=queues, calls_max=calls, left_ms=left, is_shared=st.booleans())
def test_a_try_stays_within_its_bounds(
    queues: int, calls_max: int, left_ms: float, is_shared: bool
) -> None:
    found = next_try_ms(queues=queues, calls_max=calls_max, left_ms=left_ms, is_shared=is_shared)
    assert TRY_MS_MIN <= found <= TRY_MS_MAX
    assert found <= max(TRY_MS_MIN, left_ms)


@given(queues=queues, more=st.integers(0, 1_000), calls_max=calls, left_ms=left)
def test_more_lanes_never_make_a_try_longer(
    queues: int, more: int, calls_max: int, left_ms: float
) -> None:
    few, many = (
        next_try_ms(queues=count, calls_max=calls_max, left_ms=left_ms, is_shared=False)
        for count in (queues, queues + more)
    )
    assert many <= few
