"""Compressed bodies within their bound."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import pytest
import zstandard

from queenmq.server.edge.encodings import decode_body, decode_soon, encode_gzip
from queenmq.server.edge.head import Head, HeadLimits, parse_head
from queenmq.server.edge.refusal import Refused

LIMITS = HeadLimits(65_536, 1_000, 1_000, 100, 1_000)


ZSTD = zstandard.ZstdCompressor(write_checksum=True)


def wide_zstd(body: bytes) -> bytes:
    """A frame that asks its decoder for a window of 128 MiB."""
    shape = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    encoder = zstandard.ZstdCompressor(compression_params=shape).compressobj()
    return encoder.compress(body) + encoder.flush()


def head(coding: str) -> Head:
    text = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {coding}\r\n\r\n"
    return parse_head(text.encode(), LIMITS)


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", gzip.compress(b"abc")), ("GZIP", gzip.compress(b"abc")),
     ("deflate", zlib.compress(b"abc")), ("identity", b"abc"), ("zstd", ZSTD.compress(b"abc"))],
    ids=["gzip", "upper case", "deflate", "identity", "zstd"],
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
        ("zstd", b"abc", 400),
        ("zstd", b"", 400),
        ("zstd", ZSTD.compress(b"abc")[:-1], 400),
        ("zstd", ZSTD.compress(b"abc") + b"x", 400),
        ("zstd", ZSTD.compress(b"abc") * 2, 400),
        ("zstd", ZSTD.compress(b"a" * 101), 413),
        ("zstd", ZSTD.compress(b"\0" * 500_000_000), 413),
        ("zstd", wide_zstd(b"abc"), 400),
    ],
    ids=["unknown", "twice", "none", "cut", "more", "large", "bomb", "zstd: none", "zstd: empty",
         "zstd: cut", "zstd: more", "zstd: two", "zstd: large", "zstd: bomb", "zstd: window"],
)  # fmt: skip
def test_what_cannot_be_decoded_is_refused(coding: str, body: bytes, status: int) -> None:
    with pytest.raises(Refused) as caught:
        decode_body(head(coding), body, 100)
    assert caught.value.status == status


@pytest.mark.parametrize("compress", [gzip.compress, ZSTD.compress], ids=["gzip", "zstd"])
def test_every_cut_of_a_body_is_refused_and_never_taken_for_whole(
    compress: Callable[[bytes], bytes],
) -> None:
    coding = "gzip" if compress is gzip.compress else "zstd"
    body = compress(bytes(range(256)) * 40)
    assert decode_body(head(coding), body, 20_000) == bytes(range(256)) * 40
    for at in range(len(body)):
        with pytest.raises(Refused, match=coding):
            decode_body(head(coding), body[:at], 20_000)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_only_what_is_small_on_both_sides_is_decoded_at_once(coding: str) -> None:
    compress = gzip.compress if coding == "gzip" else ZSTD.compress
    noise = random.Random(1).randbytes(100_000)
    assert decode_soon(head(coding), compress(b"a" * 100_000), 10**7) == b"a" * 100_000
    assert decode_soon(head(coding), compress(b"a" * 1_000_000), 10**7) is None
    assert decode_soon(head(coding), compress(noise), 10**7) is None
    with pytest.raises(Refused):
        decode_soon(head(coding), compress(b"a" * 1_000_000), 10_000)


def test_an_answer_is_compressed_the_same_each_time() -> None:
    assert gzip.decompress(encode_gzip(b"abc" * 100)) == b"abc" * 100
    assert encode_gzip(b"abc") == encode_gzip(b"abc")
