"""Says in the summary of a run that the tests of Spark were left out, and why."""

from __future__ import annotations

import importlib.util

import pytest


def test_spark_is_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("the other tests of Spark need pyspark: install queenmq[spark]")
