"""Typed payloads: what fits, what is set aside and why; schemas that cannot be read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.payloads.columns import fit_payloads
from queenmq.spark.payloads.ddl import parse_ddl
from queenmq.spark.payloads.fitting import make_fitter


def fit(schema: str, text: str) -> tuple[Any, str | None]:
    return make_fitter(parse_ddl(schema, "payloadSchema"))(text)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "5.0", 5),
        ("INT", "1e3", 1000),
        ("DECIMAL(10,2)", "12.5", Decimal("12.50")),
        ("DECIMAL(10,2)", "12.5000", Decimal("12.50")),
        ("DECIMAL(10,2)", "-99999999.99", Decimal("-99999999.99")),
        ("DECIMAL(10,2)", "1e7", Decimal("10000000.00")),
        ("DECIMAL(10,2)", "0e-999999", Decimal(0)),
        ("DECIMAL(38,18)", "12345678901234567890.123456789012345678", None),
        ("DOUBLE", "1", 1.0),
        ("FLOAT", "0.5", 0.5),
        ("STRING", '"\\u0000ö"', "\x00ö"),
        ("BOOLEAN", "true", True),
        ("DATE", '"2030-01-31"', date(2030, 1, 31)),
        ("TIMESTAMP", '"2030-01-31T12:00:00Z"', datetime(2030, 1, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", '"2030-01-31T12:00:00"', datetime(2030, 1, 31, 12)),
        ("ARRAY<INT>", "[1, null]", [1, None]),
        ("MAP<STRING, INT>", '{"a": 1}', [("a", 1)]),
        ("STRUCT<b: INT>", '{"b": 2, "c": 3}', {"b": 2}),
        ("INT", "null", None),
    ],
)
def test_values_that_fit_lose_nothing(kind: str, text: str, wanted: Any) -> None:
    found, reason = fit(f"a {kind}", f'{{"a": {text}, "more": [1]}}')
    assert reason is None
    if wanted is None and text != "null":
        wanted = Decimal(text)
    assert found == {"a": wanted}
    rows = pa.table({"payload": [f'{{"a": {text}}}'], "is_encrypted": [False]})
    (row,) = fit_payloads(rows, parse_ddl(f"a {kind}", "payloadSchema")).to_pylist()
    assert row["misfit"] is None and row["payload"] == {"a": wanted}


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ("a INT", '{"a": "5"}', 'payload.a is "5", not an integer'),
        ("a INT", '{"a": true}', "payload.a is true, not an integer"),
        ("a INT", '{"a": 1.5}', "payload.a is 1.5, not an integer"),
        ("a INT", '{"a": 2147483648}', "out of the range of 32 bits"),
        ("a TINYINT", '{"a": -129}', "out of the range of 8 bits"),
        ("a BIGINT", '{"a": 1e999999999}', "out of the range of 64 bits"),
        ("a BIGINT", f'{{"a": {"9" * 5000}}}', "payload cannot be read"),
        ("a DECIMAL(4,2)", '{"a": 100}', "payload.a is 100, which does not fit DECIMAL(4,2)"),
        ("a DECIMAL(4,2)", '{"a": 1.005}', "which does not fit DECIMAL(4,2)"),
        ("a DECIMAL(4,2)", '{"a": "1.00"}', 'payload.a is "1.00", not a number'),
        ("a DECIMAL(4,2)", '{"a": 1e-999999999}', "which does not fit DECIMAL(4,2)"),
        ("a DOUBLE", '{"a": 1e400}', "out of the range of DOUBLE"),
        ("a FLOAT", '{"a": 3.5e38}', "out of the range of FLOAT"),
        ("a DOUBLE", '{"a": NaN}', "payload cannot be read"),
        ("a STRING", '{"a": 5}', "payload.a is 5, not a text"),
        ("a STRING", '{"a": {}}', "payload.a is an object, not a text"),
        ("a STRING", '{"a": "\\ud800"}', "payload cannot be read"),
        ("a BOOLEAN", '{"a": 1}', "not true or false"),
        ("a DATE", '{"a": "2030-02-31"}', "not a date"),
        ("a TIMESTAMP", '{"a": "2030-01-31T12:00:00"}', "not a time with its zone"),
        ("a TIMESTAMP", '{"a": 5}', "not a time with its zone"),
        ("a TIMESTAMP_NTZ", '{"a": "2030-01-31T12:00:00Z"}', "not a time without a zone"),
        ("a INT NOT NULL", "{}", "payload.a is missing"),
        ("a INT NOT NULL", '{"a": null}', "payload.a is null"),
        ("a ARRAY<INT>", '{"a": [1, "x"]}', 'payload.a[1] is "x", not an integer'),
        ("a STRUCT<b: INT NOT NULL>", '{"a": {}}', "payload.a.b is missing"),
        ("a MAP<STRING, INT>", '{"a": {"k": "v"}}', 'payload.a.k is "v"'),
        ("a INT", "[1]", "payload is an array, not an object"),
        ("a INT", "null", "payload is null, not an object"),
        ("a INT", "[" * 100_000, "payload cannot be read"),
    ],
)
def test_anything_else_is_set_aside_whole_with_its_reason(
    schema: str, text: str, reason: str
) -> None:
    found, told = fit(schema, text)
    assert found is None and told is not None and reason in told, told
    assert len(told) < 200
    rows = pa.table({"payload": [text], "is_encrypted": [False]})
    (row,) = fit_payloads(rows, parse_ddl(schema, "payloadSchema")).to_pylist()
    assert row["payload"] is None
    assert row["misfit"] == {"reason": told, "payload": text}


def test_an_encrypted_payload_is_set_aside() -> None:
    # Without its key it has no text.
    rows = pa.table({"payload": pa.array([None], pa.string()), "is_encrypted": [True]})
    (row,) = fit_payloads(rows, parse_ddl("a INT", "payloadSchema")).to_pylist()
    assert row["payload"] is None and row["misfit"]["reason"] == "payload is encrypted"


def test_a_schema_is_read_as_spark_reads_it() -> None:
    text = "`a b` bigint not null, c: array<struct<d: decimal(5,1), e map<string,date>>>"
    assert parse_ddl(text, "x").simpleString() == (
        "struct<a b:bigint,c:array<struct<d:decimal(5,1),e:map<string,date>>>>"
    )
    assert [field.nullable for field in parse_ddl(text, "x")] == [False, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "it ends too early"),
        ("a INT,", "it ends too early"),
        ("a INT b INT", "'b' stands where a comma is expected"),
        ("a BLOB", "'BLOB' is none of the types"),
        ("a VARIANT", "'VARIANT' is none of the types"),
        ("a DECIMAL(39,2)", "must have 1 to 38 digits"),
        ("a DECIMAL(2,3)", "must have 1 to 38 digits"),
        ("a MAP<INT, INT>", "the keys of a MAP are STRING"),
        ("a INT NOT", "it ends too early"),
        ("a INT, a STRING", "the field 'a' appears twice"),
        ("5 INT", "'5' stands where a field name is expected"),
        ("a INT; b", "'; b' cannot be read"),
        ("a " + "ARRAY<" * 30 + "INT" + ">" * 30, "nested more than"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse_ddl(text, "payloadSchema")
    assert reason in str(error.value) and "Write it like" in str(error.value)
