"""Owns the messages of the client: attributes, and a mapping with the wire's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from queenmq import wire
from queenmq.client.errors import UnreadablePayload

T = TypeVar("T")

#: Characters of a payload in a `repr`.
_SHOWN_MAX = 80


class _Settable:
    """Makes a Struct a mutable mapping, like the dicts of the official client.

    Other names can be set as well, as in `message["_status"] = False`. They are kept beside the
    fields and not listed.
    """

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        name = _NAMES[type(self)].get(key)
        if name is not None:
            return getattr(self, name)
        try:
            return self.__dict__[key]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: Any) -> None:
        name = _NAMES[type(self)].get(key)
        if name is not None:
            setattr(self, name, value)
        else:
            self.__dict__[key] = value

    def __contains__(self, key: object) -> bool:
        return key in _NAMES[type(self)] or key in self.__dict__

    def update(self, values: Mapping[str, Any]) -> None:
        """Set several values by their names."""
        for key, value in values.items():
            self[key] = value

    def __ior__(self, values: Mapping[str, Any]) -> Self:
        self.update(values)
        return self


def _format_payload(payload: Any) -> str:
    text = repr(payload)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


class Message(_Settable, wire.PoppedMessage[T], Generic[T], dict=True, eq=False):
    """A message that was popped. `message.transaction_id` is `message["transactionId"]`.

    Attributes:
        id: The message's id, a UUIDv7.
        transaction_id: Its name in its partition: as pushed, or the message id.
        data: The payload, converted if a `type` was given.
        partition_id: Its partition's id, which acks and admin calls name it by.
        queue: The queue's name.
        partition: The partition's name.
        lease_id: The lease it came with; empty with `auto_ack`.
        consumer_group: The group that popped it.
        trace_id: The trace it was pushed in, or None.
        created_at: When it was stored, in ISO 8601.
        retry_count: Failures so far, on the first message of a partition.
        producer_sub: Who pushed it, or None.
    """

    async def trace(self, entry: Mapping[str, Any]) -> TraceOutcome:
        """Record a trace of the message. Never raises, because a trace must not fail the work.

        Args:
            entry: `{"data": ..., "traceName": ..., "eventType": ...}`; only `data` is required.
        """
        queen = self.__dict__.get("_queen")
        if queen is None:
            return TraceOutcome(success=False, error="the message does not come from a client")
        answer: TraceOutcome = await queen.trace(self, entry)
        return answer

    def __getitem__(self, key: str) -> Any:
        # As in the official client: `await message["trace"]({...})`.
        return self.trace if key == "trace" else super().__getitem__(key)

    def __repr__(self) -> str:
        place = f"{self.queue}/{self.partition}"
        payload = _format_payload(_message_data(self))
        return f"<Message {self.transaction_id!r} of {place!r}: {payload}>"


class DeadLetter(_Settable, wire.StoredDeadLetter[T], Generic[T], dict=True, eq=False):
    """A message that failed too often, with the reason.

    Attributes:
        id: The dead letter's id.
        transaction_id: The message's name in its partition.
        data: The payload.
        partition_id: The partition's id.
        queue: The queue's name.
        partition: The partition's name.
        consumer_group: The group in which it failed.
        error_message: The reason in the last failed ack.
        retry_count: How often it was redelivered.
        producer_sub: Who pushed it, or None.
        created_at: When the message was stored.
        failed_at: When it became a dead letter.
    """

    def __repr__(self) -> str:
        place = f"{self.queue}/{self.partition}"
        why = self.error_message or "no reason given"
        return f"<DeadLetter {self.transaction_id!r} of {place!r}: {why}>"


#: The fields as such, below the properties that shadow them.
_message_data: Any = wire.PoppedMessage.__dict__["data"].__get__
_dead_letter_data: Any = wire.StoredDeadLetter.__dict__["data"].__get__


class UnreadableMessage(Message[Any]):
    """A message whose payload cannot be read. Its other fields can."""

    @property  # type: ignore[misc]
    def data(self) -> Any:
        raise self.problem

    @property
    def problem(self) -> UnreadablePayload:
        """Return the reason why `data` cannot be read."""
        problem: UnreadablePayload = _message_data(self)
        return problem


class UnreadableDeadLetter(DeadLetter[Any]):
    """A dead letter whose payload cannot be read."""

    @property  # type: ignore[misc]
    def data(self) -> Any:
        raise _dead_letter_data(self)


class TraceOutcome(wire.Answer, omit_defaults=True):
    """The result of recording a trace. `error` says why it failed."""

    success: bool
    trace_id: str | None = None
    error: str | None = None


class Popped(Struct):
    """The answer to a pop. A server may omit `messages`, or send null for one."""

    messages: list[Message[Any] | None] | None = None

    def bind_messages(self, queen: Any) -> list[Message[Any]]:
        """Return the messages, linked to their client."""
        found = [message for message in self.messages or () if message is not None]
        for message in found:
            message.__dict__["_queen"] = queen
        return found


class AcksAndMessages(Struct):
    """The answer to acks with a pop."""

    results: list[wire.AckResult]
    next: Popped | None = None


class DeadLetters(wire.Answer):
    """A page of dead letters, latest failure first, and their total number."""

    messages: list[DeadLetter[Any]] = msgspec.field(default_factory=list)
    total: int = 0


_NAMES: dict[type, dict[str, str]] = {
    kind: {field.encode_name: field.name for field in msgspec.structs.fields(base)}
    for kind, base in (
        (Message, wire.PoppedMessage),
        (UnreadableMessage, wire.PoppedMessage),
        (DeadLetter, wire.StoredDeadLetter),
        (UnreadableDeadLetter, wire.StoredDeadLetter),
    )
}


def field_of(message: Any, name: str) -> Any:
    """Return a field of a Message or of a mapping with the wire's names, or None if it is
    absent.
    """
    return message.get(name) if hasattr(message, "get") else None


def convert_message(message: Message[Any], wanted: type[T]) -> Message[T]:
    """Return the message with its payload converted. Raises ValueError if it does not fit."""
    message.data = msgspec.convert(message.data, wanted)
    return message
