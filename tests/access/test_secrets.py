"""Secrets stay where they were put: nothing that the product writes holds one."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import psutil
import pytest
import trustme

from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.tokens import signed
from tests.support.waiting import wait_until


class Planted:
    """Secrets, by what they are for, and a look for them in what was written."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}
        #: All that was found: one leak hides no other.
        self.shown: list[str] = []

    def plant(self, name: str, value: str | None = None) -> str:
        self.by_name[name] = value or f"{name}{secrets.token_hex(16)}"
        return self.by_name[name]

    def look(self, where: str, written: str | bytes) -> None:
        text = written.decode("latin-1") if isinstance(written, bytes) else written
        self.shown += [f"{where} shows the {n}" for n, one in self.by_name.items() if one in text]


@pytest.fixture
def planted() -> Planted:
    return Planted()


def with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.split(':')[0]}:{password}@{host}"))


@pytest.fixture
def broker(planted: Planted, database_url: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    leaf = trustme.CA().issue_cert("127.0.0.1")
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    leaf.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    # Brokers are started where dumps are on.
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    planted.plant("tls key", leaf.private_key_pem.bytes().decode().splitlines()[1])
    process = BrokerProcess(
        ["--log-level", "debug", "--workers", "2"],
        environ={
            "QUEEN_DATABASE_URL": with_password(database_url, planted.plant("password")),
            "QUEEN_SPOOL_DIR": str(tmp_path / "spool"),
            "QUEEN_AUTH_ENABLED": "true",
            "QUEEN_JWT_SECRET": planted.plant("jwt-secret"),
            "QUEEN_ENCRYPTION_KEY": planted.plant("encryption key", secrets.token_hex(32)),
            "QUEEN_TLS_CERT": str(tmp_path / "cert.pem"),
            "QUEEN_TLS_KEY": str(tmp_path / "key.pem"),
            "QUEEN_MOVE_TARGETS": "127.0.0.1:1",
        },
    )
    try:
        yield process
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
        if process.process.poll() is None:
            process.stop()


def look_at_processes(broker: BrokerProcess, planted: Planted) -> None:
    """What other users of the machine see; and a worker is killed, for what it leaves behind."""
    family = [psutil.Process(broker.pid), *psutil.Process(broker.pid).children(recursive=True)]
    assert len(family) >= 3
    for process in family:
        planted.look("a command line", " ".join(process.cmdline()))
        # A dump of its memory would have them all.
        assert process.rlimit(psutil.RLIMIT_CORE)[0] == 0
    family[1].send_signal(signal.SIGABRT)
    wait_until(
        lambda: len(psutil.Process(broker.pid).children()) >= 2,
        timeout_s=SOON_S,
        what="a new worker",
    )


def fail_to_move(call: Callable[..., httpx.Response], planted: Planted) -> None:
    """Have the broker connect to a server that is not there, with a password of the caller's."""
    target = {"host": "127.0.0.1", "port": 1, "database": "d", "user": "u"}
    target["password"] = planted.plant("target's password")
    elsewhere = {**target, "host": "db.example"}
    for way in ("test-connection", "validate", "start"):
        call("POST", f"/api/v1/migration/{way}", json=elsewhere)
        call("POST", f"/api/v1/migration/{way}", json=target)
    wait_until(
        lambda: call("GET", "/api/v1/migration/status").json()["status"] == "failed",
        timeout_s=SOON_S,
        what="the end of the move",
    )


async def test_nothing_that_a_broker_writes_shows_a_secret(
    broker: BrokerProcess, planted: Planted, database: asyncpg.Connection, tmp_path: Path
) -> None:
    payload = planted.plant("payload")
    jwt = planted.plant("jwt", signed(role="admin", secret=planted.by_name["jwt-secret"]))
    client = httpx.Client(base_url=broker.url, verify=False, timeout=SOON_S)
    told: list[httpx.Response] = []

    def call(method: str, path: str, token: str | None = jwt, **more: object) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        told.append(client.request(method, path, headers=headers, **more))  # type: ignore[arg-type]
        return told[-1]

    created = call("POST", "/api/v1/tokens", json={"name": "n", "role": "admin"})
    assert created.status_code == 201
    # These two answers are where the secret is handed over.
    told.pop()
    token = planted.plant("api token", created.json()["token"])
    login = call("POST", "/api/login", None, json={"token": token})
    told.pop()
    session = planted.plant("session", login.cookies["__Host-queen_session"])

    queue = unique()
    options = {"queue": queue, "options": {"encryptionEnabled": True}}
    assert call("POST", "/api/v1/configure", json=options).status_code == 200
    push = {"items": [{"queue": queue, "payload": payload}]}
    assert call("POST", "/api/v1/push", token, json=push).status_code == 201
    maintenance = "/api/v1/system/maintenance"
    assert call("POST", maintenance, json={"enabled": True}).status_code == 200
    assert call("POST", "/api/v1/push", token, json=push).json()[0]["status"] == "buffered"
    spooled = [file for file in (tmp_path / "spool").rglob("*") if file.is_file()]
    assert spooled
    for file in spooled:
        planted.look(f"the spool's {file.name}", file.read_bytes())
    assert call("POST", maintenance, json={"enabled": False}).status_code == 200

    # Wrong ones, bad requests, tokens in the wrong place, things that do not exist.
    for wrong in (f"{jwt}x", f"{token}x", session, jwt[:-10], f"Bearer {jwt}"):
        assert call("GET", "/api/me", wrong).status_code == 401
        assert call("POST", "/api/login", None, json={"token": wrong}).status_code == 401
    call("GET", f"/api/v1/queues/{token}/none")
    call("GET", f"/nothing?token={token}")
    call("POST", "/api/v1/push", content=f'{{"items": [{{"{payload}": '.encode())
    call("POST", "/api/v1/push", json={"items": [{"queue": 7, "payload": payload}]})
    call("DELETE", "/api/v1/tokens/not-an-id")
    call("GET", "/api/v1/pop/queue/x?batch=" + payload)
    told.pop(-1)  # It quotes what the caller sent, to the caller.
    told.pop(-5)
    for path in (
        "/health", "/metrics", "/metrics/prometheus", "/openapi.json", "/api/v1/audit",
        "/api/v1/tokens", "/api/v1/system/shared-state", "/api/v1/status", maintenance,
        "/api/v1/analytics/postgres-stats", "/api/v1/analytics/system-metrics", "/api/me",
        "/api/v1/system/settings", "/api/v1/why", "/api/v1/migration/status",
    ):  # fmt: skip
        assert call("GET", path).status_code == 200, path

    fail_to_move(call, planted)
    look_at_processes(broker, planted)
    assert broker.stop() == 0
    planted.look("the log", "\n".join(broker.log))
    for answer in told:
        shown = f"{answer.headers} {answer.text}"
        planted.look(f"the answer to {answer.request.method} {answer.request.url.path}", shown)
    for table in ("audit_log", "api_tokens", "messages", "operation_queue", "system_state"):
        found = await database.fetchval(f"SELECT string_agg(t::text, ' ') FROM queen.{table} t")
        planted.look(f"the table {table}", found or "")
    client.close()
    assert not planted.shown, planted.shown


def test_mistakes_in_settings_and_commands_show_no_secret(
    planted: Planted, tmp_path: Path, database_url: str
) -> None:
    password, key = planted.plant("password"), planted.plant("key")
    config = tmp_path / "queen.toml"
    number = planted.plant("number", str(secrets.randbits(60)))
    context = tmp_path / "queen" / "config.toml"
    context.parent.mkdir()
    context.write_text(f'[contexts.here]\nurl = "http://127.0.0.1:1"\ntoken = "{key}"\n')
    pgpass = tmp_path / "pgpass"
    pgpass.write_text(f"*:*:*:*:{password}\n")
    pgpass.chmod(0o600)
    serve, nowhere = ["serve", "--port", "0"], "postgresql://u@127.0.0.1:1/d"
    cases: list[tuple[list[str], dict[str, str]]] = [
        (serve, {"QUEEN_DATABASE_URL": f"mysql://u:{password}@h/d"}),
        (serve, {"QUEEN_DATABASE_URL": f"postgresql://u:{password}@[h/d"}),
        (serve, {"QUEEN_DATABASE_URL": f"postgresql://u:{password}@h:port/d"}),
        (["db", "check"], {"QUEEN_DATABASE_URL": f"postgresql://u:{password}@127.0.0.1:1/d"}),
        (["db", "check", "--database-url", nowhere], {"PGPASSFILE": str(pgpass)}),
        (["queues", "list"], {"QUEEN_CA_FILE": str(pgpass), "QUEEN_URL": "https://127.0.0.1:1"}),
        (serve, {"QUEEN_ENCRYPTION_KEY": key}),
        (serve, {"QUEEN_AUTH_ENABLED": "true", "QUEEN_JWT_SECRET": key[:20]}),
        (serve, {"QUEEN_AUTH_ENABLED": "true", "QUEEN_JWT_PUBLIC_KEY": f"-----BEGIN {key}"}),
        (serve, {"QUEEN_AUTH_ENABLED": "true", "QUEEN_JWT_JWKS_URL": f"ftp://u:{password}@h/"}),
        (
            [*serve, "--database-url", database_url],
            {
                "QUEEN_AUTH_ENABLED": "true",
                "QUEEN_JWT_JWKS_URL": f"http://u:{password}@127.0.0.1/keys",
            },
        ),
        (
            [*serve, "--database-url", database_url],
            {"QUEEN_OTLP_ENDPOINT": f"http://u:{password}@127.0.0.1/v1/traces"},
        ),
        ([*serve, "--database-url", database_url], {"QUEEN_OTLP_ENDPOINT": f"grpc://{key}@h"}),
        ([*serve, "--config", str(config)], {"CONTENT": f"jwt_secret = {number}"}),
        ([*serve, "--config", str(config)], {"CONTENT": f"encryption_key = [{number}]"}),
        ([*serve, "--config", str(config)], {"CONTENT": f'jwt_secret = "{key}'}),
        (["queues", "list", "--context", "here"], {}),
        (["context", "list"], {}),
        (["context", "show", "here", "-o", "json"], {}),
        (["push", "q", "1"], {"QUEEN_URL": "http://127.0.0.1:1", "QUEEN_TOKEN": key}),
        (["queues", "list"], {"QUEEN_URL": f"http://u:{password}@127.0.0.1:1"}),
    ]  # fmt: skip
    planted.plant("short key", key[:20])
    for arguments, environ in cases:
        config.write_text(environ.pop("CONTENT", ""))
        run = subprocess.run(
            [sys.executable, "-m", "queenmq", *arguments],
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), **environ},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SOON_S,
        )
        case = f"{arguments} with {sorted(environ)}"
        planted.look(case, run.stdout + run.stderr)
        if "Traceback" in run.stderr:
            planted.shown.append(f"{case} breaks: {run.stderr.splitlines()[-1]}")
    assert not planted.shown, planted.shown
