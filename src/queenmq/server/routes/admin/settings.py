"""The settings of the broker that answers, and where each comes from."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.server.answers.responses import json_answer
from queenmq.server.routing.spec import route
from queenmq.settings import SECRETS, Origin, Settings

#: Values that are never sent. URLs are sent without their secrets.
_HIDDEN = SECRETS - {"database_url", "jwt_jwks_url"}
#: A field up to its comment, which may stand some lines below.
_FIELD = re.compile(r"^    (\w+): .*?#\s*(.+?)$", re.MULTILINE | re.DOTALL)


class SettingRoutes:
    """The settings of this process. Read only."""

    def __init__(self, settings: Settings, origins: Mapping[str, Origin]) -> None:
        self._settings = settings
        self._origins = origins

    @route("GET", "/api/v1/system/settings", wire.SettingList)
    async def show(self, request: Request) -> Response:
        """Every setting, in the order of the settings page."""
        about = _describe()
        rows = []
        for name in Settings.__struct_fields__:
            value, is_hidden = shown(name, getattr(self._settings, name))
            origin = self._origins.get(name, "default")
            rows.append(wire.Setting(name, value, is_hidden, origin, about.get(name, "")))
        return json_answer(wire.SettingList(rows))


def shown(name: str, value: Any) -> tuple[Any, bool]:
    """Return the visible part of a value, and whether anything is hidden."""
    if not isinstance(value, str):
        return value, False
    if name in _HIDDEN or "-----" in value:
        return None, True
    if name.endswith("_url") or "://" in value:
        return _without_secrets(value)
    return value, False


def _without_secrets(url: str) -> tuple[str | None, bool]:
    """A URL without its password and query, both of which may grant access."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None, True
    if not parts.scheme or not parts.netloc:
        return None, True
    user, has_user, hosts = parts.netloc.rpartition("@")
    text = f"{parts.scheme}://{user.partition(':')[0]}{has_user}{hosts}{parts.path}"
    return text, text != url


@functools.cache
def _describe() -> dict[str, str]:
    """The comment behind each field, which is also its line on the settings page."""
    return dict(_FIELD.findall(inspect.getsource(Settings)))
