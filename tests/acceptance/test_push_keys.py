"""A push request that is sent again is stored once: by two brokers at once, and in an outage."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.own_postgres import OwnPostgres
from tests.support.waiting import wait_until_async

_PATH = "/api/v1/push"
_KEYS = 120


async def test_copies_at_two_brokers_store_one_and_have_one_answer(database_url: str) -> None:
    chance = random.Random(3)
    queue = unique()
    requests = []
    for number in range(_KEYS):
        partitions = chance.sample(["a", "b", "c", "d"], chance.randint(1, 3))
        items = [{"queue": queue, "partition": one, "payload": number} for one in partitions]
        requests.append({"items": items, "idempotencyKey": unique("key")})
    with (
        running_broker(database_url=database_url) as one,
        running_broker(database_url=database_url) as other,
    ):
        clients = [
            httpx.AsyncClient(base_url=broker.url, timeout=SOON_S) for broker in (one, other)
        ]
        copies = [(client, body) for body in requests for client in clients]
        chance.shuffle(copies)
        # And the same key for another body, in between.
        wrong = [{**body, "items": body["items"] * 2} for body in requests[:10]]
        answers = await asyncio.gather(*(client.post(_PATH, json=body) for client, body in copies))
        refused = await asyncio.gather(*(clients[0].post(_PATH, json=body) for body in wrong))
        for client in clients:
            await client.aclose()
    assert {answer.status_code for answer in refused} == {422}
    told: dict[str, set[str]] = {}
    for (_, body), answer in zip(copies, answers, strict=True):
        assert answer.status_code == 201, answer.text
        told.setdefault(body["idempotencyKey"], set()).add(answer.text)
    assert {len(texts) for texts in told.values()} == {1}
    session = await asyncpg.connect(database_url)
    rows = await session.fetch(
        "SELECT p.name, m.payload::text::integer AS payload FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id"
    )
    await session.close()
    wanted = [(one["partition"], one["payload"]) for body in requests for one in body["items"]]
    assert sorted((row["name"], row["payload"]) for row in rows) == sorted(wanted)


@pytest.fixture
async def proxy(server: OwnPostgres) -> AsyncIterator[FaultyProxy]:
    """The way of a broker to its database."""
    async with faulty_proxy(server.address) as made:
        yield made


@pytest.fixture
async def http(server: OwnPostgres, proxy: FaultyProxy) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a broker behind the proxy."""
    url = server.url.replace(server.address, proxy.url.removeprefix("http://"))
    # In threads, because the proxy needs the loop.
    arguments = ["--log-level", "error", "--database-url", url]
    broker = await asyncio.to_thread(BrokerProcess, arguments)
    async with httpx.AsyncClient(base_url=broker.url, timeout=SOON_S) as client:
        yield client
    await asyncio.to_thread(broker.close)


async def test_a_push_that_an_outage_left_in_doubt_is_not_kept_when_it_is_sent_again(
    server: OwnPostgres, proxy: FaultyProxy, http: httpx.AsyncClient
) -> None:
    """Its key may be forgotten before the outage is over."""
    queue = unique()
    before, meanwhile = [{"items": [{"queue": queue, "payload": one}]} for one in ("b", "m")]
    items = [{"queue": queue, "payload": f"doubtful {n}"} for n in range(2)]
    body = {"items": items, "idempotencyKey": unique("key")}
    assert (await http.post(_PATH, json=before)).status_code == 201
    proxy.hold_path = b"doubtful"
    first = asyncio.create_task(http.post(_PATH, json=body))
    await wait_until_async(lambda: proxy.held, timeout_s=SOON_S, what="the answer")
    await proxy.refuse()
    proxy.cut_all()
    assert (await first).status_code == 503

    async def is_kept() -> bool:
        return (await http.post(_PATH, json=meanwhile)).status_code == 202

    await wait_until_async(is_kept, timeout_s=SOON_S, what="the outage to be known")
    copy = await http.post(_PATH, json=body)
    assert (copy.status_code, copy.json().get("code")) == (503, "database_unavailable")
    assert "may have been stored" in copy.json()["error"]
    proxy.release()
    await proxy.listen()

    async def is_answered() -> bool:
        return (await http.post(_PATH, json=body)).status_code == 201

    await wait_until_async(is_answered, timeout_s=SOON_S, what="the first answer")
    session = await asyncpg.connect(server.url)
    rows = await session.fetch("SELECT payload #>> '{}' FROM queen.messages ORDER BY seq")
    await session.close()
    assert [row[0] for row in rows if row[0] != "m"] == ["b", "doubtful 0", "doubtful 1"]
