"""Settings of a broker, for administrators."""

from __future__ import annotations

from queenmq.wire.shape import Answer


class Setting(Answer):
    """One setting. A secret has no value; of a URL the password and the query are left out."""

    name: str
    value: str | int | float | bool | None
    is_hidden: bool
    origin: str
    description: str


class SettingList(Answer):
    """Every setting of the broker that answers."""

    settings: list[Setting]
