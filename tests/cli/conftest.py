"""Fixtures of the command line: no settings of the developer's own, a broker, short calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.command_line import FORGOTTEN, Cli


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
