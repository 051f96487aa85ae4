"""Every experiment can be run by name, and the SQL of the benchmarks is in files and in use."""

from __future__ import annotations

import ast
import re

from tests.tidy.repo import assert_none, parse, read_bytes, select_files
from tests.tidy.test_homes import STATEMENT, _strings

EXPERIMENTS = "benchmarks/experiments/"
QUERIES = "benchmarks/sql/queries.sql"


def test_every_experiment_has_what_the_runner_needs() -> None:
    modules = [
        name
        for name in select_files(under=EXPERIMENTS, suffix=".py")
        if not name.endswith("/__init__.py")
    ]
    assert modules
    assert_none(
        (name for name in modules if not {"ABOUT", "run"} <= _defined(parse(name))),
        rule="an experiment has a line ABOUT and a coroutine run",
    )


def test_benchmarks_hold_no_sql() -> None:
    assert_none(
        (
            f"{name}:{line}: {text}"
            for name in select_files(under="benchmarks/", suffix=".py")
            for text, line in _strings(parse(name))
            if STATEMENT.match(text)
        ),
        rule="SQL of the benchmarks lives in benchmarks/sql/",
    )


def test_named_queries_of_the_benchmarks_are_all_used() -> None:
    named = set(re.findall(r"^-- name: (\w+)$", read_bytes(QUERIES).decode(), re.M))
    code = "".join(
        read_bytes(name).decode() for name in select_files(under="benchmarks/", suffix=".py")
    )
    used = set(re.findall(r'queries\(\)\["(\w+)"\]', code))
    assert used == named


def _defined(tree: ast.Module) -> set[str]:
    """The constants and coroutines at the top of a module."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names
