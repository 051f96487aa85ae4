"""Reads the target of a seek: a time, the end, or in one partition the next message. Pure."""

from __future__ import annotations

from datetime import datetime

from queenmq import wire
from queenmq.errors import InvalidRequest
from queenmq.server.requests.checks import quote
from queenmq.server.requests.queries import parse_time

#: The seq has 40 bits in a message id.
_SEQ_MAX = 2**40 - 1


def check_seek_seq(seq: int, body: wire.SeekRequest) -> int:
    """Return a seq to seek to. Raises InvalidRequest if it is invalid or given with a time."""
    if body.to_end or body.timestamp is not None:
        raise InvalidRequest(
            f"seq {seq} cannot be combined with toEnd or timestamp; send one of them"
        )
    if not 1 <= seq <= _SEQ_MAX:
        raise InvalidRequest(f"seq {seq} is out of range; use 1 to {_SEQ_MAX}")
    return seq


def parse_target(body: wire.SeekRequest) -> datetime | None:
    """Return the time to seek to, or None for the end. Raises InvalidRequest without both."""
    if body.to_end and body.timestamp is not None:
        raise InvalidRequest(
            f"timestamp {quote(body.timestamp)} cannot be combined with toEnd; send one of them"
        )
    if body.timestamp is not None:
        return parse_time("timestamp", body.timestamp)
    if not body.to_end:
        raise InvalidRequest("toEnd or timestamp is required; send toEnd true, or an ISO 8601 time")
    return None
