"""The official client on the shared broker."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest
from queen import Queen

from tests.support.broker import BrokerProcess


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[Queen]:
    """A client as its users make it."""
    # It takes over the process's signals, and at its close resets them to the system's defaults.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        async with Queen(broker.url) as queen:
            yield queen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
