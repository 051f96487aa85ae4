"""The waiting helpers: they return what they waited for, and fail with its name."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.waiting import wait_until, wait_until_async


def test_wait_returns_the_first_truthy_value() -> None:
    looks = iter([0, "", "ready", "later"])
    assert wait_until(lambda: next(looks), timeout_s=5, what="a value") == "ready"


def test_wait_looks_once_even_without_time() -> None:
    assert wait_until(lambda: True, timeout_s=0, what="nothing")


def test_wait_names_what_was_missing() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.02 s for the broker; last seen: 0"):
        wait_until(lambda: 0, timeout_s=0.02, what="the broker")


async def test_async_wait_takes_plain_and_coroutine_predicates() -> None:
    looks = iter([False, True])

    async def look() -> bool:
        return next(looks)

    assert await wait_until_async(look, timeout_s=5, what="a coroutine")
    assert await wait_until_async(lambda: 7, timeout_s=5, what="a value") == 7


async def test_async_wait_fails_when_a_look_hangs() -> None:
    with pytest.raises(AssertionError, match=r"for an answer; last seen: 'no answer'"):
        await wait_until_async(asyncio.Event().wait, timeout_s=0.02, what="an answer")
