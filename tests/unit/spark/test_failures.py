"""A failure of Spark becomes the right kind of error, with its exit code."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException

from queenmq.cli.exits import code_of
from queenmq.errors import QueenError, StorageUnavailable
from queenmq.spark.runtime.failures import spark_failures

STACK = "Job aborted.\n{0}\n\tat org.apache.spark.Task"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PySparkException(STACK.format("queenmq.errors.InvalidRequest: the row is bad")), 2),
        (PySparkException(STACK.format("queenmq.errors.NotFound: no queue x")), 3),
        (PySparkException(STACK.format("queenmq.errors.StorageUnavailable: it is away")), 4),
        (PySparkException(STACK.format("queenmq.errors.StorageRejected: no right")), 1),
        (PySparkException(STACK.format("queenmq.spark.source.offsets.DataLoss: 5 are gone")), 1),
        (AnalysisException("[UNRESOLVED_COLUMN] nope"), 2),
        (PySparkException("Lost executor 5"), 4),
        (OSError("No space left on device"), 4),
    ],
    ids=lambda value: str(value).split(":")[0].splitlines()[-1] if value else None,
)
def test_a_failure_has_the_exit_code_of_its_cause(error: Exception, code: int) -> None:
    with pytest.raises(QueenError) as told, spark_failures("it cannot go on"):
        raise error
    assert code_of(told.value) == code
    assert str(told.value).startswith("it cannot go on: ") and "\n" not in str(told.value)


def test_what_spark_misses_among_files_of_ours_is_not_the_fault_of_a_command() -> None:
    with (
        pytest.raises(StorageUnavailable, match=r"the lake cannot be read: .*not exist"),
        spark_failures("the lake cannot be read", is_asked_for=False),
    ):
        raise AnalysisException("[PATH_NOT_FOUND] Path does not exist: file:/lake/part-0.parquet")
