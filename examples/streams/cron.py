"""Sign-ups per day, by the calendar in UTC.

python examples/streams/cron.py http://localhost:6632
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from queenmq import Queen

TIMES = [
    "2026-05-01T08:00:00Z",
    "2026-05-01T23:59:59Z",
    "2026-05-02T00:00:00Z",
    "2026-05-04T01:00:00Z",
]


async def main(url: str) -> None:
    run = uuid.uuid4().hex[:8]
    signups, days = f"signups-{run}", f"days-{run}"
    async with Queen(url) as queen:
        await queen.push(signups, [{"at": time} for time in TIMES])
        stream = (
            queen.stream(signups)
            .window_cron("day", event_time=lambda message: message["data"]["at"])
            .reduce(lambda count, _: count + 1, 0)
            .map(lambda count, ctx: {"day": ctx["windowKey"][:10], "count": count})
            .to(days)
        )
        async with await stream.run(f"days-{run}"):
            found = [message.data async for message in queen.consume(days, limit=2)]
        for day in sorted(found, key=lambda one: one["day"]):
            print(f"{day['day']}: {day['count']} sign-ups")


asyncio.run(main(sys.argv[1]))
