"""Every route of the contract answers with the names and types that clients of 0.15.1 expect.

The table is in `contract/`. docs/api.md lists where we differ on purpose.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from queenmq.server.routing.spec import RouteSpec
from queenmq.settings import load
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.observation.history import HistoryStore
from tests.conformance.contract import messages, operation, standstill
from tests.conformance.contract.case import Case, fill
from tests.conformance.contract.world import World
from tests.conformance.test_history import minute
from tests.support.broker import SOON_S, running_broker, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.routes import find_specs
from tests.support.shapes import ANY, BOOL, INT, TIME, UUID, Keyed, Many, Maybe, find_differences
from tests.support.waiting import wait_until

CASES = [*messages.CASES, *operation.CASES]
_LONE = {"QUEEN_LOG_LEVEL": "error", "QUEEN_MOVE_TARGETS": "127.0.0.1:*"}
#: Families of the contract, without `queen_`.
FAMILIES = """
uptime_seconds cpu_user_microseconds_total cpu_system_microseconds_total
process_resident_memory_bytes process_virtual_memory_bytes
db_pool_size db_pool_idle db_pool_active
file_buffer_pending file_buffer_failed file_buffer_db_healthy maintenance_mode_enabled
cluster_push_requests_total cluster_push_messages_total cluster_pop_requests_total
cluster_pop_messages_total cluster_ack_requests_total cluster_ack_messages_total
cluster_transactions_total cluster_dlq_total cluster_db_errors_total cluster_ack_total
queue_push_messages_per_minute queue_pop_lag_milliseconds queue_parked_consumers
dlq_depth dlq_depth_by_queue
""".split()


async def _note_parked(url: str) -> None:
    """Write a minute in which a pop was parked, as a broker does every minute."""
    database = Database(url, load({"db_pool_size": 4}))
    await database.open()
    await HistoryStore(database).record(
        *minute(datetime.now(UTC), unique()), writer=uuid4(), number=1
    )
    await database.close()


@pytest.fixture(scope="module")
def world(shared_database_url: str) -> Iterator[World]:
    with running_broker(database_url=shared_database_url) as first:
        before = World(first.url)
        before.make_history()
        before.close()
    asyncio.run(_note_parked(shared_database_url))
    with running_broker(database_url=shared_database_url) as second:
        made = World(second.url)
        made.make()
        yield made
        made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_has_the_names_and_types_of_the_contract(world: World, case: Case) -> None:
    check(world, case)


def check(world: World, case: Case) -> None:
    """Send the request of a case, and compare its answer."""
    response = world.send(case.method, fill(case.path, world.names), fill(case.body, world.names))
    assert response.status_code == case.status, f"{case.name}: {response.text}"
    if case.shape is None:
        assert response.content == b""
        return
    assert response.headers["content-type"].startswith("application/json")
    assert list(find_differences(response.json(), case.shape)) == [], case.name


@pytest.fixture
def lone_world(server: OwnPostgres, tmp_path: Path) -> Iterator[World]:
    """A broker on a server of its own, which a case may stop or copy."""
    environ = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool"), **_LONE}
    with running_broker(database_url=server.url, **environ) as broker:
        made = World(broker.url)
        yield made
        made.close()


def test_pushes_are_buffered_while_maintenance_mode_is_on(lone_world: World) -> None:
    for case in standstill.MAINTENANCE:
        check(lone_world, case)


def test_pushes_are_buffered_while_the_database_is_away(
    lone_world: World, server: OwnPostgres
) -> None:
    server.stop()
    for case in standstill.OUTAGE:
        check(lone_world, case)


def test_a_copy_is_started_and_validated(lone_world: World, server: OwnPostgres) -> None:
    target = urlsplit(asyncio.run(_make_target(server)))
    lone_world.names |= {"host": str(target.hostname), "port": str(target.port)}
    lone_world.names |= {"user": str(target.username), "database": target.path.strip("/")}
    for case in standstill.BEFORE_COPY:
        check(lone_world, case)
    wait_until(
        lambda: lone_world.send("GET", "/api/v1/migration/status").json()["status"] != "running",
        timeout_s=2 * SOON_S,
        what="the copy",
    )
    for case in standstill.AFTER_COPY:
        check(lone_world, case)


async def _make_target(server: OwnPostgres) -> str:
    """Make an empty database beside ours; its URL."""
    session = await asyncpg.connect(server.superuser_url_of("postgres"))
    await session.execute("CREATE DATABASE copy OWNER queen TEMPLATE template0 ENCODING 'UTF8'")
    await session.close()
    return server.url_of("copy")


def test_the_series_of_the_contract_exist(world: World) -> None:
    text = world.send("GET", "/metrics/prometheus").text
    told = set(re.findall(r"^# TYPE queen_(\w+) ", text, re.MULTILINE))
    assert set(FAMILIES) - told == set()
    assert any(name.startswith("worker_") for name in told)


def _serves(spec: RouteSpec, case: Case) -> bool:
    pattern = re.sub(r"\\\{\w+(:\w+)?\\\}", ".+", re.escape(spec.path))
    return spec.method == case.method and bool(re.fullmatch(pattern, case.path.partition("?")[0]))


def test_every_case_is_of_a_route_that_we_list() -> None:
    specs = find_specs()
    cases = [*CASES, *standstill.CASES]
    assert [case.name for case in cases if not any(_serves(spec, case) for spec in specs)] == []


@pytest.mark.parametrize(
    ("value", "shape", "difference"),
    [
        ({}, {"a": INT}, "answer has no 'a'"),
        ({"a": "1"}, {"a": INT}, "answer.a is '1', not a whole number"),
        ({"a": True}, {"a": INT}, "answer.a is True, not a whole number"),
        ({"a": 1}, {"a": BOOL}, "answer.a is 1, not true or false"),
        ([], [ANY], "answer is [], not an array of 1 or more"),
        ({}, Many(ANY), "answer is {}, not an array of 0 or more"),
        ({}, Keyed(ANY), "answer is [], not an array of 1 or more"),
        ({"a": [{"b": None}]}, {"a": [{"b": UUID}]}, "answer.a[0].b is None, not a UUID"),
        ("2030-01-31 12:00", TIME, "answer is '2030-01-31 12:00', not a time that ends in Z"),
        ({"a": 2}, {"a": Maybe(1)}, "answer.a is 2, not 1"),
    ],
)
def test_a_shape_notices(value: object, shape: object, difference: str) -> None:
    assert list(find_differences(value, shape)) == [difference]
