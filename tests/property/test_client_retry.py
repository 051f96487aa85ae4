"""Laws of retry delays, over random policies, attempts and wishes of the server."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from queenmq.client.http.retry import RetryPolicy, parse_retry_after

policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 10),
    base_delay=st.floats(0, 100),
    max_retry_delay=st.floats(0, 1000),
    retry_on_429=st.booleans(),
    honor_retry_after=st.booleans(),
)
chances = st.floats(0, 1)
statuses = st.none() | st.integers(400, 599)


@given(policy=policies, attempt=st.integers(1, 10**6), status=statuses, chance=chances,
       wish=st.none() | st.floats(0, 1e9))  # fmt: skip
def test_a_delay_is_never_negative_and_never_above_the_bound(
    policy: RetryPolicy, attempt: int, status: int | None, chance: float, wish: float | None
) -> None:
    delay = policy.next_delay(attempt, status=status, retry_after=wish, random=lambda: chance)
    if delay is not None:
        assert 0 <= delay <= policy.max_retry_delay
        assert attempt < policy.attempts
    backoff = policy.backoff(attempt, retry_after=wish, random=lambda: chance)
    assert 0 <= backoff <= policy.max_retry_delay


@given(policy=policies, attempt=st.integers(1, 60), chance=chances)
def test_jitter_spreads_over_all_of_a_bound_that_never_shrinks(
    policy: RetryPolicy, attempt: int, chance: float
) -> None:
    def delay(number: int, share: float) -> float:
        return policy.backoff(number, random=lambda: share)

    assert delay(attempt, 0.0) == 0.0
    assert delay(attempt, chance) <= delay(attempt, 1.0) <= delay(attempt + 1, 1.0)


@given(policy=policies, wish=st.floats(0, 1e6), chance=chances)
def test_nobody_comes_back_before_the_server_asked_for_unless_the_bound_is_lower(
    policy: RetryPolicy, wish: float, chance: float
) -> None:
    delay = policy.backoff(1, retry_after=wish, random=lambda: chance)
    if policy.honor_retry_after:
        assert delay >= min(wish, policy.max_retry_delay)


@given(text=st.text(), unix_s=st.floats(0, 1e11))
def test_any_header_is_understood_or_left_out(text: str, unix_s: float) -> None:
    seconds = parse_retry_after(text, unix_s=unix_s)
    assert seconds is None or seconds >= 0
