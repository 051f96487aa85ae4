"""Messages are objects, and mappings with the names of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from queenmq import Message
from queenmq.client.message import convert_message

WIRE = {
    "id": "i", "transactionId": "t", "data": {"total": 5}, "partitionId": "p", "queue": "q",
    "partition": "Default", "leaseId": "l", "consumerGroup": "g", "traceId": None,
    "createdAt": "2026-01-01T00:00:00.000000Z", "retryCount": 2, "producerSub": None,
}  # fmt: skip


class Order(msgspec.Struct):
    total: int


@pytest.fixture
def message() -> Message[Any]:
    return msgspec.convert(WIRE, Message[Any])


def test_a_message_is_the_mapping_it_came_as(message: Message[Any]) -> None:
    assert isinstance(message, Mapping)
    assert dict(message) == WIRE
    assert {**message} == WIRE
    assert len(message) == len(WIRE)
    assert message["transactionId"] == message.transaction_id == message.get("transactionId") == "t"
    assert message.get("nothing", 7) == 7
    assert "leaseId" in message and "nothing" not in message
    with pytest.raises(KeyError):
        message["nothing"]


def test_a_message_takes_marks_that_are_not_sent_on(message: Message[Any]) -> None:
    message["_status"] = False
    message |= {"_error": "broken", "data": 1}
    assert (message["_status"], message["_error"], message.data) == (False, "broken", 1)
    assert "_status" not in dict(message)


def test_a_payload_becomes_the_type(message: Message[Any]) -> None:
    assert convert_message(message, Order).data == Order(total=5)
    message.data = {"total": "much"}
    with pytest.raises(msgspec.ValidationError):
        convert_message(message, Order)


async def test_a_trace_without_a_client_says_so(message: Message[Any]) -> None:
    assert (await message["trace"]({"data": 1}))["success"] is False
