"""GET /api/v1/why without a queue: what is wrong, all over."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg

from tests.support.broker import Api, BrokerProcess


async def test_what_is_wrong_is_told_with_reason_and_place(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    api = Api(start_broker().url)
    try:
        await api.configure("late", retryLimit=0)
        await api.configure("delayed", delayedProcessing=86_400)
        await api.push("late", 1, 2, 3)
        await api.push("delayed", 1)
        await api.pop("late", consumerGroup="billing", batch=1)
        await api.pop("delayed", consumerGroup="billing")
        await database.execute("UPDATE queen.messages SET created_at = now() - interval '1 hour'")
        (message,) = await api.pop("late", consumerGroup="other", batch=1)
        await api.ack(message, status="dlq", group="other", error="no such <customer>")
        await api.http.post("/api/v1/system/maintenance/pop", json={"enabled": True})
        found = (await api.http.get("/api/v1/why")).json()
    finally:
        await api.http.post("/api/v1/system/maintenance/pop", json={"enabled": False})
        await api.close()
    by_code = {}
    for one in found["troubles"]:
        by_code.setdefault(one["code"], []).append(one)
    assert set(by_code) == {"pops_paused", "group_late", "dead_letters"}
    assert not found["isWell"] and found["isComplete"]
    # Messages that are not due yet are not late.
    places = {(one["queue"], one["consumerGroup"]) for one in by_code["group_late"]}
    assert places == {("late", "billing"), ("late", "other")}
    (letters,) = by_code["dead_letters"]
    assert letters["queue"] == "late" and "no such <customer>" in letters["message"]
    assert found["summary"].startswith(found["troubles"][0]["message"])
