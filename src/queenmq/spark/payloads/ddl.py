"""Parses a Spark schema like `order_id BIGINT NOT NULL, total DECIMAL(10,2)`. Pure.

Spark's own parser is in Java, and the process that plans a read of a Python source has none.
"""

from __future__ import annotations

import re
from typing import NoReturn

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from queenmq.errors import InvalidRequest
from queenmq.spark.payloads.tokens import Tokens

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[(),<>:])")
_TYPES: dict[str, DataType] = {
    "TINYINT": ByteType(),
    "BYTE": ByteType(),
    "SMALLINT": ShortType(),
    "SHORT": ShortType(),
    "INT": IntegerType(),
    "INTEGER": IntegerType(),
    "BIGINT": LongType(),
    "LONG": LongType(),
    "FLOAT": FloatType(),
    "REAL": FloatType(),
    "DOUBLE": DoubleType(),
    "STRING": StringType(),
    "BOOLEAN": BooleanType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMP_LTZ": TimestampType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_PRECISION_MAX = 38
#: Deeper nesting counts as a mistake.
_DEPTH_MAX = 20


def parse_ddl(text: str, option: str) -> StructType:
    """Return the fields of a schema; raise InvalidRequest if it cannot be read."""
    return _Parser(text, option).parse()


class _Parser:
    def __init__(self, text: str, option: str) -> None:
        self._text, self._option = text, option
        self._tokens = Tokens(text, _TOKEN, self._refuse)

    def parse(self) -> StructType:
        fields = self._fields(depth=0, end=None)
        if left := self._tokens.peek():
            self._refuse(f"{left!r} stands where a comma is expected")
        return StructType(fields)

    def _fields(self, depth: int, end: str | None) -> list[StructField]:
        fields = [self._field(depth)]
        while self._tokens.peek() == ",":
            self._tokens.take()
            fields.append(self._field(depth))
        if end is not None:
            self._tokens.expect(end)
        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            self._refuse(f"the field {twice[0]!r} appears twice")
        return fields

    def _field(self, depth: int) -> StructField:
        token = self._tokens.take()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if not re.match(r"[`A-Za-z_]", token):
            self._refuse(f"{token!r} stands where a field name is expected")
        if self._tokens.peek() == ":":
            self._tokens.take()
        kind = self._type(depth)
        is_needed = self._tokens.peek().upper() == "NOT"
        if is_needed:
            self._tokens.take()
            self._tokens.expect("NULL")
        return StructField(name, kind, not is_needed)

    def _type(self, depth: int) -> DataType:
        if depth > _DEPTH_MAX:
            self._refuse(f"types are nested more than {_DEPTH_MAX} deep")
        name = self._tokens.take().upper()
        if name in _DECIMALS:
            return self._decimal()
        if name == "ARRAY":
            self._tokens.expect("<")
            kind: DataType = ArrayType(self._type(depth + 1))
            self._tokens.expect(">")
            return kind
        if name == "STRUCT":
            self._tokens.expect("<")
            return StructType(self._fields(depth + 1, end=">"))
        if name == "MAP":
            self._tokens.expect("<")
            if self._tokens.take().upper() != "STRING":
                self._refuse("the keys of a MAP are STRING in JSON")
            self._tokens.expect(",")
            kind = MapType(StringType(), self._type(depth + 1))
            self._tokens.expect(">")
            return kind
        if name not in _TYPES:
            known = ", ".join([*_TYPES, "DECIMAL(p,s)", "ARRAY<>", "MAP<STRING,>", "STRUCT<>"])
            self._refuse(f"{name!r} is none of the types {known}")
        return _TYPES[name]

    def _decimal(self) -> DecimalType:
        if self._tokens.peek() != "(":
            return DecimalType(10, 0)
        self._tokens.take()
        precision, scale = self._number(), 0
        if self._tokens.peek() == ",":
            self._tokens.take()
            scale = self._number()
        self._tokens.expect(")")
        if not (1 <= precision <= _PRECISION_MAX and scale <= precision):
            self._refuse(f"DECIMAL({precision},{scale}) must have 1 to 38 digits")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        token = self._tokens.take()
        if not token.isdigit():
            self._refuse(f"{token!r} stands where a number is expected")
        return int(token[:4])

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidRequest(
            f"{self._option} {self._text!r} cannot be used: {reason}. Write it like"
            " order_id BIGINT NOT NULL, total DECIMAL(10,2), tags ARRAY<STRING>"
        )
