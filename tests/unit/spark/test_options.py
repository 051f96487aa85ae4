"""Options of reading: every mistake is one error that names the option."""

from __future__ import annotations

import json

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.source.options import BATCH_ONLY, NAMES, STREAM_ONLY, ReadOptions, read_options

URL = "postgresql://reader:secret@db/queen"


def parse(*, is_stream: bool | None = None, **options: str) -> ReadOptions:
    return read_options({"url": URL, "queue": "orders"} | options, is_stream=is_stream)


def refusal(options: dict[str, str], *, is_stream: bool | None = None) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read_options(options, is_stream=is_stream)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_defaults_are_those_of_a_plain_read() -> None:
    options = parse()
    assert options.scope.queues == ("orders",)
    assert options.scope.partitions is None
    assert options.starting is None
    assert options.ending.kind == "latest"
    assert options.max_messages is None
    assert options.min_partitions == 1
    assert options.fail_on_data_loss
    assert options.payload_type == "string"
    assert not options.delivery_state


def test_case_of_names_does_not_matter() -> None:
    options = read_options({"URL": URL, "Queue": "orders", "MINPARTITIONS": "3"})
    assert options.min_partitions == 3


def test_unknown_options_are_named_all_at_once() -> None:
    text = refusal({"url": URL, "queue": "a", "maxMesages": "5", "topic": "b"})
    assert "maxMesages, topic" in text


@pytest.mark.parametrize(
    "pair",
    [
        ("queue", "queuePattern"),
        ("queue", "namespace"),
        ("queuePattern", "task"),
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
    ],
)
def test_contradictions_name_both_options(pair: tuple[str, str]) -> None:
    values = {"url": URL, "queue": "a"} if "queue" not in pair[0] else {"url": URL}
    text = refusal(values | dict.fromkeys(pair, "latest"))
    assert pair[0] in text and pair[1] in text


@pytest.mark.parametrize("name", BATCH_ONLY)
def test_batch_options_are_refused_for_streams(name: str) -> None:
    assert name in refusal({"url": URL, "queue": "a", name: "true"}, is_stream=True)


@pytest.mark.parametrize("name", STREAM_ONLY)
def test_stream_options_are_refused_for_batches(name: str) -> None:
    assert name in refusal({"url": URL, "queue": "a", name: "1"}, is_stream=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxMessagesPerTrigger", "0"),
        ("maxMessagesPerTrigger", "many"),
        ("minPartitions", "-1"),
        ("failOnDataLoss", "perhaps"),
        ("deliveryState", "1"),
        ("payloadType", "xml"),
        ("startingOffsets", "sometime"),
        ("startingOffsets", '{"partition": 3}'),
        ("startingOffsets", '{"xid": "-4"}'),
        ("endingOffsets", "earliest"),
        ("startingTimestamp", "2026-01-01T00:00:00"),
        ("startingTimestamp", "yesterday"),
        ("queue", "a,,b"),
        ("queue", '["a", 5]'),
        ("partitions", "[]"),
        ("consumerGroup", "  "),
        ("includeArchive", "true"),
    ],
)
def test_bad_values_are_named(name: str, value: str) -> None:
    assert name in refusal({"url": URL, "queue": "orders"} | {name: value})


def test_a_bad_pattern_is_named() -> None:
    assert "queuePattern" in refusal({"url": URL, "queuePattern": "a("})


def test_something_to_read_is_needed() -> None:
    assert "queuePattern" in refusal({"url": URL, "partitions": "a"})


@pytest.mark.parametrize("url", ["jdbc:postgresql://x:secret@db", "mysql://x:secret@db", "secret"])
def test_other_urls_are_refused_without_showing_them(url: str) -> None:
    text = refusal({"url": url, "queue": "a"})
    assert "url" in text and "secret" not in text


def test_a_url_is_needed() -> None:
    assert "url" in refusal({"queue": "a"})


def test_names_come_as_a_list_or_as_json() -> None:
    assert parse(queue="a, b").scope.queues == ("a", "b")
    assert parse(queue='["a,b", "c"]').scope.queues == ("a,b", "c")
    assert parse(partitions="p1,p2,p1").scope.partitions == ("p1", "p2")


def test_queues_are_looked_up_by_what_was_given() -> None:
    options = read_options({"url": URL, "namespace": "shop"})
    assert json.loads(options.scope.to_json()) == {
        "queues": None,
        "pattern": None,
        "namespace": "shop",
        "task": None,
    }


def test_every_option_is_known_in_its_documented_spelling() -> None:
    assert len({name.lower() for name in NAMES}) == len(NAMES)
    assert set(BATCH_ONLY) | set(STREAM_ONLY) < set(NAMES)
