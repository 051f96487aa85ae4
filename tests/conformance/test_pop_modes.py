"""Pops keep their promises with every way of making calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.conformance.shorthand import SOON_MS, drain, let_lease_run_out
from tests.conformance.test_metrics import read
from tests.support.broker import Api, BrokerProcess, unique

MODES = {
    "alone": {"QUEEN_ENABLE_POP_BATCHING": "false"},
    "unchecked": {"QUEEN_ENABLE_PENDING_CHECK": "false"},
    "alone and unchecked": {
        "QUEEN_ENABLE_POP_BATCHING": "false",
        "QUEEN_ENABLE_PENDING_CHECK": "false",
    },
    "one slot": {"QUEEN_POP_SLOTS": "1"},
    "small calls": {"QUEEN_POP_CANDIDATES_MAX": "2", "QUEEN_POP_MESSAGES_MAX": "5"},
    "read apart": {"QUEEN_POP_APART_COUNT": "1"},
    "no budget": {
        "QUEEN_SMART_POLL_PREFLIGHT_TIMEOUT_MS": "1",
        "QUEEN_SMART_POLL_MAX_INTENTIONS": "1",
    },
}


@pytest.fixture(params=MODES)
async def mode(
    request: pytest.FixtureRequest, start_broker: Callable[..., BrokerProcess]
) -> AsyncIterator[Api]:
    api = Api(start_broker(**MODES[request.param]).url)
    yield api
    await api.close()


async def test_pops_keep_their_promises(mode: Api) -> None:
    """One long test per mode, because each needs a broker of its own."""
    await check_that_racing_pops_share_the_work(mode)
    await check_that_a_group_sees_all_in_order(mode)
    await check_that_waiting_pops_are_woken(mode)
    await check_that_a_lease_keeps_others_out_until_it_ends(mode)
    await check_that_large_batches_are_whole(mode)
    samples = await read(mode)
    assert samples["queen_smart_poll_double_assignment_errors_total"] == 0


async def check_that_racing_pops_share_the_work(api: Api) -> None:
    queue = unique()
    await api.push_items(
        [{"queue": queue, "partition": f"p{i % 7}", "payload": i} for i in range(70)]
    )
    batches = await asyncio.gather(*(api.data(queue, autoAck=True, batch=5) for _ in range(30)))
    found = [payload for batch in batches for payload in batch]
    found += await drain(api, queue)
    assert sorted(found) == list(range(70))


async def check_that_a_group_sees_all_in_order(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(20))
    seen = []
    for _ in range(10):
        messages = await api.pop(queue, batch=2, consumerGroup="readers")
        await api.ack(*messages, group="readers")
        seen += [message["data"] for message in messages]
    assert seen == list(range(20))
    assert await api.pop(queue, consumerGroup="readers") == []


async def check_that_waiting_pops_are_woken(api: Api) -> None:
    queues = [unique() for _ in range(5)]
    waiting = [asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS)) for queue in queues]
    assert [await api.pop(queue) for queue in queues] == [[]] * 5
    for queue in queues:
        await api.push(queue, queue)
    assert await asyncio.gather(*waiting) == [[queue] for queue in queues]


async def check_that_a_lease_keeps_others_out_until_it_ends(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1, 2)
    assert await api.data(queue, batch=2) == [1, 2]
    assert await api.data(queue, batch=2) == []
    await let_lease_run_out(api)
    assert await api.data(queue, batch=2) == [1, 2]


async def check_that_large_batches_are_whole(api: Api) -> None:
    queue = unique()
    for partition in ("a", "b"):
        await api.push(queue, *range(50), partition=partition)
    messages = await api.pop(queue, batch=80, partitions=2)
    by_partition = {name: [] for name in ("a", "b")}
    for message in messages:
        by_partition[message["partition"]].append(message["data"])
    assert len(messages) == 80
    assert all(data == list(range(len(data))) for data in by_partition.values())
    await api.ack(*messages)
    assert len(await drain(api, queue)) == 20


async def test_without_batching_every_pop_has_a_call_of_its_own(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    api = Api(start_broker(QUEEN_ENABLE_POP_BATCHING="false").url)
    queue = unique()
    await api.push_items([{"queue": queue, "partition": f"p{i}", "payload": i} for i in range(30)])
    await asyncio.gather(*(api.pop(queue) for _ in range(30)))
    samples = await read(api)
    assert samples["queen_pop_batch_size_sum"] == samples["queen_pop_batch_count_total"] >= 30
    await api.close()


async def test_with_batching_racing_pops_share_calls(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    api = Api(start_broker(QUEEN_POP_SLOTS="1").url)
    queue = unique()
    await api.push_items([{"queue": queue, "partition": f"p{i}", "payload": i} for i in range(50)])
    await asyncio.gather(*(api.pop(queue) for _ in range(50)))
    samples = await read(api)
    assert samples["queen_pop_batch_size_sum"] >= 50
    assert samples["queen_pop_batch_count_total"] < samples["queen_pop_batch_size_sum"]
    await api.close()
