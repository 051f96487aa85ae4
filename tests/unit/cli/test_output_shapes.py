"""Results as YAML, and parts of them by a path."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from queenmq.cli.display.json_path import parse_path, to_line
from queenmq.cli.display.output import Format, Output, Shape, parse_shape
from queenmq.cli.display.yaml_text import to_yaml

_TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "yes", "No", "null", "~", "1", "1e3", "0x1", "2024-01-01", "a: b", "- a", "#", "a #b",
         " a", "a ", "a\nb", "\x85", "\u2028", "'", '"', "{", "[", "!t", "&a", "*a", "%", "@", "`",
         "?", ":", "a:", "=", "<<", "1:30", ".5", "_1", "é", "a  b", "---", "...", "\ud83d\ude00"]
    ),
)  # fmt: skip
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | _TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)
_DOCUMENT = {
    "queues": [{"name": "a", "n": 1.50}, {"name": "b", "n": None}],
    "a b": {"c.d": True, "it's": 7},
    "empty": [],
}


@settings(deadline=None)
@given(_VALUES)
def test_a_yaml_parser_reads_what_was_written(value: Any) -> None:
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(to_yaml(value))
    # This parser is of YAML 1.1, where 1e+22 is a text and not a number.
    as_text = json.dumps(value)
    assert read == value or "e+" in as_text or "e-" in as_text


def test_yaml_is_in_blocks() -> None:
    value = {"a": [{"b": 1, "c": [2, []]}, "x y", "true"], "d": {}, "e": {"f": None}}
    assert to_yaml(value).splitlines() == [
        "a:", "- b: 1", "  c:", "  - 2", "  - []", "- x y", '- "true"', "d: {}", "e:", "  f: null",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [_DOCUMENT]),
        ("", [_DOCUMENT]),
        ("{.queues[*].name}", ["a", "b"]),
        ("$.queues[*].name", ["a", "b"]),
        ("queues[0].name", ["a"]),
        (".queues[-1].n", [None]),
        (".queues[9].n", []),
        (".queues.name", []),
        (".nothing[*]", []),
        ("$['a b']['c.d']", [True]),
        ('["a b"]["it\'s"]', [7]),
        (r"['a b']['it\'s']", [7]),
        ("['a b'].*", [True, 7]),
        (".empty[*]", []),
    ],
)
def test_a_path_finds(path: str, found: list[Any]) -> None:
    assert parse_path(path).find(_DOCUMENT) == found


@pytest.mark.parametrize(
    "path", ["$..name", "[?(@.n>1)]", "[0:2]", "[", ".a b", "{.a", "a[", "a['x]", "x" * 2_000, ".."]
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"cannot read|characters"):
        parse_path(path)


@pytest.mark.parametrize(
    ("value", "line"), [("a b", "a b"), (1, "1"), (None, "null"), ({"a": "ü"}, '{"a": "ü"}')]
)
def test_a_match_is_a_line(value: Any, line: str) -> None:
    assert to_line(value) == line


def test_formats_are_named_by_o(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_shape("json") == Shape(Format.JSON)
    for text in ("xml", "jsonpath", "json=a", "jsonpath=[", "", "JSON"):
        with pytest.raises(typer.BadParameter):
            parse_shape(text)
    rows = [{"name": "a", "size": 1.5}, {"name": "b", "size": 2}]
    Output(parse_shape("jsonpath=[*].size")).rows(rows, [])
    Output(parse_shape("yaml")).rows(rows, [])
    assert capsys.readouterr().out == "1.5\n2\n- name: a\n  size: 1.5\n- name: b\n  size: 2\n"
