"""The roles of `queen db roles`: each can do what it is for, and nothing beyond that."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from queenmq.auth.tokens import hash_token
from queenmq.errors import InvalidRequest
from queenmq.storage.schema import lookup_care
from queenmq.storage.schema.first_token import store_token
from queenmq.storage.schema.migrator import migrate
from queenmq.storage.schema.roles import PARTS, make_roles
from queenmq.storage.schema.vacuum_report import vacuum_report
from queenmq.storage.stores.access.tokens import NewToken
from tests.support.broker import running_broker
from tests.support.command_line import run_queen
from tests.support.shared_postgres import SharedPostgres

PREFIX = "made_"
#: By role: what it must be able to do, and what it must not.
MAY = {
    "producer": ["SELECT queen.push('orders', '1')"],
    "reader": [
        "SELECT count(*) FROM queen.messages",
        "SELECT * FROM queen.mark_position('r', 0, '1')",
        "SELECT * FROM queen.dead_letter_queue",
    ],
    "admin": [
        "SELECT count(*) FROM queen.messages",
        "SELECT * FROM queen.audit_log",
        "SELECT id, name, revoked_at FROM queen.api_tokens",
        "UPDATE queen.api_tokens SET revoked_at = now() WHERE name = 'x'",
        "SELECT * FROM queen_streams.state",
    ],
    "broker": [
        "CREATE TABLE queen.later (n integer)",
        "DROP TABLE queen.later",
        "CREATE TABLE queen_streams.later (n integer)",
        "DROP TABLE queen_streams.later",
        "DELETE FROM queen_streams.state",
    ],
}
_ALWAYS = [
    "CREATE ROLE intruder", "CREATE DATABASE intruder", "ALTER SYSTEM SET work_mem = '1GB'",
    "COPY pg_class TO PROGRAM 'cat'", "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_authid", "ALTER ROLE {owner} PASSWORD 'x'", "SET ROLE {owner}",
]  # fmt: skip
_SCHEMA = [
    "CREATE TABLE queen.mine (n integer)", "DROP TABLE queen.messages", "DROP SCHEMA queen CASCADE",
    "ALTER FUNCTION queen.push SECURITY INVOKER", "TRUNCATE queen.messages",
    "DELETE FROM queen.messages", "UPDATE queen.messages SET payload = '0'",
    "INSERT INTO queen.queues (name) VALUES ('mine')", "SELECT queen.delete_queue('orders')",
    "SELECT token_hash FROM queen.api_tokens", "DELETE FROM queen.audit_log",
    "UPDATE queen.audit_log SET who = 'me'", "UPDATE queen.api_tokens SET role = 'admin'",
    "UPDATE queen_streams.queries SET source_queue = 'mine'", "DELETE FROM queen_streams.state",
]  # fmt: skip
MUST_NOT = {
    "producer": [
        *_SCHEMA, "SELECT * FROM queen.messages", "SELECT * FROM queen.audit_log",
        "SELECT * FROM queen_streams.state", "SELECT * FROM queen.queues",
        "INSERT INTO queen.api_tokens DEFAULT VALUES",
    ],
    "reader": [
        *_SCHEMA, "SELECT queen.push('orders', '1')", "SELECT * FROM queen.audit_log",
        "SELECT * FROM queen_streams.state", "SELECT name FROM queen.api_tokens",
        "INSERT INTO queen.api_tokens DEFAULT VALUES",
    ],
    "admin": [
        *_SCHEMA, "SELECT queen.push('orders', '1')", "UPDATE queen.queues SET max_size = 1",
        "UPDATE queen.partition_consumers SET cursor_seq = 0",
    ],
    "broker": [],
}  # fmt: skip


@pytest.fixture
async def urls(
    postgres: SharedPostgres, database_url: str, superuser_url: str
) -> AsyncIterator[dict[str, str]]:
    """The URL of each role, made twice because that has to be safe."""
    name = urlsplit(database_url).path.strip("/")
    try:
        await make_roles(superuser_url, PREFIX)
        made = await make_roles(superuser_url, PREFIX)
        for role in made:
            postgres.execute(f"ALTER ROLE {role} PASSWORD 'local'")
        user = urlsplit(database_url).netloc.partition("@")[0]
        yield {
            part: database_url.replace(f"//{user}@", f"//{role}:local@", 1)
            for part, role in zip(PARTS, made, strict=True)
        }
    finally:
        for part in PARTS:
            with contextlib.suppress(asyncpg.UndefinedObjectError):
                postgres.execute(f"REASSIGN OWNED BY {PREFIX}{part} TO queen_owner", database=name)
                postgres.execute(f"DROP OWNED BY {PREFIX}{part}", database=name)
                postgres.execute(f"DROP ROLE {PREFIX}{part}")


async def test_each_role_can_do_what_it_is_for_and_nothing_else(urls: dict[str, str]) -> None:
    wrong = []
    for part, url in urls.items():
        session = await asyncpg.connect(url)
        try:
            for statement in MAY[part]:
                await session.execute(statement)
            for template in (*MUST_NOT[part], *_ALWAYS):
                statement = template.format(owner="queen_owner")
                try:
                    await session.execute(statement)
                    wrong.append(f"{part}: {statement}")
                except asyncpg.InsufficientPrivilegeError:
                    pass
        finally:
            await session.close(timeout=5)
    assert wrong == []


async def test_a_broker_runs_as_its_role_and_operators_work_as_theirs(urls: dict[str, str]) -> None:
    await migrate(urls["broker"])
    with running_broker(database_url=urls["broker"]) as broker:
        async with httpx.AsyncClient(base_url=broker.url, verify=False) as http:
            items = [{"queue": "orders", "payload": 1}]
            assert (await http.post("/api/v1/push", json={"items": items})).status_code == 201
            assert (await http.get("/api/v1/pop/queue/orders?autoAck=true")).status_code == 200
            query = {"name": "sums", "source_queue": "orders", "config_hash": "x"}
            assert (await http.post("/streams/v1/queries", json=query)).status_code == 200
            assert (await http.delete("/api/v1/streams/sums")).status_code == 200
            assert (await http.delete("/api/v1/resources/queues/orders")).status_code == 200
            assert (await http.get("/health")).json()["status"] == "healthy"
    admin = urls["admin"]
    assert all(not finding.total for finding in await lookup_care.check(admin))
    tables = {row["table"] for row in (await vacuum_report(admin))["tables"]}
    assert {"messages", "partitions", "queen_streams.partitions"} <= tables
    producer = await asyncpg.connect(urls["producer"])
    await producer.execute("SELECT queen.push('orders', '1')")
    await producer.close(timeout=5)
    owner = await asyncpg.connect(urls["broker"])
    await owner.execute("UPDATE queen.partition_lookup SET last_seq = 0")
    await owner.close(timeout=5)
    assert any(finding.total for finding in await lookup_care.check(admin))
    await lookup_care.resync(admin, lambda _: None)
    assert all(not finding.total for finding in await lookup_care.check(admin))
    token = NewToken(
        "token", "made", hash_token("x"), "qmt_", "made", "admin", None, None, None, None
    )
    assert (await store_token(admin, token, target="t"))["name"] == "made"


async def test_what_others_put_into_the_schema_keeps_its_owner(
    urls: dict[str, str], superuser_url: str
) -> None:
    session = await asyncpg.connect(superuser_url)
    await session.execute("CREATE TABLE queen.shop_orders (id serial)")
    await session.execute("CREATE FUNCTION queen.shop_total() RETURNS int LANGUAGE sql RETURN 1")
    await make_roles(superuser_url, PREFIX)
    owners = await session.fetch(
        "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'queen.shop_orders'::regclass"
        " UNION ALL SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'shop_total'"
        " UNION ALL SELECT relowner::regrole::text FROM pg_class"
        " WHERE oid = 'queen.messages'::regclass"
        " UNION ALL SELECT proowner::regrole::text FROM pg_proc"
        " WHERE oid = 'queen.delete_queue'::regproc"
    )
    user = await session.fetchval("SELECT current_user::text")
    ours = f"{PREFIX}broker"
    assert [row[0] for row in owners] == [user, user, ours, ours]
    readable = "SELECT has_table_privilege($1, 'queen.shop_orders', 'SELECT')"
    assert not await session.fetchval(readable, f"{PREFIX}admin")
    await session.close(timeout=5)


@pytest.mark.parametrize("prefix", ["", "Upper", "a; DROP ROLE x", "x" * 40, "1a", 'a"b'],
                         ids=["empty", "upper", "code", "long", "digit", "quote"])  # fmt: skip
async def test_a_prefix_that_is_no_name_is_refused(database_url: str, prefix: str) -> None:
    with pytest.raises(InvalidRequest, match="prefix"):
        await make_roles(database_url, prefix)


def test_commands_name_the_role_that_lacks_rights(urls: dict[str, str]) -> None:
    for words in (["check"], ["vacuum-report"], ["resync-lookup"]):
        ended = run_queen("db", *words, "--database-url", urls["producer"])
        if ended.code == 0:
            # Statistics are public.
            assert words == ["vacuum-report"]
            continue
        assert ended.code == 1 and "role made_producer may not do this" in ended.err
        assert "queen_admin" in ended.err and "fix the database" not in ended.err
