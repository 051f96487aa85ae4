"""Brokers for tests: `queen serve` as a process of its own, and HTTP calls in one line."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.folders import make_folder
from tests.support.waiting import wait_until

#: Seconds for anything that takes well under one on an idle machine.
SOON_S = 30.0

_numbers = itertools.count(1)


def unique(prefix: str = "queue") -> str:
    """A name no other test uses."""
    return f"{prefix}-{next(_numbers)}-{uuid.uuid4().hex[:8]}"


@functools.cache
def _spools() -> Path:
    home = make_folder("queen-test-spool-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _own_spool(arguments: list[str]) -> dict[str, str]:
    """A spool per database, which would otherwise be below the working directory.

    Databases of tests are copies of one and have its id; a broker that is started again on the same
    one finds what its predecessor has left.
    """
    if "--database-url" not in arguments:
        return {}
    url = arguments[arguments.index("--database-url") + 1]
    return {"QUEEN_SPOOL_DIR": str(_spools() / hashlib.sha256(url.encode()).hexdigest()[:16])}


def _environ() -> dict[str, str]:
    """The environment, without what is for tests alone: brokers warn of what they do not know."""
    return {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_TEST_")}


class BrokerProcess:
    """A running `queen serve`."""

    def __init__(self, arguments: list[str], *, environ: Mapping[str, str] | None = None) -> None:
        self.log: list[str] = []
        self._is_asked = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "queenmq", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**_environ(), **_own_spool(arguments), **(environ or {})},
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        if "ready on " not in ready:
            _, errors = self.process.communicate(timeout=SOON_S)
            raise AssertionError(f"broker did not start: {ready}{errors}")
        self.url = ready.split("ready on ")[1].strip()

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """End it the hard way."""
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def begin_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, once: a second signal would kill it in its last moments."""
        if not self._is_asked and self.process.poll() is None:
            self.process.send_signal(number)
        self._is_asked = True

    def stop(self) -> int:
        """End it the polite way; its exit code."""
        self.begin_stop()
        return self._reap()

    def close(self) -> None:
        """Make sure that it has ended, and that none of its pipes is left."""
        if self.process.poll() is None:
            self.stop()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _reap(self) -> int:
        try:
            _, errors = self.process.communicate(timeout=SOON_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError("the broker did not stop") from None
        self.log.extend(errors.splitlines())
        return self.process.returncode


@contextlib.contextmanager
def running_broker(
    *, database_url: str | None = None, data_dir: Path | None = None, **environ: str
) -> Iterator[BrokerProcess]:
    """A broker on a database, or on a data directory of its own, stopped at the end."""
    where = (
        ["--database-url", database_url] if database_url else ["--data-dir", str(data_dir or "")]
    )
    broker = BrokerProcess(["--log-level", "warning", *where], environ=environ)
    try:
        yield broker
    finally:
        broker.close()


class Api:
    """The wire contract in short calls; every method returns decoded JSON."""

    def __init__(self, url: str) -> None:
        # Without the certificate store that a client loads by default: 20 ms in each of many tests.
        self.http = httpx.AsyncClient(base_url=url, timeout=SOON_S, verify=False)

    async def close(self) -> None:
        await self.http.aclose()

    async def push(
        self, queue: str, *payloads: Any, partition: str | None = None, **item: Any
    ) -> Any:
        """Push payloads to one partition; the answer's array."""
        place = {} if partition is None else {"partition": partition}
        items = [{"queue": queue, "payload": payload, **place, **item} for payload in payloads]
        return await self.push_items(items)

    async def push_items(self, items: list[dict[str, Any]]) -> Any:
        response = await self.http.post("/api/v1/push", json={"items": items})
        assert response.status_code == 201, response.text
        return response.json()

    async def pop(self, queue: str, *, partition: str | None = None, **query: Any) -> list[Any]:
        """The messages of one pop; an empty list when there are none."""
        path = f"/api/v1/pop/queue/{queue}"
        if partition is not None:
            path += f"/partition/{partition}"
        response = await self.http.get(path, params=_query(query))
        if response.status_code == 204:
            return []
        assert response.status_code == 200, response.text
        messages: list[Any] = response.json()["messages"]
        return messages

    async def data(self, queue: str, **query: Any) -> list[Any]:
        """Like pop, payloads only."""
        return [message["data"] for message in await self.pop(queue, **query)]

    async def ack(
        self,
        *messages: Mapping[str, Any],
        status: str = "completed",
        group: str | None = None,
        error: str | None = None,
        lease: bool = True,
    ) -> Any:
        """Settle messages of one group with one status."""
        items = [
            {
                "transactionId": message["transactionId"],
                "partitionId": message["partitionId"],
                "status": status,
                **({"leaseId": message["leaseId"]} if lease else {}),
                **({"error": error} if error else {}),
            }
            for message in messages
        ]
        body = {"acknowledgments": items, "consumerGroup": group}
        response = await self.http.post("/api/v1/ack/batch", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    async def configure(
        self, queue: str, *, namespace: str = "", task: str = "", **options: Any
    ) -> Any:
        body = {"queue": queue, "namespace": namespace, "task": task, "options": options}
        response = await self.http.post("/api/v1/configure", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    async def transaction(self, operations: list[dict[str, Any]], **more: Any) -> Any:
        body = {"operations": operations, **more}
        response = await self.http.post("/api/v1/transaction", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    async def dead_letters(self, queue: str, **query: Any) -> list[Any]:
        response = await self.http.get("/api/v1/dlq", params=_query({"queue": queue, **query}))
        assert response.status_code == 200, response.text
        messages: list[Any] = response.json()["messages"]
        return messages


def _query(query: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(value) if isinstance(value, bool) else str(value)
        for name, value in query.items()
    }


def is_alive(pid: int) -> bool:
    """Return whether a process with this id runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_exit(pid: int) -> None:
    """Wait until no process has this id."""
    wait_until(lambda: not is_alive(pid), timeout_s=SOON_S, what=f"process {pid} to end")
