"""Decodes an answer in which some payloads cannot be read.

Payloads arrive as they were pushed, and JSON can express more than Python can hold: 1e400, an
integer of 5,000 digits, half of a surrogate pair, 3,000 levels. Such a payload must not make the
rest of the answer unreadable. So payloads are cut out, the rest is decoded, and each payload is
decoded alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct, structs

from queenmq.client.errors import UnreadablePayload
from queenmq.client.message import (
    DeadLetter,
    Message,
    UnreadableDeadLetter,
    UnreadableMessage,
)

#: Members of answers that hold payloads.
NAMES = frozenset({"data", "payload", "message_payload"})

_KEYS = frozenset(f'"{name}"'.encode() for name in NAMES)
#: Strings and punctuation. Everything else in JSON is between them.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)


def cut_out(body: bytes) -> tuple[bytes, list[bytes]]:
    """Return the body with each payload replaced by its number, and the payloads.

    The body is scanned, not parsed, so no value or depth in a payload can make this fail.
    """
    pieces: list[bytes] = []
    payloads: list[bytes] = []
    last, copied, start, depth = b"", 0, -1, 0
    for token in _TOKEN.finditer(body):
        text = token.group()
        if start < 0:
            if text == b":" and last in _KEYS:
                start = token.end()
            last = text
        elif text in (b"[", b"{"):
            depth += 1
        elif depth:
            depth -= text in (b"]", b"}")
        elif text in (b",", b"}"):
            pieces += body[copied:start], str(len(payloads)).encode()
            payloads.append(body[start : token.start()].strip())
            last, copied, start = text, token.start(), -1
    return b"".join([*pieces, body[copied:]]), payloads


def put_back(value: Any, payloads: list[bytes], decode: Callable[[bytes], Any]) -> Any:
    """Return the value with payloads instead of their numbers.

    A message with an unreadable payload raises UnreadablePayload when its `data` is read. Elsewhere
    such a payload is a msgspec.Raw.
    """
    if isinstance(value, Message | DeadLetter):
        return _fill(value, payloads, decode)
    if isinstance(value, Struct):
        for name, wire_name in zip(
            value.__struct_fields__, value.__struct_encode_fields__, strict=True
        ):
            one = getattr(value, name)
            is_payload = wire_name in NAMES and isinstance(one, int)
            setattr(
                value,
                name,
                _read(payloads[one], decode) if is_payload else put_back(one, payloads, decode),
            )
    elif isinstance(value, dict):
        return {
            name: _read(payloads[one], decode) if name in NAMES else put_back(one, payloads, decode)
            for name, one in value.items()
        }
    elif isinstance(value, list):
        return [put_back(one, payloads, decode) for one in value]
    return value


def _fill(
    one: Message[Any] | DeadLetter[Any], payloads: list[bytes], decode: Callable[[bytes], Any]
) -> Message[Any] | DeadLetter[Any]:
    payload = payloads[one.data]
    try:
        one.data = decode(payload)
    except (ValueError, RecursionError) as error:
        fields = {**structs.asdict(one), "data": UnreadablePayload(payload, _reason(error))}
        kind = UnreadableMessage if isinstance(one, Message) else UnreadableDeadLetter
        return kind(**fields)
    return one


def _read(payload: bytes, decode: Callable[[bytes], Any]) -> Any:
    try:
        return decode(payload)
    except (ValueError, RecursionError):
        return Raw(payload)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    # The place is within the payload, and msgspec does not name it: `$[...]`.
    return re.sub(r" - at `.*`$", "", str(error))
