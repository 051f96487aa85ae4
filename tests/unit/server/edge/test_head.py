"""Heads: what is accepted, what is refused and how, and that a remembered head is the same head."""

from __future__ import annotations

import pytest

from queenmq.server.edge.head import CHUNKED, Head, HeadLimits, HeadReader, parse_head
from queenmq.server.edge.refusal import Refused

LIMITS = HeadLimits(
    bytes_max=65_536,
    line_bytes_max=1_000,
    header_bytes_max=500,
    headers_max=20,
    body_bytes_max=1_000_000,
)


def head(*lines: str, request: str = "POST /a HTTP/1.1", host: str | None = "h:1") -> bytes:
    hosts = [] if host is None else [f"Host: {host}"]
    return "\r\n".join([request, *hosts, *lines, "", ""]).encode("latin-1")


REFUSED = {
    "no host": (head(host=None), 400, "0 Host headers"),
    "two hosts": (head("Host: b"), 400, "2 Host headers"),
    "host with a path": (head(host="a/b"), 400, "'a/b'"),
    "host with a user": (head(host="u@a"), 400, "'u@a'"),
    "length and chunked": (head("Content-Length: 1", "Transfer-Encoding: chunked"), 400, ""),
    "chunked and length": (head("Transfer-Encoding: chunked", "Content-Length: 1"), 400, ""),
    "two lengths": (head("Content-Length: 1", "Content-Length: 1"), 400, ""),
    "list of lengths": (head("Content-Length: 1, 1"), 400, ""),
    "signed length": (head("Content-Length: +1"), 400, ""),
    "length of 2^70": (head(f"Content-Length: {2**70}"), 400, ""),
    "large body": (head("Content-Length: 1000001"), 413, "1000000"),
    "gzip in chunks": (head("Transfer-Encoding: gzip, chunked"), 501, "gzip"),
    "other coding": (head("Transfer-Encoding: xchunked"), 400, ""),
    "coding of HTTP/1.0": (head("Transfer-Encoding: chunked", request="POST / HTTP/1.0"), 400, ""),
    "folded header": (head("X: a", " b"), 400, ""),
    "bare line feed": (b"GET / HTTP/1.1\nHost: a\n\n", 400, ""),
    "bare carriage return": (head("X: a\rY: b"), 400, ""),
    "NUL": (head("X: a\0b"), 400, ""),
    "blank before colon": (head("X : a"), 400, ""),
    "no colon": (head("X"), 400, ""),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400, "HTTP version"),
    "RTSP": (head(request="GET / RTSP/1.1"), 400, "HTTP version"),
    "HTTP/2.0": (head(request="GET / HTTP/2.0"), 505, "HTTP/2.0"),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", 505, "HTTP/2"),
    "HTTP/1.2": (head(request="GET / HTTP/1.2"), 400, ""),
    "unknown method": (head(request="BREW / HTTP/1.1"), 400, "method"),
    "lower-case method": (head(request="get / HTTP/1.1"), 400, "method"),
    "CONNECT": (head(request="CONNECT a:1 HTTP/1.1"), 400, "path"),
    "star": (head(request="GET * HTTP/1.1"), 400, "path"),
    "fragment": (head(request="GET /a#b HTTP/1.1"), 400, "fragment"),
    "blank in the URL": (head(request="GET /a b HTTP/1.1"), 400, ""),
    "other scheme": (head(request="GET ftp://h/a HTTP/1.1"), 400, "path"),
    "long URL": (head(request=f"GET /{'a' * 1_000} HTTP/1.1"), 414, "1001"),
    "long header": (head("X: " + "a" * 500), 431, "'x'"),
    "many headers": (head(*["X: a"] * 20), 431, "21 headers"),
    "other expectation": (head("Expect: 200-ok"), 417, "200-ok"),
}


@pytest.mark.parametrize(("data", "status", "said"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_head_is_refused(data: bytes, status: int, said: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_head(data, LIMITS)
    assert caught.value.status == status
    assert said in str(caught.value)


def parsed(*lines: str, **how: str) -> Head:
    return parse_head(head(*lines, **how), LIMITS)


def test_a_plain_head_is_read() -> None:
    found = parsed("Content-Length: 5", "X-A: 1", "x-a: 2", request="POST /a%20b?c=d&e HTTP/1.1")
    assert (found.method, found.path, found.query) == ("POST", b"/a%20b", b"c=d&e")
    assert (found.length, found.version, found.host) == (5, "1.1", b"h:1")
    assert (found.get(b"x-a"), found.get(b"x-b")) == (b"1, 2", None)
    assert found.is_keep_alive and not found.expects_continue


def test_an_absolute_url_replaces_the_host() -> None:
    found = parsed(request="GET http://other:2/a?b HTTP/1.1")
    assert (found.path, found.query, found.host) == (b"/a", b"b", b"other:2")
    assert parsed(request="GET http://other HTTP/1.1").path == b"/"


@pytest.mark.parametrize(
    ("version", "connection", "stays"),
    [
        ("1.1", "", True),
        ("1.1", "close", False),
        ("1.1", "Keep-Alive, Close", False),
        ("1.0", "", False),
        ("1.0", "keep-alive", True),
    ],
)
def test_a_connection_stays_as_version_and_header_say(
    version: str, connection: str, stays: bool
) -> None:
    lines = [f"Connection: {connection}"] if connection else []
    assert parsed(*lines, request=f"GET / HTTP/{version}").is_keep_alive is stays


def test_http_1_0_needs_no_host() -> None:
    assert parse_head(head(host=None, request="GET / HTTP/1.0"), LIMITS).host == b""


def test_a_body_is_framed_by_its_length_or_its_chunks() -> None:
    assert parsed().length == 0
    assert parsed("Transfer-Encoding: Chunked").length == CHUNKED
    assert parsed("Expect: 100-Continue", "Content-Length: 1").expects_continue


@pytest.mark.parametrize(
    ("accepted", "wanted"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("gzip; q=0.000", False),
     ("identity", False), ("", False)],
)  # fmt: skip
def test_gzip_is_wanted_as_the_header_says(accepted: str, wanted: bool) -> None:
    assert parsed(f"Accept-Encoding: {accepted}").accepts_gzip is wanted


def test_an_offered_upgrade_is_declined_silently() -> None:
    assert parsed("Connection: upgrade", "Upgrade: websocket", request="GET / HTTP/1.1")


def test_a_repeated_head_is_judged_once_and_remembered() -> None:
    judged: list[Head] = []

    def judge(one: Head) -> tuple[tuple[bytes, bytes], ...]:
        judged.append(one)
        return ((b"x", b"y"),)

    reader = HeadReader(LIMITS, judge)
    data = head("X: 1")
    assert reader.read(data) is reader.read(bytes(data))
    assert len(judged) == 1
    assert reader.read(data).extra == ((b"x", b"y"),)


def test_a_refused_head_is_refused_each_time_and_memory_is_bounded() -> None:
    reader = HeadReader(LIMITS, lambda _: ())
    for _ in range(2):
        with pytest.raises(Refused):
            reader.read(head("Host: b"))
    for number in range(10_000):
        assert reader.read(head(f"X: {number}")).get(b"x") == b"%d" % number
    assert len(reader._known) <= 2_048
