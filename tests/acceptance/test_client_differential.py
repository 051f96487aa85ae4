"""The same calls through the official client and through ours give the same results."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from queen import Queen as OfficialQueen

from queenmq import Queen
from tests.support.broker import SOON_S, BrokerProcess, unique

Story = Callable[[Any, str], Awaitable[Any]]

LONG_AGO = "2001-01-01T00:00:00Z"

#: Fields whose values are made anew each time.
MADE = {"id", "message_id", "messageId", "partition_id", "partitionId", "queueId", "leaseId",
        "createdAt", "failedAt", "newExpiresAt"}  # fmt: skip


@pytest.fixture
async def official(broker: BrokerProcess) -> AsyncIterator[OfficialQueen]:
    # It takes over the process's signals, and at its close resets them to the system's defaults.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        async with OfficialQueen(broker.url) as client:
            yield client
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def comparable(value: Any, queue: str) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, list):
        return [comparable(one, queue) for one in value]
    if hasattr(value, "keys"):
        return {
            key: "made" if key in MADE and value[key] else comparable(value[key], queue)
            for key in value
            if key not in {"trace", "_queen"}
        }
    return value.replace(queue, "the queue") if isinstance(value, str) else value


def items(*numbers: int) -> list[dict[str, Any]]:
    return [{"data": {"n": n}, "transactionId": f"t{n}"} for n in numbers]


async def create(client: Any, queue: str) -> Any:
    config = {"lease_time": 7, "retry_limit": 1, "retry_delay": 5, "window_buffer": 0}
    return await client.queue(queue).namespace("n").task("t").config(config).create()


async def create_without_options(client: Any, queue: str) -> Any:
    created = await client.queue(queue).create()
    # The one default that differs.
    options = dict(created["options"])
    assert options.pop("retryDelay") == (1000 if isinstance(client, Queen) else 0)
    return {**created, "options": options}


async def delete(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(1))
    return [await client.queue(queue).delete() for _ in range(2)]


async def push(client: Any, queue: str) -> Any:
    trace = {"traceId": "0af76519-16cd-43dd-8448-eb211c80319c"}
    builder = client.queue(queue).partition("p")
    return [await builder.push([*items(1, 2), {"data": None, "transactionId": "x", **trace}]),
            await builder.push(items(2, 3))]  # fmt: skip


async def push_of_any_payload(client: Any, queue: str) -> Any:
    payloads = [None, 1.5, "text", {}, [], {"a": {"b": [1, "ü"]}}]
    for kind in ("data", "payload"):
        await client.queue(queue).push([{kind: payload} for payload in payloads])
    await client.queue(queue).push({"plain": 1})
    return [message["data"] for message in await client.queue(queue).batch(50).pop()]


async def pop(client: Any, queue: str) -> Any:
    place = client.queue(queue).partition("p").group("g").wait(False)
    await client.queue(queue).push(items(1, 2, 3))
    of_any = [
        await client.queue(queue).wait(False).pop(),
        await client.queue(queue).batch(10).group("g").wait(False).pop(),
    ]
    await client.queue(queue).partition("p").push(items(4))
    several = await client.queue(queue).batch(10).partitions(5).group("h").wait(False).pop()
    return [
        of_any,
        sorted(several, key=lambda message: message["transactionId"]),
        await place.pop(),
        await place.pop(),
        await client.queue(f"{queue}-none").wait(False).pop(),
        await client.queue(f"{queue}-none").wait(True).timeout_millis(50).pop(),
    ]


async def start_now(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(1))
    new = client.queue(queue).group("g").subscription_mode("new").batch(9).wait(False)
    first = await new.pop()
    await client.queue(queue).push(items(2))
    return [first, await new.pop()]


async def ack(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(*range(6)))
    messages = await client.queue(queue).batch(5).group("g").wait(False).pop()
    context = {"group": "g"}
    return [
        await client.ack(messages[0], True, context),
        await client.ack(messages[1:3], True, context),
        (await client.ack(messages[0], False, context))["success"],
        await client.renew(messages[3]),
        await client.renew(messages),
        await client.ack(messages[3], False, {**context, "error": "broken"}),
        [m["data"] for m in await client.queue(queue).batch(9).group("g").wait(False).pop()],
    ]


async def dead_letters(client: Any, queue: str) -> Any:
    await client.queue(queue).config({"retry_limit": 0}).create()
    await client.queue(queue).push(items(1, 2))
    messages = await client.queue(queue).batch(2).wait(False).pop()
    messages[0]["_status"], messages[0]["_error"] = False, "one"
    messages[1]["_status"], messages[1]["_error"] = "dlq", "two"
    acked = await client.ack(messages)
    found = await client.queue(queue).dlq().limit(10).get()
    letters = [(one["data"], one["errorMessage"], one["retryCount"]) for one in found["messages"]]
    return [acked, sorted(letters, key=str), found["total"]]


async def transaction(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(1, 2))
    messages = await client.queue(queue).batch(2).wait(False).pop()
    target = f"{queue}-target"
    done = await client.transaction().ack(messages[0]).queue(target).push({"data": 1}).commit()
    results = [{**one, "queueName": "", "transactionId": ""} for one in done["results"]]
    stale = {**dict(messages[1]), "transactionId": "none"}
    try:
        await client.transaction().queue(target).push({"data": 2}).ack(stale).commit()
        refused = ""
    except Exception as error:
        refused = "Message not found" if "Message not found" in str(error) else str(error)
    left = [m["data"] for m in await client.queue(target).batch(9).wait(False).pop()]
    return [done["success"], results, refused, left]


async def retries(client: Any, queue: str) -> Any:
    """Failures until the message is a dead letter; `retry` counts as none."""
    await client.queue(queue).config({"retry_limit": 2, "retry_delay": 0}).create()
    await client.queue(queue).push(items(1, 2))
    told = []
    for status in (False, "retry", False, "retry", False, True):
        (message,) = await client.queue(queue).group("g").wait(False).pop()
        done = await client.ack(message, status, {"group": "g", "error": f"said {status}"})
        told.append((message["data"], message["retryCount"], comparable(done, queue)))
    letters = await client.queue(queue).dlq("g").get()
    return [told, [(one["data"], one["errorMessage"]) for one in letters["messages"]]]


async def failure_in_a_batch(client: Any, queue: str) -> Any:
    """What is behind a failed message comes again with it, also if it was acked."""
    await client.queue(queue).push(items(1, 2, 3))
    messages = await client.queue(queue).batch(3).wait(False).pop()
    messages[1]["_status"], messages[1]["_error"] = False, "no"
    acked = await client.ack(messages)
    again = await client.queue(queue).batch(3).wait(False).pop()
    return [acked["results"], [(m["data"], m["retryCount"]) for m in again]]


async def groups(client: Any, queue: str) -> Any:
    group = f"{queue}-group"
    place = client.queue(queue).group(group).batch(9).wait(False)

    async def take() -> list[Any]:
        messages = await place.pop()
        if messages:
            await client.ack(messages, True, {"group": group})
        return [message["data"] for message in messages]

    await client.queue(queue).push(items(1, 2))
    told: list[Any] = [await take(), await take()]
    told.append(await client.admin.seek_consumer_group(group, queue, {"timestamp": LONG_AGO}))
    told.append(await take())
    told.append(await client.admin.seek_consumer_group(group, queue, {"timestamp": LONG_AGO}))
    told.append(await client.admin.seek_consumer_group(group, queue, {"toEnd": True}))
    told.append(await take())
    listed = await client.admin.list_consumer_groups()
    told += [(one["members"], one["totalLag"]) for one in listed if one["name"] == group]
    told.append(await client.delete_consumer_group(group))
    told.append(await take())
    told.append(await client.admin.delete_consumer_group_for_queue(group, queue))
    told.append(await client.update_consumer_group_timestamp(group, LONG_AGO))
    return told


async def start_of_a_group(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(1))
    told = []
    for number, start in enumerate([LONG_AGO, "now", "2999-01-01T00:00:00Z"]):
        place = client.queue(queue).group(f"g{number}").subscription_from(start).wait(False)
        told.append([message["data"] for message in await place.pop()])
    return told


async def configuration(client: Any, queue: str) -> Any:
    """What `create` leaves out falls back to defaults, also at a second time."""
    told = []
    for options in ({"lease_time": 5, "max_size": 2, "delayed_processing": 0}, {"priority": 3}):
        await client.queue(queue).config(options).create()
        found = await client.admin.get_queue(queue)
        told.append({k: found.get(k) for k in ("name", "leaseTime", "priority", "maxSize")})
    await client.queue(queue).config({"max_size": 1}).create()
    try:
        await client.queue(queue).push(items(1, 2))
        refused = False
    except Exception:
        refused = True
    return [told, refused, await client.queue(queue).batch(9).wait(False).pop()]


async def callbacks(client: Any, queue: str) -> Any:
    told: list[Any] = []

    async def stored(some: Any) -> None:
        told.append(("stored", [one["transactionId"] for one in some]))

    async def doubled(some: Any, error: Exception) -> None:
        told.append(("doubled", [one["transactionId"] for one in some]))

    for numbers in ((1, 2), (2, 3)):
        push = client.queue(queue).push(items(*numbers))
        await push.on_success(stored).on_duplicate(doubled)
    return told


async def larger_transaction(client: Any, queue: str) -> Any:
    for partition in "ab":
        await client.queue(queue).partition(partition).push(items(1, 2))
    pop = client.queue(queue).batch(9).partitions(9).group("g").wait(False)
    messages = sorted(await pop.pop(), key=lambda m: (m["partition"], m["data"]["n"]))
    transaction = client.transaction()
    for message in messages:
        transaction.ack(message, "completed", {"consumer_group": "g"})
    for partition in "xy":
        place = transaction.queue(f"{queue}-out").partition(partition)
        place.push([{"data": partition}, {"data": partition * 2}])
    done = await transaction.commit()
    out = client.queue(f"{queue}-out").batch(9).partitions(9).wait(False)
    moved = sorted((m["partition"], m["data"]) for m in await out.pop())
    return [done["success"], len(done["results"]), moved, await pop.pop()]


async def consume_at_once(client: Any, queue: str) -> Any:
    """Several handlers: each partition in order, everything once."""
    for number in range(5):
        for partition in "abc":
            await client.queue(queue).partition(partition).push({"data": number})
    seen: dict[str, list[int]] = {}

    async def handle(message: Any) -> None:
        seen.setdefault(message["partition"], []).append(message["data"])

    place = client.queue(queue).group("g").concurrency(3).each()
    await place.idle_millis(300).timeout_millis(100).consume(handle)
    return [sorted(seen.items()), await client.queue(queue).group("g").wait(False).pop()]


async def consume_with_callbacks(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(1, 2))
    told: list[Any] = []

    async def handle(message: Any) -> int:
        if message["data"]["n"] == 2:
            raise ValueError("two")
        return 7

    async def good(message: Any, result: Any) -> None:
        told.append((message["data"], result, (await client.ack(message))["success"]))

    async def bad(message: Any, error: Exception) -> None:
        told.append((message["data"], str(error), (await client.ack(message, "dlq"))["success"]))

    consumer = client.queue(queue).auto_ack(False).each().limit(2).consume(handle)
    await consumer.on_success(good).on_error(bad)
    return [told, (await client.queue(queue).dlq().get())["total"]]


async def consume(client: Any, queue: str) -> Any:
    await client.queue(queue).config({"retry_limit": 1}).create()
    await client.queue(queue).push(items(*range(8)))
    seen: list[Any] = []

    async def handle(message: Any) -> None:
        seen.append(message["data"]["n"])
        if message["data"]["n"] == 2:
            raise ValueError("cannot")

    await client.queue(queue).each().limit(9).consume(handle)
    letters = await client.queue(queue).dlq().get()
    return [seen, [one["data"] for one in letters["messages"]]]


async def consume_batches(client: Any, queue: str) -> Any:
    await client.queue(queue).push(items(*range(7)))
    seen: list[Any] = []

    async def handle(messages: list[Any]) -> None:
        seen.append([message["data"]["n"] for message in messages])

    await client.queue(queue).group("g").batch(3).limit(7).consume(handle)
    return [seen, await client.queue(queue).group("g").wait(False).pop()]


async def buffered(client: Any, queue: str) -> Any:
    builder = client.queue(queue).buffer({"message_count": 100, "time_millis": 60_000})
    taken = [await builder.push(items(n)) for n in range(3)]
    before = await client.queue(queue).batch(9).wait(False).pop()
    await client.flush_all_buffers()
    return [taken, before, await client.queue(queue).batch(9).wait(False).pop()]


STORIES: list[Story] = [
    create, create_without_options, delete, push, push_of_any_payload, pop, start_now, ack,
    dead_letters, transaction, consume, consume_batches, buffered, retries, failure_in_a_batch,
    groups, start_of_a_group, configuration, callbacks, larger_transaction, consume_at_once,
    consume_with_callbacks,
]  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_both_clients_tell_the_same_story(
    official: OfficialQueen, queen: Queen, story: Story
) -> None:
    told = []
    for client in (official, queen):
        queue = unique()
        async with asyncio.timeout(SOON_S):
            told.append(comparable(await story(client, queue), queue))
    theirs, ours = told
    assert ours == theirs


async def test_ours_hands_on_nothing_behind_a_message_that_comes_again(
    official: OfficialQueen, queen: Queen
) -> None:
    """The official client goes on with the batch, so a partition is handled out of order."""

    async def tell(client: Any) -> list[int]:
        queue, seen = unique(), []
        await client.queue(queue).push(items(0, 1, 2))

        async def handle(message: Any) -> None:
            seen.append(message["data"]["n"])
            if seen == [0]:
                raise ValueError("once")

        await client.queue(queue).batch(3).each().limit(4).consume(handle)
        return seen

    assert await tell(queen) == [0, 0, 1, 2]
    assert (await tell(official))[:2] == [0, 1]
