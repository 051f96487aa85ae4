"""The pace of a stream, its figures in Spark's progress, and options known from elsewhere."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark import SourceProgress, read_progress
from queenmq.spark.progress.pacing import Pace
from queenmq.spark.source.kafka_names import OTHERS
from queenmq.spark.source.options import NAMES, read_options


def test_a_batch_waits_for_messages_or_for_the_delay() -> None:
    pace = Pace(10, 1_000)
    now = 1_000_000.0
    # The first one has waited for nobody, as in the Kafka source.
    assert not pace.waits(1, now)
    assert pace.waits(9, now + 999)
    assert not pace.waits(10, now + 999)
    assert pace.waits(9, now + 1_998)
    assert not pace.waits(9, now + 1_999)


def test_figures_are_read_from_any_form_of_progress() -> None:
    ours: dict[str, Any] = {
        "xid": "9",
        "lagMessages": 5,
        "lagSeconds": 2,
        "rowsByQueue": {"orders": 3},
        "waitsFor": "pid 7",
        "outages": "1",
    }
    sources = [{"latestOffset": "not JSON"}, {"latestOffset": None}, {"latestOffset": {"0": 1}}]
    report = {"sources": [*sources, {"latestOffset": json.dumps(ours)}, {"latestOffset": ours}]}
    wanted = SourceProgress({"orders": 3}, 5, 2, "pid 7", 1)
    assert read_progress(report) == [wanted, wanted]
    listened: Any = SimpleNamespace(json=json.dumps(report))
    assert read_progress(listened) == [wanted, wanted]
    assert read_progress({"sources": None}) == []


def test_options_known_from_elsewhere_name_ours() -> None:
    for name, advice in OTHERS.items():
        with pytest.raises(InvalidRequest) as error:
            read_options({"url": "postgresql://h/d", "queue": "q", name: "x"})
        assert str(error.value) == advice
        assert any(ours in advice for ours in NAMES)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"maxTriggerDelay": "1m"}, "maxTriggerDelay needs minMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "1", "maxTriggerDelay": "soon"}, "a time like 30s or 15m"),
        ({"minMessagesPerTrigger": "5", "maxMessagesPerTrigger": "4"}, "is above"),
        ({"minMessagesPerTrigger": "0"}, "a number, 1 or more"),
    ],
)
def test_a_pace_that_makes_no_sense_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        read_options({"url": "postgresql://h/d", "queue": "q"} | options)
