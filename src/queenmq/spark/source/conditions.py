"""Parses the option `where`: conditions of a frame that the database applies. Pure.

Spark 4.3 can hand filters to a Python source, but keeps one plan for all scans of a frame, that of
the filters it handed over last. A frame that is used twice then silently misses rows, and a scan
without a filter is not announced at all, so no source can correct that. An option belongs to the
frame itself: all its scans have the same conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from queenmq.errors import InvalidRequest
from queenmq.spark.payloads.tokens import Tokens
from queenmq.spark.source.filters import COLUMNS, Pushed, push

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?[0-9]+)|(?P<word>[A-Za-z_]+)"
    r"|(?P<sign><=|>=|=|<|>|\(|\)|,))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], Filter]] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_EXAMPLE = "partition IN ('a', 'b') AND created_at >= '2030-01-31T12:00:00Z'"


def parse_where(text: str) -> Pushed:
    """Return the selection that the conditions make. Raise InvalidRequest for any other text."""
    return _Parser(text).parse()


class _Parser:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = Tokens(text, _TOKEN, self._refuse)

    def parse(self) -> Pushed:
        pushed = self._condition(Pushed())
        while self._tokens.peek():
            self._tokens.expect("AND")
            pushed = self._condition(pushed)
        return pushed

    def _condition(self, pushed: Pushed) -> Pushed:
        column = self._tokens.take().lower()
        if column not in COLUMNS:
            self._refuse(f"{column!r} is not one of the columns it accepts ({', '.join(COLUMNS)})")
        sign = self._tokens.take().upper()
        if sign == "BETWEEN":
            low = self._value(column)
            self._tokens.expect("AND")
            bounds = (GreaterThanOrEqual, low), (LessThanOrEqual, self._value(column))
            filters: list[Filter] = [make((column,), value) for make, value in bounds]
        elif sign == "IN":
            filters = [In((column,), self._list(column))]
        elif sign in _COMPARISONS:
            filters = [_COMPARISONS[sign]((column,), self._value(column))]
        else:
            self._refuse(f"{sign!r} is not an operator; use =, <, <=, >, >=, IN or BETWEEN")
        for filter in filters:
            narrowed = push(pushed, filter)
            if narrowed is None:
                self._refuse(f"{sign} does not take that value of {column}")
            pushed = narrowed
        return pushed

    def _list(self, column: str) -> tuple[Any, ...]:
        self._tokens.expect("(")
        values = [self._value(column)]
        while (sign := self._tokens.take()) == ",":
            values.append(self._value(column))
        if sign != ")":
            self._refuse(f"{sign!r} stands where ) is expected")
        return tuple(values)

    def _value(self, column: str) -> Any:
        token = self._tokens.take()
        if token.upper() == "TIMESTAMP":
            token = self._tokens.take()
        if token.startswith("'"):
            text = token[1:-1].replace("''", "'")
            return self._time(text) if column == "created_at" else text
        if re.fullmatch(r"-?[0-9]+", token):
            return int(token)
        self._refuse(f"{token!r} is not a value; put text and times in single quotes")

    def _time(self, text: str) -> datetime:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            self._refuse(f"{text!r} is not a time")
        if time.tzinfo is None:
            self._refuse(f"the time {text!r} has no zone; add Z or +02:00")
        return time

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidRequest(
            f"where {self._text!r} cannot be used: {reason}. Write conditions like {_EXAMPLE}, and"
            " leave all others to where(...) of the frame"
        )
