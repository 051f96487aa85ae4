"""Acks with a pop behind them, in one request: what `next` of POST /api/v1/ack/batch promises."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queenmq.storage.embedded.layout import Layout
from queenmq.storage.embedded.postmaster import running_postmaster
from tests.acceptance.load import Answer, Wire, pop_path
from tests.acceptance.sql_side import LEASING, held, wait_for_waiters
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.embedded_server import family_of, wait_gone
from tests.support.waiting import wait_until_async


def _body(messages: list[Any], path: str, **more: Any) -> dict[str, Any]:
    fields = ("transactionId", "partitionId", "leaseId")
    items = [{**{name: one[name] for name in fields}, **more} for one in messages]
    return {"acknowledgments": items, "next": path}


async def _settle(wire: Wire, messages: list[Any], path: str, **more: Any) -> Answer:
    return await wire.call("POST", "/api/v1/ack/batch", _body(messages, path, **more))


async def _fill(wire: Wire, queue: str, count: int, *, partition: str = "p") -> None:
    for number in range(count):
        assert (await wire.push(queue, number, partition=partition)).status == 201


def _data(popped: Any) -> list[Any]:
    return [message["data"] for message in popped["messages"]]


@pytest.mark.parametrize("partition", ["p", None], ids=["by name", "of the queue"])
async def test_acks_bring_the_messages_after_them(
    broker: BrokerProcess, partition: str | None
) -> None:
    queue = unique()
    path = pop_path(queue, partition=partition, batch=2)
    async with Wire(broker.url) as wire:
        await _fill(wire, queue, 5)
        messages, seen = await wire.pop(queue, partition=partition, batch=2), []
        while messages:
            seen += [message["data"] for message in messages]
            answer = await _settle(wire, messages, path)
            assert answer.status == 200
            assert [one["success"] for one in answer.body["results"]] == [True] * len(messages)
            assert answer.body["results"][-1]["leaseReleased"]
            popped = answer.body["next"]
            if popped is not None:
                alike = popped["leaseId"], popped["queue"], popped["partition"]
                assert alike == (popped["messages"][0]["leaseId"], queue, "p")
            messages = popped["messages"] if popped else []
        assert seen == [0, 1, 2, 3, 4]
        assert await wire.pop(queue) == []


async def test_what_follows_is_leased_as_by_any_pop(broker: BrokerProcess) -> None:
    queue = unique()
    async with Wire(broker.url) as wire:
        await _fill(wire, queue, 3)
        answer = await _settle(wire, await wire.pop(queue), pop_path(queue))
        assert _data(answer.body["next"]) == [1]
        assert await wire.pop(queue) == [], "the partition is leased"
        again = await _settle(
            wire, answer.body["next"]["messages"], pop_path(queue), status="retry"
        )
        assert _data(again.body["next"]) == [1]
        assert again.body["next"]["messages"][0]["leaseId"] != answer.body["next"]["leaseId"]


async def test_without_news_nothing_follows(broker: BrokerProcess) -> None:
    queue = unique()
    async with Wire(broker.url) as wire:
        await _fill(wire, queue, 2)
        first = await wire.pop(queue, batch=2)
        early = await _settle(wire, first[:1], pop_path(queue))
        assert early.body["next"] is None, "the lease goes on"
        last = await _settle(wire, first[1:], pop_path(queue))
        assert [one["leaseReleased"] for one in last.body["results"]] == [True]
        assert last.body["next"] is None
        late = await _settle(wire, first[1:], pop_path(queue))
        assert late.body["next"] is None
        await _fill(wire, queue, 1)
        refused = await _settle(wire, [{**first[0], "transactionId": "unknown"}], pop_path(queue))
        assert [one["success"] for one in refused.body["results"]] == [False]
        assert refused.body["next"] is None


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/api/v1/push", "is not a pop"),
        ("/api/v1/popular", "is not a pop"),
        ("", "is not a pop"),
        ("/api/v1/pop/queue/q?batch=0", "batch 0"),
        ("/api/v1/pop/queue/q?wait=true", "hold up"),
        ("/api/v1/pop/queue/q?partitions=0", "partitions 0"),
        ("/api/v1/pop", "namespace or task"),
        (7, "next"),
    ],
)
async def test_a_next_that_is_no_pop_is_refused_and_nothing_acked(
    broker: BrokerProcess, path: Any, says: str
) -> None:
    queue = unique()
    async with Wire(broker.url) as wire:
        await _fill(wire, queue, 1)
        messages = await wire.pop(queue)
        answer = await _settle(wire, messages, path)
        assert answer.status == 400
        assert "next" in answer.body["error"]
        assert says in answer.body["error"]
        (result,) = await wire.ack(messages)
        assert result["leaseReleased"], "it was acked before"


async def test_a_caller_that_left_during_its_acks_has_acked_and_leased_nothing(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    queue = unique()
    async with Wire(broker.url) as caller, Wire(broker.url) as wire:
        await _fill(wire, queue, 2)
        messages = await wire.pop(queue)
        async with held(shared_database, LEASING):
            caller.send("POST", "/api/v1/ack/batch", _body(messages, pop_path(queue)))
            await wait_for_waiters(shared_database)
            await caller.close()
            await wire.settle()
        (left,) = await wire.pop(queue, wait=True, timeout=10_000)
        assert (left["data"], left["retryCount"]) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("follows", [True, False], ids=["something follows", "nothing follows"])
async def test_what_was_answered_outlives_a_kill_of_the_whole_database(
    start_owner: Callable[..., BrokerProcess], data_dir: Path, follows: bool
) -> None:
    """Also where the acks had to wait for what follows."""
    broker = start_owner()
    queues = [unique() for _ in range(2)]
    async with Wire(broker.url) as wire:
        for queue in queues:
            await _fill(wire, queue, 2 if follows else 1)
            messages = await wire.pop(queue)
            postmaster = await wait_until_async(
                lambda: running_postmaster(Layout.of(data_dir).pgdata),
                timeout_s=SOON_S,
                what="a postmaster",
            )
            assert postmaster is not None
            pids = family_of(postmaster)
            answer = await _settle(wire, messages, pop_path(queue))
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert [one["success"] for one in answer.body["results"]] == [True]
            assert (answer.body["next"] is not None) is follows
            await asyncio.to_thread(wait_gone, pids)
            again = await _ack_again(wire, messages)
            assert again["error"] == ("Invalid or expired lease" if follows else None)
            assert not again["leaseReleased"], "it was forgotten"


async def _ack_again(wire: Wire, messages: list[Any]) -> dict[str, Any]:
    """The result, once the database is back."""
    body = {"acknowledgments": _body(messages, "")["acknowledgments"]}

    async def is_answered() -> Answer | None:
        answer = await wire.call("POST", "/api/v1/ack/batch", body)
        return answer if answer.status == 200 else None

    answer = await wait_until_async(is_answered, timeout_s=SOON_S, what="an answer")
    assert answer is not None
    result: dict[str, Any] = answer.body[0]
    return result


async def test_the_acks_are_done_and_told_while_pops_are_paused(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    queue, pause = unique(), "/api/v1/system/maintenance/pop"
    async with Wire(start_broker().url) as wire:
        await _fill(wire, queue, 2)
        messages = await wire.pop(queue)
        assert (await wire.call("POST", pause, {"enabled": True})).status == 200
        answer = await _settle(wire, messages, pop_path(queue))
        assert (await wire.call("POST", pause, {"enabled": False})).status == 200
        assert [one["success"] for one in answer.body["results"]] == [True]
        assert answer.body["next"] is None
        assert [one["data"] for one in await wire.pop(queue)] == [1]
