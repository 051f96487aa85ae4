"""At most 20 mails a second per customer, and five at once: a gate keeps the rest, in order.

python examples/streams/rate_gate.py http://localhost:6632
"""

from __future__ import annotations

import asyncio
import sys
import uuid

from queenmq import Queen, token_bucket_gate


async def main(url: str) -> None:
    run = uuid.uuid4().hex[:8]
    wanted, approved = f"mails-{run}", f"approved-{run}"
    async with Queen(url) as queen:
        await queen.push(wanted, [{"mail": number} for number in range(12)], partition="anna")
        gate = token_bucket_gate(capacity=5, refill_per_sec=20)
        stream = queen.stream(wanted).gate(gate).to(approved)
        async with await stream.run(f"limit-{run}") as runner:
            mails = [message.data["mail"] async for message in queen.consume(approved, limit=12)]
            was_held = runner.metrics()["gateDenialsTotal"] > 0
        print(f"in order: {mails == list(range(12))}, held back: {was_held}")


asyncio.run(main(sys.argv[1]))
