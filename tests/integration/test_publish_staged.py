"""queen.publish_staged: a batch of Spark is published whole, in order and once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from uuid import UUID, uuid4

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import (
    Connect,
    Item,
    configure,
    ensure,
    push,
    push_all,
    start_blocked,
)
from tests.support.broker import SOON_S, unique
from tests.support.operations import claim, enqueue, give_back, run
from tests.support.staging import SLICE, Published, Row, Stage, publish, stage, staged, stored

QUERY = "stream:test"
_SWEEP = load_queries("admin")
#: Refusals with a code of our own are answers. A run waits as long for a row as brokers let it.
_EXPECTED = ("QN001", "QN002", "QN003", "QN004", "QN020")
_RUN_WAIT_MS = 100


async def _messages(session: asyncpg.Connection) -> int:
    count: int = await session.fetchval("SELECT count(*) FROM queen.messages")
    return count


async def test_a_batch_becomes_messages_and_leaves_nothing_staged(
    database: asyncpg.Connection,
) -> None:
    trace_id = uuid4()
    one = await stage(database, Row("orders", {"n": 1}, "a", "tx-1", trace_id))
    assert await publish(database, QUERY, 0, one) == Published(False, 1, 0, 0)
    row = await database.fetchrow("SELECT transaction_id, trace_id, payload FROM queen.messages")
    assert tuple(row or ()) == ("tx-1", trace_id, '{"n": 1}')
    assert await staged(database) == 0
    commit = await database.fetchrow("SELECT query_id, batch_id, messages FROM queen.spark_commits")
    assert tuple(commit or ()) == (QUERY, 0, 1)


async def test_payloads_are_stored_as_they_were_written(database: asyncpg.Connection) -> None:
    stage_id = uuid4()
    text = '{ "b":1, "a" : "\\u0000 é" }'
    await database.execute(
        "INSERT INTO queen.spark_staging (stage_id, ordinal, queue, partition, payloads)"
        " VALUES ($1, 1, 'q', 'p', $2)",
        stage_id,
        [text],
    )
    await publish(database, QUERY, 0, Stage(stage_id, 1))
    assert await database.fetchval("SELECT payload::text FROM queen.messages") == text


async def test_the_second_publication_of_a_batch_adds_nothing(
    database: asyncpg.Connection,
) -> None:
    await publish(database, QUERY, 7, await stage(database, Row("q", 1)))
    again = await stage(database, Row("q", 1), Row("q", 2))
    assert await publish(database, QUERY, 7, again) == Published(True, 0, 0, 0)
    assert await stored(database, "q") == [1]
    assert await staged(database) == 0, "what was staged for it is gone as well"


@pytest.mark.parametrize(("query_id", "batch_id"), [(QUERY, 8), ("stream:other", 7)])
async def test_another_batch_or_query_is_published(
    database: asyncpg.Connection, query_id: str, batch_id: int
) -> None:
    await publish(database, QUERY, 7, await stage(database, Row("q", 1)))
    assert not (
        await publish(database, query_id, batch_id, await stage(database, Row("q", 2)))
    ).is_repeat
    assert await stored(database, "q") == [1, 2]


async def test_order_is_that_of_the_stages_as_given_and_of_rows_within(
    database: asyncpg.Connection,
) -> None:
    stages = [
        await stage(
            database, *(Row("q", [task, n, name], name) for n in range(50) for name in "abc")
        )
        for task in range(4)
    ]
    chance = random.Random(5)
    chance.shuffle(stages)
    order = [json.loads(await _first_payload(database, one.id))[0] for one in stages]
    await publish(database, QUERY, 0, *stages)
    for name in "abc":
        expected = [[task, n, name] for task in order for n in range(50)]
        assert await stored(database, "q", name) == expected
    gaps = await database.fetchval(
        "SELECT count(*) FROM queen.partition_lookup WHERE last_seq <> 200"
    )
    assert gaps == 0


async def _first_payload(session: asyncpg.Connection, stage_id: UUID) -> str:
    payload: str = await session.fetchval(
        "SELECT payloads[1] FROM queen.spark_staging WHERE stage_id = $1 ORDER BY ordinal LIMIT 1",
        stage_id,
    )
    return payload


async def test_order_holds_over_many_lists(database: asyncpg.Connection) -> None:
    chance = random.Random(11)
    rows = [Row("q", n, f"p{chance.randrange(700)}") for n in range(23_000)]
    half = len(rows) // 2
    stages = [await stage(database, *rows[:half]), await stage(database, *rows[half:])]
    assert (await publish(database, QUERY, 0, *stages)).stored == len(rows)
    is_sorted = await database.fetchval(
        "SELECT bool_and(ordered) FROM (SELECT (payload::text)::int > coalesce(lag("
        "(payload::text)::int) OVER (PARTITION BY partition_id ORDER BY seq), -1) AS ordered"
        " FROM queen.messages) m"
    )
    assert is_sorted
    assert await _messages(database) == len(rows)


async def test_payloads_may_be_large(database: asyncpg.Connection) -> None:
    rows = [Row("q", "x" * 2_000_000 + str(n), f"p{n % 3}") for n in range(20)]
    assert (await publish(database, QUERY, 0, await stage(database, *rows))).stored == 20
    assert len(await stored(database, "q")) == 20


async def test_repeats_leave_no_gaps(database: asyncpg.Connection) -> None:
    chance = random.Random(3)
    rows = [Row("q", n, f"p{n % 7}", f"tx-{chance.randrange(400)}") for n in range(1_000)]
    found = await publish(database, QUERY, 0, await stage(database, *rows))
    first = {}
    for row in rows:
        first.setdefault((row.partition, row.transaction_id), row.payload)
    assert (found.stored, found.duplicates) == (len(first), len(rows) - len(first))
    for name in {row.partition for row in rows}:
        expected = [payload for (place, _), payload in first.items() if place == name]
        assert await stored(database, "q", name) == expected
    assert await _lookup_problems(database) == []


async def test_repeated_transaction_ids_are_stored_once(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, "q", "a")
    await push(database, Item(place, "old", "tx-1"))
    one = await stage(
        database,
        Row("q", "repeat of the stored", "a", "tx-1"),
        Row("q", "first", "a", "tx-2"),
        Row("q", "repeat in the batch", "a", "tx-2"),
        Row("q", "other partition", "b", "tx-1"),
    )
    assert await publish(database, QUERY, 0, one) == Published(False, 2, 2, 0)
    assert await stored(database, "q", "a") == ["old", "first"]
    assert await stored(database, "q", "b") == ["other partition"]


async def test_a_message_id_counts_as_transaction_id_of_a_message_without_one(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, "q", "a")
    pushed = await push_all(database, place, "old")
    (message_id,) = pushed.message_ids
    one = await stage(
        database, Row("q", "repeat", "a", message_id), Row("q", "not one", "b", message_id)
    )
    assert await publish(database, QUERY, 0, one) == Published(False, 1, 1, 0)
    assert await stored(database, "q") == ["old", "not one"]


async def test_a_batch_of_nothing_but_repeats_stores_nothing(database: asyncpg.Connection) -> None:
    rows = [Row("q", n, f"p{n % 3}", f"tx-{n}") for n in range(30)]
    assert (await publish(database, QUERY, 0, await stage(database, *rows))).stored == 30
    again = await stage(database, *rows, *rows)
    assert await publish(database, QUERY, 1, again) == Published(False, 0, 60, 0)
    assert await _messages(database) == 30


async def test_messages_and_lookup_rows_are_those_of_pushes(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, "q", "p0")
    await push_all(database, place, "old")
    # The clock went back since: times within a partition do not.
    await database.execute(
        "UPDATE queen.partition_lookup SET last_message_created_at = now() + interval '1 hour'"
    )
    rows = [Row("q", n, f"p{n % 3}", f"tx-{n}") for n in range(60)]
    assert await publish(database, QUERY, 0, await stage(database, *rows)) == Published(
        False, 60, 0, 0
    )
    wrong = await database.fetch(
        "SELECT m.* FROM queen.messages m WHERE m.payload::text <> '\"old\"'"
        " AND (queen.seq_of_message_id(m.partition_id, m.id::text) IS DISTINCT FROM m.seq"
        " OR m.partition_id = $1 AND m.created_at < now() + interval '50 minutes')",
        place,
    )
    assert wrong == []
    assert await _lookup_problems(database) == []


async def _lookup_problems(session: asyncpg.Connection) -> list[asyncpg.Record]:
    """Lookup rows that do not tell of the newest message, or numbers with a gap."""
    problems: list[asyncpg.Record] = await session.fetch(
        "SELECT l.*, n.* FROM queen.partition_lookup l LEFT JOIN LATERAL (SELECT m.seq, m.id,"
        " m.created_at, count(*) OVER () AS messages FROM queen.messages m"
        " WHERE m.partition_id = l.partition_id ORDER BY m.seq DESC LIMIT 1) n ON true"
        " WHERE (l.last_seq, l.last_message_id, l.last_message_created_at, l.last_seq)"
        " IS DISTINCT FROM (n.seq, n.id, n.created_at, n.messages)"
    )
    return problems


async def test_a_batch_that_waited_for_a_push_comes_after_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await ensure(database, "q", "a")
    producer, publisher = await connect(), await connect()
    transaction = producer.transaction()
    await transaction.start()
    await push(producer, Item(place, "pushed", "tx-1"))
    one = await stage(database, Row("q", "repeat", "a", "tx-1"), Row("q", "new", "a", "tx-2"))
    waiting = await start_blocked(producer, publisher, publish(publisher, QUERY, 0, one))
    await transaction.commit()
    assert await waiting == Published(False, 1, 1, 0), "it sees what was committed meanwhile"
    assert await stored(database, "q") == ["pushed", "new"]
    assert await _lookup_problems(database) == []


async def test_a_queue_at_its_maximum_refuses_the_whole_batch(
    database: asyncpg.Connection,
) -> None:
    await configure(database, "small", max_size=3)
    one = await stage(
        database, *(Row("free", n) for n in range(5)), *(Row("small", n) for n in "abcd")
    )
    with pytest.raises(asyncpg.PostgresError, match="queue small is at its maxSize") as caught:
        await publish(database, QUERY, 0, one)
    assert caught.value.sqlstate == "QN002"
    assert await _messages(database) == 0
    assert await staged(database) == 9, "so that the batch can be tried again"
    await configure(database, "small", max_size=4)
    assert (await publish(database, QUERY, 0, one)).stored == 9


async def test_the_room_of_a_queue_is_shared_by_all_lists(
    database: asyncpg.Connection,
) -> None:
    await configure(database, "small", max_size=7_000)
    one = await stage(database, *(Row("small", n, f"p{n % 10}") for n in range(7_001)))
    with pytest.raises(asyncpg.PostgresError, match="maxSize"):
        await publish(database, QUERY, 0, one)
    await configure(database, "small", max_size=7_001)
    assert (await publish(database, QUERY, 0, one)).stored == 7_001


async def test_rows_go_behind_operations_that_wait(database: asyncpg.Connection) -> None:
    (busy,) = await ensure(database, "q", "busy")
    await enqueue(database, busy, "earlier")
    one = await stage(
        database,
        *(Row("q", [n, name], name, f"{name}-{n}") for n in range(3) for name in ("busy", "free")),
    )
    assert await publish(database, QUERY, 0, one) == Published(False, 3, 0, 3)
    assert await stored(database, "q") == [[n, "free"] for n in range(3)]
    while (claimed := await claim(database)).rows:
        await run(database, claimed)
    assert await stored(database, "q", "busy") == ["earlier", *([n, "busy"] for n in range(3))]
    assert (await publish(database, QUERY, 0, one)).is_repeat


async def test_what_waits_becomes_few_operations(database: asyncpg.Connection) -> None:
    (busy,) = await ensure(database, "q", "busy")
    await enqueue(database, busy, "earlier")
    trace_ids = [uuid4() if n % 3 else None for n in range(12_000)]
    rows = [Row("q", n, "busy", None, trace_id) for n, trace_id in enumerate(trace_ids)]
    assert (await publish(database, QUERY, 0, await stage(database, *rows))).queued == len(rows)
    sizes = await database.fetch(
        "SELECT item_count FROM queen.operation_queue WHERE item_count > 1 ORDER BY seq"
    )
    assert len(sizes) == 3
    assert max(size for (size,) in sizes) < 5_000 + SLICE
    while (claimed := await claim(database)).rows:
        await run(database, claimed)
    assert await stored(database, "q", "busy") == ["earlier", *range(len(rows))]
    found = await database.fetch("SELECT trace_id FROM queen.messages ORDER BY seq OFFSET 1")
    assert [one for (one,) in found] == trace_ids


async def test_repeats_keep_what_belongs_to_the_others(database: asyncpg.Connection) -> None:
    traces = [uuid4() for _ in range(5)]
    rows = [
        Row("q", "first", "a", "tx-1"),
        Row("q", "repeat", "a", "tx-1", traces[1]),
        Row("q", "nameless", "a", None, traces[2]),
        Row("q", "second", "a", "tx-2", traces[3]),
        Row("q", "nameless too", "a"),
    ]
    assert await publish(database, QUERY, 0, await stage(database, *rows)) == Published(
        False, 4, 1, 0
    )
    found = await database.fetch(
        "SELECT payload::jsonb #>> '{}', transaction_id, trace_id FROM queen.messages ORDER BY seq"
    )
    assert [tuple(row) for row in found] == [
        (row.payload, row.transaction_id, row.trace_id) for row in rows if row.payload != "repeat"
    ]


@pytest.mark.parametrize("column", ["transaction_ids", "trace_ids"])
async def test_lists_of_other_lengths_cannot_be_staged(
    database: asyncpg.Connection, column: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="spark_staging_check"):
        await database.execute(
            f"INSERT INTO queen.spark_staging (stage_id, ordinal, queue, partition, payloads,"
            f" {column}) VALUES ($1, 0, 'q', 'p', $2, $3)",
            uuid4(),
            ["1", "2"],
            ["x"],
        )


async def test_too_many_waiting_operations_refuse_the_batch(database: asyncpg.Connection) -> None:
    (busy,) = await ensure(database, "q", "busy")
    operation = (await enqueue(database, busy, "earlier"))[0]
    await database.execute(
        "INSERT INTO queen.operation_queue (id, operation_type, queue_name, partition_name,"
        " queue_id, partition_id, seq, priority, payload, item_count, estimated_size, reason)"
        " SELECT gen_random_uuid(), operation_type, queue_name, partition_name, queue_id,"
        " partition_id, seq + n, priority, payload, item_count, estimated_size, reason"
        " FROM queen.operation_queue, generate_series(1, 9999) n WHERE id = $1",
        operation,
    )
    with pytest.raises(asyncpg.PostgresError) as caught:
        await publish(database, QUERY, 0, await stage(database, Row("q", 1, "busy"), Row("q", 2)))
    assert caught.value.sqlstate == "QN003"
    assert await _messages(database) == 0


async def test_an_operation_queued_while_a_batch_is_published_comes_after_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await ensure(database, "q", "a")
    publisher = await connect()
    transaction = publisher.transaction()
    await transaction.start()
    await publish(publisher, QUERY, 0, await stage(publisher, Row("q", "batch", "a")))
    await enqueue(database, place, "operation")
    claimed = await claim(database)
    running = await start_blocked(publisher, database, run(database, claimed))
    await transaction.commit()
    await running
    assert await stored(database, "q") == ["batch", "operation"]


@pytest.mark.parametrize("missing", ["some", "all", "more"])
async def test_a_stage_that_is_not_what_its_task_counted_is_refused(
    database: asyncpg.Connection, missing: str
) -> None:
    one = await stage(database, *(Row("q", n) for n in range(3 * SLICE)))
    if missing == "all":
        await database.execute("TRUNCATE queen.spark_staging")
    elif missing == "some":
        await database.execute("DELETE FROM queen.spark_staging WHERE ordinal = 1")
    else:
        one = Stage(one.id, one.count - 1)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await publish(database, QUERY, 0, one)
    assert caught.value.sqlstate == "QN020"
    assert await _messages(database) == 0
    fresh = await stage(database, Row("q", 1))
    assert not (await publish(database, QUERY, 0, fresh)).is_repeat, "the batch is still open"


async def test_staged_rows_are_lost_in_a_crash_and_that_is_why_counts_are_checked(
    database: asyncpg.Connection,
) -> None:
    kinds = await database.fetch(
        "SELECT relname, relpersistence::text FROM pg_class"
        " WHERE relname IN ('spark_commits', 'spark_staging') ORDER BY 1"
    )
    assert [tuple(kind) for kind in kinds] == [("spark_commits", "p"), ("spark_staging", "u")]


async def test_of_two_publishers_of_a_batch_one_wins(
    database: asyncpg.Connection, connect: Connect
) -> None:
    for batch_id in range(20):
        stages = [await stage(database, Row("q", batch_id)) for _ in range(3)]
        sessions = [await connect() for _ in stages]
        results = await asyncio.gather(
            *(
                publish(session, QUERY, batch_id, one)
                for session, one in zip(sessions, stages, strict=True)
            )
        )
        assert sorted(result.is_repeat for result in results) == [False, True, True]
        for session in sessions:
            await session.close()
    assert await stored(database, "q") == list(range(20))
    assert await staged(database) == 0


async def test_the_second_publisher_goes_on_when_the_first_gives_up(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    ones = [await stage(database, Row("q", "first")), await stage(database, Row("q", "second"))]
    transaction = first.transaction()
    await transaction.start()
    await publish(first, QUERY, 0, ones[0])
    waiting = await start_blocked(database, second, publish(second, QUERY, 0, ones[1]))
    await transaction.rollback()
    assert not (await waiting).is_repeat
    assert await stored(database, "q") == ["second"]


async def test_a_publisher_that_dies_leaves_nothing_but_staged_rows(
    database: asyncpg.Connection, connect: Connect
) -> None:
    publisher = await connect()
    one = await stage(database, *(Row("q", n) for n in range(10)))
    await publisher.execute("BEGIN")
    await publish(publisher, QUERY, 0, one)
    pid = publisher.get_server_pid()
    await database.execute("SELECT pg_terminate_backend($1, $2)", pid, int(SOON_S * 1000))
    assert await _messages(database) == 0
    assert await staged(database) == 10
    assert (await publish(database, QUERY, 0, one)).stored == 10


async def test_waiting_consumers_are_told_on_commit(
    database: asyncpg.Connection, connect: Connect
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await connect()
    await listener.add_listener("queen_wake", lambda *told: heard.put_nowait(str(told[-1])))
    queues = [unique() for _ in range(3)]
    await publish(database, QUERY, 0, await stage(database, *(Row(name, 1) for name in queues)))
    told = [json.loads(await asyncio.wait_for(heard.get(), SOON_S)) for _ in queues]
    assert sorted(name for one in told for name in one["queues"]) == sorted(queues)
    assert {one["from"] for one in told} == {""}


async def test_discarding_removes_the_named_stages_only(database: asyncpg.Connection) -> None:
    ones = [await stage(database, Row("q", n)) for n in range(3)]
    removed = await database.fetchval("SELECT queen.discard_staged($1)", [ones[0].id, ones[2].id])
    assert removed == 2
    assert (await publish(database, QUERY, 0, ones[1])).stored == 1


async def test_the_sweep_takes_old_stages_whole_and_leaves_young_ones(
    database: asyncpg.Connection,
) -> None:
    old = [await stage(database, *(Row("q", n) for n in range(4 * SLICE))) for _ in range(3)]
    young = await stage(database, *(Row("q", n) for n in range(5)))
    await database.execute(
        "UPDATE queen.spark_staging SET created_at = now() - interval '25 hours'"
        " WHERE stage_id = ANY ($1)",
        [one.id for one in old],
    )
    swept = [await database.fetchval(_SWEEP["sweep_staged"], 86_400, 5) for _ in range(4)]
    assert swept == [5, 5, 2, 0]
    assert (await publish(database, QUERY, 0, young)).stored == 5


async def test_old_commits_of_a_stream_go_but_the_last_hundred(
    database: asyncpg.Connection,
) -> None:
    for batch_id in [*range(0, 300, 50), 300]:
        await publish(database, QUERY, batch_id, await stage(database, Row("q", batch_id)))
    await publish(database, "write:daily", 0, await stage(database, Row("q", "w")))
    await publish(database, "once:x", 0, await stage(database, Row("q", "o")))
    await database.execute(
        "UPDATE queen.spark_commits SET committed_at = now() - interval '2 days'"
    )
    await database.execute(_SWEEP["sweep_single_writes"], 86_400)
    rows = await database.fetch("SELECT query_id, batch_id FROM queen.spark_commits ORDER BY 1, 2")
    kept = [(QUERY, 200), (QUERY, 250), (QUERY, 300), ("write:daily", 0)]
    assert [tuple(row) for row in rows] == kept


class _Chaos:
    """One session that publishes, pushes and queues at random, and something else."""

    def __init__(
        self, session: asyncpg.Connection, queues: list[str], seed: int, others: list[str]
    ) -> None:
        self.session = session
        self.others = others
        self.queues = queues
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.batch_id = 0
        self.query_id = f"stream:{seed}"

    def _places(self) -> list[tuple[str, str]]:
        every = [(queue, name) for queue in self.queues for name in "abcd"]
        return self.chance.sample(every, 5)

    async def publish(self) -> None:
        rows = [Row(queue, self.chance.random(), name) for queue, name in self._places()]
        stages = [await stage(self.session, *rows), await stage(self.session, *rows)]
        self.batch_id += 1
        await publish(self.session, self.query_id, self.batch_id, *stages)

    async def push(self) -> None:
        ids = [(await ensure(self.session, queue, name))[0] for queue, name in self._places()]
        queued = [one for one in ids if self.chance.random() < 0.3]
        await push(self.session, *(Item(one, 1) for one in ids), queued=queued or None)

    async def work(self) -> None:
        claimed = await claim(self.session)
        if not claimed.rows:
            return
        try:
            await run(self.session, claimed, lock_timeout_ms=_RUN_WAIT_MS)
        except asyncpg.PostgresError:
            await give_back(self.session, claimed)
            raise

    async def clear(self) -> None:
        queue = self.chance.choice(self.queues)
        await self.session.execute("SELECT queen.clear_queue($1, NULL)", queue)

    async def delete(self) -> None:
        queue = self.chance.choice(self.queues)
        await self.session.execute("SELECT queen.delete_queue($1)", queue)
        await configure(self.session, queue, max_size=self.chance.choice([0, 500]))

    async def sweep(self) -> None:
        await self.session.fetchval(_SWEEP["sweep_staged"], 0, 10)

    async def run(self) -> None:
        steps = [self.publish, self.push] * 4
        steps += [getattr(self, name) for name in self.others] * 2
        for _ in range(120):
            step = self.chance.choice(steps)
            try:
                await step()
                self.done[step.__name__] += 1
            except asyncpg.PostgresError as error:
                is_held = step == self.work and isinstance(error, asyncpg.LockNotAvailableError)
                if error.sqlstate not in _EXPECTED and not is_held:
                    raise AssertionError(f"{step.__name__}: {error.sqlstate} {error}") from error


@pytest.mark.parametrize("others", [["work", "sweep"], ["clear", "delete", "sweep"]])
async def test_publishing_beside_everything_else_never_deadlocks(
    database: asyncpg.Connection, connect: Connect, others: list[str]
) -> None:
    queues = [unique(), unique()]
    # Queues are removed by one session: an operator is alone.
    every = "work" in others
    chaos = [
        _Chaos(await connect(), queues, seed, others if every or seed == 0 else [])
        for seed in range(6)
    ]
    await asyncio.gather(*(one.run() for one in chaos))
    done = sum((one.done for one in chaos), Counter())
    assert len(done) == 2 + len(others) and min(done.values()) > 0, done
    wrong = await database.fetchval(
        "SELECT count(*) FROM queen.partition_lookup l WHERE l.last_seq <> coalesce((SELECT"
        " max(seq) FROM queen.messages m WHERE m.partition_id = l.partition_id), l.last_seq)"
    )
    assert wrong == 0


async def test_pushes_to_a_partition_wait_until_the_batch_is_committed(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await ensure(database, "q", "a")
    publisher = await connect()
    transaction = publisher.transaction()
    await transaction.start()
    await publish(publisher, QUERY, 0, await stage(publisher, Row("q", "batch", "a")))
    pushing = await start_blocked(publisher, database, push_all(database, place, "later"))
    await transaction.commit()
    await pushing
    assert await stored(database, "q") == ["batch", "later"]
