"""Owns text that is safe on a terminal.

Names, payloads, errors and traces come from others, and a terminal obeys escape sequences in them:
it changes titles, rewrites what stands above, or types answers. All that is printed for people goes
through here. JSON does not: its readers are programs, and it stays exact.
"""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return a line of text with everything that would steer a terminal written as an escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def say(text: str = "", *, is_error: bool = False) -> None:
    """Print lines for people, at once."""
    lines = "\n".join(printable(line) for line in text.split("\n"))
    print(lines, file=sys.stderr if is_error else sys.stdout, flush=True)
