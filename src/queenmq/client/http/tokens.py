"""Provides tokens: a string, a file, or a function of the user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

#: A token, or a function that returns one. It is called before every request.
Token = str | Callable[[], str | Awaitable[str]]


class TokenFile:
    """The token in a file. It is read once, and again when the server refuses it."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._token: str | None = None

    def __call__(self) -> str:
        if self._token is None:
            self._token = self._path.read_text(encoding="utf-8").strip()
        return self._token

    def forget(self) -> None:
        """Read the file again next time."""
        self._token = None
