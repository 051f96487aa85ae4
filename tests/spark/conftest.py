"""One Spark session for all tests, and what puts messages into a queue."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.feed import Feed
from tests.support.s3_server import S3Port

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("spark")


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Close what Spark leaves to the collector, so that no later test is blamed for it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def s3_port() -> Iterator[S3Port]:
    """A port for an S3 server, which the session and its workers know from the beginning."""
    port = S3Port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in port.environ.items():
            patch.setenv(name, value)
        yield port
    port.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, s3_port: S3Port) -> Iterator[SparkSession]:
    """A session of two threads that lasts for the whole run."""
    import queenmq.spark

    home = tmp_path_factory.mktemp("spark")
    session = queenmq.spark.session(
        "tests",
        master="local[2]",
        quick=True,
        config={
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            # Every query is new and has few rows: compiling it takes longer than running it. Single
            # expressions are compiled all the same: Spark 4.3 cannot interpret every cast of files.
            "spark.sql.codegen.wholeStage": "false",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def feed(database_url: str) -> Iterator[Feed]:
    """Puts messages into queues of the test's own database."""
    with Feed(database_url) as opened:
        yield opened


@pytest.fixture
def read(spark: SparkSession, database_url: str) -> Callable[..., DataFrame]:
    """A batch read of the test's own database."""

    def load(**options: Any) -> DataFrame:
        return spark.read.format("queen").options(**{"url": database_url, **options}).load()

    return load
