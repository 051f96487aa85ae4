"""The pool of connections: order, ageing, healing, and that no slot is ever lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queenmq.errors import StorageUnavailable
from queenmq.storage.connection.faults import NO_SLOT
from queenmq.storage.connection.pool import ConnectionPool
from tests.support.waiting import wait_until_async


class Clock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Connection:
    """A connection of a driver, as far as a pool knows one."""

    def __init__(self) -> None:
        self.is_lost = False
        self.has_transaction = False
        self.calls = 0

    def is_closed(self) -> bool:
        return self.is_lost

    def is_in_transaction(self) -> bool:
        return self.has_transaction

    def terminate(self) -> None:
        self.is_lost = True

    async def close(self) -> None:
        self.is_lost = True


class Server:
    """Opens connections, up to a number, or fails as told."""

    def __init__(self) -> None:
        self.opened: list[Connection] = []
        self.room = 1_000
        self.error: Exception | None = None
        self.cleaned: list[Connection] = []
        self.may_clean = asyncio.Event()
        self.may_clean.set()
        self.clean_error: Exception | None = None

    @property
    def alive(self) -> list[Connection]:
        return [one for one in self.opened if not one.is_lost]

    async def connect(self) -> Connection:
        await turn(1)
        if self.error is not None:
            raise self.error
        if len(self.alive) >= self.room:
            raise StorageUnavailable("full", reason=NO_SLOT, is_suspicious=False)
        self.opened.append(Connection())
        return self.opened[-1]

    async def clean(self, connection: Connection) -> None:
        await self.may_clean.wait()
        self.cleaned.append(connection)
        if self.clean_error is not None:
            raise self.clean_error

    def pool(self, size: int, clock: Clock | None = None) -> ConnectionPool[Connection]:
        return ConnectionPool(self.connect, self.clean, size=size, clock=clock or Clock())


class Callers:
    """Tasks that take a connection and give it back when told; the order in which they got one."""

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self.pool = pool
        self.entered: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: dict[str, asyncio.Event] = {}

    async def start(self, name: str, priority: int) -> None:
        self._done[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._call(name, priority))
        await turn()

    async def _call(self, name: str, priority: int) -> None:
        connection = await self.pool.take(priority)
        self.entered.append(name)
        try:
            await self._done[name].wait()
        finally:
            self.pool.give_back(connection, is_answered=True)

    async def finish(self, name: str) -> None:
        self._done[name].set()
        await self._tasks[name]
        await turn()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        await turn()

    async def drain(self) -> list[str]:
        """Let one after the other finish; the order of all."""
        place = 0
        while place < len(self.entered):
            await self.finish(self.entered[place])
            place += 1
        return self.entered


async def turn(passes: int = 5) -> None:
    """Let everything that can run now do so; a single pass stops half-way."""
    for _ in range(passes):
        passed = asyncio.Event()
        asyncio.get_running_loop().call_soon(passed.set)
        await passed.wait()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def start_all(callers: Callers, *named: tuple[str, int]) -> None:
    for name, priority in named:
        await callers.start(name, priority)


async def test_a_free_connection_is_taken_at_once() -> None:
    pool = Server().pool(2)
    assert pool.try_take() is None, "there is none yet"
    first = await pool.take(10)
    pool.give_back(first, is_answered=True)
    assert (pool.in_use, pool.idle, pool.waiting) == (0, 1, 0)
    assert pool.try_take() is first
    assert pool.try_take() is None
    assert (pool.in_use, pool.idle, pool.waiting) == (1, 0, 0)
    pool.give_back(first, is_answered=True)


async def test_the_most_urgent_goes_first(clock: Clock) -> None:
    callers = Callers(Server().pool(1, clock))
    await start_all(callers, ("first", 10), ("pop", 6), ("event", 1), ("push", 5), ("ack", 3))
    assert (callers.pool.in_use, callers.pool.waiting) == (1, 4)
    assert await callers.drain() == ["first", "event", "ack", "push", "pop"]
    assert (callers.pool.in_use, callers.pool.waiting) == (0, 0)


async def test_equals_go_in_the_order_of_arrival(clock: Clock) -> None:
    callers = Callers(Server().pool(1, clock))
    names = [f"push-{number}" for number in range(20)]
    for name in names:
        await callers.start(name, 5)
        clock.now += 0.0 if name.endswith("1") else 1.0
    assert await callers.drain() == names


async def test_a_second_of_waiting_is_worth_a_level(clock: Clock) -> None:
    callers = Callers(Server().pool(1, clock))
    await start_all(callers, ("first", 1), ("background", 8))
    clock.now = 2_999
    await callers.start("push before three seconds", 5)
    clock.now = 3_001
    await callers.start("push after three seconds", 5)
    assert await callers.drain() == [
        "first",
        "push before three seconds",
        "background",
        "push after three seconds",
    ]


async def test_nobody_starves_behind_a_stream_of_urgent_calls(clock: Clock) -> None:
    callers = Callers(Server().pool(1, clock))
    await start_all(callers, ("running", 1), ("analytics", 10))
    for number in range(100):
        clock.now += 500
        await callers.start(f"event-{number}", 1)
        await callers.finish(callers.entered[-1])
        if "analytics" in callers.entered:
            break
    assert "analytics" in callers.entered
    assert clock.now <= 10_000, "nine levels are nine seconds"
    await callers.drain()


async def test_a_connection_is_handed_on_and_not_taken_by_a_newcomer(clock: Clock) -> None:
    callers = Callers(Server().pool(1, clock))
    await start_all(callers, ("running", 5), ("waiting", 10))
    callers._done["running"].set()
    await callers._tasks["running"]
    # The one who waits has the connection, although it has not run yet.
    assert callers.pool.try_take() is None
    assert callers.pool.in_use == 1
    assert await callers.drain() == ["running", "waiting"]


async def test_a_waiter_that_is_cancelled_leaves_no_trace(clock: Clock) -> None:
    callers = Callers(Server().pool(1, clock))
    await start_all(callers, ("running", 5), ("gone", 1), ("waiting", 5))
    await callers.cancel("gone")
    assert (callers.pool.in_use, callers.pool.waiting) == (1, 1)
    assert await callers.drain() == ["running", "waiting"]
    assert callers.pool.in_use == 0


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_cancelled_in_the_moment_of_its_turn_it_passes_the_connection_on(
    clock: Clock, is_cancelled_first: bool
) -> None:
    pool = Server().pool(1, clock)
    connection = await pool.take(1)
    gone = asyncio.create_task(pool.take(1))
    waiting = asyncio.create_task(pool.take(5))
    await turn()
    steps: list[Callable[[], object]] = [
        gone.cancel,
        lambda: pool.give_back(connection, is_answered=True),
    ]
    for step in steps if is_cancelled_first else reversed(steps):
        step()
    await asyncio.gather(gone, return_exceptions=True)
    assert gone.cancelled()
    assert await waiting is connection
    assert (pool.in_use, pool.waiting) == (1, 0)
    pool.give_back(connection, is_answered=True)
    assert pool.in_use == 0


async def test_lost_connections_are_replaced_and_forgotten() -> None:
    server = Server()
    pool = server.pool(2)
    first, second = await pool.take(1), await pool.take(1)
    first.is_lost = True
    pool.give_back(first, is_answered=False)
    pool.give_back(second, is_answered=True)
    second.is_lost = True
    assert pool.try_take() is None
    third = await pool.take(1)
    assert third not in (first, second) and not third.is_lost
    assert pool._open == {third}
    pool.give_back(third, is_answered=True)
    assert (pool.in_use, pool.idle) == (0, 1)


async def test_one_who_waits_opens_a_connection_when_the_one_in_front_lost_his() -> None:
    server = Server()
    callers = Callers(server.pool(1))
    await start_all(callers, ("lost", 1), ("waiting", 5))
    server.opened[0].is_lost = True
    assert await callers.drain() == ["lost", "waiting"]
    assert len(server.opened) == 2 and callers.pool.in_use == 0


async def test_a_call_that_was_cut_off_keeps_its_slot_until_its_connection_is_mended() -> None:
    server = Server()
    pool = server.pool(1)
    connection = await pool.take(1)
    server.may_clean.clear()
    pool.give_back(connection, is_answered=False)
    waiting = asyncio.create_task(pool.take(1))
    await turn()
    assert (pool.in_use, pool.waiting) == (1, 1)
    server.may_clean.set()
    assert await waiting is connection
    assert server.cleaned == [connection]
    # So is one that left a transaction open.
    connection.has_transaction = True
    pool.give_back(connection, is_answered=True)
    await pool.take(1)
    assert server.cleaned == [connection] * 2


async def test_a_connection_that_cannot_be_mended_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queenmq.storage.connection.pool._MEND_S", 0.01)
    server = Server()
    pool = server.pool(1)
    for hangs in (False, True):
        connection = await pool.take(1)
        server.clean_error = OSError("lost")
        if hangs:
            server.may_clean.clear()
        pool.give_back(connection, is_answered=False)
        assert await pool.take(1) is not connection
        assert connection.is_lost
        pool.give_back(server.opened[-1], is_answered=True)
    assert pool.in_use == 0 and len(pool._open) == 1


async def test_calls_share_the_connections_that_a_full_server_has_left() -> None:
    server = Server()
    server.room = 2
    pool = server.pool(8)
    done = 0

    async def call() -> None:
        nonlocal done
        connection = await pool.take(5)
        connection.calls += 1
        assert connection.calls == 1, "two calls on one connection"
        await turn(1)
        connection.calls -= 1
        done += 1
        pool.give_back(connection, is_answered=True)

    await asyncio.gather(*(call() for _ in range(50)))
    assert done == 50 and len(server.opened) == 2
    assert (pool.in_use, pool.waiting) == (0, 0)
    server.room = 8
    taken = await asyncio.gather(*(pool.take(5) for _ in range(8)))
    assert len(set(taken)) == 8, "all of them, once there is room"


async def test_all_who_wait_fail_when_a_full_server_leaves_no_connection() -> None:
    server = Server()
    server.room = 1
    pool = server.pool(4)
    last = await pool.take(1)
    calls = [asyncio.create_task(pool.take(5)) for _ in range(6)]
    await turn()
    server.room = 0
    last.is_lost = True
    pool.give_back(last, is_answered=False)
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, StorageUnavailable) and one.reason == NO_SLOT for one in found)
    assert (pool.in_use, pool.waiting) == (0, 0)


async def test_those_who_had_to_wait_for_a_full_server_use_its_room() -> None:
    server = Server()
    server.room = 1
    pool = server.pool(4)
    first = await pool.take(1)
    calls = [asyncio.create_task(pool.take(5)) for _ in range(3)]
    await turn()
    assert pool.waiting == 3
    server.room = 4
    first.is_lost = True
    pool.give_back(first, is_answered=False)
    taken = await asyncio.gather(*calls)
    assert len(set(taken)) == 3 and pool.in_use == 3


async def test_failures_to_connect_reach_each_call_and_free_its_slot() -> None:
    server = Server()
    server.error = StorageUnavailable("gone")
    pool = server.pool(2)
    found = await asyncio.gather(*(pool.take(1) for _ in range(10)), return_exceptions=True)
    assert found == [server.error] * 10
    assert (pool.in_use, pool.waiting) == (0, 0)
    server.error = None
    pool.give_back(await pool.take(1), is_answered=True)


async def test_an_open_connection_goes_to_a_probe_before_all_calls() -> None:
    server = Server()
    pool = server.pool(1)
    assert await pool.take_open() is None, "none is open"
    connection = await pool.take(1)
    call = asyncio.create_task(pool.take(1))
    await turn()
    probe = asyncio.create_task(pool.take_open())
    await turn()
    pool.give_back(connection, is_answered=True)
    assert await probe is connection
    pool.give_back(connection, is_answered=True)
    assert await call is connection
    probe = asyncio.create_task(pool.take_open())
    await turn()
    connection.is_lost = True
    pool.give_back(connection, is_answered=False)
    assert await probe is None
    assert (pool.in_use, pool.waiting) == (0, 0)


async def test_a_close_lets_calls_end_and_ends_those_who_wait() -> None:
    server = Server()
    pool = server.pool(2)
    first, second = await pool.take(1), await pool.take(1)
    waiting = asyncio.create_task(pool.take(1))
    await turn()
    closing = asyncio.create_task(pool.close())
    with pytest.raises(StorageUnavailable):
        await waiting
    pool.give_back(first, is_answered=True)
    await turn()
    assert not closing.done()
    pool.give_back(second, is_answered=True)
    await closing
    assert not server.alive and pool.in_use == 0
    assert pool.try_take() is None
    with pytest.raises(StorageUnavailable):
        await pool.take(1)
    await pool.close()


async def test_a_connection_that_was_lost_on_the_way_to_the_next_call_is_replaced() -> None:
    server = Server()
    pool = server.pool(1)
    connection = await pool.take(1)
    waiting = asyncio.create_task(pool.take(1))
    await turn()
    pool.give_back(connection, is_answered=True)
    connection.is_lost = True
    assert await waiting is server.opened[1]
    assert pool._open == {server.opened[1]} and pool.in_use == 1


async def test_a_connection_that_opens_during_a_close_is_ended() -> None:
    server = Server()
    pool = server.pool(1)
    opening = asyncio.create_task(pool.take(1))
    await asyncio.wait([asyncio.create_task(pool.close()), opening])
    with pytest.raises(StorageUnavailable):
        await opening
    assert not server.alive and pool.in_use == 0


async def test_a_close_ends_calls_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queenmq.storage.connection.pool._CLOSE_S", 0.01)
    server = Server()
    pool = server.pool(2)
    connection = await pool.take(1)
    await pool.close()
    assert connection.is_lost
    pool.give_back(connection, is_answered=False)
    assert pool.in_use == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["enter", "enter", "leave", "cancel", "turn", "time", "lose", "room", "break"]
        ),
        st.integers(0, 30),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(st.integers(1, 4), STEPS)
def test_slots_are_never_lost_nor_more_than_there_are(
    slots: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_fuzz(slots, steps))


async def _fuzz(slots: int, steps: list[tuple[str, int]]) -> None:
    clock, server = Clock(), Server()
    pool = server.pool(slots, clock)
    tasks: list[asyncio.Task[None]] = []
    events: dict[int, asyncio.Event] = {}

    async def call(number: int, priority: int) -> None:
        connection = await pool.take(priority)
        connection.calls += 1
        assert connection.calls == 1, "two calls on one connection"
        is_answered = False
        try:
            await events[number].wait()
            is_answered = True
        finally:
            connection.calls -= 1
            pool.give_back(connection, is_answered=is_answered)

    for action, value in steps:
        if action == "enter":
            number = len(tasks)
            events[number] = asyncio.Event()
            tasks.append(asyncio.create_task(call(number, value % 11)))
        elif action == "time":
            clock.now += value * 100
        elif action == "turn":
            await turn(1 + value % 3)
        elif action == "room":
            server.room = value % 5
        elif action == "break":
            server.error = StorageUnavailable("gone") if value % 2 else None
        elif action == "lose":
            for one in server.alive[: value % 3]:
                one.is_lost = True
        elif tasks and action == "leave":
            events[value % len(tasks)].set()
        elif tasks:
            tasks[value % len(tasks)].cancel()
        assert len(server.alive) <= slots
        assert 0 <= pool.in_use <= slots
    for event in events.values():
        event.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    expected = (asyncio.CancelledError, StorageUnavailable)
    assert all(one is None or isinstance(one, expected) for one in found), found
    await wait_until_async(lambda: pool.in_use == 0, timeout_s=10, what="the last to be mended")
    assert pool.waiting == 0
    assert set(server.alive) == {one for one in pool._idle if not one.is_lost}


async def test_a_close_that_is_cut_off_ends_all_connections() -> None:
    server = Server()
    pool = server.pool(2)
    connection = await pool.take(1)
    closing = asyncio.create_task(pool.close())
    await turn()
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert connection.is_lost
    pool.give_back(connection, is_answered=False)
    assert pool.in_use == 0
