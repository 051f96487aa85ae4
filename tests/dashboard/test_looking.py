"""Views that look closer: traces, the pipeline, the system."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.dashboard.world import HOSTILE, World, confirm
from tests.support.broker import SOON_S, unique
from tests.support.browser import Watched
from tests.support.tokens import SECRET

RUN = "5f0c5d0e-2f44-4c5a-9d0b-3b1f6f3c9a01"


def test_a_trace_is_a_picture_across_queues(
    world: World, open_page: Callable[..., Watched]
) -> None:
    name, queues = f"{unique()} {HOSTILE}", [unique(), unique()]
    for queue, event in zip(queues, ("charged", "error"), strict=True):
        world.push(queue, {"of": queue})
        (message,) = world.pop(queue, "workers")
        note = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
        note |= {"consumerGroup": "workers", "eventType": event, "traceNames": [name]}
        world.call("POST", "/api/v1/traces", note | {"data": {"why": HOSTILE}}, status=201)
    watched = open_page(world.broker.url)
    page = world.enter(watched, "admin", "#/traces")
    page.get_by_role("link", name=name).click()
    for queue, event in zip(queues, ("charged", "error"), strict=True):
        page.get_by_role("img", name=f"{queue}: pushed").wait_for()
        page.get_by_text(f"{event} by workers", exact=True).wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []
    page.get_by_role("link", name=message["transactionId"]).click()
    page.get_by_role("heading", level=1, name=message["transactionId"]).wait_for()
    # The message of the other queue has the same name, and is part of the story.
    page.get_by_role("img", name=f"{queues[0]}: pushed").wait_for()
    page.get_by_role("link", name=name).wait_for()
    assert page.locator("main img").count() == 0


def _run_analytics(world: World, queue: str) -> None:
    rows = [
        {"consumer_group": group, "bucket_at": f"2026-01-01T00:0{minute}:00Z"}
        | ({"consumed": 3, "latency_p99_ms": 95.0} if group else {"pushed": 4, "bytes": 9})
        for minute in (0, 5)
        for group in (None, "g")
    ]
    tables: dict[str, Any] = {
        "timeline": rows,
        "queues": [{"keeps_history": True, "partitions": 3, "pushed": 8, "bytes": 9}],
        "groups": [
            {"consumer_group": "g", "backlog_now": 0, "dead_letters": 0, "latency_p99_ms": 95.0}
        ],
        "hottest": [{"rank": 1, "partition": HOSTILE, "pushed": 8, "bytes": 9, "share": 0.5}],
    }
    about = {
        "id": RUN, "scope": {"queue": queue}, "from_time": "2026-01-01T00:00:00Z",
        "to_time": "2026-01-01T01:00:00Z", "bucket_seconds": 300, "messages": 8,
    }  # fmt: skip
    full = {
        name: [row | {"run_id": RUN, "queue": queue} for row in rows]
        for name, rows in tables.items()
    }
    world.fetch("SELECT queen.publish_analytics($1, $2, 100)", json.dumps(about), json.dumps(full))


def test_the_pipeline_shows_streams_runs_and_the_archive(
    world: World, open_page: Callable[..., Watched]
) -> None:
    watched = open_page(world.broker.url)
    page = world.enter(watched, "read-only", "#/pipeline")
    # Where there is nothing, it is told how to begin.
    for command in ("archive --queue orders", "analytics --from 24h", "audit --lake"):
        page.get_by_text(f"queen pipeline {command}").first.wait_for()
    queue = f"{unique()} {HOSTILE}"
    world.push(queue, 1)
    _run_analytics(world, queue)
    world.fetch(
        "INSERT INTO queen.spark_positions (consumer_group, query_id, queues, xid, lag)"
        " VALUES ('revenue', 'q', $1, pg_current_xact_id(), 0) RETURNING lag",
        json.dumps([queue]),
    )
    world.fetch(
        "INSERT INTO queen.archive_positions (lake, queue_id, xid, location)"
        " SELECT gen_random_uuid(), q.id, '3', '/lake' FROM queen.queues q WHERE q.name = $1"
        " RETURNING location",
        queue,
    )
    page.reload()
    page.get_by_role("link", name="revenue").wait_for()
    page.get_by_text("/lake", exact=True).wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []
    page.goto(f"{watched.url}/#/pipeline/{RUN}")
    page.get_by_text("95 ms").first.wait_for()
    page.get_by_text("8 · 50 %").wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []


def test_settings_have_an_origin_and_no_secret_reaches_the_page(
    world: World, open_page: Callable[..., Watched]
) -> None:
    watched = open_page(world.broker.url)
    page = world.enter(watched, "admin", "#/system?tab=settings&changed=1")
    table = page.get_by_role("region", name="Settings")
    secret = table.get_by_role("row", name="jwt_secret ")
    secret.get_by_text("secret, not shown").wait_for()
    assert "environment" in secret.inner_text()
    assert "flag" in table.get_by_role("row", name="database_url").inner_text()
    assert table.get_by_role("row", name="workers").count() == 0
    password = urlsplit(world.database_url).password
    for planted in filter(None, (SECRET, password)):
        assert planted not in page.content()
    assert watched.find_axe_faults() == []


def test_a_token_is_shown_once_works_and_is_revoked(
    world: World, open_page: Callable[..., Watched]
) -> None:
    name = f"{unique()} {HOSTILE}"
    watched = open_page(world.broker.url)
    page = world.enter(watched, "admin", "#/system?tab=tokens")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Queues").fill("billing.*, orders")
    assert watched.find_axe_faults() == []
    dialog.get_by_role("button", name="Make token").click()
    token = page.locator("[data-token]").inner_text()
    about = "SELECT name || role || array_to_string(queues, ' ') FROM queen.api_tokens"
    about += " WHERE kind = 'token'"
    assert world.fetch(about) == f"{name}read-onlybilling.* orders"
    login = f"{watched.url}/api/login"
    assert httpx.post(login, json={"token": token}, timeout=SOON_S).status_code == 200
    dialog.get_by_role("button", name="Done").click()
    page.get_by_text(name).first.wait_for()
    assert token not in page.content()
    page.get_by_role("button", name=f"Revoke {name}").click()
    confirm(page, "Revoke the token", "Revoke", typed=name)
    world.wait_for(
        1, "SELECT count(*) FROM queen.api_tokens WHERE name = $1 AND revoked_at IS NOT NULL", name
    )
    assert httpx.post(login, json={"token": token}, timeout=SOON_S).status_code == 401
    page.goto(f"{watched.url}/#/system?tab=audit&action=token")
    page.get_by_text("token.create").first.wait_for()
    page.get_by_text("token.revoke").first.wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []


def test_a_reader_gets_no_administration(world: World, open_page: Callable[..., Watched]) -> None:
    watched = open_page(world.broker.url)
    page = world.enter(watched, "read-only", "#/system?tab=tokens")
    page.get_by_role("link", name="PostgreSQL").wait_for()
    for name in ("Settings", "Tokens", "Audit log"):
        assert page.get_by_role("link", name=name).count() == 0
    page.get_by_text("Time per pop state").wait_for()
    assert watched.find_axe_faults() == []
