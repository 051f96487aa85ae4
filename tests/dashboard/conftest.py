"""A browser for the folder, a watched page per test, and a broker with authentication."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.world import World
from tests.support.broker import SOON_S, BrokerProcess, running_broker
from tests.support.browser import Watched, running_browser
from tests.support.pki import Pki
from tests.support.shared_postgres import SharedPostgres
from tests.support.tokens import JWT_SETTINGS

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """A browser for the tests of this folder.

    Not for the whole run: its driver keeps an event loop running in this thread, in which async
    tests of other files could not start theirs. For the same reason no test beside it is async.
    """
    with running_browser() as found:
        yield found


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Watched]]:
    """Opens pages, each with cookies of its own; a console error of any fails the test."""
    pages: list[Watched] = []

    def make(url: str, **options: Any) -> Watched:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(SOON_S * 1000)
        pages.append(Watched(context.new_page(), url))
        return pages[-1]

    yield make
    for one in pages:
        one.page.context.close()
    for one in pages:
        one.check()


@pytest.fixture
def watched(open_page: Callable[..., Watched], broker: BrokerProcess) -> Watched:
    """A page on the shared broker."""
    return open_page(broker.url)


@contextmanager
def _guarded(postgres: SharedPostgres, template: str) -> Iterator[World]:
    """A broker that wants a token, with a database of its own."""
    name = f"dashboard_{next(_numbers)}"
    postgres.create(name, template=template)
    with running_broker(database_url=postgres.url_of(name), **JWT_SETTINGS) as broker:
        yield World(broker, postgres.url_of(name))
    postgres.drop(name)


@pytest.fixture(scope="package")
def guarded(postgres: SharedPostgres, template: str) -> Iterator[BrokerProcess]:
    """A broker that wants a token."""
    with _guarded(postgres, template) as made:
        yield made.broker


@pytest.fixture
def guarded_by_tls(database_url: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that wants a token and speaks https."""
    environ = JWT_SETTINGS | Pki(tmp_path).environ
    with running_broker(database_url=database_url, **environ) as broker:
        yield broker


def run_apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine beside the browser, whose driver keeps an event loop in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def world(postgres: SharedPostgres, template: str) -> Iterator[World]:
    """A broker that wants a token, with its database."""
    with _guarded(postgres, template) as made:
        yield made


@pytest.fixture
def run() -> Callable[..., Any]:
    """Runs coroutines beside the browser."""
    return run_apart
