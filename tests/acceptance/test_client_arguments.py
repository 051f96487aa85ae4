"""Arguments that cannot be right are refused before anything is sent, in each way of calling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from queenmq import Queen, SyncQueen
from tests.support.broker import SOON_S, BrokerProcess, unique


@pytest.fixture
def plain(broker: BrokerProcess) -> Iterator[SyncQueen]:
    with SyncQueen(broker.url) as client:
        yield client


async def test_a_misspelt_option_leaves_the_queue_as_it_is(queen: Queen) -> None:
    queue = unique()
    await queen.create_queue(queue, lease_time=90, retry_limit=9)
    with pytest.raises(ValueError, match=r"no option 'lease_tim'; did you mean leaseTime\?"):
        await queen.create_queue(queue, lease_tim=5)
    with pytest.raises(ValueError, match="did you mean leaseTime"):
        await queen.queue(queue).config({"lease_tim": 5}).create()
    options = (await queen.admin.get_queue(queue)).options
    assert (options.lease_time, options.retry_limit) == (90, 9)


def test_a_misspelt_option_is_refused_without_a_loop(plain: SyncQueen) -> None:
    with pytest.raises(ValueError, match="did you mean leaseTime"):
        plain.create_queue(unique(), lease_tim=5)
    with pytest.raises(ValueError, match="did you mean leaseTime"):
        plain.queue(unique()).config({"lease_tim": 5}).create()


OUT_OF_RANGE: dict[str, Any] = {
    "batch": 0, "partitions": 0, "concurrency": 0, "limit": -1, "idle_ms": -1,
    "renew_interval_ms": 0,
}  # fmt: skip
WRONG_TYPE: dict[str, Any] = {
    "batch": "x", "partitions": 1.5, "concurrency": None, "limit": "9", "idle_ms": "soon",
    "renew_interval_ms": True, "timeout_ms": "1s", "lease_seconds": 1.5, "wait": "maybe",
    "auto_ack": 1, "each": "no", "renew_lease": "off", "signals": "SIGINT",
}  # fmt: skip


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_consume_refuses_a_number_out_of_range(plain: SyncQueen, name: str) -> None:
    low = {"limit": 0, "idle_ms": 0}.get(name, 1)
    text = f"{name} is {OUT_OF_RANGE[name]}; it must be {low} or more"
    how: dict[str, Any] = {"idle_ms": 1, name: OUT_OF_RANGE[name]}
    with pytest.raises(ValueError, match=text):
        plain.consume(unique(), print, **how).run()


async def test_consume_without_a_batch_is_refused_in_a_loop_too(queen: Queen) -> None:
    with pytest.raises(ValueError, match="batch is 0; it must be 1 or more"):
        async with asyncio.timeout(SOON_S):
            await queen.consume(unique(), print, batch=0, idle_ms=1)


@pytest.mark.parametrize("name", WRONG_TYPE)
async def test_consume_refuses_an_argument_of_another_type(queen: Queen, name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be .*, not "):
        queen.consume(unique(), print, **{name: WRONG_TYPE[name]})


@pytest.mark.parametrize(
    "name", ["batch", "partitions", "timeout_ms", "lease_seconds", "wait", "auto_ack"]
)
async def test_pop_refuses_an_argument_of_another_type(queen: Queen, name: str) -> None:
    queue = unique()
    await queen.push(queue, 1)
    how: dict[str, Any] = {name: WRONG_TYPE[name]}
    with pytest.raises(TypeError, match=f"^{name} must be .*, not "):
        await queen.pop(queue, **how)
    assert [message.data for message in await queen.pop(queue)] == [1]


async def test_the_builder_refuses_an_argument_of_another_type(queen: Queen) -> None:
    queue: Any = queen.queue(unique())
    for name in ("batch", "partitions", "concurrency"):
        with pytest.raises(TypeError, match=f"^{name} must be an integer, not 'x'"):
            getattr(queue, name)("x")
    with pytest.raises(TypeError, match=r"^limit must be an integer, not 'x'"):
        queue.limit("x").consume(print)
    with pytest.raises(TypeError, match=r"^wait must be True or False, not 'maybe'"):
        await queen.queue(unique()).wait("maybe").pop()  # type: ignore[arg-type]


async def test_an_unknown_keyword_is_refused_with_the_near_name(queen: Queen) -> None:
    how: dict[str, Any] = {"batchsize": 3}
    with pytest.raises(
        TypeError, match=r"^consume has no argument 'batchsize'; did you mean batch"
    ):
        queen.consume(unique(), print, **how)
    with pytest.raises(TypeError, match=r"^pop has no argument 'batchsize'; did you mean batch\?"):
        await queen.pop(unique(), **how)


async def test_a_handler_that_is_no_function_gets_no_message(
    queen: Queen, plain: SyncQueen
) -> None:
    queue, handler = unique(), "handler"
    await queen.push(queue, 1)
    refused = pytest.raises(TypeError, match=r"^consume takes a function as handler, not 'handler'")
    for client in (queen, plain, queen.queue(queue), plain.queue(queue)):
        place = [queue] if client in (queen, plain) else []
        with refused:
            client.consume(*place, handler)  # type: ignore[arg-type]
    assert [message.data for message in await queen.pop(queue)] == [1]
