"""Failing requests in the log: each id that an answer shows has a line, and no flood has many."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from queenmq.engine.reports import report
from queenmq.errors import InvalidRequest, StorageRejected, StorageUnavailable
from queenmq.server.answers import failure_log
from queenmq.server.answers.failure_log import FailureLog


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(failure_log, "now_ms", lambda: now[0])
    return now


def facts(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any, Any]]:
    return [
        (one.getMessage(), vars(one)["error_id"], vars(one).get("failures"))
        for one in caplog.records
    ]


def test_failures_for_one_reason_share_a_line_and_its_id(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    log = FailureLog()
    ids = {log.note(StorageUnavailable("db1 is away"), "/push") for _ in range(1_000)}
    other = log.note(StorageUnavailable("db2 is away"), "/pop")
    clock[0] += 1_000
    later = log.note(StorageUnavailable("db1 is away"), "/push")
    assert len(ids) == 1 and len({*ids, other, later}) == 3
    assert facts(caplog) == [
        ("db1 is away", *ids, 1), ("db2 is away", other, 1_000), ("db1 is away", later, 1)
    ]  # fmt: skip


def test_a_flood_of_different_failures_has_few_and_short_lines(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    log = FailureLog()
    ids = {log.note(StorageRejected(f"{n} is no number" + "x" * 10_000), "/") for n in range(500)}
    assert {one for _, one, _ in facts(caplog)} == ids
    assert len(caplog.records) == 20
    assert max(len(text) for text, _, _ in facts(caplog)) == 2_000


def test_a_stored_reason_names_the_line_that_has_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assert report(InvalidRequest("a is wrong"), "it failed", {}) == "a is wrong"
    shown = report(StorageRejected('constraint "c"', public="no"), "it failed", {"event": "e"})
    ((text, error_id, _),) = facts(caplog)
    assert (shown, text) == (f"no; error id {error_id}", 'it failed: constraint "c"')
