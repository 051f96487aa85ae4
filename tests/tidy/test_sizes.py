"""Modules and functions stay small enough to read in one go."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.repo import assert_none, is_vendored, parse, read_bytes, select_files

#: Lines. Aim for half of each; these are where it stops.
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
SQL_FUNCTION_LINES_MAX = 200

SQL_FUNCTION = re.compile(
    r"^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\s+([\w.\"]+)", re.I | re.M
)
DOLLAR_QUOTE = re.compile(r"\$\w*\$")


def test_no_module_is_too_long() -> None:
    sizes = {name: read_bytes(name).count(b"\n") for name in select_files(suffix=".py")}
    assert_none(
        (f"{name}: {size}" for name, size in sizes.items() if size > MODULE_LINES_MAX),
        rule=f"modules stop at {MODULE_LINES_MAX} lines",
    )


def test_no_function_is_too_long() -> None:
    assert_none(
        (
            f"{name}:{node.lineno}: {node.name} has {size}"
            for name in select_files(suffix=".py")
            for node in ast.walk(parse(name))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (size := _length_without_docstring(node)) > FUNCTION_LINES_MAX
        ),
        rule=f"functions stop at {FUNCTION_LINES_MAX} lines, their docstring aside",
    )


def test_no_sql_function_is_too_long() -> None:
    assert_none(
        (
            f"{name}: {function} has {size}"
            for name in select_files(suffix=".sql")
            if not is_vendored(name)
            for function, size in _sql_functions(read_bytes(name).decode())
            if size > SQL_FUNCTION_LINES_MAX
        ),
        rule=f"SQL functions stop at {SQL_FUNCTION_LINES_MAX} lines",
    )


def _length_without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    size = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        docstring = node.body[0]
        assert docstring.end_lineno is not None
        size -= docstring.end_lineno - docstring.lineno + 1
    return size


def _sql_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield each function's name and its lines, from CREATE to the end of its body."""
    starts = list(SQL_FUNCTION.finditer(text))
    for start, following in zip(starts, [*starts[1:], None], strict=False):
        limit = following.start() if following else len(text)
        opening = DOLLAR_QUOTE.search(text, start.end(), limit)
        end = text.find(opening.group(), opening.end()) if opening else text.find(";", start.end())
        yield start.group(1), text.count("\n", start.start(1), end if end >= 0 else limit) + 1
