"""Trace contexts of requests and messages."""

from __future__ import annotations

from uuid import UUID

import pytest

from queenmq.server.tracing.context import Parent, parent_of, parse_traceparent

_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "text",
    [f"00-{_TRACE}-{_SPAN}-01", f" 00-{_TRACE}-{_SPAN}-03 ", f"cc-{_TRACE}-{_SPAN}-01-more"],
    ids=["plain", "spaces", "later-version"],
)
def test_a_header_names_its_span(text: str) -> None:
    assert parse_traceparent(text.encode()) == Parent(int(_TRACE, 16), int(_SPAN, 16))


@pytest.mark.parametrize(
    "text",
    [
        None, "", "nonsense", f"00-{_TRACE}-{_SPAN}-00", f"ff-{_TRACE}-{_SPAN}-01",
        f"00-{'0' * 32}-{_SPAN}-01", f"00-{_TRACE}-{'0' * 16}-01",
        f"00-{_TRACE.upper()}-{_SPAN}-01",
        f"00-{_TRACE}-{_SPAN}-01-more", f"00-{_TRACE}-{_SPAN}", f"00-{_TRACE}-{_SPAN}-01, x",
        f"00-{_TRACE}-{_SPAN}-zz", "00-" + "0" * 100_000,
    ],
    ids=[f"bad-{number}" for number in range(13)],
)  # fmt: skip
def test_what_names_none_is_passed_over(text: str | None) -> None:
    assert parse_traceparent(None if text is None else text.encode()) is None


def test_a_message_without_a_span_id_gets_one_that_is_none_of_zero() -> None:
    assert parent_of(UUID(int=(5 << 64) + 7)) == Parent((5 << 64) + 7, 7)
    assert parent_of(UUID(int=5 << 64)).span_id == 1
