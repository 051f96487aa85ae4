"""A worker of a stream as a process of its own, to be killed at any moment.

python -m tests.support.stream_worker URL SOURCE SINK QUERY
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from queenmq import Queen, Stream


def make_stream(queen: Queen, source: str, sink: str) -> Stream:
    """Sums per user in windows of event time; also what each window is made of."""

    def shown(value: Any, ctx: Any) -> dict[str, Any]:
        return {"user": ctx["key"], "start": ctx["windowStart"], **value}

    return (
        queen.stream(source)
        .map(lambda m: m["data"])
        .key_by(lambda m: m["data"]["user"])
        .window_tumbling(5, event_time=lambda m: m["data"]["t"], idle_flush_ms=200)
        .aggregate({"count": lambda m: 1, "sum": lambda m: m["v"]})
        .map(shown)
        .to(sink)
    )


async def _run(url: str, source: str, sink: str, query: str) -> None:
    async with Queen(url, retry_attempts=5) as queen:
        stream = make_stream(queen, source, sink)
        runner = await stream.run(query, batch_size=5, max_partitions=2, max_wait_millis=200)
        print("running", flush=True)
        await runner.wait()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:5]))
