"""Sorts the steps of a stream into stages, and makes the hash of its configuration. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from queenmq.client.streams.folding import Reduce
from queenmq.client.streams.gates import Gate
from queenmq.client.streams.steps import Filter, FlatMap, Foreach, KeyBy, Map, Sink, Step
from queenmq.client.streams.windows import WindowStep

Stateless = Map | Filter | FlatMap


@dataclass(slots=True)
class Chain:
    """A stream as it is run: stateless steps, a key, one stateful part, more steps, an end."""

    before: list[Stateless] = field(default_factory=list)
    key_by: KeyBy | None = None
    window: WindowStep | None = None
    reducer: Reduce | None = None
    gate: Gate | None = None
    after: list[Stateless] = field(default_factory=list)
    end: Sink | Foreach | None = None


def make_chain(steps: Sequence[Any]) -> Chain:
    """Sort the steps. ValueError says what does not fit together."""
    chain = Chain()
    for step in steps:
        if chain.end is not None:
            raise ValueError(f"{chain.end.kind} must be the last step; {step.kind} comes after it")
        _add(chain, step)
    if chain.window is not None and chain.window.name == "session" and chain.reducer is None:
        raise ValueError("window_session needs a reduce or an aggregate after it")
    return chain


def _add(chain: Chain, step: Any) -> None:
    is_stateful = chain.gate is not None or chain.reducer is not None
    if isinstance(step, Map | Filter | FlatMap):
        (chain.after if is_stateful else chain.before).append(step)
    elif isinstance(step, KeyBy):
        _refuse(chain.key_by is not None, "a stream has one key_by")
        _refuse(is_stateful, "key_by must come before reduce, aggregate and gate")
        chain.key_by = step
    elif isinstance(step, WindowStep):
        _refuse(chain.window is not None, "a stream has one window")
        _refuse(chain.gate is not None, "a gate and a window do not fit into one stream")
        chain.window = step
    elif isinstance(step, Reduce):
        _refuse(chain.reducer is not None, "a stream has one reduce or aggregate")
        _refuse(chain.window is None, f"{step.kind} needs a window before it")
        chain.reducer = step
    elif isinstance(step, Gate):
        _refuse(chain.gate is not None, "a stream has one gate")
        _refuse(chain.window is not None, "a gate and a window do not fit into one stream")
        chain.gate = step
    else:
        chain.end = step


def _refuse(is_wrong: bool, why: str) -> None:
    if is_wrong:
        raise ValueError(why)


def config_hash(steps: Sequence[Step]) -> str:
    """Return the hash of kinds and options of the steps; functions are not part of it.

    The same as in the official SDKs, so that a stream may change its client.
    """
    shape = [{"kind": step.kind, **step.config} for step in steps]
    text = json.dumps(shape, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
