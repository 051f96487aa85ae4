"""The shapes that all parts of the contract share: requests, answers, pages, errors.

In Python a field is `queue_name`. On the wire it is `queueName`, unless its Struct says otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

#: A number that a PostgreSQL integer holds.
Natural = Annotated[int, Meta(ge=0, le=2_147_483_647)]
#: A count, a rate or an age.
Number = int | float


class Request(Struct, rename="camel"):
    """A request of a client. A later field has a default, because older clients leave it out."""


class Answer(Struct, rename="camel", repr_omit_defaults=True):
    """An answer of the broker. A later field has a default, because older brokers leave it out.

    It is also a mapping with the names of the wire, and equal to the dict of the same JSON:
    `result.message_id` is `result["message_id"]`, `group.total_lag` is `group["totalLag"]`.
    """

    @property
    def _tag(self) -> Any:
        """Return the tag that distinguishes the members of a union."""
        return self.__struct_config__.tag

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _names_of(type(self))[key])

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under a name of the wire, or the default."""
        return self[key] if key in self else default

    def keys(self) -> list[str]:
        """Return the names that the JSON has."""
        names = _names_of(type(self))
        if not self.__struct_config__.omit_defaults:
            return list(names)
        return [key for key, name in names.items() if getattr(self, name) is not None]

    def values(self) -> list[Any]:
        """Return the values, in the order of the keys."""
        return [self[key] for key in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Return pairs of names and values."""
        return [(key, self[key]) for key in self.keys()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]


@functools.cache
def _names_of(kind: type[Struct]) -> dict[str, str]:
    """Return the attribute of each name on the wire, the tag of a union first."""
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    tag_field = kind.__struct_config__.tag_field
    return names if tag_field is None else {tag_field: "_tag", **names}


Mapping.register(Answer)


class Pagination(Answer):
    """The part of a list that an answer has."""

    limit: int
    offset: int


class TimeRange(Answer, rename={"start": "from", "end": "to"}):
    """From a time up to another."""

    start: str
    end: str


class ErrorAnswer(Answer, omit_defaults=True):
    """The body of every error. `code` is stable, `error` is a sentence for people."""

    error: str
    code: str
    #: With 429: how many wait already, and the seconds of Retry-After.
    depth: int | None = None
    retry_after: int | None = None
    #: The `error_id` of the log line that has the details.
    error_id: str | None = None
