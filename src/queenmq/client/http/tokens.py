"""Owns where tokens come from: a text, a file, or a function of the user's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

#: A token, or what gives one; asked before every request, so that it may change.
Token = str | Callable[[], str | Awaitable[str]]


class TokenFile:
    """The token in a file. Read once, and again when the server refuses what was read."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._token: str | None = None

    def __call__(self) -> str:
        if self._token is None:
            self._token = self._path.read_text(encoding="utf-8").strip()
        return self._token

    def forget(self) -> None:
        """Have the file read again."""
        self._token = None
