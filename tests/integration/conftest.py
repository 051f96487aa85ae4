"""Embedded servers and the brokers that own them, for tests that may kill them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from queenmq.storage.embedded import EmbeddedPostgres
from tests.support.embedded_server import Broker, broker_maker, server_maker


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def make_broker() -> Iterator[Callable[..., Broker]]:
    with broker_maker() as make:
        yield make


@pytest.fixture
def make_server() -> Iterator[Callable[..., EmbeddedPostgres]]:
    with server_maker() as make:
        yield make


@pytest.fixture
def server(make_server: Callable[..., EmbeddedPostgres], data_dir: Path) -> EmbeddedPostgres:
    started = make_server(data_dir)
    started.start()
    return started
