"""Compares CPU per message with the committed page and fails where it has grown by more than 15 %.

Machines differ, so costs are compared in floors, the CPU of a bare `GET /health/live` in the
same run. Of several rounds the cheapest counts, because other programs only ever add to a cost. If
the floor itself differs too much between rounds, nothing is judged and the run ends with status 2:
run it again on a quieter machine. `make bench-check ARGS='--save'` writes the page anew.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import report, run, scenario, wrk
from benchmarks.broker import BenchmarkError
from benchmarks.scenario import FLOOR, HERE

PAGE = HERE / "results" / "cpu.md"
_SCENARIOS = (FLOOR, "push-1", "push-10", "pop-10", "pop-ack")
_ALLOWED = 1.15
#: More spread of the floor than this, and the machine is too noisy to judge.
_NOISY = 1.25
_TOO_NOISY = 2
_ROW = re.compile(r"^\| ([\w-]+) +\| +([\d.]+) \| +([\d.]+) \|$", re.MULTILINE)


def read_page(text: str) -> dict[str, float]:
    """Return the cost of each scenario of a page, in floors."""
    return {name: float(floors) for name, _, floors in _ROW.findall(text)}


def make_page(costs_us: Mapping[str, float], facts: Sequence[str]) -> str:
    """Return a page that `read_page` reads."""
    floor = costs_us[FLOOR]
    rows = [f"| {name} | {cost:.1f} | {cost / floor:.3f} |" for name, cost in costs_us.items()]
    return "\n".join(
        [
            "# CPU per message",
            "",
            *(f"- {fact}" for fact in facts),
            "",
            "Broker and PostgreSQL together, the cheapest of several rounds. `floors` is that"
            " divided by the CPU of one `GET /health/live`.",
            "`make bench-check` compares with this page; made by `make bench-check ARGS='--save'`.",
            "",
            "| scenario | CPU us | floors |",
            "| --- | ---: | ---: |",
            *rows,
            "",
        ]
    )


def is_noisy(floors_us: Sequence[float]) -> bool:
    """Return whether the cost of the same bare request varied too much to judge anything."""
    return max(floors_us) > _NOISY * min(floors_us)


def find_regressions(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Return a sentence for each scenario that costs too much more than on the page."""
    return [
        f"{name}: {now[name]:.3f} floors instead of {before[name]:.3f},"
        f" {now[name] / before[name] - 1:+.0%}"
        for name in now
        if name != FLOOR and name in before and now[name] > _ALLOWED * before[name]
    ]


def _measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """CPU microseconds per message of each scenario, round by round."""
    costs: dict[str, list[float]] = {name: [] for name in _SCENARIOS}
    for _ in range(options.rounds):
        for name in _SCENARIOS:
            one = asyncio.run(run.measure(scenario.load(name), options))
            if not one.is_valid:
                raise BenchmarkError(f"{name}: {one.verdict}")
            costs[name].append(one.broker_us + one.postgres_us)
    return costs


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write the page instead")
    parser.set_defaults(warm_up=1, workers=1, reserve=1.5)
    return parser.parse_args()


def _main() -> int:
    options = _options()
    wrk.find()
    facts = report.facts()
    rounds = _measure(options)
    costs_us = {name: min(costs) for name, costs in rounds.items()}
    page = make_page(costs_us, facts)
    print(page)
    if is_noisy(rounds[FLOOR]):
        spread = ", ".join(f"{cost:.1f}" for cost in rounds[FLOOR])
        print(f"bench-check: too noisy to judge: the floor cost {spread} us. Run it again.")
        return _TOO_NOISY
    if options.save:
        PAGE.write_text(page)
        return 0
    if not PAGE.exists():
        raise BenchmarkError(f"{PAGE.name} does not exist; write it with --save")
    regressions = find_regressions(read_page(PAGE.read_text()), read_page(page))
    for text in regressions:
        print(f"bench-check: {text}")
    return 1 if regressions else 0


if __name__ == "__main__":
    try:
        sys.exit(_main())
    except BenchmarkError as error:
        sys.exit(str(error))
