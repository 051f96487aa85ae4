"""The format of a record: four bytes length, four bytes CRC32C of length and body, then the body.

Numbers are little-endian. Pure: bytes in, values out. The checksum covers the length, so a run of
zeros, which a file system may leave behind a crash, is not a record.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

import google_crc32c

#: Bytes. No request is that large; a longer length can only be damage.
BODY_BYTES_MAX = 256 * 1024 * 1024

_NUMBER = struct.Struct("<I")
_HEADER = struct.Struct("<II")
HEADER_BYTES = _HEADER.size


class Ending(enum.Enum):
    """The reason why a scan stopped."""

    CLEAN = "the bytes end with a record"
    SHORT = "the last record is longer than the bytes given"
    DAMAGED = "no record begins here: its length or its checksum is wrong"


@dataclass(frozen=True)
class Scan:
    """Whole records from the start of some bytes.

    `ends` holds the offset behind each body, `valid_bytes` the last of them; `needed_bytes` is how
    many bytes from there on the next record takes, as far as that can be seen.
    """

    bodies: list[bytes]
    ends: list[int]
    valid_bytes: int
    needed_bytes: int
    ending: Ending


def encode(body: bytes) -> bytes:
    """Put length and checksum in front of a body."""
    if len(body) > BODY_BYTES_MAX:
        raise ValueError(f"a record holds at most {BODY_BYTES_MAX} bytes, got {len(body)}")
    length = _NUMBER.pack(len(body))
    return length + _NUMBER.pack(_checksum(length, body)) + body


def scan(data: bytes) -> Scan:
    """Read records until the bytes end or stop making sense."""
    bodies: list[bytes] = []
    ends: list[int] = []
    at, stop = 0, len(data)
    needed, ending = 0, Ending.CLEAN
    while at < stop:
        body_at = at + HEADER_BYTES
        if body_at > stop:
            needed, ending = HEADER_BYTES, Ending.SHORT
            break
        length, checksum = _HEADER.unpack_from(data, at)
        if length > BODY_BYTES_MAX:
            ending = Ending.DAMAGED
            break
        end = body_at + length
        if end > stop:
            needed, ending = HEADER_BYTES + length, Ending.SHORT
            break
        body = data[body_at:end]
        if _checksum(data[at : at + _NUMBER.size], body) != checksum:
            ending = Ending.DAMAGED
            break
        bodies.append(body)
        ends.append(end)
        at = end
    return Scan(bodies, ends, valid_bytes=at, needed_bytes=needed, ending=ending)


def _checksum(length: bytes, body: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(length), body))
