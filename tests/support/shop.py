"""A shop with a day behind it: queues, groups, failures, a history, a pipeline. For pictures."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import asyncpg

from tests.support.broker import Api

QUEUES = (
    "orders.placed",
    "orders.shipped",
    "billing.invoices",
    "billing.refunds",
    "email.welcome",
    "inventory.sync",
    "search.index",
)
GROUPS = {
    "orders.placed": ("fulfilment", "fraud-check", "reporting"),
    "orders.shipped": ("email",),
    "billing.invoices": ("ledger",),
    "billing.refunds": ("ledger",),
    "email.welcome": ("mailer",),
    "inventory.sync": ("warehouse",),
    "search.index": ("indexer",),
}
TRACE = "order-4711"
#: A day in steps of a minute: rates follow a wave, and one group falls behind and catches up.
_HISTORY = (
    """
INSERT INTO queen.history_queues
SELECT 1, t, q.name, 'shop/0/1', r, r * 4, r * 1400, r / 40, r * 2, r * 4, r / 2, r * 2,
       r * 4 - r / 30, r / 30, r / 40, r / 200, r / 10, 0, r * (18 + 9 * sin(n / 9.0)),
       140 + 60 * sin(n / 5.0), r, 2 + n % 3
FROM generate_series(0, 1439) n
CROSS JOIN LATERAL (SELECT date_trunc('minute', now()) - make_interval(mins => n + 1) AS t) x
JOIN LATERAL (SELECT name, row_number() OVER (ORDER BY name) AS k FROM queen.queues) q ON true
CROSS JOIN LATERAL (
    SELECT (240 + 90 * sin(n / 23.0 + q.k) + 25 * sin(n * q.k / 3.0))::bigint / q.k AS r
) y
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO queen.history_workers
SELECT 1, t, 'shop', 0, 1, 6632, 11 + 4 * sin(n / 23.0), 3, 92e6, 4e8, 16, 12, 4, 0, 1.2, 4,
       r * 9, r, r * 9,
       r * 4, r * 9, r * 4, r * 9 - 1, 1, 0, r / 10, 0, r * 20, 190 + 70 * sin(n / 5.0), r, 9
FROM generate_series(0, 1439) n
CROSS JOIN LATERAL (SELECT date_trunc('minute', now()) - make_interval(mins => n + 1) AS t,
                           (240 + 90 * sin(n / 23.0 + 1))::bigint AS r) x
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO queen.history_groups
SELECT 1, date_trunc('minute', now()) - make_interval(mins => n), g.queue, g.name, 'consumer', l, l,
       l / 9.0
FROM generate_series(1, 1440) n
CROSS JOIN LATERAL (SELECT x.queue, x.name, row_number() OVER () AS k
                    FROM unnest($1::text[], $2::text[]) AS x (queue, name)) g
CROSS JOIN LATERAL (SELECT greatest(0, CASE WHEN g.name IN ('reporting', 'ledger')
    THEN 100 - 90 * sin(n / 11.0) ELSE 46 - 14 * sin(n / 4.0) END)::bigint AS l) y
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO queen.history_queues
SELECT 60, date_trunc('hour', now()) - make_interval(hours => n), 'orders.placed', '', 0,
       4000 + n % 900, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM generate_series(1, 24 * 75) n
ON CONFLICT DO NOTHING
""",
    """
INSERT INTO queen.archive_positions (lake, queue_id, xid, location)
SELECT 'b7a0c9e2-95c1-4f0e-8f0e-0d7e7d1f2a11', id, pg_current_xact_id(), 's3://shop-lake'
FROM queen.queues WHERE name LIKE 'orders.%'
""",
    """
