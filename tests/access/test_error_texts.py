"""Error texts of consumers need the verb that reads payloads; counts and ages do not."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import asyncpg
import httpx
import pytest

from queenmq.auth.identity import Role, Verb
from queenmq.auth.rights import RIGHTS, Reach
from tests.support.broker import SOON_S, unique
from tests.support.tokens import signed
from tests.support.waiting import wait_until

Caller = Callable[..., httpx.Client]


class Scene(NamedTuple):
    """A queue with failures, and every way to name what failed."""

    queue: str
    dead: dict[str, Any]
    retried: dict[str, Any]
    run: str
    #: In the payloads and in every error text.
    secret: str


@pytest.fixture
async def scene(caller: Caller, guarded_database_url: str) -> Scene:
    """A dead letter, a message that is to be retried, a late group, and jobs that failed."""
    owner = caller("admin")
    queue, secret = unique("a.errors"), f"secret-{uuid.uuid4()}"
    options = {"retryLimit": 3, "retryDelay": 600_000}
    answer = owner.post("/api/v1/configure", json={"queue": queue, "options": options})
    assert answer.status_code == 200
    items = [{"queue": queue, "payload": secret, "partition": name} for name in ("x", "y")]
    assert owner.post("/api/v1/push", json={"items": items}).status_code == 201
    failed = []
    for partition, status in (("x", "dlq"), ("y", "failed")):
        popped = owner.get(f"/api/v1/pop/queue/{queue}/partition/{partition}").json()["messages"][0]
        ids = {name: popped[name] for name in ("transactionId", "partitionId", "leaseId")}
        answer = owner.post("/api/v1/ack", json={**ids, "status": status, "error": f"no {secret}"})
        assert answer.json()[0]["success"], answer.text
        failed.append(popped)
    run = await _fail_jobs(guarded_database_url, queue, secret)
    return Scene(queue, failed[0], failed[1], run, secret)


async def _fail_jobs(url: str, queue: str, secret: str) -> str:
    """Store results of jobs as Spark does, and make the messages of the queue old."""
    session = await asyncpg.connect(url)
    try:
        run = str(await session.fetchval("SELECT queen.start_pipeline_run('load', '{}')"))
        sample = {"columns": ["payload"], "rows": [[secret]], "total": 1}
        await session.fetchval(
            "SELECT queen.note_pipeline_run($1, 'failed', '{}', $2, $3)",
            uuid.UUID(run), json.dumps({"sample": sample}), f"cannot cast {secret}",
        )  # fmt: skip
        about = {
            "id": str(uuid.uuid4()), "scope": {}, "from_time": "2026-01-01T00:00:00Z",
            "to_time": "2026-01-01T01:00:00Z", "bucket_seconds": 300, "messages": 7,
        }  # fmt: skip
        row = {
            "run_id": about["id"], "queue": queue, "consumer_group": "g", "error": secret,
            "letters": 3, "first_at": about["from_time"], "last_at": about["to_time"],
        }  # fmt: skip
        await session.fetchval(
            "SELECT queen.publish_analytics($1, $2, 100)",
            json.dumps(about), json.dumps({"dead_letters": [row]}),
        )  # fmt: skip
        await session.execute(
            "UPDATE queen.messages SET created_at = created_at - interval '1 hour'"
        )
        return run
    finally:
        await session.close()


def _paths(scene: Scene) -> dict[str, str]:
    """A path for each route that reads, with names and ids of the scene."""
    place = {
        "{partition_id}": scene.dead["partitionId"],
        "{transaction_id:name}": scene.dead["transactionId"],
    }
    known = {
        "{queue:name}": scene.queue, "{group:name}": "__QUEUE_MODE__", "{partition:name}": "y",
        "{name:name}": scene.queue, "{table:name}": "dead-letters", "{run}": scene.run,
        "{operation_id}": str(uuid.uuid4()), "seek-preview": "seek-preview?toEnd=true", **place,
    }  # fmt: skip
    paths = {}
    for key, right in RIGHTS.items():
        path = key.removeprefix("GET ")
        if right.role is not Role.READ_ONLY or path == key:
            continue
        for name, value in known.items():
            path = path.replace(name, value)
        paths[key] = path if right.reach is not Reach.QUERY else f"{path}?queue={scene.queue}"
    return paths


#: Routes that show error texts or payloads to those who may pop, and serve the others without.
SHARED = {
    "GET /api/v1/resources/queues/{queue:name}/partitions/{partition:name}",
    "GET /api/v1/status",
    "GET /api/v1/why",
    "GET /api/v1/why/{queue:name}",
    "GET /api/v1/analytics/runs",
    "GET /api/v1/analytics/pipeline/{table:name}",
}
#: Routes that are about contents only.
CONTENTS = {
    "GET /api/v1/messages/{partition_id}/{transaction_id:name}",
    "GET /api/v1/dlq",
    "GET /api/v1/dlq/errors",
    "GET /api/v1/analytics/runs/{run}",
}


def _wait_for_troubles(client: httpx.Client, queue: str) -> set[str]:
    """Return the codes of the queue's troubles, once the answer kept for all callers has them."""
    found: set[str] = set()

    def has_both() -> bool:
        troubles = client.get("/api/v1/why").json()["troubles"]
        found.update(one["code"] for one in troubles if one["queue"] == queue)
        return len(found) == 2

    wait_until(has_both, timeout_s=SOON_S, what="the troubles of the queue")
    return found


