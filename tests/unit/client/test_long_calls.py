"""Which calls are long: the same ones for the client and the dashboard."""

from __future__ import annotations

import re

import pytest

from queenmq.client.calls import quote_name
from queenmq.client.long_calls import LONG_S, ROUTES, is_long
from queenmq.storage.stores import admin, groups, steering
from tests.tidy.repo import read_bytes

SCRIPT = "src/queenmq/dashboard/lib/long_calls.js"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["orders", "a/b?c=d", "clear", " "])
def test_a_long_call_is_known_whatever_the_names(route: str, name: str) -> None:
    method, _, path = route.partition(" ")
    path = re.sub(r"\{\w+\}", lambda _: quote_name(name), path)
    assert is_long(method, path)
    assert is_long(method, f"{path}?partition={quote_name(name)}")
    assert not is_long("PUT", path)
    assert not is_long(method, f"{path}/more/and/more")
    assert not is_long(method, f"/proxy{path}")


@pytest.mark.parametrize(
    "call",
    [
        "GET /api/v1/resources/queues/orders",
        "DELETE /api/v1/messages/partition/transaction",
        "POST /api/v1/consumer-groups/billing/pause",
        "POST /api/v1/push",
    ],
)
def test_other_calls_are_not_long(call: str) -> None:
    assert not is_long(*call.split(" "))


def test_the_dashboard_has_the_same_list() -> None:
    text = read_bytes(SCRIPT).decode()
    assert tuple(re.findall(r'"([A-Z]+ /api/[^"]+)"', text)) == ROUTES
    (limit,) = re.findall(r"LONG_MS = ([\d_]+);", text)
    assert int(limit) == LONG_S * 1000


def test_the_broker_ends_a_long_call_before_its_callers_give_up() -> None:
    limits = (admin._REMOVAL_TIMEOUT_S, groups._CHANGE_TIMEOUT_S, steering._PREVIEW_TIMEOUT_S)
    assert max(limits) <= LONG_S
