"""The client's warnings say the reason in their text: many programs print nothing else."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from queenmq import Message, Queen
from tests.support.broker import SOON_S
from tests.support.scripted_server import Say, scripted
from tests.support.waiting import wait_until_async

ONCE: dict[str, Any] = {"retry_attempts": 1, "retry_delay_millis": 1}
EMPTY = Say(204)
POPPED = Say(
    200,
    {
        "messages": [
            {
                "id": str(uuid.UUID(int=1)), "transactionId": "t", "partitionId": "p",
                "partition": "Default", "queue": "q", "data": 1, "leaseId": "l",
                "consumerGroup": "__QUEUE_MODE__", "createdAt": "2030-01-01T00:00:00Z",
                "producerSub": None, "traceId": None, "retryCount": 0,
            }
        ]
    },
)  # fmt: skip


def refused(status: int) -> Say:
    return Say(status, {"error": "the reason", "code": "x"})


def records(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [one for one in caplog.records if getattr(one, "event", "") == event]


async def wait_for(found: Callable[[], bool], what: str) -> None:
    async def is_there() -> bool:
        return found()

    await wait_until_async(is_there, timeout_s=SOON_S, what=what)


def assert_texts_have_reasons(caplog: pytest.LogCaptureFixture, event: str) -> None:
    found = records(caplog, event)
    assert found
    for record in found:
        assert "the reason" in record.getMessage()
        assert "the reason" in record.__dict__["error"]


async def test_an_outage_is_logged_with_its_reason_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted(*[refused(503)] * 6, EMPTY) as server, Queen(server.url, **ONCE) as queen:
        async with queen.consume("q", print, concurrency=3, timeout_ms=20):
            await wait_for(lambda: bool(records(caplog, "pop_recovered")), "the recovery")
            asked = len(server.seen)
            await wait_for(lambda: len(server.seen) > asked + 10, "more pops")
    assert_texts_have_reasons(caplog, "pop_failed")
    for record in records(caplog, "pop_failed"):
        assert record.getMessage().startswith("The consumer of 'q' cannot pop and retries in 0.")
    texts = [one.getMessage() for one in records(caplog, "pop_recovered")]
    assert set(texts) == {"The consumer of 'q' pops again."}
    assert len(texts) <= len(records(caplog, "pop_failed"))


async def test_a_consumer_that_was_never_cut_off_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted(EMPTY) as server, Queen(server.url, **ONCE) as queen:
        await queen.consume("q", print, wait=False, idle_ms=1)
    assert records(caplog, "pop_recovered") == []


async def test_an_ack_that_does_not_get_through_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted(POPPED, refused(400)) as server, Queen(server.url, **ONCE) as queen:
        await queen.consume("q", lambda message: None, limit=1)
    assert_texts_have_reasons(caplog, "ack_failed")


@pytest.mark.parametrize(("status", "event"), [(404, "lease_lost"), (500, "renewal_failed")])
async def test_a_lease_that_cannot_be_extended_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture, status: int, event: str
) -> None:
    async def handle(message: Message[Any]) -> None:
        await wait_for(lambda: bool(records(caplog, event)), event)

    async with scripted(POPPED, refused(status)) as server, Queen(server.url, **ONCE) as queen:
        consumer = queen.consume("q", handle, limit=1, renew_interval_ms=1, auto_ack=False)
        async with asyncio.timeout(SOON_S):
            await consumer
    assert_texts_have_reasons(caplog, event)


async def test_a_buffer_that_cannot_be_sent_is_logged_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported: list[Any] = []
    async with (
        scripted(refused(400)) as server,
        Queen(server.url, on_buffer_error=reported.append, **ONCE) as queen,
    ):
        await queen.push_buffered("q", 1, message_count=1)
        await wait_for(lambda: bool(reported), "the report")
        with pytest.raises(type(reported[0])):
            await queen.flush_all_buffers()
    assert_texts_have_reasons(caplog, "flush_failed")
