"""Owns the view of the tree that the tidy rules share: its files, their text, their syntax."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def all_files() -> tuple[str, ...]:
    """List what is, or would be, committed: tracked files and new ones that are not ignored."""
    # The checkout may belong to another user than the one who runs the tests.
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listing = subprocess.run(
        [*command, "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    names = listing.stdout.decode().split("\0")
    return tuple(sorted({name for name in names if (ROOT / name).is_file()}))


def select_files(*, under: str = "", suffix: str = "") -> list[str]:
    """List the files below a folder, given with its closing slash, that end in a suffix."""
    return [name for name in all_files() if name.startswith(under) and name.endswith(suffix)]


@functools.cache
def read_bytes(name: str) -> bytes:
    """Return one file's bytes."""
    return (ROOT / name).read_bytes()


def is_vendored(name: str) -> bool:
    """Say whether a file is someone else's work, kept as it came."""
    return "/vendor/" in name or name == "LICENSE"


def own_text_files() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of ours; another rule finds what is not UTF-8."""
    for name in all_files():
        if is_vendored(name):
            continue
        try:
            yield name, read_bytes(name).decode()
        except UnicodeDecodeError:
            continue


@functools.cache
def parse(name: str) -> ast.Module:
    """Return one Python file's syntax tree."""
    return ast.parse(read_bytes(name), filename=name)


def dotted_uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each name the module uses, in full, with its line.

    Aliases are resolved: `import time as t; t.sleep` and `from time import sleep` both give
    `time.sleep`. A name that was not imported stands for itself, so `print` gives `print`.
    """
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                imported[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            parts: list[str] = []
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name):
                first = imported.get(inner.id, inner.id)
                yield ".".join([first, *reversed(parts)]), node.lineno


def imported_modules(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each module that an import statement names, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            # `from msgspec import json` names a module too.
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def is_within(name: str, homes: Iterable[str]) -> bool:
    """Say whether a file is one of the homes, or lies below one that ends in a slash."""
    return any(name == home or (home.endswith("/") and name.startswith(home)) for home in homes)


def assert_none(offences: Iterable[str], *, rule: str) -> None:
    """Fail with the rule and every offence, one a line."""
    found = sorted(set(offences))
    assert not found, "\n  ".join([f"{rule}:", *found])
