"""`queen apply`: queues as a file describes them, with a look at the differences first."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from queenmq.cli.display.output import format_count
from queenmq.cli.display.safe import printable, say
from queenmq.cli.exits import FOUND, UsageProblem
from queenmq.cli.queues import options as queue_options
from queenmq.cli.queues.queues import find_queue
from queenmq.cli.session import Session, Yes, confirm


class Change(NamedTuple):
    """A change to one queue. An existing queue has old values."""

    queue: str
    is_new: bool
    wanted: dict[str, Any]
    differences: dict[str, tuple[Any, Any]]

    def lines(self) -> list[str]:
        """Format the change as lines of a diff."""
        if self.is_new:
            shown = [f"    {name} = {new}" for name, (_, new) in self.differences.items()]
            return [f"+ {self.queue}", *shown]
        return [
            f"~ {self.queue}",
            *(
                f"    {name}: {queue_options.shown(old)} -> {queue_options.shown(new)}"
                for name, (old, new) in self.differences.items()
            ),
        ]

    def row(self) -> dict[str, Any]:
        """Return the change for programs."""
        values = {
            name: {"before": None if self.is_new else old, "after": new}
            for name, (old, new) in self.differences.items()
        }
        return {
            "queue": self.queue,
            "action": "create" if self.is_new else "configure",
            "changes": values,
        }


def apply(
    session: Session,
    file: Annotated[Path, typer.Option("--file", "-f", help="TOML, a table per queue.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; exit with 6 if something differs.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Create and configure queues from a file. A second run changes nothing.

    The file has a table [queues.NAME] per queue with namespace, task and options such as
    lease_time = 60. An option that is left out has its default. Queues that the file does not
    name are left alone.

    Example: queen apply -f queues.toml --yes
    """
    changes = [
        change
        for name, wanted in read(file).items()
        if (change := _compare(session, name, wanted)).differences or change.is_new
    ]
    if session.out.is_human:
        for change in changes:
            say("\n".join(printable(line) for line in change.lines()))
    if changes and not dry_run:
        confirm(f"Change {format_count(len(changes), 'queue')} on {session.server.url}?", yes=yes)
        _carry_out(session, changes)
    word = "would change" if dry_run else "changed"
    text = f"{word} {format_count(len(changes), 'queue')}" if changes else "nothing to change"
    session.out.done(text, [change.row() for change in changes])
    if changes and dry_run:
        raise typer.Exit(FOUND)


def read(file: Path) -> dict[str, dict[str, Any]]:
    """Return every queue of the file with all its options, namespace and task."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageProblem(f"file {file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageProblem(f"file {file} is not valid TOML: {error}") from None
    queues = table.pop("queues", {})
    if table or not isinstance(queues, dict) or not queues:
        raise UsageProblem(f"file {file} may only contain tables [queues.NAME]")
    return {name: _parse_queue(f"{file}, queue {name!r}", given) for name, given in queues.items()}


def _parse_queue(where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageProblem(f"{where} must be a table of options, not {given!r}")
    places = {name: given.get(name, "") for name in queue_options.PLACES}
    for name, value in places.items():
        if not isinstance(value, str):
            raise UsageProblem(f"{where}: {name} cannot be {value!r}; use text")
    rest = {name: value for name, value in given.items() if name not in places}
    try:
        options = {
            queue_options.wire_name_of(name): queue_options.check_option(name, value)
            for name, value in rest.items()
        }
    except UsageProblem as error:
        raise UsageProblem(f"{where}: {error}") from None
    return {**places, **queue_options.with_defaults(options)}


def _compare(session: Session, name: str, wanted: dict[str, Any]) -> Change:
    found = find_queue(session, name)
    defaults = {**dict.fromkeys(queue_options.PLACES, ""), **queue_options.with_defaults({})}
    before: Mapping[str, Any] = defaults if found is None else {**found, **found.options}
    return Change(name, found is None, wanted, queue_options.changes(before, wanted))


def _carry_out(session: Session, changes: list[Change]) -> None:
    from queenmq.errors import QueenError

    for done, change in enumerate(changes):
        try:
            session.queen.create_queue(change.queue, **change.wanted)
        except QueenError:
            session.out.note(f"{done} of {len(changes)} queues were changed before this")
            raise
