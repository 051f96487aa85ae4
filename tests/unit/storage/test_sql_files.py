"""SQL files: how they are found, and what each of them has to look like."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path

import pytest

from queenmq.storage.sql_files import SqlFile, load_folder, load_queries

FUNCTIONS = load_folder("functions")
MIGRATIONS = load_folder("migrations")
_QUERY_FOLDER = Path(str(resources.files("queenmq.storage"))) / "sql" / "queries"
QUERIES = sorted(
    file.relative_to(_QUERY_FOLDER).with_suffix("").as_posix()
    for file in _QUERY_FOLDER.rglob("*.sql")
)


def test_a_folder_is_loaded_in_name_order() -> None:
    names = [file.name for file in MIGRATIONS]
    assert names == sorted(names)
    assert names[0].startswith("0001_")


def test_a_checksum_is_that_of_the_text() -> None:
    for file in (*FUNCTIONS, *MIGRATIONS):
        assert file.checksum == hashlib.sha256(file.text.encode()).hexdigest()


def test_migrations_are_numbered_without_gaps_and_say_their_stage() -> None:
    for number, file in enumerate(MIGRATIONS, start=1):
        assert re.fullmatch(rf"{number:04}_(pre|post)_[a-z]+(_[a-z0-9]+)+", file.name), file.name


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.name)
def test_a_function_file_defines_the_function_of_its_name(file: SqlFile) -> None:
    defined = re.findall(r"^CREATE OR REPLACE FUNCTION queen\.(\w+)\(", file.text, re.M)
    assert defined == [file.name]


@pytest.mark.parametrize("file", [*FUNCTIONS, *MIGRATIONS], ids=lambda file: file.name)
def test_a_file_opens_with_what_it_is_for(file: SqlFile) -> None:
    assert file.text.startswith("-- ")


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_has_a_name_and_a_text(name: str) -> None:
    queries = load_queries(name)
    assert queries
    for query in queries.values():
        assert query.endswith(";")
        assert "-- name:" not in query


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_is_hidden_by_another_of_its_name(name: str) -> None:
    file = resources.files("queenmq.storage") / "sql" / "queries" / f"{name}.sql"
    assert file.read_text().count("-- name: ") == len(load_queries(name))


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.name)
def test_functions_that_forbid_plans_are_not_compiled(file: SqlFile) -> None:
    # Before release 18 PostgreSQL adds a huge cost for a forbidden plan, and compiles what is dear.
    if "\nSET enable_" in file.text:
        assert "\nSET jit = off\n" in file.text


def test_a_file_is_read_once() -> None:
    assert load_queries("calls") is load_queries("calls")


def test_an_unknown_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        load_queries("nonsense")
