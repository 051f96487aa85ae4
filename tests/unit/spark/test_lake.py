"""Places of a lake, files that can be passed over, checksums that add up, reasons of failures."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from queenmq.errors import InvalidRequest, StorageRejected
from queenmq.spark.lake.folders import LOCAL, REMOTE, fits, folder_name, working_names
from queenmq.spark.lake.layout import (
    DataFile,
    Lake,
    file_key,
    file_keys,
    path_in_table,
    prune_files,
)
from queenmq.spark.lake.statistics import statistics
from queenmq.spark.lake.stores.urls import explain
from queenmq.spark.lake.tally import Tally, add_up, find_differences
from queenmq.spark.runtime.failures import reason

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def file(path: str = "data-1/q=a/d=2026-01-31/part.parquet", **changes: Any) -> DataFile:
    values: dict[str, Any] = {
        "bytes": 10,
        "queue": "a",
        "day": date(2026, 1, 31),
        "messages": 3,
        "first_xid": 100,
        "last_xid": 200,
        "first_seq": 1,
        "last_seq": 3,
        "first_time": NOON,
        "last_time": NOON + timedelta(microseconds=1),
    }
    return DataFile(path, **(values | changes))


def test_a_folder_is_found_again_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = Lake.at("la ke/")
    assert lake.is_local and lake.messages == f"{tmp_path}/la ke/messages"
    assert lake.for_spark("x") == f"file:{tmp_path}/la ke/messages/x"
    assert Lake.at(f"file://{tmp_path}/la ke") == lake


@pytest.mark.parametrize(
    ("text", "ours", "sparks"),
    [
        ("s3a://bucket/lake/", "s3://bucket/lake", "s3a://bucket/lake"),
        ("s3://bucket", "s3://bucket", "s3a://bucket"),
        ("gs://bucket/a/b", "gs://bucket/a/b", "gs://bucket/a/b"),
        ("abfs://box@a.b.net/l", "abfss://box@a.b.net/l", "abfss://box@a.b.net/l"),
        ("hdfs://name:8020/l/", "hdfs://name:8020/l", "hdfs://name:8020/l"),
    ],
)
def test_a_url_is_written_as_its_reader_takes_it(text: str, ours: str, sparks: str) -> None:
    lake = Lake.at(text)
    assert not lake.is_local
    assert lake.manifest == f"{ours}/manifest"
    assert lake.for_spark("x") == f"{sparks}/messages/x"


@pytest.mark.parametrize("text", ["ftp://a/b", "az://box/l", "s3:///l", "s3://me:secret@bucket/l"])
def test_a_url_that_is_no_store_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="the lake"):
        Lake.at(text)


#: What stores say, as delta-rs tells it.
_ANSWERS = {
    "404 Not Found <Error><Code>NoSuchBucket</Code></Error>": "bucket does not exist; create it",
    "GET http://169.254.169.254/latest/meta-data in 1s": "there are no credentials; set AWS_",
    "Missing AccessKeyId": "there are no credentials; set AWS_",
    "403 Forbidden <Code>AccessDenied</Code>": "refused the credentials; check AWS_",
    "GET http://s/b?list-type=2 HTTP error URL scheme is not allowed": "set AWS_ALLOW_HTTP=true",
    "GET https://s.x/b/l - HTTP error dns error": "no server answers at https://s.x; check",
    "PUT https://s.x/l 500 Internal Error": "PUT https://s.x/l 500 Internal Error",
}


@pytest.mark.parametrize("answer", _ANSWERS)
def test_the_error_of_a_store_says_what_to_do(answer: str) -> None:
    told = explain("s3://bucket/l", f"Generic S3 error\n  \x1b[31m\u21b3\x1b[0m {answer}\n")
    assert _ANSWERS[answer] in told
    assert "\x1b" not in told and "\n" not in told and "\u21b3" not in told


@pytest.mark.parametrize("text", ["", "  ", "a*", "a{b}", "a[0]", "50%", "a\\b", "a|b"])
def test_a_place_that_would_be_misread_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="the lake"):
        Lake.at(text)


def test_what_spark_calls_a_file_leads_back_to_its_name_on_disk() -> None:
    uri = "file:/la%20ke/messages/data-1/q=a%252Fb%20c/d=2026-01-31/part-0.parquet"
    assert path_in_table(uri, "data-1") == "data-1/q=a%2Fb c/d=2026-01-31/part-0.parquet"
    with pytest.raises(ValueError, match="is not in data-2"):
        path_in_table(uri, "data-2")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("data-1/queue=a%2Fb/day=x/part.parquet", "data-1/queue=a%252Fb/day=x/part.parquet"),
        ("q=a b'(ü)+&/d=x/part.parquet", "messages/q=a%20b'(ü)+&/d=x/part.parquet"),
        ("part.parquet", "la%20ke/messages/part.parquet"),
        ("q=\u2003\x7f/part.parquet", "messages/q=%E2%80%83%7F/part.parquet"),
    ],
)
def test_a_file_is_known_by_the_end_of_the_uri_that_java_writes(path: str, key: str) -> None:
    assert file_key(Lake.at("/la ke"), path, 4).endswith(key)
    assert file_key(Lake.at("/la ke"), path, 4).count("/") == 3


def test_files_that_cannot_be_told_apart_are_refused() -> None:
    lake = Lake.at("/lake")
    plain, deep = file("x.parquet"), file("data-1/x.parquet")
    assert file_keys(lake, [plain, deep]) == (
        2,
        {"messages/x.parquet": plain, "data-1/x.parquet": deep},
    )
    with pytest.raises(StorageRejected, match="cannot be told apart"):
        file_keys(lake, [plain, file("messages/x.parquet")])


@pytest.mark.parametrize(
    ("queue", "folder"),
    [
        ("orders", "queue=orders"),
        ("a/b=c %ü", "queue=a%2Fb%3Dc%20%25%C3%BC"),
        ("..", "queue=.."),
        ("~x", "queue=%7Ex"),
        ("__HIVE_DEFAULT_PARTITION__", "queue=%5F%5FHIVE%5FDEFAULT%5FPARTITION%5F%5F"),
        ("n" * 249, f"queue={'n' * 249}"),
    ],
)
def test_folders_are_named_as_delta_rs_names_them(queue: str, folder: str) -> None:
    assert fits(queue) and folder_name(queue) == folder


def test_a_name_that_is_too_long_for_a_folder_names_no_column() -> None:
    assert not fits("ü" * 42)
    assert folder_name("ü" * 42).startswith("long-") and "=" not in folder_name("ü" * 42)


@pytest.mark.parametrize(
    "name", ["a b", "größe", "line\n", "n" * 201, "__HIVE_DEFAULT_PARTITION__"]
)
def test_spark_writes_a_digest_for_what_java_may_not_write_as_it_is(name: str) -> None:
    ((working, queue),) = working_names([name], LOCAL).items()
    assert queue == name and working.startswith("~") and len(working) == 33
    assert working_names(["a.b-c_1"], LOCAL) == {"a.b-c_1": "a.b-c_1"}
    assert working_names(["größe\n"], REMOTE) == {"größe\n": "größe\n"}


def test_statistics_are_exact_and_in_utc() -> None:
    late = NOON.astimezone(timezone(timedelta(hours=13)))
    bounds = {"seq": (1, 3), "at": (late, NOON), "yes": (False, True), "none": (None, None)}
    stats = json.loads(statistics(3, bounds, {"seq": 0, "none": 3}))
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"seq": 1, "at": "2026-01-31T12:00:00.000000Z", "yes": False}
    assert stats["maxValues"] == {"seq": 3, "at": "2026-01-31T12:00:00.000000Z", "yes": True}
    assert stats["nullCount"] == {"seq": 0, "none": 3}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "x" * 32,
        "x" * 33,
        "x" * 32 + "\U0010ffff" * 9,
        "x" + "\U0010ffff" * 99,
        "\U0010ffff" * 40,
        "x" * 31 + "\ud7ffy",
        "ü" * 50,
    ],
    ids=range(9),
)
def test_bounds_of_a_long_text_are_short_and_on_the_right_side(text: str) -> None:
    stats = json.loads(statistics(1, {"a": (text, text)}, {}))
    low, high = stats["minValues"]["a"], stats["maxValues"]["a"]
    assert low.encode() <= text.encode() <= high.encode()
    assert len(low) <= 32 and (len(high) <= 32 or high == text)


@pytest.mark.parametrize(("low", "before"), [(None, None), (5, 6), (None, 1), (900, None)])
def test_a_file_of_which_nothing_is_known_may_have_anything(
    low: int | None, before: int | None
) -> None:
    assert DataFile("part.parquet", 1, "a", date(2026, 1, 31)).may_have(low, before, "xid")


@pytest.mark.parametrize(
    ("bounds", "is_kept"),
    [
        ({}, True),
        ({"queues": ["b", "a"]}, True),
        ({"queues": ["b"]}, False),
        ({"queues": []}, False),
        ({"since": date(2026, 1, 31), "until": date(2026, 1, 31)}, True),
        ({"since": date(2026, 2, 1)}, False),
        ({"until": date(2026, 1, 30)}, False),
        ({"start": 200, "end": 201}, True),
        ({"start": 201}, False),
        ({"end": 101}, True),
        ({"end": 100}, False),
    ],
)
def test_only_files_that_cannot_matter_are_passed_over(
    bounds: dict[str, Any], is_kept: bool
) -> None:
    assert prune_files([file()], **bounds) == ([file()] if is_kept else [])


def row(partition: str, *values: Any) -> dict[str, Any]:
    names = ("messages", "first_seq", "last_seq", "checksum")
    return {"partition_id": partition, **dict(zip(names, values, strict=True))}


def test_parts_of_a_partition_add_up() -> None:
    rows = [row("a", 2, 5, 6, str(2**61)), row("b", 1, 1, 1, "7"), row("a", 1, 2, 2, "3")]
    assert add_up(rows) == {"a": Tally(3, 2, 6, 2**61 + 3), "b": Tally(1, 1, 1, 7)}


def test_partitions_differ_by_anything_and_when_one_side_has_them_alone() -> None:
    same, other = Tally(3, 1, 3, 9), Tally(3, 1, 3, 8)
    lake = {"same": same, "changed": same, "lake": same}
    live = {"same": same, "changed": other, "live": same}
    assert find_differences(lake, live) == ["changed", "lake", "live"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "An error occurred\n: org.apache.spark.SparkException: Job aborted\n\tat x\n"
            "Caused by: org.apache.spark.SparkException: Task failed\n\tat y\n"
            "Caused by: java.io.IOException: No space left on device\n\tat z\n",
            "No space left on device",
        ),
        (
            "[PYTHON] Traceback\nqueenmq.errors.NotFound: no queue x; create it\nCaused by: a.B: c",
            "no queue x; create it",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: x\nmore",
            "[PATH_NOT_FOUND] Path does not exist: x",
        ),
        ("An error\n: java.io.IOException: Mkdirs failed\n\tat", "Mkdirs failed"),
        ("", "no reason"),
    ],
)
def test_of_a_long_failure_the_reason_is_told(text: str, told: str) -> None:
    assert reason(text) == told
