"""Builds requests: items, paths, queries, acks. No I/O and no state."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict
from urllib.parse import quote, urlencode

from queenmq import clock, wire
from queenmq.client.arguments import check_flag, check_integer
from queenmq.client.message import Message, field_of
from queenmq.client.spelling import suggest
from queenmq.ids import parse_uuid, uuid7_texts

QUEUE_MODE = "__QUEUE_MODE__"

#: The keys that a dict around a payload may have.
_WRAPPING = {
    "data", "payload", "partition", "transactionId", "transaction_id", "traceId", "trace_id",
}  # fmt: skip

#: Options that `create` always sends, as the official client does. The server's own retry delay
#: is 0 by default, so three retries of a failing message would be over in a fifth of a second.
QUEUE_DEFAULTS: dict[str, Any] = {
    "leaseTime": 300,
    "retryLimit": 3,
    "retryDelay": 1_000,
    "priority": 0,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "maxSize": 0,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "encryptionEnabled": False,
}


class PopKeywords(TypedDict, total=False):
    """Keyword arguments of a pop. Defaults are those of PopRequest."""

    partition: str | None
    namespace: str | None
    task: str | None
    group: str | None
    batch: int
    partitions: int
    wait: bool
    timeout_ms: int
    auto_ack: bool
    lease_seconds: int | None
    subscription_mode: str | None
    subscription_from: str | None


@dataclass(frozen=True, kw_only=True)
class PopRequest:
    """The parameters of a pop."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    group: str | None = None
    batch: int = 1
    partitions: int = 1
    wait: bool = False
    timeout_ms: int = 30_000
    auto_ack: bool = False
    lease_seconds: int | None = None
    subscription_mode: str | None = None
    subscription_from: str | None = None

    def __post_init__(self) -> None:
        # The server reads a number that it cannot parse as the default, as other clients expect.
        check_integer("batch", self.batch)
        check_integer("partitions", self.partitions)
        check_integer("timeout_ms", self.timeout_ms)
        if self.lease_seconds is not None:
            check_integer("lease_seconds", self.lease_seconds)
        check_flag("wait", self.wait)
        check_flag("auto_ack", self.auto_ack)

    @property
    def place(self) -> str | None:
        """Return the name of the queue, namespace or task."""
        return self.queue or self.namespace or self.task

    @functools.lru_cache(maxsize=1024)  # noqa: B019 - requests are values, and few
    def path(self, *, batch: int | None = None, timeout_ms: int | None = None) -> str:
        """Return path and query. A consumer asks for less near its limit."""
        query = {
            "batch": batch or self.batch,
            "wait": self.wait,
            "timeout": self.timeout_ms if timeout_ms is None else timeout_ms,
            "consumerGroup": self.group,
            "namespace": self.namespace,
            "task": self.task,
            "autoAck": self.auto_ack or None,
            "leaseSeconds": self.lease_seconds,
            "subscriptionMode": self.subscription_mode,
            "subscriptionFrom": self.subscription_from,
            "partitions": self.partitions if self.partitions > 1 else None,
        }
        return f"{self._place()}?{query_text(query)}"

    def _place(self) -> str:
        if self.queue:
            place = f"/api/v1/pop/queue/{quote_name(self.queue)}"
            if self.partition is not None:
                place += f"/partition/{quote_name(self.partition)}"
            return place
        if self.namespace or self.task:
            return "/api/v1/pop"
        raise ValueError("there is nothing to pop from: name a queue, a namespace or a task")


def quote_name(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="")


def query_text(query: Mapping[str, Any]) -> str:
    """Return a query string of all values that are not None. `from_` stands for `from`."""
    words = {True: "true", False: "false"}
    return urlencode(
        {
            name.rstrip("_"): words[value] if isinstance(value, bool) else value
            for name, value in query.items()
            if value is not None
        },
        quote_via=quote,
    )


def with_query(path: str, query: Mapping[str, Any]) -> str:
    text = query_text(query)
    return f"{path}?{text}" if text else path


