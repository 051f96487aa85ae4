"""Payloads come back byte for byte: stored and passed on as the text they were pushed as."""

from __future__ import annotations

import json

import pytest

from tests.support.broker import Api, unique

PAYLOADS = {
    "null": b"null",
    "true": b"true",
    "false": b"false",
    "zero": b"0",
    "minus-zero": b"-0",
    "empty-text": b'""',
    "empty-object": b"{}",
    "empty-array": b"[]",
    "inner-whitespace": b'{ "a" :\t1 ,\r\n  "b":[ 1,2 ] }',
    "key-order": b'{"z":1,"a":2,"m":3}',
    "duplicate-keys": b'{"a":1,"a":2,"a":{"b":1,"b":2}}',
    "big-integer": b"123456789012345678901234567890123456789012345678901234567890",
    "beyond-double": b"1e400",
    "long-fraction": b"0.10000000000000000000000000000000000000001",
    "exponent-spelling": b"[1E5,1e+5,1.0e-05,100000.00]",
    "unicode": '"grüße 日本語 עברית 👩‍👩‍👧‍👦"'.encode(),
    "escapes": rb'"\u00e9\n\t\"\\\/\ud83d\ude00"',
    "escaped-nul": rb'"a\u0000b"',
    "line-separators": '"\u2028\u2029\u007f\ufeff"'.encode(),
    "keys-in-unicode": '{"ключ":{"":null}}'.encode(),
    "looks-like-our-json": b'"\\"},{\\"id\\":\\"x\\",\\"data\\":null"',
    "percent-and-dollar": b'"%s $1 {} ?"',
    "deep": b"[" * 500 + b"]" * 500,
}


async def push_raw(api: Api, queue: str, payload: bytes) -> None:
    body = b'{"items":[{"queue":' + json.dumps(queue).encode() + b',"payload":' + payload + b"}]}"
    response = await api.http.post("/api/v1/push", content=body)
    assert response.status_code == 201, response.text


async def pop_raw(api: Api, queue: str) -> bytes:
    response = await api.http.get(f"/api/v1/pop/queue/{queue}", params={"autoAck": "true"})
    assert response.status_code == 200, response.text
    return response.content.split(b'"data":', 1)[1].split(b',"queue":', 1)[0]


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_a_payload_comes_back_byte_for_byte(api: Api, payload: bytes) -> None:
    queue = unique()
    await push_raw(api, queue, payload)
    assert await pop_raw(api, queue) == payload


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_a_dead_letter_keeps_the_payload_byte_for_byte(api: Api, payload: bytes) -> None:
    queue = unique()
    await push_raw(api, queue, payload)
    await api.ack(*await api.pop(queue), status="dlq")
    response = await api.http.get("/api/v1/dlq", params={"queue": queue})
    assert b'"data":' + payload + b',"producerSub"' in response.content


async def test_whitespace_around_a_payload_is_not_part_of_it(api: Api) -> None:
    queue = unique()
    await push_raw(api, queue, b" \n\t7\t\n ")
    assert await pop_raw(api, queue) == b"7"


async def test_a_payload_of_several_megabytes_comes_back_whole(api: Api) -> None:
    queue = unique()
    payload = json.dumps("x" * 3_000_000 + "é日👍" * 100_000, ensure_ascii=False).encode()
    await push_raw(api, queue, payload)
    assert await pop_raw(api, queue) == payload


async def test_large_and_small_payloads_of_one_push_keep_their_order(api: Api) -> None:
    queue = unique()
    payloads = ["a" * 200_000, 1, "b" * 300_000, None, {"c": "d" * 100_000}]
    await api.push(queue, *payloads)
    assert await api.data(queue, batch=10) == payloads


async def test_scalars_of_every_kind_come_back_with_their_kind(api: Api) -> None:
    queue = unique()
    payloads = [None, True, False, 0, -1, 1.5, "", "0", [], {}]
    await api.push(queue, *payloads)
    found = await api.data(queue, batch=100)
    assert found == payloads
    assert [type(one) for one in found] == [type(one) for one in payloads]
