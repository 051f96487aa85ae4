"""Reads a short text, such as a schema or a condition, token by token. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn


class Tokens:
    """The tokens of a text that are left. `refuse` raises the error that names the whole text."""

    def __init__(
        self, text: str, pattern: re.Pattern[str], refuse: Callable[[str], NoReturn]
    ) -> None:
        self._refuse = refuse
        self._left: list[str] = []
        text, place = text.rstrip(), 0
        while place < len(text):
            found = pattern.match(text, place)
            if found is None:
                refuse(f"{text[place:].strip()[:20]!r} cannot be read")
            self._left.append(found.group().strip())
            place = found.end()

    def peek(self) -> str:
        """Return the next token, or nothing at the end."""
        return self._left[0] if self._left else ""

    def take(self) -> str:
        """Remove the next token and return it."""
        if not self._left:
            self._refuse("it ends too early")
        return self._left.pop(0)

    def expect(self, wanted: str) -> None:
        """Remove the next token, which has to be this one in any case."""
        found = self.take()
        if found.upper() != wanted:
            self._refuse(f"{found!r} stands where {wanted} is expected")
