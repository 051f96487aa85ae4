"""Owns options of queues as people write them: `leaseTime=60`, or a table in TOML. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from queenmq import wire
from queenmq.cli.exits import UsageProblem
from queenmq.settings import describe

FIELDS = {field.encode_name: field for field in msgspec.structs.fields(wire.QueueOptions)}
#: Beside the options.
PLACES = ("namespace", "task")


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """Return options by their wire names from words such as `leaseTime=60`."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise UsageProblem(f"{pair!r} is not an option; use NAME=VALUE, such as leaseTime=60")
        found[wire_name_of(name)] = check_option(name, text, is_text=True)
    return found


def wire_name_of(name: str) -> str:
    """Return the wire name of an option: lease_time, lease-time and leaseTime are the same."""
    from queenmq.client.calls import option_name

    try:
        return option_name(name)
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def check_option(name: str, value: Any, *, is_text: bool = False) -> Any:
    """Return the value, if the option takes it; text of a command line may stand for a number."""
    try:
        return msgspec.convert(value, FIELDS[wire_name_of(name)].type, strict=not is_text)
    except msgspec.ValidationError:
        wanted = describe(FIELDS[wire_name_of(name)].type)
        raise UsageProblem(f"option {name} cannot be {value!r}; use {wanted}") from None


def with_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options: those given, and of the others the defaults of a queue that the client
    makes.
    """
    from queenmq.client.calls import QUEUE_DEFAULTS

    defaults = {name: field.default for name, field in FIELDS.items()} | QUEUE_DEFAULTS
    return {**defaults, **options}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the options that differ, each with its old and new value."""
    names = [*PLACES, *FIELDS]
    return {
        name: (before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    }


def shown(value: Any) -> str:
    """Return an option's value as a file of queues and JSON have it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
