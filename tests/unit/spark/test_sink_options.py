"""The options of a write, and the errors of invalid ones."""

from __future__ import annotations

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.sink.options import SinkOptions, name_problem, parse_sink_options

URL = "postgresql://queen@localhost/queen"
PLAIN = {"queue": "string", "payload": "string"}


def parse(
    columns: dict[str, str] | None = None, *, is_stream: bool = False, **options: str
) -> SinkOptions:
    given = {"url": URL, **options}
    return parse_sink_options(given, PLAIN if columns is None else columns, is_stream=is_stream)


def test_columns_alone_are_enough() -> None:
    options = parse({**PLAIN, "partition": "string", "transaction_id": "string", "seq": "bigint"})
    assert options.columns == {"queue", "partition", "payload", "transaction_id"}
    assert options.queue is None and options.partition is None
    assert not options.has_dead_letters


def test_the_partition_is_default_where_nothing_says_otherwise() -> None:
    assert parse().partition == "Default"


def test_an_option_wins_over_the_column() -> None:
    options = parse({**PLAIN, "partition": "string"}, queue="other", partition="lane")
    assert (options.queue, options.partition) == ("other", "lane")
    assert options.columns == {"payload"}


def test_option_names_are_read_in_any_case() -> None:
    options = parse(ONERROR="DeadLetter", deadletterqueue="bad", checkpointLocation="somewhere")
    assert options.has_dead_letters and options.dead_letter_queue == "bad"


def test_several_columns_to_sort_by() -> None:
    columns = {**PLAIN, "at": "timestamp", "n": "bigint"}
    assert parse(columns, sortWithin="at, n").sort_within == ("at", "n")


@pytest.mark.parametrize("kind", ["varchar(20)", "char(3)", "string collate UTF8_LCASE"])
def test_all_kinds_of_text_are_strings(kind: str) -> None:
    assert parse({"queue": kind, "payload": "string"}).columns == {"queue", "payload"}


REFUSED = {
    "option url must name the PostgreSQL database": ({}, {"url": "jdbc:postgresql://x/y"}),
    "option topic is not known to a write": ({}, {"topic": "x"}),
    "option queue is empty": ({}, {"queue": ""}),
    "option partition has 256 characters": ({}, {"partition": "x" * 256}),
    "option queue has 1020 bytes": ({}, {"queue": "🐝" * 255}),
    "option onError is 'skip'; use fail or deadletter": ({}, {"onError": "skip"}),
    "option deadLetterQueue needs option onError": ({}, {"deadLetterQueue": "x"}),
    "column at of option sortWithin is missing": ({}, {"sortWithin": "at"}),
    "column tags of option sortWithin is of type array<string>": (
        {"tags": "array<string>"},
        {"sortWithin": "tags"},
    ),
    "column transactionId is not known; rename it to transaction_id": (
        {"transactionId": "string"},
        {},
    ),
    "column partition is of type bigint; make it a string with cast(partition as string)": (
        {"partition": "bigint"},
        {},
    ),
    "column payload is of type struct<a:int>; make it a string with to_json(payload)": (
        {"payload": "struct<a:int>"},
        {},
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_mistake_is_named(text: str) -> None:
    columns, options = REFUSED[text]
    with pytest.raises(InvalidRequest) as caught:
        parse({**PLAIN, **columns}, **options)
    assert text in str(caught.value)


@pytest.mark.parametrize("missing", ["queue", "payload"])
def test_a_missing_column_is_named(missing: str) -> None:
    columns = {name: kind for name, kind in PLAIN.items() if name != missing}
    with pytest.raises(InvalidRequest, match=f"column {missing} is missing"):
        parse(columns)


def test_a_url_is_needed() -> None:
    with pytest.raises(InvalidRequest, match="option url"):
        parse_sink_options({}, PLAIN, is_stream=False)


def test_a_write_id_is_for_batches() -> None:
    assert parse(writeId="day-1").write_id == "day-1"
    with pytest.raises(InvalidRequest, match="option writeId is for batch writes"):
        parse(is_stream=True, writeId="day-1")


def test_names_at_their_bounds() -> None:
    assert name_problem("x" * 255) is None
    assert name_problem("é" * 255) is None
    assert name_problem("a\x00b") == "contains a NUL character"


def test_a_batch_is_bounded() -> None:
    asked = parse(maxBatchMessages="10", maxBatchBytes="1000")
    asked.check_size(10, 1_000)
    with pytest.raises(InvalidRequest, match="11 messages or more, and option maxBatchMessages"):
        asked.check_size(11, 1)
    with pytest.raises(InvalidRequest, match="1001 bytes or more, and option maxBatchBytes is"):
        asked.check_size(1, 1_001)
    parse().check_size(600_000, 300_000_000)
    for text in ("", "-1", "1e6", "10 MB"):
        with pytest.raises(InvalidRequest, match="option maxBatchMessages is"):
            parse(maxBatchMessages=text)
