"""A changed function replaces the one that older brokers call."""

from __future__ import annotations

import pytest

from queenmq.errors import MigrationError
from queenmq.storage.schema.function_change import Change, FunctionVersion, judge


def make(
    *types: str, defaults: int = 0, result: str = "text", prefix: str = "p"
) -> FunctionVersion:
    names = tuple(f"{prefix}_{number}" for number in range(len(types)))
    return FunctionVersion(f"queen.f({','.join(types)})", types, names, defaults, result)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(make("uuid"), make("uuid", "text"), id="one more"),
        pytest.param(make("uuid", "text"), make("uuid"), id="one less"),
        pytest.param(make("uuid"), make("uuid", "text", result="uuid"), id="and another result"),
        pytest.param(make("uuid", "text", defaults=1), make("uuid", "text", "text"), id="defaults"),
    ],
)
def test_functions_live_side_by_side_if_no_call_fits_both(
    old: FunctionVersion, new: FunctionVersion
) -> None:
    assert judge("f", old, new) is Change.BESIDE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(make("uuid"), make("uuid", "text", defaults=1), id="one more with a default"),
        pytest.param(make("uuid", "text"), make("uuid", "text", defaults=1), id="a default"),
        pytest.param(
            make("uuid", "text", defaults=1),
            make("uuid", "text", "text", defaults=2),
            id="one more default",
        ),
    ],
)
def test_a_function_that_takes_every_older_call_takes_the_name(
    old: FunctionVersion, new: FunctionVersion
) -> None:
    assert judge("f", old, new) is Change.INSTEAD


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        pytest.param(
            make("uuid"), make("uuid", result="uuid"), "returns uuid instead of text", id="result"
        ),
        pytest.param(
            make("uuid"),
            make("uuid", "text", defaults=1, result="uuid"),
            "returns uuid instead of text",
            id="result and default",
        ),
        pytest.param(make("uuid"), make("text"), "does not take every call", id="type"),
        pytest.param(
            make("uuid", "text", defaults=1),
            make("uuid", "text"),
            "does not take every call",
            id="default gone",
        ),
        pytest.param(
            make("uuid", "text", defaults=1),
            make("uuid"),
            "does not take every call",
            id="ambiguous",
        ),
        pytest.param(
            make("uuid"), make("uuid", prefix="q"), "has other argument names", id="names"
        ),
    ],
)
def test_a_function_that_would_break_older_calls_is_refused(
    old: FunctionVersion, new: FunctionVersion, fault: str
) -> None:
    with pytest.raises(MigrationError, match=rf"queen\.f {fault}.*; give .* a new name"):
        judge("f", old, new)
