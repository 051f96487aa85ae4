"""Identifiers that the broker makes itself. Message ids are made by push_messages."""

from __future__ import annotations

import os
from uuid import UUID


def random_uuid() -> UUID:
    """A version 4 UUID."""
    return UUID(bytes=os.urandom(16), version=4)


def parse_uuid(text: str) -> UUID | None:
    """The UUID written in its usual form of 36 characters, or None."""
    if len(text) != 36:
        return None
    try:
        return UUID(text)
    except ValueError:
        return None
