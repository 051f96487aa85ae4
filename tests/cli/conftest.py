"""Fixtures of the command line: no settings of the developer's own, a broker, short calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess, running_broker
from tests.support.command_line import FORGOTTEN, Cli
from tests.support.shared_postgres import SharedPostgres
from tests.support.tokens import SECRET

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of this test's contexts."""
    for name in FORGOTTEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "queen" / "config.toml"


@pytest.fixture
def cli(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Commands in this process, sent to the shared broker."""
    return Cli(monkeypatch, capsys, broker.url)


@pytest.fixture(scope="module")
def own_url(postgres: SharedPostgres, template: str) -> Iterator[str]:
    """A migrated database that the tests of a module share."""
    name = f"cli_access_{next(_numbers)}"
    postgres.create(name, template=template)
    yield postgres.url_of(name)
    postgres.drop(name)


@pytest.fixture(scope="module")
def guarded(own_url: str) -> Iterator[BrokerProcess]:
    """A broker that wants a token."""
    with running_broker(
        database_url=own_url, QUEEN_AUTH_ENABLED="true", JWT_SECRET=SECRET
    ) as broker:
        yield broker
