"""Two releases on one database under load: nothing is lost, doubled or refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from queenmq.storage.schema.level import LEVEL
from queenmq.storage.schema.migrator import finish_upgrade, migrate
from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.releases import (
    NEXT_LEVEL,
    NEXT_RELEASE,
    make_first_release,
    make_next_release,
    run_command,
)
from tests.support.schema_snapshot import take_snapshot
from tests.support.shared_postgres import SharedPostgres
from tests.support.waiting import wait_until_async

Start = Callable[[str, Path | None], BrokerProcess]
_PRODUCERS = 4
#: Every function, with its body: what an older broker must not touch.
_FUNCTIONS = (
    "SELECT oid, pg_get_functiondef(oid) FROM pg_proc"
    " WHERE pronamespace = 'queen'::regnamespace ORDER BY oid"
)


class Load:
    """Producers and consumers that go through all brokers in turn, and what they were answered.

    Each producer counts up in a partition of its own.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._http = httpx.AsyncClient(timeout=SOON_S, verify=False)
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        #: Where to go; changes while they run.
        self.brokers: list[BrokerProcess] = []
        self.pushed = [0] * _PRODUCERS
        self.got: dict[str, list[int]] = defaultdict(list)
        self.answers: Counter[tuple[str, int]] = Counter()
        self._refusals: list[str] = []
        #: Whether requests may be asked to try again, as while tables are changed.
        self.is_patient = False
        self._open: Counter[str] = Counter()

    def start(self) -> None:
        runs = [self._produce(number) for number in range(_PRODUCERS)]
        runs += [self._consume(number) for number in range(2)]
        self._tasks = [asyncio.create_task(run) for run in runs]

    async def more(self, count: int = 25) -> None:
        """Come back when every broker has answered so many more pushes and acks."""
        before = Counter(self.answers)
        urls = [broker.url for broker in self.brokers]

        def is_enough() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            new = self.answers - before
            return all(
                sum(n for (at, _), n in new.items() if at == f"{url} {verb}") >= count
                for url in urls
                for verb in ("push", "ack")
            )

        await wait_until_async(is_enough, timeout_s=2 * SOON_S, what="every broker to serve")

    async def stop(self, broker: BrokerProcess) -> None:
        """Stop a broker that gets no new requests, once it has answered the last."""
        url = broker.url
        await wait_until_async(
            lambda: not self._open[url], timeout_s=SOON_S, what=f"the last answer of {url}"
        )
        await asyncio.to_thread(broker.stop)

    async def finish(self) -> None:
        """Stop producing, and consume what is left."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        while await self._pop_and_ack(self.brokers[0]):
            pass

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    def check(self) -> None:
        """Nothing failed, and every group of answers is what was pushed, once and in order."""
        assert self._refusals == [], self.answers
        expected = {f"p{n}": list(range(1, count + 1)) for n, count in enumerate(self.pushed)}
        assert dict(self.got) == expected

    async def _produce(self, number: int) -> None:
        turn = number
        while not self._is_over:
            turn += 1
            payload = self.pushed[number] + 1
            item = {"queue": self._queue, "partition": f"p{number}", "payload": payload}
            broker = self.brokers[turn % len(self.brokers)]
            answer = await self._call(broker, "push", "/api/v1/push", {"items": [item]})
            if answer.status_code == 201:
                self.pushed[number] = payload

    async def _consume(self, number: int) -> None:
        turn = number
        while not self._is_over:
            turn += 1
            await self._pop_and_ack(self.brokers[turn % len(self.brokers)])

    async def _pop_and_ack(self, broker: BrokerProcess) -> int:
        path = f"/api/v1/pop/queue/{self._queue}?batch=50&partitions=4&wait=false"
        answer = await self._call(broker, "pop", path)
        messages: list[Any] = answer.json()["messages"] if answer.status_code == 200 else []
        names = ("transactionId", "partitionId", "leaseId")
        acks = [{name: one[name] for name in names} | {"status": "completed"} for one in messages]
        for one in messages:
            self.got[one["partition"]].append(one["data"])
        if acks:
            path = "/api/v1/ack/batch"
            settled = await self._call(broker, "ack", path, {"acknowledgments": acks})
            assert all(one["success"] for one in settled.json()), settled.text
        return len(messages)

    async def _call(
        self, broker: BrokerProcess, verb: str, path: str, body: Any = None
    ) -> httpx.Response:
        method = "GET" if body is None else "POST"
        self._open[broker.url] += 1
        answer = await self._http.request(method, broker.url + path, json=body)
        self._open[broker.url] -= 1
        self.answers[f"{broker.url} {verb}", answer.status_code] += 1
        is_postponed = self.is_patient and answer.status_code == 503 and "try again" in answer.text
        if answer.status_code not in (200, 201, 204) and not is_postponed:
            self._refusals.append(f"{broker.url} {verb}: {answer.status_code} {answer.text}")
        return answer


@pytest.fixture
async def load() -> AsyncIterator[Load]:
    made = Load(unique())
    yield made
    await made.close()


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_next_release(tmp_path_factory.mktemp("next"))


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_first_release(tmp_path_factory.mktemp("first"))
    if path is None:
        pytest.skip("the history of this checkout does not have release 0.1.0")
    return path


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts brokers of this release, or of another one by its sources."""
    with contextlib.ExitStack() as stack:

        def start_broker(url: str, path: Path | None) -> BrokerProcess:
            # A busy machine makes brokers refuse a pop, and that is not what is tested here.
            environ = {"QUEEN_ENABLE_LOAD_MANAGEMENT": "false"}
            if path is not None:
                environ["PYTHONPATH"] = str(path)
            return stack.enter_context(running_broker(database_url=url, **environ))

        yield start_broker


