"""Commands whose options come from more than one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

Command = Callable[..., None]


def declare(run: Command, parameters: Iterable[inspect.Parameter], *, like: Any) -> Command:
    """Let typer make options of these parameters, with the name and help of `like`.

    `run` gets all of them by name.
    """
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__name__, run.__doc__ = like.__name__, like.__doc__
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in named}
    return run


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> Any:
    """Return a parameter that `declare` takes."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
