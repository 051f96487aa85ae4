"""Targets of a move: what a caller names is a server, and nothing else gets into the URL."""

from __future__ import annotations

import asyncio
import struct

import pytest

from queenmq import wire
from queenmq.errors import InvalidRequest, QueenError
from queenmq.server.routes.admin.moving import _url_of
from queenmq.storage.connection.hosts import Host, parse_url
from queenmq.storage.moving import mover
from tests.support.tcp_server import tcp_server


def _target(host: str, port: str | int = "5432", password: str = "p") -> wire.MigrationTarget:
    return wire.MigrationTarget(host, "d", "u", port, password)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("db.example", "db.example"),
        ("10.0.0.5", "10.0.0.5"),
        ("2001:db8::5", "2001:db8::5"),
        ("/run/postgresql", "/run/postgresql"),
    ],
)
def test_a_host_stays_one_host(host: str, name: str) -> None:
    found = parse_url(_url_of(_target(host)))
    assert found.hosts == (Host(name, 5432),)
    assert found.text.count("?") == host.startswith("/")


@pytest.mark.parametrize(
    "host",
    [
        # Each would choose other files, another host, or a second one.
        "::1]:1/d?sslrootcert=/etc/passwd&x=[",
        "::1]:9,other.example:[1",
        "name:5432",
        "[::1]",
        "a:b]@other.example",
        "a,other.example",
        "/run/a,other.example",
        "fe80::1%]@other.example",
        "a@b/c?sslrootcert=x",
        "name\n",
    ],
)
def test_a_host_cannot_bring_more_than_itself(host: str) -> None:
    with pytest.raises(InvalidRequest, match="host"):
        _url_of(_target(host))


@pytest.mark.parametrize("port", ["٣", "0", "65536", "5432/x?a=b", ""])
def test_a_port_is_a_number(port: str) -> None:
    with pytest.raises(InvalidRequest, match="port"):
        _url_of(_target("h", port))


async def test_the_brokers_own_password_goes_to_no_other_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", "the-brokers-own")
    sent = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak as a server does that wants the password in clear."""
        while (length := struct.unpack("!i", await reader.readexactly(4))[0]) == 8:
            await reader.readexactly(4)
            writer.write(b"N")
        await reader.readexactly(length - 4)
        writer.write(b"R" + struct.pack("!ii", 8, 3))
        sent.extend(await reader.read(1_000))

    async with tcp_server(serve) as server:
        with pytest.raises(QueenError):
            await mover.look_at(_url_of(_target("127.0.0.1", server.port, password="")))
    assert sent.startswith(b"p") and b"the-brokers-own" not in sent
