"""What can be known to be wrong before Spark, which takes half a minute, is started."""

from __future__ import annotations

import glob
import os.path
from collections.abc import Sequence
from typing import TYPE_CHECKING

from queenmq.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from queenmq.spark.source.options import Scope


def check_database(url: str) -> None:
    """Raise StorageUnavailable if nobody answers there."""
    from queenmq.spark.database.connection import Database

    with Database(url):
        pass


def check_queues(url: str, scope: Scope) -> None:
    """Raise NotFound for a queue that is named and does not exist."""
    from queenmq.spark.database.connection import Database
    from queenmq.spark.source.planning import look_up

    with Database(url) as database:
        look_up(database, scope)


def check_lake(location: str, queues: Sequence[str] = ()) -> None:
    """Raise NotFound if there is no lake, or none of these queues in it.

    A lake that is not a folder of this machine is left to Spark, which has the keys to it.
    """
    from queenmq.spark.lake.layout import Lake
    from queenmq.spark.lake.table import open_table

    lake = Lake.at(location)
    if not lake.is_local:
        return
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
        raise InvalidRequest(f"there is no file {text}; check the path")


def check_new_lake(location: str) -> None:
    """Raise InvalidRequest if a lake cannot be made there."""
    from queenmq.spark.lake.layout import Lake

    lake = Lake.at(location)
    if lake.is_local and os.path.exists(lake.location) and not os.path.isdir(lake.location):
        raise InvalidRequest(f"the lake {location} is a file; give a folder")
