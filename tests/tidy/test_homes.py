"""Each kind of side effect has one home; everyone else is handed its result."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.tidy.repo import (
    assert_none,
    dotted_uses,
    imported_modules,
    is_within,
    parse,
    select_files,
)

SRC = "src/queenmq/"

#: Rule, names it covers, where it holds, and the files (or folders/) that are exempt.
HOMES = {
    "the environment is read in settings": (
        {"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv"},
        SRC,
        # Spark's launcher takes its Java and Python from the environment, and from nowhere else.
        [SRC + "settings.py", SRC + "spark/runtime/java.py"],
    ),
    "only the command line prints": ({"print"}, SRC, [SRC + "cli/"]),
    "the wall clock is read in clock": (
        {
            "time.time",
            "time.time_ns",
            "datetime.date.today",
            "datetime.datetime.now",
            "datetime.datetime.today",
            "datetime.datetime.utcnow",
        },
        SRC,
        [SRC + "clock.py"],
    ),
    "only these modules sleep; others wait for an event with a deadline": (
        {"asyncio.sleep"},
        SRC,
        [
            SRC + "clock.py",
            # Between two pushes: the demo is to be watched.
            SRC + "cli/demo/traffic.py",
            SRC + "client/http/retry.py",
            # Nobody announces that a row lock has gone.
            SRC + "engine/calls/lock_queues.py",
            SRC + "engine/queued_pushes/processor.py",
            SRC + "engine/pop/calls.py",
            # One sweep for the time limits of all connections.
            SRC + "server/edge/crowd.py",
            # Lets others work between two slices.
            SRC + "server/metering/scrape.py",
            # The last pushes of a spool may be drained by another process.
            SRC + "engine/push/spooling.py",
            # Between two tries at a database that answers but fails.
            SRC + "engine/queued_pushes/spool_drain.py",
            SRC + "server/wiring/joining.py",
            # Between two questions to a server that is not the primary yet.
            SRC + "storage/connection/connecting.py",
            # A turn of the loop.
            SRC + "storage/connection/database.py",
            # Between two looks at the other hosts.
            SRC + "storage/connection/primary_watch.py",
            SRC + "storage/connection/outage.py",
            # Between two looks at files, which nobody announces to change.
            SRC + "server/tls/certificates.py",
            # Between two batches, so that pushes and pops come first.
            SRC + "storage/schema/reencryption.py",
            # Between two removals, so that pushes stay as fast as they are.
            SRC + "services/idle_partitions.py",
            # Brokers look at the switches once a second; between two notes of a move's progress.
            SRC + "storage/moving/mover.py",
            SRC + "server/routes/admin/moving.py",
            SRC + "services/retention.py",
            SRC + "services/periodic.py",
            SRC + "storage/connection/wake_listener.py",
        ],
    ),
    # Another process's start, stop or file lock gives no event to wait for.
    "only these modules block a thread": (
        {"time.sleep"},
        SRC,
        [SRC + "clock.py", SRC + "storage/embedded/"],
    ),
    "tests wait through tests/support": (
        {"asyncio.sleep", "time.sleep", "anyio.sleep", "uvloop.sleep"},
        "tests/",
        ["tests/support/"],
    ),
}

#: A string that is the beginning of a SQL statement. Upper case only: prose says "Select a queue".
STATEMENT = re.compile(
    r"\s*(?:SELECT\s|INSERT\s+INTO\b|UPDATE\s+[\w.\"{]+\s+SET\b|DELETE\s+FROM\b|MERGE\s+INTO\b"
    r"|WITH\s+(?:RECURSIVE\s+)?\w+[^:;]*\bAS\b|TRUNCATE\s|COPY\s|CALL\s|LISTEN\s|NOTIFY\s"
    r"|(?:CREATE|ALTER|DROP)\s+(?:OR|UNIQUE|TABLE|INDEX|VIEW|SCHEMA|DATABASE|ROLE|USER|TYPE"
    r"|FUNCTION|PROCEDURE|TRIGGER|SEQUENCE|EXTENSION|MATERIALIZED|TEMP|UNLOGGED)\b)"
)

#: The engine's modules that may wait and do I/O. Every other one decides, from its arguments alone.
ENGINE_SHELLS = {
    "ack/entry",
    "ack/leases",
    "ack/service",
    "calls/dispatcher",
    "calls/entry",
    "calls/batched_calls",
    "calls/lock_queues",
    "calls/pace",
    "catalogue",
    "lifecycle",
    "load/manager",
    "maintenance",
    "pop/calls",
    "pop/desk",
    "pop/preflight",
    "pop/service",
    "push/entry",
    "push/service",
    "push/spooling",
    "queued_pushes/accepted_pushes",
    "queued_pushes/processor",
    "queued_pushes/spool_drain",
    "streams/entry",
    "streams/error_notes",
    "streams/reads",
    "transactions",
}
IMPURE = {"asyncio", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}
#: The engine may use msgspec Structs; bytes and JSON are the edge's business.
ENCODERS = {"msgspec.json", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml"}


@pytest.mark.parametrize("rule", HOMES)
def test_side_effects_stay_at_home(rule: str) -> None:
    names, where, homes = HOMES[rule]
    assert_none(_uses_outside(names, where, homes), rule=rule)


def test_sql_lives_in_storage() -> None:
    """The data source has SQL files of its own, in spark/sql; no other Python holds any."""
    assert_none(
        (
            f"{name}:{line}: {text}"
            for name in select_files(under=SRC, suffix=".py")
            if not name.startswith(SRC + "storage/")
            for text, line in _strings(parse(name))
            if STATEMENT.match(text)
        ),
        rule="SQL lives in storage",
    )


def test_sql_files_lie_in_storage_or_spark() -> None:
    homes = [SRC + "storage/sql/", SRC + "spark/sql/"]
    assert_none(
        (n for n in select_files(under=SRC, suffix=".sql") if not is_within(n, homes)),
        rule="SQL files lie below storage/sql or spark/sql",
    )


def test_engine_deciders_do_no_input_or_output() -> None:
    assert_none(
        (
            f"{name}:{line}: {module}"
            for name in select_files(under=SRC + "engine/", suffix=".py")
            if name.removeprefix(SRC + "engine/").removesuffix(".py") not in ENGINE_SHELLS
            for module, line in imported_modules(parse(name))
            if module.partition(".")[0] in IMPURE
        ),
        rule=f"in engine/ only {', '.join(sorted(ENGINE_SHELLS))} wait, read clocks or do I/O",
    )


def test_engine_encodes_nothing() -> None:
    assert_none(
        (
            f"{name}:{line}: {used}"
            for name in select_files(under=SRC + "engine/", suffix=".py")
            for used, line in [*dotted_uses(parse(name)), *imported_modules(parse(name))]
            if any(used == encoder or used.startswith(encoder + ".") for encoder in ENCODERS)
        ),
        rule="the engine sees decoded values only",
    )


def _uses_outside(names: set[str], where: str, homes: Iterable[str]) -> Iterator[str]:
    for name in select_files(under=where, suffix=".py"):
        if not is_within(name, homes):
            for used, line in dotted_uses(parse(name)):
                if used in names:
                    yield f"{name}:{line}: {used}"


def _strings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each string literal and its line, docstrings and bare strings aside.

    An f-string comes out once and whole, with `{}` for each of its values.
    """
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(piece) for piece in node.values}
            pieces = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
            yield "".join(map(str, pieces)), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in skipped:
                yield node.value, node.lineno
