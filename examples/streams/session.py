"""Visits of a shop: clicks that are not further than five minutes apart.

python examples/streams/session.py http://localhost:6632
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from queenmq import Queen

MINUTE = 60_000
CLICKS = [("anna", 0), ("ben", 1), ("anna", 3), ("anna", 7), ("ben", 20), ("end", 60)]


async def main(url: str) -> None:
    run = uuid.uuid4().hex[:8]
    clicks, visits = f"clicks-{run}", f"visits-{run}"
    async with Queen(url) as queen:
        await queen.push(clicks, [{"user": user, "at": at * MINUTE} for user, at in CLICKS])
        stream = (
            queen.stream(clicks)
            .key_by(lambda message: message["data"]["user"])
            .window_session(300, event_time=lambda message: message["data"]["at"])
            .reduce(lambda count, _: count + 1, 0)
            .map(lambda count, ctx: {"user": ctx["key"], "from": ctx["windowStart"], "n": count})
            .to(visits)
        )
        async with await stream.run(f"visits-{run}"):
            found = [message.data async for message in queen.consume(visits, limit=3)]
        for visit in sorted(found, key=lambda one: one["from"]):
            print(f"{visit['user']} from minute {visit['from'] // MINUTE}: {visit['n']} clicks")


asyncio.run(main(sys.argv[1]))
