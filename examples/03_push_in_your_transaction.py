"""Push inside your own SQL transaction: the message exists if, and only if, your rows do.

DATABASE_URL is the database of the broker, as printed by `queen db url`.

Usage: python examples/03_push_in_your_transaction.py DATABASE_URL QUEEN_URL
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid

try:
    import asyncpg
    import httpx
except ImportError as error:
    sys.exit(f"{error.name} is missing; run make setup, or pip install asyncpg httpx")

QUEUE = "example.invoices"


async def create_invoice(connection: asyncpg.Connection, invoice: str, *, fails: bool) -> None:
    """Write a row and push a message about it, together."""
    async with connection.transaction():
        await connection.execute("INSERT INTO invoices (id) VALUES ($1)", invoice)
        # The partition stays locked until the commit, so push last and commit soon.
        await connection.fetchval(
            "SELECT queen.push($1, $2::json, partition => $3, transaction_id => $4)",
            QUEUE,
            json.dumps({"invoice": invoice}),
            "anna",
            invoice,
        )
        if fails:
            raise ValueError("the customer has no address")


async def main(database_url: str, queen_url: str) -> None:
    """Create one invoice, fail to create another, and see which message arrives."""
    good, bad = str(uuid.uuid4()), str(uuid.uuid4())
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("CREATE TEMPORARY TABLE invoices (id text PRIMARY KEY)")
        await create_invoice(connection, good, fails=False)
        print("first invoice: committed")
        try:
            await create_invoice(connection, bad, fails=True)
        except ValueError as error:
            print(f"second invoice: rolled back, {error}")
        rows = await connection.fetchval("SELECT count(*) FROM invoices")
    finally:
        await connection.close()

    async with httpx.AsyncClient(base_url=queen_url, timeout=60) as http:
        query = {"batch": "10", "wait": "true", "timeout": "2000", "autoAck": "true"}
        popped = await http.get(f"/api/v1/pop/queue/{QUEUE}", params=query)
        arrived = [message["data"]["invoice"] for message in popped.json()["messages"]]
    print(f"rows: {rows}, message of the first: {good in arrived}, of the second: {bad in arrived}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2]))
