"""The text of wake-ups between brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.engine.lifecycle import Health
from queenmq.engine.news import News
from queenmq.engine.requests import PartitionKey
from queenmq.storage.connection.wake_listener import (
    WakeListener,
    decode_groups,
    decode_wake,
    encode_wake,
)
from tests.support.pauses import skip_pauses
from tests.support.waiting import wait_until_async

#: NOTIFY takes less than this many bytes.
PAYLOAD_BYTES_MAX = 8_000


def test_another_broker_hears_the_queues() -> None:
    assert decode_wake("other", encode_wake("me", ["b", "a"])) == ["a", "b"]


def test_our_own_wake_up_is_not_heard() -> None:
    assert decode_wake("me", encode_wake("me", ["a"])) == []


def test_too_many_queues_become_a_star() -> None:
    text = encode_wake("me", [f"queue-{number}" for number in range(10_000)])
    assert len(text) < PAYLOAD_BYTES_MAX
    assert decode_wake("other", text) == ["*"]


def test_a_few_queues_with_long_names_become_a_star() -> None:
    text = encode_wake(
        "me", ["🐝" * 255 for _ in range(1)] + ["é" * 255 + str(n) for n in range(9)]
    )
    assert len(text.encode()) < PAYLOAD_BYTES_MAX
    assert decode_wake("other", text) == ["*"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{",
        "null",
        "1",
        '"from"',
        "[]",
        "{}",
        '{"from":"you"}',
        '{"queues":["a"]}',
        '{"from":"you","queues":null}',
        '{"from":"you","queues":7}',
        '{"from":"you","queues":"abc"}',
        '{"from":"you","queues":{"a":1}}',
        "[" * 7_000,
        '{"a":' * 1_500,
    ],
    ids=lambda text: text[:30],
)
def test_nonsense_wakes_nobody(text: str) -> None:
    assert decode_wake("me", text) == []


def test_names_that_are_no_text_are_left_out() -> None:
    text = json.dumps({"from": "you", "queues": ["a", 1, None, ["b"]]})
    assert decode_wake("me", text) == ["a"]


@pytest.mark.parametrize(
    ("news", "groups"),
    [({"groups": ["g", 1, None]}, ["g"]), ({"groups": None}, []), ({"groups": "g"}, []), ({}, [])],
)
def test_deleted_groups_are_heard_of(news: dict[str, object], groups: list[str]) -> None:
    text = json.dumps({"from": "", "queues": ["a"], **news})
    assert decode_groups(text) == groups
    assert decode_wake("me", text) == ["a"]


async def _never_connect() -> asyncpg.Connection:
    raise AssertionError("nothing listens")


async def test_a_push_of_nothing_wakes_no_broker() -> None:
    sent: list[str] = []

    class Store:
        async def notify(self, channel: str, text: str) -> None:
            sent.extend(decode_wake("other", text))

    listener = WakeListener(
        Store(),  # type: ignore[arg-type]
        _never_connect,
        interval_ms=1,
        is_listening=False,
        news=News(),
    )
    await listener.start()
    # A transaction of acks alone has pushed to no partition.
    listener.notify_pushed([])
    listener.notify_freed(UUID(int=1), PartitionKey("orders", "p"), "workers")
    listener.notify("bills")
    await wait_until_async(lambda: sent, timeout_s=10, what="a notification")
    await listener.stop()
    assert sent == ["bills", "orders"]


class LostConnection:
    """A connection that the server ends as soon as it listens."""

    def __init__(self) -> None:
        self._end: Callable[[Any], None] | None = None

    def add_termination_listener(self, end: Callable[[Any], None]) -> None:
        self._end = end

    async def add_listener(self, channel: str, heard: object) -> None:
        assert self._end is not None
        self._end(self)

    def terminate(self) -> None:
        """Nothing is left to end."""


def _lose() -> LostConnection:
    return LostConnection()


def _break() -> LostConnection:
    raise asyncpg.InternalClientError("protocol is in an unexpected state")


@pytest.mark.parametrize("fail", [_lose, _break], ids=["lost at once", "error of the driver"])
async def test_a_listener_pauses_ever_longer_between_failures(
    monkeypatch: pytest.MonkeyPatch, fail: Callable[[], LostConnection]
) -> None:
    pauses = skip_pauses(monkeypatch, least_s=0.1)
    tries = 0

    async def connect() -> Any:
        nonlocal tries
        if tries == 3:
            await asyncio.Event().wait()
        tries += 1
        return fail()

    listener = WakeListener(
        None,  # type: ignore[arg-type]
        connect,
        interval_ms=1,
        is_listening=True,
        news=News(),
    )
    await listener.start()
    await wait_until_async(lambda: tries == 3, timeout_s=10, what="three tries")
    assert pauses[:2] == [0.1, 0.2]
    assert listener.health() is Health.RUNNING
    await listener.stop()
