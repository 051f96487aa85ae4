"""Runs a stream on a list of messages, without a broker: for tests of streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from queenmq.client.message import Message
from queenmq.client.streams.batch import Place, Plan, plan_batch, plan_flush
from queenmq.client.streams.steps import Foreach
from queenmq.client.streams.stream import Stream
from queenmq.client.streams.windows import to_iso

#: When the messages of a test are pushed, unless they say: the first day of 2026, a second apart.
START_MS = 1_767_225_600_000
_STEP_MS = 1_000
#: A gate that denies longer than this counts as closed forever.
_ROUNDS_MAX = 10_000


@dataclass(slots=True)
class StreamResult:
    """The output of a stream in a test."""

    #: What was pushed, in order: `queue`, `partition`, `payload`.
    pushes: list[dict[str, Any]] = field(default_factory=list)
    #: State by partition and key, after the last batch.
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Messages that came too late for their windows.
    late: int = 0
    #: Messages that a gate still denies.
    denied: list[Any] = field(default_factory=list)

    @property
    def payloads(self) -> list[Any]:
        """Return the pushed payloads, in order."""
        return [push["payload"] for push in self.pushes]


async def run_on_messages(
    stream: Stream,
    messages: Iterable[Any],
    *,
    batch_size: int = 100,
    flush_at_ms: int | None = None,
    gate_step_ms: int = 100,
    is_gate_waiting: bool = True,
) -> StreamResult:
    """Run a stream on messages, batch by batch and partition by partition.

    A message is a payload, or a mapping with `data` and, where that matters, `partition` and
    `createdAt`. With `flush_at_ms` windows that have ended by then are closed at the end, as when
    nothing comes any more. What a gate denies is tried again `gate_step_ms` later, unless
    `is_gate_waiting` is False.
    """
    chain = stream.chain()
    result = StreamResult()
    groups: dict[str, list[Message[Any]]] = {}
    for number, given in enumerate(messages):
        message = _to_message(number, given)
        groups.setdefault(message.partition, []).append(message)
    for name, group in groups.items():
        place = Place(f"partition-{name}", name)
        state = result.state.setdefault(name, {})
        now_ms = START_MS
        left = group
        for _ in range(_ROUNDS_MAX):
            if not left:
                break
            batch = left[:batch_size]
            plan = await plan_batch(chain, place, batch, state, now_ms)
            await _apply(stream, plan, state, result)
            left = left[plan.taken :]
            if plan.taken < len(batch):
                if not is_gate_waiting:
                    break
                now_ms += gate_step_ms
        result.denied += left
        if flush_at_ms is not None and chain.window is not None:
            plan = await plan_flush(chain, place, state, flush_at_ms)
            await _apply(stream, plan, state, result)
    return result


async def _apply(stream: Stream, plan: Plan, state: dict[str, Any], result: StreamResult) -> None:
    end = stream.chain().end
    if isinstance(end, Foreach):
        for value, context in plan.effects:
            await end.call(value, context)
    for op in plan.ops:
        if op["type"] == "upsert":
            state[op["key"]] = op["value"]
        else:
            state.pop(op["key"], None)
    result.pushes += plan.pushes
    result.late += plan.late


def _to_message(number: int, given: Any) -> Message[Any]:
    fields = given if isinstance(given, dict) and "data" in given else {"data": given}
    return Message(
        id=f"message-{number}",
        transaction_id=f"message-{number}",
        data=fields["data"],
        partition=fields.get("partition", "Default"),
        partition_id=f"partition-{fields.get('partition', 'Default')}",
        created_at=fields.get("createdAt") or to_iso(START_MS + number * _STEP_MS),
    )
