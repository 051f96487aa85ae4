"""Finds the names in a request to configure a queue that mean nothing."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from queenmq import wire

_Object = dict[str, msgspec.Raw]


def find_ignored(body: bytes) -> list[str]:
    """Return the names that a decoded `ConfigureRequest` has left out, such as `options.leasetime`.

    The body is parsed once more, because decoding drops them. Queues are configured rarely.
    """
    given = wire.decode(body, _Object)
    ignored = _others(given, wire.ConfigureRequest)
    options = msgspec.json.decode(given.get("options", b"null"), type=_Object | None)
    return ignored + [f"options.{name}" for name in _others(options or {}, wire.QueueOptions)]


def _others(names: Iterable[str], kind: type[msgspec.Struct]) -> list[str]:
    return [name for name in names if name not in kind.__struct_encode_fields__]
