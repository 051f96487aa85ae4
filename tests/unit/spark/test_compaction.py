"""Which files are made one."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

pytest.importorskip("deltalake", reason="needs the spark extra")

from queenmq.spark.lake.compaction import SMALL_BYTES, bundles, small_files
from queenmq.spark.lake.layout import DataFile

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def file(queue: str, day: int, size: int) -> DataFile:
    return DataFile("x", size, queue, date(2026, 1, day), 1, 1, 1, 1, 1, NOON, NOON)


def test_small_files_of_one_queue_and_day_belong_together() -> None:
    files = [file("b", 1, 5), file("a", 2, 1), file("b", 1, 6), file("b", 2, 7), file("a", 2, 2)]
    large = file("a", 2, SMALL_BYTES)
    groups = list(small_files([*files, large], at_least=2))
    assert groups == [[files[0], files[2]], [files[1], files[4]]]
    assert list(small_files(files, at_least=3)) == []


def test_a_commit_is_bounded_and_groups_are_not_cut() -> None:
    half = 600 * 1024 * 1024
    groups = [[file("a", day, half)] for day in range(1, 6)]
    assert [len(bundle) for bundle in bundles(groups)] == [2, 2, 1]
    assert list(bundles([])) == []
