"""Puts messages into queues by SQL, from tests that are no coroutines.

A loop in a thread of its own drives the connections, so that a test can hold a transaction open
while it asks something else.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import asyncpg

from tests.support.waiting import wait_until

Result = TypeVar("Result")

_PUSH = (
    "SELECT queen.push($1, $2::json, partition => $3, transaction_id => $4, trace_id => $5::uuid)"
)
#: One item to each of these partitions, in one transaction.
_PUSH_ALL = (
    "SELECT * FROM queen.push_messages($1, $2, NULL, NULL, $3, NULL, NULL, $4, NULL, 10000, false,"
    " false, NULL)"
)
_ENSURE = "SELECT partition_id FROM queen.ensure_partitions($1, $2, NULL) ORDER BY 1"
_ANSWER_S = 60
#: Whether every transaction has ended that began before a point.
_NOW = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS point"
_ENDED = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8 AS is_ended"


class Feed:
    """Connections to one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._sessions = [self.run(asyncpg.connect(url))]
        #: Transactions of the test that are open.
        self.open = 0

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Wait for something on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_ANSWER_S)

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> Any:
        """Begin something on the loop; the result is a future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def push(
        self,
        queue: str,
        payload: object = None,
        *,
        partition: str = "Default",
        transaction_id: str | None = None,
        trace_id: str | None = None,
        session: asyncpg.Connection | None = None,
    ) -> None:
        arguments = (queue, json.dumps(payload), partition, transaction_id, trace_id)
        self.run((session or self._sessions[0]).execute(_PUSH, *arguments))
        self.settle()

    def settle(self) -> None:
        """Wait until streams may read what was committed so far.

        They read up to the oldest open transaction of the server, which may be one of autovacuum or
        of a broker in another database. A test that holds a transaction itself is not kept waiting.
        """
        if self.open:
            return
        point = self.rows(_NOW)[0]["point"]
        wait_until(
            lambda: self.rows(_ENDED, point)[0]["is_ended"],
            timeout_s=_ANSWER_S,
            what="the end of other transactions on the server",
        )

    def push_all(self, queue: str, partitions: Sequence[str], *, times: int = 1) -> None:
        """Each time one message to each partition, each time in one transaction."""
        ids = [row[0] for row in self.rows(_ENSURE, [queue] * len(partitions), list(partitions))]
        order = list(range(1, len(ids) + 1))
        for number in range(times):
            payloads = [json.dumps(number)] * len(ids)
            self.run(self._sessions[0].execute(_PUSH_ALL, ids, order, payloads, [len(ids)]))
        self.settle()

    def push_many(self, queue: str, payloads: Sequence[object], *, partition: str) -> None:
        """All of them in one push: messages of one partition, one transaction and one time."""
        ids = [row[0] for row in self.rows(_ENSURE, [queue], [partition])]
        texts = [json.dumps(payload) for payload in payloads]
        order = [1] * len(texts)
        self.run(self._sessions[0].execute(_PUSH_ALL, ids, order, texts, [len(texts)]))
        self.settle()

    def rows(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        return self.run(self._sessions[0].fetch(statement, *arguments))

    def execute(self, statement: str, *arguments: object) -> None:
        self.rows(statement, *arguments)

    def session(self, **options: Any) -> asyncpg.Connection:
        """One more session, closed at the end."""
        opened = self.run(asyncpg.connect(self.url, **options))
        self._sessions.append(opened)
        return opened

    def begin(self, **options: Any) -> Transaction:
        """A transaction that stays open until it is told otherwise."""
        return Transaction(self, self.session(**options))

    async def write(self, queue: str, partition: str, count: int, *, seed: int) -> int:
        """Push so many in transactions of one to five, a third of which are rolled back; how many
        messages were committed.
        """
        chance = random.Random(seed)
        committed = 0
        session = await asyncpg.connect(self.url)
        try:
            for number in range(count):
                transaction = session.transaction()
                await transaction.start()
                size = chance.randint(1, 5)
                for item in range(size):
                    payload = json.dumps([number, item])
                    place = f"{partition}-{chance.randint(0, 2)}"
                    await session.execute(_PUSH, queue, payload, place, None, None)
                if chance.random() < 0.33:
                    await transaction.rollback()
                else:
                    await transaction.commit()
                    committed += size
        finally:
            await session.close()
        return committed

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            self.run(session.close(timeout=5))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Transaction:
    """An open transaction of a session of its own."""

    def __init__(self, feed: Feed, session: asyncpg.Connection) -> None:
        self._feed = feed
        self.session = session
        self._transaction = session.transaction()
        feed.run(self._transaction.start())
        feed.open += 1

    def push(self, queue: str, payload: object = None, *, partition: str = "Default") -> None:
        self._feed.push(queue, payload, partition=partition, session=self.session)

    def commit(self) -> None:
        self._end(self._transaction.commit())

    def rollback(self) -> None:
        self._end(self._transaction.rollback())

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        self._feed.run(ending)
        self._feed.open -= 1
        self._feed.settle()
