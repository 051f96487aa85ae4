"""News reaches every subscriber, in the declared order."""

from __future__ import annotations

import logging

import pytest

from queenmq.engine.news import News, Topic


def test_subscribers_hear_in_the_declared_order() -> None:
    heard: list[tuple[str, str]] = []
    news = News()
    news.queue_changed.declare(
        lambda queue: heard.append(("first", queue)),
        lambda queue: heard.append(("second", queue)),
        lambda queue: heard.append(("third", queue)),
    )
    news.queue_changed("orders")
    news.queue_changed("bills")
    assert heard == [
        (place, queue) for queue in ("orders", "bills") for place in ("first", "second", "third")
    ]


def test_news_without_subscribers_are_no_error() -> None:
    News().database_down()
    News().group_deleted("orders", "workers")


def test_a_failing_subscriber_keeps_no_other_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    def fail(queue: str) -> None:
        heard.append("failed")
        raise RuntimeError("a defect")

    topic: Topic[str] = Topic("returned")
    topic.declare(fail, heard.append)
    topic("orders")
    assert heard == ["failed", "orders"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert vars(record)["event"] == "news_broke"
    assert vars(record)["topic"] == "returned"
    assert record.exc_info is not None


def test_the_order_of_subscribers_is_declared_once() -> None:
    topic: Topic[str] = Topic("returned")
    topic.declare(lambda queue: None)
    with pytest.raises(RuntimeError, match="'returned' are declared already"):
        topic.declare(lambda queue: None)


def test_topics_are_named_like_their_field() -> None:
    for field, topic in vars(News()).items():
        assert topic._name == field
