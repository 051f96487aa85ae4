"""Two tenants on one broker: neither can read, list, change or even notice the other's queues."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.broker import unique
from tests.support.tokens import signed

Caller = Callable[..., httpx.Client]


class Victim(NamedTuple):
    """The data of the other tenant, and every id that leads to it."""

    queue: str
    message: dict[str, Any]
    waiting: dict[str, Any]
    secret: str


def _tenant(caller: Caller, name: str, **claims: Any) -> httpx.Client:
    token = signed(role="admin", sub=name, queen_queues=[f"{name}.*"], **claims)
    return caller(token=token)


@pytest.fixture
def theirs(caller: Caller) -> Victim:
    """A queue of tenant b with a leased message, a waiting one, a dead letter and a trace."""
    owner = _tenant(caller, "b")
    queue, secret = unique("b.orders"), f"secret-{uuid.uuid4()}"
    body = {"queue": queue, "options": {"retryLimit": 0}}
    assert owner.post("/api/v1/configure", json=body).status_code == 200
    items = [{"queue": queue, "payload": secret, "transactionId": f"t{n}"} for n in range(3)]
    assert owner.post("/api/v1/push", json={"items": items}).status_code == 201
    dead = _pop(owner, queue)
    ack = {**_ids(dead), "status": "failed", "error": secret}
    assert owner.post("/api/v1/ack", json=ack).json()[0]["dlq"]
    message = _pop(owner, queue)
    trace = {**_ids(message), "data": secret, "traceNames": [queue]}
    del trace["leaseId"]
    assert owner.post("/api/v1/traces", json=trace).status_code == 201
    return Victim(queue, message, dead, secret)


def _pop(client: httpx.Client, queue: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/pop/queue/{queue}?batch=1")
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["messages"][0]
    return message


def _ids(message: dict[str, Any]) -> dict[str, Any]:
    return {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}


def _reads(victim: Victim) -> list[str]:
    place = f"{victim.message['partitionId']}/{victim.message['transactionId']}"
    return [
        "/api/v1/resources/queues", f"/api/v1/resources/queues?search={victim.queue}",
        f"/api/v1/resources/queues/{victim.queue}", "/api/v1/resources/namespaces",
        "/api/v1/resources/tasks", "/api/v1/resources/overview", "/api/v1/consumer-groups",
        "/api/v1/consumer-groups/lagging?minLagSeconds=0", "/api/v1/consumer-groups/__QUEUE_MODE__",
        "/api/v1/messages", f"/api/v1/messages?queue={victim.queue}", "/api/v1/messages?ns=b",
        f"/api/v1/messages/{place}", "/api/v1/dlq", f"/api/v1/dlq?queue={victim.queue}",
        "/api/v1/dlq?consumerGroup=__QUEUE_MODE__", "/api/v1/traces/names",
        f"/api/v1/traces/by-name/{victim.queue}", f"/api/v1/traces/{place}", "/api/v1/status",
        f"/api/v1/status?queue={victim.queue}", "/api/v1/status?namespace=b",
        "/api/v1/status/analytics", "/api/v1/status/queues", "/api/v1/status/queues?namespace=b",
        f"/api/v1/status/queues/{victim.queue}", f"/api/v1/status/queues/{victim.queue}/messages",
        f"/api/v1/why/{victim.queue}", "/api/v1/operations", "/api/v1/operations?status=pending",
        f"/api/v1/operations?queue={victim.queue}", "/api/v1/operations/stats",
        "/api/v1/analytics/retention", "/api/v1/analytics/pipeline", "/metrics/prometheus",
        "/api/v1/why", "/api/v1/dlq/errors", f"/api/v1/dlq/errors?queue={victim.queue}",
        "/api/v1/dlq/errors?consumerGroup=__QUEUE_MODE__", "/api/v1/analytics/archive",
        "/api/v1/analytics/pipeline/lag", "/api/v1/system/shared-state", "/api/v1/system/settings",
        f"/api/v1/resources/queues/{victim.queue}/partitions",
        f"/api/v1/resources/queues/{victim.queue}/partitions/Default",
        f"/api/v1/resources/partitions?queue={victim.queue}", "/api/v1/resources/partitions",
        f"/api/v1/consumer-groups/__QUEUE_MODE__/queues/{victim.queue}/seek-preview?toEnd=true",
        f"/api/v1/messages?queue={victim.queue}&text=secret", "/api/v1/messages?text=secret",
        "/api/v1/messages?queue=a.mine&text=secret", "/api/v1/messages?transactionId=t0",
        "/api/v1/migration/status", "/api/v1/operations/aside", "/api/v1/streams",
        "/metrics", "/api/v1/audit", "/api/v1/tokens", f"/api/v1/pop/queue/{victim.queue}",
        "/api/v1/pop?namespace=b", f"/api/v1/pop/queue/{victim.queue}/partition/Default",
        # A name of mine in front must not open a name of theirs behind it.
        f"/api/v1/messages?queue=&queue={victim.queue}",
        f"/api/v1/status?queue={victim.queue}&queue=a.mine",
    ]  # fmt: skip


def test_no_read_shows_anything_of_the_other_tenant(caller: Caller, theirs: Victim) -> None:
    stranger = _tenant(caller, "a")
    assert theirs.queue in caller("admin").get("/api/v1/resources/queues").text
    for path in _reads(theirs):
        answer = stranger.get(path)
        assert answer.status_code in (200, 204, 403, 404), (path, answer.text)
        if answer.status_code == 200:
            assert theirs.queue not in answer.text, path
        assert theirs.secret not in answer.text, path


def test_errors_of_the_other_tenant_do_not_crowd_out_ones_own(caller: Caller) -> None:
    mine = unique("a.errors")
    for name, queue, count in (("b", unique("b.errors"), 402), ("a", mine, 1)):
        owner = _tenant(caller, name)
        items = [{"queue": queue, "payload": 1}] * count
        assert owner.post("/api/v1/push", json={"items": items}).status_code == 201
        popped = owner.get(f"/api/v1/pop/queue/{queue}?batch={count}").json()["messages"]
        # Each of theirs comes twice, so all of them are ahead of mine.
        acks = [
            {**_ids(one), "status": "dlq", "error": f"{name} {number // 2}"}
            for number, one in enumerate(popped)
        ]
        answer = owner.post("/api/v1/ack/batch", json={"acknowledgments": acks})
        assert all(one["success"] for one in answer.json()), answer.text
    found = _tenant(caller, "a").get("/api/v1/dlq/errors").json()["errors"]
    assert ("a 0", 1) in {(one["error"], one["count"]) for one in found if one["queue"] == mine}
    assert all(one["queue"].startswith("a.") for one in found)


def test_the_tenant_itself_sees_all_of_it(caller: Caller, theirs: Victim) -> None:
    owner = _tenant(caller, "b")
    shown = {path: owner.get(path) for path in _reads(theirs)}
    place = f"{theirs.message['partitionId']}/{theirs.message['transactionId']}"
    for path in (
        "/api/v1/resources/queues", "/api/v1/consumer-groups", "/api/v1/status/queues",
        f"/api/v1/messages/{place}", f"/api/v1/dlq?queue={theirs.queue}",
        f"/api/v1/why/{theirs.queue}", "/api/v1/consumer-groups/__QUEUE_MODE__",
        f"/api/v1/status?queue={theirs.queue}",
    ):  # fmt: skip
        assert shown[path].status_code == 200 and theirs.queue in shown[path].text, path
    assert theirs.secret in shown[f"/api/v1/traces/{place}"].text


def _answer(client: httpx.Client, method: str, path: str, body: Any) -> tuple[int, str]:
    answer = client.request(method, path, json=body)
    return answer.status_code, answer.text


def test_ids_of_the_other_tenant_are_answered_like_ids_that_do_not_exist(
    caller: Caller, theirs: Victim
) -> None:
    stranger = _tenant(caller, "a")
    message = theirs.message
    unknown = {**_ids(message), "partitionId": str(uuid.uuid4()), "leaseId": str(uuid.uuid4())}

    def requests(ids: dict[str, Any]) -> list[tuple[str, str, Any]]:
        place = f"/api/v1/messages/{ids['partitionId']}/{ids['transactionId']}"
        ack = {"type": "ack", **ids}
        return [
            ("POST", "/api/v1/ack", ids),
            ("POST", "/api/v1/ack", {**ids, "leaseId": None}),
            ("POST", "/api/v1/ack/batch", {"acknowledgments": [ids]}),
            ("POST", f"/api/v1/lease/{ids['leaseId']}/extend", {}),
            ("GET", place, None),
            ("DELETE", place, None),
            ("POST", f"{place}/retry", {}),
            ("POST", f"{place}/dlq", {}),
            ("POST", "/api/v1/traces", {**ids, "data": 1}),
            ("POST", "/api/v1/transaction", {"operations": [ack]}),
            ("POST", "/api/v1/transaction", {"operations": [{**ack, "leaseId": None}]}),
        ]

    for known, other in zip(requests(_ids(message)), requests(unknown), strict=True):
        status, text = _answer(stranger, *known)
        other_status, other_text = _answer(stranger, *other)
        assert status == other_status, (known, text, other_text)
        for name in ("partitionId", "leaseId"):
            text, other_text = (
                text.replace(message[name], "ID"),
                other_text.replace(unknown[name], "ID"),
            )
        if "transaction" not in known[1]:
            assert text == other_text, known
        else:
            assert '"success":false' in text and '"success":false' in other_text
    # Nothing of that has touched the message: its lease is live and ends by its owner's ack.
    owner = _tenant(caller, "b")
    assert owner.post("/api/v1/ack", json=_ids(message)).json()[0]["success"]


def test_changes_by_name_are_refused_and_change_nothing(caller: Caller, theirs: Victim) -> None:
    stranger, queue = _tenant(caller, "a"), theirs.queue
    push = {"type": "push", "items": [{"queue": queue, "payload": 1}]}
    mine = {"type": "push", "items": [{"queue": "a.mine", "payload": 1}]}
    group = f"/api/v1/consumer-groups/__QUEUE_MODE__/queues/{queue}"
    trick = f"/api/v1/resources/queues/{queue}/partitions/x%2Fpartitions%2Fy"
    attempts: list[tuple[str, str, Any]] = [
        ("POST", "/api/v1/push", {"items": [mine["items"][0], push["items"][0]]}),
        ("POST", "/api/v1/transaction", {"operations": [mine, push]}),
        ("POST", "/api/v1/configure", {"queue": queue}),
        ("DELETE", f"/api/v1/resources/queues/{queue}", None),
        ("DELETE", f"/api/v1/resources/queues/{queue}/partitions/Default", None),
        ("DELETE", trick, None),
        ("DELETE", f"/api/v1/queues/{queue}/clear", None),
        ("POST", f"{group}/seek", {"toEnd": True}),
        ("POST", f"{group}/partitions/Default/seek", {}),
        ("POST", f"{group}/partitions/Default/release", {}),
        ("POST", "/api/v1/consumer-groups/__QUEUE_MODE__/pause", {}),
        ("POST", "/api/v1/consumer-groups/__QUEUE_MODE__/resume", {}),
        ("DELETE", group, None),
        ("DELETE", "/api/v1/consumer-groups/__QUEUE_MODE__", None),
        ("POST", "/api/v1/dlq/retry", {"queue": queue}),
        ("POST", "/api/v1/dlq/retry", {"consumerGroup": "__QUEUE_MODE__"}),
        ("DELETE", f"/api/v1/dlq?queue={queue}", None),
        ("DELETE", "/api/v1/dlq?olderThanSeconds=0", None),
        ("POST", "/api/v1/operations/retry", {}),
        (
            "POST",
            "/api/v1/ack/batch",
            {"acknowledgments": [], "next": f"/api/v1/pop/queue/{queue}"},
        ),
        ("POST", "/api/v1/ack/batch", {"acknowledgments": [], "next": "/api/v1/pop?namespace=b"}),
    ]
    before = caller("admin").get(f"/api/v1/status/queues/{queue}").json()["totals"]
    for attempt in attempts:
        status, text = _answer(stranger, *attempt)
        assert status == 403, (attempt, text)
    assert caller("admin").get(f"/api/v1/status/queues/{queue}").json()["totals"] == before


def _stream(owner: httpx.Client, queue: str, **more: Any) -> httpx.Response:
    body = {"name": f"sums of {queue}", "source_queue": queue, "config_hash": "x", **more}
    return owner.post("/streams/v1/queries", json=body)


def _cycle(query_id: str, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    ids = {"query_id": query_id, "partition_id": message["partitionId"]}
    return {**ids, "state_ops": [{"type": "upsert", "key": "k", "value": "v"}], **more}


class Streams(NamedTuple):
    """Streams of both tenants, each with state in the partition of its own message."""

    theirs: str
    mine: str
    my_queue: str
    my_message: dict[str, Any]


@pytest.fixture
def streams(caller: Caller, theirs: Victim) -> Streams:
    my_queue = unique("a.orders")
    me, owner = _tenant(caller, "a"), _tenant(caller, "b")
    me.post("/api/v1/push", json={"items": [{"queue": my_queue, "payload": 1}]})
    my_message = _pop(me, my_queue)
    ids = []
    for client, queue, message in (
        (owner, theirs.queue, theirs.message),
        (me, my_queue, my_message),
    ):
        registered = _stream(client, queue).json()
        ids.append(registered["query_id"])
        value = [{"type": "upsert", "key": "k", "value": theirs.secret}]
        body = _cycle(registered["query_id"], message, state_ops=value)
        assert client.post("/streams/v1/cycle", json=body).json()["success"]
    return Streams(*ids, my_queue, my_message)


def test_ids_of_streams_of_the_other_tenant_are_answered_like_unknown_ones(
    caller: Caller, theirs: Victim, streams: Streams
) -> None:
    stranger = _tenant(caller, "a")
    message = theirs.message
    unknown = {"query": str(uuid.uuid4()), "partition": str(uuid.uuid4())}
    known = {"query": streams.theirs, "partition": message["partitionId"]}
    ack = {"transactionId": message["transactionId"], "leaseId": message["leaseId"]}
    lease = {"ack": ack, "consumer_group": "__QUEUE_MODE__"}
    my_place = streams.my_message["partitionId"]

    def requests(ids: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
        places = [
            {"query_id": ids["query"], "partition_id": ids["partition"]},
            {"query_id": ids["query"], "partition_id": my_place},
            {"query_id": streams.mine, "partition_id": ids["partition"]},
        ]
        ops = {"state_ops": [{"type": "delete", "key": "k"}]}
        return [
            (path, {**place, **more})
            for place in places
            for path, more in (("state/get", {}), ("cycle", ops), ("cycle", lease), ("cycle", {}))
        ]

    for (path, body), (_, other) in zip(requests(known), requests(unknown), strict=True):
        answer = stranger.post(f"/streams/v1/{path}", json=body)
        expected = stranger.post(f"/streams/v1/{path}", json=other)
        text, other_text = answer.text, expected.text
        for name in ("query", "partition"):
            text = text.replace(known[name], "ID")
            other_text = other_text.replace(unknown[name], "ID")
        assert answer.status_code == expected.status_code == 200, text
        assert text == other_text and '"success":false' in text, (path, body)
        assert theirs.secret not in text
    _check_untouched(caller, theirs, streams)


def _check_untouched(caller: Caller, theirs: Victim, streams: Streams) -> None:
    """Their stream has the one cycle it made itself, its state, and the lease is live."""
    owner = _tenant(caller, "b")
    shown = owner.get(f"/api/v1/streams/sums of {theirs.queue}").json()
    facts = [shown[name] for name in ("id", "sourceQueue", "cycles", "stateKeys", "lastError")]
    assert facts == [streams.theirs, theirs.queue, 1, 1, None]
    body = {"query_id": streams.theirs, "partition_id": theirs.message["partitionId"]}
    state = owner.post("/streams/v1/state/get", json=body).json()
    assert [row["value"] for row in state["rows"]] == [theirs.secret]
    assert owner.post("/api/v1/ack", json=_ids(theirs.message)).json()[0]["success"]


def test_streams_of_the_other_tenant_cannot_be_named_listed_or_taken_over(
    caller: Caller, theirs: Victim, streams: Streams
) -> None:
    stranger, queue = _tenant(caller, "a"), theirs.queue
    mine = {"name": "taken", "source_queue": streams.my_queue, "config_hash": "x"}
    their_name = {**mine, "name": f"sums of {queue}"}
    push = _cycle(streams.mine, streams.my_message, push_items=[{"queue": queue, "payload": 1}])
    before = caller("admin").get(f"/api/v1/status/queues/{queue}").json()["totals"]
    for path, body in (
        ("queries", {**mine, "source_queue": queue}),
        ("queries", {**mine, "sink_queue": queue}),
        # Names are shared. Taking one over would hand on, or wipe, the state behind it.
        ("queries", their_name),
        ("queries", {**their_name, "reset": True}),
        ("queries", {**their_name, "config_hash": "y"}),
        ("cycle", push),
    ):
        answer = stranger.post(f"/streams/v1/{path}", json=body)
        assert answer.status_code == 403, (body, answer.text)
        assert streams.theirs not in answer.text
    for method in ("GET", "DELETE"):
        answer = stranger.request(method, f"/api/v1/streams/sums of {queue}")
        unknown = stranger.request(method, f"/api/v1/streams/sums of {queue[:-1]}!")
        assert answer.status_code == unknown.status_code == 404
        assert answer.text.replace(queue, "") == unknown.text.replace(f"{queue[:-1]}!", "")
    listed = stranger.get("/api/v1/streams").json()
    assert f"sums of {streams.my_queue}" in {one["name"] for one in listed["streams"]}
    assert all(one["sourceQueue"].startswith("a.") for one in listed["streams"])
    assert caller("admin").get(f"/api/v1/status/queues/{queue}").json()["totals"] == before
    _check_untouched(caller, theirs, streams)
    # What is theirs they resume, reset, see and remove.
    owner = _tenant(caller, "b")
    assert _stream(owner, queue).json()["query_id"] == streams.theirs
    assert _stream(owner, queue, config_hash="y", reset=True).json()["reset"]
    assert owner.delete(f"/api/v1/streams/sums of {queue}").status_code == 200


def test_a_cycle_that_pushes_needs_the_verb(caller: Caller, streams: Streams) -> None:
    reader = _tenant(caller, "a", queen_verbs=["pop"])
    items = [{"queue": streams.my_queue, "payload": 1}]
    body = _cycle(streams.mine, streams.my_message)
    assert reader.post("/streams/v1/cycle", json=body).json()["success"]
    refused = reader.post("/streams/v1/cycle", json={**body, "push_items": items})
    assert refused.status_code == 403 and "push" in refused.json()["error"]


@pytest.mark.parametrize("has_subject", [True, False])
def test_an_idempotency_key_of_one_tenant_does_not_stop_the_other(
    caller: Caller, has_subject: bool
) -> None:
    key = unique("order")
    for name in ("a", "b"):
        subject = name if has_subject else None
        tenant = caller(token=signed(role="admin", queen_queues=[f"{name}.*"], sub=subject))
        items = [{"queue": f"{name}.keys", "payload": name}]
        body = {"operations": [{"type": "push", "items": items}], "idempotencyKey": key}
        answer = tenant.post("/api/v1/transaction", json=body)
        assert answer.json()["success"], answer.text
        answer = tenant.post("/api/v1/push", json={"items": items, "idempotencyKey": key})
        assert answer.status_code == 201, answer.text
        assert answer.json()[0]["status"] == "queued"


def test_verbs_limit_what_a_token_does_with_its_queues(caller: Caller) -> None:
    queue = unique("a.verbs")
    pusher = _tenant(caller, "a", queen_verbs=["push"])
    popper = _tenant(caller, "a", queen_verbs="pop")
    items = {"items": [{"queue": queue, "payload": "x"}]}
    push = {"operations": [{"type": "push", **items}]}
    assert pusher.post("/api/v1/push", json=items).status_code == 201
    assert pusher.post("/api/v1/transaction", json=push).status_code == 200
    assert popper.post("/api/v1/push", json=items).status_code == 403
    assert popper.post("/api/v1/transaction", json=push).status_code == 403
    assert pusher.get(f"/api/v1/pop/queue/{queue}").status_code == 403
    assert pusher.get(f"/api/v1/messages?queue={queue}").status_code == 403
    message = _pop(popper, queue)
    ack = {"operations": [{"type": "ack", **_ids(message)}]}
    assert pusher.post("/api/v1/transaction", json=ack).status_code == 403
    for client in (pusher, popper):
        assert client.delete(f"/api/v1/resources/queues/{queue}").status_code == 403
        assert client.post("/api/v1/configure", json={"queue": queue}).status_code == 403
    assert popper.post("/api/v1/transaction", json=ack).json()["success"]


@pytest.mark.parametrize(
    "claim",
    [
        {"queen_queues": []},
        {"queen_queues": 7},
        {"queen_queues": [""]},
        {"queen_verbs": [1]},
        {"queen_verbs": ["fly"]},
    ],
    ids=["no-queue", "number", "empty-name", "no-text", "unknown-verb"],
)
def test_limits_that_cannot_be_read_refuse_the_token(caller: Caller, claim: dict[str, Any]) -> None:
    client = caller(token=signed(role="admin", **claim))
    assert client.get("/api/v1/resources/queues").status_code == 401
