"""GET /api/v1/dlq: content, order, filters and pages."""

from __future__ import annotations

import re
from typing import Any

from tests.support.broker import Api, unique


async def list_of(api: Api, **query: Any) -> dict[str, Any]:
    response = await api.http.get("/api/v1/dlq", params=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def bury(
    api: Api, queue: str, *payloads: Any, partition: str = "Default", group: str | None = None
) -> None:
    """Make each payload a dead letter, one after another."""
    query = {"consumerGroup": group} if group else {}
    for payload in payloads:
        await api.push(queue, payload, partition=partition)
        messages = await api.pop(queue, partition=partition, **query)
        assert [message["data"] for message in messages] == [payload]
        await api.ack(*messages, status="dlq", error=f"error of {payload}", group=group)


async def test_a_dead_letter_has_the_documented_fields(api: Api) -> None:
    queue = unique()
    await api.push(queue, {"a": 1}, partition="p", transactionId="t")
    (message,) = await api.pop(queue, consumerGroup="g")
    await api.ack(message, status="dlq", error="no good", group="g")
    answer = await list_of(api, queue=queue)
    assert answer["total"] == 1
    assert answer["pagination"] == {"limit": 100, "offset": 0}
    (letter,) = answer["messages"]
    assert set(letter) == {
        "id", "transactionId", "partitionId", "queue", "partition", "consumerGroup",
        "errorMessage", "retryCount", "data", "producerSub", "createdAt", "failedAt",
        "isEncrypted", "decryptionError",
    }  # fmt: skip
    assert (letter["id"], letter["partitionId"]) == (message["id"], message["partitionId"])
    assert (letter["transactionId"], letter["queue"], letter["partition"]) == ("t", queue, "p")
    assert (letter["consumerGroup"], letter["errorMessage"]) == ("g", "no good")
    assert (letter["retryCount"], letter["data"], letter["producerSub"]) == (0, {"a": 1}, None)
    for name in ("createdAt", "failedAt"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", letter[name])
    assert letter["createdAt"] <= letter["failedAt"]


async def test_a_message_without_an_id_of_its_own_is_listed_under_its_message_id(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1)
    (letter,) = await api.dead_letters(queue)
    assert letter["transactionId"] == letter["id"]


async def test_a_queue_without_dead_letters_has_an_empty_list(api: Api) -> None:
    for queue in (unique(), unique()):
        answer = await list_of(api, queue=queue)
        assert answer["messages"] == []
        assert answer["total"] == 0
        await api.configure(queue)


async def test_the_latest_failure_comes_first(api: Api) -> None:
    queue = unique()
    await bury(api, queue, *range(5))
    assert [letter["data"] for letter in await api.dead_letters(queue)] == [4, 3, 2, 1, 0]


async def test_pages_cover_all_dead_letters_once_and_total_counts_them(api: Api) -> None:
    queue = unique()
    await bury(api, queue, *range(7))
    found = []
    for offset in (0, 3, 6, 9):
        answer = await list_of(api, queue=queue, limit=3, offset=offset)
        assert answer["total"] == 7
        assert answer["pagination"] == {"limit": 3, "offset": offset}
        found += [letter["data"] for letter in answer["messages"]]
    assert found == [6, 5, 4, 3, 2, 1, 0]


async def test_pages_do_not_overlap_when_a_whole_batch_failed_at_once(api: Api) -> None:
    queue = unique()
    for partition in "abc":
        await api.push(queue, *(f"{partition}{n}" for n in range(4)), partition=partition)
    messages = await api.pop(queue, batch=12, partitions=3)
    await api.ack(*messages, status="dlq")
    found = []
    for offset in range(0, 12, 5):
        answer = await list_of(api, queue=queue, limit=5, offset=offset)
        found += [letter["data"] for letter in answer["messages"]]
    assert sorted(found) == sorted(message["data"] for message in messages)


async def test_a_limit_of_zero_only_counts(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1, 2)
    answer = await list_of(api, queue=queue, limit=0)
    assert (answer["messages"], answer["total"]) == ([], 2)


async def test_dead_letters_are_filtered_by_group_and_partition(api: Api) -> None:
    queue = unique()
    await bury(api, queue, "a-g", partition="a", group="g")
    await bury(api, queue, "b-g", partition="b", group="g")
    await bury(api, queue, "b-default", partition="c")

    async def data_of(**query: str) -> tuple[list[str], int]:
        answer = await list_of(api, queue=queue, **query)
        return [letter["data"] for letter in answer["messages"]], answer["total"]

    assert await data_of(consumerGroup="g") == (["b-g", "a-g"], 2)
    assert await data_of(consumerGroup="__QUEUE_MODE__") == (["b-default"], 1)
    assert await data_of(partition="a") == (["a-g"], 1)
    assert await data_of(partition="b", consumerGroup="g") == (["b-g"], 1)
    assert await data_of(partition="nowhere") == ([], 0)


async def test_dead_letters_are_filtered_by_the_time_of_failure(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1)
    for query, count in (
        ({"from": "2001-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}, 1),
        ({"from": "2999-01-01T00:00:00Z"}, 0),
        ({"to": "2001-01-01"}, 0),
    ):
        answer = await list_of(api, queue=queue, **query)
        assert (len(answer["messages"]), answer["total"]) == (count, count)


async def test_dead_letters_of_all_queues_are_listed_without_a_queue(api: Api) -> None:
    queue = unique()
    await bury(api, queue, "mine")
    answer = await list_of(api, limit=1)
    assert answer["total"] >= 1
    assert answer["messages"][0]["queue"] == queue


async def test_a_message_may_be_dead_for_several_groups(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    for group in ("a", "b"):
        await api.ack(*await api.pop(queue, consumerGroup=group), status="dlq", group=group)
    letters = await api.dead_letters(queue)
    assert sorted(letter["consumerGroup"] for letter in letters) == ["a", "b"]


async def test_dead_letters_go_with_their_queue(api: Api) -> None:
    queue = unique()
    await bury(api, queue, 1)
    await api.http.delete(f"/api/v1/resources/queues/{queue}")
    assert await api.dead_letters(queue) == []
