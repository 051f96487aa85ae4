"""Groups that are moved or deleted at one broker, seen from another and from parked pops.

The brokers here never look by themselves, so a wake-up that is lost leaves a pop without answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.acceptance.load import Answer, Wire, pop_path
from tests.acceptance.sql_side import listen_for_wakes
from tests.isolation.sessions import Connect
from tests.support.broker import BrokerProcess, unique

Brokers = list[BrokerProcess]

_WAIT_MS = 10_000
_GROUPS = "/api/v1/consumer-groups"
_LONG_AGO = {"timestamp": "2001-01-01T00:00:00Z"}
PLACES = pytest.mark.parametrize("partition", ["p", None], ids=["by name", "of the queue"])


async def _seek(wire: Wire, group: str, queue: str) -> None:
    answer = await wire.call("POST", f"{_GROUPS}/{group}/queues/{queue}/seek", _LONG_AGO)
    assert answer.status == 200, answer


async def _delete(wire: Wire, group: str, queue: str) -> None:
    answer = await wire.call("DELETE", f"{_GROUPS}/{group}/queues/{queue}")
    assert answer.status == 200, answer


async def _delete_everywhere(wire: Wire, group: str, queue: str) -> None:
    assert (await wire.call("DELETE", f"{_GROUPS}/{group}")).status == 200


Change = Callable[[Wire, str, str], Awaitable[None]]
CHANGES = pytest.mark.parametrize(
    "change", [_seek, _delete, _delete_everywhere], ids=["seek", "delete", "delete everywhere"]
)


async def _consume(wire: Wire, queue: str, group: str) -> None:
    """Push one message and have the group pass it, so that the broker believes there is nothing."""
    assert (await wire.push(queue, 1, partition="p")).status == 201
    assert [one["data"] for one in await wire.pop(queue, consumerGroup=group, autoAck=True)] == [1]
    assert await wire.pop(queue, consumerGroup=group) == []


def _data(answer: Answer) -> list[Any]:
    assert answer.status == 200, "the wake-up was lost"
    return [message["data"] for message in answer.body["messages"]]


@CHANGES
@PLACES
@pytest.mark.parametrize("at", [0, 1], ids=["same broker", "other broker"])
async def test_parked_pop_gets_the_messages_again(
    patient_brokers: Brokers, change: Change, partition: str | None, at: int
) -> None:
    queue, group = unique(), unique("group")
    url, elsewhere = patient_brokers[0].url, patient_brokers[at].url
    async with Wire(url) as poll, Wire(url) as wire, Wire(elsewhere) as operator:
        await _consume(wire, queue, group)
        query = {"consumerGroup": group, "wait": True, "timeout": _WAIT_MS}
        poll.send("GET", pop_path(queue, partition=partition, **query))
        await wire.settle()
        # Answered once everything has been looked at; from now on the first one is parked.
        assert await wire.pop(queue, partition=partition, consumerGroup=group) == []
        await change(operator, group, queue)
        assert _data(await poll.receive()) == [1]


@CHANGES
async def test_parked_pop_of_a_namespace_gets_the_messages_again(
    patient_brokers: Brokers, change: Change
) -> None:
    namespace, group = unique("namespace"), unique("group")
    queue = f"{namespace}.q"
    url, elsewhere = (one.url for one in patient_brokers)
    path = f"/api/v1/pop?namespace={namespace}&consumerGroup={group}"
    async with Wire(url) as poll, Wire(url) as wire, Wire(elsewhere) as operator:
        await _consume(wire, queue, group)
        poll.send("GET", f"{path}&wait=true&timeout={_WAIT_MS}")
        await wire.settle()
        assert (await wire.call("GET", path)).status == 204
        await change(operator, group, queue)
        assert _data(await poll.receive()) == [1]


@CHANGES
@PLACES
@pytest.mark.parametrize("at", [0, 1], ids=["same broker", "other broker"])
async def test_pop_that_does_not_wait_sees_an_answered_change(
    patient_brokers: Brokers, change: Change, partition: str | None, at: int
) -> None:
    queue, group = unique(), unique("group")
    url, elsewhere = patient_brokers[0].url, patient_brokers[at].url
    async with Wire(url) as wire, Wire(elsewhere) as operator:
        await _consume(wire, queue, group)
        for turn in range(5):
            await change(operator, group, queue)
            (message,) = await wire.pop(queue, partition=partition, consumerGroup=group)
            assert message["data"] == 1
            # The other times a lease is left behind.
            if turn % 2 == 0:
                assert (await wire.ack([message], group=group))[0]["success"]
                assert await wire.pop(queue, consumerGroup=group) == []


@pytest.mark.parametrize("change", [_delete, _delete_everywhere], ids=["delete", "everywhere"])
async def test_broker_that_remembers_a_start_has_it_fixed_again_after_a_delete_elsewhere(
    patient_brokers: Brokers, connect_shared: Connect, change: Change
) -> None:
    queue, group = unique(), unique("group")
    url, elsewhere = (one.url for one in patient_brokers)
    new = {"consumerGroup": group, "subscriptionMode": "new"}
    async with Wire(url) as poll, Wire(url) as wire, Wire(elsewhere) as operator:
        heard = await listen_for_wakes(connect_shared, group)
        assert (await wire.push(queue, "old")).status == 201
        assert await wire.pop(queue, **new) == []
        poll.send("GET", pop_path(queue, wait=True, timeout=_WAIT_MS, **new))
        await wire.settle()
        assert await wire.pop(queue, **new) == []
        await change(operator, group, queue)
        # The parked one has to come again, and neither of the two gets what is old.
        assert (await poll.receive()).status == 204
        await heard()
        # What we have heard, the broker has heard before it answers this.
        await wire.settle()
        assert await wire.pop(queue, **new) == []
        assert (await wire.push(queue, "new")).status == 201
        (message,) = await wire.pop(queue, **new)
        assert message["data"] == "new"
