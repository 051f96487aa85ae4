"""A broker's memory of the starts of groups, and when it asks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from queenmq.engine.pop.subscriptions import Subscriptions
from queenmq.engine.requests import PopRequest, Scope, Subscription


class _Store:
    """Counts the calls; something may happen while one is on its way."""

    def __init__(self) -> None:
        self.calls = 0
        self.meanwhile: Callable[[], None] | None = None

    async def subscribe_groups(self, starts: Sequence[Any]) -> None:
        self.calls += 1
        if self.meanwhile is not None:
            then, self.meanwhile = self.meanwhile, None
            then()


def _request() -> PopRequest:
    return PopRequest(
        scope=Scope("q"),
        consumer_group="g",
        batch=1,
        partitions=1,
        is_auto_ack=False,
        wait_ms=None,
        subscription=Subscription(None),
    )


async def test_start_is_fixed_once() -> None:
    store = _Store()
    subscriptions = Subscriptions(store)  # type: ignore[arg-type]
    for _ in range(3):
        await subscriptions.ensure(_request())
    assert store.calls == 1


async def test_start_is_fixed_again_when_it_was_forgotten() -> None:
    store = _Store()
    subscriptions = Subscriptions(store)  # type: ignore[arg-type]
    await subscriptions.ensure(_request())
    subscriptions.forget()
    await subscriptions.ensure(_request())
    assert store.calls == 2


async def test_start_that_is_forgotten_while_it_is_being_fixed_is_fixed_again() -> None:
    store = _Store()
    subscriptions = Subscriptions(store)  # type: ignore[arg-type]
    store.meanwhile = subscriptions.forget
    await subscriptions.ensure(_request())
    assert store.calls == 2
    await subscriptions.ensure(_request())
    assert store.calls == 2
