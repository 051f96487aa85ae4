"""Encrypted queues: nothing readable in the database or on disk, everything readable to clients."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]

#: Found nowhere but in payloads of these tests.
SECRET = "the-launch-code"
#: So low that every push is queued as an operation.
QUEUES_ALL = {"QUEEN_LOAD_PUSH_THRESHOLD": "0.000001"}


def new_key() -> str:
    return secrets.token_hex(32)


@pytest.fixture
async def open_api() -> AsyncIterator[Callable[[BrokerProcess], Api]]:
    opened: list[Api] = []

    def open_one(broker: BrokerProcess) -> Api:
        opened.append(Api(broker.url))
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()


async def dump(database: asyncpg.Connection) -> str:
    """Everything that could hold a payload, as text."""
    tables = ("messages", "dead_letter_queue", "operation_queue", "message_traces", "spark_staging")
    parts = [
        await database.fetchval(f"SELECT string_agg(t::text, ' ') FROM queen.{table} t")
        for table in tables
    ]
    return " ".join(part or "" for part in parts)


async def pop_until(api: Api, queue: str, count: int, **query: Any) -> list[Any]:
    """Pop and ack until so many messages have come."""
    found: list[Any] = []

    async def more() -> bool:
        messages = await api.pop(queue, batch=100, partitions=10, **query)
        if messages and not query.get("autoAck"):
            await api.ack(*messages, group=query.get("consumerGroup"))
        found.extend(messages)
        return len(found) >= count

    await wait_until_async(more, timeout_s=SOON_S, what=f"{count} messages of {queue}")
    assert len(found) == count
    return found


def content(number: int) -> dict[str, object]:
    return {"n": number, "secret": SECRET, "odd": 'é"\\\n€', "big": 12345678901234567890}


async def check_dead_letters(api: Api, queue: str, database: asyncpg.Connection) -> None:
    # A dead letter is readable, and pushed again while its message is still there.
    messages = await api.pop(queue, batch=10, partitions=10)
    await api.ack(*messages, status="failed", error="no")
    letters = await api.dead_letters(queue)
    assert sorted(one["data"]["n"] for one in letters) == [1, 2, 3]
    retried = (await api.http.post("/api/v1/dlq/retry", json={"queue": queue})).json()
    assert (retried["pushed"], retried["remaining"]) == (3, False)
    found = await pop_until(api, queue, 3)
    assert sorted(one["data"]["n"] for one in found) == [1, 2, 3]
    # ... and once more when the message has gone.
    await api.push(queue, content(7), transactionId="leaves")
    (message,) = await api.pop(queue)
    await api.ack(message, status="dlq", error="no")
    await database.execute("DELETE FROM queen.messages WHERE transaction_id = 'leaves'")
    path = f"/api/v1/messages/{message['partitionId']}/leaves"
    assert (await api.http.get(path)).json()["payload"] == content(7)
    assert (await api.http.post(f"{path}/retry")).status_code == 200
    (message,) = await pop_until(api, queue, 1)
    assert (message["transactionId"], message["data"]) == ("leaves", content(7))


async def check_replay(api: Api, queue: str) -> None:
    # Replay: a seek brings the same payloads.
    path = f"/api/v1/consumer-groups/reader/queues/{queue}/seek"
    await api.http.post(path, json={"timestamp": "2000-01-01T00:00:00Z"})
    assert {one["data"]["n"] for one in await pop_until(api, queue, 7, consumerGroup="reader")} == {
        1, 2, 3, 7,
    }  # fmt: skip


async def test_a_forgotten_key_may_come_with_another_body(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
) -> None:
    api = open_api(start_broker(QUEEN_ENCRYPTION_KEY=new_key()))
    queue = unique()
    await api.configure(queue, encryptionEnabled=True)
    for number in range(2):
        items = [{"queue": queue, "payload": content(number)}]
        body = {"items": items, "idempotencyKey": "batch"}
        answer = await api.http.post("/api/v1/push", json=body)
        assert [one["status"] for one in answer.json()] == ["queued"]
        assert await database.execute("DELETE FROM queen.push_keys") == "DELETE 1"
    found = await pop_until(api, queue, 2)
    assert [one["data"] for one in found] == [content(0), content(1)]


async def test_every_way_in_and_out(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
) -> None:
    key = new_key()
    api = open_api(start_broker(QUEEN_ENCRYPTION_KEY=key))
    queue, clear = unique(), unique()
    assert (await api.configure(queue, encryptionEnabled=True, retryLimit=0))["options"][
        "encryptionEnabled"
    ]

    pushed = await api.push_items(
        [
            {"queue": queue, "payload": content(1)},
            {"queue": clear, "payload": content(0)},
            {"queue": queue, "payload": content(2), "transactionId": "given", "partition": "é/x"},
        ]
    )
    assert [one["status"] for one in pushed] == ["queued"] * 3
    again = await api.push(queue, content(2), partition="é/x", transactionId="given")
    assert again[0]["status"] == "duplicate"
    operations = [{"type": "push", "items": [{"queue": queue, "payload": content(3)}]}]
    first = await api.transaction(operations, idempotencyKey="once")
    assert await api.transaction(operations, idempotencyKey="once") == first

    assert (
        await database.fetchval(
            "SELECT count(*) FROM queen.messages WHERE is_encrypted"
            " AND payload->>'keyId' IS NOT NULL AND payload->>'iv' IS NOT NULL"
            " AND payload->>'authTag' IS NOT NULL AND payload->>'encrypted' IS NOT NULL"
        )
        == 3
    )
    assert (await dump(database)).count(SECRET) == 1  # of the queue that is not encrypted

    # The id that was made up is the message's, everywhere.
    path = f"/api/v1/messages/{pushed[0]['partition_id']}/{pushed[0]['transaction_id']}"
    shown = (await api.http.get(path)).json()
    assert (shown["payload"], shown["isEncrypted"]) == (content(1), True)

    trace = {
        "transactionId": pushed[0]["transaction_id"],
        "partitionId": pushed[0]["partition_id"],
        "data": {},
        "traceNames": [queue],
    }
    assert (await api.http.post("/api/v1/traces", json=trace)).status_code == 201
    named = (await api.http.get(f"/api/v1/traces/by-name/{queue}")).json()
    assert named["traces"][0]["message_payload"] == content(1)

    found = await pop_until(api, queue, 3, consumerGroup="reader")
    assert sorted(one["data"]["n"] for one in found) == [1, 2, 3]
    assert all(one["data"] == content(one["data"]["n"]) for one in found)
    assert "isEncrypted" not in found[0]
    assert {one["transactionId"] for one in found} >= {
        "given",
        pushed[0]["transaction_id"],
        first["results"][0]["transactionId"],
    }

    await check_dead_letters(api, queue, database)
    await check_replay(api, queue)
    assert (await dump(database)).count(SECRET) == 1
    with pytest.raises(asyncpg.PostgresError, match="encrypted"):
        await database.execute("SELECT queen.push($1, '{}')", queue)


async def test_operations_and_the_spool_hold_no_payload_in_clear(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    environ = {"QUEEN_ENCRYPTION_KEY": new_key(), "QUEEN_SPOOL_DIR": str(disk)}
    api = open_api(start_broker(**environ, **QUEUES_ALL))
    queue, unknown = unique(), unique()
    await api.configure(queue, encryptionEnabled=True)

    async def push(name: str, number: int) -> Any:
        items = [{"queue": name, "payload": content(number)}]
        response = await api.http.post("/api/v1/push", json={"items": items})
        return response.json()[0]

    async def is_queued() -> bool:
        return "operationId" in await push(queue, 1)

    await wait_until_async(is_queued, timeout_s=SOON_S, what="a queued push")
    # Kept on disk: what is for the encrypted queue, and what nobody knows to be for another.
    path = "/api/v1/system/maintenance"
    assert (await api.http.post(path, json={"enabled": True})).status_code == 200
    for name in (queue, unknown):
        assert (await push(name, 2))["reason"] == "maintenance"
    written = b"".join(file.read_bytes() for file in disk.rglob("*") if file.is_file())
    assert queue.encode() in written
    assert SECRET.encode() not in written
    assert (await api.http.post(path, json={"enabled": False})).status_code == 200

    async def is_stored() -> bool:
        rows = await database.fetch(
            "SELECT q.name, m.is_encrypted FROM queen.messages m"
            " JOIN queen.queues q ON q.id = m.queue_id"
            " WHERE NOT EXISTS (SELECT FROM queen.operation_queue o WHERE o.is_blocking)"
        )
        return {(queue, True), (unknown, False)} <= {tuple(row) for row in rows}

    await wait_until_async(is_stored, timeout_s=SOON_S, what="everything to be stored")
    count = await database.fetchval("SELECT count(*) FROM queen.messages WHERE is_encrypted")
    found = await pop_until(api, queue, count)
    assert [one["data"]["n"] for one in found] == [1] * (count - 1) + [2]
    assert [one["data"] for one in await pop_until(api, unknown, 1)] == [content(2)]


async def test_without_the_key_nothing_is_stored_delivered_or_lost(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
) -> None:
    owner = open_api(start_broker(QUEEN_ENCRYPTION_KEY=new_key()))
    stranger = open_api(start_broker(QUEEN_ENCRYPTION_KEY=new_key()))
    keyless = open_api(start_broker())
    queue, mixed = unique(), unique()
    await owner.configure(queue, encryptionEnabled=True)
    await owner.push(queue, content(1), content(2))

    def is_refusal(response: Any) -> bool:
        body = response.json()
        return response.status_code == 503 and (body["code"], "key" in body["error"]) == (
            "encryption_key_missing",
            True,
        )

    body: dict[str, Any] = {"queue": unique(), "options": {"encryptionEnabled": True}}
    assert is_refusal(await keyless.http.post("/api/v1/configure", json=body))
    body = {"items": [{"queue": queue, "payload": 1}]}
    assert is_refusal(await keyless.http.post("/api/v1/push", json=body))
    body = {"operations": [{"type": "push", **body}]}
    assert is_refusal(await keyless.http.post("/api/v1/transaction", json=body))

    for api, is_auto in itertools.product((stranger, keyless), ("false", "true")):
        query = {"autoAck": is_auto, "batch": "10", "consumerGroup": f"auto-{is_auto}"}
        for _ in range(3):

            async def is_refused(api: Api = api, query: dict[str, str] = query) -> bool:
                # Empty while the last one is being handed back.
                response = await api.http.get(f"/api/v1/pop/queue/{queue}", params=query)
                assert response.status_code == 204 or is_refusal(response), response.text
                return response.status_code == 503

            await wait_until_async(is_refused, timeout_s=SOON_S, what="a refusal")
        why = (await api.http.get(f"/api/v1/why/{queue}")).json()
        assert "payload_unreadable" in {one["code"] for one in why["findings"]}
        listed = await api.http.get("/api/v1/messages", params={"queue": queue})
        path = "/api/v1/messages/{partitionId}/{transactionId}".format(
            **listed.json()["messages"][0]
        )
        shown = (await api.http.get(path)).json()
        assert (shown["payload"], shown["isEncrypted"]) == (None, True)
        assert "key" in shown["decryptionError"]
        metrics = (await api.http.get("/metrics/prometheus")).text
        assert "queen_payloads_unreadable_total 0\n" not in metrics

    for is_auto in (False, True):
        group = f"auto-{is_auto}".lower()
        found = await pop_until(owner, queue, 2, autoAck=is_auto, consumerGroup=group)
        assert [one["data"]["n"] for one in found] == [1, 2]

    # A queue that becomes encrypted is so at once, also for a broker that remembers otherwise.
    await stranger.push(mixed, content(1))
    await keyless.push(mixed, content(2))
    await owner.configure(mixed, encryptionEnabled=True)
    body = {"items": [{"queue": mixed, "payload": content(3)}]}
    assert is_refusal(await keyless.http.post("/api/v1/push", json=body))
    await stranger.push(mixed, content(3))
    body = {"operations": [{"type": "push", "items": [{"queue": mixed, "payload": content(4)}]}]}
    assert (await stranger.transaction(body["operations"]))["success"]
    marks = (
        "SELECT array_agg(m.is_encrypted ORDER BY m.seq) FROM queen.messages m JOIN queen.queues q"
    )
    assert await database.fetchval(f"{marks} ON q.id = m.queue_id WHERE q.name = $1", mixed) == [
        False, False, True, True,
    ]  # fmt: skip
    assert [one["data"]["n"] for one in await pop_until(stranger, mixed, 4)] == [1, 2, 3, 4]


async def test_a_ciphertext_opens_only_where_it_belongs(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
) -> None:
    api = open_api(start_broker(QUEEN_ENCRYPTION_KEY=new_key()))
    for case, change in {
        "another transaction id": "transaction_id = 'b'",
        "a changed tag": "payload = replace(payload::text, 'Tag\":\"', 'Tag\":\"A')::json",
        "no envelope": "payload = '{}'",
        "not even an object": "payload = '[1]'",
        "another partition": None,
    }.items():
        queue = unique()
        await api.configure(queue, encryptionEnabled=True)
        await api.push(queue, content(1), transactionId="a", partition="first")
        await api.push(queue, content(2), transactionId="a", partition="second")
        first = "partition_id = (SELECT p.id FROM queen.partitions p JOIN queen.queues q"
        first += " ON q.id = p.queue_id WHERE q.name = $1 AND p.name = 'first')"
        if change is None:
            change = "payload = (SELECT o.payload FROM queen.messages o JOIN queen.queues q"
            change += (
                " ON q.id = o.queue_id WHERE q.name = $1 ORDER BY o.partition_id <> m.partition_id"
            )
            change += " DESC LIMIT 1)"
        await database.execute(f"UPDATE queen.messages m SET {change} WHERE {first}", queue)
        path = f"/api/v1/pop/queue/{queue}/partition/first"
        response = await api.http.get(path)
        assert (response.status_code, response.json()["code"]) == (503, "decryption_failed"), case

        async def has_other(queue: str = queue) -> bool:
            """Only that partition suffers: a pop of both tells of it, and gets the other."""
            response = await api.http.get(f"/api/v1/pop/queue/{queue}?batch=10&partitions=10")
            if response.status_code != 200:
                return False
            return [one["data"]["n"] for one in response.json()["messages"]] == [2]

        await wait_until_async(has_other, timeout_s=SOON_S, what=f"the other one beside {case}")


async def test_keys_are_rotated(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
    database_url: str,
    tmp_path: Path,
) -> None:
    old, new = new_key(), new_key()
    keys = tmp_path / "keys"
    keys.write_text(f"# two keys\n{new}\n\n{old}\n")
    os.chmod(keys, 0o600)
    before = open_api(start_broker(QUEEN_ENCRYPTION_KEY=old))
    after = open_api(start_broker(QUEEN_ENCRYPTION_KEY_FILE=str(keys)))
    moved = open_api(start_broker(QUEEN_ENCRYPTION_KEY=old, QUEEN_ENCRYPTION_KEY_FILE=str(keys)))
    queue = unique()
    await before.configure(queue, encryptionEnabled=True)
    await before.push(queue, content(1))
    await after.push(queue, content(2))
    await moved.push(queue, content(3))
    for api in (after, moved):
        found = await pop_until(api, queue, 3, consumerGroup=unique())
        assert [one["data"]["n"] for one in found] == [1, 2, 3]
    response = await before.http.get(f"/api/v1/pop/queue/{queue}", params={"batch": "9"})
    assert response.status_code == 503
    assert json.loads(response.content)["code"] == "encryption_key_missing"

    # Everything under the new key: sealed with the old one, in clear from before, dead letters.
    clear = unique()
    await after.push(clear, *map(content, range(5)))
    await after.push(clear, content(5), transactionId="given")
    messages = await after.pop(clear, batch=2, consumerGroup="g")
    await after.ack(*messages, status="dlq", group="g")
    await after.configure(clear, encryptionEnabled=True)
    environ = {**os.environ, "QUEEN_ENCRYPTION_KEY_FILE": str(keys)}
    command = [sys.executable, "-m", "queenmq", "db", "reencrypt", "-o", "json", "--batch", "2"]
    command += ["--database-url", database_url]

    def reencrypt(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environ | more, capture_output=True, text=True)

    # With a key that opens nothing, nothing is harmed.
    other = tmp_path / "other"
    other.write_text(new_key())
    failed = reencrypt(QUEEN_ENCRYPTION_KEY_FILE=str(other))
    assert failed.returncode != 0 and "cannot be decrypted" in failed.stderr
    keys.write_text(f"{new}\n{old}\n{other.read_text()}\n")
    first, second = reencrypt(), reencrypt()
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert [json.loads(one.stdout)[0]["encrypted"] for one in (first, second)] == [9, 0]
    assert SECRET not in await dump(database)
    keys.write_text(f"{new}\n")
    rotated = open_api(start_broker(QUEEN_ENCRYPTION_KEY_FILE=str(keys)))
    assert [one["data"]["n"] for one in await pop_until(rotated, queue, 3)] == [1, 2, 3]
    assert [one["data"]["n"] for one in await pop_until(rotated, clear, 6)] == [0, 1, 2, 3, 4, 5]
    assert {one["data"]["n"] for one in await rotated.dead_letters(clear)} == {0, 1}
    audit = (await rotated.http.get("/api/v1/audit")).json()["entries"]
    assert audit[0]["action"] == "payloads.reencrypt"


def _reencrypt(database_url: str, keys: Path) -> tuple[int, dict[str, Any], str]:
    """Run the command. Return its exit code, its row, and what it said."""
    command = [sys.executable, "-m", "queenmq", "db", "reencrypt", "-o", "json"]
    run = subprocess.run(
        [*command, "--database-url", database_url],
        env={**os.environ, "QUEEN_ENCRYPTION_KEY_FILE": str(keys)},
        capture_output=True,
        text=True,
    )
    return run.returncode, json.loads(run.stdout)[0], run.stderr


async def test_a_key_that_spooled_pushes_need_is_not_given_up(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
    database_url: str,
    tmp_path: Path,
) -> None:
    old, new = new_key(), new_key()
    keys = tmp_path / "keys"
    keys.write_text(f"{new}\n{old}\n")
    homes = {"one": tmp_path / "one", "two": tmp_path / "two"}
    brokers = {
        name: start_broker(QUEEN_ENCRYPTION_KEY=old, QUEEN_SPOOL_DIR=str(home))
        for name, home in homes.items()
    }
    apis = {name: open_api(broker) for name, broker in brokers.items()}
    queue = unique()
    await apis["one"].configure(queue, encryptionEnabled=True)

    async def told() -> Any:
        rows = await database.fetch(
            "SELECT value FROM queen.system_state WHERE name LIKE 'spool:%'"
        )
        return {one["directory"]: one["waiting"] for one in (json.loads(row[0]) for row in rows)}

    async def wait_for(expected: Any) -> None:
        async def is_told() -> bool:
            return bool(await told() == expected)

        await wait_until_async(is_told, timeout_s=SOON_S, what=f"the brokers to tell {expected}")

    switched = await apis["two"].http.post("/api/v1/system/maintenance", json={"enabled": True})
    assert switched.status_code == 200
    for number in range(2):
        (kept,) = await apis["two"].push(queue, content(number))
        assert kept["status"] == "buffered"
    await wait_for({str(homes["two"]): 2})
    code, row, said = _reencrypt(database_url, keys)
    assert code != 0 and row["spooled"] == 2, said
    assert (
        f"{os.uname().nodename} ({homes['two']}): 2 waiting" in said
        and str(homes["one"]) not in said
    )
    assert "keep every key" in said

    # Its disk stays as it is when it stops, and so does what it has told.
    brokers["two"].stop()
    switched = await apis["one"].http.post("/api/v1/system/maintenance", json={"enabled": False})
    assert switched.status_code == 200
    assert _reencrypt(database_url, keys)[0] != 0
    # Another machine has its disk now, and what was told is about the same pushes.
    elsewhere = homes["two"].rename(tmp_path / "elsewhere")
    again = open_api(
        start_broker(QUEEN_ENCRYPTION_KEY_FILE=str(keys), QUEEN_SPOOL_DIR=str(elsewhere))
    )
    await wait_for({})
    code, row, said = _reencrypt(database_url, keys)
    assert (code, row["encrypted"], row["spooled"]) == (0, 2, 0), said
    assert {one["data"]["n"] for one in await pop_until(again, queue, 2)} == {0, 1}


async def test_a_key_that_queued_pushes_need_is_not_given_up(
    start_broker: StartBroker,
    open_api: Callable[[BrokerProcess], Api],
    database: asyncpg.Connection,
    database_url: str,
    tmp_path: Path,
) -> None:
    old, new = new_key(), new_key()
    keys = tmp_path / "keys"
    keys.write_text(f"{new}\n{old}\n")
    broker = start_broker(QUEEN_ENCRYPTION_KEY=old)
    api, queue = open_api(broker), unique()
    await api.configure(queue, encryptionEnabled=True)
    await api.push(queue, content(1), transactionId="queued")
    broker.stop()
    # Back into the line it would have come from under load.
    partition, envelope = await database.fetchrow(
        "DELETE FROM queen.messages WHERE transaction_id = 'queued'"
        " RETURNING partition_id, payload::text"
    )
    await database.execute(
        "SELECT FROM queen.queue_push(ARRAY[$1::uuid], '{1}', '{queued}', ARRAY[NULL::uuid],"
        " ARRAY[$2::text], ARRAY[NULL::text], '{t}', '{1}', '{1}', '{f}', 10)",
        partition,
        envelope,
    )

    code, row, said = _reencrypt(database_url, keys)
    assert code != 0 and "1 queued pushes" in said, said
    assert (row["encrypted"], row["queued"]) == (0, 1)
    api = open_api(start_broker(QUEEN_ENCRYPTION_KEY_FILE=str(keys)))
    assert [one["data"] for one in await pop_until(api, queue, 1)] == [content(1)]
    code, row, said = _reencrypt(database_url, keys)
    assert (code, row["encrypted"], row["queued"]) == (0, 1, 0), said
