"""Hostile requests for every route: each is answered, none breaks anything."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.api_fuzz import fuzz
from tests.support.broker import Api, BrokerProcess, unique


async def test_no_request_breaks_the_broker(start_broker: Callable[..., BrokerProcess]) -> None:
    # Many more: make fuzz.
    broker = start_broker()
    report = await fuzz(broker.url, count=600, seed=20)
    assert report.failures == []
    assert report.count == 600
    api, queue = Api(broker.url), unique()
    await api.push(queue, 1)
    assert await api.data(queue) == [1]
    await api.close()
    assert broker.stop() == 0
    assert not [line for line in broker.log if "event=defect" in line or "Traceback" in line]
