"""`queen tail`: prints messages as they arrive, without taking them from consumers."""

from __future__ import annotations

import contextlib
import itertools
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
from queenmq.cli.messages.looking import Looking, insist
from queenmq.cli.messages.pop import Partition
from queenmq.cli.session import QueueName, Session
from queenmq.ids import random_uuid

_POLL_MS = 30_000
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
    end. With a token that may not delete groups they list the messages instead, once a second.

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
    place, looking = _Place(session, queue, partition), Looking(session, queue, partition)
    if group is not None:
        _print(session, place.read(group, follow=follow))
        return
    start = None if since is None else parse_time(since, now_ms=clock.unix_ms())
    if start is None and not follow:
        _print(session, looking.last(lines))
    elif session.may_delete("pop"):
        _read_as_group(session, place, looking, start, lines, follow)
    else:
        _read_without_group(session, looking, start, lines, follow)


def _read_as_group(
    session: Session,
    place: _Place,
    looking: Looking,
    start: str | None,
    lines: int,
    follow: bool,
) -> None:
    # The group starts before the look back, so that nothing falls in between.
    with place.own_group(start or "now") as name:
        seen = list(looking.last(lines)) if start is None else []
        more = place.read(name, follow=follow)
        ids = {message["id"] for message in seen}
        _print(session, itertools.chain(seen, (one for one in more if one.id not in ids)))


def _read_without_group(
    session: Session, looking: Looking, start: str | None, lines: int, follow: bool
) -> None:
    found = looking.last(lines) if start is None else looking.since(start)
    more = looking.follow(start or BEGINNING) if follow else ()
    _print(session, itertools.chain(found, more))


def _print(session: Session, messages: Iterable[Any]) -> None:
    if session.out.is_document:
        session.out.value([dict(message) for message in messages])
        return
    for message in messages:
        if session.out.format is Format.NDJSON:
            session.out.line(dict(message))
        else:
            words = (
                _in_milliseconds(message["createdAt"]),
                message["partition"],
                cell(message["data"]),
            )
            say("  ".join(words))


def _in_milliseconds(time: str) -> str:
    """Return a time in the form that lists have, too. Pops have microseconds."""
    whole, dot, rest = time.removesuffix("Z").partition(".")
    return f"{whole}.{rest[:3]}Z" if dot and time.endswith("Z") else time


class _Place:
    """A queue, or one of its partitions, that a group reads."""

    def __init__(self, session: Session, queue: str, partition: str | None) -> None:
        self._session = session
        self._queue = queue
        self._partition = partition
        #: What the first pop of an own group gave.
        self._first: list[Any] = []

    @contextlib.contextmanager
    def own_group(self, start: str) -> Iterator[str]:
        """Yield a group of this command alone, and delete it afterwards."""
        from queenmq.client.errors import RequestFailed, ServerBusy

        name = f"queen-tail-{random_uuid()}"
        is_refused = False
        try:
            try:
                # The first pop fixes the start.
                self._first = self._pop(name, wait=False, start=start)
            except RequestFailed as error:
                # An overloaded server may have started the pop.
                is_refused = not isinstance(error, ServerBusy)
                raise
            yield name
        finally:
            if not is_refused:
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
            yield from insist(self._session, lambda: self._pop(group, wait=True))

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
