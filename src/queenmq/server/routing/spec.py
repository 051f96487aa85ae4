"""The declaration of routes: method, path, request and answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.types import Scope

F = TypeVar("F", bound=Callable[..., Any])

JSON = "application/json"
_SPECS = "route_specs"
#: `{name}` or, for a name that may hold slashes, `{name:name}`.
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True)
class OneOf:
    """A body that has one of several shapes without a distinguishing tag."""

    shapes: tuple[type, ...]


@dataclass(frozen=True)
class ArrayOf(OneOf):
    """An array whose elements have one of several shapes each."""


@dataclass(frozen=True, kw_only=True)
class RouteSpec:
    """One route, as the OpenAPI document shows it."""

    method: str
    path: str
    #: Unique among all routes.
    name: str
    #: What it does, from the handler's docstring.
    text: str
    request: Any = None
    needs_body: bool = True
    #: Parameters of the query string and their types; all may be left out.
    query: Mapping[str, Any] = field(default_factory=dict)
    #: The type of the body by status. None means no body.
    answers: Mapping[int, Any] = field(default_factory=dict)
    media: str = JSON
    #: Served by the edge on the engine, without a framework in between.
    is_hot: bool = False
    #: Decides whether a request is for this route if the path alone does not.
    when: Callable[[Scope], bool] | None = None

    @property
    def public_path(self) -> str:
        """Return the path with plain parameters, as `/api/v1/why/{queue}`."""
        return _PARAMETER.sub(r"{\1}", self.path)

    @property
    def parameters(self) -> list[str]:
        """Return the names of the path's parameters."""
        return _PARAMETER.findall(self.path)

    @property
    def specificity(self) -> int:
        """Count the parts of the path that are not parameters."""
        return sum(not _PARAMETER.fullmatch(part) for part in self.path.split("/") if part)


def route(
    method: str,
    path: str,
    answer: Any,
    *,
    status: int = 200,
    request: Any = None,
    needs_body: bool = True,
    query: Mapping[str, Any] | None = None,
    also: Mapping[int, Any] | None = None,
    media: str = JSON,
    is_hot: bool = False,
    when: Callable[[Scope], bool] | None = None,
) -> Callable[[F], F]:
    """Make a method the handler of a route.

    `answer` is the type of the body with the usual `status`, `also` has those of other statuses.
    """

    def register(handler: F) -> F:
        specs: list[RouteSpec] = handler.__dict__.setdefault(_SPECS, [])
        spec = RouteSpec(
            method=method,
            path=path,
            name=_name(method, path),
            text=" ".join((inspect.getdoc(handler) or "").split()),
            request=request,
            needs_body=needs_body,
            query=query or {},
            answers={status: answer, **(also or {})},
            media=media,
            is_hot=is_hot,
            when=when,
        )
        # Decorators run from the last to the first.
        specs.insert(0, spec)
        return handler

    return register


def _name(method: str, path: str) -> str:
    """Return a word such as `get_api_v1_why_queue`."""
    words = [method.lower(), *re.findall(r"\w+", _PARAMETER.sub(r"\1", path))]
    return "_".join(words).replace("-", "_")


def specs_of(kind: type) -> Iterator[RouteSpec]:
    """Yield the routes of a class, in the order of its methods."""
    for spec, _ in _handlers(kind):
        yield spec


def bound_routes(owner: object) -> Iterator[tuple[RouteSpec, Callable[..., Any]]]:
    """Yield the routes of an object, each with its handler."""
    for spec, name in _handlers(type(owner)):
        yield spec, getattr(owner, name)


def _handlers(kind: type) -> Iterator[tuple[RouteSpec, str]]:
    for name, member in vars(kind).items():
        for spec in getattr(member, _SPECS, ()):
            yield spec, name
