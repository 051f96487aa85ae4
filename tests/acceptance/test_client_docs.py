"""The programs on the client's page run, and its tables are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

import queenmq
from queenmq import ClientError
from queenmq.client import errors as client_errors
from queenmq.client.consume.consumption import ConsumeKeywords, ConsumeOptions
from queenmq.client.options import DEFAULTS, Options
from tests.support.broker import SOON_S, BrokerProcess
from tests.tidy.repo import ROOT

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
PRINTED = [
    ["customer-42 5", "customer-42 7"],
    [],
    ["6"],
    ["a 1", "a 2", "a 3"],
    ["one", "two"],
    [],
    [],
    [],
    ["partition 'Default' has 1 message", "dead_letter", "1"],
    ["queued client-types client-types", "client-types 1 1"],
    ["1", "2", "3", "4"],
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page_runs(number: int, broker: BrokerProcess, tmp_path: Path) -> None:
    assert len(PROGRAMS) == len(PRINTED)
    assert "http://localhost:6632" in PROGRAMS[number]
    file = tmp_path / "program.py"
    file.write_text(PROGRAMS[number].replace("http://localhost:6632", broker.url))
    run = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, timeout=SOON_S
    )
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert len(lines) == len(PRINTED[number])
    assert all(a.startswith(b) for a, b in zip(lines, PRINTED[number], strict=True))


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_option_is_there_with_its_default() -> None:
    written = {
        name: cells[1] for cells in _rows(_section("Options")) for name in _code(cells[0])
    }  # fmt: skip
    assert written.keys() == Options.__annotations__.keys()
    for name, value in DEFAULTS.items():
        shown = "none" if value is None or value == {} else msgspec.json.encode(value).decode()
        assert written[name] == shown, name


def test_every_keyword_of_consume_is_there() -> None:
    written = {name for cells in _rows(_section("Consume")) for name in _code(cells[0])}
    places = {"partition", "namespace", "task", "group"}
    assert written == ConsumeKeywords.__annotations__.keys() - places
    assert {one.name for one in fields(ConsumeOptions)} - {"request"} <= written


def test_every_error_is_there() -> None:
    errors = {
        name
        for name, value in vars(client_errors).items()
        if isinstance(value, type) and issubclass(value, ClientError)
    }
    assert errors == set(queenmq.__all__) & errors
    assert errors - {"ClientError"} <= set(re.findall(r"\b(?:\w+\.)?(\w+)`", _section("Errors")))


def _code(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)
