"""A small part of JSONPath: names, places and wildcards. Pure.

`$.queues[*].name`, `{.queues[0].messages.pending}` and `[-1]['a name']` are all there is: no
filters, no slices, no `..`. The `$` and the braces of kubectl may be left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]{}'"*\s]+) | (?P<all>\.\*|\[\*\]) | \[(?P<place>-?\d{1,9})\]
      | \[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]""",
    re.VERBOSE,
)
_LENGTH_MAX = 1_000


class Step(NamedTuple):
    """One step: into a name, to a place, or into all there is."""

    name: str | None = None
    place: int | None = None


class JsonPath(NamedTuple):
    """The steps of a path."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Return the values at the path, in order. Empty if the path leads nowhere."""
        found = [value]
        for step in self.steps:
            found = [one for value in found for one in _next(value, step)]
        return found


def parse_path(text: str) -> JsonPath:
    """Return the path. Raises ValueError that says where it cannot be read."""
    path = text.strip()
    if len(path) > _LENGTH_MAX:
        raise ValueError(f"the path has {len(path)} characters; use at most {_LENGTH_MAX}")
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$")
    if path and path[0] not in ".[":
        path = f".{path}"
    steps, at = [], 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(
                f"cannot read {path[at:]!r}; use steps such as .name, [0], [*] and ['a name']"
            )
        steps.append(_step(found))
        at = found.end()
    return JsonPath(tuple(steps))


def _step(found: re.Match[str]) -> Step:
    if found["name"] is not None:
        return Step(name=found["name"])
    if found["place"] is not None:
        return Step(place=int(found["place"]))
    if found["quoted"] is not None:
        return Step(name=re.sub(r"\\(.)", r"\1", found["quoted"][1:-1]))
    return Step()


def _next(value: Any, step: Step) -> Iterator[Any]:
    if step.name is not None:
        if isinstance(value, Mapping) and step.name in value:
            yield value[step.name]
    elif not isinstance(value, Mapping | list):
        return
    elif step.place is None:
        yield from value.values() if isinstance(value, Mapping) else value
    elif isinstance(value, list) and -len(value) <= step.place < len(value):
        yield value[step.place]


def to_line(value: Any) -> str:
    """Return a match as it is printed: a text as it is, anything else as JSON."""
    return str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
