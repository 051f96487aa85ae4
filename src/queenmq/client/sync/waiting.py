"""Turns methods that give something to await into methods that wait, with the same signature."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from queenmq.client.sync.loop_thread import LoopThread

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Waiter(Generic[T]):
    """Stands for an object of the event loop's thread: its target."""

    def __init__(self, thread: LoopThread, target: T) -> None:
        self._thread = thread
        self._target = target

    def __repr__(self) -> str:
        return repr(self._target)


class _Waiting(Protocol[T_co]):
    """The part of an object that `wait_for_method` uses. `T_co` is the type of its result."""

    _thread: LoopThread

    @property
    def _target(self) -> T_co: ...


def wait_for_method(
    method: Callable[Concatenate[T, P], Awaitable[R]],
) -> Callable[Concatenate[_Waiting[T], P], R]:
    """Return the method as one that waits for the result."""

    def call(self: _Waiting[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.call(method(self._target, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


S = TypeVar("S")


def chain_method(
    method: Callable[Concatenate[T, P], Any],
) -> Callable[Concatenate[S, P], S]:
    """Return a builder's method as one of its counterpart: it adds something and returns that."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> S:
        method(self._target, *args, **kwargs)  # type: ignore[attr-defined]
        return self

    functools.update_wrapper(call, method)
    return call
