"""Laws of ids: what is accepted as one reads back as it was written."""

from __future__ import annotations

from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given

from queenmq.ids import parse_uuid

nearly = st.text("0123456789abcdefABCDEF-_{} x٣", min_size=36, max_size=36)


@given(text=nearly | st.from_regex(r"[0-9a-f_-]{36}", fullmatch=True) | st.text())
def test_only_the_usual_form_is_an_id(text: str) -> None:
    found = parse_uuid(text)
    assert found is None or str(found) == text.lower()


@given(value=st.uuids())
def test_every_id_reads_back(value: UUID) -> None:
    assert parse_uuid(str(value)) == value
    assert parse_uuid(str(value).upper()) == value
