"""One push request sent to two brokers at once is stored once, whichever of them comes first."""

from __future__ import annotations

import asyncio
import random

import asyncpg
import httpx

from tests.support.broker import SOON_S, running_broker, unique

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
