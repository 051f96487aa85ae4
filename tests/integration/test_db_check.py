"""`queen db check`: every kind of damage is found and named, a busy system raises no alarm."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

import asyncpg
import pytest

from queenmq.storage.embedded.postmaster import running_postmaster
from queenmq.storage.schema import lookup_care
from tests.isolation.sessions import (
    Connect,
    Item,
    Want,
    ack,
    acks_of,
    ensure,
    pop,
    pop_one,
    push,
    push_all,
)
from tests.support.broker import SOON_S, running_broker, unique
from tests.support.plain_sql import insert

_WITHOUT_TRIGGER = "ALTER TABLE queen.messages DISABLE TRIGGER messages_track_inserts"
_PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


async def _damage(url: str) -> dict[str, int]:
    return {found.kind.name: found.total for found in await lookup_care.check(url) if found.total}


async def _examples(url: str, kind: str) -> list[str]:
    (found,) = [found for found in await lookup_care.check(url) if found.kind.name == kind]
    return found.examples


async def _prepare(database: asyncpg.Connection) -> UUID:
    """A queue as a broker leaves it: consumed, leased, dead letters, a lease over two."""
    place, other, third = await ensure(database, "orders", "here", "b", "c")
    for one in (place, other, third):
        await push_all(database, one, 1, 2, 3, 4, 5)
    popped = await pop_one(database, place, "g", batch=1)
    await ack(database, *acks_of(popped, group="g"))
    await pop_one(database, place, "g", batch=2)
    await pop(database, Want([other, third], "h", batch=10))
    return place


class Damage(NamedTuple):
    """A change to a sound database, what is found then, and what the example says."""

    kind: str
    statement: str
    total: int
    says: str


_LOOKUP = "UPDATE queen.partition_lookup SET {} WHERE partition_id = $1"
_CURSOR = "UPDATE queen.partition_consumers SET {} WHERE partition_id = $1"
_MADE_CURSOR = """
INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id{0})
SELECT {2}, 'lost', {3}{1} FROM queen.partitions WHERE id = $1
"""

DAMAGES = [
    Damage(
        "lookup_missing",
        "DELETE FROM queen.partition_lookup WHERE partition_id = $1",
        1,
        r"^orders/here$",
    ),
    Damage("lookup_missing", _LOOKUP.format("queue_id = gen_random_uuid()"), 1, "^orders/here$"),
    Damage(
        "lookup_behind",
        _LOOKUP.format("last_seq = 4"),
        1,
        r"^orders/here: last_seq is 4, the newest message has 5$",
    ),
    Damage(
        "lookup_behind",
        _LOOKUP.format("last_message_id = gen_random_uuid()"),
        1,
        r"^orders/here: last_message_id is \S+, message 5 has ",
    ),
    Damage(
        "lookup_behind",
        _LOOKUP.format("last_message_id = NULL, last_seq = 9"),
        1,
        r"^orders/here: last_message_id is ",
    ),
    Damage(
        "lookup_behind",
        _LOOKUP.format("last_message_created_at = last_message_created_at - interval '1 ms'"),
        1,
        r"^orders/here: last_message_created_at is .*, message 5 has ",
    ),
    Damage(
        "lookup_hollow",
        "DELETE FROM queen.messages WHERE partition_id = $1 AND seq < 3",
        1,
        r"^orders/here: first_seq is 1, the first message left has 3$",
    ),
    Damage(
        "lookup_hollow",
        "DELETE FROM queen.messages WHERE partition_id = $1",
        1,
        r"^orders/here: first_seq is 1, no message is left$",
    ),
    Damage(
        "lookup_orphaned",
        "INSERT INTO queen.partition_lookup (partition_id, queue_id)"
        " SELECT gen_random_uuid(), queue_id FROM queen.partitions WHERE id = $1",
        1,
        r"^partition [\w-]{36}$",
    ),
    Damage(
        "cursor_ahead",
        _MADE_CURSOR.format(", cursor_seq", ", 6", "id", "queue_id"),
        1,
        r"^orders/here, group lost: cursor_seq is 6, last_seq 5$",
    ),
    Damage(
        "lease_ahead",
        _CURSOR.format("lease_end_seq = 99"),
        1,
        r"^orders/here, group g: lease_end_seq is 99, last_seq 5$",
    ),
    Damage(
        "cursor_orphaned",
        _MADE_CURSOR.format("", "", "gen_random_uuid()", "queue_id"),
        1,
        r"^partition [\w-]{36}, group lost$",
    ),
    Damage(
        "cursor_orphaned",
        _CURSOR.format("queue_id = gen_random_uuid()"),
        1,
        r"^partition [\w-]{36}, group g, leased$",
    ),
    Damage(
        "lease_partition_orphaned",
        "INSERT INTO queen.lease_partitions"
        " (lease_id, partition_id, consumer_group, partition_ids, created_at)"
        " VALUES (gen_random_uuid(), $1, 'nobody', ARRAY[$1::uuid], now() - interval '2 hours')",
        1,
        r"^lease [\w-]{36}, partition [\w-]{36}, group nobody$",
    ),
    Damage(
        "message_orphaned",
        "INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)"
        " SELECT gen_random_uuid(), n, gen_random_uuid(), queue_id, now(), 'null'"
        " FROM queen.partitions, generate_series(1, 3) AS n WHERE id = $1",
        3,
        r"^partition [\w-]{36}: 1 messages$",
    ),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.kind)
async def test_damage_is_found_and_named(
    database: asyncpg.Connection, database_url: str, damage: Damage
) -> None:
    place = await _prepare(database)
    await database.execute(_WITHOUT_TRIGGER)
    assert await _damage(database_url) == {}
    await database.execute(damage.statement, place)
    assert await _damage(database_url) == {damage.kind: damage.total}
    for example in await _examples(database_url, damage.kind):
        assert re.search(damage.says, example), example


def test_every_kind_is_tried_here() -> None:
    assert {damage.kind for damage in DAMAGES} == {kind.name for kind in lookup_care.KINDS}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.kind)
async def test_what_is_said_to_be_repaired_is_repaired_and_nothing_else(
    database: asyncpg.Connection, database_url: str, damage: Damage
) -> None:
    place = await _prepare(database)
    await database.execute(_WITHOUT_TRIGGER)
    await database.execute(damage.statement, place)
    await lookup_care.resync(database_url, lambda done: None)
    (kind,) = [kind for kind in lookup_care.KINDS if kind.name == damage.kind]
    expected = {} if kind.is_resynced else {damage.kind: damage.total}
    assert await _damage(database_url) == expected


def test_documentation_says_what_each_kind_is_repaired_by() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", _PAGE.read_text(), re.M)
    told = {name: "resync-lookup" in repair for name, repair in rows}
    assert {kind.name: kind.is_resynced for kind in lookup_care.KINDS}.items() <= told.items()


async def test_examples_are_few_and_the_count_is_whole(
    database: asyncpg.Connection, database_url: str
) -> None:
    await ensure(database, unique(), *(f"p{n}" for n in range(40)))
    await database.execute("DELETE FROM queen.partition_lookup")
    assert await _damage(database_url) == {"lookup_missing": 40}
    assert len(await _examples(database_url, "lookup_missing")) == 5


async def test_check_changes_nothing(database: asyncpg.Connection, database_url: str) -> None:
    place = await _prepare(database)
    await database.execute("DELETE FROM queen.messages WHERE partition_id = $1", place)
    query = "SELECT *, xmin, ctid FROM queen.partition_lookup ORDER BY partition_id"
    before = await database.fetch(query)
    assert await _damage(database_url) == {"lookup_hollow": 1}
    assert await database.fetch(query) == before


async def test_rows_that_others_hold_are_not_waited_for(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    await _prepare(database)
    holder = await connect()
    async with holder.transaction():
        await holder.execute("LOCK TABLE queen.partition_lookup, queen.messages IN EXCLUSIVE MODE")
        await holder.fetch("SELECT FROM queen.partition_consumers FOR UPDATE")
        assert await asyncio.wait_for(_damage(database_url), SOON_S) == {}


class _Traffic:
    """One session that does at random what brokers, SQL scripts and operators do."""

    def __init__(self, session: asyncpg.Connection, number: int) -> None:
        self.session = session
        self.group = f"g{number % 2}"
        self.chance = random.Random(number)

    async def run(self, is_over: asyncio.Event) -> None:
        often, rarely = (
            (self.push, self.consume, self.insert, self.resync),
            (self.clear, self.delete),
        )
        while not is_over.is_set():
            step = self.chance.choice(rarely if self.chance.random() < 0.1 else often)
            try:
                await step(f"q{self.chance.randrange(3)}")
            except asyncpg.PostgresError as error:
                # Deleted meanwhile is an answer; a deadlock is none.
                assert error.sqlstate == "QN001", repr(error)

    async def push(self, queue: str) -> None:
        places = await ensure(self.session, queue, "a", "b", "c")
        await push(self.session, *(Item(place, 1) for place in places for _ in range(3)))

    async def consume(self, queue: str) -> None:
        places = await ensure(self.session, queue, "a", "b", "c")
        for popped in await pop(self.session, Want(places, self.group, batch=20)):
            if popped.messages:
                await ack(self.session, *acks_of(popped, group=self.group))

    async def insert(self, queue: str) -> None:
        async with self.session.transaction():
            (place,) = await ensure(self.session, queue, self.chance.choice("abc"))
            last = await self.session.fetchval(
                "SELECT last_seq FROM queen.partition_lookup WHERE partition_id = $1"
                " FOR NO KEY UPDATE",
                place,
            )
            await insert(self.session, place, last + 1, last + 2)

    async def resync(self, queue: str) -> None:
        places = await ensure(self.session, queue, "c", "a", "b")
        row = await self.session.fetchrow(
            "SELECT * FROM queen.resync_lookup($1, 60000)", self.chance.sample(places, 3)
        )
        assert (row["created"], row["repaired"]) == (0, 0)

    async def clear(self, queue: str) -> None:
        await self.session.fetchval("SELECT queen.clear_queue($1, NULL)", queue)

    async def delete(self, queue: str) -> None:
        await self.session.fetchval("SELECT queen.delete_queue($1)", queue)


async def test_busy_system_raises_no_alarm(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    is_over = asyncio.Event()
    sessions = [await connect() for _ in range(5)]
    traffic = [
        asyncio.create_task(_Traffic(session, number).run(is_over))
        for number, session in enumerate(sessions)
    ]
    try:
        for _ in range(40):
            assert await _damage(database_url) == {}
            assert not any(task.done() for task in traffic)
    finally:
        is_over.set()
        await asyncio.gather(*traffic)
    assert await _damage(database_url) == {}
    assert await database.fetchval("SELECT count(*) FROM queen.partitions")


# The command.


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queenmq", "db", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)


async def test_command_says_that_all_is_well(
    database: asyncpg.Connection, database_url: str
) -> None:
    await _prepare(database)
    ended = await asyncio.to_thread(_run, "--database-url", database_url)
    assert (ended.returncode, ended.stderr) == (0, "")
    *lines, verdict = ended.stdout.splitlines()
    assert lines == [f"{kind.name}: 0 {kind.what}" for kind in lookup_care.KINDS]
    assert verdict == "all is well"


async def test_command_names_what_it_found_and_what_repairs_it(
    database: asyncpg.Connection, database_url: str
) -> None:
    await ensure(database, "orders", *(f"p{n}" for n in range(8)))
    await database.execute(
        "UPDATE queen.partition_lookup SET partition_id = gen_random_uuid()"
        " WHERE partition_id IN (SELECT id FROM queen.partitions WHERE name < 'p7')"
    )
    ended = await asyncio.to_thread(_run, "--database-url", database_url)
    assert (ended.returncode, ended.stderr) == (6, "")
    lines = ended.stdout.splitlines()
    start = lines.index("lookup_missing: 7 partitions without a lookup row")
    assert all(line.startswith("    orders/p") for line in lines[start + 1 : start + 6])
    assert lines[start + 6] == "    ..."
    assert "lookup_orphaned: 7 lookup rows whose partition is gone" in lines
    assert lines[-1] == "queen db resync-lookup repairs lookup_missing"


async def test_command_speaks_json(database: asyncpg.Connection, database_url: str) -> None:
    place = await _prepare(database)
    ended = await asyncio.to_thread(_run, "-o", "json", "--database-url", database_url)
    assert ended.returncode == 0
    said = json.loads(ended.stdout)
    assert said["isWell"] is True
    assert list(said["kinds"]) == [kind.name for kind in lookup_care.KINDS]
    await database.execute("DELETE FROM queen.messages WHERE partition_id = $1", place)
    ended = await asyncio.to_thread(_run, "-o", "json", "--database-url", database_url)
    assert ended.returncode == 6
    said = json.loads(ended.stdout)
    assert said["isWell"] is False
    assert said["kinds"]["lookup_hollow"] == {
        "what": "lookup rows that promise messages which are gone",
        "total": 1,
        "examples": ["orders/here: first_seq is 1, no message is left"],
        "isResynced": True,
    }


def test_command_looks_into_a_data_directory(data_dir: Path) -> None:
    with running_broker(data_dir=data_dir):
        ended = _run("--data-dir", str(data_dir))
    assert (ended.returncode, ended.stderr) == (0, "")
    # The broker is gone. The command runs its server, and stops it.
    ended = _run("--data-dir", str(data_dir))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert running_postmaster(data_dir / "postgres") is None


def test_database_without_a_schema_is_not_called_well(empty_database_url: str) -> None:
    ended = _run("--database-url", empty_database_url)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1 and "queen" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--database-url", "postgresql://a/b", "--data-dir", "c"], 2, id="both"),
        pytest.param(["--data-dir", f"no-such-directory-{uuid4()}"], 3, id="no cluster"),
        pytest.param(["--database-url", "postgresql://nobody@127.0.0.1:1/none"], 4, id="nobody"),
        pytest.param(["--no-such-flag"], 2, id="usage"),
    ],
)
def test_command_that_cannot_look_does_not_call_it_damage(arguments: list[str], code: int) -> None:
    ended = _run(*arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.count("\n") == 1
