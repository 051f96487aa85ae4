"""The broker behind nginx and HAProxy that keep their connections to it open, where installed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.load import Wire, pop_path
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.waiting import wait_until

_NGINX = """
daemon off;
user root;
worker_processes 1;
pid {home}/pid;
error_log {home}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    upstream queen {{ server {broker}; keepalive 8; }}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 64m;
        location / {{
            proxy_pass http://queen;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host localhost;
            proxy_buffering off;
        }}
    }}
}}
"""
_HAPROXY = """
defaults
    mode http
    option http-keep-alive
    http-reuse always
    option abortonclose
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{port}
    default_backend queen
backend queen
    server one {broker}
"""


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture(params=["nginx", "haproxy"])
def proxy_url(
    request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path
) -> Iterator[str]:
    """A proxy in front of the shared broker."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    port, config = _free_port(), tmp_path / "config"
    template = _NGINX if request.param == "nginx" else _HAPROXY
    config.write_text(template.format(home=tmp_path, port=port, broker=urlsplit(broker.url).netloc))
    flag = "-c" if request.param == "nginx" else "-f"
    process = subprocess.Popen([program, flag, str(config)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port), timeout_s=SOON_S, what="the proxy to listen")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(SOON_S)


@pytest.fixture
async def proxied(proxy_url: str) -> AsyncIterator[Api]:
    client = Api(proxy_url)
    yield client
    await client.close()


async def test_messages_pass_through_a_proxy_whole_and_in_order(proxied: Api) -> None:
    queue = unique()
    for number in range(30):
        await proxied.push(queue, number)
    await proxied.push(queue, "x" * 3_000_000)
    found = [await proxied.data(queue, batch=10, autoAck=True) for _ in range(4)]
    assert [one for batch in found for one in batch] == [*range(30), "x" * 3_000_000]


async def test_a_long_poll_through_a_proxy_is_woken(proxied: Api) -> None:
    queue = unique()
    waiting = asyncio.create_task(proxied.pop(queue, wait=True, timeout=30_000))
    await proxied.push(queue, "late")
    async with asyncio.timeout(SOON_S):
        assert [message["data"] for message in await waiting] == ["late"]


async def test_a_client_that_leaves_through_a_proxy_takes_nothing(
    proxied: Api, proxy_url: str, api: Api
) -> None:
    queue = unique()
    async with Wire(proxy_url) as caller:
        caller.send("GET", pop_path(queue, wait=True, timeout=60_000))
        await caller.close()
    await proxied.push(queue, 1)
    (message,) = await proxied.pop(queue, wait=True, timeout=30_000)
    assert message["data"] == 1


async def test_requests_that_the_edge_refuses_leave_the_proxy_usable(proxied: Api) -> None:
    for _ in range(3):
        refused = await proxied.http.post("/api/v1/push", content=b"{}", headers={"Expect": "x"})
        assert refused.status_code in (400, 417)
        assert (await proxied.http.get("/health/live")).status_code == 200
