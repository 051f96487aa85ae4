"""Calls that several contract tests share and that `Api` does not have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.support.broker import SOON_S, Api, unique

#: Milliseconds for a long poll that is expected to end early.
SOON_MS = int(SOON_S * 1000) - 5000


def ack_of(message: Mapping[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """The ack of one message, under the lease it came with."""
    names = ("transactionId", "partitionId", "leaseId")
    return {**{name: message[name] for name in names}, "status": status, **more}


async def settle(api: Api, *acks: Mapping[str, Any], group: str | None = None) -> Any:
    """Send several acks in one request; the results."""
    body = {"acknowledgments": acks, "consumerGroup": group}
    response = await api.http.post("/api/v1/ack/batch", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def drain(api: Api, queue: str, **query: Any) -> list[Any]:
    """All payloads that can be had now, in order of delivery."""
    found: list[Any] = []
    while batch := await api.data(queue, autoAck=True, **{"batch": 1000, **query}):
        found += batch
    return found


async def next_of(api: Api, queue: str, **query: Any) -> list[Any]:
    """The messages that come next, however long their lease or delay still lasts."""
    messages = await api.pop(queue, wait=True, timeout=SOON_MS, **query)
    assert messages, "nothing came"
    return messages


async def let_lease_run_out(api: Api, *, lease_s: int = 1) -> None:
    """Return when every lease of this length that was taken before the call has expired."""
    queue = unique("clock")
    await api.configure(queue, leaseTime=lease_s)
    await api.push(queue, "tick")
    await api.pop(queue)
    await next_of(api, queue)


@contextlib.asynccontextmanager
async def raw_connection(
    url: str,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A socket to a broker, for what an HTTP library refuses to send."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def send_raw(url: str, request: bytes) -> tuple[int, bytes]:
    """Send bytes and read until the broker hangs up; the first status and everything after it."""
    async with raw_connection(url) as (reader, writer):
        writer.write(request)
        answer = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(SOON_S):
                answer = await reader.read(-1)
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer[9:12]), answer[12:]
