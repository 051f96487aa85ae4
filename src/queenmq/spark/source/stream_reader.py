"""Follows queues by transaction horizon, batch after batch, each message once."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from queenmq.clock import now_ms
from queenmq.errors import StorageRejected, StorageUnavailable
from queenmq.spark.database.connection import Database
from queenmq.spark.database.outages import Outages
from queenmq.spark.database.sql_text import fill, load
from queenmq.spark.progress.measures import Measures
from queenmq.spark.progress.pacing import Pace
from queenmq.spark.source.holders import Holders
from queenmq.spark.source.idle import Idle
from queenmq.spark.source.offsets import (
    Position,
    Start,
    batch_bounds,
    digest,
    end_of_batch,
    missing_messages,
)
from queenmq.spark.source.options import ReadOptions
from queenmq.spark.source.planning import (
    Queues,
    count,
    find_queues,
    horizon,
    lost,
    plan,
    read_split,
)
from queenmq.spark.source.selection import Selection
from queenmq.spark.source.stream_history import StreamHistory

#: Counting a lag ends here.
LAG_MAX = 1_000_000
#: Between two looks at the lag of a stream that does not move.
PUBLISH_AGAIN_MS = 5_000

Answer = TypeVar("Answer")


class QueenStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Lives in a separate process beside the driver. Tasks only call `read`."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        #: Kept between calls, because Spark asks all the time. Never inside a transaction.
        self._database: Database | None = None
        #: The end of a run with Trigger.AvailableNow.
        self._target: int | None = None
        #: Whether this reader has checked for messages that were removed unread.
        self._is_counted = False
        self._may_publish = False
        #: Position and lag as last published, and when.
        self._published: tuple[int, int] | None = None
        self._published_ms = 0.0
        self._holders = Holders(options.warn_after_s)
        self._outages = Outages(options.retry_s)
        #: The database has answered once, so it is worth waiting for.
        self._was_there = False
        self._history = StreamHistory(options)
        self._horizon: int | None = None
        self._measures = Measures()
        self._pace = Pace(options.min_messages, options.trigger_delay_ms)
        self._idle = Idle(options.scope)

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new stream starts."""
        return self._ask(self._initial).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what one batch may hold at most."""
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Set the end. Later messages are for the next run."""
        self._target = self._ask(horizon)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch, or its start if there is nothing to read."""
        first = Position.from_json(start)
        # Without an end to reach, the query goes on meanwhile and its progress says why.
        is_endless = self._target is None
        try:
            question = partial(self._next, first=first, limit=limit)
            end = (
                self._try(partial(self._wait, first, question))
                if is_endless
                else self._ask(question)
            )
        except StorageUnavailable as error:
            if not (is_endless and self._was_there):
                raise
            threading.Event().wait(self._outages.begin(error))
            return start
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Report the horizon, and its holder, to the progress of the query."""
        if self._horizon is None:
            return None
        report = {"xid": str(self._horizon), **self._measures.report()}
        waits_for = self._outages.text or self._holders.text
        if waits_for:
            report["waitsFor"] = waits_for
        if self._outages.count:
            report["outages"] = str(self._outages.count)
        return report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch. Every call gives the same rows."""
        first, last = batch_bounds(start, end)
        if first.xid >= last.xid:
            return []
        return self._ask(lambda database: self._tasks(database, first, last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        return read_split(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Publish the position of the stream after a batch, if it has a group."""
        position = Position.from_json(end)
        # This is only a report. The next batch handles a database that is away.
        with contextlib.suppress(StorageUnavailable):
            self._try(lambda database: self._publish(database, position))

    def stop(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _ask(self, question: Callable[[Database], Answer]) -> Answer:
        """Return the answer. Wait for a database that is away, and repeat the question."""
        while True:
            try:
                return self._try(question)
            except StorageUnavailable as error:
                if not self._was_there:
                    raise
                threading.Event().wait(self._outages.begin(error))

    def _try(self, question: Callable[[Database], Answer]) -> Answer:
        """Retry once over a new connection if the kept one is gone."""
        if self._database is not None:
            try:
                return self._answer(question, self._database)
            except StorageUnavailable:
                self.stop()
        self._database = Database(self._options.url)
        self._history.reset()
        self._idle.reset()
        return self._answer(question, self._database)

    def _answer(self, question: Callable[[Database], Answer], database: Database) -> Answer:
        answer = question(database)
        self._was_there = True
        self._outages.end()
        return answer

    def _initial(self, database: Database) -> Position:
        queues = find_queues(database, self._options.scope)
        query = uuid4().hex
        # Take this first, so that later deletions are above it.
        seen = horizon(database)
        start = Position(
            self._first(database, queues),
            seen=seen,
            database=self._history.begin(database),
            query=query,
            is_initial=True,
        )
        return self._count(database, queues, start)

    def _wait(
        self, first: Position, poll: Callable[[Database], Position | None], database: Database
    ) -> Position | None:
        """Look once there may be something: Spark asks again at once where nothing is new."""
        if not self._idle.is_poll_needed(database, first.xid):
            return None
        end = poll(database)
        self._idle.note_poll(first.xid, is_empty=end is None)
        return end

    def _next(self, database: Database, first: Position, limit: ReadLimit) -> Position | None:
        """Return the end of the next batch. None means: there is nothing to read."""
        self._check_publishing(database)
        queues = find_queues(database, self._options.scope)
        self._horizon = seen = newest = horizon(database)
        self._history.check(database, first, seen)
        self._holders.check(database, queues.selection, newest)
        if self._target is not None:
            newest = min(newest, self._target)
        selection = queues.selection.between(first.xid, newest)
        end = None if selection.is_empty else _end(database, selection, limit)
        if end is not None and self._waits_for_more(database, selection):
            end = None
        self._measures.measure(database, queues.selection, first.xid, end)
        if end is not None or first.queues != _digest(queues):
            self._history.check_deleted(database, first)
        if end is None:
            # Spark commits a batch when it begins the next one, which may take long.
            self._publish(database, first)
            return None
        position = self._history.note(database, first, end, seen)
        if self._is_counted and end < newest and first.queues == _digest(queues):
            # Behind by far: all that waits was counted when the reader began, and will be
            # again when it has caught up. Until then the batch alone is.
            return _continue(database, selection.between(first.xid, end), first, position)
        counted = self._count(database, queues, position)
        self._history.check_count(first, counted)
        return counted

    def _waits_for_more(self, database: Database, waiting: Selection) -> bool:
        # A run with an end reads all messages, however few.
        if not self._pace.is_set or self._target is not None:
            return False
        messages = count(database, waiting, limit=self._pace.messages_min or 1)
        return self._pace.waits(messages, now_ms())

    def _tasks(
        self, database: Database, first: Position, last: Position
    ) -> Sequence[InputPartition]:
        self._history.check(database, last, horizon(database))
        self._history.check_deleted(database, first)
        queues = find_queues(database, self._options.scope)
        selection = queues.selection.between(first.xid, last.xid)
        found = plan(
            database,
            selection,
            pieces=self._options.min_partitions,
            task_bytes=self._options.task_bytes,
        )
        missing = missing_messages(first, last, _digest(queues), found.messages)
        if missing and self._options.fail_on_data_loss:
            raise lost(missing)
        return found.splits

    def _publish(self, database: Database, position: Position) -> None:
        if self._options.consumer_group is None:
            return
        is_moved = self._published is None or self._published[0] != position.xid
        # A stream that is held up stands still while its lag grows.
        if not is_moved and now_ms() < self._published_ms + PUBLISH_AGAIN_MS:
            return
        self._published_ms = now_ms()
        queues = find_queues(database, self._options.scope)
        waiting = replace(queues.selection, start=position.xid)
        lag = count(database, waiting, limit=LAG_MAX)
        if self._published == (position.xid, lag):
            return
        parameter = {
            "group": self._options.consumer_group,
            "query": position.query or "",
            "queues": json.dumps(queues.names),
            "xid": str(position.xid),
            "lag": lag,
        }
        database.execute(load("positions")["publish"], parameter)
        self._published = position.xid, lag

    def _first(self, database: Database, queues: Queues) -> int:
        start = self._options.starting or Start("latest")
        if start.kind == "xid":
            return start.xid
        if start.kind == "earliest":
            return 0
        # Before the look at messages: one that commits in between is above it.
        newest = horizon(database)
        if start.time is None or queues.selection.is_empty:
            return newest
        since = fill(
            load("read")["first_since"], selection=queues.selection.condition(), time=start.time
        )
        return min([newest, *(int(row["xid"]) for row in database.rows(since))])

    def _count(self, database: Database, queues: Queues, position: Position) -> Position:
        """Add the number of messages ever stored before the position."""
        if not self._options.fail_on_data_loss or queues.selection.is_empty:
            return position
        sql = load("read")
        later = replace(queues.selection, start=position.xid)
        lookups = sql["everything"]
        if queues.partitions is not None:
            lookups = fill(sql["some_lookups"], partitions=queues.partitions)
        statement = fill(
            sql["count_before"], queues=queues.ids, lookups=lookups, selection=later.condition()
        )
        self._is_counted = True
        stored = database.row(statement)["messages"]
        return replace(position, count=stored, queues=_digest(queues))

    def _check_publishing(self, database: Database) -> None:
        if self._options.consumer_group is None or self._may_publish:
            return
        found = database.row(load("positions")["may_publish"])
        if not found["is_there"]:
            raise StorageRejected(
                "consumerGroup needs the table queen.spark_positions; start a newer broker once"
            )
        if not found["is_allowed"]:
            raise StorageRejected(
                "consumerGroup needs a role that may SELECT, INSERT and UPDATE"
                " queen.spark_positions; grant that, or leave the option out"
            )
        self._may_publish = True


def _end(database: Database, selection: Selection, limit: ReadLimit) -> int | None:
    """Return the transaction to stop before. None means: nothing waits."""
    rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
    statement = fill(
        load("read")["cut"],
        queues=selection.queues,
        selection=selection.condition(),
        limit=rows,
    )
    found = database.row(statement)
    if found["first"] is None:
        return None
    newest = selection.end or 0
    following = int(found["next"]) if rows and found["next"] is not None else None
    return end_of_batch(int(found["first"]), following, newest)


def _continue(database: Database, batch: Selection, first: Position, end: Position) -> Position:
    if first.count is None:
        return end
    return replace(end, count=first.count + count(database, batch), queues=first.queues)


def _digest(queues: Queues) -> str:
    return digest([*queues.ids, *(queues.partitions or ())])
