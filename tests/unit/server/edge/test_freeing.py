"""Requests are freed when they are answered, whatever the garbage collector does."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from queenmq.errors import InvalidRequest
from queenmq.server.edge.exchange import Exchange
from tests.support.edge_wire import EdgeWire, turn

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Held:
    """Something that a handler has in hand when it fails."""


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def _fail(exchange: Exchange, held: Held) -> None:
    await turn()
    raise InvalidRequest(f"{held} of {exchange} is wrong")


def _run(exchange: Exchange, held: Held) -> None:
    exchange.run(_fail(exchange, held))


def _follow(exchange: Exchange, held: Held) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(_: None) -> None:
        raise InvalidRequest(f"{held} of {exchange} is wrong")

    exchange.follow(future, finish)
    future.set_result(None)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("handle", [_run, _follow], ids=["task", "future"])
async def test_a_request_that_fails_is_freed(handle: Callable[[Exchange, Held], None]) -> None:
    wire = EdgeWire()
    wire.send(GET)
    held = Held()
    seen = weakref.ref(held)
    handle(wire.exchanges.pop(), held)
    del held
    for _ in range(3):
        await turn()
    assert wire.statuses == [500], "as the wire answers every error"
    wire.errors.clear()
    assert seen() is None
