"""The sums over the reports of a query."""

from __future__ import annotations

from typing import Any

from queenmq.spark.streams.tally import Done, Tally


def report(batch: int, *, rows: int = 10, dropped: int = 0, unusable: int = 0) -> dict[str, Any]:
    return {
        "batchId": batch,
        "durationMs": {"addBatch": 5},
        "numInputRows": rows,
        "stateOperators": [{"numRowsDroppedByWatermark": dropped, "numRowsTotal": 3}],
        "sources": [{"latestOffset": '{"xid": "7"}'}],
        "observedMetrics": {"queen": {"passed": rows, "unusable": unusable}},
    }


def test_each_batch_is_counted_once() -> None:
    tally = Tally()
    assert tally.take([report(0), report(1, dropped=2)]) == [Done(0, True), Done(1, False)]
    # Spark shows the last hundred reports each time.
    assert tally.take([report(0), report(1), report(2, unusable=1)]) == [Done(2, False)]
    assert (tally.batches, tally.messages, tally.dropped, tally.open_windows) == (3, 30, 2, 3)


def test_a_report_that_nothing_happens_is_no_batch() -> None:
    idle = {**report(0, rows=0), "durationMs": {"latestOffset": 3}}
    tally = Tally()
    assert tally.take([idle]) == []
    assert tally.take([idle, report(0)]) == [Done(0, True)]


def test_the_transaction_that_holds_messages_back_is_named_while_it_does() -> None:
    tally = Tally()
    held = report(0) | {"sources": [{"latestOffset": '{"xid": "7", "waitsFor": "pid 5"}'}]}
    tally.take([held])
    assert "waits for pid 5" in tally.text(0)
    tally.take([held, report(1)])
    assert "waits" not in tally.text(0)


def test_a_batch_without_our_numbers_is_looked_at() -> None:
    bare = report(0) | {"observedMetrics": {}}
    assert Tally().take([bare]) == [Done(0, False)]
