"""Gates: a decision per message with state per key, for rate limits. Ready-made limiters below."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from queenmq.client.streams.functions import UserFunction, await_result


@dataclass(slots=True)
class GateContext:
    """The context of a gate. `state` is kept when it lets the message pass."""

    state: dict[str, Any]
    stream_time_ms: int
    partition_id: str
    partition: str
    key: str

    @property
    def streamTimeMs(self) -> int:
        return self.stream_time_ms

    @property
    def partitionId(self) -> str:
        return self.partition_id


GateFunction = Callable[[Any, GateContext], Any]


class Gate:
    """Lets a message pass, or keeps it and all after it for later."""

    kind = "gate"

    def __init__(self, function: UserFunction) -> None:
        if not callable(function):
            raise TypeError(f"gate takes a function, not {function!r}")
        self._function = function
        self.config: dict[str, Any] = {}

    async def is_open(self, value: Any, context: GateContext) -> bool:
        """Ask the user's function."""
        answer = await await_result(self._function(value, context))
        if isinstance(answer, dict):
            answer = answer.get("allow")
        if not isinstance(answer, bool):
            raise TypeError(f"a gate must return True, False or {{'allow': ...}}, not {answer!r}")
        return answer


def _one(_: Any) -> float:
    return 1


def token_bucket_gate(
    capacity: float,
    refill_per_sec: float,
    cost_fn: Callable[[Any], float] = _one,
    allow_zero_cost: bool = True,
) -> GateFunction:
    """Return a gate that lets `refill_per_sec` pass in the long run, and `capacity` at once."""
    _check("token_bucket_gate", "capacity", capacity)
    _check("token_bucket_gate", "refill_per_sec", refill_per_sec)

    def gate(value: Any, context: GateContext) -> bool:
        now, state = context.stream_time_ms, context.state
        # A clock may step back.
        passed_s = max(0.0, (now - state.get("lastRefillAt", now)) / 1000)
        state["tokens"] = min(capacity, state.get("tokens", capacity) + passed_s * refill_per_sec)
        state["lastRefillAt"] = now
        cost = _cost(cost_fn(value))
        if cost == 0:
            return allow_zero_cost
        if state["tokens"] < cost:
            return False
        state["tokens"] -= cost
        state["allowedTotal"] = state.get("allowedTotal", 0) + 1
        state["consumedTotal"] = state.get("consumedTotal", 0) + cost
        return True

    return gate


def sliding_window_gate(
    limit: float, window_sec: float, cost_fn: Callable[[Any], float] = _one
) -> GateFunction:
    """Return a gate that lets about `limit` pass in any `window_sec` seconds.

    It counts in two neighbouring windows and takes the earlier one in proportion.
    """
    _check("sliding_window_gate", "limit", limit)
    _check("sliding_window_gate", "window_sec", window_sec)
    window_ms = window_sec * 1000

    def gate(value: Any, context: GateContext) -> bool:
        state, number = context.state, math.floor(context.stream_time_ms / window_ms)
        if state.get("window") != number:
            is_next = state.get("window") == number - 1
            state["previousCount"] = state.get("currentCount", 0) if is_next else 0
            state["currentCount"] = 0
            state["window"] = number
        share = 1 - context.stream_time_ms % window_ms / window_ms
        cost = _cost(cost_fn(value))
        if state["previousCount"] * share + state["currentCount"] + cost > limit:
            return False
        state["currentCount"] += cost
        return True

    return gate


def _cost(given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return given if is_number and math.isfinite(given) and given >= 0 else 1


def _check(gate: str, field: str, given: Any) -> None:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given) or given <= 0:
        raise ValueError(f"{gate}: {field} {given!r} must be a number above 0")
