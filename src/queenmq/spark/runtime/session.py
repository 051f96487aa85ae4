"""A Spark session in which Queen's data source works as it should."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from queenmq.errors import SettingsError
from queenmq.spark.runtime.java import prepare_environment, stay_on_loopback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What our source needs anywhere.
NEEDED = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
#: What a client of Spark Connect imports beyond Spark itself.
_CONNECT = ("grpc", "grpc_status", "zstandard")
#: For commands: Spark's own bars and warnings would run through theirs.
CALM = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
#: Compile less: the start takes half the time, but later work is slower.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    app_name: str = "queen",
    *,
    master: str = "local[*]",
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    quick: bool = False,
) -> SparkSession:
    """Return a session, on this machine or any cluster; `remote` is the URL of a Spark Connect
    server, or `local[2]` for one that is started here.

    `config` is added to our settings and wins over them. `quick` is for tests and very short jobs.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SettingsError("Spark is not installed; install queenmq[spark]") from None
    settings = dict(NEEDED)
    builder = SparkSession.builder.appName(app_name)
    if remote is not None:
        _check_connect()
        if remote.startswith("local"):
            prepare_environment()
        builder = builder.remote(remote)
    else:
        prepare_environment()
        builder = builder.master(master)
        settings["spark.ui.enabled"] = "false"
        if quick:
            settings["spark.driver.extraJavaOptions"] = _QUICK
    if remote is None and master.startswith("local"):
        stay_on_loopback()
        settings |= {
            # The default of 200 is for clusters.
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    for name, value in (settings | dict(config or {})).items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def _check_connect() -> None:
    missing = [name for name in _CONNECT if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"Spark Connect needs {', '.join(missing)}, which is not installed; install"
            " queenmq[spark-connect]"
        )


def is_running() -> bool:
    """Return whether this process already has a session, which `session` would return."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return False
    return SparkSession.getActiveSession() is not None


def register(spark: SparkSession) -> None:
    """Make `format("queen")` known to a session that was built elsewhere."""
    from queenmq.spark.source.data_source import QueenDataSource

    spark.dataSource.register(QueenDataSource)
