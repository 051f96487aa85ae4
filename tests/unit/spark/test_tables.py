"""The origin of the options of a read or write: tables, paths, the settings."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructField, StructType, VarcharType

from queenmq.errors import InvalidRequest
from queenmq.spark.source import tables
from queenmq.spark.source.data_source import QueenDataSource

URL = "postgresql://me@host/queen"
GIVEN = {"option.url": URL, "option.queue": "orders", "option.onerror": "deadletter"}
DEFINITION = {"provider": "queen", "owner": "me", "colour": "a property", **GIVEN}


@pytest.fixture(autouse=True)
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEEN_DATABASE_URL", raising=False)
    monkeypatch.delenv("QUEEN_CONFIG", raising=False)


def read_schema() -> StructType:
    """A table's columns as a read gets them: Spark has a sign for a VARCHAR."""
    fields = []
    for field in QueenDataSource(DEFINITION).schema():
        if isinstance(field.dataType, VarcharType):
            sign = {"__CHAR_VARCHAR_TYPE_STRING": field.dataType.simpleString()}
            field = StructField(field.name, StringType(), True, sign | (field.metadata or {}))
        fields.append(field)
    return StructType(fields)


def insert_schema() -> StructType:
    """The same as an INSERT gets them, once Spark has resolved it."""
    fields = []
    for field in read_schema():
        metadata = {n: v for n, v in (field.metadata or {}).items() if not n.startswith("__")}
        fields.append(StructField(field.name, field.dataType, True, metadata))
    return StructType(fields)


def test_a_table_remembers_its_options() -> None:
    assert all(field.nullable for field in read_schema())
    assert tables.merge_read_options({}, read_schema()) == {"url": URL, "queue": "orders"}
    assert tables.merge_read_options({"Queue": "bills"}, read_schema())["queue"] == "bills"
    wanted = {"url": URL, "queue": "orders", "onerror": "deadletter"}
    assert tables.merge_write_options({}, insert_schema()) == wanted
    assert tables.is_table(insert_schema())


def test_options_that_came_along_with_rows_are_not_trusted() -> None:
    assert not tables.is_table(read_schema())
    with pytest.raises(InvalidRequest, match="name the columns on both sides"):
        tables.merge_write_options({}, read_schema())
    own = {"url": URL, "queue": "copies"}
    assert tables.merge_write_options(own, read_schema()) == own


def test_the_settings_name_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables.with_database({"queue": "a"}) == {"queue": "a"}
    monkeypatch.setenv("QUEEN_DATABASE_URL", URL)
    assert tables.with_database({"queue": "a"}) == {"queue": "a", "url": URL}
    assert tables.with_database({"url": "postgresql://x/y"}) == {"url": "postgresql://x/y"}
    assert "payload" in QueenDataSource({"path": "orders"}).schema().names


def test_a_path_is_a_queue() -> None:
    assert tables.locate({"Path": "orders", "URL": URL}) == {"queue": "orders", "url": URL}
    assert tables.locate({"paths": '["a", "b"]'}) == {"queue": '["a", "b"]'}
    with pytest.raises(InvalidRequest, match="both name queues"):
        tables.locate({"path": "orders", "queue": "bills"})
    plain = StructType([StructField("payload", StringType())])
    assert tables.merge_write_options({"paths": '["a"]', "url": URL}, plain)["queue"] == "a"
    for several in ("a,b", '["a", "b"]', '["a,b"]'):
        with pytest.raises(InvalidRequest, match="is a list"):
            tables.merge_write_options({"path": several, "url": URL}, plain)


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@host/queen", "postgresql://host/queen?password=secret"]
)
def test_a_password_stays_out_of_a_table(url: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot hold a password") as error:
        QueenDataSource(DEFINITION | {"option.url": url}).schema()
    assert "secret" not in str(error.value)


def test_a_table_without_options_says_how_to_make_one() -> None:
    plain = StructType([StructField("payload", StringType())])
    with pytest.raises(InvalidRequest, match="this table has no options"):
        tables.merge_read_options({}, plain)
    with pytest.raises(InvalidRequest, match="make a table first"):
        tables.merge_write_options({}, plain)
