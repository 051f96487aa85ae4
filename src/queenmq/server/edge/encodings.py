"""Compresses and decompresses bodies within bounds. Pure."""

from __future__ import annotations

import gzip
import zlib

import zstandard

from queenmq.server.edge.head import Head, refuse_body
from queenmq.server.edge.refusal import Refused

#: Window bits of zlib: those of gzip, and those of deflate as HTTP means it (RFC 9110, 8.4.1.2).
_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
#: The window that a decoder of HTTP has to support (RFC 9659), and ours supports no more.
_ZSTD_WINDOW_BYTES_MAX = 8 * 1024 * 1024
#: zstd makes at most 128 KiB of 4 bytes, so a slice becomes at most 8 MiB before it is measured.
_ZSTD_SLICE_BYTES = 256
#: Decoding takes 1 to 4 ms a megabyte. Bodies up to these sizes do not need a thread.
_SOON_BYTES_MAX = 64 * 1024
_SOON_DECODED_BYTES_MAX = 256 * 1024
#: The fastest level: three quarters of what the best one saves for a fifth of its time.
_LEVEL = 1


def decode_body(head: Head, body: bytes, bytes_max: int) -> bytes:
    """Return the body as it was before its Content-Encoding. Raise Refused when that fails."""
    coding = (head.get(b"content-encoding") or b"identity").strip().lower()
    if coding == b"identity":
        return body
    try:
        if coding == b"zstd":
            decoded, is_whole = _decode_zstd(body, bytes_max)
        elif bits := _WINDOW_BITS.get(coding):
            decoded, is_whole = _decode_zlib(body, bits, bytes_max)
        else:
            raise _refuse_coding(coding)
    except (zlib.error, zstandard.ZstdError) as error:
        raise Refused(
            400, f"The body is not valid {coding.decode('ascii')}: {error}. Compress it again."
        ) from error
    if len(decoded) > bytes_max:
        raise refuse_body(bytes_max)
    if not is_whole:
        raise Refused(
            400, f"The body is not one complete {coding.decode('ascii')} stream. Send it whole."
        )
    return decoded


def decode_soon(head: Head, body: bytes, bytes_max: int) -> bytes | None:
    """Return the decoded body, or None if it is large and a thread should decode it.

    Raise Refused when it cannot be decoded.
    """
    if len(body) > _SOON_BYTES_MAX:
        return None
    try:
        return decode_body(head, body, min(bytes_max, _SOON_DECODED_BYTES_MAX))
    except Refused as error:
        if error.status == 413 and bytes_max > _SOON_DECODED_BYTES_MAX:
            return None
        raise


def _refuse_coding(coding: bytes) -> Refused:
    shown = coding[:60].decode("latin-1")
    return Refused(415, f"Content-Encoding {shown!r} is not supported. Use gzip, deflate or zstd.")


def _decode_zlib(body: bytes, bits: int, bytes_max: int) -> tuple[bytes, bool]:
    decoder = zlib.decompressobj(bits)
    # One byte more than allowed, to detect an excess.
    decoded = decoder.decompress(body, bytes_max + 1)
    return decoded, decoder.eof and not decoder.unused_data


def _decode_zstd(body: bytes, bytes_max: int) -> tuple[bytes, bool]:
    """Decode slice by slice, because the library cannot stop at a size and frames may lie."""
    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX).decompressobj()
    decoded = bytearray()
    at = 0
    while at < len(body) and not decoder.eof and len(decoded) <= bytes_max:
        decoded += decoder.decompress(body[at : at + _ZSTD_SLICE_BYTES])
        at += _ZSTD_SLICE_BYTES
    return bytes(decoded), decoder.eof and not decoder.unused_data and at >= len(body)


def encode_gzip(body: bytes) -> bytes:
    """Return the compressed body: the same bytes for the same body."""
    return gzip.compress(body, _LEVEL, mtime=0)
