"""Measure what an open connection and a parked long poll cost in memory."""

from __future__ import annotations

import asyncio
import resource

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row

ABOUT = "memory of the broker with many connections that wait"

_IDLE = 10_000
_POLLS = 5_000
_IDLE_TARGET_MB = 60
_POLL_TARGET_KIB = 5
#: For what else a process has open.
_OTHER_FILES = 500
_QUIET = {
    "QUEEN_KEEP_ALIVE_MS": "600000",
    "QUEEN_HEAD_TIMEOUT_MS": "600000",
    "QUEEN_CONNECTIONS_MAX": "20000",
}


async def run(context: Context) -> list[Row]:
    _raise_file_limit()
    rows = []
    async with running_database() as database:
        for what, count, measure in (
            ("idle", _IDLE, _measure_idle),
            ("parked", _POLLS, _measure_parked),
        ):
            with context.broker(database, **_QUIET) as broker:
                # Once for what the first of them load for all.
                async with connections(broker.address, 100) as warm:
                    await asyncio.gather(*(_ask(one) for one in warm))
                took = await measure(broker, count)
            rows.append(_row(what, count, took))
            context.say(f"{what}: {took / 1e6:.1f} MB for {count}")
    return rows


def _row(what: str, count: int, took: int) -> Row:
    each_kib = took / count / 1024
    measured = f"{took / 1e6:.1f} MB, {each_kib:.2f} KiB each"
    if what == "idle":
        return Row(
            what="idle keep-alive connections",
            shape=f"{count:,} connections, one request each before",
            measured=measured,
            target=f"<= {_IDLE_TARGET_MB} MB",
            is_reached=took <= _IDLE_TARGET_MB * 1e6,
        )
    return Row(
        what="parked long polls, beyond their connection",
        shape=f"{count:,} polls of one empty queue",
        measured=measured,
        target=f"<= {_POLL_TARGET_KIB} KiB each",
        is_reached=each_kib <= _POLL_TARGET_KIB,
    )


def _raise_file_limit() -> None:
    """For this process and the brokers it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _IDLE + _OTHER_FILES:
        raise BenchmarkError(
            f"{hard} files may be open, and {_IDLE + _OTHER_FILES} are needed; raise ulimit -Hn"
        )
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _ask(connection: Connection) -> None:
    check(await connection.get("/health/live"), 200)


async def _measure_idle(broker: Broker, count: int) -> int:
    """Return by how many bytes the broker has grown."""
    before = broker.usage().broker_rss_bytes
    async with connections(broker.address, count) as opened:
        await asyncio.gather(*(_ask(one) for one in opened))
        return broker.usage().broker_rss_bytes - before


async def _measure_parked(broker: Broker, count: int) -> int:
    """Return by how many bytes the broker grows when open connections begin to poll."""
    path = "/api/v1/pop/queue/empty?wait=true&timeout=60000"
    async with connections(broker.address, count) as opened, connections(broker.address, 1) as more:
        await asyncio.gather(*(_ask(one) for one in opened))
        before = broker.usage().broker_rss_bytes
        polls = [asyncio.create_task(one.get(path)) for one in opened]
        # They have been read by the time that this is answered.
        for _ in range(20):
            await _ask(more[0])
            await asyncio.sleep(0.1)
        took = broker.usage().broker_rss_bytes - before
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
    return took
