"""The JSON contract: what is read, and the sentence that says what is wrong with the rest."""

from __future__ import annotations

import re

import msgspec
import pytest

from queenmq import wire
from queenmq.errors import InvalidRequest
from queenmq.wire.shape import Request

#: Every body that the broker reads, and what is in one.
BODIES = [
    one
    for one in vars(wire).values()
    if isinstance(one, type) and issubclass(one, Request | wire.QueueOptions) and one is not Request
]
#: Words for types in Python that JSON does not have.
PYTHON = re.compile(r"\b(str|int|float|bool|dict|list|bytes|None)\b|`")


def refusal(body: bytes, wanted: type = wire.PushRequest) -> str:
    with pytest.raises(InvalidRequest) as caught:
        wire.decode(body, wanted)
    return str(caught.value)


def test_a_payload_stays_the_bytes_it_came_as() -> None:
    body = b'{"items":[{"queue":"q","payload": {"b" : 1.50, "a":1e3,"a":2} }]}'
    (item,) = wire.decode(body, wire.PushRequest).items
    assert bytes(item.payload).strip() == b'{"b" : 1.50, "a":1e3,"a":2}'


def test_a_missing_payload_is_null() -> None:
    (item,) = wire.decode(b'{"items":[{"queue":"q"}]}', wire.PushRequest).items
    assert bytes(item.payload) == b"null"


def test_unknown_fields_are_ignored() -> None:
    request = wire.decode(b'{"items":[],"later":{"a":[1]}}', wire.PushRequest)
    assert request.items == []


def test_options_that_are_left_out_have_their_defaults() -> None:
    request = wire.decode(b'{"queue":"q","options":{"leaseTime":5}}', wire.ConfigureRequest)
    assert request.options == wire.QueueOptions(lease_time=5)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "Empty request body: send a JSON object"),
        (b'{"items":[]', "Invalid JSON: Input data was truncated; send a well-formed JSON object"),
        (b"[]", "the body must be an object, got an array"),
        (b"null", "the body must be an object, got null"),
        (b"{}", "items is required"),
        (b'{"items":{}}', "items must be an array, got an object"),
        (b'{"items":null}', "items must be an array, got null"),
        (b'{"items":[1]}', "items[0] must be an object, got an integer"),
        (b'{"items":[{}]}', "items[0].queue is required"),
        (
            b'{"items":[{"queue":"q"},{"queue":5}]}',
            "items[1].queue must be a string, got an integer",
        ),
        (
            b'{"items":[{"queue":"q","partition":1}]}',
            "items[0].partition must be a string or null, got an integer",
        ),
        (b'{"items":[]} x', None),
        (b'{"items":[{"queue":"q","payload":nope}]}', None),
    ],
)
def test_a_refusal_is_one_sentence_that_names_the_field(body: bytes, sentence: str | None) -> None:
    text = refusal(body)
    if sentence is None:
        assert text.startswith("Invalid JSON: ")
    else:
        assert text == sentence


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_a_wrong_type_is_told_in_words_of_json(kind: type[msgspec.Struct]) -> None:
    told = []
    for name in kind.__struct_encode_fields__:
        for value in (b"1", b"1.5", b'"x"', b"true", b"null", b"[]", b"{}", b"[1]", b'["x"]'):
            try:
                wire.decode(b'{"%s":%s}' % (name.encode(), value), kind)
            except InvalidRequest as error:
                told.append(str(error))
    assert told
    assert [text for text in told if PYTHON.search(text)] == []


HALF = "is half of a surrogate pair; send both halves or none"


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (rb"\ud800", rb"\ud800"),
        (rb"\uD800 and more text", rb"\uD800"),
        (rb"\ud800\ud83d\ude00", rb"\ud800"),
        (rb"\\\\\udc00", rb"\udc00"),
        (rb"\ud83d\ude00\udc00", rb"\udc00"),
    ],
    ids=["high", "high-before-text", "high-before-a-pair", "low-after-escapes", "low-after-a-pair"],
)
def test_half_of_a_surrogate_pair_is_refused_with_its_place(text: bytes, half: bytes) -> None:
    for rest in (b'"}]}', b'","transactionId":"' + b"t" * 100 + b'"}]}'):
        body = b'{"items":[{"queue":"q","payload":"' + text + rest
        at = body.rindex(half)
        assert refusal(body) == f'Invalid JSON: "{half.decode()}" at byte {at} {HALF}'


@pytest.mark.parametrize(
    "end", [rb"\ud83d", rb"\ud83d\u", rb"\ud83d\ude0", rb"\\\ud83d\ude00", rb"\\ud800"]
)
def test_a_body_that_ends_within_a_pair_was_truncated(end: bytes) -> None:
    assert "truncated" in refusal(b'{"items":[{"queue":"q","payload":"' + end)


def test_a_number_out_of_range_is_named() -> None:
    text = refusal(b'{"queue":"q","options":{"leaseTime":-1}}', wire.ConfigureRequest)
    assert text == "options.leaseTime must be an integer >= 0"


def test_a_wrong_word_is_named() -> None:
    text = refusal(b'{"queue":"q","options":{"onPoison":"drop"}}', wire.ConfigureRequest)
    assert text == "options.onPoison is invalid: enum value 'drop'"


@pytest.mark.parametrize(
    "body",
    [b'{"items":[{"queue":"\xff"}]}', b'{"items":[{"queue":"q","payload":"\xc3"}]}', b"\xff"],
    ids=["name", "payload", "all"],
)
def test_bytes_that_are_not_utf8_are_refused_with_their_place(body: bytes) -> None:
    at = next(place for place, byte in enumerate(body) if byte > 127)
    assert refusal(body) == (
        f"Invalid JSON: the body is not UTF-8 at byte {at}; encode it as UTF-8"
    )


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["arrays", "objects"])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    body = b'{"items":[{"queue":"q","payload":' + opening * 100_000
    assert refusal(body).startswith("Invalid JSON: ")


def test_encode_writes_json_without_blanks() -> None:
    answer = wire.PushQueued(0, "t", "queued", "m", "p", None, "q")
    assert wire.encode([answer]) == (
        b'[{"index":0,"transaction_id":"t","status":"queued","message_id":"m",'
        b'"partition_id":"p","trace_id":null,"queueName":"q"}]'
    )


def test_results_of_a_transaction_tell_their_type() -> None:
    answer = wire.encode(wire.TransactionAck(0, True, "t", None, False))
    assert answer.startswith(b'{"type":"ack",')
