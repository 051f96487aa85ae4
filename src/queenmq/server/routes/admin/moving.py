"""POST and GET /api/v1/migration/...: copy the database to another PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.targets import MoveTargets
from queenmq.clock import utc_now
from queenmq.errors import Conflict, InvalidRequest, MoveError, QueenError, StorageUnavailable
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.requests.times import iso
from queenmq.server.routing.spec import route
from queenmq.storage.moving import mover
from queenmq.storage.moving.alone import moving_alone
from queenmq.storage.moving.plan import Progress
from queenmq.storage.stores.operations import PostgresOperationStore

logger = logging.getLogger(__name__)

_HOME = "/api/v1/migration/"
#: The name of the state that all brokers share.
_STATE = "migration"
_SAVE_S = 1.0
_SAVE_TRIES = 60
#: A copy without a sign of life for this long has stopped.
_SILENT = timedelta(seconds=60)
#: Stands for a password that was not given. Without one the driver would take the broker's own from
#: PGPASSWORD or ~/.pgpass, and hand it to whatever server the caller names.
_NO_PASSWORD = "none"  # noqa: S105 - not a secret
_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?")


class MigrationRoutes:
    """One copy at a time, run by the process that was asked. Any broker reports its progress."""

    def __init__(
        self, states: PostgresOperationStore, *, source_url: str, targets: MoveTargets
    ) -> None:
        self._states = states
        self._targets = targets
        self._source_url = source_url
        self._task: asyncio.Task[None] | None = None

    @route("POST", _HOME + "test-connection", wire.TargetTested, request=wire.MigrationTarget)
    async def test(self, request: Request) -> Response:
        """Check whether a copy could go there."""
        target = await read_request(request, wire.MigrationTarget)
        url = _url_of(target)
        try:
            self._targets.check(target.host, target.port)
            version = await mover.look_at(url)
        except QueenError as error:
            return json_answer(wire.TargetTested(False, "no connection", error=str(error)))
        return json_answer(wire.TargetTested(True, "the server accepts a copy", version=version))

    @route("POST", _HOME + "start", wire.MigrationStarted, request=wire.MigrationTarget)
    async def start(self, request: Request) -> Response:
        """Start a copy. Brokers are paused from now on."""
        target = await read_request(request, wire.MigrationTarget)
        url = _url_of(target)
        self._targets.check(target.host, target.port)
        async with contextlib.AsyncExitStack() as turn:
            # First of all: of two requests at once one sees that the other copies.
            await self._take_turn(turn)
            await self._refuse_while_running("a copy is running; wait for it, see status")
            started = wire.MigrationStatus(
                status="running", phase="starting", started_at=iso(utc_now())
            )
            await self._save(started)
            work = self._run(url, started, turn.pop_all())
            self._task = asyncio.create_task(work, name="database-move")
        return json_answer(wire.MigrationStarted(True, "the copy has begun; see status"))

    @route("GET", _HOME + "status", wire.MigrationStatus)
    async def status(self, request: Request) -> Response:
        """Return the progress of the last copy."""
        return json_answer(await self._read())

    @route("POST", _HOME + "validate", wire.MigrationValidated, request=wire.MigrationTarget)
    async def validate(self, request: Request) -> Response:
        """Compare all tables of both databases. Reads every row of both."""
        target = await read_request(request, wire.MigrationTarget)
        url = _url_of(target)
        self._targets.check(target.host, target.port)
        try:
            await mover.check_reach(url)
        except StorageUnavailable as error:
            # A 503 would say that our own database is away.
            raise Conflict(
                f"the target {target.host!r:.80}, port {target.port}, cannot be reached; check it"
                " with test-connection"
            ) from error
        compared = await mover.compare(self._source_url, url)
        tables = [
            wire.TableCompared(one.table, one.source.rows, one.target.rows, one.is_match)
            for one in compared
        ]
        all_match = all(one.match for one in tables)
        return json_answer(wire.MigrationValidated(True, all_match, tables))

    @route("POST", _HOME + "reset", wire.MigrationReset)
    async def reset(self, request: Request) -> Response:
        """Forget the last copy. The copied data stays."""
        await self._refuse_while_running("a copy is running; it cannot be forgotten before its end")
        await self._save(wire.MigrationStatus(status="idle"))
        return json_answer(wire.MigrationReset(True, "the last copy is forgotten"))

    async def _take_turn(self, turn: contextlib.AsyncExitStack) -> None:
        try:
            await turn.enter_async_context(moving_alone(self._source_url))
        except MoveError as error:
            raise Conflict(str(error)) from error

    async def _run(
        self, url: str, started: wire.MigrationStatus, turn: contextlib.AsyncExitStack
    ) -> None:
        """Copy, and note the end before the next copy may begin."""
        async with turn:
            await self._save_at_last(await self._move(url, started))

    async def _move(self, url: str, started: wire.MigrationStatus) -> wire.MigrationStatus:
        told = started

        def tell(progress: Progress) -> None:
            nonlocal told
            told = _with(started, **progress._asdict())

        is_over = asyncio.Event()
        work = self._save_often(lambda: told, is_over)
        saving = asyncio.create_task(work, name="database-move-status")
        try:
            await mover.move_held(self._source_url, url, tell)
            return _with(told, status="completed")
        except QueenError as error:
            return _with(told, status="failed", error=str(error))
        except Exception as error:
            # Log a bug, and do not leave a copy that seems to run forever.
            logger.exception("moving the database failed", extra={"event": "move_broke"})
            return _with(told, status="failed", error=f"it failed: {type(error).__name__}")
        finally:
            is_over.set()
            # Cancelled, a write under way might still be carried out, after that of the end.
            await saving

    async def _save_often(self, read: Any, is_over: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SAVE_S):
                    await is_over.wait()
                    return
            # A broker whose calls wait for the copy may believe that its database is lost.
            with contextlib.suppress(QueenError):
                await self._save(read())

    async def _save_at_last(self, ended: wire.MigrationStatus) -> None:
        for _ in range(_SAVE_TRIES):
            try:
                await self._save(ended)
            except QueenError as error:
                facts = {"event": "move_status_unsaved"}
                logger.warning("the end of a move is not noted yet: %s", error, extra=facts)
                await asyncio.sleep(_SAVE_S)
            else:
                return

    async def _save(self, status: wire.MigrationStatus) -> None:
        fresh = _with(status, updated_at=iso(utc_now()))
        await self._states.write_state(_STATE, msgspec.to_builtins(fresh))

    async def _read(self) -> wire.MigrationStatus:
        state = (await self._states.read_state()).get(_STATE)
        if not isinstance(state, dict):
            return wire.MigrationStatus(status="idle")
        status = msgspec.convert(state, wire.MigrationStatus)
        updated = datetime.fromisoformat(status.updated_at or "1970-01-01T00:00:00+00:00")
        if status.status == "running" and updated < utc_now() - _SILENT:
            return _with(status, status="failed", error="the broker that ran it is gone")
        return status

    async def _refuse_while_running(self, text: str) -> None:
        if (await self._read()).status == "running":
            raise Conflict(text)


def _with(before: wire.MigrationStatus, /, **changes: Any) -> wire.MigrationStatus:
    return msgspec.structs.replace(before, **changes)


def _url_of(target: wire.MigrationTarget) -> str:
    """Return the URL of a target. Raises InvalidRequest for what cannot be one."""
    if not target.host or not target.database or not target.user:
        raise InvalidRequest("host, database and user are required and must not be empty")
    port = str(target.port)
    if not (port.isascii() and port.isdecimal()) or not 1 <= int(port) <= 65_535:
        raise InvalidRequest(f"port {port!r:.50} is not a port; use 1 to 65535")
    user, database = quote(target.user, safe=""), quote(target.database, safe="")
    secret = quote(target.password or _NO_PASSWORD, safe="")
    place, options = f"{_name_of(target.host)}:{port}", {}
    if target.host.startswith("/"):
        # A directory with sockets.
        place, options = "", {"host": target.host, "port": port}
    if target.ssl:
        options["sslmode"] = "require"
    query = f"?{urlencode(options)}" if options else ""
    return f"postgresql://{user}:{secret}@{place}/{database}{query}"


def _name_of(host: str) -> str:
    """Return a host as in URLs. Raise InvalidRequest if it is more than a host."""
    if host.startswith("/") and "," not in host:
        return ""
    if _NAME.fullmatch(host):
        return host
    if _IPV6.fullmatch(host):
        return f"[{host}]"
    raise InvalidRequest(
        f"host {host!r:.80} is neither a name nor an address; send one host, and the port as port"
    )
