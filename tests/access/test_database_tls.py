"""PostgreSQL over TLS with sslmode=verify-full: everything that opens a connection checks it."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
import trustme

from queenmq.spark.database.connection import connect
from tests.support.broker import SOON_S, BrokerProcess, running_broker
from tests.support.database_tls import database_tls
from tests.support.own_postgres import OwnPostgres
from tests.support.waiting import wait_until


def run_check(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queenmq", "db", "check", "--database-url", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)


async def test_verify_full(server: OwnPostgres, tmp_path: Path) -> None:
    database = await asyncpg.connect(server.url)
    right, wrong = trustme.CA(), trustme.CA()
    right.cert_pem.write_to_path(str(tmp_path / "right.pem"))
    wrong.cert_pem.write_to_path(str(tmp_path / "wrong.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    right.issue_cert("localhost").configure_cert(context)
    plain = urlsplit(server.url)
    with database_tls(server.address, context) as front:

        def url_of(host: str, ca: str) -> str:
            account = plain.netloc.rpartition("@")[0]
            trust = f"sslmode=verify-full&sslrootcert={tmp_path / ca}"
            return f"postgresql://{account}@{host}:{front.port}{plain.path}?{trust}"

        good, spool = url_of("localhost", "right.pem"), str(tmp_path / "spool")
        with running_broker(database_url=good, QUEEN_SPOOL_DIR=spool) as broker:
            push = {"items": [{"queue": "q", "payload": 1}]}
            assert httpx.post(f"{broker.url}/api/v1/push", json=push).status_code == 201
            # Another session pushes, which the broker learns over the connection that listens.
            await database.execute("SELECT queen.push('q', '2')")
            answer = httpx.get(f"{broker.url}/api/v1/pop/queue/q?wait=true&batch=2&timeout=20000")
            assert [one["data"] for one in answer.json()["messages"]] == [1, 2]
            listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            assert await database.fetchval(listening) >= 1
        # The pool and the connection that listens.
        wait_until(lambda: front.secure >= 2, timeout_s=SOON_S, what="connections with TLS")
        assert run_check(good).returncode == 0
        with connect(good) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
        assert front.refused == 0
        before = front.secure

        # Another authority, and another name than the certificate has.
        for bad in (url_of("localhost", "wrong.pem"), url_of("127.0.0.1", "right.pem")):
            checked = run_check(bad)
            assert checked.returncode != 0 and "certificate" in checked.stderr, checked.stderr
            assert "Traceback" not in checked.stderr
            with pytest.raises(Exception, match=r"certificate|TLS|SSL"):
                connect(bad)
            with pytest.raises(AssertionError, match="certificate"):
                BrokerProcess(["--database-url", bad], environ={"QUEEN_SPOOL_DIR": spool})
        # In TLS 1.3 a server learns late that its client has turned away.
        assert await database.fetchval("SELECT count(*) FROM queen.messages") == 2
        assert front.secure - before <= 8
    await database.close()