INSERT INTO queen.spark_positions (consumer_group, query_id, queues, xid, lag)
VALUES ('revenue-per-minute', 'c1d7', '["orders.placed"]', pg_current_xact_id(), 0)
""",
)
_FOUND = ("density", "inventory.sync", "store-7", None, 1204, "message 1204 is missing")
_RUNS: tuple[tuple[str, dict[str, Any], str, dict[str, Any], dict[str, Any], str | None], ...] = (
    (
        "audit",
        {"queuePattern": ".*", "lake": "s3://shop-lake"},
        "found",
        {"queues": 7, "partitions": 280, "findings": 1},
        {
            "checks": (
                ("check", "looked at", "findings", "remark"),
                [("lookup", 280, 0, ""), ("cursors", 310, 0, ""), ("density", 280, 1, "")],
            ),
            "first findings": (
                ("check", "queue", "partition", "consumer_group", "seq", "detail"),
                [_FOUND],
            ),
        },
        None,
    ),
    ("load", {"input": "catalogue.parquet", "queue": "search.index"}, "failed", {}, {},
     "the files cannot be read: catalogue.parquet has no column sku"),
    ("replay", {"queues": "orders.placed", "lake": "s3://shop-lake", "target": "orders.replayed"},
     "done", {"messages": 48210, "written": 48210, "batches": 5}, {}, None),
    ("analytics", {"queuePattern": ".*", "bucket": "300 s"}, "done",
     {"messages": 812_400, "consumed": 811_902, "dead letters": 41}, {}, None),
    ("archive", {"queues": "orders.placed, orders.shipped", "lake": "s3://shop-lake"}, "done",
     {"messages archived": 96_310, "commits": 4, "files written": 12, "partitions marked": 80}, {},
     None),
    ("stream", {"stream": "revenue", "file": "revenue.toml"}, "running", {}, {}, None),
)  # fmt: skip


async def furnish(url: str, database_url: str) -> dict[str, str]:
    """Fill the shop; return the places of what pictures show."""
    api, chance = Api(url), random.Random(7)
    for queue in QUEUES:
        keeps = queue.startswith("orders.")
        await api.configure(queue, ackHistory=keeps, retryLimit=0, leaseTime=300, namespace="shop")
    await _trade(api, chance)
    places = await _tell_a_story(api)
    session = await asyncpg.connect(database_url)
    try:
        await _write_history(session)
    finally:
        await session.close()
    await api.close()
    return places


async def _trade(api: Api, chance: random.Random) -> None:
    """Pushes, and groups that take most of it, fail on some, and hold some."""
    for queue in QUEUES:
        items = [
            {
                "queue": queue,
                "partition": f"customer-{chance.randint(1, 40)}",
                "payload": {"order": 4000 + n, "total": round(chance.uniform(5, 400), 2)},
            }
            for n in range(120)
        ]
        await api.push_items(items)
        for group in GROUPS[queue]:
            start = {"consumerGroup": group, "subscriptionMode": "all"}
            share = 60 if group in ("reporting", "ledger") else 110
            taken: list[Any] = []
            while len(taken) < share and (found := await api.pop(queue, batch=40, **start)):
                taken += found
                await api.ack(*found[3:], group=group)
                if queue in ("billing.refunds", "orders.placed") and group != "reporting":
                    await api.ack(found[0], status="failed", group=group, error="card declined")
            await api.pop(queue, batch=2, **start)


async def _tell_a_story(api: Api) -> dict[str, str]:
    """A partition in which groups are apart, and one order on its way through three queues."""
    place = ""
    await api.push_items(
        [{"queue": "orders.placed", "partition": "vip", "payload": {"n": n}} for n in range(30)]
    )
    for group, batch, passes in (
        ("fulfilment", 14, 14),
        ("fraud-check", 22, 21),
        ("reporting", 6, 0),
    ):
        taken = await api.pop(
            "orders.placed",
            partition="vip",
            consumerGroup=group,
            batch=batch,
            subscriptionMode="all",
        )
        await api.ack(*taken[:passes], group=group)
        if group == "fraud-check":
            await api.ack(taken[-1], status="failed", group=group, error="card declined")
    for queue, group in (
        ("orders.placed", "fulfilment"),
        ("orders.shipped", "email"),
        ("email.welcome", "mailer"),
    ):
        item = {
            "queue": queue,
            "partition": "customer-4711",
            "payload": {
                "order": 4711,
                "customer": {"name": "Ada", "since": 2019},
                "lines": [{"sku": "tea-12", "count": 2}, {"sku": "mug-3", "count": 1}],
                "total": 41.9,
            },
            "transactionId": f"{TRACE}-{queue.partition('.')[2]}",
        }
        await api.push_items([item])
        await asyncio.sleep(0.4)
        (message,) = await api.pop(queue, partition="customer-4711", consumerGroup=group)
        await asyncio.sleep(0.2)
        trace = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
        trace |= {"consumerGroup": group, "eventType": "packed", "traceNames": [TRACE]}
        await api.http.post("/api/v1/traces", json=trace | {"data": {"box": 3}})
        await asyncio.sleep(0.2)
        await api.ack(message, group=group)
        place = place or f"{message['partitionId']}/{message['transactionId']}"
    return {"message": place}


async def _write_history(session: asyncpg.Connection) -> None:
    pairs = [(queue, group) for queue, groups in GROUPS.items() for group in groups]
    for statement in _HISTORY:
        arguments = [list(part) for part in zip(*pairs, strict=True)] if "$1" in statement else []
        await session.execute(statement, *arguments)
    for job, options, outcome, figures, tables, error in _RUNS:
        run = await session.fetchval(
            "SELECT queen.start_pipeline_run($1, $2)", job, json.dumps(options)
        )
        shown = {
            name: {"columns": columns, "rows": rows, "total": len(rows)}
            for name, (columns, rows) in tables.items()
        }
        await session.execute(
            "SELECT queen.note_pipeline_run($1, $2, $3, $4, $5)",
            run, outcome, json.dumps(figures), json.dumps(shown), error,
        )  # fmt: skip
    await session.execute(
        "UPDATE queen.pipeline_runs SET started_at = started_at - make_interval(secs => took),"
        " finished_at = started_at - make_interval(secs => took) + make_interval(secs => n * 17)"
        " FROM (SELECT id AS k, row_number() OVER (ORDER BY started_at DESC) AS n,"
        " 5400 * row_number() OVER (ORDER BY started_at DESC) AS took FROM queen.pipeline_runs) x"
        " WHERE k = id AND outcome <> 'running'"
    )
