"""`queen pop` and `queen ack`: take messages, and ack them."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from queenmq import wire
from queenmq.cli.display.output import Column, format_count
from queenmq.cli.display.times import parse_duration, when
from queenmq.cli.exits import NothingThere, NotNow, UsageProblem
from queenmq.cli.messages import ndjson
from queenmq.cli.messages.ndjson import Line
from queenmq.cli.operate.switches import read_switches
from queenmq.cli.session import QueueName, Session
from queenmq.errors import QueenError

Group = Annotated[
    str | None, typer.Option("--group", "-g", help="Consumer group.", show_default="the default")
]
Partition = Annotated[str | None, typer.Option("--partition", "-p", help="Only this partition.")]

MESSAGE_COLUMNS = [
    Column("partition", "PARTITION"),
    Column("transactionId", "TRANSACTION ID"),
    Column("createdAt", "CREATED", when),
    Column("retryCount", "RETRIES", rank=1),
    Column("data", "DATA", is_text=True),
]


class Status(enum.StrEnum):
    """The result of a message."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRY = "retry"
    DLQ = "dlq"


def pop(
    session: Session,
    queue: QueueName,
    group: Group = None,
    partition: Partition = None,
    batch: Annotated[
        int, typer.Option("--batch", "-n", min=1, help="Take at most this many messages.")
    ] = 1,
    partitions: Annotated[
        int, typer.Option(min=1, help="Take them from at most this many partitions.")
    ] = 1,
    wait: Annotated[
        str | None, typer.Option(help="Wait this long if there is nothing, such as 30s.")
    ] = None,
    ack: Annotated[
        bool, typer.Option("--ack", help="Ack the messages once they are printed.")
    ] = False,
    auto_ack: Annotated[
        bool, typer.Option("--auto-ack", help="Let the server ack before it answers: at most once.")
    ] = False,
) -> None:
    """Take messages and print them. Exit code 3 when there are none.

    Without --ack they are leased, and are redelivered when the lease expires. Pipe the output of -o
    ndjson into queen ack to ack them.

    Example: queen pop orders --group audit --batch 10 --ack

    Example: queen pop orders --group audit2 -n 5 -o ndjson | queen ack
    """
    if ack and auto_ack:
        raise UsageProblem("--ack and --auto-ack exclude each other; pass one of them")
    messages = session.queen.pop(
        queue,
        group=group,
        partition=partition,
        batch=batch,
        partitions=partitions,
        wait=wait is not None,
        timeout_ms=int(parse_duration(wait or "0") * 1000),
        auto_ack=auto_ack,
    )
    if not messages:
        session.require_queue(queue)
        if read_switches(session).pop_maintenance_mode:
            raise NotNow(
                "pops are paused on all brokers; resume them with queen maintenance off --pops"
            )
        raise NothingThere(_why_nothing(session, queue, partition, group))
    session.out.rows((dict(one) for one in messages), MESSAGE_COLUMNS)
    if ack:
        _check(session.queen.ack(messages).results)


def _why_nothing(session: Session, queue: str, partition: str | None, group: str | None) -> str:
    from queenmq.client.errors import ResourceNotFound

    words = [queue]
    if partition is not None:
        try:
            session.queen.admin.get_partition(queue, partition)
        except ResourceNotFound:
            return f"queue {queue!r} has no partition {partition!r} yet; check its name"
        words.append(partition)
    words += [] if group is None else ["--group", group]
    return f"queue {queue!r} has nothing to pop now; queen why {shlex.join(words)} says why"


def ack(
    session: Session,
    transaction_id: Annotated[
        str | None, typer.Argument(metavar="TRANSACTION_ID", help="The message's transaction id.")
    ] = None,
    partition_id: Annotated[str | None, typer.Option(help="The message's partition id.")] = None,
    lease_id: Annotated[
        str | None,
        typer.Option(help="The message's lease id. Without it the lease is not checked."),
    ] = None,
    group: Group = None,
    status: Annotated[
        Status, typer.Option(help="How handling the message ended.")
    ] = Status.COMPLETED,
    error: Annotated[
        str | None, typer.Option(help="Why it failed; kept with a dead letter.")
    ] = None,
) -> None:
    """Ack a message by its ids, or the messages that queen pop -o ndjson prints, from a pipe.

    Example: queen pop orders --group audit3 -o ndjson | queen ack --status failed --error why
    """
    if transaction_id is None:
        given = {"--partition-id": partition_id, "--lease-id": lease_id}
        if any(given.values()):
            raise UsageProblem("--partition-id and --lease-id need the TRANSACTION_ID")
        batches = _messages()
    elif partition_id is None:
        raise UsageProblem("--partition-id is missing; a message is named by both of its ids")
    else:
        one = {"transactionId": transaction_id, "partitionId": partition_id, "leaseId": lease_id}
        batches = iter([[one]])
    results: list[wire.AckResult] = []
    for batch in batches:
        results += session.queen.ack(batch, status.value, group=group, error=error).results
    if not results:
        raise NothingThere("standard input has no messages to ack")
    _check(results)
    session.out.done(f"{_PAST[status]} {format_count(len(results), 'message')}", results)


_PAST = {
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.RETRY: "gave back",
    Status.DLQ: "dead-lettered",
}


def _messages() -> Iterator[list[dict[str, Any]]]:
    with ndjson.open_input(None) as stream:
        for batch in ndjson.batches(stream, is_message=True):
            yield [_message(line) for line in batch]


def _message(line: Line) -> dict[str, Any]:
    value = line.value
    if not isinstance(value, dict) or not {"transactionId", "partitionId"} <= value.keys():
        raise UsageProblem(
            f"line {line.number} has no transactionId and partitionId;"
            " pipe in the output of queen pop -o ndjson"
        )
    return value


def _check(results: Sequence[wire.AckResult]) -> None:
    refused = [one for one in results if not one.success]
    if refused:
        raise QueenError(
            f"{len(refused)} of {len(results)} acks were refused;"
            f" the first was {refused[0].transaction_id}: {refused[0].error}"
        )
