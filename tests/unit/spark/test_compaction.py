"""The choice of files to merge."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

pytest.importorskip("deltalake", reason="needs the spark extra")

from queenmq.spark.lake.compaction import MANY, SMALL_BYTES, bundles, small_files
from queenmq.spark.lake.layout import DataFile

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def file(queue: str, day: int, size: int) -> DataFile:
    return DataFile("x", size, queue, date(2026, 1, day), 1, 1, 1, 1, 1, NOON, NOON)


def test_small_files_of_one_queue_and_day_belong_together() -> None:
    files = [file("b", 1, 5), file("a", 2, 1), file("b", 1, 6), file("b", 2, 7), file("a", 2, 2)]
    large = file("a", 2, SMALL_BYTES)
    groups = list(small_files([*files, large], is_thorough=True))
    assert groups == [[files[0], files[2]], [files[1], files[4]]]
    assert list(small_files(files, is_thorough=False)) == []
    many = [file("b", 1, 5)] * MANY
    assert list(small_files([*files, *many], is_thorough=False)) == [[files[0], files[2], *many]]


def test_files_of_the_first_layout_are_replaced_when_that_is_asked_for() -> None:
    old = replace(file("a", 1, SMALL_BYTES), path=f"data-{'0' * 32}/q=a/d=2026-01-01/part.parquet")
    new = replace(old, path=old.path.replace("q=", "queue=").replace("d=", "day="))
    assert old.is_of_first_layout and not new.is_of_first_layout and new.has_variant
    assert list(small_files([old, new], is_thorough=True)) == [[old]]
    assert list(small_files([old, new], is_thorough=False)) == []


def test_a_commit_is_bounded_and_groups_are_not_cut() -> None:
    half = 600 * 1024 * 1024
    groups = [[file("a", day, half)] for day in range(1, 6)]
    assert [len(bundle) for bundle in bundles(groups)] == [2, 2, 1]
    assert list(bundles([])) == []
