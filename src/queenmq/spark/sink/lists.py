"""Makes lists of rows, as queen.spark_staging takes them: all that a few MB hold for a partition.

The database numbers and joins lists, not rows, and inserts them partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

#: Of the rows that are grouped at a time, and so of a list; a row may have more by itself. More
#: makes longer lists, but also longer transactions.
_BYTES_MAX = 8 * 1024 * 1024
#: Of a list. Both are the bounds of an operation that a list may have to become (queue_staged).
_ITEMS_MAX = 5_000


class Lists(NamedTuple):
    """Rows of queen.spark_staging."""

    batch: pa.RecordBatch
    messages: int


def make_lists(batches: Iterable[pa.RecordBatch], stage_id: UUID) -> Iterator[Lists]:
    """Yield the lists of checked rows (see sink_rows), numbered; in a partition rows keep their
    order.
    """
    ordinal = 0
    for batch in _resize(batches):
        order, offsets = _groups(batch.column("queue"), batch.column("partition"))
        firsts = order.take(pa.array(offsets[:-1]))
        count = len(firsts)
        yield Lists(
            pa.record_batch(
                {
                    "stage_id": pa.repeat(pa.scalar(stage_id.bytes, pa.binary(16)), count),
                    "ordinal": pa.array(range(ordinal, ordinal + count), pa.int64()),
                    "queue": batch.column("queue").take(firsts),
                    "partition": batch.column("partition").take(firsts),
                    "payloads": _make_lists(batch.column("payload"), order, offsets),
                    "transaction_ids": _make_lists(batch.column("transaction_id"), order, offsets),
                    "trace_ids": _make_lists(batch.column("trace_id"), order, offsets),
                    # Of a queue, and so of a list, either all payloads are encrypted or none.
                    "is_encrypted": batch.column("is_encrypted").take(firsts),
                }
            ),
            batch.num_rows,
        )
        ordinal += count


def _resize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches as large as may be."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _pieces(batch):
            if held and size + piece.nbytes > _BYTES_MAX:
                yield pa.concat_batches(held)
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
    if held:
        yield pa.concat_batches(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _BYTES_MAX or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _groups(queue: pa.Array, partition: pa.Array) -> tuple[pa.Array, list[int]]:
    """Return the rows by queue and partition, each in its order, and where the groups begin and
    end.
    """
    queues, partitions = queue.dictionary_encode(), partition.dictionary_encode()
    keys = pc.add(
        pc.multiply(queues.indices.cast(pa.int64()), len(partitions.dictionary)),
        partitions.indices,
    )
    # Arrow's sort is stable.
    order = pc.sort_indices(keys)
    offsets = [0]
    for end in pc.run_end_encode(keys.take(order)).run_ends.to_pylist():
        offsets += range(offsets[-1] + _ITEMS_MAX, end, _ITEMS_MAX)
        offsets.append(end)
    return order, offsets


def _make_lists(values: pa.Array, order: pa.Array, offsets: list[int]) -> pa.Array:
    if values.null_count == len(values):
        return pa.nulls(len(offsets) - 1, pa.list_(pa.string()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.take(order))
