"""Dead letters in bulk: pushed again and forgotten, so many per call."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance.shorthand import SOON_MS, drain
from tests.support.broker import Api, unique


async def bury(api: Api, queue: str, *payloads: Any, group: str | None = None) -> None:
    query = {"consumerGroup": group} if group else {}
    for payload in payloads:
        await api.push(queue, payload)
        messages = await api.pop(queue, **query)
        await api.ack(*messages, status="dlq", group=group)


async def retry(api: Api, status: int = 200, **body: Any) -> Any:
    response = await api.http.post("/api/v1/dlq/retry", json=body)
    assert response.status_code == status, response.text
    return response.json()


async def purge(api: Api, status: int = 200, **query: Any) -> Any:
    response = await api.http.delete("/api/v1/dlq", params=query)
    assert response.status_code == status, response.text
    return response.json()


async def test_retry_pushes_all_again_and_says_how_many(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1, 2, 3)
    assert await retry(api, queue=queue) == {
        "success": True, "retried": 3, "pushed": 3, "refused": 0, "remaining": False,
    }  # fmt: skip
    assert await drain(api, queue) == [1, 2, 3]
    assert await api.dead_letters(queue) == []
    assert (await retry(api, queue=queue))["retried"] == 0


async def test_retry_takes_the_longest_dead_first_up_to_its_limit(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1, 2, 3)
    first = await retry(api, queue=queue, limit=2)
    assert (first["retried"], first["remaining"]) == (2, True)
    assert await drain(api, queue) == [1, 2]
    last = await retry(api, queue=queue, limit=2)
    assert (last["retried"], last["remaining"]) == (1, False)


async def test_letters_of_one_message_are_pushed_as_one(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    for group in "ab":
        await api.ack(*await api.pop(queue, consumerGroup=group), status="dlq", group=group)
    answer = await retry(api, queue=queue)
    assert (answer["retried"], answer["pushed"]) == (2, 1)


async def test_retry_and_purge_keep_to_their_filters(api: Api) -> None:
    queue, other = unique(), unique()
    await bury(api, queue, "g", group="g")
    await bury(api, queue, "h", group="h")
    await bury(api, other, "other", group="g")
    assert (await retry(api, queue=queue, consumerGroup="g"))["pushed"] == 1
    assert (await purge(api, queue=queue, consumerGroup="nobody"))["purged"] == 0
    assert (await purge(api, queue=queue, partition="nowhere"))["purged"] == 0
    assert (await purge(api, queue=queue, olderThanSeconds=3600))["purged"] == 0
    assert (await retry(api, queue=queue, partition="nowhere", olderThanSeconds=0))["pushed"] == 0
    assert len(await api.dead_letters(queue)) == 1
    assert (await purge(api, queue=queue, consumerGroup="h", olderThanSeconds=0))["purged"] == 1
    assert await api.dead_letters(queue) == []
    assert len(await api.dead_letters(other)) == 1


async def test_purge_says_how_many_and_whether_others_are_left(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1, 2, 3)
    assert await purge(api, queue=queue, limit=2) == {
        "success": True, "purged": 2, "remaining": True,
    }  # fmt: skip
    assert [one["data"] for one in await api.dead_letters(queue)] == [3]
    assert await purge(api, queue=queue) == {"success": True, "purged": 1, "remaining": False}
    assert await drain(api, queue) == [], "what was forgotten does not come again"


async def test_full_queue_refuses_some_and_their_letters_stay(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1, 2)
    await api.configure(queue, maxSize=1)
    answer = await retry(api, queue=queue)
    assert (answer["pushed"], answer["refused"], answer["remaining"]) == (1, 1, True)
    assert len(await api.dead_letters(queue)) == 1


async def test_waiting_consumer_is_woken_by_a_retry(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1)
    parked = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    await retry(api, queue=queue)
    assert await parked == [1]


async def test_retry_and_purge_of_everything_must_be_said(api: Api) -> None:
    for answer in (await retry(api, 400), await purge(api, 400)):
        assert "queue" in answer["error"]
    response = await api.http.post("/api/v1/dlq/retry")
    assert response.status_code == 400
