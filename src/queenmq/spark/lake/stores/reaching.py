"""Asks an object store whether it can be used, before a job starts Spark."""

from __future__ import annotations

from deltalake import DeltaTable

from queenmq.spark.lake.layout import Lake
from queenmq.spark.lake.stores.urls import find_store
from queenmq.spark.lake.table import delta_errors

#: A job that starts wants an answer now. Later delta-rs waits as long as it does by itself.
_IMPATIENT = {
    "connect_timeout": "5s",
    "timeout": "15s",
    "max_retries": "2",
    "retry_timeout": "20s",
}


def check_store(lake: Lake) -> None:
    """Raise StorageUnavailable if the store of a lake does not answer, or not to us."""
    if find_store(lake.location) is None:
        return
    with delta_errors(lake, "reached"):
        DeltaTable.is_deltatable(lake.messages, storage_options=_IMPATIENT)
