"""Push and consume with the official Python client (`pip install queen-mq==0.15.0`).

Two consumer groups get every order, each at its own pace, each customer's orders in order.

Usage: python examples/02_official_client.py QUEEN_URL
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

try:
    from queen import Queen
except ImportError as error:
    sys.exit(f"{error.name} is missing; run make setup, or pip install queen-mq==0.15.0")

QUEUE = "example.orders"


async def main(queen_url: str) -> None:
    """Push orders of two customers and let two groups consume them."""
    async with Queen(queen_url) as queen:
        await queen.queue(QUEUE).config({"lease_time": 30, "retry_limit": 3}).create()
        for customer in ("anna", "ben"):
            orders = [{"data": {"customer": customer, "order": number}} for number in (1, 2)]
            await queen.queue(QUEUE).partition(customer).push(orders)

        for group in ("billing", "shipping"):

            async def handle(message: Any, group: str = group) -> None:
                # Returning acks the message; raising makes it come again.
                print(f"{group}: order {message['data']['order']} of {message['data']['customer']}")

            await queen.queue(QUEUE).group(group).limit(4).consume(handle)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1]))
