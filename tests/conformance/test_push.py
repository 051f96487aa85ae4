"""POST /api/v1/push: what it answers, where messages go and in which order."""

from __future__ import annotations

import uuid
from datetime import datetime

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique


async def test_push_answers_an_array_with_one_element_per_item_in_order(api: Api) -> None:
    queue = unique()
    items = [{"queue": queue, "payload": n, "transactionId": f"t-{n}"} for n in range(20)]
    answers = await api.push_items(items)
    assert [answer["index"] for answer in answers] == list(range(20))
    assert [answer["transaction_id"] for answer in answers] == [f"t-{n}" for n in range(20)]


async def test_a_queued_item_has_the_documented_fields(api: Api) -> None:
    queue = unique()
    (answer,) = await api.push(queue, 1, transactionId="t-1")
    assert set(answer) == {
        "index", "transaction_id", "status", "message_id", "partition_id", "trace_id", "queueName",
    }  # fmt: skip
    assert answer["status"] == "queued"
    assert answer["queueName"] == queue
    assert answer["trace_id"] is None
    assert str(uuid.UUID(answer["partition_id"])) == answer["partition_id"]


async def test_push_answers_201_with_json(api: Api) -> None:
    response = await api.http.post("/api/v1/push", json={"items": [{"queue": unique()}]})
    assert response.status_code == 201
    assert response.headers["content-type"] == "application/json"


async def test_a_push_without_items_stores_nothing_and_succeeds(api: Api) -> None:
    response = await api.http.post("/api/v1/push", json={"items": []})
    assert response.status_code == 201
    assert response.json() == []


async def test_the_content_type_of_a_push_does_not_matter(api: Api) -> None:
    queue = unique()
    body = b'{"items":[{"queue":"' + queue.encode() + b'","payload":1}]}'
    response = await api.http.post(
        "/api/v1/push", content=body, headers={"content-type": "text/plain"}
    )
    assert response.status_code == 201
    assert await drain(api, queue) == [1]


async def test_unknown_fields_are_ignored(api: Api) -> None:
    queue = unique()
    item = {"queue": queue, "payload": 1, "bufferMs": 5, "producerSub": "me"}
    await api.http.post("/api/v1/push", json={"items": [item], "hint": {}})
    (message,) = await api.pop(queue)
    assert message["data"] == 1
    assert message["producerSub"] is None


async def test_the_partition_defaults_to_default(api: Api) -> None:
    queue = unique()
    await api.push_items(
        [
            {"queue": queue, "payload": "absent"},
            {"queue": queue, "payload": "null", "partition": None},
            {"queue": queue, "payload": "named", "partition": "Default"},
        ]
    )
    messages = await api.pop(queue, partition="Default", batch=10)
    assert [message["data"] for message in messages] == ["absent", "null", "named"]
    assert {message["partition"] for message in messages} == {"Default"}


async def test_an_absent_payload_is_null(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue}])
    assert await drain(api, queue) == [None]


async def test_one_push_may_span_queues_and_partitions_and_keeps_the_order_of_each(
    api: Api,
) -> None:
    queues = [unique(), unique()]
    places = [(queue, f"p{number}") for queue in queues for number in range(3)]
    items = [
        {"queue": queue, "partition": partition, "payload": n}
        for n in range(30)
        for queue, partition in places
    ]
    answers = await api.push_items(items)
    assert [answer["queueName"] for answer in answers] == [item["queue"] for item in items]
    for queue, partition in places:
        assert await drain(api, queue, partition=partition) == list(range(30))


async def test_pushes_one_after_another_keep_their_order(api: Api) -> None:
    queue = unique()
    for n in range(15):
        await api.push(queue, n)
    assert await drain(api, queue, batch=4) == list(range(15))


async def test_message_ids_are_uuid_version_7_and_ascend_within_a_partition(api: Api) -> None:
    queue = unique()
    ids = []
    for _ in range(4):
        ids += [answer["message_id"] for answer in await api.push(queue, *range(5))]
    parsed = [uuid.UUID(text) for text in ids]
    assert {one.version for one in parsed} == {7}
    assert {one.variant for one in parsed} == {uuid.RFC_4122}
    assert [str(one) for one in parsed] == ids
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert [message["id"] for message in await api.pop(queue, batch=20)] == ids


async def test_a_message_id_carries_the_time_of_creation(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    created = datetime.fromisoformat(message["createdAt"])
    epoch = datetime.fromisoformat("1970-01-01T00:00:00Z")
    whole_ms, _ = divmod((created - epoch).total_seconds() * 1_000_000, 1000)
    assert abs((uuid.UUID(message["id"]).int >> 80) - whole_ms) <= 1


async def test_a_trace_id_is_echoed_and_delivered(api: Api) -> None:
    queue, trace = unique(), str(uuid.uuid4())
    answers = await api.push_items(
        [{"queue": queue, "payload": 1, "traceId": trace}, {"queue": queue, "payload": 2}]
    )
    assert [answer["trace_id"] for answer in answers] == [trace, None]
    messages = await api.pop(queue, batch=2)
    assert [message["traceId"] for message in messages] == [trace, None]


async def test_one_bad_item_rejects_the_whole_push(api: Api) -> None:
    queue = unique()
    items = [{"queue": queue, "payload": 1}, {"queue": 7, "payload": 2}]
    response = await api.http.post("/api/v1/push", json={"items": items})
    assert response.status_code == 400
    assert "items[1].queue" in response.json()["error"]
    assert await api.pop(queue) == []


async def test_a_pushed_message_is_visible_to_the_next_pop_that_does_not_wait(api: Api) -> None:
    for _ in range(20):
        queue = unique()
        await api.push(queue, 1)
        assert await api.data(queue) == [1]


async def test_items_beyond_the_max_size_of_a_queue_fail_one_by_one(api: Api) -> None:
    queue = unique()
    await api.configure(queue, maxSize=3)
    answers = await api.push(queue, *range(5))
    assert [answer["status"] for answer in answers] == ["queued"] * 3 + ["failed"] * 2
    assert "maxSize" in answers[4]["error"]
    assert answers[4]["queueName"] == queue
    assert await api.data(queue, batch=10) == [0, 1, 2]


async def test_a_full_queue_takes_messages_again_once_some_were_consumed(api: Api) -> None:
    queue = unique()
    await api.configure(queue, maxSize=2)
    await api.push(queue, 0, 1)
    (refused,) = await api.push(queue, 2)
    assert refused["status"] == "failed"
    await drain(api, queue)
    answers = await api.push(queue, 3, 4)
    assert [answer["status"] for answer in answers] == ["queued", "queued"]


async def test_a_full_queue_does_not_refuse_the_items_of_another(api: Api) -> None:
    full, free = unique(), unique()
    await api.configure(full, maxSize=1)
    items = [{"queue": queue, "payload": n} for n in range(3) for queue in (full, free)]
    answers = await api.push_items(items)
    assert [answer["status"] for answer in answers] == [
        "queued", "queued", "failed", "queued", "failed", "queued",
    ]  # fmt: skip
    assert await drain(api, free) == [0, 1, 2]


async def test_max_size_counts_all_partitions_of_a_queue(api: Api) -> None:
    queue = unique()
    await api.configure(queue, maxSize=3)
    await api.push(queue, 1, 2, partition="a")
    answers = await api.push(queue, 3, 4, partition="b")
    assert [answer["status"] for answer in answers] == ["queued", "failed"]
