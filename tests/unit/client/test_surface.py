"""What users hold in their hands: documented, told by a helpful repr, the same with and without a
loop.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import queenmq
from queenmq import DeadLetter, Message, Queen, Stream, SyncQueen, wire
from queenmq.client.admin import Admin
from queenmq.client.builders import DeadLetterQuery, Operation, Push
from queenmq.client.consume.consumption import Consumption
from queenmq.client.pipeline import Pipeline
from queenmq.client.queue import Queue
from queenmq.client.streams.runner import Runner
from queenmq.client.sync.admin import SyncAdmin, SyncPipeline
from queenmq.client.sync.builders import (
    SyncDeadLetterQuery,
    SyncQueue,
    SyncTransaction,
    SyncTransactionQueue,
)
from queenmq.client.sync.consumption import SyncConsumption
from queenmq.client.sync.streams import SyncRunner, SyncStream
from queenmq.client.transaction import Transaction, TransactionQueue

#: Each with its counterpart for plain threads.
PAIRS: list[tuple[type, type]] = [
    (Queen, SyncQueen),
    (Admin, SyncAdmin),
    (Pipeline, SyncPipeline),
    (Queue, SyncQueue),
    (Transaction, SyncTransaction),
    (TransactionQueue, SyncTransactionQueue),
    (DeadLetterQuery, SyncDeadLetterQuery),
]
CLASSES = [*(kind for pair in PAIRS for kind in pair), Operation, Push, Consumption]
CLASSES += [SyncConsumption, Message, DeadLetter]
#: Parameters that the other side alone has: an event of asyncio is of no use to a thread.
ASYNC_ONLY = {("SyncQueue", "consume"): {"signal"}}

#: A stream starts its runner by itself.
NOT_FOR_THREADS = {"SyncRunner": {"start"}}


def methods(kind: type) -> dict[str, Any]:
    """The public methods that a class or its bases of ours define, by name."""
    return {
        name: member
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and not hasattr(wire.Answer, name)
    }


def undocumented(kind: type) -> Iterator[str]:
    for name, method in methods(kind).items():
        text = inspect.getdoc(method)
        if not text:
            yield f"{kind.__name__}.{name} has no docstring"
            continue
        for parameter in inspect.signature(method).parameters:
            if parameter != "self" and not re.search(rf"^    {parameter}: \S", text, re.M):
                yield f"{kind.__name__}.{name} does not document {parameter}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_method_documents_its_parameters(kind: type) -> None:
    assert inspect.getdoc(kind)
    # `update` of a message is that of a dict.
    found = [one for one in undocumented(kind) if ".update " not in one]
    assert found == []


@pytest.mark.parametrize(
    ("ours", "plain"),
    [*PAIRS, (Stream, SyncStream), (Runner, SyncRunner)],
    ids=lambda kind: kind.__name__,
)
def test_a_plain_class_has_the_methods_of_the_other_with_their_parameters(
    ours: type, plain: type
) -> None:
    wanted_names = methods(ours).keys() - NOT_FOR_THREADS.get(plain.__name__, set())
    assert wanted_names <= methods(plain).keys()
    for name in wanted_names:
        method = methods(ours)[name]
        wanted = set(inspect.signature(method).parameters)
        wanted -= ASYNC_ONLY.get((plain.__name__, name), set())
        assert set(inspect.signature(methods(plain)[name]).parameters) >= wanted, name


def test_no_plain_class_hides_its_methods() -> None:
    assert not [kind for _, kind in PAIRS if hasattr(kind, "__getattr__")]


def test_reprs_say_what_it_is_and_no_secret() -> None:
    with SyncQueen("http://localhost:1", bearer_token="secret") as queen:
        shown = {
            repr(queen): "SyncQueen('http://localhost:1')",
            repr(queen.queue("orders").group("g").partition("p")): "'orders'",
            repr(queen.transaction().push("a", [1, 2]).push("b", 1)): "2 pushes and 0 acks",
            repr(queen.consume("orders", group="g")): "'orders' by group 'g', not started",
        }
    for text, part in shown.items():
        assert part in text and "secret" not in text and "0x" not in text


def message(**fields: Any) -> Message[Any]:
    given = {"id": "1", "transactionId": "t", "partitionId": "p", "data": 5, **fields}
    return msgspec.convert(given, Message[Any])


def test_the_repr_of_a_message_is_short_whatever_its_payload() -> None:
    text = repr(message(queue="orders", partition="a", data="x" * 1_000_000))
    assert text.startswith("<Message 't' of 'orders/a': 'xxx") and len(text) < 150


RESULTS = [
    wire.PushQueued(0, "t", "queued", "m", "p", None, "q"),
    wire.PushDuplicate(1, "t", "duplicate", "m", "p", "q"),
    wire.PushRefused(2, None, "failed", "full", "q"),
    wire.PushBuffered(3, "buffered", "q", "Default", "t", "o", 4, "2s", "system_busy"),
    wire.PushBuffered(3, "buffered", "q", "Default", "t", reason="maintenance"),
]


@pytest.mark.parametrize("written", RESULTS, ids=lambda one: type(one).__name__)
def test_a_push_result_reads_each_answer_without_loss(written: msgspec.Struct) -> None:
    result = msgspec.json.decode(wire.encode(written), type=wire.PushResult)
    plain = msgspec.json.decode(wire.encode(written))
    assert dict(result) == plain and result == plain
    assert result.queue == "q"
    assert result.transaction_id == plain.get("transaction_id", plain.get("transactionId"))
    assert result.is_stored is (result.status in ("queued", "duplicate"))


def test_an_answer_is_a_mapping_with_the_names_of_the_wire() -> None:
    group = wire.GroupDeleted(
        success=True, consumer_group="g", deleted_partitions=2, metadata_deleted=True
    )
    assert group["consumerGroup"] == group.consumer_group == "g"
    assert "queueName" not in group and group.get("queueName", "none") == "none"
    assert {**group} == msgspec.json.decode(wire.encode(group)) == group
    assert len(group) == 4 and list(group) == group.keys()
    with pytest.raises(KeyError):
        group["consumer_group"]
    ack = wire.TransactionAck(0, True, "t", None, False)
    assert ack["type"] == "ack" and {**ack} == msgspec.json.decode(wire.encode(ack))


def answers() -> list[type[wire.Answer]]:
    return [
        kind
        for kind in vars(wire).values()
        if isinstance(kind, type) and issubclass(kind, wire.Answer)
    ]


def test_no_field_of_an_answer_hides_a_method_of_mappings() -> None:
    taken = {"get", "items", "keys", "values"}
    assert not [kind for kind in answers() if taken & set(kind.__struct_fields__)]


def test_every_public_name_has_a_docstring() -> None:
    public = [getattr(queenmq, name) for name in queenmq.__all__ if name != "__version__"]
    assert not [one for one in [*public, *answers()] if not inspect.getdoc(one)]
