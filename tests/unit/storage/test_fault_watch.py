"""Faults are said loudly, and not too often."""

from __future__ import annotations

import logging

import pytest

from queenmq.errors import StorageFault
from queenmq.storage.connection import fault_watch
from queenmq.storage.connection.fault_watch import FaultWatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000_000.0]
    monkeypatch.setattr(fault_watch, "now_ms", lambda: now[0])
    return now


def test_faults_are_counted_and_logged_at_a_bounded_rate(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    watch = FaultWatch()
    for _ in range(100):
        watch.note(StorageFault("no right", code="42501"))
    watch.note(StorageFault("no table", code="42P01"))
    assert watch.totals == {"42501": 100, "42P01": 1}
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [
        (logging.ERROR, "no right"),
        (logging.ERROR, "no table"),
    ]
    clock[0] += 10_000
    watch.note(StorageFault("no right", code="42501"))
    assert getattr(caplog.records[-1], "calls", 0) == 100, "with those that were not logged"


def test_a_fault_that_is_not_met_any_more_is_over(clock: list[float]) -> None:
    watch = FaultWatch()
    watch.note(StorageFault("no right", code="42501"))
    clock[0] += 9_000
    watch.note(StorageFault("no table", code="42P01"))
    assert watch.current == ["42501", "42P01"]
    clock[0] += 2_000
    assert watch.current == ["42P01"]
    clock[0] += 10_000
    assert watch.current == []
