"""Payloads arrive as they were pushed, or are refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from queenmq import Queen
from tests.support.broker import unique


@dataclass
class Reading:
    value: float
    note: str | None = None


class Blob(msgspec.Struct):
    content: bytes


NOT_FINITE: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "minus-inf": -math.inf,
    "nested": {"a": [None, {"b": math.nan}]},
    "dataclass": Reading(math.inf),
    "beside-a-large-integer": [2**70, math.nan],
}


@pytest.mark.parametrize("payload", NOT_FINITE.values(), ids=NOT_FINITE)
async def test_a_number_that_is_not_finite_is_refused(queen: Queen, payload: Any) -> None:
    queue = unique()
    refused = pytest.raises(ValueError, match=r"payload.* is (nan|-?inf), which JSON cannot")
    with refused:
        await queen.push(queue, [1, payload])
    with refused:
        await queen.transaction().push(queue, payload).commit()
    assert await queen.pop(queue) == []


async def test_a_refused_number_is_named_with_its_place(queen: Queen) -> None:
    with pytest.raises(ValueError) as caught:
        await queen.push(unique(), [1, NOT_FINITE["nested"]])
    assert str(caught.value).startswith("items[1].payload.a[1].b is nan, which JSON cannot express")


async def test_null_and_large_numbers_are_pushed_as_they_are(queen: Queen) -> None:
    queue, payloads = unique(), [None, {"a": None, "b": 1.5}, [2**70, None], "null", 1e308]
    await queen.push(queue, payloads)
    assert [one.data for one in await queen.pop(queue, batch=10)] == payloads


async def test_a_buffer_refuses_what_json_cannot_express(queen: Queen) -> None:
    queue = unique()
    with pytest.raises(ValueError, match="payload is nan, which JSON cannot express"):
        await queen.push_buffered(queue, [{"data": one} for one in (1, math.nan, 2)])
    await queen.push_buffered(queue, {"data": 3})
    await queen.flush_all_buffers()
    assert [one.data for one in await queen.pop(queue, batch=10)] == [3]


async def test_bytes_are_text_that_a_type_converts_back(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, [b"x", Blob(b"\x00\xff")])
    first, second = await queen.pop(queue, batch=2)
    assert (first.data, second.data) == ("eA==", {"content": "AP8="})
    await queen.push(queue, Blob(b"\x00\xff"), partition="typed")
    (typed,) = await queen.pop(queue, partition="typed", type=Blob)
    assert typed.data == Blob(b"\x00\xff")
