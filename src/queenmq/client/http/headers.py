"""Builds header lines. No value can break out of its header."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
#: Headers that say where a request ends. A second one would make that ambiguous.
_OURS = {"content-length", "content-type", "transfer-encoding", "connection", "host"}


def header_text(headers: Mapping[str, str]) -> str:
    """Build header lines. Raises ValueError for a value that would break out of its line."""
    lines = []
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"header {name!r} cannot be set; use another name")
        if not _VALUE.fullmatch(value):
            # Not shown: it may be a token.
            raise ValueError(f"the value of header {name!r} is not one line of plain text")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)
