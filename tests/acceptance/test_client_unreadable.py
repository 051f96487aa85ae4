"""A payload that Python cannot hold fails alone, in every way of consuming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest

from queenmq import Message, Queen, RequestFailed, SyncQueen, UnreadablePayload
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.scripted_server import Say, scripted
from tests.support.waiting import wait_until_async

#: JSON that the broker takes over HTTP.
ACCEPTED = {
    "beyond-double": b'{"e":1e400}',
    "minus-beyond-double": b"[1,-2e999999999999]",
    "5000-digits": b'{"e":' + b"7" * 5000 + b"}",
}
#: JSON that only gets in by SQL, where PostgreSQL alone judges it.
ONLY_SQL = {
    "lone-surrogate": rb'{"data":"\ud800"}',
    "lone-low-surrogate": rb'["\udc00x"]',
    "3000-levels": b"[" * 3000 + b"]" * 3000,
}
PAYLOADS = ACCEPTED | ONLY_SQL
each_payload = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)

Push = Callable[[str, str, bytes], Awaitable[None]]


@pytest.fixture
async def push(broker: BrokerProcess, shared_database_url: str) -> AsyncIterator[Push]:
    """Push a payload byte for byte, by SQL: it takes all of them."""
    session = await asyncpg.connect(shared_database_url)

    async def send(queue: str, partition: str, payload: bytes) -> None:
        await session.execute(
            "SELECT queen.push($1, $2::json, partition => $3)", queue, payload.decode(), partition
        )

    yield send
    await session.close()


async def prepare(queen: Queen, push: Push, payload: bytes) -> str:
    """A queue with the bad payload between good ones, and a good partition beside it."""
    queue = unique("unreadable")
    await queen.create_queue(queue, retry_limit=0, lease_time=60)
    await queen.push(queue, "before", partition="mixed")
    await push(queue, "mixed", payload)
    await queen.push(queue, "after", partition="mixed")
    await queen.push(queue, ["one", "two"], partition="good")
    return queue


async def letters(queen: Queen, queue: str) -> list[str]:
    return [one.error_message or "" for one in await queen.dead_letters(queue)]


async def check_failed_alone(queen: Queen, queue: str, seen: list[Any]) -> None:
    assert sorted(seen) == ["after", "before", "one", "two"]
    assert seen.index("before") < seen.index("after")
    (error,) = await letters(queen, queue)
    assert error.startswith("UnreadablePayload: ")
    assert await queen.pop(queue, batch=10, partitions=10) == []


@pytest.mark.parametrize("payload", ACCEPTED.values(), ids=ACCEPTED)
async def test_the_broker_takes_every_number_of_the_grammar(
    queen: Queen, broker: BrokerProcess, payload: bytes
) -> None:
    queue = unique()
    body = b'{"items":[{"queue":"%s","payload":%s}]}' % (queue.encode(), payload)
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{broker.url}/api/v1/push", content=body)
        assert answer.status_code == 201
        popped = await http.get(f"{broker.url}/api/v1/pop/queue/{queue}")
        assert b'"data":' + payload in popped.content


@each_payload
@pytest.mark.parametrize("style", ["single", "each", "batch"])
async def test_a_handler_never_sees_it_and_its_neighbours_go_on(
    queen: Queen, push: Push, payload: bytes, style: str
) -> None:
    queue = await prepare(queen, push, payload)
    seen: list[Any] = []

    async def handle(given: Any) -> None:
        seen.extend(one.data for one in (given if isinstance(given, list) else [given]))

    how: dict[str, Any] = {"batch": 1 if style == "single" else 10, "each": style == "each"}
    async with queen.consume(queue, handle, partitions=5, timeout_ms=500, **how):
        await wait_until_async(
            lambda: _done(queen, queue, seen), timeout_s=SOON_S, what="all to be settled"
        )
    await check_failed_alone(queen, queue, seen)


async def _done(queen: Queen, queue: str, seen: list[Any]) -> bool:
    return len(seen) == 4 and len(await queen.dead_letters(queue)) == 1


@each_payload
async def test_a_loop_never_sees_it(queen: Queen, push: Push, payload: bytes) -> None:
    queue = await prepare(queen, push, payload)
    seen: list[Any] = []
    async with queen.consume(queue, batch=10, partitions=5, idle_ms=1000) as messages:
        async for message in messages:
            seen.append(message.data)
    await check_failed_alone(queen, queue, seen)


@each_payload
async def test_the_sync_client_goes_on(
    queen: Queen, broker: BrokerProcess, push: Push, payload: bytes
) -> None:
    queue = await prepare(queen, push, payload)
    seen: list[Any] = []

    def consume() -> None:
        with SyncQueen(broker.url) as sync:
            handle = lambda message: seen.append(message.data)  # noqa: E731
            sync.consume(queue, handle, batch=2, each=True, partitions=5, idle_ms=1000).run()

    await asyncio.to_thread(consume)
    await check_failed_alone(queen, queue, seen)


@each_payload
async def test_a_pop_gives_it_with_its_bytes(queen: Queen, push: Push, payload: bytes) -> None:
    queue = await prepare(queen, push, payload)
    messages = await queen.pop(queue, partition="mixed", batch=10)
    before, bad, after = messages
    assert (before.data, after.data) == ("before", "after")
    for read in (lambda: bad.data, lambda: bad["data"], lambda: bad.get("data")):
        with pytest.raises(UnreadablePayload, match="cannot be read") as caught:
            read()
        assert caught.value.raw == payload
    assert isinstance(bad, Message) and bad.transaction_id in repr(bad)
    assert (await queen.ack(before))["success"]
    assert (await queen.nack(bad, "no"))["dlq"]
    assert (await queen.ack(after))["leaseReleased"]


@each_payload
async def test_a_dead_letter_and_a_single_message_can_be_looked_at(
    queen: Queen, push: Push, payload: bytes
) -> None:
    queue = unique()
    await push(queue, "Default", payload)
    (message,) = await queen.pop(queue)
    await queen.ack(message, "dlq", error="bad")
    (letter,) = await queen.dead_letters(queue)
    with pytest.raises(UnreadablePayload) as caught:
        _ = letter.data
    assert caught.value.raw == payload and letter.error_message == "bad"
    found = await queen.admin.get_message(message.partition_id, message.transaction_id)
    assert bytes(found["payload"]) == payload
    (listed,) = (await queen.admin.list_dead_letters(queue=queue)).messages
    with pytest.raises(UnreadablePayload) as caught:
        _ = listed["data"]
    assert caught.value.raw == payload
    await queen.trace(message, {"data": {"n": 1}, "traceName": queue})
    (trace,) = (await queen.admin.get_traces_by_name(queue))["traces"]
    assert bytes(trace["message_payload"]) == payload and trace["data"] == {"n": 1}


async def test_a_handler_that_acks_for_itself_is_not_ended_by_it(queen: Queen, push: Push) -> None:
    queue = await prepare(queen, push, b"1e400")
    seen: list[Any] = []

    async def handle(message: Message) -> None:
        seen.append(message.data)
        await queen.ack(message)

    await queen.consume(
        queue, handle, batch=10, each=True, partitions=5, auto_ack=False, idle_ms=1000
    )
    await check_failed_alone(queen, queue, seen)


@pytest.mark.parametrize("is_each", [True, False], ids=["each", "batch"])
async def test_an_error_callback_is_told_of_it(queen: Queen, push: Push, is_each: bool) -> None:
    queue = unique()
    await push(queue, "Default", b"1e400")
    errors: list[Any] = []

    async def tell(given: Any, error: Exception) -> None:
        errors.append(error)
        await queen.nack(given, str(error))

    consumption = queen.consume(queue, print, batch=10, each=is_each, idle_ms=300)
    await consumption.on_error(tell)
    assert errors and all(isinstance(one, UnreadablePayload) for one in errors)


async def test_a_payload_as_deep_as_the_broker_takes_is_read_from_a_deep_stack(
    queen: Queen,
) -> None:
    """How deep Python can go depends on where it stands; the broker stands higher."""
    queue = unique()
    deep: Any = []
    for _ in range(880):
        deep = [deep]
    await queen.push(queue, [{"data": deep}, {"data": "next"}])

    async def from_below(levels: int) -> list[Message[Any]]:
        return await (from_below(levels - 1) if levels else queen.pop(queue, batch=10))

    bad, good = await from_below(200)
    assert good.data == "next"
    with pytest.raises(UnreadablePayload) as caught:
        _ = bad.data
    assert json.loads(caught.value.raw) == deep


async def test_json_of_the_users_own_reads_what_it_can(queen: Queen, broker: BrokerProcess) -> None:
    queue = unique()
    await queen.push(queue, ["good"])
    async with Queen(broker.url, json=_Picky()) as picky:
        await picky.push(queue, ["bad", "good"])
        first, bad, last = await picky.pop(queue, batch=10)
        assert (first.data, last.data) == ("good", "good")
        with pytest.raises(UnreadablePayload, match="not to my taste"):
            _ = bad.data


class _Picky:
    """A JSON library with opinions."""

    def dumps(self, value: Any) -> str:
        return json.dumps(value)

    def loads(self, text: bytes) -> Any:
        if b'"bad"' in text:
            raise ValueError("not to my taste")
        return json.loads(text)


@pytest.mark.parametrize(
    "body",
    [b"<html>", b'{"messages":[{"data":1e400}]}', b'{"messages":[{"id":"x","data":', b'{"data":1'],
)
async def test_an_answer_that_is_not_a_servers_is_still_refused(body: bytes) -> None:
    async with scripted(Say(200, body)) as server, Queen(server.url) as queen:
        with pytest.raises(RequestFailed, match="is there a Queen server"):
            await queen.pop("q")
