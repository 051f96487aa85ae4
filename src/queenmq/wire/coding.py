"""Reads requests and writes answers. A body that cannot be read is refused in one sentence."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from queenmq.errors import InvalidRequest

T = TypeVar("T")

_AT = re.compile(r" - at `(.*)`$")
#: The words of msgspec in Python's terms, and those of JSON.
_WORDS = {
    "str": "a string", "int": "an integer", "float": "a number", "bool": "a boolean",
    "array": "an array", "object": "an object", "null": "null",
}  # fmt: skip
_TYPE = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
_BYTE = re.compile(r"\(byte (\d+)\)$")
#: The length of both halves of a surrogate pair.
_PAIR_BYTES = 12
#: Backslashes in pairs, whole surrogate pairs, or half of one. A body may end within a pair.
_ESCAPE = re.compile(
    rb"""\\(?:u[dD](?:[89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2}
    |\\?\Z|\\u[dD]?\Z|\\u[dD][c-fC-F][0-9a-fA-F]?\Z|(?P<high>))|[c-fC-F][0-9a-fA-F]{2}(?P<low>))|.)""",
    re.DOTALL | re.VERBOSE,
)


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
        raise InvalidRequest(f"Invalid JSON: {_reason(body, error)}") from None


def _reason(body: bytes, error: msgspec.DecodeError) -> str:
    """Return what is wrong with JSON. The library mistakes half of a surrogate pair for others."""
    # The half is right before the byte that is named, or before the end. A search of the whole body
    # would hold up other requests. It starts before a row of backslashes, which belong together.
    named = _BYTE.search(str(error))
    end = int(named.group(1)) + _PAIR_BYTES if named else len(body)
    start = len(body[: max(0, end - 3 * _PAIR_BYTES)].rstrip(b"\\"))
    for escape in _ESCAPE.finditer(body, start, end):
        if escape.lastgroup is not None:
            half = escape.group()[:6].decode()
            return (
                f'"{half}" at byte {escape.start()} is half of a surrogate pair; send both halves'
                " or none"
            )
    return f"{error}; send a well-formed JSON object"


def _in_words_of_json(type_: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word, word) for word in type_.group(1).split(" | "))


def _sentence(text: str) -> str:
    """Turn `Expected X, got Y - at $.a[0].b` into `a[0].b must be X, got Y`."""
    at = _AT.search(text)
    field = at.group(1).removeprefix("$").removeprefix(".") if at else ""
    text = _TYPE.sub(_in_words_of_json, _AT.sub("", text)).replace("`", "")
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
