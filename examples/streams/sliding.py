"""Requests in the last 30 seconds, every 10 seconds: windows that overlap.

python examples/streams/sliding.py http://localhost:6632
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from queenmq import Queen

SECONDS = [3, 12, 14, 41, 90]


async def main(url: str) -> None:
    run = uuid.uuid4().hex[:8]
    requests, load = f"requests-{run}", f"load-{run}"
    async with Queen(url) as queen:
        await queen.push(requests, [{"at": second * 1000} for second in SECONDS])
        stream = (
            queen.stream(requests)
            .window_sliding(30, 10, event_time=lambda message: message["data"]["at"])
            .reduce(lambda count, _: count + 1, 0)
            .map(lambda count, ctx: {"end": ctx["windowEnd"] // 1000, "count": count})
            .to(load)
        )
        async with await stream.run(f"load-{run}"):
            found = [message.data async for message in queen.consume(load, limit=7)]
        for window in sorted(found, key=lambda one: one["end"]):
            print(f"up to second {window['end']}: {window['count']} requests")


asyncio.run(main(sys.argv[1]))
