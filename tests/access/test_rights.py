"""Every route by every caller, from the one table that the broker checks."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from queenmq.auth.identity import Role, Verb
from queenmq.auth.rights import RIGHTS, Reach, Right
from queenmq.server.orders import BrokerOrders
from queenmq.server.routes.hot.transactions import EXTEND_PATH
from queenmq.server.wiring.broker import Broker
from queenmq.settings import Settings
from tests.support.tokens import signed

Caller = Callable[..., httpx.Client]

#: Of the walk; nothing that comes after it shares the database.
MINE, THEIRS = "mine.orders", "theirs.orders"


def _routes_of_the_app() -> set[str]:
    orders = BrokerOrders(url="postgresql://nobody@localhost/none", settings=Settings())
    app = Broker(orders).app
    routed = {
        f"{method} {route.path}"
        for route in app._router.routes
        for method in route.endpoint._endpoints
    }
    hot = {f"{method} {path.decode()}" for method, path in app._hot if method != "HEAD"}
    hot.add(f"POST {EXTEND_PATH}")
    # The application finds pops by their prefix.
    return routed | hot | {"GET /api/v1/pop", "GET /api/v1/pop/queue/{queue:name}"}


async def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert _routes_of_the_app() == set(RIGHTS)


def test_only_these_routes_are_public() -> None:
    public = {key for key, right in RIGHTS.items() if right.role is None}
    assert public == {
        "GET /health", "GET /health/live", "GET /health/ready", "GET /metrics", "GET /openapi.json",
        "POST /api/login", "GET /", "GET /dashboard", "GET /ui",
        "GET /dashboard/{version}/{path:name}",
    }  # fmt: skip


def test_what_administrators_do_needs_the_verb_admin() -> None:
    # A token of the role admin that is limited to pushes must not make itself another token.
    loose = {
        key
        for key, right in RIGHTS.items()
        if right.role is Role.ADMIN and right.verb is not Verb.ADMIN
    }
    assert loose == set()


def test_every_change_of_an_administrator_is_written_down() -> None:
    silent = {
        key
        for key, right in RIGHTS.items()
        if right.role is Role.ADMIN and not key.startswith("GET ") and right.action is None
    }
    assert silent == set()


def _bodies(queue: str) -> dict[str, Any]:
    someone = {"transactionId": "x", "partitionId": str(uuid.uuid4())}
    streamed = {"query_id": str(uuid.uuid4()), "partition_id": someone["partitionId"]}
    return {
        "POST /api/v1/push": {"items": [{"queue": queue, "payload": 1}]},
        "POST /api/v1/push/once": {
            "items": [{"queue": queue, "payload": 1}],
            "idempotencyKey": str(uuid.uuid4()),
        },
        "POST /api/v1/ack": someone,
        "POST /api/v1/ack/batch": {"acknowledgments": [someone]},
        "POST /api/v1/transaction": {
            "operations": [{"type": "push", "items": [{"queue": queue, "payload": 1}]}]
        },
        "POST /api/v1/configure": {"queue": queue},
        "POST /api/v1/dlq/retry": {"queue": queue},
        "POST /api/v1/traces": {**someone, "data": {}},
        "POST /streams/v1/queries": {
            "name": f"walk over {queue}",
            "source_queue": queue,
            "config_hash": "x",
        },
        "POST /streams/v1/state/get": streamed,
        "POST /streams/v1/cycle": streamed,
        "POST /api/v1/system/maintenance": {"enabled": False},
        "POST /api/v1/system/maintenance/pop": {"enabled": False},
        "POST /api/v1/tokens": {"name": "walk", "role": "read-only"},
        "POST /api/login": {"token": signed(role="read-only")},
    }


def _send(client: httpx.Client, key: str, queue: str) -> httpx.Response:
    method, template = key.split(" ", 1)
    path = (
        template.replace("{queue:name}", queue)
        .replace("{group:name}", "walkers")
        .replace("{partition:name}", "Default")
        .replace("{lease_id:name}", str(uuid.uuid4()))
        .replace("{partition_id}", str(uuid.uuid4()))
        .replace("{transaction_id:name}", "some-id")
        .replace("{operation_id}", str(uuid.uuid4()))
        .replace("{token_id}", str(uuid.uuid4()))
        .replace("{name:name}", "some-name")
        .replace("{table:name}", "timeline")
    )
    if RIGHTS[key].reach is Reach.QUERY:
        path += f"?queue={queue}"
    if key == "GET /api/v1/pop":
        path += "?namespace=mine"
    body = _bodies(queue).get(key)
    if key.endswith("/seek"):
        body = {"toEnd": True}
    elif key.endswith("/subscription"):
        body = {"subscriptionTimestamp": "2030-01-01T00:00:00Z"}
    return client.request(method, path, json=body)


def _expected(right: Right, caller: str) -> str:
    """The answer by the table alone: 401, 403, or anything that is no refusal."""
    if right.role is None:
        return "in"
    if caller in ("none", "bad-signature", "expired", "wrong-audience", "wrong-issuer", "no-alg"):
        return "401"
    if caller == "no-role":
        return "403"
    if caller in ("read-only", "read-write", "admin"):
        role = {one.label: one for one in Role}[caller]
        return "in" if role >= right.role else "403"
    # An administrator of one tenant asks for a queue of its own, or of the other one.
    if right.reach is Reach.ALL:
        return "403"
    names_queue = right.reach in (Reach.PATH, Reach.QUERY, Reach.BODY)
    return "403" if caller == "foreign-tenant" and names_queue else "in"


@pytest.fixture
def callers(caller: Caller) -> Iterator[dict[str, httpx.Client]]:
    past = int(time.time()) - 3_600
    unsigned = ".".join(signed(role="admin").split(".")[:2]) + "."
    tenant = signed(role="admin", sub="tenant", queen_queues=["mine.*"])
    yield {
        "none": caller(),
        "bad-signature": caller(token=signed(role="admin", secret="another secret " * 4)),
        "expired": caller(token=signed(role="admin", exp=past)),
        "wrong-audience": caller(token=signed(role="admin", aud="elsewhere")),
        "wrong-issuer": caller(token=signed(role="admin", iss="https://other.test")),
        "no-alg": caller(token=unsigned),
        "no-role": caller(token=signed()),
        "read-only": caller("read-only"),
        "read-write": caller("read-write"),
        "admin": caller("admin"),
        "own-tenant": caller(token=tenant),
        "foreign-tenant": caller(token=tenant),
    }


def test_every_route_by_every_caller(
    callers: dict[str, httpx.Client], capsys: pytest.CaptureFixture[str]
) -> None:
    lines, wrong = [], []
    for key, right in RIGHTS.items():
        cells = []
        for name, client in callers.items():
            queue = THEIRS if name == "foreign-tenant" else MINE
            client.cookies.clear()
            response = _send(client, key, queue)
            got = str(response.status_code) if response.status_code in (401, 403) else "in"
            cells.append(got)
            if got != _expected(right, name) or response.status_code >= 500:
                wrong.append(f"{key} by {name}: {response.status_code} {response.text[:200]}")
        lines.append(f"{key:75} {' '.join(f'{cell:>4}' for cell in cells)}")
    with capsys.disabled():
        print("\ncallers: " + ", ".join(callers))
        print("\n".join(lines))
    assert wrong == []


def test_refusals_say_what_the_contract_says(caller: Caller) -> None:
    nobody = caller().get("/api/v1/resources/queues")
    assert nobody.status_code == 401
    assert nobody.json()["error"] == "Authentication required"
    assert nobody.headers["www-authenticate"] == "Bearer"
    reader = caller("read-only").post("/api/v1/push", json={"items": []})
    assert reader.status_code == 403
    assert reader.json()["error"].startswith("Insufficient permissions")


def test_a_token_needs_no_bearer_prefix(caller: Caller) -> None:
    bare = {"Authorization": signed(role="read-only")}
    assert caller().get("/api/v1/resources/queues", headers=bare).status_code == 200


def test_health_is_served_whatever_token_comes_along(caller: Caller) -> None:
    for token in ("nonsense", "qmt_unknown", signed(exp=1)):
        assert caller(token=token).get("/health/live").status_code == 200
        assert caller(token=token).get("/health").status_code == 200


def test_the_table_of_the_security_page_is_the_codes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    written = [line for line in page.splitlines() if re.match(r"\| `[A-Z]+ /", line)]
    expected = []
    for key, right in RIGHTS.items():
        cells = [
            f"`{key.replace(':name}', '}')}`",
            "public" if right.role is None else right.role.label,
            right.verb.value if right.verb else "",
            right.reach.value,
            f"`{right.action}`" if right.action else "",
        ]
        expected.append(cells)
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in written] == expected
