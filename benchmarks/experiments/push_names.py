"""Measure what it costs to be safe when a push is sent again: an id for each message, or one key.

The same broker gets pushes of one client with transaction ids, with an idempotency key, and with
neither, in turns.
"""

from __future__ import annotations

from collections import defaultdict

from benchmarks import wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.scenario import Scenario

ABOUT = "push with transaction ids, with an idempotency key, and with neither"

_SECONDS = 3
_NAMES = ("none", "key", "ids")
_PUSHES = [
    Scenario(name=f"push {batch}", about="", script="push_named", partitions=100, batch=batch)
    for batch in (1, 10, 100)
]

#: CPU microseconds of broker and PostgreSQL per message, by push and names, round by round.
Costs = dict[tuple[str, str], list[float]]


async def run(context: Context) -> list[Row]:
    wrk.find()
    costs: Costs = defaultdict(list)
    async with running_database() as database:
        with context.broker(database) as broker:
            # The round before the first warms caches and plans.
            for number in range(context.rounds + 1):
                for push in _PUSHES:
                    for names in _NAMES:
                        cost = _turn(broker, push, names, f"{push.batch}-{names}-{number}")
                        if number:
                            costs[push.name, names].append(cost)
                    await database.settle()
                context.say(f"{number} of {context.rounds} rounds")
    return [_row(push.name, names, costs) for push in _PUSHES for names in _NAMES[1:]]


def _turn(broker: Broker, push: Scenario, names: str, queue: str) -> float:
    arguments = [*push.arguments(queue), f"names={names}"]
    before_s = broker.usage().cpu_s
    seen = wrk.run(broker.url, push.script, arguments, seconds=_SECONDS)
    spent_s = broker.usage().cpu_s - before_s
    if seen.failed or seen.broken or not seen.messages:
        raise BenchmarkError(f"{push.name}, {names}: answers with errors: {seen}")
    return spent_s / seen.messages * 1e6


def _row(push: str, names: str, costs: Costs) -> Row:
    mine, plain = costs[push, names], costs[push, "none"]
    return Row(
        what=f"{push}: CPU of broker and PostgreSQL, {names} against neither",
        shape=f"{wrk.CONNECTIONS} connections, {len(mine)} rounds",
        measured=f"{with_spread(ratios(mine, plain), 'x')}; {median(mine):.1f} and"
        f" {median(plain):.1f} us a message",
    )
