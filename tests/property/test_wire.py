"""Laws of the JSON contract: no body breaks the decoder, and nothing is changed on the way."""

from __future__ import annotations

import json
import typing
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import assume, given

from queenmq import wire
from queenmq.errors import InvalidRequest

REQUESTS = (
    wire.PushRequest,
    wire.AckRequest,
    wire.AckBatchRequest,
    wire.RenewRequest,
    wire.TransactionRequest,
    wire.ConfigureRequest,
)
FIELDS = sorted({field for kind in REQUESTS for field in kind.__struct_encode_fields__})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
#: Any JSON, often with the names and shapes of requests in it.
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=15,
)


def decode(body: bytes, kind: type[Any]) -> Any:
    """The request, or None when it was refused in the one way that is allowed."""
    try:
        return wire.decode(body, kind)
    except InvalidRequest as error:
        assert str(error)
        assert "`" not in str(error), "a sentence, not the library's notation"
        return None


@given(value=values, kind=st.sampled_from(REQUESTS))
def test_any_json_value_is_decoded_or_refused(value: Any, kind: type[Any]) -> None:
    decode(json.dumps(value).encode(), kind)


@given(body=st.binary(max_size=60), kind=st.sampled_from(REQUESTS))
def test_any_bytes_are_decoded_or_refused(body: bytes, kind: type[Any]) -> None:
    decode(body, kind)


@given(value=values, cut=st.integers(1, 20))
def test_a_body_that_was_cut_short_is_refused(value: Any, cut: int) -> None:
    body = json.dumps({"items": [{"queue": "q", "payload": value}]}).encode()
    with pytest.raises(InvalidRequest):
        wire.decode(body[:-cut], wire.PushRequest)


@given(value=values)
def test_a_payload_is_passed_on_byte_for_byte(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assume("NaN" not in text and "Infinity" not in text)
    body = f'{{"items":[{{"payload":{text},"queue":"q"}}]}}'.encode()
    (item,) = wire.decode(body, wire.PushRequest).items
    assert bytes(item.payload) == text.encode()


@given(name=st.text(max_size=20))
def test_a_name_that_is_accepted_can_be_stored(name: str) -> None:
    body = json.dumps({"items": [{"queue": name}]}).encode()
    request = decode(body, wire.PushRequest)
    if request is not None:
        assert request.items[0].queue == name
        request.items[0].queue.encode()


def strategy_of(wanted: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, bounds included."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated:
        meta = arguments[1]
        return st.integers(meta.ge, meta.le)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(strategy_of(arguments[0]), max_size=3)
    if arguments:
        return st.one_of(*map(strategy_of, arguments))
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return strategy_of_struct(wanted)
    if wanted is msgspec.Raw:
        return values.filter(_is_plain).map(lambda value: msgspec.Raw(json.dumps(value).encode()))
    simple = {str: texts, int: st.integers(-(2**53), 2**53), bool: st.booleans()}
    return simple.get(wanted, st.none())


def _is_plain(value: Any) -> bool:
    text = json.dumps(value)
    return "NaN" not in text and "Infinity" not in text


def strategy_of_struct(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {name: strategy_of(hints[name]) for name in kind.__struct_fields__}
    return st.builds(kind, **fields)


def as_plain(value: Any) -> Any:
    """Structs as dictionaries, because raw payloads compare by identity."""
    return json.loads(wire.encode(value))


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same(kind: type[Any], data: st.DataObject) -> None:
    request = data.draw(strategy_of_struct(kind))
    again = wire.decode(wire.encode(request), kind)
    assert as_plain(again) == as_plain(request)
    assert type(again) is kind
