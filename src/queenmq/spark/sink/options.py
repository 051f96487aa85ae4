"""Checks the options and columns of a write before anything runs. Pure.

Every message names the option or column, what is wrong with it and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from queenmq.crypto.keys import Key
from queenmq.errors import InvalidRequest

#: Bounds of every name, as the broker's.
NAME_LENGTH_MAX = 255
NAME_BYTES_MAX = 765

#: Columns that mean something to the sink; others are left alone.
COLUMNS = ("queue", "partition", "payload", "transaction_id", "trace_id")
#: Where a payload was encrypted for, of rows that are copied as they are stored; NULL: in clear.
SEALED_FOR = "_queen_sealed_for"
_DEFAULT_PARTITION = "Default"
_OPTIONS = (
    "url",
    "queue",
    "partition",
    "sortWithin",
    "onError",
    "deadLetterQueue",
    "writeId",
    "batchId",
    "compareRepeats",
    "retrySeconds",
    "maxBatchMessages",
    "maxBatchBytes",
    "encryptionKeys",
)
_RETRY_S = 60
#: Of one publication, which is one transaction: half a minute of one core, a few GB of write-ahead
#: log, and less time than another writer to the same partitions waits for it.
_MESSAGES_MAX = 2_000_000
_BYTES_MAX = 2 * 1024**3
#: Of a number: far more than any of them means.
_DIGITS_MAX = 15
#: Spark hands its own options on.
_SPARKS_OWN = {"checkpointlocation", "queryname"}
#: Spark's types that have no order.
_UNSORTABLE = ("map<", "struct<", "array<", "variant")


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write."""

    url: str
    #: The columns that the DataFrame has of those that mean something.
    columns: frozenset[str]
    #: For all rows; None where the column says it.
    queue: str | None = None
    partition: str | None = None
    sort_within: tuple[str, ...] = ()
    has_dead_letters: bool = False
    dead_letter_queue: str | None = None
    write_id: str | None = None
    #: A batch that was published before has to hold the same rows when it is run again.
    compares_repeats: bool = True
    #: How long to wait for a database that was there and is away.
    retry_s: int = _RETRY_S
    #: What one batch may hold at most.
    messages_max: int = _MESSAGES_MAX
    bytes_max: int = _BYTES_MAX
    #: A batch write that is this batch of the stream which it is part of.
    batch_id: int | None = None
    #: The file with the keys of encrypted queues; its keys are read where the query starts.
    key_file: str | None = None
    keys: tuple[Key, ...] = ()

    def check_size(self, messages: int, size: int) -> None:
        """Refuse a batch, or what one task has of it, that is too large for one transaction."""
        for option, value, bound, what in (
            ("maxBatchMessages", messages, self.messages_max, "messages"),
            ("maxBatchBytes", size, self.bytes_max, "bytes"),
        ):
            if value > bound:
                raise InvalidRequest(
                    f"the batch has {value} {what} or more, and option {option} is {bound}; nothing"
                    f" was published. Make batches smaller, or raise {option}"
                )


def parse_sink_options(
    options: Mapping[str, str], columns: Mapping[str, str], *, is_stream: bool
) -> SinkOptions:
    """Return the options of a write of a DataFrame with these columns and Spark types."""
    given = _read_known(options)
    url = given.get("url", "")
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidRequest(
            "option url must name the PostgreSQL database, as in postgresql://user@host:5432/queen"
        )
    queue = _name(given, "queue")
    partition = _name(given, "partition")
    if partition is None and "partition" not in columns:
        partition = _DEFAULT_PARTITION
    used = _check_columns(columns, has_queue=queue is not None)
    return SinkOptions(
        url,
        used - ({"queue"} if queue else set()) - ({"partition"} if partition else set()),
        queue,
        partition,
        _sort_columns(given.get("sortwithin", ""), columns),
        _has_dead_letters(given),
        _name(given, "deadLetterQueue"),
        _write_id(given, is_stream=is_stream),
        _compares_repeats(given),
        _number(given, "retrySeconds", _RETRY_S, "a number of seconds, 0 or more"),
        _number(given, "maxBatchMessages", _MESSAGES_MAX, "a number of messages"),
        _number(given, "maxBatchBytes", _BYTES_MAX, "a number of bytes"),
        _batch_id(given, is_stream=is_stream),
        given.get("encryptionkeys"),
    )


