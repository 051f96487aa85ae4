"""Identifiers that broker and client make. Message ids are made by push_messages."""

from __future__ import annotations

import os
import re
from uuid import UUID

_USUAL_FORM = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

#: The digit of a UUID that begins with the two bits of its variant, by what it would have been.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

#: What a lease id has of its partition: the first 48 bits, and the 12 behind the version.
_SHARED_BITS = (1 << 128) - (1 << 80) | 0xFFF << 64
#: Version 8 and the variant of every UUID.
_VERSION_8 = 0x8 << 76 | 0b10 << 62


def random_uuid() -> UUID:
    """Return a version 4 UUID."""
    return UUID(bytes=os.urandom(16), version=4)


def new_error_id() -> str:
    """Return an id under which a log line is found: short enough to be read out."""
    return os.urandom(6).hex()


def uuid7_text(unix_ms: int) -> str:
    """Return a version 7 UUID of this moment, as text: time first, so that indexes stay compact."""
    return uuid7_texts(unix_ms, 1)[0]


def uuid7_texts(unix_ms: int, count: int) -> list[str]:
    """Return this many ids, counted up from a random one, so that they ascend and cost little."""
    moment = f"{unix_ms & (1 << 48) - 1:012x}"
    digits = os.urandom(10).hex()
    begin = f"{moment[:8]}-{moment[8:]}-7{digits[:3]}-{_VARIANT[digits[3]]}{digits[4:7]}-"
    # Of the last 48 bits the first one is 0: there is room to count.
    start = int(digits[8:], 16) >> 1
    return [f"{begin}{number:012x}" for number in range(start, start + count)]


def new_lease_id(partition_id: UUID) -> UUID:
    """Return a random version 8 UUID that begins with the first 48 bits of the partition.

    By those bits the database finds the lease without an index on lease ids.
    """
    random_bits = int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=partition_id.int & _SHARED_BITS | _VERSION_8 | random_bits)


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID written in its usual form of 36 characters, or None."""
    return UUID(int=int(text.replace("-", ""), 16)) if _USUAL_FORM.fullmatch(text) else None
