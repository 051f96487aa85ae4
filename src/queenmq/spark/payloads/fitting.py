"""Converts JSON texts to the fields of a schema, exactly or not at all. Pure.

A value is taken only if nothing of it is lost: no text becomes a number, no number is rounded to
fit, none overflows. The first value that does not fit sets the whole payload aside, with the path
of the value and the reason. NULL is what JSON says: a field that is null or absent, where the
schema does not say NOT NULL. Fields that the schema does not name are passed over, so that
producers may add some.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any, NoReturn

import msgspec
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
#: Values below this fit 32 bits, because they round to the largest value or less.
_FLOAT_MAX = 3.4028235677973366e38
_SHOWN = 40
#: More digits than any DECIMAL has.
_WIDE = Context(prec=80)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_decoder = msgspec.json.Decoder(float_hook=Decimal)

#: Takes a value and its path.
Check = Callable[[Any, str], Any]


class Misfit(Exception):
    """A value that does not fit, with its path and the reason."""


def make_fitter(schema: StructType) -> Callable[[str], tuple[dict[str, Any] | None, str | None]]:
    """Return a function from a JSON text to its fields, or to None and why it does not fit."""
    check = _struct(schema)

    def fit(text: str) -> tuple[dict[str, Any] | None, str | None]:
        try:
            return check(_decoder.decode(text), "payload"), None
        except Misfit as misfit:
            return None, str(misfit)
        except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError) as error:
            return None, f"payload cannot be read: {error}"

    return fit


def _check_of(kind: DataType) -> Check:
    if type(kind) in _BITS:
        return _integer(_BITS[type(kind)])
    if isinstance(kind, DecimalType):
        return _decimal(kind.precision, kind.scale)
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        return _array(_check_of(kind.elementType))
    if isinstance(kind, MapType):
        return _map(_check_of(kind.valueType))
    return _PLAIN[type(kind)]


def _struct(kind: StructType) -> Check:
    fields = [(field.name, _check_of(field.dataType), field.nullable) for field in kind]

    def check(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _refuse(value, path, "an object")
        found: dict[str, Any] = {}
        for name, inner, is_nullable in fields:
            item = value.get(name)
            if item is None:
                if not is_nullable:
                    raise Misfit(f"{path}.{name} is {'null' if name in value else 'missing'}")
                found[name] = None
            else:
                found[name] = inner(item, f"{path}.{name}")
        return found

    return check


def _array(inner: Check) -> Check:
    def check(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            _refuse(value, path, "an array")
        return [
            None if item is None else inner(item, f"{path}[{place}]")
            for place, item in enumerate(value)
        ]

    return check


def _map(inner: Check) -> Check:
    def check(value: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            _refuse(value, path, "an object")
        return [
            (_text(key, path), None if item is None else inner(item, f"{path}.{key}"))
            for key, item in value.items()
        ]

    return check


def _integer(bits: int) -> Check:
    high = 2 ** (bits - 1)

    def check(value: Any, path: str) -> int:
        number = _number(value, path, "an integer")
        # Before it is written out: 1e999999999 is a short text.
        if number.adjusted() > 20 or not -high <= number < high:
            raise Misfit(f"{path} is {_show(value)}, which is out of the range of {bits} bits")
        if number != number.to_integral_value():
            _refuse(value, path, "an integer")
        return int(number)

    return check


def _decimal(precision: int, scale: int) -> Check:
    tick = Decimal(1).scaleb(-scale)

    def check(value: Any, path: str) -> Decimal:
        number = _number(value, path, "a number")
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        while digits and digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        if digits and (len(digits) + exponent > precision - scale or -exponent > scale):
            raise Misfit(
                f"{path} is {_show(value)}, which does not fit DECIMAL({precision},{scale})"
            )
        # Exact, as was just seen; Arrow wants to see the zeros.
        return Decimal(0) if not digits else number.quantize(tick, context=_WIDE)

    return check


def _number(value: Any, path: str, what: str) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    _refuse(value, path, what)


def _double(value: Any, path: str) -> float:
    number = float(_number(value, path, "a number"))
    if not math.isfinite(number):
        raise Misfit(f"{path} is {_show(value)}, which is out of the range of DOUBLE")
    return number


def _float(value: Any, path: str) -> float:
    number = float(_number(value, path, "a number"))
    if abs(number) >= _FLOAT_MAX:
        raise Misfit(f"{path} is {_show(value)}, which is out of the range of FLOAT")
    return number


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        _refuse(value, path, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit(f"{path} is not valid Unicode text") from None
    return value


def _boolean(value: Any, path: str) -> bool:
    return value if isinstance(value, bool) else _refuse(value, path, "true or false")


def _date(value: Any, path: str) -> date:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        _refuse(value, path, "a date like 2030-01-31")
    try:
        return date.fromisoformat(value)
    except ValueError:
        _refuse(value, path, "a date like 2030-01-31")


def _instant(value: Any, path: str) -> datetime:
    time = _parse_time(value)
    if time is None or time.tzinfo is None:
        _refuse(value, path, "a time with its zone, like 2030-01-31T12:00:00Z")
    return time


def _local_time(value: Any, path: str) -> datetime:
    time = _parse_time(value)
    if time is None or time.tzinfo is not None:
        _refuse(value, path, "a time without a zone, like 2030-01-31T12:00:00")
    return time


def _parse_time(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _refuse(value: Any, path: str, wanted: str) -> NoReturn:
    raise Misfit(f"{path} is {_show(value)}, not {wanted}")


def _show(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = str(value) if isinstance(value, Decimal) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_PLAIN: dict[type[DataType], Check] = {
    DoubleType: _double,
    FloatType: _float,
    StringType: _text,
    BooleanType: _boolean,
    DateType: _date,
    TimestampType: _instant,
    TimestampNTZType: _local_time,
}
