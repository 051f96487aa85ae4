"""Load from outside: a lean HTTP connection, producers, consumers, and the record of what they saw.

Speaks HTTP over plain streams, because tens of thousands of requests through a full client would
measure that client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode, urlsplit

from tests.support.broker import SOON_S


class Answer(NamedTuple):
    """Status, headers with lower-case names, and the decoded body."""

    status: int
    headers: dict[str, str]
    body: Any


class Wire:
    """One keep-alive connection to a broker."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def close(self) -> None:
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def call(
        self, method: str, path: str, body: Any = None, *, timeout_s: float = 2 * SOON_S
    ) -> Answer:
        """One request and its answer; OSError when the connection breaks."""
        self.send(method, path, body)
        return await self.receive(timeout_s=timeout_s)

    def send(self, method: str, path: str, body: Any = None) -> None:
        """Write a request; the answer is read by `receive`."""
        if self._writer is None:
            raise ConnectionError("not connected")
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)

    async def receive(self, *, timeout_s: float = 2 * SOON_S) -> Answer:
        if self._reader is None:
            raise ConnectionError("not connected")
        async with asyncio.timeout(timeout_s):
            try:
                head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.split("\r\n")
                pairs = (line.partition(":") for line in lines[1:] if line)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                content = await self._reader.readexactly(int(headers.get("content-length", "0")))
            except (asyncio.IncompleteReadError, OSError) as error:
                await self.close()
                raise ConnectionError(str(error)) from error
        is_json = headers.get("content-type") == "application/json"
        body = json.loads(content) if is_json and content else content.decode() or None
        return Answer(int(lines[0].split()[1]), headers, body)

    async def push(
        self,
        queue: str,
        payload: Any,
        *,
        partition: str = "Default",
        transaction_id: str | None = None,
    ) -> Answer:
        item = {"queue": queue, "partition": partition, "payload": payload}
        if transaction_id is not None:
            item["transactionId"] = transaction_id
        return await self.call("POST", "/api/v1/push", {"items": [item]})

    async def pop(self, queue: str, *, partition: str | None = None, **query: Any) -> list[Any]:
        """The messages of one pop."""
        answer = await self.call("GET", pop_path(queue, partition=partition, **query))
        assert answer.status in (200, 204), answer
        return answer.body["messages"] if answer.status == 200 else []

    async def ack(self, messages: Iterable[Any], *, group: str | None = None) -> Any:
        """Complete messages; the results."""
        fields = ("transactionId", "partitionId", "leaseId")
        items = [{field: message[field] for field in fields} for message in messages]
        body = {"acknowledgments": items, "consumerGroup": group}
        answer = await self.call("POST", "/api/v1/ack/batch", body)
        assert answer.status == 200, answer
        return answer.body

    async def settle(self) -> None:
        """Come back when the broker has read everything that was sent to it before this call."""
        for _ in range(3):
            assert (await self.call("GET", "/health")).status in (200, 503)


def pop_path(queue: str, *, partition: str | None = None, **query: Any) -> str:
    path = f"/api/v1/pop/queue/{queue}"
    if partition is not None:
        path += f"/partition/{partition}"
    words = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
    }
    return f"{path}?{urlencode(words)}" if words else path


@contextlib.asynccontextmanager
async def wires(urls: Iterable[str]) -> AsyncIterator[list[Wire]]:
    """A connection to each of these brokers."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Wire(url)) for url in urls]


Payload = tuple[int, int]


def produce_by_http(queue: str, producer: int, count: int) -> Callable[[Wire], Awaitable[None]]:
    """A producer that pushes its numbers one by one, each of which has to be accepted.

    A busy broker keeps some for later, which is 202.
    """

    async def run(wire: Wire) -> None:
        for number in range(count):
            answer = await wire.push(queue, [producer, number])
            assert answer.status in (201, 202), answer
            assert answer.body[0]["status"] in ("queued", "buffered"), answer

    return run


class Record:
    """What consumers received, in order of delivery."""

    def __init__(self) -> None:
        self.seen: list[Payload] = []

    async def consume(self, wire: Wire, queue: str, group: str, count: int) -> None:
        """Pop and ack until `count` messages have been seen by all consumers of this record."""
        while len(self.seen) < count:
            messages = await wire.pop(
                queue, consumerGroup=group, batch=200, wait=True, timeout=1000
            )
            # Noted before the ack: until then nobody else can be given the next ones.
            self.seen += [tuple(message["data"]) for message in messages]
            if messages:
                results = await wire.ack(messages, group=group)
                assert all(result["success"] for result in results), results

    def assert_complete(self, producers: int, count: int) -> None:
        """Each message once, and each producer's messages in the order it pushed them."""
        times = Counter(self.seen)
        assert not [one for one, number in times.items() if number > 1], "delivered twice"
        wanted = {(producer, n) for producer in range(producers) for n in range(count)}
        assert not wanted - set(times), f"skipped {len(wanted - set(times))}"
        assert not set(times) - wanted
        for producer in range(producers):
            numbers = [n for one, n in self.seen if one == producer]
            assert numbers == sorted(numbers), f"producer {producer} out of order"
