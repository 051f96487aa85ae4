"""Acks, renewals, transactions and dead letters through the official client."""

from __future__ import annotations

from typing import Any

import pytest
from queen import Queen

from tests.support.broker import BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy


async def pop_now(client: Queen, queue: str, **options: Any) -> list[dict[str, Any]]:
    builder = client.queue(queue).batch(options.get("batch", 1)).wait(False)
    if "group" in options:
        builder = builder.group(options["group"])
    messages: list[dict[str, Any]] = await builder.pop()
    return messages


async def dead_letters(client: Queen, queue: str) -> list[dict[str, Any]]:
    answer = await client.queue(queue).dlq().get()
    messages: list[dict[str, Any]] = answer["messages"]
    assert answer["total"] == len(messages)
    return messages


async def test_one_message_is_acked(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).push([{"data": 1}, {"data": 2}])
    (message,) = await pop_now(client, queue)
    result = await client.ack(message)
    assert result["success"] is True
    assert [one["data"] for one in await pop_now(client, queue)] == [2]


async def test_a_batch_is_acked(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).push([{"data": n} for n in range(10)])
    messages = await pop_now(client, queue, batch=10)
    assert (await client.ack(messages))["success"] is True
    assert await pop_now(client, queue) == []


async def test_messages_of_a_batch_have_statuses_of_their_own(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).config({"retry_limit": 0}).create()
    await client.queue(queue).push([{"data": n} for n in range(3)])
    messages = await pop_now(client, queue, batch=3)
    messages[0]["_status"] = True
    messages[1] |= {"_status": False, "_error": "broken"}
    messages[2]["_status"] = "completed"
    assert (await client.ack(messages))["success"] is True
    assert await pop_now(client, queue) == []
    (letter,) = await dead_letters(client, queue)
    assert (letter["data"], letter["errorMessage"]) == (1, "broken")


async def test_a_failed_message_comes_again_and_then_dies_with_its_error(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).config({"retry_limit": 2}).create()
    await client.queue(queue).push({"data": "bad"})
    for attempt in range(3):
        (message,) = await pop_now(client, queue)
        result = await client.ack(message, False, {"error": f"error {attempt}"})
        assert result["success"] is True
    assert await pop_now(client, queue) == []
    (letter,) = await dead_letters(client, queue)
    assert (letter["data"], letter["errorMessage"]) == ("bad", "error 2")


async def test_dead_letters_are_paged_and_filtered(client: Queen) -> None:
    queue = unique()
    for n in range(5):
        await client.queue(queue).partition(f"p{n}").push({"data": n})
        (message,) = await pop_now(client, queue, group="g")
        await client.ack(message, "dlq", {"group": "g", "error": "no"})
    page = await client.queue(queue).dlq("g").limit(2).offset(1).get()
    assert [letter["data"] for letter in page["messages"]] == [3, 2]
    assert page["total"] == 5
    one = await client.queue(queue).partition("p4").dlq("g").get()
    assert [letter["data"] for letter in one["messages"]] == [4]
    assert (await client.queue(queue).dlq("other").get())["total"] == 0
    later = client.queue(queue).dlq().from_("2001-01-01T00:00:00Z").to("2999-01-01T00:00:00Z")
    assert (await later.get())["total"] == 5


async def test_an_ack_of_an_unknown_message_is_reported(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).push({"data": 1})
    (message,) = await pop_now(client, queue)
    unknown = await client.ack({**message, "transactionId": "nobody"})
    assert unknown == {"success": False, "error": "Message not found"}
    stale = await client.ack({**message, "leaseId": "00000000-0000-4000-8000-000000000000"})
    assert stale == {"success": False, "error": "Invalid or expired lease"}
    refused = await client.ack({**message, "partitionId": "nonsense"})
    assert refused["success"] is False and "partitionId" in refused["error"]


