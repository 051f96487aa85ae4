"""The examples of docs/streams.md run as they say and print what they promise."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.acceptance.test_examples import run_file
from tests.support.broker import BrokerProcess
from tests.tidy.repo import ROOT

_FOLDER = ROOT / "examples" / "streams"
_OUTPUT = {
    "tumbling": ["10:00: 2 orders, 25 euros", "10:01: 1 orders, 7 euros"],
    "sliding": [
        "up to second 10: 1 requests",
        "up to second 20: 3 requests",
        "up to second 30: 3 requests",
        "up to second 40: 2 requests",
        "up to second 50: 1 requests",
        "up to second 60: 1 requests",
        "up to second 70: 1 requests",
    ],
    "session": [
        "anna from minute 0: 3 clicks",
        "ben from minute 1: 1 clicks",
        "ben from minute 20: 1 clicks",
    ],
    "cron": ["2026-05-01: 2 sign-ups", "2026-05-02: 1 sign-ups"],
    "rate_gate": ["in order: True, held back: True"],
    "enrichment": ["order 1 from AT", "order 2 from BE", "order 3 from AT"],
}


def test_every_example_prints_what_it_promises(broker: BrokerProcess) -> None:
    assert {path.stem for path in _FOLDER.glob("*.py")} == set(_OUTPUT)
    with ThreadPoolExecutor(3) as pool:
        runs = {name: pool.submit(run_file, _FOLDER / f"{name}.py", broker.url) for name in _OUTPUT}
    assert {name: run.result() for name, run in runs.items()} == _OUTPUT