@pytest.fixture
def first_url(postgres: SharedPostgres, empty_database_url: str) -> str:
    """An empty database for a superuser: release 0.1.0 needs one."""
    return postgres.superuser_url_of(urlsplit(empty_database_url).path.strip("/"))


async def _fetch(url: str, query: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def _snapshot(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return await take_snapshot(connection)
    finally:
        await connection.close()


async def _state(url: str) -> tuple[Any, ...]:
    (row,) = await _fetch(url, "SELECT level, oldest_level, release FROM queen.schema_state")
    return row


async def _has_post(url: str) -> bool:
    return bool(await _fetch(url, "SELECT FROM queen.schema_files WHERE name LIKE '%_post_fill%'"))


@pytest.mark.parametrize("order", ["older first", "newer first"])
async def test_releases_run_side_by_side_until_the_upgrade_is_finished(
    order: str, start: Start, next_release: Path, load: Load, database_url: str
) -> None:
    releases = [None, next_release] if order == "older first" else [next_release, None]
    first = start(database_url, releases[0])
    load.brokers = [first]
    load.start()
    await load.more()

    second = await asyncio.to_thread(start, database_url, releases[1])
    load.brokers = [first, second]
    await load.more()
    assert await _state(database_url) == (NEXT_LEVEL, LEVEL, NEXT_RELEASE)
    assert not await _has_post(database_url)
    older, newer = (first, second) if order == "older first" else (second, first)

    # An older broker may come back, and changes nothing.
    load.brokers = [newer]
    await load.more()
    functions = await _fetch(database_url, _FUNCTIONS)
    await load.stop(older)
    older = await asyncio.to_thread(start, database_url, None)
    load.brokers = [older, newer]
    await load.more()
    assert await _fetch(database_url, _FUNCTIONS) == functions

    load.brokers = [newer]
    await load.more()
    await load.stop(older)
    finish = ("db", "finish-upgrade", "--database-url", database_url)
    finished = await asyncio.to_thread(run_command, next_release, *finish)
    assert finished.returncode == 0, finished.stderr
    await load.more()
    await load.finish()
    load.check()

    assert await _state(database_url) == (NEXT_LEVEL, NEXT_LEVEL, NEXT_RELEASE)
    assert await _has_post(database_url)
    with pytest.raises(AssertionError, match=f"too old for the database.*Queen {NEXT_RELEASE}"):
        start(database_url, None)


async def test_the_first_release_runs_beside_this_one_but_does_not_start_again(
    start: Start, first_release: Path, load: Load, first_url: str
) -> None:
    older = start(first_url, first_release)
    load.brokers = [older]
    load.start()
    await load.more()
    # One transaction changes all that changed since. On a busy machine it holds locks for longer
    # than the first release waits for one.
    load.is_patient = True
    newer = await asyncio.to_thread(start, first_url, None)
    load.brokers = [older, newer]
    await load.more()
    load.is_patient = False
    load.brokers = [newer]
    await load.more()
    await load.stop(older)
    functions = await _fetch(first_url, _FUNCTIONS)
    for words in (("serve", "--port", "0"), ("db", "migrate")):
        command = (*words, "--database-url", first_url)
        refused = await asyncio.to_thread(run_command, first_release, *command)
        assert refused.returncode != 0
        assert f"upgraded to schema level {LEVEL}; start that release" in refused.stderr
    assert await _fetch(first_url, _FUNCTIONS) == functions
    await load.more()
    await load.finish()
    load.check()


async def test_an_upgrade_of_the_first_release_gives_the_schema_of_a_fresh_database(
    first_release: Path, first_url: str, database_url: str
) -> None:
    old = run_command(first_release, "db", "migrate", "--database-url", first_url)
    assert old.returncode == 0, old.stderr
    await finish_upgrade(first_url)
    assert await _snapshot(first_url) == await _snapshot(database_url)


async def test_roles_of_the_first_release_keep_what_they_could_call(
    first_release: Path, first_url: str, postgres: SharedPostgres
) -> None:
    run_command(first_release, "db", "migrate", "--database-url", first_url)
    may_call = "SELECT has_function_privilege('{}', oid, 'EXECUTE') FROM pg_proc WHERE"
    try:
        for statement in (
            "CREATE ROLE first_reader",
            "CREATE ROLE first_writer",
            "GRANT USAGE ON SCHEMA queen TO first_reader, first_writer",
            "GRANT SELECT ON queen.messages TO first_reader",
            "GRANT SELECT, INSERT ON queen.messages TO first_writer",
        ):
            await _fetch(first_url, statement)
        await migrate(first_url)
        ours = "pronamespace = 'queen'::regnamespace"
        for role, may_push in (("first_reader", False), ("first_writer", True)):
            rights = await _fetch(
                first_url, f"{may_call.format(role)} {ours} AND proname <> 'push'"
            )
            assert set(rights) == {(True,)}
            push = await _fetch(first_url, f"{may_call.format(role)} {ours} AND proname = 'push'")
            assert push == [(may_push,)]
    finally:
        await _fetch(first_url, "DROP OWNED BY first_reader, first_writer")
        await _fetch(first_url, "DROP ROLE first_reader, first_writer")
