"""`queen tail`: prints messages as they arrive, without taking them from consumers."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from queenmq import clock
from queenmq.cli.display.output import Format, cell
from queenmq.cli.display.safe import say
from queenmq.cli.display.times import BEGINNING, parse_time
from queenmq.cli.exits import UsageProblem
from queenmq.cli.messages.pop import Partition
from queenmq.cli.session import QueueName, Session
from queenmq.ids import random_uuid

_POLL_MS = 30_000
#: Seconds between two tries while the server is away.
_AWAY_S = 1.0
#: A server that lost a client has noticed after this time.
_AFTERMATH_S = 0.25
#: The exit code of a process that SIGTERM ends.
_TERMINATED = 143


def tail(
    session: Session,
    queue: QueueName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing messages as they arrive.")
    ] = False,
    lines: Annotated[
        int,
        typer.Option(
            "--lines", "-n", min=0, max=1000, help="Begin with this many of the newest messages."
        ),
    ] = 10,
    since: Annotated[
        str | None, typer.Option(help="Begin with everything since a time, such as '15m ago'.")
    ] = None,
    partition: Partition = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Read as this group, from its cursor. Printed messages count as read.",
        ),
    ] = None,
) -> None:
    """Print the newest messages of a queue, and with -f new ones as they arrive.

    Consumers lose nothing: -f and --since read as a group of their own, which is deleted at the
    end.

    Example: queen tail orders -n 5

    Example: queen tail orders --since '15m ago' --partition customer-42
    """
    if group is not None and since is not None:
        raise UsageProblem("--since and --group exclude each other; pass one of them")
    if follow and session.out.is_document:
        raise UsageProblem(
            f"-o {session.out.format} prints one document, which -f would never end; use -o ndjson"
        )
    if follow:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    else:
        session.require_queue(queue)
    place = _Place(session, queue, partition)
    if group is not None:
        _print(session, place.read(group, follow=follow))
    elif since is not None:
        start = parse_time(since, now_ms=clock.unix_ms())
        with place.own_group(start) as name:
            _print(session, place.read(name, follow=follow))
    elif not follow:
        _print(session, place.last(lines))
    else:
        # The group starts before the look back, so that nothing falls in between.
        with place.own_group("now") as name:
            seen = list(place.last(lines))
            _print(session, seen)
            ids = {message["id"] for message in seen}
            _print(session, (one for one in place.read(name, follow=True) if one.id not in ids))


def _print(session: Session, messages: Iterable[Any]) -> None:
    if session.out.is_document:
        session.out.value([dict(message) for message in messages])
        return
    for message in messages:
        if session.out.format is Format.NDJSON:
            session.out.line(dict(message))
        else:
            words = (message["createdAt"], message["partition"], cell(message["data"]))
            say("  ".join(words))


class _Place:
    """The place to read: a queue or one of its partitions."""

    def __init__(self, session: Session, queue: str, partition: str | None) -> None:
        self._session = session
        self._queue = queue
        self._partition = partition
        #: What the first pop of an own group gave.
        self._first: list[Any] = []
        #: Whether the last pop got no answer, which is said once.
        self._is_away = False

    def last(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the last messages, oldest first."""
        if not count:
            return
        admin = self._session.queen.admin
        found = admin.list_messages(
            queue=self._queue, partition=self._partition, limit=count, from_=BEGINNING
        )
        for one in reversed(found.messages):
            whole = admin.get_message(one.partition_id, one.transaction_id)
            yield {**one, "data": whole.payload}

    @contextlib.contextmanager
    def own_group(self, start: str) -> Iterator[str]:
        """Yield a group of this command alone, and delete it afterwards."""
        name = f"queen-tail-{random_uuid()}"
        try:
            # The first pop fixes the start.
            self._first = self._pop(name, wait=False, start=start)
            yield name
        finally:
            self._forget(name)

    def _forget(self, group: str) -> None:
        """Delete the group twice.

        A pop that Ctrl-C cut off may still run on the server and create it again.
        """
        from queenmq.client.errors import ClientError

        try:
            self._session.queen.delete_consumer_group(group, queue=self._queue)
            threading.Event().wait(_AFTERMATH_S)
            self._session.queen.delete_consumer_group(group, queue=self._queue)
        except ClientError:
            # Not what ended the command, and must not hide it.
            self._session.out.note(
                f"queen: group {group} is left on the server; remove it with"
                f" queen groups delete {group} --yes"
            )

    def read(self, group: str, *, follow: bool) -> Iterator[Any]:
        """Yield the messages that the group has not read, then new ones as they arrive."""
        yield from self._first
        while messages := self._pop(group, wait=False):
            yield from messages
        while follow:
            yield from self._patient_pop(group)

    def _patient_pop(self, group: str) -> list[Any]:
        from queenmq.client.errors import ServerBusy, Unreachable

        try:
            messages = self._pop(group, wait=True)
        except (ServerBusy, Unreachable) as error:
            if not self._is_away:
                self._session.out.note(f"queen: {error}; retrying until the server is back")
            self._is_away = True
            threading.Event().wait(_AWAY_S)
            return []
        if self._is_away:
            self._session.out.note("queen: the server is back")
        self._is_away = False
        return messages

    def _pop(self, group: str, *, wait: bool, start: str | None = None) -> list[Any]:
        return self._session.queen.pop(
            self._queue,
            group=group,
            partition=self._partition,
            batch=100,
            partitions=1 if self._partition is not None else 20,
            wait=wait,
            timeout_ms=_POLL_MS,
            auto_ack=True,
            subscription_from=start,
        )
