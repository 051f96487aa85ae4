"""Turns answers into bytes. Pure."""

from __future__ import annotations

import http
import json
from collections.abc import Iterable

from queenmq.server.edge.refusal import Refused

Headers = Iterable[tuple[bytes, bytes]]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
JSON_HEADERS = ((b"content-type", b"application/json"),)
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode("ascii")
    for status in http.HTTPStatus
}
_JSON_HEADS = {
    status: line + b"content-type: application/json\r\ncontent-length: "
    for status, line in _STATUS_LINES.items()
}
#: The codes of refusals, by status.
CODES = {
    400: "malformed_request",
    403: "origin_refused",
    408: "too_slow",
    413: "too_large",
    414: "url_too_long",
    415: "unsupported_encoding",
    417: "expectation_failed",
    431: "head_too_large",
    501: "unsupported_transfer",
    503: "server_full",
    505: "unsupported_version",
}
#: Answers that have no body, and no length of one.
_BODILESS = frozenset((204, 304))


def encode_json(status: int, body: bytes) -> bytes:
    """Return a plain JSON answer of a connection that stays open, as nearly all do."""
    return b"%b%d\r\n\r\n%b" % (_JSON_HEADS[status], len(body), body)


def encode_answer(
    status: int,
    body: bytes,
    headers: Headers = (),
    *,
    is_last: bool = False,
    is_head: bool = False,
) -> bytes:
    """Return an answer with these headers. `is_head` omits the body but keeps its length."""
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
    parts += [b"%b: %b\r\n" % header for header in headers]
    if status not in _BODILESS:
        parts.append(b"content-length: %d\r\n" % len(body))
    if is_last:
        parts.append(b"connection: close\r\n")
    parts.append(b"\r\n")
    if not is_head and status not in _BODILESS:
        parts.append(body)
    return b"".join(parts)


def is_encoded(headers: Headers | None) -> bool:
    """Return whether the body is already compressed."""
    return headers is not None and any(name == b"content-encoding" for name, _ in headers)


def encode_refusal(error: Refused) -> bytes:
    """Return the answer to a refused request. It is the last of its connection."""
    headers = [*JSON_HEADERS]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    body = json.dumps({"error": str(error), "code": CODES[error.status]}).encode()
    return encode_answer(error.status, body, headers, is_last=True)
