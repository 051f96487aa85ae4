"""Values as YAML 1.2, in block style. Pure.

Only what JSON can hold. A text is plain where no parser could take it for anything else, and
otherwise quoted as in JSON, which YAML reads the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Texts that stay a text in every version of YAML. Dates and numbers begin with a digit.
_PLAIN = re.compile(r"[A-Za-z_](?:[\w./@+-]|[ ](?=[\w./@+-]))*", re.ASCII)
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"}

#: What parsers take for the end of a line or refuse, although JSON lets it stand.
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


class Exact(str):
    """A number as it was written: `19.90` stays `19.90`."""

    __slots__ = ()


def to_yaml(value: Any) -> str:
    """Return a value as a document without its last line break."""
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, one in value.items():
            yield from _entry(f"{_scalar(key)}:", one)
    elif isinstance(value, list) and value:
        for one in value:
            yield from _item(one)
    else:
        yield _scalar(value)


def _entry(key: str, value: Any) -> Iterator[str]:
    if value and isinstance(value, Mapping | list):
        yield key
        indent = "" if isinstance(value, list) else "  "
        yield from (f"{indent}{line}" for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _item(value: Any) -> Iterator[str]:
    for number, line in enumerate(_lines(value)):
        yield f"- {line}" if number == 0 else f"  {line}"


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _scalar(value: Any) -> str:
    if isinstance(value, Exact):
        return str(value)
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if is_plain else _UNSEEN.sub(_escape, json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return json.dumps(value)
