"""The one line of a job: how far, how fast, how long."""

from __future__ import annotations

from queenmq.cli.pipeline.pace import Pace


def test_a_rate_and_the_time_left_come_with_time() -> None:
    pace = Pace()
    assert pace.note("writing", 0, 1_000_000, now_s=5.0) == "0 of 1,000,000"
    assert pace.note("writing", 100, 1_000_000, now_s=5.5) == "100 of 1,000,000"
    assert pace.note("writing", 300_000, 1_000_000, now_s=15.0) == (
        "300,000 of 1,000,000, 30,000/s, 23 s left"
    )
    assert pace.note("writing", 1_000_000, 1_000_000, now_s=25.0) == (
        "1,000,000 of 1,000,000, 50,000/s"
    )


def test_long_times_are_in_minutes_and_hours() -> None:
    pace = Pace()
    pace.note("x", 0, 100, now_s=0.0)
    assert pace.note("x", 1, 100, now_s=2.0).endswith("0.5/s, 3 min 18 s left")
    assert pace.note("x", 1, 100, now_s=200.0).endswith("5 h 30 min left")


def test_things_that_take_turns_are_timed_apart_and_a_wait_begins_anew() -> None:
    pace = Pace()
    pace.note("writing", 0, None, now_s=0.0)
    assert pace.note("checking", 100, None, now_s=5.0) == "100"
    assert pace.note("writing", 100, None, now_s=10.0) == "100, 10/s"
    assert pace.note("waiting", None, None, now_s=30.0) == ""
    assert pace.note("writing", 100, None, now_s=1_000.0) == "100"
    # Steps are no rate: each is told once.
    assert pace.note("step three", 3, 7, now_s=1_020.0) == "3 of 7"
