"""Calls functions of users: with or without a context, plain or async."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

UserFunction = Callable[..., Any]


def takes_context(function: UserFunction) -> bool:
    """Return whether a function takes a second argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some builtins do not tell; they take the value only.
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return True
    return sum(one.kind in kinds for one in parameters) >= 2


def with_context(function: UserFunction, what: str) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return an async form of `function(value)` or `function(value, context)`."""
    if not callable(function):
        raise TypeError(f"{what} takes a function, not {function!r}")
    has_context = takes_context(function)

    async def call(value: Any, context: Any) -> Any:
        out = function(value, context) if has_context else function(value)
        return await out if inspect.isawaitable(out) else out

    return call


async def await_result(out: Any) -> Any:
    """Return what a function gave, awaited if it has to be."""
    return await out if inspect.isawaitable(out) else out
