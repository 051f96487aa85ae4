"""Identifiers that broker and client make. Message ids are made by push_messages."""

from __future__ import annotations

import os
import re
from uuid import UUID

_USUAL_FORM = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def random_uuid() -> UUID:
    """A version 4 UUID."""
    return UUID(bytes=os.urandom(16), version=4)


def uuid7_text(unix_ms: int) -> str:
    """A version 7 UUID of this moment, as text: time first, so that indexes stay compact."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (unix_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 62 & 0xFFF) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_lease_id(partition_id: UUID) -> UUID:
    """A random version 8 UUID that begins with the first 48 bits of the partition.

    By those bits the database finds the lease without an index on lease ids.
    """
    high = partition_id.int >> 80 << 80 | 0x8 << 76 | (partition_id.int >> 64 & 0xFFF) << 64
    low = int.from_bytes(os.urandom(8), "big") & (1 << 62) - 1 | 0b10 << 62
    return UUID(int=high | low)


def parse_uuid(text: str) -> UUID | None:
    """The UUID written in its usual form of 36 characters, or None."""
    return UUID(text) if _USUAL_FORM.fullmatch(text) else None
