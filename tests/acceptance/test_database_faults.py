"""A fault of the database that no request is to blame for: nothing accepted is lost or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire, pop_path
from tests.acceptance.operation_side import block, unblock, wait_until_done
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.producers import pop_all
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

StartBroker = Callable[..., BrokerProcess]

_PARTITIONS = 4
_PUSHES = 40
#: An ordinary role, because nothing can be revoked from a superuser.
_ROLE = (
    "CREATE ROLE plain LOGIN",
    "GRANT CREATE ON DATABASE queen TO plain",
    "GRANT ALL ON SCHEMA queen TO plain",
    "GRANT ALL ON ALL TABLES IN SCHEMA queen TO plain",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO plain",
)


class Fault(NamedTuple):
    """What an administrator does wrong, how it is put right, and what PostgreSQL calls it."""

    name: str
    code: str
    break_it: tuple[str, ...]
    mend_it: tuple[str, ...]


def _trigger(name: str, code: str, body: str) -> Fault:
    """A trigger on messages that breaks in a way of its own."""
    function = (
        "CREATE FUNCTION public.breaks() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {body}; RETURN NEW; END $$"
    )
    trigger = (
        "CREATE TRIGGER breaks BEFORE INSERT ON queen.messages"
        " FOR EACH ROW EXECUTE FUNCTION public.breaks()"
    )
    deep = (
        "CREATE FUNCTION public.deep(n integer) RETURNS integer LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN public.deep(n + 1); END $$"
    )
    return Fault(name, code, (deep, function, trigger), ("DROP FUNCTION public.breaks CASCADE",))


FAULTS = (
    Fault(
        "insert-revoked",
        "42501",
        ("REVOKE INSERT ON queen.messages FROM plain",),
        ("GRANT INSERT ON queen.messages TO plain",),
    ),
    Fault(
        "execute-revoked",
        "42501",
        ("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA queen FROM plain",),
        ("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO plain",),
    ),
    Fault(
        "function-renamed",
        "42883",
        ("ALTER FUNCTION queen.push_messages RENAME TO gone",),
        ("ALTER FUNCTION queen.gone RENAME TO push_messages",),
    ),
    Fault(
        "table-renamed",
        "42P01",
        ("ALTER TABLE queen.messages RENAME TO gone",),
        ("ALTER TABLE queen.gone RENAME TO messages",),
    ),
    _trigger("too-complex", "54001", "PERFORM public.deep(1)"),
    _trigger("not-implemented", "0A000", "EXECUTE 'COMMIT'"),
)


@pytest.fixture
def start(server: OwnPostgres, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers as an ordinary role on that server; they share a spool."""
    asyncio.run(server.execute(*_ROLE))
    brokers: list[BrokerProcess] = []

    def start_broker(*arguments: str) -> BrokerProcess:
        url = server.url.replace("queen@", "plain@")
        words = ["--log-level", "error", "--database-url", url, *arguments]
        environ = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool")}
        brokers.append(BrokerProcess(words, environ=environ))
        return brokers[-1]

    yield start_broker
    server.close()
    for broker in brokers:
        broker.close()


async def _push_all(wire: Wire, queue: str, *, expected: int) -> None:
    for number in range(_PUSHES):
        partition = f"p{number % _PARTITIONS}"
        answer = await wire.push(queue, number, partition=partition)
        assert answer.status == expected, answer


def _in_order() -> dict[str, list[int]]:
    return {f"p{n}": list(range(n, _PUSHES, _PARTITIONS)) for n in range(_PARTITIONS)}


async def _wait_until_503(wire: Wire, queue: str, number: int) -> Answer:
    """Push until the broker has noticed; pushes it still keeps are in front of the others."""

    async def is_refused() -> Answer | None:
        answer = await wire.push(queue, number)
        assert answer.status in (202, 503), answer
        return answer if answer.status == 503 else None

    found = await wait_until_async(is_refused, timeout_s=SOON_S, what="an answer 503")
    assert found is not None
    return found


async def _wait_for_problem(wire: Wire, code: str) -> None:
    async def is_shown() -> bool:
        answer = await wire.call("GET", "/health")
        return answer.body["status"] != "healthy" and code in str(answer.body["problems"])

    await wait_until_async(is_shown, timeout_s=SOON_S, what=f"/health to show {code}")


async def _buffer(wire: Wire) -> dict[str, Any]:
    answer = await wire.call("GET", "/api/v1/system/maintenance")
    assert answer.status == 200, answer
    stats: dict[str, Any] = answer.body["bufferStats"]
    return stats


async def _wait_until_drained(wire: Wire) -> None:
    async def is_drained() -> bool:
        return bool((await _buffer(wire))["pendingCount"] == 0)

    await wait_until_async(is_drained, timeout_s=2 * SOON_S, what="the spool to be drained")


