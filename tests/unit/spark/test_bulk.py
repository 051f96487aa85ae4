"""Rows are cut into batches and written at a rate, without Spark."""

from __future__ import annotations

import pytest

from queenmq.spark.jobs.bulk import Pace, _ranges

_TASK = 1 << 33


@pytest.mark.parametrize(
    ("first", "rows", "wanted"),
    [
        (0, 2, [(0, 2)]),
        (2, 3, [(2, 3), (_TASK * 2, _TASK * 2 + 2)]),
        (3, 4, [(_TASK * 2, _TASK * 2 + 4)]),
        (0, 7, [(0, 3), (_TASK * 2, _TASK * 2 + 4)]),
    ],
)
def test_a_batch_knows_the_places_of_its_rows(
    first: int, rows: int, wanted: list[tuple[int, int]]
) -> None:
    # Three tasks with three, no and four rows.
    assert list(_ranges([0, 3, 3, 7], first, rows)) == wanted


def test_the_pace_is_reckoned_from_the_start() -> None:
    now = 0.0
    pace = Pace(100, lambda: now)
    assert pace.pause_s(50) == 0.5
    now = 400.0
    assert pace.pause_s(50) == 0.6
    # What took too long is made up for.
    now = 1_900.0
    assert pace.pause_s(50) == 0.0
    assert pace.pause_s(50) == pytest.approx(0.1)


def test_without_a_rate_there_is_no_pause() -> None:
    assert Pace(None).pause_s(10**9) == 0.0
