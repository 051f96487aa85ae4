"""Folds values of windows: reduce and aggregate, over fixed windows and sessions.

Pure, but for the user's functions: state in, operations on state and closed windows out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queenmq.client.streams.functions import await_result
from queenmq.client.streams.steps import MessageFailed, Record
from queenmq.client.streams.windows import Session, Window, WindowStep, to_iso

State = Mapping[str, Any]


@dataclass(slots=True)
class Emit:
    """A value that leaves the stateful part of a stream."""

    key: str
    value: Any
    window: Window | None = None
    window_key: str | None = None

    def context(self, partition: str, partition_id: str) -> dict[str, Any]:
        """Return the context that later steps get with the value."""
        return {
            "partition": partition,
            "partitionId": partition_id,
            "key": self.key,
            "windowKey": self.window_key,
            "windowStart": None if self.window is None else self.window.start,
            "windowEnd": None if self.window is None else self.window.end,
        }


@dataclass(slots=True)
class Folded:
    """The result of folding."""

    ops: list[dict[str, Any]] = field(default_factory=list)
    emits: list[Emit] = field(default_factory=list)


class Reduce:
    """Folds the values of a window into one."""

    kind = "reduce"

    def __init__(self, function: Callable[[Any, Any], Any], initial: Any = None) -> None:
        if not callable(function):
            raise TypeError(f"reduce takes a function, not {function!r}")
        self._function = function
        self._initial = initial
        self.config: dict[str, Any] = {"hasInitial": initial is not None}

    def start(self) -> Any:
        """Return the value of an empty window."""
        return copy.deepcopy(self._initial)

    async def add(self, total: Any, record: Record) -> Any:
        """Return the value with one more record. Raises MessageFailed."""
        value = record.message if record.value is None else record.value
        try:
            return await await_result(self._function(total, value))
        except Exception as error:
            raise MessageFailed(record.place, error) from error


class Aggregate(Reduce):
    """Named sums over a window; `count`, `min`, `max` and `avg` mean what they say."""

    kind = "aggregate"

    def __init__(self, extractors: Mapping[str, Callable[[Any], Any]]) -> None:
        if not extractors:
            raise ValueError("aggregate takes functions by name, at least one")
        for name, function in extractors.items():
            if not callable(function):
                raise TypeError(f"aggregate: {name} must be a function, not {function!r}")
        self._extractors = dict(extractors)
        initial: dict[str, Any] = {}
        for name in extractors:
            if name == "avg":
                initial |= {"__avg_sum": 0, "__avg_count": 0}
            initial[name] = None if name in ("min", "max") else 0
        super().__init__(self._fold, initial)
        self.config = {"fields": list(extractors)}

    async def _fold(self, total: dict[str, Any], value: Any) -> dict[str, Any]:
        result = dict(total)
        for name, extract in self._extractors.items():
            number = await await_result(extract(value))
            if isinstance(number, bool) or not isinstance(number, int | float):
                number = None
            _add_number(result, name, number)
        return result


def _add_number(result: dict[str, Any], name: str, number: float | None) -> None:
    if name == "count":
        result[name] = result.get(name, 0) + (1 if number is None else number)
    elif number is None:
        result.setdefault(name, 0)
    elif name in ("min", "max"):
        known = result.get(name)
        choose = min if name == "min" else max
        result[name] = number if known is None else choose(known, number)
    elif name == "avg":
        result["__avg_sum"] = result.get("__avg_sum", 0) + number
        result["__avg_count"] = result.get("__avg_count", 0) + 1
        result[name] = result["__avg_sum"] / result["__avg_count"]
    else:
        result[name] = result.get(name, 0) + number


@dataclass(slots=True)
class _Open:
    """A window that is being filled."""

    key: str
    window: Window
    window_key: str
    total: Any
    is_stored: bool
    is_changed: bool = False


async def fold_windows(
    step: WindowStep,
    reducer: Reduce,
    state: State,
    timed: Iterable[tuple[Record, int]],
    clock_ms: float,
) -> Folded:
    """Add records to their windows, and close those that end at the clock or before."""
    found = {
        key: opened for key, value in state.items() if (opened := _read_window(step, key, value))
    }
    for record, time in timed:
        for window in step.windows_at(time):
            key = step.state_key(window.key, record.key)
            if key not in found:
                found[key] = _Open(record.key, window, window.key, reducer.start(), False)
            opened = found[key]
            opened.total = await reducer.add(opened.total, record)
            opened.is_changed = True
    folded = Folded()
    for key, opened in found.items():
        if opened.window.end + step.grace_ms <= clock_ms:
            folded.emits.append(Emit(opened.key, opened.total, opened.window, opened.window_key))
            if opened.is_stored:
                folded.ops.append({"type": "delete", "key": key})
        elif opened.is_changed:
            value = {
                "acc": opened.total,
                "windowStart": opened.window.start,
                "windowEnd": opened.window.end,
            }
            folded.ops.append({"type": "upsert", "key": key, "value": value})
    return folded


def _read_window(step: WindowStep, key: str, value: Any) -> _Open | None:
    parts = step.read_key(key)
    if parts is None or not isinstance(value, Mapping):
        return None
    window = Window(value["windowStart"], value["windowEnd"])
    return _Open(parts[1], window, parts[0], value.get("acc"), True)


@dataclass(slots=True)
class _Session:
    start: int
    last: int
    total: Any


async def fold_sessions(
    step: Session,
    reducer: Reduce,
    state: State,
    timed: Iterable[tuple[Record, int]],
    clock_ms: float,
) -> Folded:
    """Add records to the sessions of their keys, and close those that are quiet for too long."""
    stored = _read_sessions(step, state)
    sessions = {key: copy.copy(session) for key, session in stored.items()}
    changed: set[str] = set()
    folded = Folded()
    for record, time in timed:
        session = sessions.get(record.key)
        if session is not None and time > session.last + step.gap_ms:
            folded.emits.append(_close(step, record.key, session))
            session = None
        if session is None:
            session = sessions[record.key] = _Session(time, time, reducer.start())
        session.start = min(session.start, time)
        session.last = max(session.last, time)
        session.total = await reducer.add(session.total, record)
        changed.add(record.key)
    for key, session in sessions.items():
        if session.last + step.gap_ms + step.grace_ms <= clock_ms:
            folded.emits.append(_close(step, key, session))
            # Also when it began in this batch: the row is that of a session before it.
            if key in stored:
                folded.ops.append({"type": "delete", "key": step.open_key(key)})
        elif key in changed:
            value = {
                "acc": session.total, "sessionStart": session.start, "lastEventTime": session.last,
            }  # fmt: skip
            folded.ops.append({"type": "upsert", "key": step.open_key(key), "value": value})
    return folded


def _read_sessions(step: Session, state: State) -> dict[str, _Session]:
    found = {}
    for state_key, value in state.items():
        parts = step.read_key(state_key)
        if parts is not None and parts[0] == "open" and isinstance(value, Mapping):
            found[parts[1]] = _Session(
                value["sessionStart"], value["lastEventTime"], value.get("acc")
            )
    return found


def _close(step: Session, key: str, session: _Session) -> Emit:
    window = Window(session.start, session.last + step.gap_ms)
    return Emit(key, session.total, window, to_iso(session.start))
