"""All background services of a broker keep the contract of services, and show up in /health."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from queenmq.engine.lifecycle import Health, LoopService, Service
from queenmq.server.orders import BrokerOrders
from queenmq.server.stop_time import StopTime
from queenmq.server.wiring.broker import Broker
from queenmq.settings import load
from tests.support.waiting import wait_until_async

SOON_S = 30.0
SOON_MS = 30_000
#: In the order of their start. They stop in the reverse order.
ALWAYS = ["database", "joining", "spool-drain", "load-manager", "metering", "call-paces"]
JOINED = [
    "operations", "wake-listener", "lease-sweep", "key-sweep", "janitor", "retention",
    "idle-partitions", "switches", "token-watch", "spool-report", "access-sweep", "history",
]  # fmt: skip


@pytest.fixture
async def broker(database_url: str, tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that has not started."""
    settings = load({"spool_dir": str(tmp_path / "spool"), "db_pool_size": 4})
    made = Broker(BrokerOrders(url=database_url, settings=settings))
    yield made
    await made.stop(StopTime(SOON_MS))


def _services(broker: Broker) -> list[Service]:
    lifecycle = broker._lifecycle
    return [*lifecycle.always.services, *lifecycle.joined.services]


async def _read_health(broker: Broker) -> dict[str, Any]:
    response = await broker._health.health(None)  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(bytes(response.body))
    return found


async def test_the_order_of_start_is_declared(broker: Broker) -> None:
    assert [one.name for one in _services(broker)] == ALWAYS + JOINED


async def test_every_service_may_be_stopped_before_its_start(broker: Broker) -> None:
    for service in _services(broker):
        assert service.health() is Health.STOPPED, service.name
        await service.stop()
        assert service.health() is Health.STOPPED, service.name


async def test_every_service_starts_and_stops_twice_and_again(broker: Broker) -> None:
    await broker.start()
    before = len(asyncio.all_tasks())
    for service in _services(broker):
        assert service.health() is Health.RUNNING, service.name
        await service.start()
        assert len(asyncio.all_tasks()) == before, f"{service.name} has started twice"
    for service in reversed(_services(broker)):
        await service.stop()
        await service.stop()
        assert service.health() is Health.STOPPED, service.name
    await broker.start()
    assert {service.health() for service in _services(broker)} == {Health.RUNNING}


async def test_a_stop_leaves_no_task_behind(broker: Broker) -> None:
    before = asyncio.all_tasks()
    await broker.start()
    assert asyncio.all_tasks() > before
    await broker.stop(StopTime(SOON_MS))
    await wait_until_async(
        lambda: asyncio.all_tasks() == before, timeout_s=SOON_S, what="the last task to end"
    )


async def test_health_shows_every_service(broker: Broker) -> None:
    await broker.start()
    health = await _read_health(broker)
    assert health["services"] == dict.fromkeys(ALWAYS + JOINED, "running")
    assert health["status"] == "healthy" and health["problems"] == []


async def test_a_service_that_dies_is_a_problem(broker: Broker) -> None:
    await broker.start()
    loops = [one for one in _services(broker) if isinstance(one, LoopService)]
    assert len(loops) == len(JOINED) + 1
    for service in loops:
        names = set(service._loops())
        tasks = [task for task in asyncio.all_tasks() if task.get_name() in names]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        health = await _read_health(broker)
        assert health["services"][service.name] == "dead"
        assert health["status"] == "degraded"
        (problem,) = health["problems"]
        assert f"the background service {service.name} has ended" in problem
        await service.start()


async def test_a_job_that_meets_a_defect_is_a_problem_until_it_works(broker: Broker) -> None:
    await broker.start()
    (switches,) = (one for one in _services(broker) if one.name == "switches")
    job: Any = switches._job  # type: ignore[attr-defined]
    works = job.run_once

    async def fail() -> None:
        raise RuntimeError("a defect")

    async def wait_for(health: Health) -> None:
        await wait_until_async(
            lambda: switches.health() is health, timeout_s=SOON_S, what=f"to be {health.value}"
        )

    job.run_once = fail
    await wait_for(Health.FAILING)
    health = await _read_health(broker)
    assert health["services"]["switches"] == "failing" and health["status"] == "degraded"
    assert "switches fails for an unexpected reason" in health["problems"][0]
    job.run_once = works
    await wait_for(Health.RUNNING)


async def test_without_the_database_its_services_wait(tmp_path: Path) -> None:
    settings = load({"spool_dir": str(tmp_path / "spool"), "db_connect_timeout_ms": 500})
    url = "postgresql://nobody@127.0.0.1:1/none"
    broker = Broker(BrokerOrders(url=url, settings=settings, may_wait=True))
    await broker.start()
    try:
        found = (await _read_health(broker))["services"]
        assert found == dict.fromkeys(ALWAYS, "running") | dict.fromkeys(JOINED, "stopped")
    finally:
        await broker.stop(StopTime(SOON_MS))
