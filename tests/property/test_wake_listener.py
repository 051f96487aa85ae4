"""Laws of wake-ups: any text may arrive, and what is sent always fits."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from queenmq.storage.connection.wake_listener import decode_groups, decode_wake, encode_wake

#: NOTIFY takes less than this many bytes.
PAYLOAD_BYTES_MAX = 8_000

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.fixed_dictionaries({"from": inner, "queues": inner, "groups": inner})
    ),
    max_leaves=10,
)


@given(text=st.text() | values.map(json.dumps))
def test_any_text_is_taken_without_an_error(text: str) -> None:
    queues = decode_wake("me", text)
    assert all(isinstance(queue, str) for queue in queues)
    assert all(isinstance(group, str) for group in decode_groups(text))


@given(queues=st.sets(st.text(min_size=1, max_size=255), max_size=60))
def test_a_wake_up_names_its_queues_or_all(queues: set[str]) -> None:
    text = encode_wake("me", queues)
    assert len(text.encode()) < PAYLOAD_BYTES_MAX
    assert decode_wake("me", text) == []
    assert decode_wake("you", text) in (sorted(queues), ["*"])


@given(length=st.integers(7_500, 60_000))
def test_too_long_means_all(length: int) -> None:
    assert decode_wake("you", encode_wake("me", ["q" * length])) == ["*"]