def push_items(
    queue: str, payloads: Any, *, partition: str | None, trace_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the items of a push request. Only those with a name have a transaction id."""
    many = payloads if isinstance(payloads, list | tuple) else [payloads]
    items = [_item(queue, partition or "Default", one) for one in many]
    if trace_id is not None:
        for item in items:
            item.setdefault("traceId", trace_id)
    return items


def name_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give a transaction id to each item without one, so that it can be sent twice."""
    names = uuid7_texts(clock.unix_ms(), len(items))
    for item, name in zip(items, names, strict=True):
        item.setdefault("transactionId", name)
    return items


def are_named(items: Sequence[dict[str, Any]]) -> bool:
    """Return whether the server recognises every item when it is sent again."""
    return all("transactionId" in item for item in items)


def _item(queue: str, partition: str, one: Any) -> dict[str, Any]:
    if not isinstance(one, dict):
        payload = one
    elif len(one) == 1 and "data" in one:
        payload = one["data"]
    else:
        return _read_described_item(queue, partition, one)
    return {"queue": queue, "partition": partition, "payload": payload}


def _read_described_item(queue: str, partition: str, one: dict[Any, Any]) -> dict[str, Any]:
    """Return an item from a payload or from a dict that wraps one."""
    payload: Any = one
    if "data" in one or "payload" in one:
        _check_wrapping(one)
        payload = one["data"] if "data" in one else one["payload"]
        partition = one.get("partition") or partition
    item = {"queue": queue, "partition": partition, "payload": payload}
    if name := given_name(one):
        item["transactionId"] = name
    trace_id = _trace_id(one.get("traceId") or one.get("trace_id"))
    if trace_id is not None:
        item["traceId"] = trace_id
    return item


def given_name(one: Any) -> str | None:
    """Return the transaction id that the user chose for an item.

    As in the official client, a plain payload may contain it as well, and keeps it.
    """
    if not isinstance(one, dict):
        return None
    if "data" in one or "payload" in one:
        return one.get("transactionId") or one.get("transaction_id")
    return one.get("transactionId")


def _check_wrapping(one: dict[str, Any]) -> None:
    unknown = one.keys() - _WRAPPING
    if unknown:
        raise ValueError(
            f"an item with data or payload also has {', '.join(sorted(map(str, unknown)))}, which "
            "would be lost; wrap the whole payload as {'data': ...}"
        )


def _trace_id(given: Any) -> str | None:
    """Return a trace id that the server accepts. One that is not a UUID is left out."""
    return given if isinstance(given, str) and parse_uuid(given) else None


def status_word(status: bool | str) -> str:
    if isinstance(status, str):
        return status
    return "completed" if status else "failed"


def ack_item(message: Any, status: bool | str, error: str | None) -> dict[str, Any]:
    """Return one ack. A message may have its own `_status` and `_error`."""
    if isinstance(message, Message):
        # The fast path of consumers: looking fields up by wire name costs more than the rest.
        transaction_id = message.transaction_id or message.id
        partition_id, lease_id = message.partition_id, message.lease_id
        own, own_error = message.__dict__.get("_status"), message.__dict__.get("_error")
    else:
        transaction_id = field_of(message, "transactionId") or field_of(message, "id")
        partition_id, lease_id = field_of(message, "partitionId"), field_of(message, "leaseId")
        own, own_error = field_of(message, "_status"), field_of(message, "_error")
    if not transaction_id or not partition_id:
        raise ValueError(
            "a message to ack has no transactionId or no partitionId;"
            " pass the message that pop returned"
        )
    item = {
        "transactionId": transaction_id,
        "partitionId": partition_id,
        "status": status_word(status if own is None else own),
        "error": own_error or error,
    }
    if lease_id:
        item["leaseId"] = lease_id
    return item


def group_of(message: Any) -> str | None:
    """Return the group that popped a message. None stands for the default group."""
    is_ours = isinstance(message, Message)
    group = message.consumer_group if is_ours else field_of(message, "consumerGroup")
    return None if group in (None, "", QUEUE_MODE) else str(group)


def by_group(messages: Iterable[Any], group: str | None) -> dict[str | None, list[int]]:
    """Return positions of messages by the group to ack them for: the one given, or each one's
    own.
    """
    found: dict[str | None, list[int]] = {}
    for position, message in enumerate(messages):
        found.setdefault(group or group_of(message), []).append(position)
    return found


def lease_ids(what: Any) -> list[str]:
    """Return the distinct leases of messages. A lease id stands for itself."""
    many: Sequence[Any] = what if isinstance(what, list | tuple) else [what]
    found = [one if isinstance(one, str) else field_of(one, "leaseId") for one in many]
    return list(dict.fromkeys(one for one in found if one))


def camel_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return queue options by wire name. Raise ValueError for a name that no option has.

    The request replaces all options, so a misspelt one would reset the others.
    """
    return {**QUEUE_DEFAULTS, **{option_name(name): value for name, value in options.items()}}


def option_name(name: str) -> str:
    """Return the wire name of a queue option: lease_time, lease-time and leaseTime are the same."""
    first, *rest = name.replace("-", "_").split("_")
    wire_name = first + "".join(word.capitalize() for word in rest)
    known = wire.QueueOptions.__struct_encode_fields__
    if wire_name not in known:
        raise ValueError(f"queues have no option {name!r}; {suggest(wire_name, known)}")
    return wire_name
