"""Other releases to run beside this one: the next one, made up, and the first one, real."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import queenmq
from queenmq.storage.schema.level import LEVEL, RELEASED
from queenmq.storage.sql_files import load_folder
from tests.support.broker import SOON_S

#: The last commit of release 0.1.0, which knew no schema levels.
_FIRST_COMMIT = "3ee704d325662c76aee9bde04c2f7454595c1396"
_HERE = Path(queenmq.__file__).parent
NEXT_LEVEL = LEVEL + 1
NEXT_RELEASE = "99.0.0"


def make_next_release(home: Path) -> Path:
    """Write a release after this one to a directory; what PYTHONPATH has to be to run it.

    It has both kinds of migrations, and each kind of change that a hot function may go through: one
    more argument with a default, one without, another name.
    """
    package = home / "queenmq"
    shutil.copytree(_HERE, package, ignore=shutil.ignore_patterns("__pycache__"))
    last = len(load_folder("migrations"))
    sql = package / "storage" / "sql"
    _edit(package / "version.py", r'VERSION = "[^"]+"', f'VERSION = "{NEXT_RELEASE}"')
    _edit(
        package / "storage" / "schema" / "level.py",
        r"RELEASED = \(.*\)",
        f"RELEASED = {(*RELEASED, last)}",
    )
    (sql / "migrations" / f"{last + 1:04}_pre_add_note.sql").write_text(
        "ALTER TABLE queen.queues ADD COLUMN note text;\n"
    )
    (sql / "migrations" / f"{last + 2:04}_post_fill_note.sql").write_text(
        "UPDATE queen.queues SET note = '' WHERE note IS NULL;\n"
        "ALTER TABLE queen.queues ALTER COLUMN note SET NOT NULL,"
        " ALTER COLUMN note SET DEFAULT '';\n"
    )
    functions, calls = sql / "functions", sql / "queries" / "calls.sql"
    _edit(
        functions / "push/push_messages.sql",
        r"(p_origins uuid\[\] DEFAULT NULL),",
        r"\1, p_note text DEFAULT NULL,",
    )
    _edit(calls, r"(queen\.push_messages\([^)]*)\)", r"\1, 'note')")
    _edit(
        functions / "pop/pop_messages_batch.sql",
        r"(p_apart_count integer) DEFAULT NULL,\s+(p_lease_seconds integer\[\]) DEFAULT NULL",
        r"\1, \2, p_note text",
    )
    _edit(calls, r"(queen\.pop_messages_batch\([^)]*)\)", r"\1, 'note')")
    acks = functions / "ack/settle_messages.sql"
    (functions / "ack/ack_messages.sql").rename(acks)
    for path in (acks, functions / "transactions/commit_transaction.sql", calls):
        _edit(path, r"queen\.ack_messages\(", "queen.settle_messages(")
    return home


def make_first_release(home: Path) -> Path | None:
    """Write the sources of release 0.1.0 to a directory; None without the history of this one."""
    archive = subprocess.run(
        ["git", "-C", str(_HERE.parents[1]), "archive", _FIRST_COMMIT, "src/queenmq"],
        capture_output=True,
        timeout=SOON_S,
    )
    if archive.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(home, filter="data")
    return home / "src"


def run_command(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `queen` of a release to its end."""
    return subprocess.run(
        [sys.executable, "-m", "queenmq", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(path)},
        timeout=2 * SOON_S,
    )


def _edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text())
    assert count > 0, f"{path.name} has no {pattern}"
    path.write_text(text)