@pytest.mark.parametrize(
    ("fault", "workers"),
    [*((fault, "1") for fault in FAULTS), (FAULTS[0], "2")],
    ids=lambda value: value.name if isinstance(value, Fault) else value,
)
async def test_nothing_accepted_is_given_up(
    fault: Fault, workers: str, server: OwnPostgres, start: StartBroker
) -> None:
    broker = await asyncio.to_thread(start, "--workers", workers)
    kept, queued, fresh = unique(), unique(), unique()
    session = await asyncpg.connect(server.url)
    for n in range(_PARTITIONS):
        await block(session, queued, f"p{n}")
    await session.close()
    async with Wire(broker.url) as wire:
        await _push_all(wire, queued, expected=202)
        assert (await wire.push(fresh, "before")).status == 201
        await server.execute(*fault.break_it)
        await asyncio.to_thread(server.stop)
        await _push_all(wire, kept, expected=202)
        await asyncio.to_thread(server.start)
        session = await asyncpg.connect(server.url)
        await unblock(session)
        refused = await _wait_until_503(wire, fresh, 1)
        assert int(refused.headers["retry-after"]) >= 1
        assert not any(name in str(refused.body) for name in ("plain", "messages", "breaks"))
        if workers == "1":
            await _wait_for_problem(wire, fault.code)
            metrics = (await wire.call("GET", "/metrics/prometheus")).body
            assert f'queen_database_faults_total{{sqlstate="{fault.code}"}}' in metrics
            assert "queen_database_fault 1\n" in metrics
            assert "queen_file_buffer_stuck 1\n" in metrics
        await server.execute(*fault.mend_it)
        await _wait_until_drained(wire)
        await wait_until_done(session, timeout_s=2 * SOON_S)
        assert (await _buffer(wire))["failedCount"] == 0
        runs = await session.fetch("SELECT status, retry_count FROM queen.operation_queue")
        assert {tuple(row) for row in runs} == {("completed", 0)}
        await session.close()
    assert await pop_all(broker.url, kept, _PUSHES) == _in_order()
    found = await pop_all(broker.url, queued, _PUSHES + _PARTITIONS)
    assert found == {name: ["blocker", *values] for name, values in _in_order().items()}


async def test_a_fault_without_an_outage_keeps_nothing_on_disk(
    server: OwnPostgres, start: StartBroker
) -> None:
    """It may touch some calls only, and everything would have to go behind what is kept."""
    broker, queue = await asyncio.to_thread(start), unique()
    async with Wire(broker.url) as wire:
        assert (await wire.push(queue, 1)).status == 201
        await server.execute(*FAULTS[0].break_it)
        for _ in range(3):
            answer = await wire.push(queue, 2, transaction_id="two")
            assert answer.status == 503 and answer.headers["retry-after"], answer
        assert (await _buffer(wire))["pendingCount"] == 0
        assert (await wire.pop(queue))[0]["data"] == 1, "what works goes on"
        await server.execute(*FAULTS[0].mend_it)
        assert (await wire.push(queue, 2, transaction_id="two")).status == 201


async def test_consumers_are_told_of_a_fault_and_lose_nothing(
    server: OwnPostgres, start: StartBroker
) -> None:
    broker, queue = await asyncio.to_thread(start), unique()
    async with Wire(broker.url) as wire:
        for number in range(2):
            assert (await wire.push(queue, number, partition=f"p{number}")).status == 201
        (leased,) = await wire.pop(queue, batch=1)
        await server.execute("REVOKE UPDATE ON queen.partition_consumers FROM plain")
        fields = {name: leased[name] for name in ("transactionId", "partitionId", "leaseId")}
        calls = (
            ("GET", pop_path(queue), None),
            # A long poll is not left to wait for nothing, nor told that there is nothing.
            ("GET", pop_path(queue, wait=True, timeout=60_000), None),
            ("GET", pop_path(queue, partition="p1", wait=True, timeout=60_000), None),
            ("POST", "/api/v1/ack", {**fields, "status": "completed"}),
            (
                "POST",
                "/api/v1/transaction",
                {"operations": [{"type": "ack", **fields, "status": "completed"}]},
            ),
        )
        for call in calls:
            answer = await wire.call(*call, timeout_s=SOON_S)
            assert answer.status == 503 and answer.headers["retry-after"], (call, answer)
            assert "partition_consumers" not in str(answer.body)
        await server.execute("GRANT UPDATE ON queen.partition_consumers TO plain")
        assert (await wire.ack([leased]))[0]["success"]
        (other,) = await wire.pop(queue, wait=True, timeout=60_000)
        assert {leased["data"], other["data"]} == {0, 1}


async def test_a_look_up_that_cannot_be_made_is_no_empty_queue(
    server: OwnPostgres, start: StartBroker
) -> None:
    broker, queue = await asyncio.to_thread(start), unique()
    async with Wire(broker.url) as wire:
        assert (await wire.push(queue, 1)).status == 201
        await server.execute("ALTER FUNCTION queen.pop_sm_resolve RENAME TO gone")
        for wait in (False, True):
            path = pop_path(queue, wait=wait, timeout=60_000, consumerGroup=f"g-{wait}")
            answer = await wire.call("GET", path, timeout_s=SOON_S)
            assert answer.status == 503, answer
        await server.execute("ALTER FUNCTION queen.gone RENAME TO pop_sm_resolve")
        assert [one["data"] for one in await wire.pop(queue, wait=True, timeout=60_000)] == [1]
