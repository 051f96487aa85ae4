"""Settings of a broker, for administrators."""

from __future__ import annotations

from queenmq.wire.shape import Answer


class Setting(Answer):
    """One setting. A secret has no value. A URL lacks its password and query."""

    name: str
    value: str | int | float | bool | None
    is_hidden: bool
    origin: str
    description: str


class SettingList(Answer):
    """Every setting of the broker that answers."""

    settings: list[Setting]
