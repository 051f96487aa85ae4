"""The input and the verdicts of `make bench-check`."""

from __future__ import annotations

from benchmarks.check import find_regressions, is_noisy, make_page, read_page


def test_a_page_is_read_as_it_was_written() -> None:
    page = make_page({"live": 20.0, "push-10": 30.0, "pop-ack": 55.5}, ["some machine"])
    assert read_page(page) == {"live": 1.0, "push-10": 1.5, "pop-ack": 2.775}


def test_only_what_grew_by_more_than_15_percent_is_a_regression() -> None:
    before = {"live": 1.0, "push-1": 4.0, "push-10": 2.0, "gone": 1.0}
    now = {"live": 9.0, "push-1": 4.5, "push-10": 2.4, "new": 5.0}
    assert find_regressions(before, now) == ["push-10: 2.400 floors instead of 2.000, +20%"]


def test_a_floor_that_differs_too_much_is_noise() -> None:
    assert not is_noisy([10.0, 12.0, 11.0])
    assert is_noisy([10.0, 13.0, 11.0])
