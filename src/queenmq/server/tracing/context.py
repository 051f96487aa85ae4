"""Trace contexts as requests and messages carry them. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from uuid import UUID

#: W3C Trace Context: version, trace id, span id, flags. Later versions may have more behind it.
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SPAN_BITS = (1 << 64) - 1


class Parent(NamedTuple):
    """The span that a span of ours belongs below."""

    trace_id: int
    span_id: int


def parse_traceparent(text: bytes | None) -> Parent | None:
    """Return the parent that a header names; None for a bad header or an unsampled trace."""
    found = _TRACEPARENT.fullmatch(text.strip()) if text else None
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5]):
        return None
    parent = Parent(int(found[2], 16), int(found[3], 16))
    is_sampled = bool(int(found[4], 16) & 1)
    return parent if is_sampled and parent.trace_id and parent.span_id else None


def parent_of(trace_id: UUID) -> Parent:
    """Return the parent of a message's trace.

    A message has room for a trace id only. The client makes the span id of its links the same way.
    """
    return Parent(trace_id.int, (trace_id.int & _SPAN_BITS) or 1)
