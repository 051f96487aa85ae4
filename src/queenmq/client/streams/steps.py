"""The steps of a stream that keep no state, and the last step.

Each has the configuration that goes into the hash of its stream, under the names of the official
SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from queenmq.client.streams.functions import UserFunction, await_result, with_context


@dataclass(frozen=True, slots=True)
class Record:
    """A value on its way through a stream, and the message it is from."""

    message: Any
    key: str
    value: Any
    #: The place of the message in its batch.
    place: int
    #: For steps after a window: partition, key and window.
    context: Mapping[str, Any] | None = None


class MessageFailed(Exception):
    """A function of the user failed on the message at this place of its batch."""

    def __init__(self, place: int, cause: Exception) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.place = place


class Step(Protocol):
    """One step in the chain of a stream."""

    kind: ClassVar[str]

    @property
    def config(self) -> dict[str, Any]: ...


class Map:
    """Replaces the value."""

    kind = "map"

    def __init__(self, function: UserFunction) -> None:
        self._call = with_context(function, "map")
        self.config: dict[str, Any] = {}

    async def apply(self, record: Record) -> list[Record]:
        return [replace(record, value=await self._call(record.message, record.context))]


class Filter:
    """Drops values. The predicate sees the message."""

    kind = "filter"

    def __init__(self, predicate: UserFunction) -> None:
        self._call = with_context(predicate, "filter")
        self.config: dict[str, Any] = {}

    async def apply(self, record: Record) -> list[Record]:
        return [record] if await self._call(record.message, record.context) else []


class FlatMap:
    """Gives any number of values for one."""

    kind = "flatMap"

    def __init__(self, function: UserFunction) -> None:
        self._call = with_context(function, "flat_map")
        self.config: dict[str, Any] = {}

    async def apply(self, record: Record) -> list[Record]:
        values = await self._call(record.message, record.context)
        if not isinstance(values, list | tuple):
            raise TypeError(f"flat_map must return a list, not {type(values).__name__}")
        return [replace(record, value=value) for value in values]


class KeyBy:
    """Computes the key of state, instead of the partition's id."""

    kind = "keyBy"

    def __init__(self, function: Callable[[Any], Any]) -> None:
        if not callable(function):
            raise TypeError(f"key_by takes a function, not {function!r}")
        self._function = function
        self.config: dict[str, Any] = {}

    async def apply(self, record: Record) -> list[Record]:
        return [replace(record, key=str(await await_result(self._function(record.message))))]


class Sink:
    """Pushes values to a queue, in the transaction that acks their messages."""

    kind = "sink"

    def __init__(self, target: Any, partition: str | Callable[[Any], Any] | None) -> None:
        self.queue = queue_name(target)
        self._partition = partition
        self.config = {"kind": "sink", "queue": self.queue}

    def item(self, value: Any, source_partition: str | None) -> dict[str, Any]:
        """Return the push of a value. A value that is not an object becomes `{"value": ...}`."""
        if callable(self._partition):
            partition = str(self._partition(value))
        else:
            partition = self._partition or source_partition or "Default"
        payload = value if isinstance(value, dict) else {"value": value}
        return {"queue": self.queue, "partition": partition, "payload": payload}


class Foreach:
    """Calls a function for each value before its messages are acked: at least once."""

    kind = "foreach"

    def __init__(self, function: UserFunction) -> None:
        self.call = with_context(function, "foreach")
        self.config = {"kind": "foreach"}


def queue_name(target: Any) -> str:
    """Return the name of a queue given as text, as `queen.queue(name)` or as a mapping."""
    name = target
    if isinstance(target, Mapping):
        name = target.get("queueName") or target.get("queue_name") or target.get("name")
    elif not isinstance(target, str):
        name = getattr(target, "_name", None) or getattr(target, "_queue_name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{target!r} names no queue; give a name or queen.queue('name')")
    return name
