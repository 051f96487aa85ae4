"""The form of requests: items, paths, acks."""

from __future__ import annotations

from typing import Any

import pytest

from queenmq.client import calls
from queenmq.client.calls import PopRequest, are_named, name_items, push_items
from queenmq.ids import parse_uuid

TRACE = "0af76519-16cd-43dd-8448-eb211c80319c"


def _item(payload: Any, trace_id: str | None = None) -> dict[str, Any]:
    (item,) = push_items("q", payload, partition=None, trace_id=trace_id)
    return item


@pytest.mark.parametrize("payload", [None, 1, "text", {}, {"a": 1}, {"transactionId": "t"}])
def test_anything_is_a_payload(payload: Any) -> None:
    assert _item(payload)["payload"] == payload
    assert _item({"data": payload})["payload"] == payload
    assert _item({"payload": payload})["payload"] == payload


def test_every_item_can_get_a_transaction_id_of_its_own() -> None:
    items = push_items("q", [1, 2, {"data": 3, "transactionId": "mine"}], partition="p",
                       trace_id=None)  # fmt: skip
    assert [item.get("transactionId") for item in items] == [None, None, "mine"]
    assert not are_named(items)
    names = [item["transactionId"] for item in name_items(items)]
    assert are_named(items)
    assert names[2] == "mine"
    first, second = (parse_uuid(name) for name in names[:2])
    assert first is not None and second is not None and first != second
    assert first.version == second.version == 7
    assert {item["partition"] for item in items} == {"p"}


def test_fields_beside_a_wrapped_payload_are_not_lost_silently() -> None:
    with pytest.raises(ValueError, match="total"):
        _item({"data": 1, "total": 2})


def test_a_trace_id_is_the_item_s_own_or_the_current_one() -> None:
    assert _item(1, TRACE)["traceId"] == TRACE
    other = TRACE.replace("0a", "0b")
    assert _item({"data": 1, "traceId": other}, TRACE)["traceId"] == other
    assert "traceId" not in _item({"data": 1, "traceId": "not a uuid"})


def test_names_are_safe_in_paths() -> None:
    path = PopRequest(queue="a/b c?", partition="ü#", group="g&h").path()
    assert path.startswith("/api/v1/pop/queue/a%2Fb%20c%3F/partition/%C3%BC%23?")
    assert "consumerGroup=g%26h" in path


def test_queries_have_the_words_of_the_server() -> None:
    query = {"toEnd": True, "wait": False, "from_": "a b&c", "partition": None, "batch": 1}
    assert calls.query_text(query) == "toEnd=true&wait=false&from=a%20b%26c&batch=1"


def test_a_pop_needs_a_place() -> None:
    with pytest.raises(ValueError, match="name a queue"):
        PopRequest().path()
    assert PopRequest(task="t").path().startswith("/api/v1/pop?")


def test_messages_are_acked_for_the_group_that_popped_them() -> None:
    messages = [{"consumerGroup": "a"}, {"consumerGroup": "__QUEUE_MODE__"}, {"consumerGroup": "a"}]
    assert calls.by_group(messages, None) == {"a": [0, 2], None: [1]}
    assert calls.by_group(messages, "b") == {"b": [0, 1, 2]}


@pytest.mark.parametrize("message", ["an id", {"transactionId": "t"}, {"partitionId": "p"}])
def test_what_cannot_be_acked_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match="the message that pop returned"):
        calls.ack_item(message, True, None)


def test_options_have_both_spellings() -> None:
    options = calls.camel_options({"lease_time": 5, "retryLimit": 6})
    assert (options["leaseTime"], options["retryLimit"]) == (5, 6)
    assert options["windowBuffer"] == 0


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lease_tim", "queues have no option 'lease_tim'; did you mean leaseTime?"),
        ("retrylimit", "queues have no option 'retrylimit'; did you mean retryLimit?"),
        ("qqqqqq", "queues have no option 'qqqqqq'; use one of leaseTime, retryLimit, "),
    ],
)
def test_a_misspelt_option_is_refused_with_the_near_name(name: str, hint: str) -> None:
    with pytest.raises(ValueError) as caught:
        calls.camel_options({name: 5})
    assert str(caught.value).startswith(hint)
