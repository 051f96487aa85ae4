"""Decides whether and when a failed request is retried. Does not wait itself.

Network errors and 5xx are retried after a growing, random delay. So is 429, with the delay that the
server asks for. Other 4xx are never retried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

#: Doubling stops here, long before a float would overflow.
_DOUBLINGS_MAX = 40


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The delays between retries, in seconds."""

    #: Total number of attempts; 1 means no retry.
    attempts: int = 3
    base_delay: float = 0.2
    max_retry_delay: float = 30.0
    retry_on_429: bool = True
    honor_retry_after: bool = True

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(
                f"retry_attempts is {self.attempts}; use 1 or more, it counts every attempt"
            )
        if self.base_delay < 0 or self.max_retry_delay < 0:
            raise ValueError("retry delays are negative; use 0 seconds or more")

    def can_retry(self, status: int | None) -> bool:
        """Return whether a retry may help. No status means that the network failed."""
        if status == 429:
            return self.retry_on_429
        return status is None or status >= 500

    def next_delay(
        self,
        attempt: int,
        *,
        status: int | None,
        retry_after: float | None = None,
        random: Callable[[], float],
    ) -> float | None:
        """Return the seconds before the next try after `attempt` (from 1), or None to give up."""
        if attempt >= self.attempts or not self.can_retry(status):
            return None
        return self.backoff(attempt, retry_after=retry_after, random=random)

    def backoff(
        self, attempt: int, *, retry_after: float | None = None, random: Callable[[], float]
    ) -> float:
        """Return a delay for a loop that never gives up: full jitter below a doubling bound."""
        bound = self.base_delay * 2.0 ** min(attempt - 1, _DOUBLINGS_MAX)
        delay = random() * min(bound, self.max_retry_delay)
        if retry_after is not None and self.honor_retry_after:
            # A little later than asked, so that clients do not return all at once.
            delay = retry_after + random() * self.base_delay
        return min(delay, self.max_retry_delay)


def parse_retry_after(text: str | None, *, unix_s: float) -> float | None:
    """Return the seconds that a Retry-After header asks for, as a number or a date."""
    if text is None:
        return None
    try:
        return max(0.0, float(int(text.strip())))
    except (ValueError, OverflowError):
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - unix_s)
    except (ValueError, OverflowError):
        return None
