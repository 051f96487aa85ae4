"""`queen push`: messages from arguments, a file or a pipe."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
import typer

from queenmq import wire
from queenmq.cli.display.output import format_count, progress, value_at
from queenmq.cli.display.safe import say
from queenmq.cli.exits import UsageProblem
from queenmq.cli.messages import ndjson
from queenmq.cli.messages.ndjson import Line
from queenmq.cli.session import QueueName, Session
from queenmq.errors import QueenError


class Shape(msgspec.Struct, frozen=True):
    """The way in which lines become messages."""

    queue: str
    partition: str | None
    transaction_id: str | None
    key_field: str | None
    id_field: str | None

    def item(self, line: Line) -> dict[str, Any]:
        """Return the item of a push. Its payload is sent byte for byte as it came."""
        item: dict[str, Any] = {"data": msgspec.Raw(line.content)}
        if self.key_field is not None:
            item["partition"] = _field(line, self.key_field)
        if self.id_field is not None:
            item["transactionId"] = _field(line, self.id_field)
        elif self.transaction_id is not None:
            item["transactionId"] = self.transaction_id
        return item


def push(
    session: Session,
    queue: QueueName,
    payloads: Annotated[
        list[str] | None, typer.Argument(metavar="PAYLOAD", help="JSON, one per message.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="Lines of JSON; - is standard input.")
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option("--partition", "-p", help="The partition to push to.", show_default="Default"),
    ] = None,
    transaction_id: Annotated[
        str | None,
        typer.Option(help="A name for the one message; a partition stores each name once."),
    ] = None,
    key_field: Annotated[
        str | None, typer.Option(help="Take the partition from this field, such as customer.id.")
    ] = None,
    id_field: Annotated[
        str | None, typer.Option(help="Take the transaction id from this field.")
    ] = None,
    text: Annotated[bool, typer.Option(help="Payloads are plain text, not JSON.")] = False,
) -> None:
    """Push messages: JSON arguments, or lines of JSON from a file or standard input.

    Lines are sent as they arrive, in order, up to 500 at once. After a bad line nothing is sent;
    what came before it is pushed. A field as transaction id makes it safe to push a file again.

    Example: queen push orders '{"total": 5}' --partition customer-42

    Example: printf '{"id":"a"}\\n{"id":"b"}\\n' | queen push orders --key-field id
    """
    if payloads and file is not None:
        raise UsageProblem("payloads and --file exclude each other; pass one of them")
    if partition == "":
        raise UsageProblem("--partition must not be empty; leave it out for Default")
    if key_field is not None and partition is not None:
        raise UsageProblem("--partition and --key-field exclude each other; pass one of them")
    if transaction_id is not None and (len(payloads or ()) != 1 or id_field is not None):
        raise UsageProblem("--transaction-id is for one payload; use --id-field for more")
    shape = Shape(queue, partition, transaction_id, key_field, id_field)
    run = _Run(session, shape)
    if payloads:
        run.push(_arguments(payloads, is_text=text))
    else:
        _push_lines(run, file, is_text=text)
    run.report()


def _push_lines(run: _Run, file: str | None, *, is_text: bool) -> None:
    with ndjson.open_input(file) as stream, progress() as bar:
        size = os.fstat(stream.fileno()).st_size if file not in (None, "-") else None
        task = bar.add_task("pushing", total=size, note="")

        def on_bytes(count: int) -> None:
            bar.update(task, advance=count, note=f"{run.total} messages")

        try:
            for batch in ndjson.batches(stream, is_text=is_text, on_bytes=on_bytes):
                run.push(batch)
        except BaseException as error:
            bar.stop()
            run.stopped_by(error)
            raise


class _Run:
    """One use of the command: sends batches, counts their results."""

    def __init__(self, session: Session, shape: Shape) -> None:
        self._session = session
        self._shape = shape
        self._counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._counts.total()

    def push(self, lines: Sequence[Line]) -> None:
        from queenmq.client.errors import PushFailed

        items = []
        problem: UsageProblem | None = None
        for line in lines:
            try:
                items.append(self._shape.item(line))
            except UsageProblem as error:
                problem = error
                break
        try:
            results = self._session.queen.push(
                self._shape.queue, items, partition=self._shape.partition
            )
        except PushFailed as error:
            self._note(one for one in error.results if one.status != "failed")
            raise
        self._note(results)
        if problem is not None:
            raise problem

    def _note(self, results: Iterable[wire.PushResult]) -> None:
        for result in results:
            self._counts[result.status] += 1
            if self._session.out.format == "ndjson":
                self._session.out.line(dict(result))

    def stopped_by(self, error: BaseException) -> None:
        """Say how far it came, so that one can go on from there."""
        was = "was" if self.total == 1 else "were"
        how = f"{format_count(self.total, 'message')} {was} pushed before"
        if isinstance(error, UsageProblem):
            error.args = (f"{error}; {how} it",)
        elif isinstance(error, QueenError | KeyboardInterrupt):
            say(f"queen: {how} this", is_error=True)

    def report(self) -> None:
        """Print the sums."""
        if self._session.out.format == "ndjson":
            return
        names = ("queued", "duplicate", "buffered")
        sums = {"pushed": self.total - self._counts["duplicate"]}
        sums |= {name: self._counts[name] for name in names}
        text = f"pushed {format_count(sums['pushed'], 'message')} to {self._shape.queue}"
        if sums["buffered"]:
            text += f" ({sums['buffered']} buffered: accepted, and stored later)"
        if sums["duplicate"]:
            was = "was a duplicate" if sums["duplicate"] == 1 else "were duplicates"
            text += f"; {sums['duplicate']} {was}, stored before under the same transaction id"
        self._session.out.done(text, sums)


def _arguments(payloads: Sequence[str], *, is_text: bool) -> list[Line]:
    return list(_parsed(payloads, is_text=is_text))


def _parsed(payloads: Sequence[str], *, is_text: bool) -> Iterator[Line]:
    for number, payload in enumerate(payloads, start=1):
        content = msgspec.json.encode(payload) if is_text else payload.encode()
        try:
            yield Line.of(number, content)
        except msgspec.DecodeError as error:
            raise UsageProblem(
                f"payload {number} {payload!r:.60} is not JSON ({error}); quote"
                " text as JSON, or pass --text"
            ) from None


def _field(line: Line, path: str) -> str:
    value = value_at(line.value, path, missing=msgspec.UNSET)
    if value is msgspec.UNSET:
        raise UsageProblem(f"line {line.number} has no field {path!r}; name one that it has")
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UsageProblem(
            f"line {line.number} has {msgspec.json.encode(value).decode()} in field {path!r};"
            " it must be text or a whole number"
        )
    return str(value)
