"""Check whether the dashboard's pages of partitions stay quick in a queue that has very many."""

from __future__ import annotations

import time

from benchmarks.client import Connection, check, connections
from benchmarks.database import keys_of, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import percentile
from benchmarks.pops import Timings, drain

ABOUT = "what the dashboard asks about a queue of 100,000 partitions, each with a cursor"

_SIZE = 100_000
_QUEUE = "pages"
_ASKS = 5
_TARGET_MS = 300.0
_LIST = f"/api/v1/resources/queues/{_QUEUE}/partitions?limit=50"
#: What a page shows, and the request behind it.
_PAGES = {
    "by name, first page": _LIST,
    "by name, page 1,000": f"{_LIST}&offset=49950",
    "deepest": f"{_LIST}&sort=depth",
    "last pushed to": f"{_LIST}&sort=newest",
    "blocked": f"{_LIST}&blocked=true",
    "search": f"{_LIST}&search=99",
    "one partition": f"/api/v1/resources/queues/{_QUEUE}/partitions/p0",
    "counters and options": f"/api/v1/resources/queues/{_QUEUE}?partitions=false",
}
#: It sums up all partitions, and no page is among them.
_NO_PAGE = "counters and options"


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        partition_ids = await database.make_partitions(keys_of(_QUEUE, _SIZE))
        await database.push(partition_ids, each=2)
        await database.settle()
        context.say(f"{_SIZE:,} partitions are made")
        with context.broker(database) as broker:
            async with connections(broker.address, 1) as [client]:
                await drain(client, _QUEUE)
                context.say("a group has been in all of them")
                timings = await _measure(context, client)
    return [_row(what, one, context.rounds) for what, one in timings.items()]


async def _measure(context: Context, client: Connection) -> dict[str, Timings]:
    timings = {what: Timings() for what in _PAGES}
    for number in range(context.rounds + 1):
        for what, path in _PAGES.items():
            taken = []
            for _ in range(_ASKS):
                begin = time.perf_counter()
                check(await client.get(path), 200)
                taken.append((time.perf_counter() - begin) * 1e3)
            if number:
                timings[what].add(taken)
    return timings


def _row(what: str, timings: Timings, rounds: int) -> Row:
    is_page = what != _NO_PAGE
    return Row(
        what=what,
        shape=f"{_SIZE:,} partitions, {rounds} rounds of {_ASKS}",
        measured=timings.text(),
        target=f"p99 < {_TARGET_MS:.0f} ms" if is_page else "",
        is_reached=percentile(timings.all, 99) < _TARGET_MS if is_page else None,
    )
