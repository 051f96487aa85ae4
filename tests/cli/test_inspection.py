"""`queen messages`, `trace`, `dlq`, `status`, `why`, `maintenance` and `db vacuum-report`."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import asyncpg
import pytest

from queenmq import SyncQueen
from tests.support.broker import unique
from tests.support.command_line import Cli, run_queen


class Place:
    """A queue with three messages, the first of which is a dead letter of group g."""

    def __init__(self, url: str) -> None:
        self.queue = unique()
        items = [{"data": {"n": n}, "transactionId": f"t{n}"} for n in range(3)]
        with SyncQueen(url) as queen:
            (first, *_) = queen.push(self.queue, items)
            self.partition_id = first["partition_id"]
            (message,) = queen.pop(self.queue, group="g")
            queen.trace(message, {"data": {"step": 1}, "traceName": self.queue})
            queen.ack(message, "dlq", error="no address")


@pytest.fixture
def place(cli: Cli) -> Place:
    return Place(cli.url)


def test_messages_are_listed_by_state(cli: Cli, place: Place) -> None:
    rows = cli("messages", "list", place.queue, "-o", "ndjson").lines
    assert [row["transactionId"] for row in rows] == ["t2", "t1", "t0"]
    words = ["messages", "list", place.queue, "--status", "dead_letter", "-o", "json"]
    assert [row["transactionId"] for row in cli(*words).value] == ["t0"]
    assert "TRANSACTION ID" in cli.ok("messages", "list", place.queue, "--since", "1h ago")


def test_a_message_is_shown_with_its_payload_and_error(cli: Cli, place: Place) -> None:
    text = cli.ok("messages", "show", place.partition_id, "t0")
    assert 'DATA            {"n":0}' in text and "ERROR           no address" in text
    ended = cli("messages", "show", place.partition_id, "none")
    assert ended.code == 3 and "'none'" in ended.err


def test_a_message_is_buried_retried_and_deleted(cli: Cli, place: Place) -> None:
    place_of = (place.partition_id, "t1")
    assert cli("messages", "bury", *place_of).code == 2
    cli.ok("messages", "bury", *place_of, "--yes")
    letters = cli("dlq", "list", place.queue, "-o", "json").value
    assert {one["transactionId"] for one in letters} == {"t0", "t1"}
    assert cli.ok("messages", "retry", *place_of) == "t1 was pushed again\n"
    cli.ok("messages", "delete", place.partition_id, "t2", "--yes")
    assert cli("messages", "show", place.partition_id, "t2").code == 3


def test_traces_are_found_by_message_and_by_name(cli: Cli, place: Place) -> None:
    (one,) = cli("trace", "show", place.partition_id, "t0", "-o", "ndjson").lines
    assert one["data"] == {"step": 1}
    (found,) = cli("trace", "find", place.queue, "-o", "json").value
    assert (found["transaction_id"], found["queue_name"]) == ("t0", place.queue)
    assert place.queue in cli.ok("trace", "names", "-n", "1000")
    assert cli("trace", "show", place.partition_id, "t1").code == 3
    assert cli("trace", "find", unique("no")).code == 3


def test_a_dead_letter_is_shown_with_its_reason(cli: Cli, place: Place) -> None:
    text = cli.ok("dlq", "show", place.queue, "t0")
    assert "ERROR           no address" in text and '{"n":0}' in text
    ended = cli("dlq", "show", place.queue, "t1")
    assert ended.code == 3 and "no dead letter 't1'" in ended.err


def test_dead_letters_are_pushed_again(cli: Cli, place: Place) -> None:
    assert cli.ok("dlq", "retry", place.queue) == f"pushed 1 message of {place.queue} again\n"
    got = cli("pop", place.queue, "-g", "g", "-n", "9", "-o", "ndjson").lines
    assert [one["data"]["n"] for one in got] == [1, 2, 0]
    assert cli.ok("dlq", "retry", place.queue) == f"pushed 0 messages of {place.queue} again\n"


def test_dead_letters_are_forgotten_when_told_to(cli: Cli, place: Place) -> None:
    assert cli("dlq", "purge", place.queue).code == 2
    assert cli("dlq", "purge", place.queue, "--older-than", "1h", "--yes").code == 0
    assert len(cli("dlq", "list", place.queue, "-o", "json").value) == 1
    said = cli.ok("dlq", "purge", place.queue, "--yes")
    assert said == f"deleted 1 dead letter of {place.queue}\n"
    assert cli("dlq", "list", place.queue, "-o", "json").value == []
    assert cli("dlq", "list", unique("no")).code == 3


def test_a_full_queue_takes_no_dead_letters_back(cli: Cli, place: Place) -> None:
    cli.ok("queues", "configure", place.queue, "maxSize=1")
    ended = cli("dlq", "retry", place.queue)
    assert ended.code == 1 and "is full; retry the rest" in ended.err


def test_why_says_who_holds_a_partition_and_what_to_do(cli: Cli, place: Place) -> None:
    cli("pop", place.queue, "-g", "g")
    found = cli("why", place.queue, "-g", "g", "-o", "json").value
    assert found["consumerGroup"] == "g" and found["partitions"][0]["state"] == "leased"
    text = cli.ok("why", place.queue, "Default", "-g", "g")
    assert text.startswith("1. ") and "is leased" in text and "\n   -> " in text
    ended = cli("why", unique("no"))
    assert ended.code == 3 and "does not exist" in ended.err


def test_status_is_one_look_at_everything(cli: Cli) -> None:
    found = cli("status", "-o", "json").value
    assert (found["health"]["status"], found["url"]) == ("healthy", cli.url)
    assert found["overview"]["queues"] >= 0
    text = cli.ok("status")
    shown = dict(line.split("  ", 1) for line in text.splitlines())
    assert (shown["HEALTH"].strip(), shown["POPS PAUSED"].strip()) == ("healthy", "no")


def test_maintenance_is_switched_on_and_off(cli: Cli) -> None:
    # Pushes and pops of other tests are on the same broker, so only the way back is taken.
    assert cli.ok("maintenance", "off") == "pushes are stored\n"
    assert cli.ok("maintenance", "off", "--pops") == "pops are served\n"
    found = cli("maintenance", "show", "-o", "json").value
    assert (found["maintenanceMode"], found["popMaintenanceMode"]) == (False, False)


async def test_vacuum_report_names_tables_and_what_holds_vacuum_back(
    database: asyncpg.Connection, database_url: str
) -> None:
    report = await _report(database_url)
    tables = {one["table"]: one for one in report["tables"]}
    assert {"messages", "partition_consumers", "operation_queue"} <= tables.keys()
    assert tables["messages"]["totalBytes"] > 0 and report["server"]["isAutovacuumOn"]
    async with database.transaction(isolation="repeatable_read"):
        # The first statement takes the snapshot that is held.
        pid = await database.fetchval("SELECT pg_backend_pid()")
        report = await _report(database_url)
    assert f"transaction of process {pid}" in [one["what"] for one in report["holders"]]


async def test_vacuum_report_estimates_rows_when_the_counters_are_lost(
    database_url: str, superuser_url: str
) -> None:
    session = await asyncpg.connect(superuser_url)
    for queue in ("a", "b", "c"):
        await session.execute("SELECT queen.push($1, '1')", queue)
    await session.execute("ANALYZE queen.queues")
    await session.execute("SELECT pg_stat_force_next_flush()")
    # As the recovery from a crash does.
    await session.execute("SELECT pg_stat_reset()")
    await session.close()
    tables = {one["table"]: one for one in (await _report(database_url))["tables"]}
    # One that was analyzed, and one that never was.
    two = ("queues", "push_keys")
    shown = [(tables[name]["liveRows"], tables[name]["isEstimate"]) for name in two]
    assert shown == [(3, True), (0, False)]
    words = ("db", "vacuum-report", "--database-url", database_url)
    plain = await asyncio.to_thread(run_queen, *words)
    assert re.search(r"ROWS are estimates of the last vacuum or analyze for .*queues", plain.out)


async def _report(url: str) -> Any:
    words = ("db", "vacuum-report", "--database-url", url)
    plain = await asyncio.to_thread(run_queen, *words)
    assert plain.code == 0 and "partition_lookup" in plain.out and "VACUUM AT" in plain.out
    return (await asyncio.to_thread(run_queen, *words, "-o", "json")).value


async def test_vacuum_report_of_a_database_without_our_schema(empty_database_url: str) -> None:
    ended = await asyncio.to_thread(
        run_queen, "db", "vacuum-report", "--database-url", empty_database_url
    )
    assert ended.code == 1 and "has no schema queen" in ended.err
