"""The broker against an older one of the same repository, in all scenarios: rate and CPU.

`QUEEN_BENCH_BEFORE` names the `src` directory of the older one, as for `edge-before`. Each broker
has a database of its own, because their schemas may differ.
"""

from __future__ import annotations

import os

from benchmarks.broker import BenchmarkError, running_broker
from benchmarks.experiment import Context, Row
from benchmarks.pairs import Side, compare, take_turns

ABOUT = "requests a second and CPU in all scenarios, against an older broker"

_BEFORE = "QUEEN_BENCH_BEFORE"
_KINDS = ["push-1", "push-10", "push-100", "pop-1", "pop-10", "pop-100", "pop-ack"]
_TARGET = 0.97


async def run(context: Context) -> list[Row]:
    source = os.environ.get(_BEFORE)
    if not source:
        raise BenchmarkError(f"set {_BEFORE} to the src directory of the broker to compare with")
    workers = context.workers
    with (
        running_broker(workers=workers, settings={"PYTHONPATH": source}) as before,
        running_broker(workers=workers) as after,
    ):
        sides = {"before": Side(before), "now": Side(after)}
        take_turns(context, sides, _KINDS, headers=[])
    return compare("now", "before", sides, target=_TARGET)
