"""The subscribers of news in a whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queenmq.engine.news import News
from queenmq.server.orders import BrokerOrders
from queenmq.server.wiring.broker import Broker
from queenmq.settings import Settings


@pytest.fixture
async def news() -> News:
    orders = BrokerOrders(url="postgresql://nobody@localhost/none", settings=Settings())
    return Broker(orders)._ground.news


def _names(hearers: tuple[Callable[..., Any], ...]) -> list[str]:
    return [hear.__qualname__ for hear in hearers]


async def test_all_news_are_heard(news: News) -> None:
    for name, topic in vars(news).items():
        assert topic._hearers, f"nothing hears of {name}"


async def test_consumers_of_this_broker_hear_before_others(news: News) -> None:
    assert _names(news.pushed._hearers) == ["PopService.pushed", "WakeListener.notify_pushed"]
    assert _names(news.freed._hearers) == ["PopService.freed", "WakeListener.notify_freed"]


async def test_a_deleted_group_loses_its_start_before_its_pops_are_dismissed(news: News) -> None:
    assert _names(news.group_deleted._hearers) == ["Subscriptions.forget", "PopService.dismiss"]


async def test_calls_are_cut_off_before_pushes_move_to_the_spool(news: News) -> None:
    assert _names(news.database_down._hearers) == [
        "Database.cut_off",
        "PushService.divert_to_spool",
    ]
