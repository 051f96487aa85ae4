"""Owns the pytest fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queenmq.testing.broker import Broker, running_broker


@pytest.fixture(scope="session")
def queen_broker() -> Iterator[Broker]:
    """Yield a broker for the whole test run; keep tests apart by queue names."""
    with running_broker() as broker:
        yield broker
