"""Processes a batch of one partition: state and messages in, state operations and pushes out.

Knows no broker: the runner and the test kit call the same functions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from queenmq.client.streams.chain import Chain
from queenmq.client.streams.folding import Emit, Folded, fold_sessions, fold_windows
from queenmq.client.streams.gates import GateContext
from queenmq.client.streams.steps import Foreach, MessageFailed, Record, Sink
from queenmq.client.streams.windows import Session, to_ms

#: The row of state that holds how far event time has come.
WATERMARK = "__wm__"
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Place:
    """The partition that a batch is from."""

    id: str
    name: str


@dataclass(slots=True)
class Plan:
    """The changes to commit. Effects are values for a foreach, with their contexts."""

    #: Messages of the batch, from the front, that are done with it.
    taken: int
    ops: list[dict[str, Any]] = field(default_factory=list)
    pushes: list[dict[str, Any]] = field(default_factory=list)
    effects: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    late: int = 0


async def plan_batch(
    chain: Chain, place: Place, messages: Sequence[Any], state: Mapping[str, Any], now_ms: int
) -> Plan:
    """Run a batch through the chain. Raise MessageFailed if one message fails."""
    records = await _prepare(chain, place, messages)
    plan = Plan(taken=len(messages))
    if chain.gate is not None:
        emits = await _pass_gate(chain, place, records, state, now_ms, plan)
    elif chain.window is not None:
        emits = await _fill_windows(chain, messages, records, state, plan)
    else:
        emits = [Emit(record.key, record.value) for record in records]
    await _finish(chain, place, emits, plan)
    return plan


async def plan_flush(chain: Chain, place: Place, state: Mapping[str, Any], now_ms: int) -> Plan:
    """Close the windows that have ended, without a message. The plan is empty if there are none."""
    window = chain.window
    assert window is not None
    clock: float = now_ms if window.event_time is None else _watermark(state)
    folded = await _fold(chain, state, [], clock)
    plan = Plan(taken=0, ops=folded.ops)
    await _finish(chain, place, folded.emits, plan)
    return plan


async def _prepare(chain: Chain, place: Place, messages: Sequence[Any]) -> list[Record]:
    """Run each message through the stateless steps and the key."""
    steps = [*chain.before, *([chain.key_by] if chain.key_by is not None else [])]
    found: list[Record] = []
    for number, message in enumerate(messages):
        records = [Record(message, place.id, message["data"], number)]
        try:
            for step in steps:
                records = [out for record in records for out in await step.apply(record)]
        except Exception as error:
            raise MessageFailed(number, error) from error
        found += records
    return found


async def _pass_gate(
    chain: Chain,
    place: Place,
    records: Iterable[Record],
    state: Mapping[str, Any],
    now_ms: int,
    plan: Plan,
) -> list[Emit]:
    """Let records pass up to the first that is denied; all of a message, or nothing of it."""
    gate = chain.gate
    assert gate is not None
    kept: dict[str, Any] = {}
    passed: list[Record] = []
    by_place: dict[int, list[Record]] = {}
    for record in records:
        by_place.setdefault(record.place, []).append(record)
    for number, mine in by_place.items():
        tried: dict[str, Any] = {}
        for record in mine:
            if record.key not in tried:
                known = kept.get(record.key, state.get(record.key))
                tried[record.key] = copy.deepcopy(known) if isinstance(known, Mapping) else {}
            context = GateContext(tried[record.key], now_ms, place.id, place.name, record.key)
            try:
                is_open = await gate.is_open(record.value, context)
            except Exception as error:
                raise MessageFailed(number, error) from error
            if not is_open:
                plan.taken = number
                break
        else:
            kept |= tried
            passed += mine
            continue
        break
    plan.ops = [{"type": "upsert", "key": key, "value": value} for key, value in kept.items()]
    return [Emit(record.key, record.value) for record in passed]


async def _fill_windows(
    chain: Chain,
    messages: Sequence[Any],
    records: Iterable[Record],
    state: Mapping[str, Any],
    plan: Plan,
) -> list[Emit]:
    window = chain.window
    assert window is not None
    watermark = _watermark(state) if window.event_time is not None else _NEVER
    latest = _NEVER
    timed: list[tuple[Record, int]] = []
    for record in records:
        try:
            time = await window.time_of(record.message)
        except Exception as error:
            raise MessageFailed(record.place, error) from error
        latest = max(latest, time)
        if time < watermark and window.drops_late:
            plan.late += 1
        else:
            timed.append((record, time))
    if chain.reducer is None:
        return [
            Emit(record.key, record.value, one, one.key)
            for record, time in timed
            for one in window.windows_at(time)
        ]
    if window.event_time is not None:
        clock = max(watermark, latest - window.lateness_ms)
    else:
        # Also of messages that were filtered out: time goes on with them.
        clock = max((to_ms(one.get("createdAt")) or 0 for one in messages), default=_NEVER)
    folded = await _fold(chain, state, timed, clock)
    plan.ops = folded.ops
    if window.event_time is not None and clock > watermark:
        value = {"eventTimeMs": clock}
        plan.ops.append({"type": "upsert", "key": WATERMARK, "value": value})
    return folded.emits


async def _fold(
    chain: Chain, state: Mapping[str, Any], timed: list[tuple[Record, int]], clock: float
) -> Folded:
    window, reducer = chain.window, chain.reducer
    assert window is not None
    if reducer is None:
        return Folded()
    if isinstance(window, Session):
        return await fold_sessions(window, reducer, state, timed, clock)
    return await fold_windows(window, reducer, state, timed, clock)


def _watermark(state: Mapping[str, Any]) -> float:
    row = state.get(WATERMARK)
    found = row.get("eventTimeMs") if isinstance(row, Mapping) else None
    return found if isinstance(found, int | float) else _NEVER


async def _finish(chain: Chain, place: Place, emits: Iterable[Emit], plan: Plan) -> None:
    """Run what leaves the stateful part through the steps after it, to the end."""
    for emit in emits:
        context = emit.context(place.name, place.id)
        values = [emit.value]
        for step in chain.after:
            outs = [
                out
                for value in values
                for out in await step.apply(Record(value, emit.key, value, 0, context))
            ]
            values = [out.message if out.value is None else out.value for out in outs]
        if isinstance(chain.end, Sink):
            plan.pushes += [chain.end.item(value, place.name) for value in values]
        elif isinstance(chain.end, Foreach):
            plan.effects += [(value, context) for value in values]
