"""Loads the SQL that lives in .sql files: named queries, migrations and functions."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


class SqlFile(NamedTuple):
    """One file: its name without the ending, its text, and a checksum of the text."""

    name: str
    text: str
    checksum: str


def _folder(name: str) -> Traversable:
    return resources.files("queenmq.storage") / "sql" / name


def load_folder(name: str) -> list[SqlFile]:
    """Load all files of a folder and of the folders in it, in the order of their own names."""
    files = [_load(file) for file in _files_below(_folder(name))]
    return sorted(files, key=lambda file: file.name)


def _files_below(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_below(entry)
        elif entry.name.endswith(".sql"):
            yield entry


def _load(file: Traversable) -> SqlFile:
    text = file.read_text(encoding="utf-8")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return SqlFile(file.name.removesuffix(".sql"), text, checksum)


@functools.cache
def load_queries(name: str) -> dict[str, str]:
    """Return the named queries of one file of `queries/`."""
    parts = _NAME.split((_folder("queries") / f"{name}.sql").read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))
