"""The examples run as their page says and print what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import SOON_S, BrokerProcess
from tests.tidy.repo import ROOT

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def run_example(name: str, *arguments: str) -> list[str]:
    """What the example printed; it must end well and complain about nothing."""
    return run_file(ROOT / "examples" / name, *arguments)


def run_file(path: Path, *arguments: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    return run.stdout.splitlines()


def test_push_pop_ack(broker: BrokerProcess) -> None:
    assert run_example("01_push_pop_ack.py", broker.url) == [
        "pushed item 0: queued",
        "pushed item 1: queued",
        "pushed item 2: duplicate",
        "popped from anna: hello",
        "acked: True, lease released: False",
        "popped from anna: only once",
        "acked: True, lease released: True",
        "nothing left: True",
    ]


def test_official_client(broker: BrokerProcess) -> None:
    lines = run_example("02_official_client.py", broker.url)
    for group in ("billing", "shipping"):
        for customer in ("anna", "ben"):
            orders = [line for line in lines if line.startswith(group) and line.endswith(customer)]
            assert orders == [f"{group}: order {number} of {customer}" for number in (1, 2)]


def test_push_in_your_transaction(broker: BrokerProcess, shared_database_url: str) -> None:
    assert run_example("03_push_in_your_transaction.py", shared_database_url, broker.url) == [
        "first invoice: committed",
        "second invoice: rolled back, the customer has no address",
        "rows: 1, message of the first: True, of the second: False",
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_without_its_arguments_says_how_to_run_it(name: str) -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert run.returncode == 1
    assert f"Usage: python examples/{name}" in run.stderr


@pytest.mark.parametrize("name", EXAMPLES[1:])
def test_an_example_without_its_packages_says_what_to_install(name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-S", str(ROOT / "examples" / name), "a", "b"],
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert run.returncode == 1
    assert "is missing; run make setup, or pip install" in run.stderr
    assert run.stderr.count("\n") == 1


def test_every_example_is_tested_and_listed() -> None:
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    this = (ROOT / "tests/acceptance/test_examples.py").read_text(encoding="utf-8")
    assert EXAMPLES
    for name in EXAMPLES:
        assert f"[{name}]({name})" in page
        assert f'run_example("{name}"' in this