async def test_groups_are_acked_apart(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).push({"data": 1})
    (mine,) = await pop_now(client, queue, group="a")
    assert (await client.ack(mine, True, {"group": "a"}))["success"] is True
    assert await pop_now(client, queue, group="a") == []
    assert len(await pop_now(client, queue, group="b")) == 1


async def test_a_lease_is_renewed_by_id_message_and_list(client: Queen) -> None:
    queue = unique()
    for n in range(3):
        await client.queue(queue).partition(f"p{n}").push({"data": n})
    messages = await client.queue(queue).batch(3).partitions(3).wait(False).pop()
    assert len(messages) == 3
    for target in (messages[0], messages[0]["leaseId"]):
        result = await client.renew(target)
        assert result["success"] is True and result["newExpiresAt"]
    results = await client.renew(messages)
    assert [result["success"] for result in results] == [True]
    lost = await client.renew("00000000-0000-4000-8000-000000000000")
    assert lost["success"] is False and "Lease" in lost["error"]


async def test_a_transaction_acks_and_pushes_together(client: Queen) -> None:
    source, target = unique(), unique()
    await client.queue(source).push({"data": 1})
    (message,) = await pop_now(client, source)
    result = await (
        client.transaction()
        .ack(message)
        .queue(target)
        .push({"data": 2})
        .queue(target)
        .partition("p")
        .push([{"data": 3}, {"data": None}])
        .commit()
    )
    assert result["success"] is True
    assert [one["type"] for one in result["results"]] == ["ack", "push", "push", "push"]
    assert await pop_now(client, source) == []
    messages = await client.queue(target).batch(9).partitions(2).wait(False).pop()
    assert {str(one["data"]) for one in messages} == {"2", "3", "None"}


async def test_a_transaction_is_rolled_back_as_a_whole(client: Queen) -> None:
    source, target = unique(), unique()
    await client.queue(source).push({"data": 1})
    (message,) = await pop_now(client, source)
    missing = {**message, "transactionId": "nobody"}
    transaction = client.transaction().ack(message).ack(missing).queue(target).push({"data": 2})
    with pytest.raises(Exception, match="Message not found"):
        await transaction.commit()
    assert await pop_now(client, target) == []
    assert (await client.ack(message))["success"] is True


async def test_a_transaction_under_a_lost_lease_is_refused(client: Queen) -> None:
    source, target = unique(), unique()
    await client.queue(source).config({"lease_time": 1}).create()
    await client.queue(source).push({"data": 1})
    (message,) = await pop_now(client, source)
    await client.queue(source).wait(True).pop()
    with pytest.raises(Exception, match="Lease"):
        await client.transaction().ack(message).queue(target).push({"data": 2}).commit()
    assert await pop_now(client, target) == []


async def test_a_transaction_acks_a_batch_of_several_partitions_for_a_group(client: Queen) -> None:
    queue = unique()
    for name in ("a", "b"):
        await client.queue(queue).partition(name).push([{"data": name}, {"data": 2}])
    builder = client.queue(queue).group("g").batch(9).partitions(2).wait(False)
    messages = await builder.pop()
    assert len(messages) == 4
    context = {"consumer_group": "g"}
    assert (await client.transaction().ack(messages, "completed", context).commit())["success"]
    assert await pop_now(client, queue, group="g") == []
    assert len(await pop_now(client, queue, batch=9)) == 2


async def test_an_empty_transaction_is_refused_by_the_client(client: Queen) -> None:
    with pytest.raises(Exception, match="no operations"):
        await client.transaction().commit()


async def test_a_transaction_whose_answer_was_lost_is_done_once(
    client: Queen, broker: BrokerProcess
) -> None:
    source, target = unique(), unique()
    await client.queue(source).push([{"data": 1}])
    (message,) = await pop_now(client, source)
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url) as cut_off:
        proxy.lose_answers = 1
        transaction = cut_off.transaction().queue(target).push([{"data": "out"}]).ack(message)
        assert (await transaction.commit())["success"] is True
    assert [one["data"] for one in await pop_now(client, target, batch=10)] == ["out"]
    assert await pop_now(client, source) == []
