"""Variables of the original server that stand for settings of ours. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote


class Named(NamedTuple):
    """A setting that a variable of the original gives."""

    variable: str
    setting: str
    value: str


def _to_seconds(text: str) -> str:
    """Return milliseconds as whole seconds, at least one. Other text is returned unchanged."""
    return str(max(1, int(text) // 1000)) if text.isdecimal() else text


def _as_it_is(text: str) -> str:
    return text


#: Variable, setting, and how the value is converted.
_NAMES: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("PORT", "port", _as_it_is),
    ("NUM_WORKERS", "workers", _as_it_is),
    ("DB_POOL_SIZE", "db_pool_size", _as_it_is),
    ("DEFAULT_BATCH_SIZE", "default_batch_size", _as_it_is),
    ("DEFAULT_TIMEOUT", "default_timeout_ms", _as_it_is),
    ("DEFAULT_SUBSCRIPTION_MODE", "default_subscription_mode", _as_it_is),
    ("RETENTION_INTERVAL", "retention_interval_s", _to_seconds),
)


def find_original(environ: Mapping[str, str]) -> list[Named]:
    """Return the settings that are given by names of the original."""
    found = [
        Named(variable, setting, convert(environ[variable]))
        for variable, setting, convert in _NAMES
        if environ.get(variable)
    ]
    if environ.get("PG_HOST"):
        found.append(Named("PG_HOST", "database_url", _database_url(environ)))
    return found


def _database_url(environ: Mapping[str, str]) -> str:
    """Return the URL of PG_HOST, PG_PORT, PG_USER, PG_PASSWORD, PG_DB and PG_USE_SSL."""
    user = quote(environ.get("PG_USER") or "postgres", safe="")
    password = environ.get("PG_PASSWORD")
    secret = f":{quote(password, safe='')}" if password else ""
    place = f"{environ['PG_HOST']}:{environ.get('PG_PORT') or '5432'}"
    database = quote(environ.get("PG_DB") or "postgres", safe="")
    is_secure = environ.get("PG_USE_SSL") in ("true", "1")
    return f"postgresql://{user}{secret}@{place}/{database}" + ("?sslmode=require" * is_secure)
