"""Owns messages as the client gives them: attributes, and a mapping with the wire's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from queenmq.client.errors import UnreadablePayload

T = TypeVar("T")


class _Mapped(Struct, dict=True):
    """Reads like the dict that the same JSON would give.

    Names that are not of the wire may be set, as in `message["_status"] = False`; they are kept
    beside the fields and not listed.
    """

    _names: ClassVar[dict[str, str]] = {}

    def __getitem__(self, key: str) -> Any:
        name = self._names.get(key)
        if name is not None:
            return getattr(self, name)
        try:
            return self.__dict__[key]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._names.get(key)
        if name is not None:
            setattr(self, name, value)
        else:
            self.__dict__[key] = value

    def update(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self[key] = value

    def __ior__(self, values: Mapping[str, Any]) -> Self:
        self.update(values)
        return self

    def __contains__(self, key: object) -> bool:
        return key in self._names or key in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def keys(self) -> list[str]:
        return list(self._names)

    def values(self) -> list[Any]:
        return [getattr(self, name) for name in self._names.values()]

    def items(self) -> list[tuple[str, Any]]:
        return [(key, getattr(self, name)) for key, name in self._names.items()]


class Message(_Mapped, Generic[T], rename="camel", dict=True, kw_only=True):
    """A message that was popped. `message.transaction_id` is `message["transactionId"]`."""

    id: str
    transaction_id: str
    data: T
    partition_id: str
    queue: str = ""
    partition: str = ""
    lease_id: str = ""
    consumer_group: str = "__QUEUE_MODE__"
    trace_id: str | None = None
    created_at: str = ""
    retry_count: int = 0
    producer_sub: str | None = None

    async def trace(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Record `{"data": ..., "traceName": ..., "eventType": ...}` on the message.

        Never raises: a trace must not fail the work that it tells of.
        """
        queen = self.__dict__.get("_queen")
        if queen is None:
            return {"success": False, "error": "the message does not come from a client"}
        answer: dict[str, Any] = await queen.trace(self, entry)
        return answer

    def __getitem__(self, key: str) -> Any:
        # As in the official client: `await message["trace"]({...})`.
        return self.trace if key == "trace" else super().__getitem__(key)


class DeadLetter(_Mapped, Generic[T], rename="camel", dict=True, kw_only=True):
    """A message that was given up, with the reason."""

    id: str
    transaction_id: str
    data: T
    partition_id: str
    queue: str = ""
    partition: str = ""
    consumer_group: str = "__QUEUE_MODE__"
    error_message: str | None = None
    retry_count: int = 0
    producer_sub: str | None = None
    created_at: str = ""
    failed_at: str | None = None


#: The fields as such, below the properties that shadow them.
_message_data: Any = Message.__dict__["data"]
_letter_data: Any = DeadLetter.__dict__["data"]


class UnreadableMessage(Message[Any]):
    """A message whose payload cannot be read; all else about it can."""

    @property  # type: ignore[misc]
    def data(self) -> Any:
        raise self.problem

    @property
    def problem(self) -> UnreadablePayload:
        """Why `data` cannot be read, which is what the field holds."""
        problem: UnreadablePayload = _message_data.__get__(self)
        return problem


class UnreadableDeadLetter(DeadLetter[Any]):
    """A dead letter whose payload cannot be read."""

    @property  # type: ignore[misc]
    def data(self) -> Any:
        raise _letter_data.__get__(self)


class Popped(Struct):
    """The answer to a pop; a server may leave messages out, or send null for one."""

    messages: list[Message[Any] | None] | None = None

    def received(self, queen: Any) -> list[Message[Any]]:
        """The messages, which know the client that they came to."""
        found = [message for message in self.messages or () if message is not None]
        for message in found:
            message.__dict__["_queen"] = queen
        return found


class SettledAndPopped(Struct):
    """The answer to acks with a pop behind them."""

    results: list[dict[str, Any]]
    next: Popped | None = None


class DeadLetters(Struct):
    """The answer to a question for dead letters."""

    messages: list[DeadLetter[Any]] = []
    total: int = 0


def _wire_names(kind: type[Struct]) -> dict[str, str]:
    return {field.encode_name: field.name for field in msgspec.structs.fields(kind)}


Message._names = _wire_names(Message)
DeadLetter._names = _wire_names(DeadLetter)
Mapping.register(_Mapped)


def field_of(message: Any, name: str) -> Any:
    """A field of a Message or of a plain mapping with the wire's names; None if it is absent."""
    return message.get(name) if hasattr(message, "get") else None


def converted(message: Message[Any], wanted: type[T]) -> Message[T]:
    """The message with its payload as a value of the type; raises ValueError if it is not one."""
    message.data = msgspec.convert(message.data, wanted)
    return message
