"""Two brokers of two workers each under load: what they tell is what their clients have counted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import httpx

from tests.conformance.test_metrics import read
from tests.support.broker import SOON_S, Api, running_broker, unique
from tests.support.waiting import wait_until_async

_ROUNDS = 8
_CLIENTS = 6
_DOUBTFUL_ROUNDS = 20
#: What clients count, and the series that tells it.
_TOLD = {
    "pushed": "queen_messages_pushed_total",
    "duplicate": "queen_messages_duplicate_total",
    "delivered": "queen_messages_delivered_total",
    "acked": "queen_messages_acked_total",
    "failed": "queen_messages_failed_total",
    "retried": "queen_messages_retried_total",
    "dead": "queen_messages_dead_lettered_total",
}


class _Client:
    """Pushes, pops and acks on a connection of its own, and counts what it is answered."""

    def __init__(self, url: str, counted: Counter[str]) -> None:
        self.api = Api(url)
        self._url = url
        self._counted = counted

    async def work(self, queue: str) -> None:
        await self.api.configure(queue, retryLimit=0)
        for number in range(_ROUNDS):
            for _ in range(2):
                answer = await self.api.push(queue, number, transactionId=f"t{number}")
                self._counted["pushed" if answer[0]["status"] == "queued" else "duplicate"] += 1
            self._counted[self._url] += 2
            (message,) = await self.api.pop(queue)
            self._counted["delivered"] += 1
            status = ("completed", "retry", "failed")[number % 3]
            (result,) = await self.api.ack(message, status=status)
            self._counted["acked"] += status == "completed"
            self._counted["failed"] += status == "failed"
            self._counted["retried"] += status == "retry"
            self._counted["dead"] += result["dlq"]
            if status == "retry":
                (message,) = await self.api.pop(queue)
                self._counted["delivered"] += 1
                await self.api.ack(message)
                self._counted["acked"] += 1


async def _work(urls: list[str], counted: Counter[str]) -> None:
    clients = [_Client(url, counted) for url in urls for _ in range(_CLIENTS)]
    await asyncio.gather(*(client.work(unique()) for client in clients))
    for client in clients:
        await client.api.close()


async def _tell(urls: list[str]) -> list[dict[str, float]]:
    """Ask each broker several times over new connections, so that both workers answer."""
    answers = []
    for url in urls:
        for _ in range(4):
            api = Api(url)
            answers.append(await read(api))
            await api.close()
    return answers


def _sums(told: list[dict[str, float]]) -> dict[str, float]:
    """Add the brokers up; all answers of one broker have to be the same."""
    brokers = [told[:4], told[4:]]
    for answers in brokers:
        for name in _TOLD.values():
            assert len({answer[name] for answer in answers}) == 1, name
    return {name: sum(answers[0][name] for answers in brokers) for name in _TOLD.values()}


def _workers(told: dict[str, float]) -> dict[str, int]:
    """The process ids of a broker's workers, by place."""
    found = {}
    for name in told:
        if name.startswith("queen_worker_info{"):
            labels = dict(part.split("=") for part in name.partition("{")[2][:-1].split(","))
            found[labels["worker_id"]] = int(labels["pid"])
    return found


async def test_sums_are_what_clients_counted_also_after_a_kill(database_url: str) -> None:
    counted: Counter[str] = Counter()
    with (
        running_broker(database_url=database_url, QUEEN_WORKERS="2") as one,
        running_broker(database_url=database_url, QUEEN_WORKERS="2") as two,
    ):
        urls = [one.url, two.url]
        await _work(urls, counted)
        told = await _tell(urls)
        expected = {series: counted[name] for name, series in _TOLD.items()}
        assert _sums(told) == expected
        assert all(counted[name] for name in _TOLD)
        before = _workers(told[0])
        assert set(before) == {"0", "1"}

        os.kill(before["0"], signal.SIGKILL)

        async def is_replaced() -> bool:
            api = Api(one.url)
            try:
                samples = await read(api)
            except httpx.TransportError:
                # It went to the one that was killed.
                return False
            finally:
                await api.close()
            # Whoever answers: nothing that was counted may be missing, not for a moment.
            for series in _TOLD.values():
                assert samples[series] == told[0][series]
            after = _workers(samples)
            return set(after) == set(before) and after != before

        await wait_until_async(is_replaced, timeout_s=SOON_S, what="the new worker")
        await _work(urls, counted)
        told = await _tell(urls)
        assert _sums(told) == {series: counted[name] for name, series in _TOLD.items()}
        # Requests are written to shared memory a moment later. Of the broker that lost no worker:
        route = "queen_http_requests_total{code=2xx,method=POST,route=/api/v1/push}"

        async def are_told() -> bool:
            return all(answer[route] == counted[two.url] for answer in (await _tell(urls))[4:])

        await wait_until_async(are_told, timeout_s=SOON_S, what="all requests")


class _Doubtful:
    """Pushes and pops while workers are killed: what was answered, and what may have been done."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.in_doubt: Counter[str] = Counter()

    async def work(self, url: str, queue: str) -> None:
        for number in range(_DOUBTFUL_ROUNDS):
            api = Api(url)
            try:
                await self._try("pushed", api.push(queue, number))
                await self._try("delivered", api.pop(queue, autoAck=True))
            finally:
                await api.close()

    async def _try(self, name: str, request: Awaitable[list[Any]]) -> None:
        try:
            answer = await request
        except httpx.TransportError:
            self.in_doubt[name] += 1
        else:
            self.answered[name] += len(answer)


async def test_a_kill_under_load_loses_no_count_that_was_answered(database_url: str) -> None:
    load = _Doubtful()
    with (
        running_broker(database_url=database_url, QUEEN_WORKERS="2") as one,
        running_broker(database_url=database_url, QUEEN_WORKERS="2") as two,
    ):
        urls = [one.url, two.url]
        work = asyncio.gather(*(load.work(url, unique()) for url in urls for _ in range(_CLIENTS)))
        victim = _workers((await _tell(urls))[0])["0"]

        async def is_under_way() -> bool:
            return load.answered["pushed"] > 2 * _CLIENTS

        await wait_until_async(is_under_way, timeout_s=SOON_S, what="load")
        os.kill(victim, signal.SIGKILL)
        await work
        told = _sums(await _tell(urls))
    for name in ("pushed", "delivered"):
        assert load.answered[name] > 0
        least, most = load.answered[name], load.answered[name] + load.in_doubt[name]
        assert least <= told[_TOLD[name]] <= most, name
