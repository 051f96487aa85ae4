"""Each order once, with the customer's country: state remembers which orders were seen.

A gate sees the state of a key. This one lets everything pass and notes in a message whether its
order was there before; the step after it drops those.

    python examples/streams/enrichment.py http://localhost:6632
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

from queenmq import Queen

COUNTRIES = {"anna": "AT", "ben": "BE"}
ORDERS = [
    {"id": 1, "customer": "anna"},
    {"id": 2, "customer": "ben"},
    {"id": 1, "customer": "anna"},
    {"id": 3, "customer": "anna"},
    {"id": 2, "customer": "ben"},
]


def remember(order: dict[str, Any], context: Any) -> bool:
    """Note whether an order is new; the state of its key says so."""
    order["is_new"] = not context.state.get("seen", False)
    context.state["seen"] = True
    return True


def enrich(order: dict[str, Any]) -> dict[str, Any]:
    """Add what is known of the customer. May be async and ask a service."""
    return {"id": order["id"], "country": COUNTRIES[order["customer"]]}


async def main(url: str) -> None:
    run = uuid.uuid4().hex[:8]
    raw, clean = f"raw-{run}", f"clean-{run}"
    async with Queen(url) as queen:
        await queen.push(raw, ORDERS)
        stream = (
            queen.stream(raw)
            .key_by(lambda message: message["data"]["id"])
            .gate(remember)
            .filter(lambda order: order["is_new"])
            .map(enrich)
            .to(clean)
        )
        async with await stream.run(f"clean-{run}"):
            async for message in queen.consume(clean, limit=3):
                print(f"order {message.data['id']} from {message.data['country']}")


asyncio.run(main(sys.argv[1]))
