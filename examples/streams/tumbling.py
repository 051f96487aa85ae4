"""Revenue per customer and minute: windows of one length, by the time of the order.

python examples/streams/tumbling.py http://localhost:6632
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from queenmq import Queen

ORDERS = [
    {"at": "2026-05-01T10:00:05Z", "total": 20},
    {"at": "2026-05-01T10:00:40Z", "total": 5},
    {"at": "2026-05-01T10:01:10Z", "total": 7},
    {"at": "2026-05-01T10:03:00Z", "total": 1},
]


async def main(url: str) -> None:
    run = uuid.uuid4().hex[:8]
    orders, revenue = f"orders-{run}", f"revenue-{run}"
    async with Queen(url) as queen:
        await queen.push(orders, ORDERS, partition="anna")
        stream = (
            queen.stream(orders)
            .map(lambda message: message["data"])
            .window_tumbling(60, event_time=lambda message: message["data"]["at"])
            .aggregate({"count": lambda order: 1, "sum": lambda order: order["total"]})
            .map(lambda value, ctx: {"minute": ctx["windowKey"], **value})
            .to(revenue)
        )
        async with await stream.run(f"revenue-{run}"):
            async for message in queen.consume(revenue, limit=2):
                minute = message.data
                print(f"{minute['minute'][11:16]}: {minute['count']} orders, {minute['sum']} euros")


asyncio.run(main(sys.argv[1]))
