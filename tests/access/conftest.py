"""A broker with authentication on, and tokens of every kind for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.broker import SOON_S, BrokerProcess, running_broker
from tests.support.shared_postgres import SharedPostgres
from tests.support.tokens import JWT_SETTINGS, signed

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def guarded_database_url(postgres: SharedPostgres, template: str) -> Iterator[str]:
    """A migrated database that the tests of a module share."""
    name = f"access_{next(_numbers)}"
    postgres.create(name, template=template)
    yield postgres.url_of(name)
    postgres.drop(name)


@pytest.fixture(scope="module")
def guarded(guarded_database_url: str) -> Iterator[BrokerProcess]:
    """A broker that wants a token."""
    environ = JWT_SETTINGS | {"QUEEN_TRUSTED_PROXIES": "127.0.0.2/32"}
    with running_broker(database_url=guarded_database_url, **environ) as broker:
        yield broker


@pytest.fixture
def caller(guarded: BrokerProcess) -> Iterator[Callable[..., httpx.Client]]:
    """Makes HTTP clients for a role, or for the token that is given."""
    clients: list[httpx.Client] = []

    def make(role: str | None = None, *, token: str | None = None, **claims: Any) -> httpx.Client:
        if role is not None:
            token = signed(role=role, **claims)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        client = httpx.Client(base_url=guarded.url, headers=headers, timeout=SOON_S, verify=False)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
