"""Fills a queue for a pop to empty: a few connections, 1000 messages a request."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.broker import BenchmarkError
from benchmarks.scenario import PAYLOAD

#: Connections have partitions of their own, so that their pushes never wait for each other.
_CONNECTIONS = 4
_ITEMS = 1_000
_TIMEOUT_S = 120


def preload(address: tuple[str, int], *, queue: str, partitions: int, messages: int) -> int:
    """Push at least so many messages, evenly over the partitions; how many it were."""
    connections = min(_CONNECTIONS, partitions)
    requests = math.ceil(messages / connections / _ITEMS)
    shares = [range(first, partitions, connections) for first in range(connections)]
    with ThreadPoolExecutor(connections) as pool:
        return sum(pool.map(lambda share: _push(address, _body(queue, share), requests), shares))


def _body(queue: str, partitions: Sequence[int]) -> bytes:
    items = [
        {
            "queue": queue,
            "partition": f"p{partitions[number % len(partitions)]}",
            "payload": json.loads(PAYLOAD),
        }
        for number in range(_ITEMS)
    ]
    return json.dumps({"items": items}).encode()


def _push(address: tuple[str, int], body: bytes, requests: int) -> int:
    connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)
    try:
        for _ in range(requests):
            connection.request("POST", "/api/v1/push", body)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 201 or text.count(b'"queued"') != _ITEMS:
                raise BenchmarkError(f"preload failed with {answer.status}: {text[:300]!r}")
    finally:
        connection.close()
    return requests * _ITEMS