def test_error_texts_need_the_verb_that_reads_payloads(caller: Caller, scene: Scene) -> None:
    reader = caller(token=signed(role="read-only", queen_verbs=["pop"]))
    blind = {
        str(verbs): caller(token=signed(role="admin", queen_verbs=verbs))
        for verbs in (["push"], ["admin"], ["push", "admin"])
    }
    _wait_for_troubles(reader, scene.queue)
    shown = set()
    for key, path in _paths(scene).items():
        full = reader.get(path)
        assert full.status_code in (200, 404), (key, full.text)
        if scene.secret in full.text:
            shown.add(key)
        for verbs, client in blind.items():
            answer = client.get(path)
            assert scene.secret not in answer.text, (key, verbs)
            expected = 403 if RIGHTS[key].verb is Verb.POP else full.status_code
            assert answer.status_code == expected, (key, verbs, answer.text)
    assert shown == SHARED | CONTENTS


def test_monitoring_keeps_counts_ages_and_states(caller: Caller, scene: Scene) -> None:
    client = caller(token=signed(role="read-only", queen_verbs=["push"], queen_queues=["a.*"]))
    status = client.get(f"/api/v1/status?queue={scene.queue}").json()
    assert status["deadLetterQueue"]["totalMessages"] == 1
    assert status["deadLetterQueue"]["topErrors"] == []
    place = client.get(f"/api/v1/resources/queues/{scene.queue}/partitions/y").json()
    (cursor,) = place["groups"]
    assert cursor["retryCount"] == 1 and cursor["retryAt"] and cursor["retryError"] is None
    why = client.get(f"/api/v1/why/{scene.queue}").json()
    codes = {one["code"] for one in why["findings"]}
    assert {"retry_delayed", "last_dead_letter"} <= codes and why["backlog"] == 1
    assert _wait_for_troubles(client, scene.queue) == {"dead_letters", "group_late"}


def test_dead_letters_are_chosen_by_error_only_by_those_who_may_read_it(
    caller: Caller, scene: Scene
) -> None:
    # The count of an answer would tell whether a guess at the text was right.
    blind = caller(token=signed(role="admin", queen_verbs=["admin"]))
    which = {"queue": scene.queue, "error": "no secret"}
    retry = blind.post("/api/v1/dlq/retry", json=which)
    purge = blind.delete("/api/v1/dlq", params=which)
    for refused in (retry, purge):
        assert refused.status_code == 403 and "pop" in refused.json()["error"]
    both = caller(token=signed(role="admin", queen_verbs=["admin", "pop"]))
    assert both.delete("/api/v1/dlq", params=which).json()["purged"] == 1
    assert blind.delete("/api/v1/dlq", params={"queue": scene.queue}).json()["purged"] == 0
