"""Building a session: what is said when something that it needs is missing."""

from __future__ import annotations

import importlib

import pytest

from queenmq.errors import SettingsError
from queenmq.spark import session

pytest.importorskip("pyspark", reason="needs the spark extra")


def test_a_missing_part_of_spark_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("queenmq.spark.runtime.session")
    monkeypatch.setattr(module, "_CONNECT", ("json", "not_there"))
    with pytest.raises(SettingsError, match=r"needs not_there.*install queenmq\[spark-connect\]"):
        session(remote="sc://localhost")
