"""Turns Arrow batches of a DataFrame into batches of messages to write, and finds bad rows.

A batch is first checked as a whole. Only if something is wrong, its rows are checked one by one, to
name the bad ones and the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from queenmq.errors import InvalidRequest
from queenmq.ids import parse_uuid
from queenmq.spark.sink.options import (
    COLUMNS,
    NAME_BYTES_MAX,
    NAME_LENGTH_MAX,
    SEALED_FOR,
    SinkOptions,
    name_problem,
)

#: Rows per batch of what was sorted.
_ROWS = 10_000
#: A value in an error message is cut here.
_SHOWN = 60
_json = msgspec.json.Decoder(msgspec.Raw)

#: Tells whether a queue is encrypted.
IsEncrypted = Callable[[str], bool]


@dataclass
class _Row:
    """One row as it came; bytes, because Spark's strings may hold anything."""

    queue: bytes | None
    partition: bytes | None
    payload: bytes | None
    transaction_id: bytes | None
    trace_id: bytes | None


def check_batches(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, is_encrypted: IsEncrypted
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order and with the columns in which they are to be written: texts, and
    where a payload was encrypted for if rows say so.
    """
    for batch in _sort_batches(batches, options.sort_within):
        if batch.num_rows == 0:
            continue
        columns = _columns(batch, options)
        if not _is_clean(columns):
            columns = _sorted_out(batch, columns, options, is_encrypted)
        if SEALED_FOR in batch.schema.names:
            columns[SEALED_FOR] = batch.column(SEALED_FOR)
        yield pa.record_batch(columns)


def _sort_batches(
    batches: Iterable[pa.RecordBatch], names: tuple[str, ...]
) -> Iterable[pa.RecordBatch]:
    if not names:
        return batches
    held = list(batches)
    if not held:
        return held
    table = pa.Table.from_batches(held)
    # Stable, and nulls first, as Spark sorts; Arrow's own option for that differs by version.
    keys = {}
    for place, name in enumerate(names):
        keys[f"{place} is there"] = pc.is_valid(table[name])
        keys[f"{place}"] = table[name]
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
    sorted_batches: list[pa.RecordBatch] = (
        table.take(order).combine_chunks().to_batches(max_chunksize=_ROWS)
    )
    return sorted_batches


def _columns(batch: pa.RecordBatch, options: SinkOptions) -> dict[str, pa.Array]:
    constants = {"queue": options.queue, "partition": options.partition}
    columns = {}
    for name in COLUMNS:
        if name in options.columns:
            columns[name] = batch.column(name).cast(pa.string())
        elif (value := constants.get(name)) is not None:
            columns[name] = pa.repeat(pa.scalar(value, pa.string()), batch.num_rows)
        else:
            columns[name] = pa.nulls(batch.num_rows, pa.string())
    return columns


def _is_clean(columns: dict[str, pa.Array]) -> bool:
    """Return whether all rows can be written; cheap, because they nearly always can."""
    if any(columns[name].null_count for name in ("queue", "partition", "payload")):
        return False
    try:
        for array in columns.values():
            array.validate(full=True)
        for raw in columns["payload"].cast(pa.binary()).to_pylist():
            _json.decode(raw)
    except (pa.ArrowInvalid, msgspec.DecodeError, RecursionError):
        return False
    names = ("queue", "partition", "transaction_id")
    return all(_are_names(columns[name]) for name in names) and _are_uuids(columns["trace_id"])


def _are_names(array: pa.Array) -> bool:
    if array.null_count == len(array):
        return True
    lengths = pc.min_max(pc.utf8_length(array))
    return bool(
        lengths["min"].as_py() > 0
        and lengths["max"].as_py() <= NAME_LENGTH_MAX
        and pc.max(pc.binary_length(array)).as_py() <= NAME_BYTES_MAX
        and not pc.any(pc.match_substring(array, "\x00")).as_py()
    )


def _are_uuids(array: pa.Array) -> bool:
    return all(text is None or parse_uuid(text) for text in array.to_pylist())


def _sorted_out(
    batch: pa.RecordBatch,
    columns: dict[str, pa.Array],
    options: SinkOptions,
    is_encrypted: IsEncrypted,
) -> dict[str, pa.Array]:
    """Return the columns with dead letters in the place of bad rows; an error where none are
    wanted.
    """
    raw = [columns[name].cast(pa.binary()).to_pylist() for name in COLUMNS]
    rows = [_Row(*values) for values in zip(*raw, strict=True)]
    for place, row in enumerate(rows):
        problem = _problem(row)
        if problem is None:
            continue
        if not options.has_dead_letters:
            raise InvalidRequest(f"the row with {_key(row)} cannot be written: {problem}")
        letter = _dead_letter(row, problem, batch.slice(place, 1), options)
        _check_secrecy(row, letter, problem, is_encrypted)
        rows[place] = letter
    return {
        name: pa.array([getattr(row, name) for row in rows], pa.binary()).cast(pa.string())
        for name in COLUMNS
    }


def _problem(row: _Row) -> str | None:
    for name in ("queue", "partition", "transaction_id"):
        value = getattr(row, name)
        if value is None and name == "transaction_id":
            continue
        problem = "is null" if value is None else _text_problem(value)
        if problem:
            return f"{name} {problem}"
    if row.trace_id is not None and parse_uuid(row.trace_id.decode(errors="replace")) is None:
        return "trace_id is not a UUID"
    return _payload_problem(row.payload)


def _text_problem(value: bytes) -> str | None:
    try:
        return name_problem(value.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"


def _payload_problem(payload: bytes | None) -> str | None:
    if payload is None:
        return "payload is null"
    try:
        payload.decode()
        _json.decode(payload)
    except UnicodeDecodeError:
        return "payload is not UTF-8 text"
    except (msgspec.DecodeError, RecursionError) as error:
        return f"payload is not JSON ({error})"
    return None


def _dead_letter(row: _Row, problem: str, row_batch: pa.RecordBatch, options: SinkOptions) -> _Row:
    queue = options.dead_letter_queue
    if queue is None and row.queue is not None and _text_problem(row.queue) is None:
        queue = f"{row.queue.decode()}.deadletter"
    if queue is None or name_problem(queue):
        raise InvalidRequest(
            f"the row with {_key(row)} cannot be written: {problem};"
            " name a queue for such rows by option deadLetterQueue"
        )
    partition = row.partition
    if partition is None or _text_problem(partition):
        partition = b"Default"
    dead_letter = {"error": problem, "row": _values(row_batch)}
    payload = msgspec.json.encode(dead_letter, enc_hook=str)
    return _Row(queue.encode(), partition, payload, None, None)


def _check_secrecy(row: _Row, letter: _Row, problem: str, is_encrypted: IsEncrypted) -> None:
    """Refuse a dead letter that would show what its row was to keep secret."""
    assert letter.queue is not None
    target = letter.queue.decode()
    if row.queue is None or _text_problem(row.queue) or is_encrypted(target):
        return
    if is_encrypted(row.queue.decode()):
        raise InvalidRequest(
            f"the row with {_key(row)} cannot be written: {problem}; its queue is encrypted, and"
            f" queue {target!r} for such rows is not: set encryptionEnabled of that queue, too"
        )


def _values(row_batch: pa.RecordBatch) -> dict[str, Any]:
    """Return one row as it came; bytes that are not text are shown as well as can be."""
    values: dict[str, Any] = {}
    for name, column in zip(row_batch.schema.names, row_batch.columns, strict=True):
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        value = (column.cast(pa.binary()) if is_text else column)[0].as_py()
        values[name] = value.decode(errors="replace") if is_text and value is not None else value
    return values


def _key(row: _Row) -> str:
    parts = (f"{name} {_format_value(getattr(row, name))}" for name in ("queue", "partition"))
    return f"{', '.join(parts)} and transaction_id {_format_value(row.transaction_id)}"


def _format_value(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode(errors="replace")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
