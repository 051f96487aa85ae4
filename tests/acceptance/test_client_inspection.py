"""Our client asks about messages, dead letters, traces and status, and puts messages right."""

from __future__ import annotations

from typing import Any

import pytest

from queenmq import BadRequest, Queen, ResourceNotFound, SyncQueen
from queenmq.client.errors import RequestFailed
from tests.support.broker import BrokerProcess, unique


async def _push_named(queen: Queen, queue: str, *names: str) -> str:
    """Messages named by their transaction ids; the id of their partition."""
    items = [{"data": name, "transactionId": name} for name in names]
    results = await queen.push(queue, items, partition="p")
    place: str = results[0]["partition_id"]
    return place


async def test_messages_are_listed_shown_deleted_and_moved(queen: Queen) -> None:
    queue, odd = unique(), "with/slash & ü?"
    place = await _push_named(queen, queue, "gone", odd, "kept")
    admin = queen.admin
    listed = await admin.list_messages(queue=queue, limit=2, **{"from": "2001-01-01"})
    assert [one["transactionId"] for one in listed["messages"]] == ["kept", odd]
    assert (await admin.get_message(place, odd))["payload"] == odd
    assert (await admin.delete_message(place, "gone"))["success"]
    with pytest.raises(ResourceNotFound, match="Message not found"):
        await admin.get_message(place, "gone")
    assert (await admin.move_message_to_dlq(place, odd, "by hand"))["consumerGroups"]
    (letter,) = await queen.dead_letters(queue)
    assert (letter.transaction_id, letter.error_message) == (odd, "by hand")
    assert (await admin.retry_message(place, odd))["newTransactionId"] == odd
    with pytest.raises(RequestFailed, match="not a dead letter"):
        await admin.retry_message(place, odd)
    assert [message.data for message in await queen.pop(queue, batch=9)] == ["kept", odd]


async def test_dead_letters_are_retried_and_purged_in_bulk(queen: Queen) -> None:
    queue = unique()
    place = await _push_named(queen, queue, "a", "b", "c")
    for name in "abc":
        await queen.admin.move_message_to_dlq(place, name)
    assert (await queen.admin.list_dead_letters(queue=queue, limit=1))["total"] == 3
    answer = await queen.admin.retry_dead_letters(queue, limit=1)
    assert (answer["pushed"], answer["remaining"]) == (1, True)
    assert (await queen.admin.purge_dead_letters(queue, older_than_seconds=60))["purged"] == 0
    answer = await queen.admin.purge_dead_letters(queue, group="__QUEUE_MODE__", partition="p")
    assert (answer["purged"], answer["remaining"]) == (2, False)
    assert [message.data for message in await queen.pop(queue, batch=9)] == ["a"]
    with pytest.raises(BadRequest, match="queue"):
        await queen.admin.purge_dead_letters()
    with pytest.raises(BadRequest, match="queue"):
        await queen.admin.retry_dead_letters()


async def test_traces_are_recorded_and_found(queen: Queen) -> None:
    queue, name = unique(), unique("name")
    await queen.push(queue, [{"order": 1}])
    (message,) = await queen.pop(queue)
    recorded = await message.trace({"data": {"step": 1}, "traceName": name, "eventType": "begin"})
    assert recorded["success"]
    place = (message.partition_id, message.transaction_id)
    await queen.admin.add_trace(*place, {"step": 2}, names=[name, "other"], group="g")
    named = (await queen.admin.get_traces_by_name(name))["traces"]
    assert [one["data"]["step"] for one in named] == [2, 1]
    found = (await queen.admin.get_traces_for_message(*place))["traces"]
    assert [one["event_type"] for one in found] == ["begin", "info"]
    assert [one["consumer_group"] for one in found] == ["__QUEUE_MODE__", "g"]
    names = (await queen.admin.get_trace_names(limit=2))["trace_names"]
    assert name in {one["trace_name"] for one in names}
    message["transactionId"] = "unknown"
    failed = await message.trace({"data": 1})
    assert not failed["success"] and "Message not found" in failed["error"]


async def test_status_and_reasons_are_answered(queen: Queen) -> None:
    queue = unique()
    await _push_named(queen, queue, "a", "b")
    admin = queen.admin
    await admin.refresh_consumer_stats()
    assert (await admin.get_overview())["messages"]["total"] >= 2
    assert (await admin.get_status(queue=queue))["messages"]["pending"] == 2
    assert (await admin.get_queue_stats(limit=1))["queues"][0]["name"] == queue
    assert (await admin.get_queue_detail(queue))["totals"]["pending"] == 2
    assert [one["transactionId"] for one in await admin.get_queue_messages(queue)] == ["b", "a"]
    assert (await admin.get_buffers())["pending"] == 0
    points = (await admin.get_analytics(queue=queue))["dataPoints"]
    assert sum(point["messages"] for point in points) == 2
    assert (await admin.why(queue))["findings"][0]["code"] == "ready"
    await queen.pop(queue, group="g")
    found = await admin.why(queue, partition="p", group="g")
    assert found["findings"][0]["code"] == "leased"
    with pytest.raises(ResourceNotFound, match="does not exist"):
        await admin.why(unique())


def test_plain_threads_have_the_same_calls(broker: BrokerProcess) -> None:
    queue = unique()
    with SyncQueen(broker.url) as queen:
        (result,) = queen.push(queue, [{"data": 1, "transactionId": "x"}])
        place: Any = (result["partition_id"], "x")
        assert queen.admin.get_message(*place)["payload"] == 1
        assert queen.admin.why(queue)["backlog"] == 1
        assert queen.admin.add_trace(*place, {"n": 1})["success"]
        assert queen.admin.move_message_to_dlq(*place)["success"]
        assert queen.admin.retry_dead_letters(queue)["pushed"] == 1
        assert queen.admin.purge_dead_letters(queue)["purged"] == 0
        assert queen.admin.delete_message(*place)["success"]
