"""The broker's own TLS: versions, certificates, reloading, slow handshakes, clients and tools."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from queenmq import Queen, SyncQueen, Unreachable
from queenmq.server.tls.certificates import TlsFiles, make_context
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.command_line import run_queen
from tests.support.pki import Pki
from tests.support.waiting import wait_until

StartBroker = Callable[..., BrokerProcess]


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


def place_of(broker: BrokerProcess) -> tuple[str, int]:
    host, _, port = broker.url.removeprefix("https://").rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def connected(broker: BrokerProcess, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(place_of(broker), timeout=SOON_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        yield secure


def serial_of(broker: BrokerProcess, pki: Pki) -> int:
    from cryptography.x509 import load_der_x509_certificate

    with connected(broker, pki.context()) as secure:
        der = secure.getpeercert(binary_form=True)
        assert der is not None
        return load_der_x509_certificate(der).serial_number


def ask(sock: socket.socket, path: str = "/health/live") -> bytes:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return sock.recv(65536)


async def test_clients_and_tools(start_broker: StartBroker, pki: Pki) -> None:
    environ = {**pki.environ, "QUEEN_TLS_CLIENT_CA": pki.client_ca_file}
    broker = start_broker(**environ)
    assert broker.url.startswith("https://127.0.0.1:")
    own = {
        "ca_file": pki.ca_file,
        "cert_file": pki.client_cert,
        "key_file": pki.client_key,
    }
    queue, big = unique(), "x" * 3_000_000
    async with Queen(broker.url, **own) as queen, asyncio.timeout(SOON_S):
        await queen.queue(queue).push([{"data": big}, {"data": 2}])
        messages = await queen.queue(queue).batch(2).wait(True).pop()
        assert [message.data for message in messages] == [big, 2]
        assert (await queen.ack(messages, True)) is not None
    with SyncQueen(broker.url, **own) as plain:
        assert plain.pop(queue) == []

    # A client without a certificate, with one of another authority, without the right authority.
    strangers: list[dict[str, Any]] = [
        {"ca_file": pki.ca_file},
        {"ca_file": pki.ca_file, "cert_file": str(pki.cert), "key_file": str(pki.key)},
        {**own, "ca_file": pki.client_ca_file},
    ]
    for options in strangers:
        async with Queen(broker.url, **options, retry_attempts=1) as queen:
            with pytest.raises(Unreachable):
                await queen.queue(queue).push([{"data": 1}])
    with pytest.raises(ValueError, match="cert_file"):
        Queen(broker.url, key_file=pki.client_key)

    config = {"XDG_CONFIG_HOME": str(Path(pki.ca_file).parent), "HOME": "/nowhere"}

    def queen_tool(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "queenmq", *arguments],
            env={**os.environ, **config, **more},
            capture_output=True,
            text=True,
        )

    flags = ["--ca-file", pki.ca_file, "--cert-file", pki.client_cert]
    flags += ["--key-file", pki.client_key]
    kept = queen_tool("context", "set", "secure", "--url", broker.url, *flags)
    assert kept.returncode == 0, kept.stderr
    listed = queen_tool("queues", "list", "-o", "json")
    assert queue in listed.stdout, listed.stderr
    refused = queen_tool("queues", "list", "--url", broker.url, QUEEN_CA_FILE=pki.ca_file)
    assert refused.returncode != 0
    for line in broker.log:
        assert "Traceback" not in line


def test_what_is_refused_and_what_slow_clients_cost(start_broker: StartBroker, pki: Pki) -> None:
    broker = start_broker(**pki.environ, QUEEN_HEAD_TIMEOUT_MS="1500", QUEEN_CONNECTIONS_MAX="20")
    context = pki.context()
    with connected(broker, context) as secure:
        assert secure.version() in ("TLSv1.2", "TLSv1.3")
        assert b"200 OK" in ask(secure)
    with connected(broker, pki.context(maximum_version=ssl.TLSVersion.TLSv1_2)) as secure:
        assert b"200 OK" in ask(secure)
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(ssl.SSLError),
    ):
        old = pki.context(minimum_version=ssl.TLSVersion.TLSv1)
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        with connected(broker, old):
            pass

    # HTTP without TLS is told so; bytes that are nothing are cut off, and so is half a handshake.
    with socket.create_connection(place_of(broker), timeout=SOON_S) as plain:
        assert b"400 Bad Request" in (answer := ask(plain)) and b"https://" in answer
    for junk in (b"\x16\x03\x01\x02\x00\x01\x00", b"\x16" + os.urandom(4000), b"\x00" * 100):
        with socket.create_connection(place_of(broker), timeout=SOON_S) as plain:
            plain.sendall(junk)
            with contextlib.suppress(ConnectionError):
                while plain.recv(65536):
                    pass

    # Handshakes that never end count as connections and do not shut others out for long.
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            idle = stack.enter_context(socket.create_connection(place_of(broker), timeout=SOON_S))
            with contextlib.suppress(ConnectionError):
                idle.sendall(b"\x16\x03\x01")

        def is_served() -> bool:
            try:
                with connected(broker, context) as secure:
                    return b"200 OK" in ask(secure)
            except (OSError, ssl.SSLError):
                return False

        wait_until(is_served, timeout_s=SOON_S, what="an answer beside slow handshakes")

    # Pipelined requests, a body in pieces, an end in the middle.
    with connected(broker, context) as secure:
        body = b'{"items":[{"queue":"tls","payload":"' + b"y" * 200_000 + b'"}]}'
        head = b"POST /api/v1/push HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
        secure.sendall(head % len(body) + body[:100])
        secure.sendall(body[100:] + b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        seen = b""
        while seen.count(b"HTTP/1.1 ") < 2:
            seen += secure.recv(65536)
        assert b"201 Created" in seen and b"200 OK" in seen
        # The end of TLS comes before that of the connection, so nothing can be cut off unseen.
        secure.sendall(b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        rest = b""
        while piece := secure.recv(65536):
            rest += piece
        assert b"404" in rest
    # A client that ends TLS first hears the same from the broker.
    with connected(broker, context) as secure:
        assert b"200 OK" in ask(secure)
        secure.unwrap()
    assert broker.stop() == 0
    assert not [line for line in broker.log if "Traceback" in line or "defect" in line]


def test_clients_cannot_negotiate_anew(pki: Pki) -> None:
    context = make_context(TlsFiles(str(pki.cert), str(pki.key)))
    assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_new_certificate_is_served_without_dropping_connections(
    start_broker: StartBroker, pki: Pki, workers: str
) -> None:
    broker = start_broker(
        **pki.environ,
        QUEEN_WORKERS=workers,
        QUEEN_AUTH_ENABLED="true",
        QUEEN_JWT_SECRET="s" * 40,
    )
    with connected(broker, pki.context()) as secure:
        assert b"200 OK" in ask(secure)
        # What cannot be used is not used.
        good = pki.cert.read_bytes()
        pki.cert.write_text("no certificate")
        os.kill(broker.pid, signal.SIGHUP)
        assert b"200 OK" in ask(secure)
        pki.cert.write_bytes(good)
        assert serial_of(broker, pki)
        serial = pki.issue()
        os.kill(broker.pid, signal.SIGHUP)
        for _ in range(int(workers) * 2):
            wait_until(
                lambda: serial_of(broker, pki) == serial, timeout_s=SOON_S, what="the new one"
            )
        assert b"200 OK" in ask(secure)
        if workers == "1":
            # Without a signal, too.
            serial = pki.issue()
            wait_until(
                lambda: serial_of(broker, pki) == serial, timeout_s=SOON_S, what="the newest one"
            )
    import jwt

    claims = {"sub": "me", "role": "admin", "exp": 4_000_000_000}
    token = jwt.encode(claims, "s" * 40, algorithm="HS256")
    answer = httpx.post(f"{broker.url}/api/login", json={"token": token}, verify=pki.context())
    assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"QUEEN_TLS_CERT": "cert.pem"}, "needs its key"),
        ({"QUEEN_TLS_KEY": "key.pem"}, "needs its certificate"),
        ({"QUEEN_TLS_CLIENT_CA": "ca.pem"}, "needs a certificate of the server"),
        ({"QUEEN_TLS_CERT": "none.pem", "QUEEN_TLS_KEY": "key.pem"}, "cannot be read"),
        ({"QUEEN_TLS_CERT": "cert.pem", "QUEEN_TLS_KEY": "ca.pem"}, "cannot be used"),
        ({"QUEEN_ENCRYPTION_KEY": "abc"}, "is not a key"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_mistakes_stop_the_start(pki: Pki, environ: dict[str, str], said: str) -> None:
    home = Path(pki.ca_file).parent
    started = subprocess.run(
        [sys.executable, "-m", "queenmq", "serve", "--port", "0"],
        env={**os.environ, **environ},
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert started.returncode == 2
    assert said in started.stderr and len(started.stderr.splitlines()) == 1
    assert "PRIVATE KEY" not in started.stderr


def test_commands_say_what_is_wrong_with_tls(start_broker: StartBroker, pki: Pki) -> None:
    broker = start_broker(**pki.environ)
    untrusted = run_queen("queues", "list", "--url", broker.url)
    assert untrusted.code == 4 and "is not trusted" in untrusted.err
    assert "--ca-file" in untrusted.err and "running there" not in untrusted.err
    plain = start_broker()
    spoken = run_queen("queues", "list", "--url", plain.url.replace("http://", "https://"))
    assert spoken.code == 4 and "use http://" in spoken.err
