"""Measure what counting costs: push-1 and pop-1 with and without metrics.

Two brokers share one database and take turns. A broker has no switch for its metrics: in one of
them, `benchmarks/uncounted` replaces whatever counts on the path of a request.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.pairs import Side, compare, take_turns

ABOUT = "push-1 and pop-1 with metrics, and on a broker that counts nothing"

_UNCOUNTED = Path(__file__).parents[1] / "uncounted"
_TARGET = 0.98


async def run(context: Context) -> list[Row]:
    async with running_database() as bench:
        nothing = {"PYTHONPATH": str(_UNCOUNTED)}
        with context.broker(bench) as counting, context.broker(bench, **nothing) as uncounted:
            sides = {"uncounted": Side(uncounted), "counting": Side(counting)}
            take_turns(context, sides, ["push-1", "pop-1"], headers=[])
    return compare("counting", "uncounted", sides, target=_TARGET)
