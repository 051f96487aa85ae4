"""Reads requests and writes answers. A body that cannot be read is refused in one sentence."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from queenmq.errors import InvalidRequest

T = TypeVar("T")

_AT = re.compile(r" - at `(.*)`$")


encode = msgspec.json.Encoder().encode


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(body: bytes, wanted: type[T]) -> T:
    """Return the request in a body. Raise InvalidRequest with one sentence if it is invalid."""
    if not body:
        raise InvalidRequest("Empty request body: send a JSON object")
    decoder = _decoders.get(wanted)
    if decoder is None:
        decoder = _decoders[wanted] = msgspec.json.Decoder(wanted)
    try:
        # Payloads are passed on unparsed, so nothing else would notice broken text in them.
        if not body.isascii():
            body.decode()
        result: T = decoder.decode(body)
        return result
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"Invalid JSON: the body is not UTF-8 at byte {error.start}; encode it as UTF-8"
        ) from None
    except RecursionError:
        raise InvalidRequest(
            "Invalid JSON: the body is nested too deeply; stay below 900 levels"
        ) from None
    except msgspec.ValidationError as error:
        raise InvalidRequest(_sentence(str(error))) from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"Invalid JSON: {error}; send a well-formed JSON object") from None


def _sentence(text: str) -> str:
    """Turn `Expected X, got Y - at $.a[0].b` into `a[0].b must be X, got Y`."""
    at = _AT.search(text)
    field = at.group(1).removeprefix("$").removeprefix(".") if at else ""
    text = _AT.sub("", text).replace("`", "")
    if text.startswith("Object missing required field "):
        name = text.removeprefix("Object missing required field ")
        return f"{field + '.' if field else ''}{name} is required"
    subject = field or "the body"
    for start in ("Expected ", "Invalid "):
        if text.startswith(start):
            rest = text.removeprefix(start)
            return (
                f"{subject} must be {rest}"
                if start == "Expected "
                else f"{subject} is invalid: {rest}"
            )
    return f"{subject}: {text}"
