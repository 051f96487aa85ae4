"""A transaction id is stored once per partition; a repeat is told the id of the stored message."""

from __future__ import annotations

import asyncio

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique


async def test_a_repeated_id_is_a_duplicate_of_the_stored_message(api: Api) -> None:
    queue = unique()
    (first,) = await api.push(queue, "first", transactionId="same")
    (second,) = await api.push(queue, "second", transactionId="same")
    assert first["status"] == "queued"
    assert second["status"] == "duplicate"
    assert second["message_id"] == first["message_id"]
    assert second["transaction_id"] == "same"
    assert {"index", "queueName"} <= set(second)
    assert await drain(api, queue) == ["first"]


async def test_a_repeated_id_within_one_push_is_a_duplicate_of_the_first(api: Api) -> None:
    queue = unique()
    answers = await api.push_items(
        [
            {"queue": queue, "payload": n, "transactionId": name}
            for n, name in enumerate(["a", "b", "a", "c", "a", "b"])
        ]
    )
    statuses = [answer["status"] for answer in answers]
    assert statuses == ["queued", "queued", "duplicate", "queued", "duplicate", "duplicate"]
    ids = [answer["message_id"] for answer in answers]
    assert ids[2] == ids[4] == ids[0]
    assert ids[5] == ids[1]
    assert await drain(api, queue) == [0, 1, 3]


async def test_new_items_beside_duplicates_are_stored_in_order(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "payload": n, "transactionId": str(n)} for n in (1, 3)])
    answers = await api.push_items(
        [{"queue": queue, "payload": n, "transactionId": str(n)} for n in range(5)]
    )
    assert [answer["status"][0] for answer in answers] == ["q", "d", "q", "d", "q"]
    assert await drain(api, queue) == [1, 3, 0, 2, 4]


async def test_the_same_id_in_another_partition_or_queue_is_new(api: Api) -> None:
    queue, other = unique(), unique()
    answers = await api.push_items(
        [
            {"queue": queue, "partition": "a", "payload": 1, "transactionId": "same"},
            {"queue": queue, "partition": "b", "payload": 2, "transactionId": "same"},
            {"queue": other, "partition": "a", "payload": 3, "transactionId": "same"},
        ]
    )
    assert [answer["status"] for answer in answers] == ["queued"] * 3
    assert len({answer["message_id"] for answer in answers}) == 3


async def test_an_item_without_an_id_gets_the_message_id(api: Api) -> None:
    queue = unique()
    (answer,) = await api.push(queue, 1)
    assert answer["transaction_id"] == answer["message_id"]
    (message,) = await api.pop(queue)
    assert message["transactionId"] == message["id"] == answer["message_id"]


async def test_pushing_a_message_id_again_is_a_duplicate(api: Api) -> None:
    queue = unique()
    answers = await api.push(queue, 1, 2, 3)
    for answer in answers:
        (again,) = await api.push(queue, "again", transactionId=answer["message_id"])
        assert again["status"] == "duplicate"
        assert again["message_id"] == answer["message_id"]
    assert await drain(api, queue) == [1, 2, 3]


async def test_the_message_id_of_an_item_that_had_its_own_id_is_free(api: Api) -> None:
    queue = unique()
    (first,) = await api.push(queue, 1, transactionId="mine")
    (second,) = await api.push(queue, 2, transactionId=first["message_id"])
    assert second["status"] == "queued"
    assert await drain(api, queue) == [1, 2]


async def test_a_consumed_message_still_makes_its_repeat_a_duplicate(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, transactionId="same")
    assert await drain(api, queue) == [1]
    (again,) = await api.push(queue, 2, transactionId="same")
    assert again["status"] == "duplicate"
    assert await drain(api, queue) == []


async def test_a_duplicate_does_not_lose_the_items_without_an_id_beside_it(api: Api) -> None:
    queue = unique()
    await api.push(queue, "old", transactionId="same")
    answers = await api.push_items(
        [
            {"queue": queue, "payload": "a"},
            {"queue": queue, "payload": "b", "transactionId": "same"},
            {"queue": queue, "payload": "c"},
        ]
    )
    assert [answer["status"] for answer in answers] == ["queued", "duplicate", "queued"]
    assert await drain(api, queue) == ["old", "a", "c"]


async def test_of_concurrent_pushes_with_one_id_exactly_one_wins(api: Api) -> None:
    queue = unique()
    pushes = [api.push(queue, n, transactionId="same") for n in range(30)]
    answers = [answer for (answer,) in await asyncio.gather(*pushes)]
    assert sorted(answer["status"] for answer in answers) == ["duplicate"] * 29 + ["queued"]
    assert len({answer["message_id"] for answer in answers}) == 1
    assert len(await drain(api, queue)) == 1


async def test_ids_differ_by_case_accents_and_blanks(api: Api) -> None:
    queue = unique()
    names = ["a", "A", "a ", " a", "á", "a\u0301", "'", '"', "\\", "😀"]
    answers = await api.push_items(
        [{"queue": queue, "payload": name, "transactionId": name} for name in names]
    )
    assert {answer["status"] for answer in answers} == {"queued"}
    messages = await api.pop(queue, batch=100)
    assert [message["transactionId"] for message in messages] == names
