"""Chunked bodies: the same bytes and the same refusals as llhttp, however they are cut."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queenmq.server.edge.chunked import ChunkedBody
from queenmq.server.edge.refusal import Refused

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


class _Llhttp:
    """The judgement of llhttp on the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        self.is_complete = False
        self.is_refused = False
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(HEAD + data)
        except httptools.HttpParserError:
            self.is_refused = not self.is_complete

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


def read(data: bytes, sizes: list[int], bytes_max: int = 10_000) -> tuple[ChunkedBody, bytes]:
    """Feed the data in pieces of these sizes, the last one over and over."""
    body, rest = ChunkedBody(bytes_max), b""
    at = 0
    while at < len(data) and not body.is_complete:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        rest = body.feed(rest + data[at : at + size])
        at += size
    return body, rest + data[at:]


PIECES = st.sampled_from(
    [b"5\r\nhello\r\n", b"0\r\n\r\n", b"1;a=b\r\nx\r\n", b"A\r\n0123456789\r\n", b"0\r\n", b"\r\n",
     b"X: y\r\n", b"\n", b"5\r\nhell\r\n", b"g\r\n", b"-1\r\n", b"+1\r\na\r\n", b"1 \r\na\r\n",
     b"1;\r\na\r\n", b"\x00", b"GET / HTTP/1.1\r\n", b"ffffffffffffffffff\r\n", b"00\r\n\r\n"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=6), st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_the_body_is_that_of_llhttp_or_both_refuse(pieces: list[bytes], sizes: list[int]) -> None:
    data = b"".join(pieces)
    theirs = _Llhttp(data)
    try:
        ours, _ = read(data, sizes)
    except Refused as error:
        # A size that llhttp can count may be too large for us.
        assert theirs.is_refused or error.status == 413 or not theirs.is_complete
        return
    assert ours.is_complete == theirs.is_complete
    if ours.is_complete:
        assert ours.join() == theirs.body


@pytest.mark.parametrize("cut", range(1, 40))
def test_what_follows_the_body_is_handed_back(cut: int) -> None:
    data = b"5;a=b\r\nhello\r\n2\r\n, \r\n0\r\nT: u\r\n\r\nGET / HTTP/1.1"
    body, rest = read(data, [cut, 1])
    assert body.is_complete and body.join() == b"hello, "
    assert rest == b"GET / HTTP/1.1"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"3e9\r\n", 413),
        (b"5;" + b"a" * 5_000, 400),
        (b"0\r\n" + b"X: y\r\n" * 2_000, 400),
        (b"0\r\nno colon\r\n", 400),
        (b"1\r\nab\r\n", 400),
    ],
    ids=["too large", "extension without end", "trailers without end", "bad trailer", "bad end"],
)
def test_what_passes_a_bound_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(Refused) as caught:
        read(data, [1_000], bytes_max=1_000)
    assert caught.value.status == status
