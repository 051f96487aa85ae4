"""A broker with authentication, its database, and pages that are logged in, for tests of views."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx

from tests.support.broker import SOON_S, BrokerProcess
from tests.support.browser import Watched
from tests.support.tokens import signed
from tests.support.waiting import wait_until

HOSTILE = "<img src=x onerror=alert(1)>"


def apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in another thread: the browser's driver keeps a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def becomes(predicate: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    wait_until(predicate, timeout_s=SOON_S, what=what)


class World:
    """The broker that the tests of a file share. Names of queues keep them apart."""

    def __init__(self, broker: BrokerProcess, database_url: str) -> None:
        self.broker = broker
        self.database_url = database_url

    def call(
        self, method: str, path: str, body: Any = None, *, role: str = "admin", status: int = 200
    ) -> Any:
        """Send a request as somebody of this role; the decoded answer."""
        headers = {"authorization": f"Bearer {signed(role=role)}"}
        response = httpx.request(
            method, self.broker.url + path, json=body, headers=headers, timeout=SOON_S
        )
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def push(self, queue: str, *payloads: Any, partition: str = "p") -> Any:
        items = [{"queue": queue, "partition": partition, "payload": one} for one in payloads]
        return self.call("POST", "/api/v1/push", {"items": items}, status=201)

    def pop(self, queue: str, group: str, batch: int = 1) -> list[Any]:
        path = f"/api/v1/pop/queue/{quote(queue, safe='')}"
        found: list[Any] = self.call(
            "GET", f"{path}?batch={batch}&consumerGroup={quote(group, safe='')}"
        )["messages"]
        return found

    def bury(self, message: Any, group: str, error: str) -> None:
        """Ack a message so that it becomes a dead letter."""
        names = ("transactionId", "partitionId", "leaseId")
        ack = {name: message[name] for name in names} | {"status": "dlq", "error": error}
        self.call("POST", "/api/v1/ack", ack | {"consumerGroup": group})

    def fetch(self, sql: str, *args: Any) -> Any:
        """One value of the database."""
        return self.on_database(lambda session: session.fetchval(sql, *args))

    def on_database(self, work: Callable[[asyncpg.Connection], Coroutine[Any, Any, Any]]) -> Any:
        """Do something with a session, in one transaction."""

        async def run() -> Any:
            session = await asyncpg.connect(self.database_url)
            try:
                async with session.transaction():
                    return await work(session)
            finally:
                await session.close()

        return apart(run())

    def wait_for(self, expected: Any, sql: str, *args: Any) -> None:
        """Wait until the database has this value."""
        becomes(lambda: self.fetch(sql, *args) == expected, f"{expected} of {sql}")

    def lag(self, group: str, queue: str) -> Any:
        """Messages before a group, or None when it is not on the queue."""
        found = self.call("GET", "/api/v1/consumer-groups")
        return next(
            (one["totalLag"] for one in found if (one["name"], one["queueName"]) == (group, queue)),
            None,
        )

    def enter(self, watched: Watched, role: str, place: str) -> Any:
        """Log in as somebody of this role and go to a place; the page."""
        login = f"{watched.url}/api/login"
        answer = watched.page.context.request.post(login, data={"token": signed(role=role)})
        assert answer.ok, answer.text()
        return watched.open(place)


def confirm(page: Any, title: str, action: str, typed: str | None = None) -> None:
    """Answer the question of a dialog; with `typed` it is refused until the text is there."""
    dialog = page.get_by_role("dialog", name=title)
    button = dialog.get_by_role("button", name=action, exact=True)
    if typed is not None:
        assert button.is_disabled()
        dialog.get_by_role("textbox").fill(typed)
    button.click()
    dialog.wait_for(state="detached")
