"""The decision to retry and its time, without a network."""

from __future__ import annotations

import pytest

from queenmq.client.http.retry import RetryPolicy, parse_retry_after

POLICY = RetryPolicy(attempts=3, base_delay=1.0, max_retry_delay=10.0)


def _highest() -> float:
    return 1.0


@pytest.mark.parametrize("status", [None, 500, 502, 503, 504, 429])
def test_trouble_that_may_pass_is_tried_again(status: int | None) -> None:
    assert POLICY.next_delay(1, status=status, random=_highest) == 1.0
    assert POLICY.next_delay(2, status=status, random=_highest) == 2.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 431])
def test_a_refusal_is_final(status: int) -> None:
    assert POLICY.next_delay(1, status=status, random=_highest) is None


def test_the_last_attempt_is_the_last() -> None:
    assert POLICY.next_delay(3, status=503, random=_highest) is None
    assert RetryPolicy(attempts=1).next_delay(1, status=None, random=_highest) is None


def test_429_is_final_when_that_is_asked_for() -> None:
    policy = RetryPolicy(retry_on_429=False)
    assert policy.next_delay(1, status=429, random=_highest) is None
    assert policy.next_delay(1, status=503, random=_highest) is not None


def test_the_server_names_the_delay_up_to_the_bound() -> None:
    def delay(seconds: float, policy: RetryPolicy = POLICY) -> float | None:
        return policy.next_delay(1, status=429, retry_after=seconds, random=lambda: 0.0)

    assert delay(4.0) == 4.0
    assert delay(4_000.0) == POLICY.max_retry_delay
    assert delay(4.0, RetryPolicy(honor_retry_after=False, base_delay=1.0)) == 0.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("1e400", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, unix_s=60.0) == seconds


@pytest.mark.parametrize("options", [{"attempts": 0}, {"base_delay": -1}, {"max_retry_delay": -1}])
def test_a_senseless_policy_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        RetryPolicy(**options)
