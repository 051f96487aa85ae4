"""Compressed bodies within their bound."""

from __future__ import annotations

import gzip
import zlib

import pytest

from queenmq.server.edge.encodings import decode_body, encode_gzip
from queenmq.server.edge.head import Head, HeadLimits, parse_head
from queenmq.server.edge.refusal import Refused

LIMITS = HeadLimits(65_536, 1_000, 1_000, 100, 1_000)


def head(coding: str) -> Head:
    text = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {coding}\r\n\r\n"
    return parse_head(text.encode(), LIMITS)


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", gzip.compress(b"abc")), ("GZIP", gzip.compress(b"abc")),
     ("deflate", zlib.compress(b"abc")), ("identity", b"abc")],
    ids=["gzip", "upper case", "deflate", "identity"],
)  # fmt: skip
def test_a_body_is_decoded(coding: str, body: bytes) -> None:
    assert decode_body(head(coding), body, 100) == b"abc"


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        ("br", b"abc", 415),
        ("gzip, gzip", b"abc", 415),
        ("gzip", b"abc", 400),
        ("gzip", gzip.compress(b"abc")[:-3], 400),
        ("gzip", gzip.compress(b"abc") + b"x", 400),
        ("gzip", gzip.compress(b"a" * 101), 413),
        ("gzip", gzip.compress(b"\0" * 50_000_000), 413),
    ],
    ids=["unknown", "twice", "none", "cut", "more", "large", "bomb"],
)
def test_what_cannot_be_decoded_is_refused(coding: str, body: bytes, status: int) -> None:
    with pytest.raises(Refused) as caught:
        decode_body(head(coding), body, 100)
    assert caught.value.status == status


def test_an_answer_is_compressed_the_same_each_time() -> None:
    assert gzip.decompress(encode_gzip(b"abc" * 100)) == b"abc" * 100
    assert encode_gzip(b"abc") == encode_gzip(b"abc")
