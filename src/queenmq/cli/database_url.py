"""Which database a command means."""

from __future__ import annotations

from pathlib import Path

from queenmq import settings
from queenmq.errors import SettingsError


def find_url(database_url: str | None, data_dir: str | None) -> str:
    """The database that the flags name, or else the one that the other settings name."""
    if database_url is not None and data_dir is not None:
        raise SettingsError("--database-url and --data-dir name two databases; give one of them")
    loaded = settings.load({"database_url": database_url, "data_dir": data_dir})
    if loaded.database_url is not None and data_dir is None:
        return loaded.database_url
    from queenmq.storage.embedded import read_url

    return read_url(Path(loaded.data_dir))
