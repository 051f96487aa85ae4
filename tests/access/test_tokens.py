"""API tokens, logins, proxies, producers and the audit log, over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx

from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, signed
from tests.support.waiting import wait_until, wait_until_async

Caller = Callable[..., httpx.Client]


def _create(admin: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = admin.post("/api/v1/tokens", json={"name": unique("token"), **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_token_is_shown_once_and_stored_as_a_hash(
    caller: Caller, guarded_database_url: str
) -> None:
    admin = caller("admin")
    made = _create(admin, role="read-write", queues=["t.*"], verbs=["push"], expiresInDays=2)
    assert made["token"].startswith("qmt_")
    listed = admin.get("/api/v1/tokens").text
    assert made["id"] in listed and made["token"] not in listed
    connection = await asyncpg.connect(guarded_database_url)
    try:
        row = await connection.fetchval(
            "SELECT t::text FROM queen.api_tokens t WHERE id = $1", uuid.UUID(made["id"])
        )
        audit = await connection.fetch("SELECT a::text FROM queen.audit_log a")
    finally:
        await connection.close()
    secret = made["token"].removeprefix("qmt_")
    assert secret not in row and not any(secret in entry[0] for entry in audit)
    client = caller(token=made["token"])
    push = {"items": [{"queue": "t.x", "payload": 1}]}
    assert client.post("/api/v1/push", json=push).status_code == 201
    assert client.get("/api/v1/pop/queue/t.x").status_code == 403
    push["items"][0]["queue"] = "u.x"
    assert client.post("/api/v1/push", json=push).status_code == 403
    wait_until(
        lambda: any(
            one["id"] == made["id"] and one["lastUsedAt"]
            for one in admin.get("/api/v1/tokens").json()["tokens"]
        ),
        timeout_s=SOON_S,
        what="the last use to be noted",
    )


def test_a_revoked_token_is_refused_by_every_broker(
    caller: Caller, guarded_database_url: str
) -> None:
    admin = caller("admin")
    token = _create(admin, role="read-only")
    headers = {"Authorization": f"Bearer {token['token']}"}
    with (
        running_broker(database_url=guarded_database_url, QUEEN_AUTH_ENABLED="true") as other,
        httpx.Client(base_url=other.url, headers=headers, verify=False) as there,
    ):
        here = caller(token=token["token"])
        for client in (here, there):
            assert client.get("/api/v1/resources/queues").status_code == 200
        assert admin.delete(f"/api/v1/tokens/{token['id']}").status_code == 200
        assert here.get("/api/v1/resources/queues").status_code == 401
        wait_until(
            lambda: there.get("/api/v1/resources/queues").status_code == 401,
            timeout_s=SOON_S,
            what="the other broker to refuse the token",
        )
    (row,) = (
        one for one in admin.get("/api/v1/tokens").json()["tokens"] if one["id"] == token["id"]
    )
    assert row["state"] == "revoked"


async def test_a_waiting_pop_gets_nothing_once_its_token_is_revoked(
    guarded: BrokerProcess, caller: Caller
) -> None:
    admin, queue = caller("admin"), unique("waiting")
    admin.post("/api/v1/configure", json={"queue": queue})
    token = _create(admin, role="read-write")
    headers = {"Authorization": f"Bearer {token['token']}"}
    async with httpx.AsyncClient(
        base_url=guarded.url, headers=headers, timeout=SOON_S, verify=False
    ) as client:
        path = f"/api/v1/pop/queue/{queue}?wait=true&timeout=20000"
        waiting = asyncio.create_task(client.get(path))

        def is_waiting() -> bool:
            why = admin.get(f"/api/v1/why/{queue}").json()
            return bool(why["broker"]["waitingPops"])

        await wait_until_async(
            lambda: asyncio.to_thread(is_waiting), timeout_s=SOON_S, what="the pop to wait"
        )
        assert admin.delete(f"/api/v1/tokens/{token['id']}").status_code == 200
        admin.post("/api/v1/push", json={"items": [{"queue": queue, "payload": "secret"}]})
        answer = await waiting
        assert (answer.status_code, answer.content) == (204, b"")
    wait_until(
        lambda: admin.get(f"/api/v1/pop/queue/{queue}").status_code == 200,
        timeout_s=SOON_S,
        what="the message to be handed back",
    )


def test_tokens_that_cannot_be_used_are_refused_in_words(caller: Caller) -> None:
    admin = caller("admin")
    for body, word in (
        ({"role": "king"}, "role"),
        ({"verbs": ["fly"]}, "verb"),
        ({"verbs": []}, "verbs"),
        ({"queues": []}, "queues"),
        ({"queues": ["x" * 300]}, "pattern"),
        ({"expiresInDays": 0}, "expiresInDays"),
        ({"name": ""}, "name"),
    ):
        answer = admin.post("/api/v1/tokens", json={"name": "n", **body})
        assert answer.status_code == 400 and word in answer.json()["error"], answer.text


def test_the_producer_is_the_tokens_subject_whatever_the_body_says(caller: Caller) -> None:
    queue = unique("producers")
    client = caller("read-write", sub="billing")
    liar = {"queue": queue, "payload": 1, "producerSub": "somebody-else"}
    client.post("/api/v1/push", json={"items": [liar], "producerSub": "somebody-else"})
    operations = [{"type": "push", "items": [liar], "producerSub": "somebody-else"}]
    assert client.post("/api/v1/transaction", json={"operations": operations}).json()["success"]
    admin = caller("admin")
    # What waits on disk and what waits as an operation keeps its producer as well.
    assert admin.post("/api/v1/system/maintenance", json={"enabled": True}).status_code == 200
    assert client.post("/api/v1/push", json={"items": [liar]}).json()[0]["status"] == "buffered"
    assert admin.post("/api/v1/system/maintenance", json={"enabled": False}).status_code == 200

    seen: list[Any] = []

    def has_all() -> bool:
        answer = client.get(f"/api/v1/pop/queue/{queue}?batch=10&autoAck=true")
        if answer.status_code == 200:
            seen.extend(one["producerSub"] for one in answer.json()["messages"])
        return len(seen) == 3

    wait_until(has_all, timeout_s=SOON_S, what="all messages")
    assert seen == ["billing"] * 3


def test_an_operation_keeps_its_producer(guarded_database_url: str) -> None:
    with running_broker(
        database_url=guarded_database_url,
        JWT_ENABLED="true",
        JWT_SECRET=SECRET,
        QUEEN_LOAD_PUSH_THRESHOLD="0.000000001",
        QUEEN_LOAD_RELEASE_RATIO="0.000000001",
    ) as broker:
        headers = {"Authorization": signed(role="admin", sub="queued", aud=None, iss=None)}
        with httpx.Client(base_url=broker.url, headers=headers, verify=False) as client:
            queue = unique("queued")
            body = {"items": [{"queue": queue, "payload": 1, "producerSub": "liar"}]}

            def is_queued() -> bool:
                answer = client.post("/api/v1/push", json=body).json()
                return bool(answer[0].get("operationId"))

            wait_until(is_queued, timeout_s=SOON_S, what="a push that is put off")
            pop = f"/api/v1/pop/queue/{queue}?autoAck=true&wait=true&batch=1000"
            subs: set[str] = set()

            def is_there() -> bool:
                answer = client.get(pop)
                if answer.status_code == 200:
                    subs.update(one["producerSub"] for one in answer.json()["messages"])
                return bool(subs)

            wait_until(is_there, timeout_s=SOON_S, what="the message")
            assert subs == {"queued"}


def test_a_login_is_a_cookie_that_needs_the_csrf_header_to_change_anything(caller: Caller) -> None:
    queue = unique("web")
    browser = caller()
    token = signed(role="admin", sub="ada")
    assert browser.post("/api/login", json={"token": "wrong"}).status_code == 401
    login = browser.post("/api/login", json={"token": token})
    assert login.status_code == 200 and login.json()["subject"] == "ada"
    cookie = login.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Secure" not in cookie
    assert token not in cookie and "no-store" in login.headers["cache-control"]
    me = browser.get("/api/me").json()
    assert me["kind"] == "session" and me["csrfToken"] == login.json()["csrfToken"]
    # Whoever uses the browser next finds none of it in its cache.
    for path in ("/api/me", "/api/v1/resources/queues", "/api/v1/messages"):
        assert browser.get(path).headers["cache-control"] == "no-store", path
    configure = {"queue": queue}
    assert browser.post("/api/v1/configure", json=configure).status_code == 403
    # A pop takes messages, although it is a GET.
    assert browser.get(f"/api/v1/pop/queue/{queue}").status_code == 403
    for wrong in ("", "x", me["csrfToken"][:-1] + "0g"):
        headers = {"X-Queen-CSRF": wrong}
        assert browser.post("/api/v1/configure", json=configure, headers=headers).status_code == 403
    headers = {"X-Queen-CSRF": me["csrfToken"]}
    assert browser.post("/api/v1/configure", json=configure, headers=headers).status_code == 200
    # The cookie is no bearer token, and a token is no cookie.
    session = browser.cookies["queen_session"]
    assert caller(token=session).get("/api/me").status_code == 401
    assert caller().get("/api/me", headers={"Cookie": f"queen_session={token}"}).status_code == 401
    assert browser.post("/api/logout").status_code == 403
    kept = {"Cookie": f"queen_session={session}"}
    assert browser.post("/api/logout", headers=headers).status_code == 200
    assert caller().get("/api/me", headers=kept).status_code == 401


def test_a_session_ends_with_the_token_it_was_obtained_with(caller: Caller) -> None:
    admin = caller("admin")
    token = _create(admin, role="read-only", queues=["x.*"])
    browser = caller()
    assert browser.post("/api/login", json={"token": token["token"]}).status_code == 200
    assert browser.get("/api/me").json()["queues"] == ["x.*"]
    admin.delete(f"/api/v1/tokens/{token['id']}")
    wait_until(
        lambda: browser.get("/api/me").status_code == 401,
        timeout_s=SOON_S,
        what="the session to end",
    )


def _raw(broker: BrokerProcess, source: str, request: str) -> str:
    """The answer to a request from another loopback address."""
    parts = urlsplit(broker.url)
    with socket.create_connection(
        (parts.hostname, parts.port), timeout=SOON_S, source_address=(source, 0)
    ) as connection:
        lines = f"Host: {parts.netloc}\r\nConnection: close\r\n"
        connection.sendall(request.replace("\n", "\r\n").replace("HOST\r\n", lines).encode())
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer.decode()


def test_headers_about_users_count_from_a_trusted_proxy_only(guarded: BrokerProcess) -> None:
    me = "GET /api/me HTTP/1.1\nHOST\nX-Forwarded-User: grace\nX-Forwarded-Groups: staff, admin\n\n"
    assert " 401 " in _raw(guarded, "127.0.0.1", me)
    trusted = _raw(guarded, "127.0.0.2", me)
    assert " 200 " in trusted
    found = json.loads(trusted.split("\r\n\r\n", 1)[1])
    assert (found["subject"], found["role"], found["kind"]) == ("grace", "admin", "proxy")
    twice = me.replace("\nHOST", "\nHOST\nX-Forwarded-User: root")
    assert " 401 " in _raw(guarded, "127.0.0.2", twice)
    # A page of another site could have the proxy log its visitor in; it cannot send this header.
    change = me.replace("GET /api/me", "POST /api/v1/stats/refresh")
    assert " 403 " in _raw(guarded, "127.0.0.2", change)
    meant = change.replace("\nHOST", "\nHOST\nX-Queen-CSRF: 1")
    assert " 200 " in _raw(guarded, "127.0.0.2", meant)
    login = (
        "POST /api/login HTTP/1.1\nHOST\nX-Forwarded-Proto: https\n"
        f"Authorization: Bearer {signed(role='admin')}\nContent-Length: 0\n\n"
    )
    assert "; Secure" in _raw(guarded, "127.0.0.2", login)
    assert "; Secure" not in _raw(guarded, "127.0.0.1", login)


def test_actions_are_written_down_with_who_what_where_and_when(caller: Caller) -> None:
    queue = unique("audited")
    admin = caller("admin", sub="ada")
    admin.post("/api/v1/configure", json={"queue": queue, "options": {"leaseTime": 7}})
    admin.delete(f"/api/v1/queues/{queue}/clear")
    seek = f"/api/v1/consumer-groups/g/queues/{queue}/seek"
    admin.post(seek, json={"toEnd": True})
    admin.delete(f"/api/v1/resources/queues/{queue}")
    admin.delete(f"/api/v1/tokens/{uuid.uuid4()}")
    caller("read-only", sub="eve").delete(f"/api/v1/resources/queues/{queue}")
    found = admin.get("/api/v1/audit", params={"who": "ada", "limit": 5}).json()["entries"]
    assert [(one["action"], one["status"]) for one in found] == [
        ("token.revoke", 404), ("queue.delete", 200), ("group.seek", 200), ("queue.clear", 200),
        ("queue.configure", 200),
    ]  # fmt: skip
    configured = found[-1]
    assert queue in configured["details"] and configured["address"] == "127.0.0.1"
    assert (configured["how"], configured["role"]) == ("jwt", "admin") and configured["at"]
    assert admin.get("/api/v1/audit", params={"who": "eve"}).json()["entries"] == []
    only = admin.get("/api/v1/audit", params={"who": "ada", "action": "queue"}).json()["entries"]
    assert {one["action"].split(".")[0] for one in only} == {"queue"}


def test_series_can_be_opened_for_a_scraper(guarded_database_url: str) -> None:
    with (
        running_broker(
            database_url=guarded_database_url,
            JWT_ENABLED="true",
            JWT_SECRET=SECRET,
            JWT_ISSUER=ISSUER,
            JWT_AUDIENCE=AUDIENCE,
            QUEEN_METRICS_PUBLIC="true",
        ) as broker,
        httpx.Client(base_url=broker.url, verify=False) as client,
    ):
        assert client.get("/metrics/prometheus").status_code == 200
        assert client.get("/api/v1/resources/queues").status_code == 401


def test_a_caller_gives_away_no_verb_that_it_lacks(caller: Caller) -> None:
    limited = caller("admin", queen_verbs=["admin"])
    for verbs in (None, ["push"], ["admin", "pop"]):
        body = {"name": unique("token"), "role": "admin", "verbs": verbs}
        assert limited.post("/api/v1/tokens", json=body).status_code == 403
    assert _create(limited, role="admin", verbs=["admin"])["verbs"] == ["admin"]


def test_subjects_and_times_that_are_none_are_refused(caller: Caller) -> None:
    for claims in ({"sub": "a\ud800"}, {"sub": "a\x00"}, {"exp": 10**400}, {"nbf": 10**400}):
        answer = caller("admin", **claims).get("/api/me")
        assert answer.status_code == 401, answer.text


def test_people_may_log_in_again(caller: Caller) -> None:
    page = caller(token=None)
    for _ in range(2):
        answer = page.post("/api/login", json={"token": signed(role="read-only")})
        assert answer.status_code == 200, answer.text


def _leave_with_body(broker: BrokerProcess, token: str, size: int) -> None:
    """Send a whole request and cut the connection at once."""
    address = urlsplit(broker.url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        head = (
            f"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        )
        connection.sendall(head.encode() + b"x" * size)


def test_bodies_of_callers_that_leave_at_the_gate_are_let_go(guarded_database_url: str) -> None:
    size = 3_000_000
    settings = {
        "JWT_ENABLED": "true",
        "JWT_SECRET": SECRET,
        "JWT_ISSUER": ISSUER,
        "JWT_AUDIENCE": AUDIENCE,
        "QUEEN_MAX_BODIES_BYTES": str(4 * size),
    }
    push = {"items": [{"queue": unique(), "payload": "x" * size}]}
    headers = {"Authorization": f"Bearer {signed(role='admin')}"}
    with (
        running_broker(database_url=guarded_database_url, **settings) as broker,
        httpx.Client(base_url=broker.url, headers=headers, timeout=SOON_S, verify=False) as client,
    ):
        for number in range(40):
            _leave_with_body(broker, f"qmt_{number:043}", size)
        wait_until(
            lambda: client.post("/api/v1/push", json=push).status_code == 201,
            timeout_s=SOON_S,
            what="the bodies of those who left to be let go",
        )


def test_a_dead_cookie_hides_neither_the_proxys_user_nor_a_token(guarded: BrokerProcess) -> None:
    dead = f"qms_{'a' * 43}"
    user = "X-Forwarded-User: grace\nX-Forwarded-Groups: admin\n"
    # Known to be dead the second time, no token at all, and one of another kind.
    for cookie in (dead, dead, "nonsense", signed(role="admin")):
        me = f"GET /api/me HTTP/1.1\nHOST\nCookie: queen_session={cookie}\n"
        assert '"subject":"grace"' in _raw(guarded, "127.0.0.2", f"{me}{user}\n")
        assert " 401 " in _raw(guarded, "127.0.0.1", f"{me}{user}\n")
        assert " 401 " in _raw(guarded, "127.0.0.2", f"{me}\n")
        token = f"Authorization: Bearer {signed(role='admin', sub='ada')}\n"
        assert '"subject":"ada"' in _raw(guarded, "127.0.0.1", f"{me}{token}\n")
