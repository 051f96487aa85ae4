"""Pure: compressed bodies, in and out, within bounds."""

from __future__ import annotations

import gzip
import zlib

from queenmq.server.edge.head import Head, too_large
from queenmq.server.edge.refusal import Refused

#: Window bits of zlib: those of gzip, and those of deflate as HTTP means it (RFC 9110, 8.4.1.2).
_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
#: The fastest level: three quarters of what the best one saves for a fifth of its time.
_LEVEL = 1


def decode_body(head: Head, body: bytes, bytes_max: int) -> bytes:
    """Return the body as it was before its Content-Encoding. Raise Refused when that fails."""
    coding = (head.get(b"content-encoding") or b"identity").strip().lower()
    if coding == b"identity":
        return body
    bits = _WINDOW_BITS.get(coding)
    if bits is None:
        shown = coding[:60].decode("latin-1")
        raise Refused(415, f"Content-Encoding {shown!r} is not supported. Use gzip or deflate.")
    decoder = zlib.decompressobj(bits)
    try:
        # One byte more than allowed, to notice that there is more.
        decoded = decoder.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise Refused(
            400, f"The body is not valid {coding.decode('ascii')}: {error}. Compress it again."
        ) from error
    if len(decoded) > bytes_max:
        raise too_large(bytes_max)
    if not decoder.eof or decoder.unused_data:
        raise Refused(
            400, f"The body is not one complete {coding.decode('ascii')} stream. Send it whole."
        )
    return decoded


def encode_gzip(body: bytes) -> bytes:
    """Return the body compressed; the same bytes for the same body."""
    return gzip.compress(body, _LEVEL, mtime=0)
