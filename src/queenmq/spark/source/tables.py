"""Finds the options of a read or write, wherever Spark keeps them.

`load("orders")` and `save("orders")` name the queue by a path. `CREATE TABLE t USING queen` is
harder: Spark asks a Python source for the columns of the new table, but passes its options to no
later read or write. It does pass the columns with their metadata. So the options of a table travel
in the metadata of one column, the mark.

A write may trust the mark only if Spark's own resolution of the INSERT has put it there. Rows that
come from another Queen table carry that table's mark, and Spark leaves it where names and types
fit already. The marked column is therefore a VARCHAR: resolution removes the sign of that type,
and nothing else does. A mark beside that sign was carried along, and is not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyspark.sql.types import StructField, StructType, VarcharType

from queenmq import settings
from queenmq.errors import InvalidRequest
from queenmq.spark.sink.options import COLUMNS, NAME_LENGTH_MAX, parse_sink_options
from queenmq.spark.source.options import NAMES, parse_names, read_options
from queenmq.spark.source.schema import spark_schema

#: The column with the mark, and the keys of its metadata: ours, and Spark's sign of a VARCHAR.
_MARKED = "partition"
_MARK = "queen.options"
_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
#: Only a table that is being created has it.
_PROVIDER = "provider"
_OPTION = "option."
#: Read options that mean the same to a write.
_SHARED = ("url", "queue", "retryseconds", "encryptionkeys")
_READ = frozenset(name.lower() for name in NAMES)


def is_definition(options: Mapping[str, str]) -> bool:
    """Return whether Spark asks on behalf of CREATE TABLE."""
    return _PROVIDER in _lower(options)


def define_table(options: Mapping[str, str]) -> StructType:
    """Return the columns of a new table, which remember its options.

    Every column may be NULL, so that an INSERT may leave out what the database fills in.
    """
    properties = _lower(options)
    if "location" in properties:
        raise InvalidRequest(
            "a queue has no LOCATION; leave it out and name the queue by OPTIONS (queue 'name')"
        )
    given = {
        name.removeprefix(_OPTION): value
        for name, value in properties.items()
        if name.startswith(_OPTION)
    }
    _check_secrets(given)
    readable = {name: value for name, value in given.items() if name in _READ}
    columns = spark_schema(read_options(with_database(locate(readable))))
    written = {name: value for name, value in given.items() if _is_written(name)}
    whole = with_database(written | {"queue": "any"})
    parse_sink_options(whole, dict.fromkeys(COLUMNS, "string"), is_stream=False)
    return StructType([_column(field, given) for field in columns])


def merge_read_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a read: those given with it, and those of its table."""
    mark = _mark(schema)
    stored = {} if mark is None else {n: v for n, v in mark.items() if n in _READ}
    if mark is None and not options and all(field.nullable for field in schema):
        raise InvalidRequest(
            "this table has no options: Spark keeps none for a table with columns, or one made by"
            " AS SELECT or saveAsTable; drop it, and make it with"
            " CREATE TABLE name USING queen OPTIONS (queue 'name')"
        )
    return with_database(stored | locate(options))


def merge_write_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a write: those given with it, and those of its table."""
    mark = _mark(schema)
    given = locate(options)
    if mark is not None and not _is_carried(schema):
        return with_database(_one_queue({n: v for n, v in mark.items() if _is_written(n)} | given))
    if given:
        return with_database(_one_queue(given))
    if mark is not None:
        raise InvalidRequest(
            "Spark does not say which table these rows go to, because they come from a queue with"
            " all their columns; name the columns on both sides, as in"
            " INSERT INTO orders (partition, payload) SELECT partition, payload FROM ..."
        )
    raise InvalidRequest(
        "Spark handed over no options to write by: make a table first with"
        " CREATE TABLE name USING queen OPTIONS (queue 'name') and use INSERT INTO, or use"
        ' write.format("queen") or writeStream.format("queen") with option queue'
    )


def is_table(schema: StructType) -> bool:
    """Return whether rows go to a table. There a NULL partition means the default."""
    return _mark(schema) is not None and not _is_carried(schema)


def locate(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options in lower case, with the path of a load or save as the queue."""
    given = _lower(options)
    found = [given.pop(name) for name in ("path", "paths") if name in given]
    if not found:
        return given
    if "queue" in given:
        raise InvalidRequest(
            f"the path {found[0]!r} and the option queue both name queues; give one of them"
        )
    return given | {"queue": found[0]}


def with_database(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with the database of the settings where they name none."""
    if "url" in options:
        return dict(options)
    url = settings.load().database_url
    return dict(options) if url is None else {**options, "url": url}


def _column(field: StructField, given: Mapping[str, str]) -> StructField:
    if field.name != _MARKED:
        return StructField(field.name, field.dataType, True)
    return StructField(_MARKED, VarcharType(NAME_LENGTH_MAX), True, {_MARK: json.dumps(given)})


def _mark(schema: StructType) -> dict[str, str] | None:
    text = _metadata(schema).get(_MARK)
    if not isinstance(text, str):
        return None
    stored: dict[str, str] = json.loads(text)
    return stored


def _is_carried(schema: StructType) -> bool:
    return _VARCHAR in _metadata(schema)


def _metadata(schema: StructType) -> dict[str, Any]:
    found = [field.metadata or {} for field in schema if field.name == _MARKED]
    return found[0] if found else {}


def _is_written(name: str) -> bool:
    return name in _SHARED or name not in _READ


def _one_queue(options: dict[str, str]) -> dict[str, str]:
    """Refuse a list of queues: a write would make a queue of that name."""
    text = options.get("queue", "")
    if "," in text or text.lstrip().startswith("["):
        names = parse_names(text, "queue")
        if len(names) > 1 or "," in names[0]:
            raise InvalidRequest(
                f"a write goes to one queue, and {text!r} is a list; give one name, or leave the"
                " option out and add a column queue"
            )
        return {**options, "queue": names[0]}
    return options


def _check_secrets(given: Mapping[str, str]) -> None:
    parts = urlsplit(given.get("url", ""))
    if parts.password is not None or "password" in parse_qs(parts.query):
        raise InvalidRequest(
            "the url of a table cannot hold a password, because every frame read from the table"
            " carries it along; keep the password in ~/.pgpass, or leave url out and set"
            " QUEEN_DATABASE_URL for the driver"
        )


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}
