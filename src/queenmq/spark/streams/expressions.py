"""Checks what a definition says in the words of Spark SQL before anything is started."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from queenmq.errors import InvalidRequest
from queenmq.spark.runtime.failures import first_sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: A batch must give the same rows when it is repeated, or read again to find late messages.
_CLOCKS = re.compile(r"\b(now|current_timestamp|current_date|localtimestamp|curdate)\b", re.I)
_FIELD = re.compile(r"(\$\S*)\s+(.+)", re.DOTALL)
_EVENT_TIMES = ("timestamp", "date")


@dataclass(frozen=True)
class Field:
    """A part of the payload with its type."""

    name: str
    path: str
    type: str


def parse_field(name: str, text: str) -> Field:
    """Parse `double`, or `$.order.total double`."""
    found = _FIELD.fullmatch(text.strip())
    return Field(name, found[1], found[2]) if found else Field(name, f"$.{name}", text.strip())


class Expressions:
    """Checks expressions of one file against the columns of a frame."""

    def __init__(self, file: str, frame: DataFrame, *, is_checked: bool = False) -> None:
        self._file = file
        self._frame = frame
        #: They were checked before, and each check costs Spark some milliseconds.
        self._is_checked = is_checked

    def field(self, field: Field, key: str) -> None:
        """Check the path and the type of a field."""
        text = f"{field.path} {field.type}"
        self._try(
            key,
            text,
            lambda: self._frame.select(
                F.try_variant_get(F.try_parse_json(F.col("payload")), field.path, field.type)
            ),
        )

    def column(self, key: str, text: str) -> Column:
        """Return an expression of one row."""
        self._try(key, text, lambda: self._frame.select(_expression(text)))
        return _expression(text)

    def condition(self, key: str, text: str) -> Column:
        """Return an expression that is true or false."""
        self._check_type(key, text, ("boolean",), "true or false")
        return _expression(text)

    def time(self, key: str, text: str) -> Column:
        """Return an expression that is a time."""
        self._check_type(key, text, _EVENT_TIMES, "a timestamp")
        return _expression(text).cast("timestamp")

    def aggregate(self, key: str, text: str) -> Column:
        """Return an expression over the rows of a window."""
        self._try(key, text, lambda: self._frame.groupBy("partition").agg(_expression(text)))
        return _expression(text)

    def _check_type(self, key: str, text: str, types: tuple[str, ...], what: str) -> None:
        found = self._try(key, text, lambda: self._frame.select(_expression(text).alias("it")))
        if found is None:
            return
        kind = found.schema["it"].dataType.simpleString()
        if kind not in types:
            raise InvalidRequest(
                f"{self._file}: {key} is {text!r}, of type {kind}; it has to be {what}"
            )

    def _try(self, key: str, text: str, build: Callable[[], DataFrame]) -> DataFrame | None:
        if self._is_checked:
            return None
        clock = _CLOCKS.search(text)
        if clock:
            raise InvalidRequest(
                f"{self._file}: {key} is {text!r}, and {clock[0]} differs from run to run;"
                " use created_at"
            )
        try:
            found = build()
            is_fixed = found._jdf.queryExecution().analyzed().deterministic()
        except PySparkException as error:
            raise InvalidRequest(
                f"{self._file}: {key} is {text!r}: {first_sentence(error)}; the columns are"
                f" {', '.join(name for name in self._frame.columns if name[0] != '_')}"
            ) from error
        if not is_fixed:
            raise InvalidRequest(
                f"{self._file}: {key} is {text!r}, which comes out differently each time;"
                " leave such functions out"
            )
        return found


def _expression(text: str) -> Column:
    return F.expr(text)
