"""Contract tests: what the API answers is what the OpenAPI document says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.broker import SOON_S, Api, BrokerProcess
from tests.support.openapi import Judge


@pytest.fixture(scope="session")
def judge(broker: BrokerProcess) -> Judge:
    """Compares answers with the document of the shared broker."""
    response = httpx.get(broker.url + "/openapi.json", timeout=SOON_S, verify=False)
    return Judge(response.json())


@pytest.fixture
async def api(broker: BrokerProcess, judge: Judge) -> AsyncIterator[Api]:
    """The shared broker's HTTP API, each answer of which is compared with the document."""
    client = Api(broker.url)
    client.http.event_hooks["response"].append(judge.judge)
    yield client
    await client.close()
