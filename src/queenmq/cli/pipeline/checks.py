"""Checks that find mistakes before Spark is started, which takes half a minute."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from queenmq.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from queenmq.spark.source.options import Scope


def check_database(url: str) -> None:
    """Raise StorageUnavailable if the database does not answer."""
    from queenmq.spark.database.connection import Database

    with Database(url):
        pass


def check_queues(url: str, scope: Scope) -> None:
    """Raise NotFound for a queue that is named and does not exist."""
    from queenmq.spark.database.connection import Database
    from queenmq.spark.source.planning import read_queue_names

    with Database(url) as database:
        read_queue_names(database, scope)


def check_keys(url: str, queues: Iterable[str | None], key_file: str | None) -> None:
    """Raise InvalidRequest for an encrypted queue that is written to without keys.

    Raises SettingsError for a file of keys that cannot be used.
    """
    from queenmq.crypto.keys import read_keys
    from queenmq.spark.sink.sealing import key_missing
    from queenmq.spark.sink.store import open_store

    if key_file is not None:
        read_keys(None, key_file)
        return
    with open_store(url) as store:
        found = store.find_encrypted({queue for queue in queues if queue is not None})
    if found:
        raise key_missing(min(found))


def check_lake(location: str, queues: Sequence[str] = ()) -> None:
    """Raise NotFound if there is no lake, or none of these queues in it.

    Raises StorageUnavailable if an object store does not answer or refuses the credentials.
    """
    from queenmq.spark.lake.layout import Lake
    from queenmq.spark.lake.stores.reaching import check_store
    from queenmq.spark.lake.table import open_table

    lake = Lake.at(location)
    check_store(lake)
    found = {file.queue for file in open_table(lake).files()}
    missing = sorted(set(queues) - found)
    if missing:
        has = ", ".join(sorted(found)) or "none"
        raise NotFound(f"the lake {location} has no queue {', '.join(missing)}; it has {has}")


def check_inputs(inputs: Sequence[str]) -> None:
    """Raise InvalidRequest for a file or pattern of this machine that is not there."""
    for text in inputs:
        path = text.removeprefix("file://")
        if "://" in path or os.path.exists(path) or glob.glob(path):
            continue
        raise InvalidRequest(f"file {text} does not exist; check the path")


def check_new_lake(location: str) -> None:
    """Raise InvalidRequest if a lake cannot be made there.

    Raises StorageUnavailable if an object store does not answer or refuses the credentials.
    """
    from queenmq.spark.lake.layout import Lake
    from queenmq.spark.lake.stores.reaching import check_store

    lake = Lake.at(location)
    check_store(lake)
    if lake.is_local and os.path.exists(lake.location) and not os.path.isdir(lake.location):
        raise InvalidRequest(f"the lake {location} is a file; give a folder")
