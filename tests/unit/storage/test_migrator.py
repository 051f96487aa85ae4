"""The order in which function files are applied."""

from __future__ import annotations

import itertools

import pytest

from queenmq.storage.schema.migrator import in_order
from queenmq.storage.sql_files import SqlFile, load_folder


def make_file(name: str, *calls: str, text: str = "") -> SqlFile:
    body = "".join(f"SELECT queen.{called}(1);\n" for called in calls)
    return SqlFile(name, f"-- Calls nothing.\n{body}{text}", "checksum")


def names(files: list[SqlFile]) -> list[str]:
    return [file.name for file in files]


FILES = [make_file("a", "b"), make_file("b", "c", "d"), make_file("c", "d"), make_file("d")]


@pytest.mark.parametrize("files", list(itertools.permutations(FILES)))
def test_a_function_comes_after_those_it_calls(files: tuple[SqlFile, ...]) -> None:
    assert names(in_order(list(files))) == ["d", "c", "b", "a"]


def test_functions_that_do_not_call_each_other_keep_their_order() -> None:
    assert names(in_order([make_file("b"), make_file("a"), make_file("c")])) == ["b", "a", "c"]


def test_a_function_that_calls_itself_is_applied_once() -> None:
    assert names(in_order([make_file("a", "a")])) == ["a"]


def test_functions_that_call_each_other_are_applied_once_each() -> None:
    found = in_order([make_file("a", "b"), make_file("b", "a")])
    assert sorted(names(found)) == ["a", "b"]


def test_a_name_in_a_comment_is_no_call() -> None:
    files = [make_file("a", text="-- like queen.b(1)\n"), make_file("b", "a")]
    assert names(in_order(files)) == ["a", "b"]


def test_a_name_that_begins_like_another_is_not_that_one() -> None:
    files = [make_file("a", "push_all"), make_file("push"), make_file("push_all")]
    assert names(in_order(files)) == ["push_all", "a", "push"]


def test_our_own_functions_come_after_those_they_call() -> None:
    files = load_folder("functions")
    ordered = in_order(files)
    assert sorted(names(ordered)) == sorted(names(files))
    seen: set[str] = set()
    for file in ordered:
        called = {one.name for one in files if f"queen.{one.name}(" in _code(file)} - {file.name}
        assert called <= seen, f"{file.name} comes before {called - seen}"
        seen.add(file.name)


def _code(file: SqlFile) -> str:
    lines = file.text.splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))
