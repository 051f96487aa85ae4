"""Log lines: one line each, the facts in it, readable by people or by machines."""

from __future__ import annotations

import json
import logging
import sys
from uuid import UUID

import pytest

from queenmq.log import JsonFormatter, TextFormatter, configure


def make_record(
    message: str = "hello %s", *arguments: object, **facts: object
) -> logging.LogRecord:
    logger = logging.Logger("queenmq.engine")
    return logger.makeRecord(
        logger.name, logging.WARNING, "engine.py", 1, message, arguments, None, extra=facts
    )


def make_error_record() -> logging.LogRecord:
    record = make_record("it broke")
    try:
        raise ValueError("the reason")
    except ValueError:
        record.exc_info = sys.exc_info()
    return record


class TestJson:
    def format(self, record: logging.LogRecord) -> dict[str, object]:
        line = JsonFormatter().format(record)
        assert "\n" not in line
        found: dict[str, object] = json.loads(line)
        return found

    def test_a_line_tells_time_level_logger_and_message(self) -> None:
        record = make_record("hello %s", "world")
        record.created = 0.5
        assert self.format(record) == {
            "time": "1970-01-01T00:00:00.500+00:00",
            "level": "warning",
            "logger": "queenmq.engine",
            "message": "hello world",
        }

    def test_facts_are_fields(self) -> None:
        line = self.format(make_record("text", event="migrated", applied=28))
        assert (line["event"], line["applied"]) == ("migrated", 28)

    def test_a_fact_of_any_type_is_written(self) -> None:
        line = self.format(make_record("text", id=UUID(int=1), many={1}))
        assert line["id"] == str(UUID(int=1))
        assert line["many"] == "{1}"

    def test_an_exception_is_a_field(self) -> None:
        text = self.format(make_error_record())["exception"]
        assert isinstance(text, str)
        assert text.endswith("ValueError: the reason")

    def test_line_breaks_stay_inside_the_line(self) -> None:
        assert self.format(make_record("a\nb", path="c\nd"))["message"] == "a\nb"


class TestText:
    def test_a_line_tells_time_level_message_and_facts(self) -> None:
        record = make_record("hello %s", "world", event="greeted", count=2)
        record.created = 0.5
        assert TextFormatter().format(record) == (
            "1970-01-01T00:00:00.500+00:00 WARNING hello world event=greeted count=2"
        )

    def test_an_exception_follows_on_its_own_lines(self) -> None:
        first, *rest = TextFormatter().format(make_error_record()).splitlines()
        assert first.endswith("it broke")
        assert rest[-1] == "ValueError: the reason"

    @pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
    def test_what_a_caller_sent_cannot_start_a_line_of_its_own(self, breaks: str) -> None:
        forged = f"/x{breaks}1970-01-01T00:00:00.000+00:00 ERROR   all is lost"
        record = make_record("request for %s failed", forged, path=forged)
        assert len(TextFormatter().format(record).splitlines()) == 1


@pytest.fixture
def root_logger() -> object:
    """The root logger, put back as it was."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    yield root
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.mark.parametrize(
    ("log_format", "formatter"), [("json", JsonFormatter), ("text", TextFormatter)]
)
def test_configure_sends_everything_to_standard_error(
    root_logger: logging.Logger, log_format: str, formatter: type[logging.Formatter]
) -> None:
    configure(level="error", log_format=log_format)  # type: ignore[arg-type]
    (handler,) = root_logger.handlers
    assert isinstance(handler, logging.StreamHandler)
    assert isinstance(handler.formatter, formatter)
    assert root_logger.level == logging.ERROR
