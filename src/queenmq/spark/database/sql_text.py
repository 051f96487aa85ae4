"""Loads the SQL of the data source, which lives in `sql/*.sql`, and fills in its values.

The driver runs a statement as COPY, which takes no parameters, so values are part of the text. Only
values that cannot contain a quote are allowed. Names are passed as parameters of look-ups instead.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from datetime import datetime
from importlib import resources
from uuid import UUID

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_VALUE = re.compile(r"\{\{(\w+)\}\}")


class Sql(str):
    """A piece of SQL that was built here, and may be part of another one."""


Value = Sql | int | UUID | datetime | Iterable[UUID]


@functools.cache
def load(file: str) -> dict[str, Sql]:
    """Return the named statements and pieces of one file."""
    folder = resources.files("queenmq.spark") / "sql"
    parts = _NAME.split((folder / f"{file}.sql").read_text(encoding="utf-8"))
    return {name: Sql(text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def fill(text: Sql, **values: Value) -> Sql:
    """Return the text with each `{{name}}` replaced by its value."""
    return Sql(_VALUE.sub(lambda match: _literal(values[match.group(1)]), text))


def _literal(value: Value) -> str:
    if isinstance(value, Sql):
        return value
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    ids = list(value)
    if not all(isinstance(item, UUID) for item in ids):
        raise TypeError(f"not a list of ids: {ids!r}")
    return "{" + ",".join(map(str, ids)) + "}"
