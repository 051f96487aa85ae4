"""Chooses the server for a request. Time is an argument, and there is no I/O.

A failing server is skipped for a time that doubles with each failure in a row. When all are
skipped, the one that is due first is tried, so there is always a choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Strategy = Literal["affinity", "round-robin", "session"]

#: The longest time in seconds that a server is skipped.
_OUT_MAX_S = 60.0


@dataclass
class _Health:
    failures: int = 0
    out_until: float = 0.0


class Servers:
    """The base URLs of one client and their recent failures."""

    def __init__(
        self, urls: Sequence[str], *, strategy: Strategy, session: str, out_s: float = 1.0
    ) -> None:
        if strategy not in get_args(Strategy):
            raise ValueError(f"load_balancing_strategy is {strategy!r}; use {get_args(Strategy)}")
        self.urls = [_check_url(url) for url in urls]
        if not self.urls:
            raise ValueError("there is no URL; pass at least one, such as http://localhost:6632")
        self._strategy = strategy
        self._session = session
        self._out_s = out_s
        self._health = {url: _Health() for url in self.urls}
        self._turn = 0

    def choose(self, key: str | None, *, now: float, tried: Collection[str] = ()) -> str:
        """Return the server for a request about `key`. Prefer servers that were not tried yet."""
        if len(self.urls) == 1:
            return self.urls[0]
        fresh = [url for url in self.urls if url not in tried] or self.urls
        healthy = [url for url in fresh if self._health[url].out_until <= now]
        if not healthy:
            return min(fresh, key=lambda url: self._health[url].out_until)
        if self._strategy == "session":
            return max(healthy, key=lambda url: _score(url, self._session))
        if self._strategy == "affinity" and key is not None:
            return max(healthy, key=lambda url: _score(url, key))
        self._turn += 1
        return healthy[self._turn % len(healthy)]

    def note_failure(self, url: str, *, now: float) -> None:
        """Skip the server for a while."""
        health = self._health[url]
        out_s = min(self._out_s * 2.0 ** min(health.failures, 16), _OUT_MAX_S)
        health.failures += 1
        health.out_until = now + out_s

    def note_success(self, url: str) -> None:
        """Note that the server answers again."""
        health = self._health[url]
        health.failures = 0
        health.out_until = 0.0


def affinity_key(
    queue: str | None, partition: str | None, group: str | None, namespace: str | None = None,
    task: str | None = None,
) -> str:  # fmt: skip
    """Return the key that sends related requests to the same server."""
    if queue:
        return f"{queue}:{partition or '*'}:{group or '__QUEUE_MODE__'}"
    return f"{namespace or '*'}:{task or '*'}:{group or '__QUEUE_MODE__'}"


def _score(url: str, key: str) -> bytes:
    """Return the rendezvous hash: when a server leaves, only its keys move to the others."""
    return hashlib.blake2b(f"{url}\0{key}".encode(), digest_size=8).digest()


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(
            f"URL {url!r} has no http:// or https://; use one such as http://host:6632"
        )
    return url.rstrip("/")