def name_problem(value: str) -> str | None:
    """Return why a text cannot be the name of a queue or partition, or a transaction id."""
    if not value:
        return "is empty"
    if len(value) > NAME_LENGTH_MAX:
        return f"has {len(value)} characters, more than {NAME_LENGTH_MAX}"
    if len(value.encode()) > NAME_BYTES_MAX:
        return f"has {len(value.encode())} bytes, more than {NAME_BYTES_MAX}"
    if "\x00" in value:
        return "contains a NUL character"
    return None


def _read_known(options: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    unknown = set(given) - {name.lower() for name in _OPTIONS} - _SPARKS_OWN
    if unknown:
        raise InvalidRequest(
            f"option {', '.join(sorted(unknown))} is not known to a write;"
            f" use some of {', '.join(_OPTIONS)}"
        )
    return given


def _name(given: Mapping[str, str], option: str) -> str | None:
    value = given.get(option.lower())
    problem = None if value is None else name_problem(value)
    if problem:
        raise InvalidRequest(
            f"option {option} {problem}; give it 1 to {NAME_LENGTH_MAX} characters"
        )
    return value


def _check_columns(columns: Mapping[str, str], *, has_queue: bool) -> frozenset[str]:
    for name in columns:
        meant = next((c for c in COLUMNS if _plain(c) == _plain(name) and c != name), None)
        if meant and meant not in columns:
            raise InvalidRequest(f"column {name} is not known; rename it to {meant}")
    if not has_queue and "queue" not in columns:
        raise InvalidRequest("column queue is missing; add it, or name one queue by option queue")
    if "payload" not in columns:
        raise InvalidRequest("column payload is missing; add one with the messages as JSON text")
    used = frozenset(COLUMNS) & set(columns)
    for name in sorted(used):
        if not columns[name].startswith(("string", "varchar(", "char(")):
            how = f"to_json({name})" if name == "payload" else f"cast({name} as string)"
            raise InvalidRequest(
                f"column {name} is of type {columns[name]}; make it a string with {how}"
            )
    return used


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _sort_columns(text: str, columns: Mapping[str, str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in columns:
            raise InvalidRequest(f"column {name} of option sortWithin is missing")
        if columns[name].startswith(_UNSORTABLE):
            raise InvalidRequest(
                f"column {name} of option sortWithin is of type {columns[name]},"
                " which has no order; name another one"
            )
    return names


def _has_dead_letters(given: Mapping[str, str]) -> bool:
    choice = given.get("onerror", "fail").lower()
    if choice not in ("fail", "deadletter"):
        raise InvalidRequest(f"option onError is {choice!r}; use fail or deadletter")
    if choice == "fail" and "deadletterqueue" in given:
        raise InvalidRequest("option deadLetterQueue needs option onError to be deadletter")
    return choice == "deadletter"


def _compares_repeats(given: Mapping[str, str]) -> bool:
    choice = given.get("comparerepeats", "true").lower()
    if choice not in ("true", "false"):
        raise InvalidRequest(f"option compareRepeats is {choice!r}; use true or false")
    return choice == "true"


def _number(given: Mapping[str, str], option: str, default: int, what: str) -> int:
    text = given.get(option.lower(), str(default)).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise InvalidRequest(f"option {option} is {text!r}; use {what}")
    return int(text)


def _batch_id(given: Mapping[str, str], *, is_stream: bool) -> int | None:
    if "batchid" not in given:
        return None
    if is_stream:
        raise InvalidRequest("option batchId is for foreachBatch; a stream numbers its batches")
    return _number(given, "batchId", 0, "the number that foreachBatch hands on")


def _write_id(given: Mapping[str, str], *, is_stream: bool) -> str | None:
    if is_stream and "writeid" in given:
        raise InvalidRequest("option writeId is for batch writes; a stream numbers its batches")
    return _name(given, "writeId")
