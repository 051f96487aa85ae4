"""Name patterns match like the same pattern as a regular expression, and stay cheap."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queenmq.auth.patterns import NamePatterns, check_patterns

_TEXT = st.text(alphabet="ab.*[é\n", max_size=12)


@given(patterns=st.lists(_TEXT.filter(bool), min_size=1, max_size=3), name=_TEXT)
def test_patterns_match_like_regular_expressions(patterns: list[str], name: str) -> None:
    expected = any(
        re.fullmatch(".*".join(map(re.escape, one.split("*"))), name, re.DOTALL) for one in patterns
    )
    matcher = NamePatterns(patterns)
    assert matcher.match(name) == expected == matcher.match(name)


def test_a_pattern_of_many_stars_is_no_trap() -> None:
    assert not NamePatterns(["*a" * 100 + "b"]).match("a" * 255)


@pytest.mark.parametrize("texts", [[], [""], ["x" * 256], ["a\x00"], ["x"] * 65],
                         ids=["none", "empty", "long", "nul", "many"])  # fmt: skip
def test_patterns_that_cannot_be_used_are_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError):
        check_patterns(texts)
