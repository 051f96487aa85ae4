"""Writes DataFrames and streams to queues, each batch whole and once.

Each attempt of a task stages its rows under its own id. The driver publishes the stages of the
successful attempts in one transaction, which also records the query and batch
(queen.publish_staged). A batch that Spark runs again, because it did not learn of the end, finds
the note and adds nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from queenmq.crypto.keys import make_salt, read_keys
from queenmq.errors import InvalidRequest, QueenError, StorageRejected, StorageUnavailable
from queenmq.ids import random_uuid
from queenmq.spark.runtime.worker_process import calm_garbage_collector
from queenmq.spark.sink import store as sink_store
from queenmq.spark.sink.digests import add_up, digest_messages
from queenmq.spark.sink.lists import make_lists
from queenmq.spark.sink.options import SinkOptions, parse_sink_options
from queenmq.spark.sink.rows import check_batches
from queenmq.spark.sink.sealing import Sealer, key_missing
from queenmq.spark.sink.store import FOREACH, NAMED, Stage, Stager, open_store

logger = logging.getLogger(__name__)

#: Of all tasks; one that failed has none.
Messages = Sequence[WriterCommitMessage | None]

#: The id in the stream's checkpoint: the same after every restart.
_QUERY_ID = "sql.streaming.queryId"
#: What may be wrong with a database, for the tasks to find and to say.
_LATER = (StorageRejected, StorageUnavailable)


@dataclass
class StagedRows(WriterCommitMessage):
    """The result of a task, for the driver."""

    stage_id: str
    rows: int
    query_id: str | None
    digest: int = 0
    bytes: int = 0


def make_writer(
    options: Mapping[str, str],
    schema: Any,
    overwrite: bool,
    kind: type[QueenWriter] | None = None,
) -> QueenWriter:
    """Return the writer of a batch write."""
    if overwrite:
        raise InvalidRequest("a queue cannot be overwritten; use mode append")
    make = kind or QueenWriter
    parsed = _with_keys(parse_sink_options(options, _types(schema), is_stream=False))
    _check_keys(parsed)
    return make(parsed)


def make_stream_writer(
    options: Mapping[str, str], schema: Any, overwrite: bool
) -> QueenStreamWriter:
    """Return the writer of a stream."""
    if overwrite:
        raise InvalidRequest("a queue cannot be overwritten; use output mode append or update")
    # Spark makes one for each batch, so a missing key is left to the tasks to find.
    parsed = parse_sink_options(options, _types(schema), is_stream=True)
    return QueenStreamWriter(_with_keys(parsed))


class QueenWriter(DataSourceArrowWriter):
    """One batch write, which counts as a separate batch 0."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        name = options.write_id
        self._query_id = f"once:{random_uuid()}" if name is None else f"{NAMED}{name}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return _stage(iterator, self._options)

    def commit(self, messages: Messages) -> None:
        batch_id = self._options.batch_id
        if batch_id is None:
            _publish(self._options, self._query_id, 0, messages)
            return
        query_id = _query_id(messages)
        if query_id is None and _stages(messages):
            _discard(self._options, messages)
            raise InvalidRequest(
                "option batchId is for foreachBatch, and this write is part of no stream; leave it"
                " out, and name the write by option writeId if it must happen once"
            )
        name = "" if self._options.write_id is None else f"/{self._options.write_id}"
        _publish(self._options, f"{FOREACH}{query_id}{name}", batch_id, messages)

    def abort(self, messages: Messages) -> None:
        _discard(self._options, messages)


class QueenStreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return _stage(iterator, self._options)

    def commit(self, messages: Messages, batchId: int) -> None:
        query_id = _query_id(messages)
        if query_id is None:
            if _stages(messages):
                raise QueenError(f"Spark gave no task its {_QUERY_ID}, so a batch cannot be named")
            return
        _publish(self._options, f"stream:{query_id}", batchId, messages)

    def abort(self, messages: Messages, batchId: int) -> None:
        _discard(self._options, messages)


def _types(schema: Any) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _with_keys(options: SinkOptions) -> SinkOptions:
    if options.key_file is None:
        return options
    return replace(options, keys=tuple(read_keys(None, options.key_file)))


def _check_keys(options: SinkOptions) -> None:
    """Refuse a queue that needs keys before Spark computes any row for it."""
    if options.keys or options.queue is None:
        return
    with contextlib.suppress(*_LATER), open_store(options.url) as store:
        if store.find_encrypted([options.queue]):
            raise key_missing(options.queue)


def _stage(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> StagedRows:
    calm_garbage_collector()
    stage_id = random_uuid()
    rows, size, digests = 0, 0, [0]
    context = TaskContext.get()
    query_id = context.getLocalProperty(_QUERY_ID) if context else None
    with Stager(options.url, options.retry_s) as stager:
        try:
            sealer = Sealer(options.keys, stager.find_encrypted)
            checked = check_batches(batches, options, sealer.is_encrypted)
            # Digested in clear: each time a payload is encrypted, it looks different.
            sealed = sealer.seal(_digest(checked, options, digests))
            for batch, messages in make_lists(sealed, stage_id):
                size += batch.nbytes
                # Check early: too much for one task is too much for the batch.
                options.check_size(rows + messages, size)
                stager.stage(batch)
                rows += messages
        except BaseException:
            if rows:
                # Else the sweep does it. The first error is reported, not this.
                with contextlib.suppress(Exception):
                    stager.store.discard([Stage(str(stage_id), rows)])
            raise
    return StagedRows(str(stage_id), rows, query_id, add_up(digests), size)


def _digest(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, digests: list[int]
) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, with the digest of each added to a list."""
    secret = make_salt(options.keys, "digest").encode()
    for batch in batches:
        digests.append(digest_messages(batch, secret))
        yield batch


def _make_staged(messages: Messages) -> list[StagedRows]:
    return [one for one in messages if isinstance(one, StagedRows)]


def _query_id(messages: Messages) -> str | None:
    """Return the stream that the tasks were part of, by the id in its checkpoint."""
    return next((one.query_id for one in _make_staged(messages) if one.query_id), None)


def _stages(messages: Messages) -> list[Stage]:
    """Return the stages in the order of the tasks."""
    return [Stage(one.stage_id, one.rows) for one in _make_staged(messages) if one.rows]


def _publish(options: SinkOptions, query_id: str, batch_id: int, messages: Messages) -> None:
    stages = _stages(messages)
    if not stages:
        return
    staged = _make_staged(messages)
    try:
        options.check_size(sum(one.rows for one in staged), sum(one.bytes for one in staged))
    except InvalidRequest:
        _discard(options, messages)
        raise
    digest = add_up(one.digest for one in staged) if options.compares_repeats else None
    published = sink_store.publish(
        options.url, query_id, batch_id, stages, digest, retry_s=options.retry_s
    )
    if published.is_repeat:
        logger.warning("batch %d of %s was published before; nothing added", batch_id, query_id)
    else:
        logger.info("published batch %d of %s: %s", batch_id, query_id, published)


def _discard(options: SinkOptions, messages: Messages) -> None:
    stages = _stages(messages)
    if stages:
        # The sweep removes the remaining rows. Do not hide the error that led here.
        with contextlib.suppress(QueenError), open_store(options.url) as store:
            store.discard(stages)
