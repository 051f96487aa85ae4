"""One request, and the shape of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.shapes import STR

#: Every error has a text.
ERROR = {"error": STR}


@dataclass(frozen=True)
class Case:
    """Names in braces, in the path and in the body, are filled in from the world of the test."""

    method: str
    path: str
    shape: Any
    body: Any = None
    status: int = 200

    @property
    def name(self) -> str:
        return f"{self.method} {self.path} {self.status}"


def fill(value: Any, names: dict[str, str]) -> Any:
    """Return the value with the names of the world in it."""
    match value:
        case str():
            for name, filled in names.items():
                value = value.replace("{" + name + "}", filled)
            return value
        case dict():
            return {key: fill(one, names) for key, one in value.items()}
        case list():
            return [fill(one, names) for one in value]
    return value
