"""TLS: certificates are checked, a private authority can be named, a client can show who it is."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from queenmq import Queen, SyncQueen, Unreachable
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.scripted_server import Say, scripted
from tests.support.tcp_server import connected, join, tcp_server

ONCE: dict[str, Any] = {"retry_attempts": 1}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return context


@contextlib.asynccontextmanager
async def tls_front(broker: BrokerProcess, context: ssl.SSLContext) -> AsyncIterator[str]:
    """A TLS end in front of a broker, as a load balancer is; its URL."""
    host, _, port = broker.url.removeprefix("http://").rpartition(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with connected(host, int(port)) as inner:
            await join((reader, writer), inner)

    async with tcp_server(serve, context=context) as server:
        yield f"https://{server.address}"


async def test_everything_works_over_tls(
    broker: BrokerProcess, authority: trustme.CA, ca_file: str
) -> None:
    queue, seen = unique(), []

    async def handle(messages: list[Any]) -> None:
        seen.extend(message.data for message in messages)

    async with tls_front(broker, server_context(authority)) as url:
        async with Queen(url, ca_file=ca_file) as queen, asyncio.timeout(SOON_S):
            await queen.push(queue, ["x" * 300_000, *range(50)])
            await queen.consume(queue, handle, batch=20, limit=51)
            assert seen == ["x" * 300_000, *range(50)]
            assert await queen.pop(queue) == []


async def test_a_plain_thread_can_use_tls_as_well(
    broker: BrokerProcess, authority: trustme.CA, ca_file: str
) -> None:
    def use(url: str) -> list[Any]:
        with SyncQueen(url, ca_file=ca_file) as queen:
            queen.push(queue, 1)
            return [message.data for message in queen.pop(queue)]

    queue = unique()
    async with tls_front(broker, server_context(authority)) as url:
        assert await asyncio.to_thread(use, url) == [1]


@pytest.mark.parametrize(
    ("names", "options", "text"),
    [
        (("127.0.0.1",), lambda ca: {}, "certificate verify failed"),
        (("queen.example",), lambda ca: {"ca_file": ca}, "certificate verify failed"),
    ],
    ids=["unknown authority", "another host"],
)
async def test_a_certificate_that_does_not_fit_is_refused(
    authority: trustme.CA,
    ca_file: str,
    names: tuple[str, ...],
    options: Callable[[str], dict[str, Any]],
    text: str,
) -> None:
    context = server_context(authority, *names)
    async with scripted(Say(200, {}), context=context) as server:
        async with Queen(server.url, **options(ca_file), **ONCE) as queen:
            with pytest.raises(Unreachable, match=text):
                await queen.push("q", 1)
        assert server.seen == []


async def test_a_client_can_show_a_certificate_of_its_own(
    authority: trustme.CA, ca_file: str
) -> None:
    theirs = server_context(authority)
    authority.configure_trust(theirs)
    theirs.verify_mode = ssl.CERT_REQUIRED
    ours = ssl.create_default_context(cafile=ca_file)
    authority.issue_cert("client@queen.example").configure_cert(ours)
    async with scripted(Say(200, {"status": "healthy"}), context=theirs) as server:
        async with Queen(server.url, ssl=ours) as queen:
            assert await queen._transport.call("GET", "/health") == {"status": "healthy"}
        async with Queen(server.url, ca_file=ca_file, **ONCE) as queen:
            with pytest.raises(Unreachable):
                await queen._transport.call("GET", "/health")


async def test_http_to_a_tls_port_says_that_no_answer_came(authority: trustme.CA) -> None:
    async with scripted(Say(200, {}), context=server_context(authority)) as server:
        async with Queen(server.url.replace("https:", "http:"), **ONCE) as queen:
            with pytest.raises(Unreachable):
                await queen.push("q", 1)


def test_options_of_tls_are_checked(tmp_path: Path, ca_file: str) -> None:
    with pytest.raises(ValueError, match=r"ca_file .*none\.pem"):
        Queen("https://localhost", ca_file=str(tmp_path / "none.pem"))
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(ValueError, match=r"ca_file .*empty\.pem"):
        Queen("https://localhost", ca_file=str(empty))
    with pytest.raises(ValueError, match="both ssl and ca_file"):
        Queen("https://localhost", ca_file=ca_file, ssl=ssl.create_default_context())
