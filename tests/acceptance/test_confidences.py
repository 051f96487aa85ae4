"""Answers say nothing about the database; the log has it under the id that the answer shows."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire, pop_path
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

_ID = "00000000-0000-4000-8000-000000000001"
#: An ordinary role, because nothing can be revoked from a superuser.
_ROLE = (
    "CREATE ROLE keeper_of_secrets LOGIN",
    "GRANT CREATE ON DATABASE queen TO keeper_of_secrets",
    "GRANT ALL ON SCHEMA queen TO keeper_of_secrets",
    "GRANT ALL ON ALL TABLES IN SCHEMA queen TO keeper_of_secrets",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO keeper_of_secrets",
)
_TABLES = "ALL TABLES IN SCHEMA queen"
_FUNCTIONS = "ALL FUNCTIONS IN SCHEMA queen"
_DISK_FULL = """
CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE 'could not extend file "base/16384/16385"' USING ERRCODE = 'disk_full'; END $$
"""
_ON_EACH = """
DO $$ DECLARE v_name text; BEGIN
FOR v_name IN SELECT oid::regclass::text FROM pg_class
    WHERE relnamespace = 'queen'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
LOOP EXECUTE format('CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON %s
    FOR EACH STATEMENT EXECUTE FUNCTION public.full_disk()', v_name); END LOOP; END $$
"""


class Fault(NamedTuple):
    """What goes wrong with the database, and how it is put right."""

    name: str
    break_it: tuple[str, ...]
    mend_it: tuple[str, ...] = ()


FAULTS = (
    Fault(
        "a constraint",
        ("ALTER TABLE queen.messages ADD CONSTRAINT secret_rule CHECK (payload::text <> '\"x\"')",),
        ("ALTER TABLE queen.messages DROP CONSTRAINT secret_rule",),
    ),
    Fault(
        "tables revoked",
        (f"REVOKE ALL ON {_TABLES} FROM keeper_of_secrets",),
        (f"GRANT ALL ON {_TABLES} TO keeper_of_secrets",),
    ),
    Fault(
        "functions revoked",
        (f"REVOKE EXECUTE ON {_FUNCTIONS} FROM keeper_of_secrets",),
        (f"GRANT EXECUTE ON {_FUNCTIONS} TO keeper_of_secrets",),
    ),
    Fault(
        "full disk",
        (_DISK_FULL, _ON_EACH),
        ("DROP FUNCTION public.full_disk CASCADE",),
    ),
    # Last, because what it takes away does not come back.
    Fault("all gone", ("DROP SCHEMA queen CASCADE",)),
)
_HEALTH = ("/health", "/health/ready", "/health/live", "/metrics", "/metrics/prometheus")
_PATHS = (
    *_HEALTH,
    "/api/v1/resources/queues",
    "/api/v1/consumer-groups",
    "/api/v1/dlq",
    "/api/v1/messages",
    "/api/v1/operations",
    "/api/v1/status",
    "/api/v1/traces/names",
    "/api/v1/analytics/retention",
    "/api/v1/analytics/pipeline",
)


async def _ask_everything(wire: Wire, queue: str, words: dict[str, str]) -> dict[str, Answer]:
    """Ask a route of every kind that meets the database."""
    ack = {"transactionId": "t", "partitionId": words["partition"], "leaseId": _ID}
    push = {"items": [{"queue": queue, "payload": "x"}, {"queue": unique(), "payload": "x"}]}
    operations = [{"type": "push", "items": push["items"]}]
    posts = {
        "/api/v1/push": push,
        "/api/v1/ack": ack,
        "/api/v1/ack/batch": {"acknowledgments": [ack, ack]},
        "/api/v1/transaction": {"operations": operations},
        f"/api/v1/lease/{_ID}/extend": {},
        "/api/v1/configure": {"queue": queue, "options": {"leaseTime": 5}},
        "/api/v1/traces": {**ack, "data": {"text": "x"}},
    }
    answers = {path: await wire.call("POST", path, body) for path, body in posts.items()}
    for path in (pop_path(queue), *_PATHS):
        answers[path] = await wire.call("GET", path)
    return answers


async def _find_secrets(server: OwnPostgres) -> list[str]:
    """Every name that an answer must not have. Those of one word are English words as well."""
    session = await asyncpg.connect(server.url)
    rows = await session.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'queen'::regnamespace UNION"
        " SELECT proname FROM pg_proc WHERE pronamespace = 'queen'::regnamespace UNION"
        " SELECT conname FROM pg_constraint WHERE connamespace = 'queen'::regnamespace"
    )
    await session.close()
    names = [row[0] for row in rows if "_" in row[0]]
    assert len(names) > 50
    says = ["relation", "constraint", "permission denied", "does not exist", "base/16384"]
    return [*names, "keeper_of_secrets", "secret_rule", server.address, *says]


def _assert_keeps(answer: Answer, secrets: list[str], where: str) -> None:
    text = f"{answer.headers} {answer.body}"
    if "prometheus" in where:
        # Names of metrics are not names of tables.
        secrets = [one for one in secrets if " " in one or "." in one or "secret" in one]
    found = [one for one in secrets if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text)]
    assert not found, (where, answer)
    assert not re.search(r"\b(SELECT|INSERT|UPDATE|FROM|WHERE)\b", text), (where, answer)


def _error_id_of(answer: Answer, where: str) -> str | None:
    """The id of an answer; every failure of a route has one."""
    is_probe = where.split(": ")[1] in _HEALTH
    if answer.status < 500 and "SQLSTATE" not in str(answer.body):
        return None
    if is_probe:
        return None
    error_id: str = answer.body["errorId"]
    return error_id


async def test_no_fault_of_the_database_shows_in_an_answer_and_every_id_is_in_the_log(
    server: OwnPostgres, tmp_path: Path
) -> None:
    await server.execute(*_ROLE)
    secrets = await _find_secrets(server)
    url = server.url.replace("queen@", "keeper_of_secrets@")
    queue, ids, failed = unique(), set[str](), dict[str, int]()
    async with _running(url, tmp_path) as broker, Wire(broker.url) as wire:
        pushed = await wire.push(queue, 1)
        words = {"partition": pushed.body[0]["partition_id"]}
        for fault in FAULTS:
            await server.execute(*fault.break_it)
            # The catalogue knows the queue, so a second round meets other calls than the first.
            for _ in range(2):
                for path, answer in (await _ask_everything(wire, queue, words)).items():
                    where = f"{fault.name}: {path}"
                    _assert_keeps(answer, secrets, where)
                    if error_id := _error_id_of(answer, where):
                        ids.add(error_id)
                        failed[fault.name] = failed.get(fault.name, 0) + 1
            await server.execute(*fault.mend_it)
            if fault.mend_it:
                await _wait_until_stored(wire)
    log = "\n".join(broker.log)
    assert not [one for one in ids if f"error_id={one}" not in log]
    assert "Traceback" not in log
    assert failed.keys() == {fault.name for fault in FAULTS}
    # What answers leave out is in the log.
    for secret in ("secret_rule", "permission denied", "base/16384", "does not exist"):
        assert secret in log


async def test_a_database_that_is_not_there_is_not_named(tmp_path: Path) -> None:
    url = "postgresql://keeper_of_secrets:hush@secret-host.invalid:5433/secret_base"
    async with _running(url, tmp_path) as broker, Wire(broker.url) as wire:
        answers = await _ask_everything(wire, unique(), {"partition": _ID})
    log = "\n".join(broker.log)
    assert answers["/api/v1/push"].status == 202
    assert [answers[path].status for path in ("/api/v1/ack", "/health")] == [503, 503]
    secrets = ["keeper_of_secrets", "hush", "secret-host.invalid", "5433", "secret_base"]
    for path, answer in answers.items():
        _assert_keeps(answer, secrets, f"away: {path}")
        error_id = _error_id_of(answer, f"away: {path}")
        assert error_id is None or f"error_id={error_id}" in log
    assert "secret-host.invalid" in log and "hush" not in log


@contextlib.asynccontextmanager
async def _running(url: str, home: Path) -> AsyncIterator[BrokerProcess]:
    """A broker; its log is there when it has ended."""
    words = ["--log-level", "warning", "--database-url", url]
    environ = {"QUEEN_SPOOL_DIR": str(home / "spool")}
    broker = await asyncio.to_thread(BrokerProcess, words, environ=environ)
    try:
        yield broker
    finally:
        await asyncio.to_thread(broker.stop)


async def _wait_until_stored(wire: Wire) -> None:
    async def is_stored() -> bool:
        return (await wire.push(unique(), 1)).status == 201

    await wait_until_async(is_stored, timeout_s=2 * SOON_S, what="a push to be stored")
